//! What a recorded run may do when it is run again.
//!
//! A run that is kept here was started by whoever runs it again: what they allowed then, they allow. A bundle is somebody
//! else's, and brings nothing along that opens anything: its rules count where they narrow, its approvals do not.

use std::sync::Arc;

use posse_domain::definition::Definition;
use posse_domain::event::{CatalogueText, RunStarted};
use posse_domain::permission::{
    APPROVALS_MAX, Approvals, Decision, NETWORK, Pattern, RULES_MAX, Rule, Rules,
};
use posse_domain::skill::DiscoveredDefinitions;

use crate::Error;

/// How many approvals of a bundle are named.
const NAMED_MAX: usize = 10;

/// The rights of a replay, beneath the operator's rules.
#[derive(Debug)]
pub(super) struct Rights {
    pub(super) definitions: Vec<Definition>,
    pub(super) catalogue: DiscoveredDefinitions,
    pub(super) run_rules: Rules,
    pub(super) approvals: Approvals,
}

impl Rights {
    /// What was recorded, as far as it counts here, and what is said now: `rules` and `approvals`.
    pub(super) fn of(
        started: &RunStarted,
        is_bundle: bool,
        rules: &Rules,
        approvals: &Approvals,
    ) -> Result<Self, Error> {
        let terms = &started.terms;
        let run_rules = counting(&terms.run_rules, is_bundle, rules);
        if run_rules.len() > RULES_MAX {
            let problem = format!("with the recorded ones there are more than {RULES_MAX} rules");
            return Err(Error::invalid("--ask, --deny", problem));
        }
        let recorded = if is_bundle { &Approvals::none() } else { &terms.approvals };
        let approvals: Approvals = recorded.iter().chain(approvals).cloned().collect();
        if approvals.len() > APPROVALS_MAX {
            let problem = format!("with the recorded ones there are more than {APPROVALS_MAX} approvals");
            return Err(Error::invalid("--allow", problem));
        }
        let mut definitions = started.definitions.clone();
        let mut catalogue = found(started)?;
        if is_bundle {
            definitions.iter_mut().chain(&mut catalogue.definitions).for_each(Definition::close_network);
            // The directories were somebody else's: where they were is told as it was, and nothing there is read.
            catalogue.skills.iter_mut().for_each(|skill| skill.dir = None);
        }
        Ok(Self { definitions, catalogue, run_rules, approvals })
    }
}

/// What the recorded run had found on its machine.
fn found(started: &RunStarted) -> Result<DiscoveredDefinitions, Error> {
    let found = started.catalogue.as_ref().map(CatalogueText::read).transpose();
    let found =
        found.map_err(|error| Error::invalid("replay", format!("the recorded catalogue: {error}")))?;
    Ok(found.map(Arc::unwrap_or_clone).unwrap_or_default())
}

/// The recorded rules, of a bundle those that narrow, and then the ones of now.
fn counting(recorded: &Rules, is_bundle: bool, now: &Rules) -> Rules {
    let counts = |rule: &&Rule| !is_bundle || rule.decision != Decision::Allow;
    recorded.iter().filter(counts).chain(now.iter()).cloned().collect()
}

/// What a person should know before a bundle runs, given what they allow.
pub(super) fn note(started: &RunStarted, allowed: &Approvals) -> String {
    let mut note = "this bundle is somebody else's: its commands run in the sandbox, under your own rules; \
                    --allow opens what was allowed then"
        .to_owned();
    let mut then: Vec<&str> = started.terms.approvals.iter().map(Pattern::as_str).collect();
    let found = found(started).unwrap_or_default().definitions;
    if started.definitions.iter().chain(&found).any(Definition::opens_network) && !then.contains(&NETWORK) {
        then.push(NETWORK);
    }
    then.retain(|pattern| !allowed.iter().any(|own| own.as_str() == *pattern));
    if !then.is_empty() {
        let named: Vec<String> = then.iter().take(NAMED_MAX).map(|pattern| format!("`{pattern}`")).collect();
        let more = match then.len() - named.len() {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        note = format!("{note}; not allowed now: {}{more}", named.join(", "));
    }
    note
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(listed: &[(&str, Decision)]) -> Rules {
        let rule = |(pattern, decision): &(&str, Decision)| Rule {
            pattern: pattern.parse().expect("a pattern"),
            decision: *decision,
        };
        listed.iter().map(rule).collect()
    }

    #[test]
    fn of_a_bundles_rules_only_those_count_that_narrow() {
        use Decision::{Allow, Ask, Deny};
        let recorded = rules(&[("bash", Deny), ("bash:ls", Allow), ("network", Allow), ("read:x", Ask)]);
        let now = rules(&[("write", Deny)]);
        let expected = rules(&[("bash", Deny), ("read:x", Ask), ("write", Deny)]);
        assert_eq!(counting(&recorded, true, &now), expected);
        assert_eq!(counting(&recorded, false, &now).len(), 5, "one's own count as they are");
    }

    #[test]
    fn a_definition_that_opens_the_network_asks_for_it() {
        use Decision::{Allow, Ask, Deny};
        let coder = posse_agent::definition::builtin().into_iter().find(|known| known.name == "coder");
        let coder = coder.expect("coder");
        let closed = |listed: &[(&str, Decision)]| {
            let mut definition = Definition { rules: rules(listed).to_vec(), ..coder.clone() };
            definition.close_network();
            assert!(!definition.opens_network(), "{listed:?}");
            definition.rules.len() - listed.len()
        };
        assert_eq!(closed(&[("network", Allow)]), 1);
        assert_eq!(closed(&[("network", Deny), ("network", Allow)]), 1);
        assert_eq!(closed(&[("network", Allow), ("network", Deny)]), 0, "it is closed as it is");
        assert_eq!(closed(&[("bash", Allow), ("network", Ask)]), 0);
    }
}
