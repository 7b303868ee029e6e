//! The kind of workspaces that a run of the tests is about: that of the setting `workspace.kind`, whose variable the tests
//! pass on to the commands that they start.

use std::ffi::OsString;

/// The variable of the setting.
pub const VARIABLE: &str = "POSSE_WORKSPACE__KIND";
const COPIES: &str = "copies";

/// The variable with its value, for a process without the environment of this one.
#[expect(clippy::disallowed_methods, reason = "the only way to tell a test binary something")]
pub fn given() -> Option<(&'static str, OsString)> {
    std::env::var_os(VARIABLE).map(|kind| (VARIABLE, kind))
}

/// Whether workspaces are overlays.
pub fn are_overlays() -> bool {
    given().is_none_or(|(_, kind)| kind != COPIES)
}

/// The name of the directory with the files that an agent changed, in that of its attempt.
pub fn changed_dir() -> &'static str {
    if are_overlays() { "upper" } else { "files" }
}
