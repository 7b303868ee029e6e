//! An agent's whole authority, which decides its operations: its own terms on top of its parent's.

use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::approval::{APPROVALS_MAX, Approvals};
use super::decide::{DecisionReason, Verdict, decide};
use super::explain::{Explanation, explain};
use super::layer::{Layer, LayerName, restrains_paths};
use super::meet::Grant;
use super::operation::{NETWORK, Operation};
use super::path_rules::PathRules;
use super::pattern::Pattern;
use super::project::ProjectRules;
use super::rule::{Decision, Rules};
use crate::id::{AgentId, RunId};

/// The layers that all agents of a run share.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunLayers {
    /// Rules from the user's settings.
    pub operator: Rules,
    /// Rules from the project's settings, one layer per file.
    pub project: ProjectRules,
    /// Rules given to the run.
    pub run: Rules,
}

impl RunLayers {
    /// The decision of a rule of these layers about an operation of any agent. None if no rule matches.
    pub fn ruling(&self, operation: &Operation<'_>) -> Option<Verdict> {
        Some(decide(&self.layers(), &Approvals::none(), operation)).filter(|verdict| verdict.rule().is_some())
    }

    fn layers(&self) -> Vec<Layer> {
        let plain = |name, rules: &Rules| Layer { name, rules: rules.clone(), default: None };
        let mut layers = vec![plain(LayerName::Operator, &self.operator)];
        layers.extend(self.project.iter().map(|rules| plain(LayerName::Project, rules)));
        if self.project.is_empty() {
            // An explanation then shows that the project decides nothing.
            layers.push(plain(LayerName::Project, &Rules::default()));
        }
        layers.push(plain(LayerName::Run, &self.run));
        layers
    }
}

/// A definition's rules. This layer always decides: its default applies where no rule matches.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DefinitionLayer {
    pub name: Arc<str>,
    /// The decision where no rule matches: allow if the definition is built in or trusted, else ask.
    pub default: Decision,
    /// The last matching rule wins.
    pub rules: Rules,
}

/// Everything that bounds an agent: the run's layers, the definition and contract of every ancestor, its own, and its
/// grant. A child shares its parent's value, so each of ten thousand siblings costs a few words. As JSON (the agent's
/// `effective_permissions_json`) it is a flat list from the root down, which is checked when it is read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Authority(Arc<Node>);

#[derive(Debug, PartialEq, Eq)]
struct Node {
    above: LayersAbove,
    own: Terms,
}

#[derive(Debug, PartialEq, Eq)]
enum LayersAbove {
    Run(RunLayers),
    Parent(Authority),
}

/// The layers and grant that one agent adds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Terms {
    agent: AgentId,
    definition: DefinitionLayer,
    grant: Grant,
}

impl Authority {
    /// The authority of a run's root. No parent narrows it, so it gets the requested grant.
    pub fn root(run: &RunId, layers: RunLayers, definition: DefinitionLayer, grant: Grant) -> Self {
        Self(Arc::new(Node {
            above: LayersAbove::Run(layers),
            own: Terms { agent: run.root(), definition, grant },
        }))
    }

    /// The authority of this agent's child with that number: all layers of this agent, and the meet of its grant and
    /// the requested one.
    pub fn child(&self, number: u32, definition: DefinitionLayer, requested: &Grant) -> Self {
        let grant = Grant::meet(self.grant(), requested);
        let own = Terms { agent: self.agent().child(number), definition, grant };
        Self(Arc::new(Node { above: LayersAbove::Parent(self.clone()), own }))
    }

    pub fn agent(&self) -> &AgentId {
        &self.0.own.agent
    }

    /// The agent's grant, for its contract.
    pub fn grant(&self) -> &Grant {
        &self.0.own.grant
    }

    pub fn definition(&self) -> &DefinitionLayer {
        &self.0.own.definition
    }

    /// None for the root.
    pub fn parent(&self) -> Option<&Authority> {
        match &self.0.above {
            LayersAbove::Parent(parent) => Some(parent),
            LayersAbove::Run(_) => None,
        }
    }

    pub fn decide(&self, approvals: &Approvals, operation: &Operation<'_>) -> Verdict {
        if self.covers(operation) {
            unasked(operation, decide(&self.layers(), approvals, operation))
        } else {
            Verdict::deny(DecisionReason::ToolNotGranted)
        }
    }

    /// Whether any rule could match an operation of this tool.
    pub fn speaks_of(&self, tool: &str) -> bool {
        let speaks = |layer: &Layer| layer.rules.iter().any(|rule| rule.pattern.is_about_any(&[tool]));
        self.layers().iter().any(speaks)
    }

