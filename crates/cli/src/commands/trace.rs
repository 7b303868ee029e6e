//! `posse trace`.

use std::fmt::Write;

use posse::event::{ModelReplied, Sender, TodoItem, TodoStatus};
use posse::message::{ToolCall, pictures};
use posse::view::{BlockedAgents, ShownStatus, Stage};
use posse::{
    AgentRecord, CloseReason, Code, ConversationEvent, Criterion, Decision, EventBody, FailKind,
    JournalEvent, Posse, Rule, StepTerms, ToolName, api, shown_model,
};

use crate::blocked;
use crate::context::Context;
use crate::error::CliError;
use crate::exit::Exit;
use crate::ids::WorkArg;
use crate::output::{Output, output_width};
use crate::runtime;
use crate::term;
use crate::text::{clock, cost, duration, spent};
use crate::view::width::wrapped;

/// How much of a conversation is in memory at once.
const PART_MAX_EVENTS: usize = 1_000;
const PART_MAX_BYTES: usize = 8 * 1024 * 1024;

/// Show an agent's full transcript: prompts, replies, tool calls
///
/// Long texts are printed in full: the prompts, the replies, the input and output of tool calls, and messages.
#[derive(Debug, clap::Args)]
pub(crate) struct TraceArgs {
    #[command(flatten)]
    agent: WorkArg,
    /// Print each event as a JSON line, with long texts in full
    #[arg(long)]
    json: bool,
}

/// Shows one agent.
pub(crate) fn trace(args: &TraceArgs, context: &Context) -> Result<Exit, CliError> {
    let posse = context.open_read_only()?;
    runtime::looking(async {
        let agent = args.agent.find(&posse, context).await?;
        let record = posse.agent(&agent).await?;
        let is_open = record.agent.final_status.is_none();
        let blocked = if is_open { posse.blocked(&agent.run()).await? } else { BlockedAgents::default() };
        let status = posse.summary(&agent.run()).await?.shown_status();
        let text = heading(&record, &blocked, status);
        print(&posse, &record, &text, args.json).await
    })
}

async fn print(posse: &Posse, record: &AgentRecord, heading: &str, json: bool) -> Result<Exit, CliError> {
    let mut output = Output::new();
    // As in a pager, no word is broken by the edge of the terminal.
    let fitting = |text: String| output_width().map_or(text.clone(), |width| wrapped(&text, width));
    if !json {
        output.own(&fitting(heading.to_owned()))?;
    }
    let mut after = 0;
    loop {
        let part = posse.conversation(&record.agent.id, after, PART_MAX_EVENTS, PART_MAX_BYTES).await?;
        for ConversationEvent { event, system_prompt } in &part.events {
            if json {
                output.json(&api::Event::with_images(event))?;
            } else {
                let prompt = system_prompt.as_ref().map(|prompt| indented("system prompt:", prompt));
                output.own(&fitting(entry(event) + &prompt.unwrap_or_default()))?;
            }
        }
        after = part.after;
        if !part.has_more {
            break;
        }
    }
    output.flush()?;
    Ok(Exit::DONE)
}

/// A text beneath its title, beneath the line of an event.
fn indented(title: &str, text: &str) -> String {
    let mut shown = format!("    {title}\n");
    for line in term::clean(text).lines() {
        let _ = writeln!(shown, "{}", format!("      {line}").trim_end());
    }
    shown
}

/// The agent and its terms.
pub(crate) fn heading(record: &AgentRecord, blocked: &BlockedAgents, run: ShownStatus) -> String {
    let AgentRecord { agent, contract, .. } = record;
    let limit = contract.execution.max_turns;
    let limit = limit.map_or_else(|| "no limit".to_owned(), |turns| turns.to_string());
    let state = match agent.close_reason {
        Some(CloseReason::Failed(FailKind::Cancelled)) => "cancelled",
        // No process executes the run, so no agent of it runs.
        None if agent.stage() == Stage::Running && run == ShownStatus::Interrupted => "interrupted",
        _ => agent.final_status.map_or(agent.state.as_str(), posse::FinalStatus::as_str),
    };
    let blocked = blocked::words(blocked, &agent.id).map(|on| format!("\nblocked: {on}")).unwrap_or_default();
    let tools: Vec<&str> = contract.permissions.allowed_tools.iter().map(ToolName::as_str).collect();
    format!(
        "agent {}: {}, depth {}, {state}{blocked}\ntitle: {}\nmodel: {}\ntools: {}\n{}turns: {} of {limit}, {}\n\n",
        agent.id,
        term::line(&agent.definition),
        agent.depth(),
        term::line(&agent.title),
        term::line(&shown_model(&contract.execution.model)),
        tools.join(", "),
        terms(&contract.step),
        agent.own.turns,
        spent(&agent.own.usage),
    )
}

