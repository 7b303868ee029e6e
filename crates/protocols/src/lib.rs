//! The servers of Posse for other programs. Their wire formats do not leave this crate.
//!
//! Like every front end, a server decides nothing that `posse_setup` decides. It takes its environment as a value, and
//! prints nothing.

#![warn(missing_docs)]

pub mod http;
