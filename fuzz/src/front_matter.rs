//! Reads whatever comes as a definition and as a skill, and checks what every reader promises. `cargo xtask fuzz` builds and
//! runs it; the files of the corpus test are where it begins.

#![no_main]

#[path = "../../crates/definitions/tests/corpus/promises.rs"]
mod promises;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| promises::kept(bytes));
