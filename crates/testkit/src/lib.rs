//! Fault points, scenario scripts and checkers for Posse's own tests.
