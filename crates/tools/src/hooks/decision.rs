//! Parses the answer of a hook: its exit code, and JSON on its standard output.

use posse_domain::text::shorten;
use posse_engine::ports::Moment;
use posse_sandbox::process::CapturedOutput;
use serde::Deserialize;
use serde_json::Value;

/// Maximum length of a reason.
const REASON_MAX_CHARS: usize = 4_000;
/// The exit code of an objection. The reason is on standard error.
const OBJECTS: i32 = 2;
/// The exit codes of a shell for a program that cannot be executed or does not exist.
const NOT_STARTED: [i32; 2] = [126, 127];
/// Used if the hook gives no reason.
const NO_REASON: &str = "it gives no reason";

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum HookDecision {
    /// The hook does not object.
    Goes,
    /// The hook asks for a user's decision.
    Asks(String),
    Denied(String),
    /// The hook failed by itself, which is not an objection.
    Complained(String),
    /// The hook gave no usable answer.
    Unusable(String),
    /// The hook was ended because its agent is cancelled, which is not the hook's fault.
    CutShort,
}

/// An answer in JSON. Unknown keys of other programs are ignored.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Answer {
    #[serde(rename = "continue")]
    goes_on: Option<bool>,
    #[serde(rename = "stopReason")]
    stop_reason: Option<String>,
    decision: Option<String>,
    reason: Option<String>,
    #[serde(rename = "hookSpecificOutput")]
    specific: Option<HookSpecificOutput>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct HookSpecificOutput {
    #[serde(rename = "permissionDecision")]
    decision: Option<String>,
    #[serde(rename = "permissionDecisionReason")]
    reason: Option<String>,
    #[serde(rename = "updatedInput")]
    updated_input: Option<Value>,
    #[serde(rename = "additionalContext")]
    additional_context: Option<Value>,
}

/// Parses the answer of a hook that exited with this code.
pub(super) fn read(
    moment: Moment,
    code: i32,
    output: &CapturedOutput,
    errors: Option<&CapturedOutput>,
) -> HookDecision {
    let errors = || errors.map(text).unwrap_or_default();
    match code {
        0 => decision_in_json(moment, output),
        OBJECTS => HookDecision::Denied(reason(Some(errors()))),
        code if NOT_STARTED.contains(&code) => HookDecision::Unusable(format!(
            "exit code {code}, its program is not there or cannot be run ({}); in the sandbox a script is seen in the \
             workspace, by its whole path in the command, or beneath a directory of `sandbox.read`",
            reason(Some(errors()))
        )),
        code => HookDecision::Complained(format!("exit code {code}: {}", reason(Some(errors())))),
    }
}

fn decision_in_json(moment: Moment, output: &CapturedOutput) -> HookDecision {
    let said = text(output);
    // Any output but an object is ignored: scripts print progress.
    if !said.starts_with('{') {
        return HookDecision::Goes;
    }
    if output.left_out() > 0 {
        return HookDecision::Unusable(format!("its answer is longer than {} bytes", output.head.len()));
    }
    let Answer { goes_on, stop_reason, decision, reason: why, specific } = match serde_json::from_str(&said) {
        Ok(answer) => answer,
        Err(error) => {
            return HookDecision::Unusable(format!("its answer is not the JSON that is expected: {error}"));
        }
    };
    let specific = specific.unwrap_or_default();
    if specific.updated_input.is_some() || specific.additional_context.is_some() {
        tracing::warn!(
            moment = moment.name(),
            "a hook gave `updatedInput` or `additionalContext`, which is not done here: it can object or not"
        );
    }
    if goes_on == Some(false) {
        return HookDecision::Denied(reason(stop_reason.or(why)));
    }
    match decision.as_deref() {
        None | Some("approve" | "allow") => {}
        Some("block" | "deny") => return HookDecision::Denied(reason(why)),
        Some("ask") => return HookDecision::Asks(reason(why)),
        Some(other) => {
            return HookDecision::Unusable(format!(
                "its `decision` is `{}`",
                shorten(other, REASON_MAX_CHARS)
            ));
        }
    }
    match specific.decision.as_deref() {
        // A hook cannot allow what the rules do not.
        None | Some("allow") => HookDecision::Goes,
        Some("deny") => HookDecision::Denied(reason(specific.reason.or(why))),
        // `defer` means that the user decides.
        Some("ask" | "defer") => HookDecision::Asks(reason(specific.reason.or(why))),
        Some(other) => HookDecision::Unusable(format!(
            "its `permissionDecision` is `{}`",
            shorten(other, REASON_MAX_CHARS)
        )),
    }
}

