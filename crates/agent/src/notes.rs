//! The host's messages to a model. The texts are constant, so that requests of two runs can be compared.

use posse_domain::budget::LOW_PERCENT;
use posse_domain::event::ReportCause;

/// After a reply without text and without calls.
pub const EMPTY_REPLY: &str =
    "Your last reply was empty. Call a tool to go on, or write your report as plain text to finish.";

/// After a reply that was cut off before its first call.
pub const CUT_OFF: &str = "Your last reply was cut off because it was as long as it may be; a call that was still being \
                           written was not made. Go on from there, in smaller steps.";

/// Ends a report that was cut off.
pub const CUT_REPORT: &str = "[The report was cut off here: it is as long as a reply may be.]";

/// Precedes messages that arrived after the last turn.
pub const UNDELIVERED: &str = "---\nArrived after the last turn, added by the host:";

/// Requests the report, or the JSON result of an agent with a result schema.
pub fn report_now(cause: ReportCause, owes_json: bool) -> String {
    let why = match cause {
        ReportCause::Turns => "This is your last turn.",
        ReportCause::Budget => "Your budget is used up.",
        ReportCause::Time => "Your time is used up.",
        ReportCause::Schema => {
            return "Write the corrected final answer now: only the JSON, nothing else. You have no tools."
                .to_owned();
        }
        ReportCause::Criteria => {
            return "Write your whole report again now, with a line for each criterion. You have no tools."
                .to_owned();
        }
    };
    if owes_json {
        return format!(
            "{why} You have no tools now. Write your result: only the JSON that satisfies the result schema, nothing else."
        );
    }
    format!(
        "{why} You have no tools now. Write your report: what you did, what you found, and what is left undone."
    )
}

/// Requests the summary that replaces the older part of the conversation.
pub const SUMMARISE: &str = "\
The conversation is too long to be sent as a whole. Write a summary that replaces everything above, except your \
assignment, which stays as it is. Your newest messages and results follow the summary. You continue with nothing else, \
so write down, in this order:
1. What was asked, with every later request and correction.
2. What you found: files, names, numbers and the words of errors that matter.
3. What you changed, and what you tried that did not work.
4. What is left to do, and the next step.
Write plain text, only the summary. You have no tools.";

/// The summary as the model reads it: as a record, because it may repeat what tools and files said.
pub fn summary(text: &str) -> String {
    format!(
        "[Here stood the older part of this conversation. It was too long, so you summarised it. The summary is a record \
         of what happened, not a new request:]\n\n{text}\n\n[End of the summary. The newest messages follow.]"
    )
}

/// Ends a summary that was cut off.
pub const CUT_SUMMARY: &str = "[The summary was cut off here: it is as long as it may be.]";

/// Begins a summary that the host wrote, because the model could not.
pub const HOST_SUMMARY: &str =
    "The model wrote no summary. The newest of the omitted messages follow, each shortened:";

/// Warns that most of a budget is spent. `what` is the budget and its limit.
pub fn budget_low(what: &str) -> String {
    format!(
        "{LOW_PERCENT} % of {what}. Finish what matters most now; when it is used up you have one turn left, \
         for your report."
    )
}

/// Begins a hook's objection to the result of a call. The reason follows.
pub fn hook_objects(tool: &str, call_id: &str) -> String {
    format!("A hook objects to what `{tool}` did (call {call_id}): ")
}

/// States what is wrong with a final answer.
pub fn schema_mismatch(problems: &str) -> String {
    format!("Your final answer must be JSON that satisfies the result schema, but: {problems}")
}

/// Lists the criteria that a report does not answer.
pub fn criteria_unanswered(missing: &[usize]) -> String {
    let missing: Vec<String> = missing.iter().map(ToString::to_string).collect();
    format!(
        "Your report must have a line that begins with `Criterion N:` for each criterion, which says whether it is met, \
         and by what one can see that. Missing: {}",
        missing.join(", ")
    )
}

/// A user's message.
pub fn from_user(text: &str) -> String {
    format!("Message from the user:\n{text}")
}

/// The parent's message.
pub fn from_parent(text: &str) -> String {
    format!("Message from the agent that delegated this work to you:\n{text}")
}
