//! `hooks`: commands that hear of what agents do, and may object. In the shape that other tools use for theirs.

use std::num::NonZeroU32;
use std::path::Path;

use posse::ports::Moment;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Origin;
use super::located::WithLine;

/// Commands that hear of what agents do, and may object.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "hooks")]
pub(super) struct RawHooks {
    /// Before a tool is used; a hook may refuse the call.
    #[serde(rename = "PreToolUse", default)]
    pre_tool_use: Vec<WithLine<RawMatcher>>,
    /// After a tool was used; what a hook objects to is told to the model.
    #[serde(rename = "PostToolUse", default)]
    post_tool_use: Vec<WithLine<RawMatcher>>,
    /// Before a sub-agent starts; a hook may keep it from starting.
    #[serde(rename = "SubagentStart", default)]
    subagent_start: Vec<WithLine<RawMatcher>>,
    /// When a sub-agent has ended its work; a hook may keep the work from being integrated.
    #[serde(rename = "SubagentStop", default)]
    subagent_stop: Vec<WithLine<RawMatcher>>,
}

/// Hooks for some tools or sub-agents.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "hook_matcher")]
struct RawMatcher {
    /// Names of tools or definitions with `|` between them, or a regular expression; all if it is left out.
    matcher: Option<String>,
    /// The commands.
    hooks: Vec<RawHook>,
}

/// One command.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "hook")]
struct RawHook {
    /// The kind of hook.
    #[serde(rename = "type")]
    _kind: HookKind,
    /// What is run, by a shell, in the sandbox; it is told what happens as JSON on standard input.
    command: String,
    /// Seconds until it is ended.
    timeout: Option<NonZeroU32>,
}

/// The kinds of hooks there are.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(rename = "hook_kind")]
enum HookKind {
    Command,
}

/// One command that hears of one kind of moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hook {
    /// What it hears of.
    pub moment: Moment,
    /// Which tools or sub-agents it is about, as written; none for all.
    pub matcher: Option<String>,
    /// What is run.
    pub command: String,
    /// Seconds until it is ended, if the settings say so.
    pub timeout_seconds: Option<NonZeroU32>,
    /// Where it was written.
    pub origin: Origin,
}

/// A hook as `posse settings` shows it.
#[derive(Serialize)]
pub(super) struct ShownHook<'a> {
    moment: &'static str,
    matcher: Option<&'a str>,
    command: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    timeout: Option<NonZeroU32>,
}

impl Hook {
    /// The same for people and programs to read.
    pub(super) fn shown(&self) -> ShownHook<'_> {
        ShownHook {
            moment: self.moment.name(),
            matcher: self.matcher.as_deref(),
            command: &self.command,
            timeout: self.timeout_seconds,
        }
    }
}

impl RawHooks {
    /// All hooks in the order of the file, with where each was written.
    pub(super) fn sourced(self, path: &Path) -> Vec<Hook> {
        let moments = [
            (Moment::PreToolUse, self.pre_tool_use),
            (Moment::PostToolUse, self.post_tool_use),
            (Moment::SubagentStart, self.subagent_start),
            (Moment::SubagentStop, self.subagent_stop),
        ];
        let mut all = Vec::new();
        for (moment, matchers) in moments {
            for said in matchers {
                let said = said.sourced(path);
                let (matcher, origin) = (said.value.matcher, said.origin);
                all.extend(said.value.hooks.into_iter().map(|hook| Hook {
                    moment,
                    matcher: matcher.clone(),
                    command: hook.command,
                    timeout_seconds: hook.timeout,
                    origin: origin.clone(),
                }));
            }
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::file;
    use super::*;

    #[test]
    fn hooks_are_written_as_elsewhere_and_mistakes_are_named() {
        let text = "\
hooks:
  PreToolUse:
    - matcher: Bash|Write
      hooks:
        - {type: command, command: ./check.sh, timeout: 60}
  SubagentStop:
    - hooks: [{type: command, command: 'notify done'}]
";
        let hooks = file::parse(text, Path::new("settings.yaml")).expect("settings").hooks;
        let shown: Vec<_> = hooks
            .iter()
            .map(|hook| {
                (hook.moment, hook.matcher.as_deref(), hook.command.as_str(), hook.origin.to_string())
            })
            .collect();
        assert_eq!(
            shown,
            [
                (Moment::PreToolUse, Some("Bash|Write"), "./check.sh", "settings.yaml:3".to_owned()),
                (Moment::SubagentStop, None, "notify done", "settings.yaml:7".to_owned()),
            ]
        );
        assert_eq!(hooks[0].timeout_seconds.map(NonZeroU32::get), Some(60));
        for (text, part) in [
            (
                "hooks:\n  PreToolUs: []\n",
                "settings.yaml:2: unknown key `PreToolUs` (did you mean `PreToolUse`?)",
            ),
            ("hooks:\n  PreToolUse:\n    - hooks: [{type: prompt, command: x}]\n", "settings.yaml:3: "),
            ("hooks:\n  PreToolUse:\n    - hooks: [{type: command}]\n", "the key `command` is missing"),
        ] {
            let error = file::parse(text, Path::new("settings.yaml")).expect_err(text).text();
            assert!(error.contains(part), "{error}");
        }
    }
}
