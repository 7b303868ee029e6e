//! Commands to runs and agents, and decisions about them.

use std::path::PathBuf;

use posse::{Answer, ApplyWhich};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use super::super::problem::Problem;
use super::refused;
use super::runs::plan_text;

/// The end of a run or of one of its agents.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in super::super) struct EndRun {
    /// The agent to end with its subtree, by its id or as `2.1`. Without it, the whole run ends.
    #[serde(default)]
    pub(in super::super) agent: Option<String>,
    /// The reason, which the journal and the agents have.
    #[serde(default)]
    pub(in super::super) reason: Option<String>,
}

/// A message to an agent.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in super::super) struct SendMessage {
    /// The text, which the agent reads before its next turn.
    pub(in super::super) text: String,
}

/// The decision about a question.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(in super::super) enum QuestionDecision {
    /// The call may run.
    Allow,
    /// The call may run, and so may the same operation in later runs of the same directory.
    Always,
    /// The call must not run.
    Deny,
}

/// The answer to a question.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in super::super) struct AnswerQuestion {
    /// The `approval` of the question, so that the answer is about exactly what was shown.
    pub(in super::super) approval: String,
    /// The agent that asks, if several ask the same.
    #[serde(default)]
    pub(in super::super) agent: Option<String>,
    /// The id of its call, if several calls ask the same.
    #[serde(default)]
    pub(in super::super) call_id: Option<String>,
    /// The decision.
    pub(in super::super) decision: QuestionDecision,
    /// Why the call is denied, which the agent reads.
    #[serde(default)]
    reason: Option<String>,
}

impl AnswerQuestion {
    /// The answer for the journal.
    pub(in super::super) fn answer(&self) -> Result<Answer, Problem> {
        match (self.decision, &self.reason) {
            (QuestionDecision::Allow, None) => Ok(Answer::Once),
            (QuestionDecision::Always, None) => Ok(Answer::Always),
            (QuestionDecision::Deny, reason) => Ok(Answer::Deny { reason: reason.clone() }),
            (_, Some(_)) => Err(refused("only a denial has a reason".to_owned()).field("reason")),
        }
    }
}

/// Work that is to be applied to the directory of its run.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in super::super) struct ApplyWork {
    /// The agent whose work alone is applied, by its id or as `2.1`. Without it, it is the result of the run.
    #[serde(default)]
    pub(in super::super) agent: Option<String>,
    /// Also apply the work of a run or an agent that failed or was cancelled.
    #[serde(default)]
    unfinished: bool,
    /// Take back what the last apply wrote.
    #[serde(default)]
    pub(in super::super) undo: bool,
}

impl ApplyWork {
    /// Which work may be applied.
    pub(in super::super) fn which(&self) -> Result<ApplyWhich, Problem> {
        match (self.unfinished, self.undo) {
            (true, true) => {
                Err(refused("nothing that is undone is unfinished".to_owned()).field("unfinished"))
            }
            (unfinished, _) => Ok(which(unfinished)),
        }
    }
}

/// Which work may be applied.
pub(in super::super) fn which(unfinished: bool) -> ApplyWhich {
    if unfinished { ApplyWhich::Ended } else { ApplyWhich::Completed }
}

/// A plan to check. Nothing is started.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in super::super) struct CheckPlan {
    /// The plan: an object, or YAML as a text.
    plan: Value,
    /// The directory whose definitions the steps use. By default it is the project that the server was started in.
    #[serde(default)]
    pub(in super::super) dir: Option<PathBuf>,
    /// The definition of the root agent, which decides which agents it can start.
    #[serde(default)]
    pub(in super::super) agent: Option<String>,
}

impl CheckPlan {
    /// The text of the plan.
    pub(in super::super) fn text(&self) -> Result<String, Problem> {
        plan_text(&self.plan)
    }
}

/// A project in which clients may start runs.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in super::super) struct AddProject {
    /// The directory, on the server's machine. The project is the repository that it is in, or the directory alone.
    pub(in super::super) dir: PathBuf,
    /// The tenant whose clients may start runs there. By default it is the one of the token.
    #[serde(default)]
    pub(in super::super) tenant: Option<String>,
}
