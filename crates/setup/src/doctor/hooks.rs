//! Reports which hooks run here.

use posse::api::CheckStatus as Status;

use super::{MachineFinding, hint, not_checked, passed, short};
use crate::Setup;
use crate::hooks::{missing_scripts, unused_matchers_in};
use crate::notes::Note;
use crate::settings::hooks::Hook;
use crate::settings::{Origin, ResolvedSettings};

/// The number of hooks by file, and those that no call matches.
pub(super) fn hooks(setup: &Setup) -> MachineFinding {
    let (name, cwd) = ("hooks", &setup.environment.cwd);
    let Ok(resolved) = ResolvedSettings::of(setup, cwd) else {
        return not_checked(name);
    };
    let mut value = counted(&resolved.settings.hooks).unwrap_or_else(|| "none".to_owned());
    let untrusted = resolved.project.iter().filter(|file| !file.is_trusted());
    let untrusted: Vec<Hook> = untrusted
        .filter_map(|file| file.settings.as_ref().ok())
        .flat_map(|settings| settings.hooks.clone())
        .collect();
    value.extend(counted(&untrusted).map(|inert| format!("; not trusted, so not run: {inert}")));
    let unused = unused_matchers_in(cwd, &resolved.settings, setup);
    let unused = unused.unwrap_or_else(|error| vec![Note::warning(error.message())]);
    let home = setup.environment.home.as_deref();
    let missing = missing_scripts(&resolved.settings.hooks, cwd, home);
    if unused.is_empty() && missing.is_empty() {
        return passed(name, value);
    }
    let problems: Vec<String> = missing.into_iter().chain(unused.into_iter().map(|note| note.text)).collect();
    short(name, Status::Note, value, hint(problems.join("; ")))
}

/// How many hooks each file has; `None` without hooks.
fn counted(hooks: &[Hook]) -> Option<String> {
    let mut files: Vec<(String, usize)> = Vec::new();
    for hook in hooks {
        let file = match &hook.origin {
            Origin::File { path, .. } => path.display().to_string(),
            other => other.to_string(),
        };
        match files.iter_mut().find(|(known, _)| *known == file) {
            Some((_, count)) => *count += 1,
            None => files.push((file, 1)),
        }
    }
    let files: Vec<String> = files.iter().map(|(file, count)| format!("{count} of {file}")).collect();
    (!files.is_empty()).then(|| files.join(", "))
}
