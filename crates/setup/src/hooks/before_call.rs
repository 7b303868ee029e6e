//! Finds the hooks that are called before a tool, for front ends that explain what an agent may do.

use std::path::Path;

use posse::hooks::Matcher;
use posse::ports::Moment;

use crate::Setup;
use crate::error::SetupError;
use crate::settings::ResolvedSettings;
use crate::settings::hooks::Hook;

/// The origins of the hooks that are called before a tool in this directory, and may refuse the call: those of the user's
/// settings and of trusted files of the project. The matcher is the one that decides in a run.
pub fn hooks_before(tool: &str, dir: &Path, setup: &Setup) -> Result<Vec<String>, SetupError> {
    let resolved = ResolvedSettings::of(setup, dir)?;
    let is_called = |hook: &&Hook| {
        let matcher = Matcher::parse(hook.moment, hook.matcher.as_deref());
        hook.moment == Moment::PreToolUse && matcher.is_ok_and(|matcher| matcher.matches(tool))
    };
    let origins = resolved.settings.hooks.iter().filter(is_called).map(|hook| hook.origin.to_string());
    Ok(origins.collect())
}