/// What the agent may change and when its work is accepted, if its contract limits that.
fn terms(step: &StepTerms) -> String {
    let mut text = String::new();
    if !step.owns.is_empty() {
        let _ = writeln!(text, "owns: {}", term::line(&step.owns.join(", ")));
    }
    for criterion in &step.success_criteria {
        let done = match criterion {
            Criterion::Words(words) => words.clone(),
            Criterion::Command(check) => format!("`{}` succeeds", check.command),
        };
        let _ = writeln!(text, "done when: {}", term::line(&done));
    }
    text
}

/// One event: a line, and beneath it the texts that belong to it.
pub(crate) fn entry(event: &JournalEvent) -> String {
    let (line, texts) = describe(event);
    let mut entry = format!("{}  {}\n", clock(event.at_ms), term::line(&line));
    for text in texts {
        for line in term::clean(&text).lines() {
            let _ = writeln!(entry, "    {line}");
        }
    }
    entry
}

fn describe(event: &JournalEvent) -> (String, Vec<String>) {
    let summary = || event.summary.clone();
    match &event.body {
        EventBody::RunStarted(e) => {
            let request = e.request.text.to_shared().to_string();
            // A skill changes the request into the agent's prompt.
            let prompt = Some(e.contract.step.description.clone()).filter(|prompt| *prompt != request);
            // Every agent of the run reads it after its definition.
            let agents_md =
                e.request.agents_md.as_ref().map(|text| format!("AGENTS.md:\n{}", text.to_shared()));
            let texts = std::iter::once(request).chain(prompt).chain(agents_md);
            ("run started".to_owned(), texts.collect())
        }
        EventBody::SubagentCreated(e) => {
            let how = if e.background { "in the background" } else { "and waited for" };
            let skill = e.skill.as_ref().map(|skill| format!(" for skill {skill}")).unwrap_or_default();
            let line = format!("created by {}{skill} (call {}), {how}", e.parent_id, e.call_id);
            let shared = e.contract.execution.share_history;
            let shared = shared.then(|| {
                format!("(begins with the conversation of {}: `posse trace {0}` shows it)", e.parent_id)
            });
            let continued = e.contract.parent.continues.as_ref().map(|of| {
                format!("(continues {of}, and begins with its conversation: `posse trace {of}` shows it)")
            });
            let mut texts: Vec<String> = shared.into_iter().chain(continued).collect();
            texts.push(e.contract.step.description.clone());
            texts.extend(e.contract.execution.extra_context.clone());
            (line, texts)
        }
        EventBody::SubagentAttempt(e) => {
            (format!("attempt {} begins", e.n), vec![format!("{} ({})", e.reason, e.code)])
        }
        EventBody::ModelReplied(e) => replied(e),
        EventBody::ContextCompacted(e) => (summary(), vec![e.summary.to_shared().to_string()]),
        EventBody::ToolFinished(e) => {
            let (how, code) = match e.code {
                None => ("done", String::new()),
                Some(Code::Cancelled) => ("cancelled", String::new()),
                Some(code) => ("failed", format!("{code}, ")),
            };
            let took = duration(e.elapsed_ms);
            let line = format!("{} {how} ({code}call {}, {took})", e.tool, e.call_id);
            let pictures = pictures(&e.images).map(|pictures| format!("[{pictures}]"));
            let output = e.without_code(&e.output.to_shared()).to_owned();
            (line, std::iter::once(output).chain(pictures).collect())
        }
        EventBody::ToolInterrupted(e) => (summary(), vec![e.output.to_shared().to_string()]),
        EventBody::MessageReceived(e) => {
            (format!("message from {}", sender(&e.from)), vec![e.text.to_shared().to_string()])
        }
        EventBody::SubagentRefused(e) => (
            format!("could not start {} (call {})", e.definition, e.call_id),
            vec![format!("{} ({})", e.reason, e.code)],
        ),
        EventBody::SubagentWaitingForMerge(e) => {
            let line = if e.turns_exhausted { "finished at its turn limit" } else { "finished" };
            (line.to_owned(), vec![e.report.to_shared().to_string()])
        }
        EventBody::SubagentFailed(e) => {
            let report = e.report.as_ref().map(|report| report.to_shared().to_string());
            let (ended, reason) = if e.kind == FailKind::Cancelled {
                ("cancelled", e.reason.clone())
            } else {
                ("failed", format!("{} ({})", e.reason, e.code))
            };
            (ended.to_owned(), [reason].into_iter().chain(report).collect())
        }
        EventBody::RunCompleted(e) => {
            let line = if e.turns_exhausted { "run completed at its turn limit" } else { "run completed" };
            (line.to_owned(), vec![e.text.to_shared().to_string()])
        }
        EventBody::RunFailed(e) => {
            let text = e.text.as_ref().map(|text| text.to_shared().to_string());
            let reason = format!("{} ({})", e.reason, e.code);
            ("run failed".to_owned(), [reason].into_iter().chain(text).collect())
        }
        EventBody::PermissionDecided(e) => {
            let decided = match e.decision {
                Decision::Allow => "allowed",
                Decision::Ask => "approval required",
                Decision::Deny => "denied",
            };
            let by = decided_by(e.rule.as_ref(), e.layer.as_deref());
            (format!("{decided}: {}{by}", term::visible_line(&e.operation)), Vec::new())
        }
        EventBody::InputRequested(e) => {
            let by = decided_by(e.rule.as_ref(), e.layer.as_deref());
            let line = format!("needs approval{by} (call {})", e.call_id);
            (line, vec![term::visible(&e.operation, ""), e.arguments.to_shared().to_string()])
        }
        EventBody::TodoChanged(e) => {
            let item = |item: &TodoItem| {
                let mark = match item.status {
                    TodoStatus::Pending => " ",
                    TodoStatus::InProgress => "~",
                    TodoStatus::Done => "x",
                };
                format!("[{mark}] {}", item.text)
            };
            (summary(), e.items.iter().map(item).collect())
        }
        _ => (summary(), Vec::new()),
    }
}

