//! A few hundred definitions and skills in the styles of their users: all load or warn exactly as expected, none hides
//! another, and none panics. Some are files with their expected results beside them. Most are generated from a table of
//! styles and a table of oddities.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod files;
mod made;
mod oddities;
mod promises;
mod styles;
