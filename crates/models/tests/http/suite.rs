//! The common behaviour of all models behind HTTP: the same cases for each format, over real connections to the mock
//! server. These tests belong to the testkit's package, because the server is there.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod cuts;
mod faults;
mod keys;
mod replies;
mod silence;
mod support;
