//! Creates the texts that report the result of a skill's sub-agent to the agent or user that requested it.

use posse_domain::id::AgentId;
use serde::Serialize;

/// Limit of characters of a report in a summary. The whole report is in the trace.
pub(crate) const SUMMARY_MAX_CHARS: usize = 500;
/// Marks the end of a truncated summary.
const TRUNCATED: &str = "... (truncated)";
/// Limit of bytes of a report in the result of `delegate_to_agent`. It is halved until the JSON fits its own limit.
const RESULT_MAX_BYTES: usize = 200 * 1024;

/// A message of two parts: a summary of the report or the failure, and the id of the trace.
pub(crate) fn parts(result: Result<&str, &str>, trace: impl std::fmt::Display) -> [String; 2] {
    let summary = match result {
        Ok(report) => format!("Sub-agent completed: {}", summary(report)),
        Err(reason) => format!("Failed: {}", summary(reason)),
    };
    [summary, format!("Full trace: {trace}")]
}

fn summary(text: &str) -> String {
    match text.char_indices().nth(SUMMARY_MAX_CHARS) {
        Some((end, _)) => format!("{}{TRUNCATED}", &text[..end]),
        None => text.to_owned(),
    }
}

#[derive(Serialize)]
struct DelegationResult<'a> {
    status: &'static str,
    skill: &'a str,
    result: &'a str,
    depth: u32,
}

#[derive(Serialize)]
struct NotDelegated<'a> {
    error: &'a str,
    current_depth: u32,
}

/// The result of `delegate_to_agent`: JSON of at most `max_bytes`, with as much of the report as fits.
pub(crate) fn delegated(skill: &str, report: &str, child: &AgentId, max_bytes: usize) -> String {
    let mut room = RESULT_MAX_BYTES;
    loop {
        let cut = report.floor_char_boundary(room);
        let marked;
        let result = if cut < report.len() {
            marked = format!("{}\n[cut: {} bytes in all]", &report[..cut], report.len());
            marked.as_str()
        } else {
            report
        };
        let json = to_json(&DelegationResult { status: "ok", skill, result, depth: child.depth() });
        // One byte of the report may take six bytes in JSON.
        if json.len() <= max_bytes || room == 0 {
            return json;
        }
        room /= 2;
    }
}

/// The result of `delegate_to_agent` if the work could not be delegated. `caller` is the agent that called the tool.
pub(crate) fn not_delegated(error: &str, caller: &AgentId) -> String {
    to_json(&NotDelegated { error, current_depth: caller.depth() })
}

fn to_json(value: &impl Serialize) -> String {
    // Serialising plain data with text keys cannot fail.
    serde_json::to_string(value).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use posse_domain::id::RunId;

    use super::*;

    fn agent(relative: &str) -> AgentId {
        let run: RunId = "k3f9ab2c".parse().expect("run id");
        AgentId::from_relative(&run, relative).expect("agent id")
    }

    #[test]
    fn a_summary_has_500_characters_and_says_that_there_is_more() {
        let exactly = "é".repeat(SUMMARY_MAX_CHARS);
        assert_eq!(parts(Ok(&exactly), "1")[0], format!("Sub-agent completed: {exactly}"));
        let longer = format!("{exactly}x");
        let [summary, trace] = parts(Ok(&longer), agent("1.2"));
        assert_eq!(summary, format!("Sub-agent completed: {exactly}... (truncated)"));
        assert_eq!(trace, "Full trace: k3f9ab2c.1.2");
        assert_eq!(parts(Err("boom"), "1"), ["Failed: boom".to_owned(), "Full trace: 1".to_owned()]);
    }

    #[test]
    fn what_delegating_answers_is_json_in_a_fixed_order() {
        let done = delegated("sum_up", "It says \"hi\".", &agent("1.2"), 1_000);
        assert_eq!(done, r#"{"status":"ok","skill":"sum_up","result":"It says \"hi\".","depth":2}"#);
        assert_eq!(not_delegated("no", &agent("1")), r#"{"error":"no","current_depth":1}"#);
    }

    #[test]
    fn a_report_that_is_too_long_is_cut_and_the_json_stays_whole() {
        // Each character takes six bytes in JSON.
        let report = "\u{1}".repeat(300_000);
        let text = delegated("s", &report, &agent("1"), 256 * 1024);
        assert!(text.len() <= 256 * 1024);
        let json: serde_json::Value = serde_json::from_str(&text).expect("whole");
        let result = json["result"].as_str().expect("text");
        assert!(result.ends_with("\n[cut: 300000 bytes in all]") && result.len() > 10_000);
    }
}
