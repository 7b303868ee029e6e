//! Converts the hooks of the settings for a run, and warns about unsafe ones.

mod before_call;
mod missing_scripts;
mod reached_files;
mod unused_matchers;
mod words;

use std::path::Path;
use std::time::Duration;

use posse::hooks::{HOOK_TIMEOUT_DEFAULT, HOOK_TIMEOUT_MAX, HOOKS_MAX, Hook, Matcher};
use posse_domain::permission::protected;

pub(crate) use self::missing_scripts::missing_scripts;
use self::reached_files::beneath;
pub use self::reached_files::{ReachedFiles, reached};
pub use self::unused_matchers::{unused_matchers, unused_matchers_in};
use self::words::{files, words};
use crate::error::SetupError;
use crate::notes::Note;
use crate::settings::Settings;
use crate::settings::hooks::Hook as Written;
pub use before_call::hooks_before;

/// Prefixes of a word that refer to the workspace, in which a hook starts.
const WORKSPACES: [&str; 3] = ["$CLAUDE_PROJECT_DIR/", "${CLAUDE_PROJECT_DIR}/", "/workspace/"];

/// Checks and converts the hooks of the settings. A hook that could never be called is an error now, not at the first
/// call.
pub fn runnable(settings: &Settings, home: Option<&Path>) -> Result<Vec<Hook>, SetupError> {
    if settings.hooks.len() > HOOKS_MAX {
        return Err(SetupError::usage(format!("hooks: there are more than {HOOKS_MAX}")));
    }
    settings.hooks.iter().map(|hook| checked(hook, home)).collect()
}

fn checked(written: &Written, home: Option<&Path>) -> Result<Hook, SetupError> {
    let Written { moment, matcher, command, timeout_seconds, origin } = written;
    let wrong = |problem: String| SetupError::usage(format!("{origin}: hooks.{}: {problem}", moment.name()));
    if command.trim().is_empty() {
        return Err(wrong("the command is empty".to_owned()));
    }
    if command.contains('\0') {
        return Err(wrong("the command contains a NUL byte, which no program can be given".to_owned()));
    }
    let timeout =
        timeout_seconds.map_or(HOOK_TIMEOUT_DEFAULT, |seconds| Duration::from_secs(seconds.get().into()));
    if timeout > HOOK_TIMEOUT_MAX {
        let most = HOOK_TIMEOUT_MAX.as_secs();
        return Err(wrong(format!("a timeout is in seconds, and at most {most}")));
    }
    Ok(Hook {
        moment: *moment,
        matcher: Matcher::parse(*moment, matcher.as_deref())
            .map_err(|problem| wrong(format!("{problem}{}", unused_matchers::instead(matcher.as_deref()))))?,
        command: command.clone(),
        timeout,
        files: home.map(|home| files(command, home)).unwrap_or_default(),
        origin: origin.to_string(),
    })
}

/// Warnings about hooks of a run in `dir`: an agent that can change a hook's script can make it allow anything. `root`
/// is that of the project.
pub fn warnings(hooks: &[Written], dir: &Path, root: &Path) -> Vec<Note> {
    let mut all = Vec::new();
    for hook in hooks {
        for file in words(&hook.command).iter().filter(|word| is_changeable(word, dir, root)) {
            let warning = Note::warning(format!(
                "{}: hooks.{}: `{file}` is in the workspace, where agents can change it; a script of a hook belongs \
                 beneath .posse",
                hook.origin,
                hook.moment.name(),
            ));
            if !all.contains(&warning) {
                all.push(warning);
            }
        }
    }
    all
}

/// Whether a word of a command names a file of the project that is not protected, links resolved.
fn is_changeable(word: &str, dir: &Path, root: &Path) -> bool {
    let beneath = beneath(word);
    let file = Path::new(beneath);
    let Ok(file) = dir.join(file).canonicalize() else { return false };
    let of_project =
        file.strip_prefix(root).ok().filter(|_| file.is_file() && Path::new(beneath).is_relative());
    of_project.is_some_and(|path| protected(&path.to_string_lossy()).is_none())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_that_agents_can_change_is_found_however_it_is_written() {
        let dir = tempfile::tempdir().expect("a directory");
        let root = dir.path().canonicalize().expect("a path");
        for name in ["scripts/check.sh", ".posse/hooks/check.sh", "part/x"] {
            std::fs::create_dir_all(root.join(name).parent().expect("a folder")).expect("made");
            std::fs::write(root.join(name), "").expect("written");
        }
        std::os::unix::fs::symlink("../../scripts/check.sh", root.join(".posse/hooks/link.sh"))
            .expect("a link");
        let warned =
            |command: &str, dir: &Path| words(command).iter().any(|word| is_changeable(word, dir, &root));
        for command in [
            "./scripts/check.sh",
            "bash scripts/check.sh --strict",
            "\"$CLAUDE_PROJECT_DIR/scripts/check.sh\"",
            "CHECK=/workspace/scripts/check.sh; $CHECK",
            ".posse/../scripts/check.sh",
            ".posse/hooks/link.sh",
        ] {
            assert!(warned(command, &root), "{command}");
        }
        for command in [
            ".posse/hooks/check.sh",
            "npx prettier --write .",
            "~/hooks/check.sh",
            "scripts/none.sh",
            "ls scripts",
        ] {
            assert!(!warned(command, &root), "{command}");
        }
        assert!(warned("../scripts/check.sh", &root.join("part")));
        assert!(!warned("../.posse/hooks/check.sh", &root.join("part")));
    }
}
