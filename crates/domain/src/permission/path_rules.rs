//! Applies an agent's rules to the paths that its tools reach during a call.
//!
//! Before a call runs, its operation is decided: a tool and the path that the model gave. A call touches more than
//! that. A link leads elsewhere, a search opens every file below its start, an edit shows a file's content. A rule is
//! about a file, not about the tool that reaches it. So a tool checks each path that it reaches, under the name of what
//! it does there: `read` wherever content is shown.

use std::borrow::Cow;
use std::sync::Arc;

use super::approval::Approvals;
use super::decide::{LayerDecision, Source, Verdict, meet, undecidable};
use super::layer::Layer;
use super::operation::{Operation, is_path_tool};
use super::rule::Decision;

/// An agent's rules about paths, for its tools. Cheap to clone.
///
/// It has only the rules, not the agent's tools: an agent with `grep` but without `read` sees the lines of files that
/// no rule closes to `read`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PathRules {
    restraints: Option<Arc<Restraints>>,
    /// The prefix of paths in rules. None if paths are relative to the workspace.
    place: Option<Arc<str>>,
}

#[derive(Debug, PartialEq, Eq)]
struct Restraints {
    /// Only the layers that can ask or deny for a path. Never empty.
    layers: Vec<Layer>,
    approvals: Approvals,
    /// The path of the call, if a user allowed it.
    consented: Option<Box<str>>,
}

impl PathRules {
    /// The rules of these layers. A layer that allows every path, or decides about none, is omitted: it cannot lower a
    /// decision.
    pub(super) fn of(layers: Vec<Layer>, approvals: &Approvals, consented: Option<&Operation<'_>>) -> Self {
        let layers: Vec<Layer> = layers.into_iter().filter(Layer::restrains_paths).collect();
        let consented = consented.filter(|operation| is_path_tool(operation.tool()));
        let consented = consented.and_then(Operation::specifier).map(Into::into);
        let restraints = Restraints { layers, approvals: approvals.clone(), consented };
        Self { restraints: (!restraints.layers.is_empty()).then(|| Arc::new(restraints)), place: None }
    }

    /// The same rules for paths beneath another directory than the workspace. Rules name it `place`.
    pub fn beneath(&self, place: &str) -> Self {
        Self { restraints: self.restraints.clone(), place: Some(place.into()) }
    }

    /// The path as rules name it.
    pub fn named<'a>(&self, path: &'a str) -> Cow<'a, str> {
        match self.place.as_deref() {
            None => path.into(),
            Some(place) if path == "." => place.to_owned().into(),
            Some(place) => format!("{place}/{path}").into(),
        }
    }

    /// Whether every path is allowed to every path tool. Then no tool needs to resolve links.
    pub fn allow_everything(&self) -> bool {
        self.restraints.is_none()
    }

    /// Why the agent may not use `tool` on `path`, which is relative to the workspace and free of links. None if it
    /// may.
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
        // The omitted layers allow it.
        says.peek()?;
        Some(meet(says)).filter(|verdict| verdict.decision != Decision::Allow)
    }
}

/// Whether a user's consent to a call on `at` also answers a layer's decision about `path`, which the call reached.
///
/// It answers every `ask` about the same file: an agent that may edit a file may see it. It answers a default `ask`
/// about paths beneath: an agent that may search a directory may open the files in it. A rule about a file beneath
/// needs its own answer, and so does the target of a link.
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
