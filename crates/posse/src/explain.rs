//! Explains decisions beyond the rules: whether the tool exists, whether the agent owns the path, and what a rule about
//! a skill decides. The engine uses the same checks for an agent's call.

use std::fmt;

use posse_domain::contract::Contract;
use posse_domain::event::EffectClass;
use posse_domain::id::AgentId;
use posse_domain::nearest::{hint, nearest};
use posse_domain::ownership;
use posse_domain::permission::{
    Approvals, Authority, BASH, Decision, DecisionReason, Explanation, NETWORK, OnAsk, Operation, PATH_TOOLS,
    Pattern, Verdict,
};
use posse_domain::skill::{DELEGATE_TO_AGENT, SKILL_FILES, SKILL_TOOL};
use posse_engine::ports::Tool;

use crate::view::AgentCommits;
use crate::work::unusable;
use crate::{Error, Posse, RequestField};

/// The tools that show files of skills.
const SKILL_READERS: [&str; 2] = ["read", "list"];

/// A fact about an operation that the rules do not show.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BeyondRules {
    /// The path is protected. An approval of this pattern, given with the request of a run, opens it.
    OpenedBy(Pattern),
    /// An address that is not public is refused, unless an approval names its host.
    PublicAddressesOnly,
    /// No approver is asked about the network. An approval that is given with the request of a run opens it.
    NetworkInAdvance,
    /// The sandbox limits what the command can do.
    SandboxLimits,
}

impl BeyondRules {
    /// The fact that applies to an explained operation, if there is one.
    pub fn of(explanation: &Explanation) -> Option<Self> {
        if let DecisionReason::Protected { opening: Some(opening), .. } = &explanation.verdict.because {
            return Some(Self::OpenedBy(opening.clone()));
        }
        let decision = explanation.verdict.decision;
        let allowed = decision == Decision::Allow;
        let tool = explanation.operation.split([':', '@']).next().unwrap_or_default();
        match tool {
            "webfetch" if allowed => Some(Self::PublicAddressesOnly),
            BASH if decision != Decision::Deny => Some(Self::SandboxLimits),
            NETWORK if !allowed => Some(Self::NetworkInAdvance),
            _ => None,
        }
    }
}

impl fmt::Display for BeyondRules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OpenedBy(pattern) => {
                write!(f, "a run may write there if its request has an approval of `{pattern}`")
            }
            Self::PublicAddressesOnly => {
                f.write_str("an address that is not public is refused, unless an approval names its host")
            }
            Self::NetworkInAdvance => {
                write!(
                    f,
                    "Posse never asks about the network; a run may use it with an approval of `{NETWORK}` in advance"
                )
            }
            Self::SandboxLimits => f.write_str("the sandbox limits what the command can do"),
        }
    }
}

/// An operation of an agent, with everything that decides about it in its run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExplainedOperation {
    /// The decision of every layer of rules, and the outcome.
    pub explanation: Explanation,
    /// Whether an `ask` is refused: the agent is a sub-agent, and its run does not let sub-agents ask.
    pub is_ask_refused: bool,
    /// Whether the path is that of a well-known secret file that was kept out of the workspace.
    pub is_kept_out: bool,
    /// The limits of a command; `None` for other tools, and for a command that is denied.
    pub command: Option<CommandLimits>,
}

/// What a command of an agent can reach.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CommandLimits {
    /// Whether it has the network of the machine.
    pub has_network: bool,
    /// Whether the agent has a workspace of its own, which the command can change.
    pub can_change_workspace: bool,
}