fn text(captured: &CapturedOutput) -> String {
    String::from_utf8_lossy(&captured.head).trim().to_owned()
}

fn reason(said: Option<String>) -> String {
    let said = said.filter(|said| !said.trim().is_empty());
    said.map_or_else(|| NO_REASON.to_owned(), |said| shorten(said.trim(), REASON_MAX_CHARS))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn printed(text: &str) -> CapturedOutput {
        CapturedOutput {
            head: text.as_bytes().to_vec(),
            tail: Vec::new(),
            total: text.len() as u64,
            spill: None,
        }
    }

    fn decision(code: i32, output: &str, errors: &str) -> HookDecision {
        read(Moment::PreToolUse, code, &printed(output), Some(&printed(errors)))
    }

    fn denied(reason: &str) -> HookDecision {
        HookDecision::Denied(reason.to_owned())
    }

    #[test]
    fn exit_codes_are_understood_as_elsewhere() {
        assert_eq!(decision(0, "", ""), HookDecision::Goes);
        assert_eq!(decision(0, "checking...\ndone", "noise"), HookDecision::Goes);
        assert_eq!(decision(2, "{\"decision\":\"approve\"}", " no force \n"), denied("no force"));
        assert_eq!(decision(2, "", ""), denied(NO_REASON));
        assert_eq!(
            decision(1, "", "jq: parse error"),
            HookDecision::Complained("exit code 1: jq: parse error".to_owned())
        );
        for code in NOT_STARTED {
            assert!(
                matches!(decision(code, "", "x: not found"), HookDecision::Unusable(why) if why.contains("x: not found"))
            );
        }
    }

    #[test]
    fn answers_in_json_can_deny_and_ask_and_nothing_else() {
        let specific = |decision: &str| {
            format!(
                r#"{{"hookSpecificOutput":{{"hookEventName":"PreToolUse","permissionDecision":"{decision}",
                "permissionDecisionReason":"r","updatedInput":{{"command":"true"}}}},"systemMessage":"x"}}"#
            )
        };
        for (output, expected) in [
            (r#"{"decision":"block","reason":"r"}"#.to_owned(), denied("r")),
            (r#"{"decision":"block"}"#.to_owned(), denied(NO_REASON)),
            (r#"{"decision":"approve","reason":"r"}"#.to_owned(), HookDecision::Goes),
            (r#"{"continue":false,"stopReason":"r"}"#.to_owned(), denied("r")),
            (r#"{"continue":true}"#.to_owned(), HookDecision::Goes),
            (r#"{"decision":null,"suppressOutput":true}"#.to_owned(), HookDecision::Goes),
            ("{}".to_owned(), HookDecision::Goes),
            (specific("deny"), denied("r")),
            (specific("ask"), HookDecision::Asks("r".to_owned())),
            (specific("defer"), HookDecision::Asks("r".to_owned())),
            (specific("allow"), HookDecision::Goes),
        ] {
            assert_eq!(decision(0, &output, ""), expected, "{output}");
        }
    }

    #[test]
    fn what_cannot_be_understood_is_no_yes() {
        let cut = CapturedOutput { total: 100_000, ..printed("{\"decision\":\"approve\"}") };
        let answer = read(Moment::PreToolUse, 0, &cut, None);
        assert!(matches!(answer, HookDecision::Unusable(why) if why.contains("longer")));
        for output in [
            "{",
            r#"{"decision":"blokc"}"#,
            r#"{"decision":1}"#,
            r#"{"hookSpecificOutput":{"permissionDecision":"denied"}}"#,
            r#"{"continue":"no"}"#,
        ] {
            assert!(matches!(decision(0, output, ""), HookDecision::Unusable(_)), "{output}");
        }
    }

    #[test]
    fn a_reason_has_a_limit() {
        let HookDecision::Denied(reason) = decision(2, "", &"é".repeat(5_000)) else {
            panic!("an objection")
        };
        assert_eq!(reason.chars().count(), REASON_MAX_CHARS + 3);
    }
}
