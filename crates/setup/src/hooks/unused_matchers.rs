//! Finds matchers that fit nothing: a hook that is never called seems to allow everything.

use std::path::Path;

use posse::Definitions;
use posse::hooks::Matcher;
use posse::ports::Moment;
use posse_definitions::is_no_tool;
use posse_domain::nearest::{hint, nearest};

use crate::Setup;
use crate::discovery::DiscoveryResult;
use crate::error::SetupError;
use crate::notes::Note;
use crate::settings::Settings;
use crate::settings::hooks::Hook as Written;

/// Part of the names of other servers' tools, which are unknown until the servers run.
const OF_SERVERS: &str = "__";

/// A warning for each matcher, or name in it, that fits no tool or definition.
pub fn unused_matchers(settings: &Settings, setup: &Setup, definitions: &Definitions) -> Vec<Note> {
    let tools = setup.tool_names();
    let mut warnings = Vec::new();
    for Written { moment, matcher: text, origin, .. } in &settings.hooks {
        let Ok(matcher) = Matcher::parse(*moment, text.as_deref()) else { continue };
        let text = text.as_deref().unwrap_or_default().trim();
        let problems = if moment.is_about_calls() {
            let names = matcher.names().iter().filter_map(|name| is_no_tool(name, &tools));
            names
                .map(|problem| never_of_it(&problem))
                .chain(no_tool_fits(*moment, text, &matcher, &tools))
                .collect()
        } else {
            no_definition_fits(text, &matcher, definitions)
        };
        for problem in problems {
            let warning = Note::warning(format!("{origin}: hooks.{}: {problem}", moment.name()));
            if !warnings.contains(&warning) {
                warnings.push(warning);
            }
        }
    }
    warnings
}

/// The same for a front end that starts no run. Definitions are discovered only if a matcher may name one.
pub fn unused_matchers_in(dir: &Path, settings: &Settings, setup: &Setup) -> Result<Vec<Note>, SetupError> {
    let about_definitions = |hook: &Written| !hook.moment.is_about_calls() && hook.matcher.is_some();
    let definitions = if settings.hooks.iter().any(about_definitions) {
        Definitions::builtin_and(DiscoveryResult::load(dir, None, setup)?.and_given(&[]))
    } else {
        Definitions::builtin()
    };
    Ok(unused_matchers(settings, setup, &definitions))
}

fn never_of_it(problem: &str) -> String {
    format!("{problem}, so the hook is never called")
}

/// The problem with an expression that matches no tool, or with a part of it that is a permission rule. Tools of other
/// servers are unknown until the servers run.
fn no_tool_fits(moment: Moment, text: &str, matcher: &Matcher, tools: &[&str]) -> Option<String> {
    let fits_none = |matcher: &Matcher| !tools.iter().any(|tool| matcher.matches(tool));
    if !matcher.is_expression() || text.contains(OF_SERVERS) {
        return None;
    }
    let is_dead = |part: &&str| {
        part.ends_with(')') && Matcher::parse(moment, Some(part)).is_ok_and(|matcher| fits_none(&matcher))
    };
    let dead = if fits_none(matcher) { Some(text) } else { parts(text).into_iter().find(is_dead) };
    dead.map(|dead| {
        let never = never_of_it(&format!("the expression `{dead}` fits the name of no tool"));
        format!("{never}{}", instead(Some(text)))
    })
}

/// The problems with names that no definition has, and with an expression that matches none of them.
fn no_definition_fits(text: &str, matcher: &Matcher, definitions: &Definitions) -> Vec<String> {
    if matcher.is_expression() {
        let fits_none = !definitions.names().any(|name| matcher.matches(name));
        let problem = || format!("the expression `{text}` fits the name of no definition");
        return fits_none
            .then(|| format!("{}{}", never_of_it(&problem()), instead(Some(text))))
            .into_iter()
            .collect();
    }
    let is_none = |name: &&String| !definitions.names().any(|known| known.eq_ignore_ascii_case(name));
    let problem = |name: &String| {
        never_of_it(&format!("unknown definition `{name}`{}", hint(nearest(name, definitions.names()))))
    };
    matcher.names().iter().filter(is_none).map(problem).collect()
}

/// Suggests a replacement for names in the form of permission rules and lists: a matcher does not read `Bash(git
/// push:*)` and `Bash, Write` as names.
pub(super) fn instead(text: Option<&str>) -> String {
    let text = text.unwrap_or_default().trim();
    let name = |part: &str| {
        let name =
            part.split_once('(').filter(|(_, rest)| rest.ends_with(')')).map_or(part, |(name, _)| name);
        let is_name = !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '-'));
        is_name.then(|| name.to_owned())
    };
    let mut names: Vec<String> = parts(text).into_iter().map_while(name).collect();
    if names.is_empty() || names.len() != parts(text).len() {
        return String::new();
    }
    names.dedup();
    format!("; a matcher has names alone, with `|` between them: write `{}`", names.join("|"))
}

/// The parts between `|` and `,` outside brackets.
fn parts(text: &str) -> Vec<&str> {
    let mut depth = 0_usize;
    let separates = |c: char| {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        depth == 0 && matches!(c, '|' | ',')
    };
    text.split(separates).map(str::trim).filter(|part| !part.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_looks_like_a_rule_or_a_list_is_said_as_a_matcher_would() {
        for (text, meant) in [
            ("Bash(git push:*)", "Bash"),
            ("Bash(*)", "Bash"),
            ("Bash(git push:*)|Write", "Bash|Write"),
            ("Bash(git add, git push), Bash(x|y), Write", "Bash|Write"),
            ("Bash, Write", "Bash|Write"),
            ("Bash,Write,", "Bash|Write"),
        ] {
            assert!(
                instead(Some(text)).ends_with(&format!("write `{meant}`")),
                "{text}: {}",
                instead(Some(text))
            );
        }
        for text in ["", "|", "^Bsh$", "(", "[z-a]", "a{99999999}", "Bash Write(x)"] {
            assert_eq!(instead(Some(text)), "", "{text}");
        }
    }
}
