//! The hooks of the settings, ready to be run.

use std::path::{Path, PathBuf};
use std::time::Duration;

use posse::Definitions;
use posse::hooks::{HOOK_TIMEOUT_DEFAULT, HOOK_TIMEOUT_MAX, HOOKS_MAX, Hook, Matcher};
use posse::ports::Moment;
use posse_agent::definition::is_no_tool;
use posse_domain::nearest::{hint, nearest};
use posse_domain::permission::protected;

use crate::context::Context;
use crate::error::CliError;
use crate::found::Found;
use crate::settings::Settings;
use crate::settings::hooks::Hook as Written;

/// Beginnings of a word that stand for the home directory.
const HOMES: [&str; 3] = ["~/", "$HOME/", "${HOME}/"];
/// Beginnings of a word that stand for the workspace, in which a hook starts.
const WORKSPACES: [&str; 3] = ["$CLAUDE_PROJECT_DIR/", "${CLAUDE_PROJECT_DIR}/", "/workspace/"];

/// What the settings say, checked: a hook that could never be heard is a mistake now and not at the first call.
pub(crate) fn runnable(settings: &Settings, home: Option<&Path>) -> Result<Vec<Hook>, CliError> {
    if settings.hooks.len() > HOOKS_MAX {
        return Err(CliError::usage(format!("hooks: there are more than {HOOKS_MAX}")));
    }
    settings.hooks.iter().map(|hook| checked(hook, home)).collect()
}

fn checked(written: &Written, home: Option<&Path>) -> Result<Hook, CliError> {
    let Written { moment, matcher, command, timeout_seconds, origin } = written;
    let wrong = |problem: String| CliError::usage(format!("{origin}: hooks.{}: {problem}", moment.name()));
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
        matcher: Matcher::parse(matcher.as_deref()).map_err(wrong)?,
        command: command.clone(),
        timeout,
        files: home.map(|home| files(command, home)).unwrap_or_default(),
        origin: origin.to_string(),
    })
}

/// What a person should know about hooks of a run in `dir`: an agent that can change a hook's script can make it agree
/// to anything. `root` is that of the project.
pub(crate) fn warnings(hooks: &[Written], dir: &Path, root: &Path) -> Vec<String> {
    let mut all = Vec::new();
    for hook in hooks {
        for file in words(&hook.command).filter(|word| is_changeable(word, dir, root)) {
            let warning = format!(
                "warning: {}: hooks.{}: `{file}` is in the workspace, where agents can change it; a script of a hook \
                 belongs beneath .posse",
                hook.origin,
                hook.moment.name(),
            );
            if !all.contains(&warning) {
                all.push(warning);
            }
        }
    }
    all
}

/// Whether a word of a command names a file of the project that is not protected, wherever its links lead.
fn is_changeable(word: &str, dir: &Path, root: &Path) -> bool {
    let beneath = WORKSPACES.iter().find_map(|start| word.strip_prefix(start)).unwrap_or(word);
    let file = Path::new(beneath);
    let Ok(file) = dir.join(file).canonicalize() else { return false };
    let of_project =
        file.strip_prefix(root).ok().filter(|_| file.is_file() && Path::new(beneath).is_relative());
    of_project.is_some_and(|path| protected(&path.to_string_lossy()).is_none())
}

/// Names in matchers that no tool or definition has, each as a warning: a hook that is never told of anything looks like
/// one that agrees.
pub(crate) fn unheard(settings: &Settings, context: &Context, definitions: &Definitions) -> Vec<String> {
    let tools = context.tool_names();
    let of_no_tool = |name: &str| is_no_tool(name, &tools);
    let of_no_definition = |name: &str| {
        let known = || definitions.names();
        let near = || hint(nearest(name, known()));
        (!known().any(|known| known == name)).then(|| format!("there is no definition `{name}`{}", near()))
    };
    let mut warnings = Vec::new();
    for Written { moment, matcher, origin, .. } in &settings.hooks {
        let Ok(matcher) = Matcher::parse(matcher.as_deref()) else { continue };
        let problem =
            |name: &String| if is_about_tools(*moment) { of_no_tool(name) } else { of_no_definition(name) };
        let problems = matcher.names().iter().filter_map(problem);
        for problem in problems {
            let moment = moment.name();
            let warning =
                format!("warning: {origin}: hooks.{moment}: {problem}, so the hook never hears of it");
            if !warnings.contains(&warning) {
                warnings.push(warning);
            }
        }
    }
    warnings
}

/// The same for whoever starts no run. Definitions are looked for only if a matcher may name one.
pub(crate) fn unheard_in(
    dir: &Path,
    settings: &Settings,
    context: &Context,
) -> Result<Vec<String>, CliError> {
    let about_definitions = |hook: &Written| !is_about_tools(hook.moment) && hook.matcher.is_some();
    let definitions = if settings.hooks.iter().any(about_definitions) {
        Definitions::builtin_and(Found::load(dir, None, context)?.and_given(&[]))
    } else {
        Definitions::builtin()
    };
    Ok(unheard(settings, context, &definitions))
}

/// Whether a matcher of this moment names tools, and not definitions.
fn is_about_tools(moment: Moment) -> bool {
    match moment {
        Moment::PreToolUse | Moment::PostToolUse => true,
        Moment::SubagentStart | Moment::SubagentStop => false,
    }
}

/// The words of a command, with what a shell puts between and around them left out.
fn words(command: &str) -> impl Iterator<Item = &str> {
    let separates = |c: char| {
        c.is_whitespace() || matches!(c, '"' | '\'' | ';' | '&' | '|' | '(' | ')' | '<' | '>' | '=')
    };
    command.split(separates).filter(|word| !word.is_empty())
}

/// The files in the home directory that a command names: programs do not see that directory, and scripts live there.
fn files(command: &str, home: &Path) -> Vec<PathBuf> {
    let whole = |word: &str| {
        let beneath = HOMES.iter().find_map(|start| word.strip_prefix(start));
        beneath.map_or_else(|| PathBuf::from(word), |rest| home.join(rest))
    };
    let mut files: Vec<PathBuf> =
        words(command).map(whole).filter(|path| path.starts_with(home) && path.is_file()).collect();
    files.sort();
    files.dedup();
    files
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
        let warned = |command: &str, dir: &Path| words(command).any(|word| is_changeable(word, dir, &root));
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

    #[test]
    fn scripts_in_the_home_directory_are_found_however_they_are_written() {
        let home = tempfile::tempdir().expect("a directory");
        let dir = home.path().join("hooks");
        std::fs::create_dir(&dir).expect("made");
        for name in ["a.sh", "b.py"] {
            std::fs::write(dir.join(name), "").expect("written");
        }
        let (a, b) = (dir.join("a.sh"), dir.join("b.py"));
        let whole = format!("{} --strict", a.display());
        for (command, expected) in [
            ("~/hooks/a.sh", vec![a.clone()]),
            ("\"$HOME/hooks/a.sh\" | python3 ${HOME}/hooks/b.py", vec![a.clone(), b.clone()]),
            ("CONFIG=~/hooks/b.py ~/hooks/a.sh; ~/hooks/a.sh", vec![a.clone(), b]),
            (whole.as_str(), vec![a]),
            ("~/hooks ~/hooks/none.sh /etc/passwd ./check.sh", Vec::new()),
        ] {
            assert_eq!(files(command, home.path()), expected, "{command}");
        }
    }
}