    /// The decision of a rule about an operation, whether or not the agent has the tool. None if only defaults apply.
    pub fn ruling(&self, approvals: &Approvals, operation: &Operation<'_>) -> Option<Verdict> {
        Some(decide(&self.layers(), approvals, operation)).filter(|verdict| verdict.rule().is_some())
    }

    /// Explains the verdict of [`decide`](Self::decide).
    pub fn explain(&self, approvals: &Approvals, operation: &Operation<'_>) -> Explanation {
        let mut explanation = explain(&self.layers(), approvals, operation);
        explanation.verdict = unasked(operation, explanation.verdict);
        if !self.covers(operation) {
            explanation.verdict = Verdict::deny(DecisionReason::ToolNotGranted);
        }
        explanation
    }

    /// Whether the programs of this agent may use the network.
    pub fn allows_network(&self, approvals: &Approvals) -> bool {
        self.decide(approvals, &Operation::new(NETWORK, None)).decision == Decision::Allow
    }

    fn covers(&self, operation: &Operation<'_>) -> bool {
        operation.tool() == NETWORK || self.grant().covers(operation.tool())
    }

    /// The rules for paths that this agent's tools reach. `approvals` are the run's. `consented` is the call's
    /// operation, if a user allowed it.
    pub fn path_rules(&self, approvals: &Approvals, consented: Option<&Operation<'_>>) -> PathRules {
        // Called for every call, so the usual case without rules about paths allocates nothing.
        if self.restrains_paths() {
            PathRules::of(self.layers(), approvals, consented)
        } else {
            PathRules::default()
        }
    }

    /// The literal that would allow this operation of the agent from now on. None if even an approval would not allow
    /// it, because a layer other than a definition asks, or because the literal is too long to store.
    pub fn literal_that_lifts(&self, approvals: &Approvals, operation: &Operation<'_>) -> Option<Pattern> {
        let literal = Pattern::literal(operation).ok()?;
        let lifted = self.decide(&approvals.with(literal.clone()), operation);
        (approvals.len() < APPROVALS_MAX && lifted.decision == Decision::Allow).then_some(literal)
    }

    /// Whether any layer can ask or deny for a path.
    fn restrains_paths(&self) -> bool {
        let Terms { definition, grant, .. } = &self.0.own;
        let own = restrains_paths(&definition.rules, Some(definition.default))
            || restrains_paths(&grant.rules, None);
        own || match &self.0.above {
            LayersAbove::Parent(parent) => parent.restrains_paths(),
            LayersAbove::Run(RunLayers { operator, project, run }) => {
                [operator, run].into_iter().chain(project.iter()).any(|rules| restrains_paths(rules, None))
            }
        }
    }

    /// Every layer that applies to this agent: the run's, each ancestor's from the root down, its own.
    pub fn layers(&self) -> Vec<Layer> {
        let (run, chain) = self.chain();
        let mut layers = run.layers();
        layers.extend(chain.into_iter().flat_map(|terms| terms.layers(terms.agent == *self.agent())));
        layers
    }

    /// The rules that apply to this agent but are not its own: the run's layers and those of its ancestors.
    pub fn rules_of_others(&self) -> Vec<Rules> {
        let (RunLayers { operator, project, run }, chain) = self.chain();
        let above = chain.iter().take(chain.len().saturating_sub(1));
        let above = above.flat_map(|terms| [&terms.definition.rules, &terms.grant.rules]);
        let all = [operator].into_iter().chain(project.iter()).chain([run]).chain(above);
        all.filter(|rules| !rules.is_empty()).cloned().collect()
    }

    /// The run's layers, and the terms of each agent from the root down to this one.
    fn chain(&self) -> (&RunLayers, Vec<&Terms>) {
        let mut chain = Vec::new();
        let mut node = &self.0;
        loop {
            chain.push(&node.own);
            match &node.above {
                LayersAbove::Parent(parent) => node = &parent.0,
                LayersAbove::Run(layers) => {
                    chain.reverse();
                    return (layers, chain);
                }
            }
        }
    }
}

/// No user is asked about the network: a rule that asks leaves it closed.
fn unasked(operation: &Operation<'_>, verdict: Verdict) -> Verdict {
    let asks = operation.tool() == NETWORK && verdict.decision == Decision::Ask;
    if asks { Verdict { decision: Decision::Deny, ..verdict } } else { verdict }
}