impl Posse {
    /// Why an agent may or may not execute an operation: the decision of every layer, the outcome, including all
    /// approvals in the run so far, and what limits it beyond the rules.
    pub async fn explain(&self, agent: &AgentId, operation: &str) -> Result<ExplainedOperation, Error> {
        let record = self.agent(agent).await?;
        let rows = self.store.agents(&self.key(&agent.run())).await?;
        let approvals = self.approvals_of(&agent.run(), &rows).await?;
        let asked = ExplainQuery::read(operation, &self.tools)?;
        let authority = record.authority()?;
        let explanation = asked.explain(&authority, &record.contract, &approvals);
        let decision = explanation.verdict.decision;
        let cannot_ask = !agent.is_root() && authority.grant().on_ask == OnAsk::Deny;
        let command = if asked.operation.tool() == BASH && decision != Decision::Deny {
            let network = authority.explain(&approvals, &Operation::new(NETWORK, None)).verdict;
            let files = self.fold::<AgentCommits>(&agent.run()).await?.of(agent);
            Some(CommandLimits {
                has_network: network.decision == Decision::Allow,
                can_change_workspace: files.base.is_some(),
            })
        } else {
            None
        };
        Ok(ExplainedOperation {
            is_ask_refused: cannot_ask && decision == Decision::Ask,
            is_kept_out: self.is_kept_out(agent, &asked).await?,
            explanation,
            command,
        })
    }

    /// Whether a path is that of a secret file that the snapshot of the user's folder omits.
    async fn is_kept_out(&self, agent: &AgentId, asked: &ExplainQuery<'_>) -> Result<bool, Error> {
        // A server says so itself: the files are on its machine.
        if self.server.is_some() {
            return Ok(false);
        }
        let path = asked.operation.specifier().filter(|_| PATH_TOOLS.contains(&asked.operation.tool()));
        let Some(path) = path.filter(|path| posse_workspace::is_secret_path(path)) else { return Ok(false) };
        let run = agent.run();
        let commits: AgentCommits = self.fold(&run).await?;
        let base = commits.of(agent).base.or_else(|| commits.of(&run.root()).base);
        // Agents without workspaces read the user's folder.
        let Some(base) = base else { return Ok(false) };
        let files = self.run_files(&run).await?.list_files(&run, base).await.map_err(unusable(&run))?;
        Ok(!files.files.iter().any(|file| file.path.starts_with(path)))
    }
}

/// The operation to explain.
pub(crate) struct ExplainQuery<'a> {
    operation: Operation<'a>,
    /// Whether it changes files.
    writes: bool,
    /// The skill that it uses, if the operation itself does not name it.
    skill: Option<String>,
}

impl<'a> ExplainQuery<'a> {
    /// Parses `tool` or `tool:specifier`. Blanks around either are ignored, as in a call.
    pub(crate) fn read(text: &'a str, tools: &[Tool]) -> Result<Self, Error> {
        let (name, specifier) = match text.split_once(':') {
            Some((name, specifier)) => (name.trim(), Some(specifier.trim())),
            None => (text.trim(), None),
        };
        let (bare, dir) = name.split_once('@').map_or((name, None), |(bare, dir)| (bare, Some(dir)));
        let tool = tools.iter().find(|tool| tool.name == bare);
        if tool.is_none() && bare != NETWORK {
            let names = || tools.iter().map(|tool| tool.name).chain([NETWORK]);
            let meant = hint(nearest(bare, names()));
            return Err(Error::invalid(RequestField::Operation, format!("unknown tool `{bare}`{meant}")));
        }
        let skill = specifier.and_then(|specifier| match bare {
            DELEGATE_TO_AGENT => Some(specifier.to_ascii_lowercase()),
            _ if SKILL_READERS.contains(&bare) => {
                let file = specifier.strip_prefix(SKILL_FILES)?;
                Some(file.split('/').next().unwrap_or(file).to_ascii_lowercase())
            }
            _ => None,
        });
        let writes = tool.is_some_and(|tool| tool.class == EffectClass::Write);
        Ok(Self { operation: Operation::new(bare, specifier).in_dir(dir), writes, skill })
    }