/// The rule that decided, with the layer that has it.
fn decided_by(rule: Option<&Rule>, layer: Option<&str>) -> String {
    match (rule, layer) {
        (Some(rule), Some(layer)) => format!(", by rule `{}` of {layer}", rule.pattern),
        (None, Some(layer)) => format!(", by {layer}"),
        (_, None) => String::new(),
    }
}

fn replied(e: &ModelReplied) -> (String, Vec<String>) {
    let took = duration(e.elapsed_ms);
    if let Some(error) = &e.error {
        let status = error.status.map(|status| format!(", status {status}")).unwrap_or_default();
        let cost = if e.usage.tokens() > 0 { format!(", {}", cost(&e.charged())) } else { String::new() };
        let after = if e.elapsed_ms > 0 { format!(" after {took}") } else { String::new() };
        let failed = match (error.code, e.estimated) {
            (Code::Cancelled, _) => {
                return (format!("turn {}: the call was cancelled{after}{cost}", e.turn), Vec::new());
            }
            (_, true) => "the call was cut off",
            (_, false) => "the model failed",
        };
        return (
            format!("turn {}: {failed}{after}{cost}", e.turn),
            vec![format!("{} ({}{status})", error.message, error.code)],
        );
    }
    if e.summary {
        // The compaction, which is the next event, has the text.
        let line = format!("turn {}: summarised the conversation in {took}, {}", e.turn, spent(&e.usage));
        return (line, Vec::new());
    }
    let mut texts = Vec::new();
    if let Some(reply) = &e.reply {
        texts.push(reply.text.to_shared().to_string());
        texts.extend(reply.calls.iter().map(call));
    }
    texts.retain(|text| !text.is_empty());
    (format!("turn {}: replied in {took}, {}", e.turn, spent(&e.usage)), texts)
}

fn call(call: &ToolCall) -> String {
    // Text that did not parse is shown as the model wrote it.
    let input = match &call.input {
        serde_json::Value::String(text) => text.clone(),
        value => posse::canonical_json(value),
    };
    format!("-> {} {input} (call {})", call.name, call.id)
}

fn sender(sender: &Sender) -> String {
    match sender {
        Sender::Person => "the user".to_owned(),
        Sender::Agent(agent) => format!("agent {agent}"),
        Sender::Child(child) => format!("child {child}"),
        Sender::Host(_) => "the host".to_owned(),
    }
}
