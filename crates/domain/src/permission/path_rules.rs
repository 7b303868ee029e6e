//! What an agent's rules say of paths that its tools come upon.
//!
//! Before a call runs, its operation is decided: a tool and the path the model gave. That is not all a call
//! touches. A link leads elsewhere, a search opens every file below its start, an edit tells what is in a
//! file. A rule is about a file, not about the name of the tool that was used to reach it; so a tool asks
//! again for each path it comes upon, under the name of what it does there: `read` wherever content is shown.

use std::borrow::Cow;
use std::sync::Arc;

use super::approval::Approvals;
use super::decide::{LayerDecision, Source, Verdict, meet, undecidable};
use super::layer::Layer;
use super::operation::{Operation, is_path_tool};
use super::rule::Decision;

/// What an agent's rules say of paths, for its tools. Cheap to clone.
///
/// It knows the rules only, not which tools the agent has: an agent with `grep` but without `read` sees the
/// lines of those files for which `read` is not ruled out.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PathRules {
    restraints: Option<Arc<Restraints>>,
    /// What rules call the directory that paths are beneath; none if it is the workspace.
    place: Option<Arc<str>>,
}

#[derive(Debug, PartialEq, Eq)]
struct Restraints {
    /// Only the layers that can say anything but allow about a path; never empty.
    layers: Vec<Layer>,
    approvals: Approvals,
    /// The path of the call, if a person said yes to it.
    consented: Option<Box<str>>,
}

impl PathRules {
    /// The rules of these layers. A layer that allows every path, or says nothing of any, is left out: it
    /// cannot lower an answer.
    pub(super) fn of(layers: Vec<Layer>, approvals: &Approvals, consented: Option<&Operation<'_>>) -> Self {
        let layers: Vec<Layer> = layers.into_iter().filter(Layer::restrains_paths).collect();
        let consented = consented.filter(|operation| is_path_tool(operation.tool()));
        let consented = consented.and_then(Operation::specifier).map(Into::into);
        let restraints = Restraints { layers, approvals: approvals.clone(), consented };
        Self { restraints: (!restraints.layers.is_empty()).then(|| Arc::new(restraints)), place: None }
    }

    /// The same for paths beneath another directory than the workspace, by what rules call that.
    pub fn beneath(&self, place: &str) -> Self {
        Self { restraints: self.restraints.clone(), place: Some(place.into()) }
    }

    /// What rules call a path.
    pub fn named<'a>(&self, path: &'a str) -> Cow<'a, str> {
        match self.place.as_deref() {
            None => path.into(),
            Some(place) if path == "." => place.to_owned().into(),
            Some(place) => format!("{place}/{path}").into(),
        }
    }

    /// Whether every path is allowed to every path tool, so that nobody needs to find out where a link leads.
    pub fn allow_everything(&self) -> bool {
        self.restraints.is_none()
    }

    /// Why the agent may not use `tool` on `path`, beneath the workspace and without links; none if it may.
    pub fn refusal(&self, tool: &str, path: &str) -> Option<Verdict> {
        let Restraints { layers, approvals, consented } = &**self.restraints.as_ref()?;
        let path = self.named(path);
        let operation = Operation::new(tool, Some(&path));
        if let Some(because) = undecidable(approvals, &operation) {
            return Some(Verdict::deny(because));
        }
        let answered = |say: &LayerDecision| {
            consented.as_deref().is_some_and(|at| answers(at, operation.specifier().unwrap_or("."), say))
        };
        let says = layers.iter().filter_map(|layer| layer.decide(approvals, &operation));
        let mut says = says.filter(|say| !answered(say)).peekable();
        // Whoever was left out allows it.
        says.peek()?;
        Some(meet(says)).filter(|verdict| verdict.decision != Decision::Allow)
    }
}

/// Whether a person's yes to a call on `at` answers what a layer says of `path`, which the call came upon.
///
/// It answers every `ask` about the same file: who may edit it may see it. It answers a default `ask` about what
/// is beneath: who may search a directory of an untrusted agent's choice may open the files in it. A rule that
/// somebody wrote about a file beneath wants to be asked itself, and a link leads to another file.
fn answers(at: &str, path: &str, say: &LayerDecision) -> bool {
    let beneath = || at == "." || path.strip_prefix(at).is_some_and(|rest| rest.starts_with('/'));
    say.decision == Decision::Ask && (path == at || (say.source == Source::Default && beneath()))
}