impl Terms {
    /// The layers of the definition and the contract, named for the agent itself (`own`) or for agents below it.
    fn layers(&self, own: bool) -> [Layer; 2] {
        let definition = self.definition.name.clone();
        let names = if own {
            [LayerName::Definition { definition }, LayerName::Contract]
        } else {
            let agent = self.agent.clone();
            [
                LayerName::AncestorDefinition { agent: agent.clone(), definition },
                LayerName::AncestorContract { agent },
            ]
        };
        let [definition, contract] = names;
        [
            Layer {
                name: definition,
                rules: self.definition.rules.clone(),
                default: Some(self.definition.default),
            },
            Layer { name: contract, rules: self.grant.rules.clone(), default: None },
        ]
    }
}

/// The serialised form of an authority.
#[derive(Serialize)]
struct AuthorityFormat<'a> {
    layers: &'a RunLayers,
    agents: Vec<&'a Terms>,
}

/// The parsed form of an authority, before it is checked.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawAuthority {
    layers: RunLayers,
    agents: Vec<Terms>,
}

impl Serialize for Authority {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let (layers, agents) = self.chain();
        AuthorityFormat { layers, agents }.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Authority {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let RawAuthority { layers, agents } = RawAuthority::deserialize(deserializer)?;
        let wrong = |text: String| serde::de::Error::custom(text);
        let mut agents = agents.into_iter();
        let root = agents.next().ok_or_else(|| wrong("`agents` is empty".into()))?;
        if !root.agent.is_root() {
            return Err(wrong(format!("{} is not a root agent", root.agent)));
        }
        let mut authority = Self::root(&root.agent.run(), layers, root.definition, root.grant);
        for terms in agents {
            authority = authority.child_as_read(terms).map_err(wrong)?;
        }
        Ok(authority)
    }
}

