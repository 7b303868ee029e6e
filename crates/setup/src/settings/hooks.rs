//! The setting `hooks`: commands that are called on operations of agents and may deny them. The format is that of other
//! tools.

use std::num::NonZeroU32;
use std::path::Path;

use posse::ports::Moment;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::located::WithLine;
use super::{Origin, Settings};

/// Commands that are called on operations of agents and may deny them.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "hooks")]
pub(super) struct RawHooks {
    /// Before a tool is used. A hook may deny the call.
    #[serde(rename = "PreToolUse", default)]
    pre_tool_use: Vec<WithLine<RawMatcher>>,
    /// After a tool was used. The model receives a hook's objection.
    #[serde(rename = "PostToolUse", default)]
    post_tool_use: Vec<WithLine<RawMatcher>>,
    /// Before a sub-agent starts. A hook may prevent the start.
    #[serde(rename = "SubagentStart", default)]
    subagent_start: Vec<WithLine<RawMatcher>>,
    /// When a sub-agent has ended its work. A hook may prevent the integration.
    #[serde(rename = "SubagentStop", default)]
    subagent_stop: Vec<WithLine<RawMatcher>>,
}

/// Hooks for some tools or sub-agents.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "hook_matcher")]
struct RawMatcher {
    /// Names of tools or definitions separated by `|`, or a regular expression; default: all.
    matcher: Option<String>,
    /// The commands to run.
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
    /// The command, which a shell runs in the sandbox. It receives the event as JSON on standard input.
    command: String,
    /// Seconds until it is ended.
    timeout: Option<NonZeroU32>,
}

/// The kinds of hooks.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(rename = "hook_kind")]
enum HookKind {
    Command,
}

/// One command that is called at one kind of moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hook {
    /// When the command is called.
    pub moment: Moment,
    /// The tools or sub-agents that it applies to, as written; `None` for all.
    pub matcher: Option<String>,
    /// The command, run by a shell in the sandbox.
    pub command: String,
    /// Seconds until it is ended, if the settings set them.
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
    /// Converts the hook for display.
    pub(super) fn shown(&self) -> ShownHook<'_> {
        ShownHook {
            moment: self.moment.name(),
            matcher: self.matcher.as_deref(),
            command: &self.command,
            timeout: self.timeout_seconds,
        }
    }
}

impl Settings {
    /// Takes `hooks` from a file.
    pub(super) fn read_hooks(&mut self, hooks: RawHooks, path: &Path) {
        self.hooks = hooks.sourced(path);
    }
}

impl RawHooks {
    /// All hooks in the order of the file, with their origins.
    fn sourced(self, path: &Path) -> Vec<Hook> {
        let moments = [
            (Moment::PreToolUse, self.pre_tool_use),
            (Moment::PostToolUse, self.post_tool_use),
            (Moment::SubagentStart, self.subagent_start),
            (Moment::SubagentStop, self.subagent_stop),
        ];
        let mut all = Vec::new();
        for (moment, matchers) in moments {
            for written in matchers {
                let written = written.sourced(path);
                let (matcher, origin) = (written.value.matcher, written.origin);
                all.extend(written.value.hooks.into_iter().map(|hook| Hook {
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
                "settings.yaml:2: unknown key `hooks.PreToolUs` (did you mean `PreToolUse`?)",
            ),
            ("hooks:\n  PreToolUse:\n    - hooks: [{type: prompt, command: x}]\n", "settings.yaml:3: "),
            ("hooks:\n  PreToolUse:\n    - hooks: [{type: command}]\n", "the key `command` is missing"),
        ] {
            let error = file::parse(text, Path::new("settings.yaml")).expect_err(text).text();
            assert!(error.contains(part), "{error}");
        }
    }
}
