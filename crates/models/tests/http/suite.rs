//! What every model behind HTTP does, whatever it speaks: the same cases for each format, over real connections to the
//! mock server. A test of the testkit's package, because the server lives there.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod cuts;
mod faults;
mod keys;
mod replies;
mod silence;
mod support;