impl Authority {
    /// Adds a child that was parsed. A grant wider than the parent's is refused, not narrowed: this code never writes
    /// one, so nothing else in that record can be trusted either.
    fn child_as_read(&self, terms: Terms) -> Result<Self, String> {
        let number = terms.agent.number().filter(|_| terms.agent.parent().as_ref() == Some(self.agent()));
        let number = number.ok_or_else(|| format!("{} is not a child of {}", terms.agent, self.agent()))?;
        let child = self.child(number, terms.definition, &terms.grant);
        if *child.grant() == terms.grant {
            Ok(child)
        } else {
            Err(format!("the grant of {} is wider than its parent's", terms.agent))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{approvals, definition, grant, rules, run};
    use super::*;

    fn coder(grant: Grant) -> Authority {
        Authority::root(&run(), RunLayers::default(), definition("coder", Decision::Allow, &[]), grant)
    }

    #[test]
    fn a_parents_deny_binds_the_child() {
        let parent = coder(Grant { rules: rules(&[("bash:*", Decision::Deny)]), ..grant(&["bash", "read"]) });
        let requested = Grant { rules: rules(&[("bash:*", Decision::Allow)]), ..grant(&["bash", "read"]) };
        let child =
            parent.child(1, definition("general", Decision::Allow, &[("*", Decision::Allow)]), &requested);
        let grandchild = child.child(1, definition("general", Decision::Allow, &[]), &requested);
        for agent in [&parent, &child, &grandchild] {
            let verdict = agent.decide(&Approvals::none(), &Operation::parse("bash:ls"));
            assert_eq!(verdict.decision, Decision::Deny, "{}", agent.agent());
            let lifted = agent.decide(&approvals(&["*"]), &Operation::parse("bash:ls"));
            assert_eq!(lifted.decision, Decision::Deny, "{}", agent.agent());
        }
        let verdict = grandchild.decide(&Approvals::none(), &Operation::parse("bash:ls"));
        assert_eq!(verdict.to_string(), "deny: ancestor k3f9ab2c, contract, by the rule `bash:*`");
        assert_eq!(
            grandchild.decide(&Approvals::none(), &Operation::parse("read:a")).decision,
            Decision::Allow
        );
    }

    #[test]
    fn an_ancestors_definition_binds_too() {
        let asking = definition("stranger", Decision::Ask, &[("read", Decision::Allow)]);
        let parent = Authority::root(&run(), RunLayers::default(), asking, grant(&["bash", "read"]));
        let child = parent.child(3, definition("general", Decision::Allow, &[]), &grant(&["bash", "read"]));
        let operation = Operation::parse("bash:make");
        let verdict = child.decide(&Approvals::none(), &operation);
        assert_eq!(verdict.to_string(), "ask: ancestor k3f9ab2c, definition stranger, by default");
        assert_eq!(child.decide(&approvals(&["bash:make"]), &operation).decision, Decision::Allow);
        assert_eq!(child.decide(&Approvals::none(), &Operation::parse("read:a")).decision, Decision::Allow);
    }

    #[test]
    fn a_tool_outside_the_grant_is_denied_with_the_reason() {
        let parent = coder(grant(&["read", "bash"]));
        let child = parent.child(1, definition("general", Decision::Allow, &[]), &grant(&["read", "write"]));
        for tool in ["write:a", "bash:ls", "nonsense", ""] {
            let operation = Operation::parse(tool);
            let verdict = child.decide(&approvals(&["*"]), &operation);
            assert_eq!(verdict, Verdict::deny(DecisionReason::ToolNotGranted), "{tool}");
            assert_eq!(child.explain(&Approvals::none(), &operation).verdict, verdict);
        }
    }

    #[test]
    fn the_network_is_open_only_where_every_definition_says_so_or_a_person_allowed_it() {
        let allow = approvals(&["network"]);
        let silent = coder(grant(&["bash"]));
        assert!(!silent.allows_network(&Approvals::none()));
        assert!(silent.allows_network(&allow));
        assert!(!silent.allows_network(&approvals(&["*", "bash", "bash:*"])), "only by its name");
        let says = |decision| definition("x", Decision::Allow, &[("network", decision)]);
        let open = Authority::root(&run(), RunLayers::default(), says(Decision::Allow), grant(&["bash"]));
        assert!(open.allows_network(&Approvals::none()));
        let child = open.child(1, says(Decision::Deny), &grant(&["bash"]));
        assert!(!child.allows_network(&allow), "an approval lifts an ask, never a deny");
        let verdict = silent.explain(&Approvals::none(), &Operation::parse("network")).verdict;
        assert_eq!(verdict.to_string(), "deny: definition coder, by default");
        let asks = Authority::root(&run(), RunLayers::default(), says(Decision::Ask), grant(&["bash"]));
        let verdict = asks.explain(&Approvals::none(), &Operation::parse("network")).verdict;
        assert_eq!(verdict.decision, Decision::Deny, "nobody is asked");
        assert!(asks.allows_network(&allow));
        let layers = RunLayers { run: rules(&[("network", Decision::Deny)]), ..RunLayers::default() };
        let shut = Authority::root(&run(), layers, says(Decision::Allow), grant(&["bash"]));
        assert!(!shut.allows_network(&allow));
    }

    #[test]
    fn siblings_share_what_binds_them() {
        let parent = coder(grant(&["read", "grep"]));
        let requested = grant(&["grep", "read"]);
        let general = definition("general", Decision::Allow, &[("read:.env", Decision::Deny)]);
        let [first, second] = [1, 2].map(|number| parent.child(number, general.clone(), &requested));
        let rules = |authority: &Authority| authority.definition().rules.as_ptr();
        assert_eq!(rules(&first), rules(&second));
        assert!(first.parent().is_some_and(|above| Arc::ptr_eq(&above.0, &parent.0)));
        assert_eq!(size_of::<Authority>(), size_of::<usize>());
        assert!(size_of::<Node>() <= 256, "{}", size_of::<Node>());
    }

    #[test]
    fn a_widened_record_is_refused_on_load() {
        let parent = coder(grant(&["read"]));
        let child = parent.child(1, definition("explore", Decision::Allow, &[]), &grant(&["read"]));
        let text = serde_json::to_string(&child).expect("json");
        assert_eq!(serde_json::from_str::<Authority>(&text).expect("authority"), child);
        let at = text.rfind(r#"["read"]"#).expect("the child's tools");
        let widened = format!("{}[\"bash\",\"read\"]{}", &text[..at], &text[at + r#"["read"]"#.len()..]);
        let orphan = text.replace("k3f9ab2c.1", "k3f9ab2c.1.1");
        let headless = text.replace("k3f9ab2c\"", "k3f9ab2c.7\"");
        for (bad, said) in [
            (widened.as_str(), "the grant of k3f9ab2c.1 is wider than its parent's"),
            (&orphan, "k3f9ab2c.1.1 is not a child of k3f9ab2c"),
            (&headless, "k3f9ab2c.7 is not a root agent"),
            (r#"{"layers":{"operator":[],"project":[],"run":[]},"agents":[]}"#, "`agents` is empty"),
        ] {
            let error = serde_json::from_str::<Authority>(bad).expect_err(said).to_string();
            assert!(error.contains(said), "{error}");
        }
    }
}
