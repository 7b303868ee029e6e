//! Builds the system prompt of an agent: its definition's prompt and its contract in plain words.
//!
//! The text depends on the terms alone. It has no run id and no time, so that the requests of two runs can be compared.
//! It has neither the agent's number nor its assignment, so that siblings with the same terms share one text. The
//! assignment is the first message of the conversation.

mod refused;

use std::collections::BTreeMap;
use std::fmt::Write;

use crate::machine::{REPORT_SYSTEM_MAX_BYTES, middle_out, words};
use posse_domain::budget::Budget;
use posse_domain::canonical::Canonical;
use posse_domain::contract::Contract;
use posse_domain::definition::Definition;
use posse_domain::lifecycle::{DELEGATE_TO_AGENT, SKILL_TOOL, TASK_TOOL};
use posse_domain::permission::{Rules, ToolName};

/// Maximum size of an `AGENTS.md` in the prompt.
const AGENTS_MD_MAX_BYTES: usize = 64 * 1024;
/// The message between a parent's conversation and the work of the child that shares it.
const HANDOVER: &str = "Everything above is the conversation of the agent that delegates work to you, up to the moment \
                        at which it did. You may use what it says; you do not go on with it. From here on you are a \
                        sub-agent with work of your own: what follows takes the place of all that was said above about \
                        who you are, what you may do and what you are asked for.";
/// The tools for sub-agents, in the order in which the prompt lists them.
const SPAWNING: [&str; 3] = [TASK_TOOL, DELEGATE_TO_AGENT, SKILL_TOOL];
/// Maximum length of the failure reason that a new attempt reads.
const REASON_MAX_CHARS: usize = 2_000;

/// The system prompt of an agent: the definition's prompt, the contract, the project's instructions. `others` are the
/// rules of the user, the run and the ancestors, which apply beside its own.
pub fn system_prompt(
    definition: &Definition,
    contract: &Contract,
    agents_md: Option<&str>,
    others: &[Rules],
) -> String {
    let mut prompt = own_terms(definition, contract, others);
    prompt.push_str(&project_instructions(agents_md));
    prompt
}

/// The system prompt of a report turn that has to be short: the agent's role, and the terms of its report.
pub fn report_prompt(definition: &Definition, contract: &Contract) -> String {
    let terms = format!("- {}\n{}", report(contract), criteria(contract));
    let text =
        format!("# Your contract\n\n{}\n\n{terms}{}", who(definition, contract), result_schema(contract));
    middle_out(&text, REPORT_SYSTEM_MAX_BYTES)
}

/// The first message of an agent that starts with its parent's conversation.
///
/// The agent has its parent's system prompt and tools, so that both requests have the same prefix and the provider's
/// cache applies. Therefore this message describes the agent's role and rights.
pub fn handover(definition: &Definition, contract: &Contract) -> String {
    format!(
        "{HANDOVER}\n\n{}\n# Your assignment\n\n{}",
        own_terms(definition, contract, &[]),
        first_message(contract)
    )
}

/// The definition's prompt and the contract.
fn own_terms(definition: &Definition, contract: &Contract, others: &[Rules]) -> String {
    let mut prompt =
        format!("{}\n\n# Your contract\n\n{}\n", definition.prompt.trim(), who(definition, contract));
    let lines = [
        Some(tools(contract)),
        refused::refused(definition, contract, others),
        refused::asked(definition, contract),
        Some(spawning(definition, contract, others)),
        spawnable(definition, contract),
        Some(files(contract)),
        Some(turns(contract)),
        time(contract),
        budget(&contract.budget),
        Some(report(contract)),
    ];
    for line in lines.iter().flatten() {
        let _ = write!(prompt, "\n- {line}");
    }
    prompt.push('\n');
    prompt.push_str(&criteria(contract));
    prompt.push_str(&result_schema(contract));
    prompt
}

/// The first message of an agent's conversation: its assignment and further context.
pub fn first_message(contract: &Contract) -> String {
    let task = &in_plan(contract);
    match contract.execution.extra_context.as_deref().map(str::trim) {
        None | Some("") => task.clone(),
        Some(context) => format!("{task}\n\n## Context\n\n{context}"),
    }
}