#[cfg(test)]
mod tests {
    use super::super::testing::{definition, grant, rules, run};
    use super::super::{Authority, Grant, RunLayers};
    use super::*;

    fn root(operator: &[(&str, Decision)], default: Decision) -> Authority {
        let layers = RunLayers { operator: rules(operator), ..RunLayers::default() };
        Authority::root(&run(), layers, definition("coder", default, &[]), grant(&["grep"]))
    }

    #[test]
    fn rules_that_restrain_no_path_cost_nothing() {
        for free in [
            &[][..],
            &[("bash", Decision::Deny), ("webfetch:*", Decision::Ask)],
            &[("read", Decision::Allow), ("write:src/**", Decision::Allow), ("*", Decision::Allow)],
        ] {
            let authority = root(free, Decision::Allow);
            assert!(authority.path_rules(&Approvals::none(), None).allow_everything(), "{free:?}");
            let child = authority.child(1, definition("x", Decision::Allow, &[]), &grant(&["grep"]));
            assert!(child.path_rules(&Approvals::none(), None).allow_everything(), "{free:?}");
        }
        for bound in [("read:.env", Decision::Deny), ("*", Decision::Ask), ("list:a/**", Decision::Ask)] {
            assert!(!root(&[bound], Decision::Allow).path_rules(&Approvals::none(), None).allow_everything());
        }
        assert!(!root(&[], Decision::Ask).path_rules(&Approvals::none(), None).allow_everything());
    }

    #[test]
    fn a_path_is_refused_with_the_rule_that_does_whatever_tools_the_agent_has() {
        let parent = root(&[("read:secrets/**", Decision::Deny)], Decision::Allow);
        let requested = Grant { rules: rules(&[("read:b", Decision::Ask)]), ..grant(&["grep"]) };
        let child = parent.child(1, definition("x", Decision::Allow, &[]), &requested);
        let rules = child.path_rules(&Approvals::none(), None);
        let said = |tool, path| rules.refusal(tool, path).map(|verdict| verdict.to_string());
        let by_the_operator = "deny: operator, by the rule `read:secrets/**`";
        assert_eq!(said("read", "secrets/key").as_deref(), Some(by_the_operator));
        assert_eq!(said("read", "b").as_deref(), Some("ask: contract, by the rule `read:b`"));
        assert_eq!(said("read", "a"), None);
        assert_eq!(said("grep", "secrets/key"), None, "that is another operation");
        assert!(said("read", "../a").is_some_and(|text| text.contains("`..`")), "a doubt is a deny");
    }
    #[test]
    fn a_yes_to_a_call_is_a_yes_to_its_own_file_and_to_what_nobody_wrote_a_rule_about() {
        let operator = [("read:secrets/**", Decision::Ask), ("write:gone", Decision::Deny)];
        let authority = root(&operator, Decision::Ask);
        let said = |consented: &str, tool: &str, path: &str| {
            let consented = Operation::parse(consented);
            authority.path_rules(&Approvals::none(), Some(&consented)).refusal(tool, path)
        };
        assert_eq!(said("edit:a", "edit", "a"), None);
        assert_eq!(said("edit:a", "read", "a"), None, "who may edit it may see it");
        assert_eq!(said("edit:secrets/a", "read", "secrets/a"), None);
        assert!(said("edit:a", "edit", "b").is_some(), "another file is another question");
        assert!(said("edit:a", "edit", "a/b").is_none() && said("edit:a", "edit", "ab").is_some());
        assert!(said("grep:.", "read", "src/a").is_none());
        assert!(said("grep:.", "read", "secrets/a").is_some(), "a rule about it wants to be asked");
        assert!(said("write:gone", "write", "gone").is_some(), "a yes never lifts a deny");
        assert!(said("bash:a", "read", "a").is_some(), "a command is no path");
    }
}
