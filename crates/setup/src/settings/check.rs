//! Checks well-formed settings for rules and hooks that would protect nothing.

use posse::Rules;
use posse_definitions::about_no_tool;

use super::project::ProjectFile;
use super::{Settings, WithOrigin};
use crate::Setup;
use crate::error::SetupError;
use crate::hooks;
use crate::notes::Note;

impl Settings {
    /// Refuses rules about tools that do not exist, and hooks that could never be called.
    pub fn check(&self, setup: &Setup) -> Result<(), SetupError> {
        are_about_tools(self.rules.as_ref(), &setup.tool_names())?;
        hooks::runnable(self, setup.environment.home.as_deref()).map(drop)
    }
}

/// Refuses such rules in trusted files of the project. Those of other files become notes, like all their mistakes.
pub(super) fn project_rules(
    layers: &[WithOrigin<Rules>],
    files: &[ProjectFile],
    setup: &Setup,
) -> Result<Vec<Note>, SetupError> {
    let mut notes = Vec::new();
    for rules in layers {
        let is_trusted = files.iter().any(|file| file.is_trusted() && file.has(&rules.origin));
        match are_about_tools(Some(rules), &setup.tool_names()) {
            Err(error) if !is_trusted => {
                notes.push(Note::warning(format!("{}; that rule protects nothing", error.message())));
            }
            checked => checked?,
        }
    }
    Ok(notes)
}

/// Refuses rules about tools that do not exist, as for flags with the same patterns.
fn are_about_tools(rules: Option<&WithOrigin<Rules>>, tools: &[&str]) -> Result<(), SetupError> {
    let Some(WithOrigin { value, origin }) = rules else { return Ok(()) };
    match value.iter().find_map(|rule| about_no_tool(&rule.pattern, tools)) {
        Some(problem) => Err(SetupError::usage(format!("{origin}: rules: {problem}"))),
        None => Ok(()),
    }
}