/// The assignment of an agent. For a plan step, also the goal of the plan.
fn in_plan(contract: &Contract) -> String {
    let (step, parent) = (&contract.step, &contract.parent);
    let is_step =
        parent.message_id.is_none() && contract.context.depth > 0 && contract.execution.skill.is_none();
    if !is_step {
        return step.description.clone();
    }
    let goal = parent.goal_summary.trim();
    let request = Some(parent.task_prompt.trim()).filter(|request| !request.is_empty() && *request != goal);
    let request = request.map(|request| format!("\n\nThe request of the person: {request}"));
    format!(
        "# {}\n\n{}\n\n## What it is for\n\nThis is one step of a plan; other agents carry out the others. The goal of the \
         plan: {goal}{}",
        step.title,
        step.description.trim_end(),
        request.unwrap_or_default()
    )
}

/// The text about the previous attempt. `in_place` states that it worked on the same files as this one.
pub fn retry_note(reason: &str, in_place: bool) -> String {
    let reason: String = reason.trim().trim_end_matches('.').chars().take(REASON_MAX_CHARS).collect();
    let files = if in_place {
        "Its conversation is gone, but files that it changed are still changed: look at them before you continue"
    } else {
        "Its conversation is gone, and so are its changes: you begin with the same files as it did"
    };
    format!(
        "This is a new attempt at the same work. The attempt before it ended: {reason}. {files}. Avoid what ended it."
    )
}

fn who(definition: &Definition, contract: &Contract) -> String {
    let name = &definition.display_name;
    let depth = contract.context.depth;
    match &contract.context.parent_task_id {
        None => format!(
            "You are the root agent of this run ({name}). A person gave you the work and reads your report."
        ),
        Some(parent) => format!(
            "You are a sub-agent ({name}) at depth {depth}. Agent `{}` gave you the work and reads your report; {}. \
             Nobody can answer questions while you work.",
            parent.relative(),
            knows(contract),
        ),
    }
}

fn knows(contract: &Contract) -> &'static str {
    if contract.execution.share_history {
        "you begin with its conversation"
    } else if contract.parent.continues.is_some() {
        "you begin with the conversation that you are to continue"
    } else {
        "you know nothing of its conversation but what it wrote to you"
    }
}

fn tools(contract: &Contract) -> String {
    let names: Vec<&str> = contract.permissions.allowed_tools.iter().map(ToolName::as_str).collect();
    if names.is_empty() {
        return "Tools: none. Answer from what you are told.".to_owned();
    }
    let more = if contract.execution.share_history { ", also to those that are offered to you" } else { "" };
    format!("Tools: {}. Calls to any other are refused{more}.", quoted(names))
}

fn spawning(definition: &Definition, contract: &Contract, others: &[Rules]) -> String {
    let grant = &contract.permissions;
    let levels_left = contract.context.max_depth.saturating_sub(contract.context.depth);
    let can_use =
        |tool: &&&str| grant.covers(tool) && !refused::refuses_every_use(tool, definition, contract, others);
    let with: Vec<String> = SPAWNING.iter().filter(can_use).map(|tool| format!("`{tool}`")).collect();
    let with = with.join(" and ");
    match grant.max_delegation_depth.min(levels_left) {
        levels if levels == 0 || !grant.can_spawn_children || with.is_empty() => {
            "Sub-agents: you cannot spawn any. What you were given you do yourself.".to_owned()
        }
        1 => format!("Sub-agents: you may spawn them with {with}; they cannot spawn in turn."),
        levels => format!(
            "Sub-agents: you may spawn them with {with}, and the tree may grow {levels} levels below you."
        ),
    }
}

/// The definitions that an agent with its parent's tools may spawn, because the list in the `task` tool is the
/// parent's.
fn spawnable(definition: &Definition, contract: &Contract) -> Option<String> {
    let grant = &contract.permissions;
    let spawns = definition
        .spawns
        .as_deref()
        .filter(|_| grant.can_spawn_children && grant.max_delegation_depth > 0)?;
    let names = quoted(spawns.iter().map(String::as_str));
    contract
        .execution
        .share_history
        .then(|| format!("Agents that you may spawn: {names}, whatever else `task` lists."))
}

