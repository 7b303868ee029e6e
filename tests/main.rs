//! End-to-end stories: one binary, one file for each.
