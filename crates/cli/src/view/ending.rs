//! The last lines about a run: how it ended, what it cost, what went wrong in it, and what to type next. They are the same
//! after every view and are never cut, so that a terminal of any width shows all of them.

use posse::view::{RefusedBy, RefusedOperation, RefusedOperations};
use posse::{Code, FailKind, ReplayVerdict, RunOutcome, RunResult, RunStatus, cancelled, with_code};

use crate::display::Detail;
use crate::error::CliError;
use crate::output::{Output, note};
use crate::term;
use crate::text::{bytes, cost_of_run, duration, plural, tokens};

/// Limit of agents that one line lists.
const AGENTS_SHOWN_MAX: usize = 10;
/// Limit of omitted paths that are listed.
const LEFT_OUT_SHOWN_MAX: usize = 10;
/// Limit of refused operations that are listed.
const REFUSED_SHOWN_MAX: usize = 5;

/// Prints how a run ended, and its report.
pub(crate) fn print(output: &mut Output, finished: &RunOutcome, detail: Detail) -> Result<(), CliError> {
    print_end_in(finished, detail);
    if !finished.text.is_empty() {
        output.paragraph(&finished.text)?;
    }
    output.flush()
}

/// Prints how a run ended, without its report.
pub(crate) fn print_end(finished: &RunOutcome) {
    print_end_in(finished, Detail::Usual);
}

/// The same in less detail for a quiet command, which prints only what went wrong.
fn print_end_in(finished: &RunOutcome, detail: Detail) {
    let is_quiet = detail == Detail::Quiet;
    if !is_quiet || finished.status != RunStatus::Completed || finished.is_turn_limited() {
        note(&first_line(finished));
    }
    print_agents(finished, is_quiet);
    for line in refused_lines(finished.run.as_str(), &finished.refused) {
        note(&line);
    }
    if let Some(reason) = finished.why() {
        note(&format!("  {}", indented(&reason)));
        if finished.fail_kind == Some(FailKind::Budget) && !is_quiet {
            note(
                "  a new run with a higher limit has more room: --max-tokens, --max-usd, --max-time, --max-agents",
            );
        }
    }
    if is_quiet {
        return;
    }
    if let Some(verdict) = &finished.replay {
        note(&verdict_line(verdict));
    }
    if let Some(result) = &finished.result {
        let work =
            Work { status: finished.status, is_replay: finished.is_replay, disk_bytes: finished.disk_bytes };
        note(&work.lines(finished.run.as_str(), result));
    }
}

/// The outcome with its figures: time and cost first, because they matter most.
fn first_line(finished: &RunOutcome) -> String {
    let RunOutcome { run, status, usage, .. } = finished;
    let limit = match (finished.turns_exhausted, finished.is_turn_limited()) {
        (true, _) => " at its turn limit",
        (false, true) => ", but a required sub-agent reached its turn limit",
        (false, false) => "",
    };
    let took = duration(finished.elapsed_ms);
    let cost = cost_of_run(usage, finished.is_replay);
    let (agents, turns) = (plural(finished.agents, "agent"), plural(finished.turns, "turn"));
    format!("run {run} {status}{limit}: {took}, {cost}, {agents}, {turns}, {}", tokens(usage))
}

/// The agents whose end the user should know: failed, cancelled, cut off, without a change.
fn print_agents(finished: &RunOutcome, is_quiet: bool) {
    let why_cancelled = finished.failure.as_ref().filter(|_| finished.status == RunStatus::Cancelled);
    for child in &finished.failed {
        // A cancelled run cancels its agents, and its own reason says so.
        if child.code == Code::Cancelled && why_cancelled.is_some_and(|why| why.reason == child.reason) {
            continue;
        }
        let ended = match child.code {
            Code::Cancelled => cancelled(&child.reason),
            code => format!("failed: {}", with_code(&child.reason, code)),
        };
        note(&format!("  {} {}", child.id, indented(&ended)));
    }
    for child in finished.turn_limited.iter().take(AGENTS_SHOWN_MAX) {
        // The first line says that one of them was required.
        if !child.required || finished.turn_limited.len() > 1 || finished.turns_exhausted {
            note(&format!("  {} completed at its turn limit", child.id));
        }
    }
    match finished.turn_limited.len().saturating_sub(AGENTS_SHOWN_MAX) {
        0 => {}
        more => note(&format!("  and {} more", plural(more as u64, "agent"))),
    }
    if is_quiet {
        return;
    }
    if finished.is_turn_limited() {
        note("  the work may be unfinished: --max-turns gives more turns");
    }
    if let Some(line) = unchanged_line(finished) {
        note(&line);
    }
}

