//! Computes the rights of a replay.
//!
//! The user who replays a run of this store also started it, so their approvals still apply. A bundle may be another
//! user's, and widens nothing: its rules apply where they narrow, its approvals do not.

use std::sync::Arc;

use posse_domain::definition::Definition;
use posse_domain::event::CatalogueText;
use posse_domain::permission::{
    APPROVALS_MAX, Approvals, Decision, NETWORK, Pattern, RULES_MAX, Rule, Rules,
};
use posse_domain::request::{RunRequest, RunTerms};

use crate::{Error, RequestField};

/// How many approvals of a bundle are named.
const NAMED_MAX: usize = 10;

/// The recorded request with the rights that apply here: the recorded ones, limited if they come from a bundle, and
/// those of `now`. The operator's rules are those of `now`.
pub(super) fn limited(mut request: RunRequest, is_bundle: bool, now: RunTerms) -> Result<RunRequest, Error> {
    // Every term is named, so that the compiler asks about a new one: does a replay take it from the user who replays,
    // and does it widen what agents may do, so that a bundle's must not apply?
    let RunTerms {
        operator_rules,
        run_rules,
        approvals,
        base_turns: _,
        parallel: _,
        close_on_completion: _,
        unowned_writers: _,
        base_url: _,
        project_rules: _,
        skill: _,
        loaded_skill: _,
        include_sub_agent_events: _,
        recorded_model: _,
    } = now;
    let run_rules = counting(&request.terms.run_rules, is_bundle, &run_rules);
    if run_rules.len() > RULES_MAX {
        let problem = format!("with the recorded ones there are more than {RULES_MAX} rules");
        return Err(Error::invalid(RequestField::Rules, problem));
    }
    let recorded = if is_bundle { &Approvals::none() } else { &request.terms.approvals };
    let approvals: Approvals = recorded.iter().chain(&approvals).cloned().collect();
    if approvals.len() > APPROVALS_MAX {
        let problem = format!("with the recorded ones there are more than {APPROVALS_MAX} approvals");
        return Err(Error::invalid(RequestField::Approvals, problem));
    }
    request.terms.operator_rules = operator_rules;
    (request.terms.run_rules, request.terms.approvals) = (run_rules, approvals);
    let found = request.discovered();
    let found = found
        .map_err(|error| Error::invalid(RequestField::Replay, format!("the recorded catalogue: {error}")))?;
    if is_bundle {
        let mut found = Arc::unwrap_or_clone(found);
        request.definitions.iter_mut().chain(&mut found.definitions).for_each(Definition::close_network);
        // The directories belong to another machine: the run's texts name them unchanged, and nothing there is read.
        found.skills.iter_mut().for_each(|skill| skill.dir = None);
        request.catalogue = CatalogueText::of(found);
    }
    Ok(request)
}

/// The recorded rules (of a bundle only those that narrow), then the current ones.
fn counting(recorded: &Rules, is_bundle: bool, now: &Rules) -> Rules {
    let counts = |rule: &&Rule| !is_bundle || rule.decision != Decision::Allow;
    recorded.iter().filter(counts).chain(now.iter()).cloned().collect()
}

/// The note for the user before a bundle is replayed, given what they allow.
pub(super) fn note(recorded: &RunRequest, allowed: &Approvals) -> String {
    let mut note =
        "this bundle may be another user's: its commands run in the sandbox, under your own rules; \
                    the approvals of the recorded run are ignored, only yours are used"
            .to_owned();
    let mut then: Vec<&str> = recorded.terms.approvals.iter().map(Pattern::as_str).collect();
    let found = recorded.discovered().unwrap_or_default();
    if recorded.definitions.iter().chain(&found.definitions).any(Definition::opens_network)
        && !then.contains(&NETWORK)
    {
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
        let coder = posse_definitions::builtin().into_iter().find(|known| known.name == "coder");
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