    /// The decision of every layer, and the outcome.
    pub(crate) fn explain(
        &self,
        authority: &Authority,
        contract: &Contract,
        approvals: &Approvals,
    ) -> Explanation {
        let mut explanation = authority.explain(approvals, &self.operation);
        // A rule about a skill applies to every way of using it.
        let ruling = self
            .skill
            .as_deref()
            .and_then(|name| authority.ruling(approvals, &Operation::new(SKILL_TOOL, Some(name))));
        if let Some(ruling) = ruling
            && ruling.decision != Decision::Allow
            && ruling.decision <= explanation.verdict.decision
        {
            explanation.verdict = ruling;
        }
        let owns = &contract.step.owns;
        let outside = self.writes
            && !owns.is_empty()
            && self
                .operation
                .specifier()
                .is_some_and(|path| !owns.iter().any(|own| ownership::holds(own, path)));
        if outside && explanation.verdict.decision != Decision::Deny {
            explanation.verdict = Verdict {
                decision: Decision::Deny,
                because: DecisionReason::NotOwned { owns: owns.join(", ") },
            };
        }
        explanation
    }
}

#[cfg(test)]
mod tests {
    use posse_domain::id::RunId;
    use posse_domain::permission::{DefinitionLayer, Grant, OnAsk, Rule, RunLayers, ToolSet};

    use super::*;

