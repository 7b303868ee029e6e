//! Finds the hooks that are called before a tool, for front ends that explain what an agent may do.

use std::path::Path;

use posse::api::HookCommand;
use posse::hooks::Matcher;
use posse::ports::Moment;

use crate::Setup;
use crate::error::SetupError;
use crate::settings::ResolvedSettings;
use crate::settings::hooks::Hook;

/// The hooks that are called before a tool in this directory, and can block the call: those of the user's settings and of
/// trusted files of the project; then those of files that the user does not trust, which do not run. The matcher is the
/// one that decides in a run.
pub fn hooks_before(tool: &str, dir: &Path, setup: &Setup) -> Result<Vec<HookCommand>, SetupError> {
    let resolved = ResolvedSettings::of(setup, dir)?;
    let is_called = |hook: &&Hook| {
        let matcher = Matcher::parse(hook.moment, hook.matcher.as_deref());
        hook.moment == Moment::PreToolUse && matcher.is_ok_and(|matcher| matcher.matches(tool))
    };
    let shown = |hook: &Hook, runs| HookCommand {
        origin: hook.origin.to_string(),
        command: hook.command.clone(),
        runs,
    };
    let running = resolved.settings.hooks.iter().filter(is_called).map(|hook| shown(hook, true));
    let untrusted = resolved.project.iter().filter(|file| !file.is_trusted());
    let untrusted =
        untrusted.filter_map(|file| file.settings.as_ref().ok()).flat_map(|settings| &settings.hooks);
    Ok(running.chain(untrusted.filter(is_called).map(|hook| shown(hook, false))).collect())
}
