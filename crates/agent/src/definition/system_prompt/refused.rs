//! What an agent is told that rules refuse, so that it does not spend turns on finding it out.
//!
//! In each list of rules the last match wins, and the lists of a definition and of a contract hold beside each other:
//! what one refuses the other does not bring back.

use posse_domain::contract::Contract;
use posse_domain::definition::Definition;
use posse_domain::permission::{Decision, OnAsk, Operation, Pattern, Rule};

use super::quoted;

/// Most rules that are listed; the host enforces all of them either way.
const RULES_SHOWN_MAX: usize = 20;
/// Stands for whatever a tool can be used with: nothing but a whole wildcard matches it.
const ANYTHING: &str = "\u{1}/\u{1}";

/// A denial that something of its list takes effect after.
struct Denial<'a> {
    pattern: &'a Pattern,
    /// What of it is not refused.
    but: Vec<&'a Pattern>,
}

/// What is refused whatever anybody says.
pub(super) fn refused(definition: &Definition, contract: &Contract) -> Option<String> {
    let mut denials = denials(&definition.rules);
    denials.extend(self::denials(&contract.permissions.rules));
    let whole: Vec<&Pattern> =
        denials.iter().filter(|denial| denial.but.is_empty()).map(|denial| denial.pattern).collect();
    let (mut never, mut only) = (Vec::new(), Vec::new());
    for Denial { pattern, but } in denials.iter().take(RULES_SHOWN_MAX) {
        if but.is_empty() {
            never.push(format!("`{pattern}`"));
            continue;
        }
        if whole.iter().any(|whole| covers(whole, pattern)) {
            continue;
        }
        if pattern.as_str().contains([':', '*']) {
            let but = quoted(but.iter().map(|pattern| pattern.as_str()));
            never.push(format!("`{pattern}` (but not {but})"));
        } else {
            let uses = quoted(but.iter().filter_map(|pattern| Some(pattern.as_str().split_once(':')?.1)));
            only.push(format!("`{pattern}` only as: {uses}."));
        }
    }
    never.dedup();
    if !never.is_empty() {
        only.insert(0, format!("Refused whenever you try: {}.", never.join(", ")));
    }
    (!only.is_empty()).then(|| only.join(" "))
}

/// What becomes of the calls of an agent whose definition asks about everything.
pub(super) fn asked(definition: &Definition, contract: &Contract) -> Option<String> {
    let nobody = contract.context.parent_task_id.is_some() && contract.permissions.on_ask == OnAsk::Deny;
    let then = if nobody { " Nobody can be asked for you: it is refused." } else { "" };
    (definition.default == Decision::Ask)
        .then(|| format!("Every call that was not allowed before asks a person first.{then}"))
}

/// The denials of a list that still hold somewhere, each with what later rules make of it.
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

/// What later rules leave of a denial's operations.
fn exceptions<'a>(denied: &Pattern, later: &'a [Rule]) -> Vec<&'a Pattern> {
    let lifts = |(at, rule): &(usize, &Rule)| {
        let denied_again = later[at + 1..]
            .iter()
            .any(|after| after.decision == Decision::Deny && covers(&after.pattern, &rule.pattern));
        rule.decision != Decision::Deny && covers(denied, &rule.pattern) && !denied_again
    };
    later.iter().enumerate().filter(lifts).map(|(_, rule)| &rule.pattern).collect()
}

/// Whether a pattern is about all that another is about. Two that only cross are not looked into.
fn covers(wide: &Pattern, narrow: &Pattern) -> bool {
    let (tool, specifier) = narrow.as_str().split_once(':').unwrap_or((narrow.as_str(), ANYTHING));
    wide == narrow || wide.matches(&Operation::new(tool, Some(specifier)))
}
