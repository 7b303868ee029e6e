//! What can be wrong with settings that are well written: rules and hooks that would protect nothing.

use posse::Rules;
use posse_agent::definition::about_no_tool;

use super::project::ProjectFile;
use super::{Settings, WithOrigin};
use crate::Setup;
use crate::error::SetupError;
use crate::hooks;

impl Settings {
    /// Refuses rules about tools that do not exist, and hooks that could never be heard.
    pub fn check(&self, setup: &Setup) -> Result<(), SetupError> {
        are_about_tools(self.rules.as_ref(), &setup.tool_names())?;
        hooks::runnable(self, setup.environment.home.as_deref()).map(drop)
    }
}

/// Refuses such rules of the project's files that the person trusts; those of others are told like every mistake of theirs.
pub(super) fn project_rules(
    layers: &[WithOrigin<Rules>],
    files: &[ProjectFile],
    setup: &Setup,
) -> Result<Vec<String>, SetupError> {
    let mut notes = Vec::new();
    for rules in layers {
        let is_trusted = files.iter().any(|file| file.is_trusted() && file.has(&rules.origin));
        match are_about_tools(Some(rules), &setup.tool_names()) {
            Err(error) if !is_trusted => {
                notes.push(format!("warning: {}; that rule protects nothing", error.message()));
            }
            checked => checked?,
        }
    }
    Ok(notes)
}

/// Refuses rules about tools that do not exist, as flags with the same patterns are.
fn are_about_tools(rules: Option<&WithOrigin<Rules>>, tools: &[&str]) -> Result<(), SetupError> {
    let Some(WithOrigin { value, origin }) = rules else { return Ok(()) };
    match value.iter().find_map(|rule| about_no_tool(&rule.pattern, tools)) {
        Some(problem) => Err(SetupError::usage(format!("{origin}: rules: {problem}"))),
        None => Ok(()),
    }
}