fn files(contract: &Contract) -> String {
    let paths = "Files: every path is relative to the workspace, and nothing outside it can be reached.";
    match contract.step.owns.as_slice() {
        [] => paths.to_owned(),
        owned => format!(
            "{paths} You own {}: change nothing else, a change outside of it is refused.",
            quoted(owned.iter().map(String::as_str))
        ),
    }
}

fn turns(contract: &Contract) -> String {
    match contract.execution.max_turns {
        None => "Turns: not limited. A turn is one reply of yours with its tool calls.".to_owned(),
        Some(0 | 1) => "Turns: this one only. You have no tools in it: write your report.".to_owned(),
        Some(turns) => format!(
            "Turns: at most {turns}. A turn is one reply of yours with its tool calls. The last one has no tools \
             and is kept for your report, so be done with the work before it."
        ),
    }
}

fn time(contract: &Contract) -> Option<String> {
    let terms = &contract.execution;
    let limits = [
        terms.attempt_timeout_ms.map(|ms| format!("{} of work", duration(ms))),
        terms.turn_timeout_ms.map(|ms| format!("{} for one turn", duration(ms))),
    ];
    let limits: Vec<String> = limits.into_iter().flatten().collect();
    (!limits.is_empty())
        .then(|| format!("Time: {}. Waiting for sub-agents does not count.", limits.join(", ")))
}

fn budget(budget: &Budget) -> Option<String> {
    let limits = [
        budget.tokens.map(|tokens| format!("{tokens} tokens")),
        budget.usd.map(|usd| usd.to_string()),
        budget.agents.map(|agents| format!("{agents} agents, yourself included")),
        budget.wall_ms.map(|ms| format!("{} from your start to your end", duration(ms))),
    ];
    let limits: Vec<String> = limits.into_iter().flatten().collect();
    (!limits.is_empty())
        .then(|| format!("Budget for you and all sub-agents below you: {}.", limits.join("; ")))
}

fn report(contract: &Contract) -> String {
    if contract.outputs.result_schema.is_some() {
        return "Result: a reply without tool calls ends your work, and its text is your result. It must be JSON \
                that satisfies the schema below, and nothing else."
            .to_owned();
    }
    "Report: a reply without tool calls ends your work, and its text is your report. Write it in Markdown for a \
     reader who has seen nothing of your work."
        .to_owned()
}

fn criteria(contract: &Contract) -> String {
    let criteria = &contract.step.success_criteria;
    if criteria.is_empty() {
        return String::new();
    }
    let mut section = "\n## What counts as done\n\n".to_owned();
    for (at, words) in words(contract).enumerate() {
        let _ = writeln!(section, "{}. {words}", at + 1);
    }
    for check in contract.checks() {
        let _ = writeln!(section, "- the host runs `{}` on your work, and it exits with 0", check.command);
    }
    if words(contract).next().is_some() && contract.outputs.result_schema.is_none() {
        section.push_str(
            "\nYour report has a line for each numbered point: `Criterion 1:`, whether it is met, and by what one can see \
             that.\n",
        );
    }
    section
}

fn result_schema(contract: &Contract) -> String {
    let Some(schema) = &contract.outputs.result_schema else { return String::new() };
    let schema: BTreeMap<_, _> = schema.iter().map(|(key, value)| (key, Canonical(value))).collect();
    let schema = serde_json::to_string_pretty(&schema).unwrap_or_default();
    format!("\n## Schema of your result\n\n```json\n{schema}\n```\n")
}

fn project_instructions(agents_md: Option<&str>) -> String {
    let Some(text) = agents_md.map(str::trim).filter(|text| !text.is_empty()) else { return String::new() };
    let cut = text.floor_char_boundary(AGENTS_MD_MAX_BYTES);
    let mark = if cut < text.len() { "\n\n[the rest of AGENTS.md is left out: it is too long]" } else { "" };
    format!("\n# Instructions of the project (AGENTS.md)\n\n{}{mark}\n", &text[..cut])
}

fn quoted<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    names.into_iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}

/// A duration in the largest unit that is exact.
fn duration(ms: u64) -> String {
    let (number, unit) = match ms {
        0 => (0, "second"),
        ms if ms % 60_000 == 0 => (ms / 60_000, "minute"),
        ms if ms % 1_000 == 0 => (ms / 1_000, "second"),
        ms => (ms, "millisecond"),
    };
    format!("{number} {unit}{}", if number == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests;
