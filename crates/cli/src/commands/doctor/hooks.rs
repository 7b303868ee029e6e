//! Which hooks hear of what agents do here.

use super::{Row, Status};
use crate::context::Context;
use crate::hooks::unheard_in;
use crate::settings::hooks::Hook;
use crate::settings::{Origin, ResolvedSettings};

/// How many there are, of which file, and which of them never hear of anything.
pub(super) fn hooks(context: &Context) -> Row {
    let (name, cwd) = ("hooks", &context.environment.cwd);
    let Ok(resolved) = ResolvedSettings::of(context, cwd) else {
        let remedy = "a line above says what is wrong with them";
        return Row::short(name, Status::Note, "unknown: the settings cannot be used", remedy);
    };
    let mut value = counted(&resolved.settings.hooks).unwrap_or_else(|| "none".to_owned());
    let untrusted = resolved.project.iter().filter(|file| !file.is_trusted());
    let untrusted: Vec<Hook> =
        untrusted.filter_map(|file| file.said.as_ref().ok()).flat_map(|said| said.hooks.clone()).collect();
    value.extend(counted(&untrusted).map(|inert| format!("; not trusted, so not run: {inert}")));
    let unheard =
        unheard_in(cwd, &resolved.settings, context).unwrap_or_else(|error| vec![error.message().to_owned()]);
    if unheard.is_empty() {
        return Row::ok(name, value);
    }
    let unheard: Vec<&str> = unheard.iter().map(|line| line.trim_start_matches("warning: ")).collect();
    Row::short(name, Status::Note, value, unheard.join("; "))
}

/// How many of them each file has; none if there are none.
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