    /// The contract of a child that owns a folder and a file.
    const OWNING: &str = r#"{
  "version": 1,
  "context": {"depth": 1, "max_depth": 2, "parent_task_id": "k3f9ab2c", "root_task_id": "k3f9ab2c"},
  "parent":  {"run_id": "k3f9ab2c", "agent_id": "k3f9ab2c", "message_id": "m7", "step_idx": 0,
              "task_prompt": "the run's request", "goal_summary": "the plan's goal, or the request's first line",
              "continues": null, "repairs": null},
  "step":    {"title": "port auth", "description": "the child's prompt",
              "success_criteria": ["the CLI prints its version", {"command": "cargo test -q", "timeout_ms": 120000}],
              "owns": ["src/auth/**", "a.txt"], "required": true},
  "permissions": {"allowed_tools": ["read", "grep", "edit", "bash"], "rules": [{"pattern": "bash:git push*", "decision": "deny"}],
              "can_spawn_children": false, "max_delegation_depth": 0, "may_share_history": false, "on_ask": "deny"},
  "execution": {"definition": "general", "skill": null, "model": "provider/model", "temperature": null, "top_p": null,
              "max_turns": 20, "turn_timeout_ms": null, "attempt_timeout_ms": 600000, "idle_timeout_ms": 120000,
              "max_retries": 1, "max_retries_per_tool": 3, "close_on_completion": true,
              "share_history": false, "extra_context": null},
  "budget":  {"tokens": 400000, "usd": 1.50, "agents": 4, "wall_ms": 1800000},
  "outputs": {"report_format": "markdown", "report_path_pattern": ".posse/step-<idx>-result.md", "result_schema": null}
}"#;

    fn owning() -> Contract {
        Contract::from_json(OWNING).expect("a contract")
    }

    fn authority(denied: &[&str]) -> Authority {
        let run: RunId = "k3f9ab2c".parse().expect("an id");
        let rule =
            |pattern: &&str| Rule { pattern: pattern.parse().expect("a pattern"), decision: Decision::Deny };
        let rules: Vec<Rule> = denied.iter().map(rule).collect();
        let layers = RunLayers { run: rules.into(), ..RunLayers::default() };
        let definition =
            DefinitionLayer { name: "coder".into(), default: Decision::Allow, rules: Vec::new().into() };
        let tools = ["read", "list", "write", "bash", "skill", DELEGATE_TO_AGENT];
        let grant = Grant {
            allowed_tools: ToolSet::parse(tools).expect("tools"),
            rules: Vec::new().into(),
            can_spawn_children: true,
            max_delegation_depth: 1,
            may_share_history: false,
            on_ask: OnAsk::Deny,
        };
        Authority::root(&run, layers, definition, grant)
    }

    fn explained(operation: &str, denied: &[&str]) -> Explanation {
        let tools = crate::builtin_tools();
        let asked = ExplainQuery::read(operation, &tools).expect(operation);
        let mut contract = owning();
        contract.step.owns.clear();
        asked.explain(&authority(denied), &contract, &Approvals::none())
    }

    #[test]
    fn a_tool_that_does_not_exist_is_a_mistake_and_not_a_decision() {
        let tools = crate::builtin_tools();
        for (text, meant) in [("frobnicate", ""), ("bahs:ls", "bash"), ("netwrok", "network")] {
            let Err(error) = ExplainQuery::read(text, &tools) else { panic!("{text}") };
            let error = error.to_string();
            assert!(error.contains("unknown tool") && error.contains(meant), "{error}");
        }
    }

    #[test]
    fn blanks_around_an_operation_are_nothing() {
        for text in ["bash:git push", " bash : git push ", "bash:  git push\n"] {
            let explanation = explained(text, &["bash:git push"]);
            assert_eq!(explanation.verdict.decision, Decision::Deny, "{text:?}");
            assert_eq!(explanation.operation, "bash:git push");
        }
    }

    #[test]
    fn a_rule_about_a_skill_decides_every_way_to_it() {
        for text in [
            "skill:notes",
            "delegate_to_agent:notes",
            "read:skill://notes/a.md",
            "list:skill://Notes",
            "read:skill://notes",
        ] {
            let explanation = explained(text, &["skill:notes"]);
            assert_eq!(explanation.verdict.decision, Decision::Deny, "{text}");
            assert!(
                explanation.verdict.to_string().contains("`skill:notes`"),
                "{text}: {}",
                explanation.verdict
            );
            assert_eq!(explained(text, &["skill:other"]).verdict.decision, Decision::Allow, "{text}");
        }
    }

    #[test]
    fn a_path_that_the_agent_does_not_own_is_denied_for_writes_alone() {
        let tools = crate::builtin_tools();
        for (operation, is_denied) in [
            ("write:src/auth/a.rs", false),
            ("write:a.txt", false),
            ("write:src/other.rs", true),
            ("write:src/authority.rs", true),
            ("write", false),
            ("read:src/other.rs", false),
        ] {
            let asked = ExplainQuery::read(operation, &tools).expect(operation);
            let verdict = asked.explain(&authority(&[]), &owning(), &Approvals::none()).verdict;
            assert_eq!(verdict.decision == Decision::Deny, is_denied, "{operation}: {verdict}");
            if is_denied {
                assert!(verdict.to_string().contains("src/auth/**, a.txt"), "{verdict}");
            }
        }
    }

    #[test]
    fn the_network_is_never_a_question() {
        assert_eq!(explained("network", &[]).verdict.decision, Decision::Deny);
    }

    #[test]
    fn facts_beyond_the_rules_fit_the_decision() {
        let beyond = |operation, denied: &[&str]| BeyondRules::of(&explained(operation, denied));
        assert_eq!(beyond("bash:ls", &[]), Some(BeyondRules::SandboxLimits));
        assert_eq!(beyond("bash", &[]), Some(BeyondRules::SandboxLimits));
        assert_eq!(beyond("bash:ls", &["bash"]), None, "a denied command reaches no sandbox");
        assert_eq!(beyond("network", &[]), Some(BeyondRules::NetworkInAdvance));
        assert_eq!(beyond("read:a.txt", &[]), None);
        assert_eq!(beyond("webfetch:docs.rs", &[]), None, "the tool is not granted");
        let opening = "write:.npmrc".parse().expect("a pattern");
        assert_eq!(beyond("write:.npmrc", &[]), Some(BeyondRules::OpenedBy(opening)));
    }
}
