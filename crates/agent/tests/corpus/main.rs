//! A few hundred definitions and skills as people write them: all load or warn exactly as expected, none hides another, and
//! none panics. Some are files, with what they are to be read as beside them; most are made from a table of styles and a
//! table of oddities.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod files;
mod made;
mod oddities;
mod promises;
mod styles;