/// The sub-agents that could change files and changed none.
fn unchanged_line(finished: &RunOutcome) -> Option<String> {
    let named: Vec<&str> =
        finished.unchanged.iter().take(AGENTS_SHOWN_MAX).map(posse::AgentId::relative).collect();
    let more = match finished.unchanged.len() - named.len() {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    match finished.unchanged.len() as u64 {
        0 => None,
        count => {
            Some(format!("  {} changed no files: {}{more}", plural(count, "sub-agent"), named.join(", ")))
        }
    }
}

/// What was refused in a run: the first operations with agent and source, and where all of them are.
pub(crate) fn refused_lines(run: &str, refused: &RefusedOperations) -> Vec<String> {
    let were = match refused.count() {
        0 => return Vec::new(),
        1 => "1 operation was refused".to_owned(),
        count => format!("{} were refused", plural(count, "operation")),
    };
    let mut lines = vec![format!("{were}; posse logs {run} --refused lists them:")];
    lines.extend(refused.iter().take(REFUSED_SHOWN_MAX).map(|one| format!("  {}", refused_line(one))));
    match refused.count().saturating_sub(REFUSED_SHOWN_MAX as u64) {
        0 => {}
        more => lines.push(format!("  and {more} more")),
    }
    if refused.iter().any(|one| one.by == RefusedBy::Sandbox) {
        lines.push("  posse doctor says what this machine lacks for commands".to_owned());
    }
    lines
}

fn refused_line(refused: &RefusedOperation) -> String {
    format!("{}: {} ({})", refused.agent, term::visible_line(&refused.operation), term::line(&refused.reason))
}

/// Whether a replay did the same as the recorded run.
fn verdict_line(verdict: &ReplayVerdict) -> String {
    let ReplayVerdict { same, recorded, differs } = *verdict;
    let of = recorded.map(|recorded| format!(" of {recorded}")).unwrap_or_default();
    match (differs, recorded.unwrap_or(same) == same) {
        (true, _) => format!("replay: {same}{of} requests were the recorded ones, then one differed"),
        (false, true) => format!("replay: {same}{of} requests were the recorded ones"),
        (false, false) => {
            format!("replay: {same}{of} requests were the recorded ones, and the others were not made")
        }
    }
}

/// A reason of several lines, such as a check's output, indented beneath its first line.
fn indented(reason: &str) -> String {
    reason.trim_end().replace('\n', "\n    ")
}

/// Names instruction files in a result: the user should read them before the next agent does.
fn instructions(paths: &[String]) -> String {
    if paths.is_empty() {
        return String::new();
    }
    let named: Vec<String> =
        paths.iter().take(LEFT_OUT_SHOWN_MAX).map(|path| term::visible_line(path)).collect();
    let more = match paths.len().saturating_sub(LEFT_OUT_SHOWN_MAX) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    format!(
        "\n  read before you apply the result, because agents and tools obey it: {}{more}",
        named.join(", ")
    )
}

/// What decides the advice about a run's changes to files.
pub(crate) struct Work {
    pub(crate) status: RunStatus,
    pub(crate) is_replay: bool,
    pub(crate) disk_bytes: Option<u64>,
}

impl Work {
    /// Where the changes are, their disk usage, and what to type next.
    pub(crate) fn lines(&self, run: &str, result: &RunResult) -> String {
        if let (0, Some(problem)) = (result.files, &result.problem) {
            return format!("its changes could not be published: {problem}");
        }
        let files = plural(result.files, "file");
        let branch = result.branch.as_ref().filter(|_| !self.is_replay);
        let branch = branch.map(|branch| format!(" on branch {branch}")).unwrap_or_default();
        let taken = self.disk_bytes.map(|taken| format!(" ({} on disk)", bytes(taken))).unwrap_or_default();
        let problem = result.problem.as_ref().map(|problem| format!("\n  there is no branch: {problem}"));
        let problem = problem.unwrap_or_default();
        // Files that no agent may change: the user has to know before relying on the result.
        let left_out = result.left_out.iter().take(LEFT_OUT_SHOWN_MAX).fold(String::new(), |text, path| {
            format!("{text}\n  omitted from the result: {}", term::line(path))
        });
        let more = match result.left_out.len().saturating_sub(LEFT_OUT_SHOWN_MAX) {
            0 => String::new(),
            more => format!("\n  and {more} more; posse salvage {run} has all of it"),
        };
        let instructions = instructions(&result.instructions);
        let next = self.next(run);
        format!("{files} changed{branch}{taken}; {next}{problem}{left_out}{more}{instructions}")
    }

    /// What to type next: only what the verbs accept in this state.
    fn next(&self, run: &str) -> String {
        match self.status {
            _ if self.is_replay => format!("posse diff {run} (a replay is not applied)"),
            RunStatus::Running => format!("posse diff {run}"),
            RunStatus::Completed => format!("posse diff {run}, posse apply {run}"),
            RunStatus::Failed | RunStatus::Cancelled => {
                format!("posse diff {run}, then posse apply --unfinished {run}")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn work(status: RunStatus, is_replay: bool) -> String {
        Work { status, is_replay, disk_bytes: None }.next("k3f9ab2c")
    }

    #[test]
    fn advice_fits_the_state_of_the_run() {
        assert_eq!(work(RunStatus::Completed, false), "posse diff k3f9ab2c, posse apply k3f9ab2c");
        for status in [RunStatus::Failed, RunStatus::Cancelled] {
            let advice = "posse diff k3f9ab2c, then posse apply --unfinished k3f9ab2c";
            assert_eq!(work(status, false), advice);
        }
        for status in [RunStatus::Completed, RunStatus::Failed] {
            assert_eq!(work(status, true), "posse diff k3f9ab2c (a replay is not applied)");
        }
    }

    #[test]
    fn a_replay_has_a_verdict() {
        let line = |same, recorded, differs| verdict_line(&ReplayVerdict { same, recorded, differs });
        assert_eq!(line(14, Some(14), false), "replay: 14 of 14 requests were the recorded ones");
        assert_eq!(
            line(4, Some(14), true),
            "replay: 4 of 14 requests were the recorded ones, then one differed"
        );
        assert_eq!(
            line(4, Some(14), false),
            "replay: 4 of 14 requests were the recorded ones, and the others were not made"
        );
        assert_eq!(line(4, None, false), "replay: 4 requests were the recorded ones");
    }
}
