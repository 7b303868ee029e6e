//! Lists in a prompt what rules refuse, so that the agent does not spend turns on refused calls.
//!
//! In each list of rules the last match wins. The lists of a definition and of a contract apply together: one does not
//! lift a deny of the other.

use std::collections::{BTreeMap, BTreeSet};

use posse_domain::contract::Contract;
use posse_domain::definition::{Definition, Trust};
use posse_domain::permission::{Decision, OnAsk, Operation, Pattern, Rule, Rules, ToolName};

use super::quoted;

/// Maximum number of listed rules. The host enforces all of them in any case.
const RULES_SHOWN_MAX: usize = 20;
/// A specifier that only a pattern for everything matches.
const ANYTHING: &str = "\u{1}/\u{1}";

/// A deny rule with the exceptions that later rules of its list make.
struct Denial<'a> {
    pattern: &'a Pattern,
    /// The operations that later rules allow or ask about.
    but: Vec<&'a Pattern>,
}

/// The operations that no answer can allow, for the tools that the agent has.
pub(super) fn refused(definition: &Definition, contract: &Contract, others: &[Rules]) -> Option<String> {
    let lists = all_lists(definition, contract, others);
    let tools: Vec<&str> = contract.permissions.allowed_tools.iter().map(ToolName::as_str).collect();
    let denials: Vec<Denial<'_>> =
        lists.flat_map(denials).filter(|denial| denial.pattern.is_about_any(&tools)).collect();
    let whole: Vec<&Pattern> =
        denials.iter().filter(|denial| denial.but.is_empty()).map(|denial| denial.pattern).collect();
    let mut never: Vec<String> = Vec::new();
    let mut only: BTreeMap<&str, Vec<&[&Pattern]>> = BTreeMap::new();
    for Denial { pattern, but } in denials.iter().take(RULES_SHOWN_MAX) {
        if but.is_empty() {
            never.push(format!("`{pattern}`"));
        } else if whole.iter().any(|whole| covers(whole, pattern)) {
            // Listed already.
        } else if pattern.as_str().contains([':', '*']) {
            let but = quoted(but.iter().map(|pattern| pattern.as_str()));
            never.push(format!("`{pattern}` (but not {but})"));
        } else {
            only.entry(pattern.as_str()).or_default().push(but);
        }
    }
    let mut seen = BTreeSet::new();
    never.retain(|line| seen.insert(line.clone()));
    let mut lines: Vec<String> = only.into_iter().map(|(tool, lists)| left_of(tool, &lists)).collect();
    if !never.is_empty() {
        lines.insert(0, format!("Refused whenever you try: {}.", never.join(", ")));
    }
    (!lines.is_empty()).then(|| lines.join(" "))
}

/// Whether rules refuse every use of a tool.
pub(super) fn refuses_every_use(
    tool: &str,
    definition: &Definition,
    contract: &Contract,
    others: &[Rules],
) -> bool {
    let anything = Operation::new(tool, Some(ANYTHING));
    all_lists(definition, contract, others)
        .flat_map(denials)
        .any(|denial| denial.but.is_empty() && denial.pattern.matches(&anything))
}

/// Every list of rules that applies to the agent.
fn all_lists<'a>(
    definition: &'a Definition,
    contract: &'a Contract,
    others: &'a [Rules],
) -> impl Iterator<Item = &'a [Rule]> {
    let lists = others.iter().map(|rules| &**rules);
    lists.chain([definition.rules.as_slice(), &contract.permissions.rules])
}

/// The uses of a tool that several lists leave: each list has to allow a use.
fn left_of(tool: &str, lists: &[&[&Pattern]]) -> String {
    let uses = |patterns: &[&Pattern]| {
        quoted(patterns.iter().filter_map(|pattern| Some(pattern.as_str().split_once(':')?.1)))
    };
    let in_all = |pattern: &&&Pattern| lists.iter().all(|list| list.iter().any(|wide| covers(wide, pattern)));
    let mut both: Vec<&Pattern> = Vec::new();
    for pattern in lists.iter().copied().flatten().filter(in_all) {
        if !both.contains(pattern) {
            both.push(pattern);
        }
    }
    match lists {
        _ if !both.is_empty() => format!("`{tool}` only as: {}.", uses(&both)),
        [one] => format!("`{tool}` only as: {}.", uses(one)),
        // Patterns may overlap without one containing the other.
        several => {
            let each: Vec<String> = several.iter().map(|list| uses(list)).collect();
            format!("`{tool}` only as what fits each of these lists: {}.", each.join("; and "))
        }
    }
}

/// How calls are decided for an agent whose definition asks about everything.
pub(super) fn asked(definition: &Definition, contract: &Contract) -> Option<String> {
    let nobody = contract.context.parent_task_id.is_some() && contract.permissions.on_ask == OnAsk::Deny;
    let then = if nobody { " Nobody can be asked for you: it is refused." } else { "" };
    (definition.trust == Trust::Untrusted)
        .then(|| format!("Every call that was not allowed before asks a person first.{then}"))
}

/// The denials of a list that still apply somewhere, each with its exceptions.
fn denials(rules: &[Rule]) -> Vec<Denial<'_>> {
    let holds = |(at, rule): (usize, &'_ Rule)| {
        let later = &rules[at + 1..];
        let again = later.iter().any(|later| covers(&later.pattern, &rule.pattern));
        rule.decision == Decision::Deny && !again
    };
    let held = rules.iter().enumerate().filter(|one| holds(*one));
    held.map(|(at, rule)| Denial { pattern: &rule.pattern, but: exceptions(&rule.pattern, &rules[at + 1..]) })
        .collect()
}

/// The later rules that lift a part of a denial.
fn exceptions<'a>(denied: &Pattern, later: &'a [Rule]) -> Vec<&'a Pattern> {
    let lifts = |(at, rule): &(usize, &Rule)| {
        let denied_again = later[at + 1..]
            .iter()
            .any(|after| after.decision == Decision::Deny && covers(&after.pattern, &rule.pattern));
        rule.decision != Decision::Deny && covers(denied, &rule.pattern) && !denied_again
    };
    later.iter().enumerate().filter(lifts).map(|(_, rule)| &rule.pattern).collect()
}

/// Whether a pattern covers everything that another matches. Patterns that only overlap do not count.
fn covers(wide: &Pattern, narrow: &Pattern) -> bool {
    let (tool, specifier) = narrow.as_str().split_once(':').unwrap_or((narrow.as_str(), ANYTHING));
    wide == narrow || wide.matches(&Operation::new(tool, Some(specifier)))
}
