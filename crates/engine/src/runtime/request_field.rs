//! The parts of a run request, as errors name them.

use std::fmt;

/// A part of a run request or of another question to the library. A front end names the flag or the key that sets it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestField {
    /// The definition of the root.
    Agent,
    /// The definitions that the caller supplies.
    Agents,
    /// The stored answers of a user.
    Approvals,
    /// The most agents of the run.
    BudgetAgents,
    /// The most money of the run.
    BudgetUsd,
    /// The longest time of the run.
    BudgetTime,
    /// The most tokens of the run.
    BudgetTokens,
    /// The descriptions of what agents can start and load.
    Catalogue,
    /// The agent of an earlier run that the root continues.
    Continues,
    /// All definitions together.
    Definitions,
    /// The project.
    Dir,
    /// The model of the root.
    Model,
    /// An operation that a permission is asked about.
    Operation,
    /// The most agents that work at once.
    Parallel,
    /// The text that the root receives instead of the request.
    Prompt,
    /// The recorded run that a replay repeats.
    Replay,
    /// The text of the request.
    Request,
    /// The permission rules.
    Rules,
    /// The skill that the run executes.
    Skill,
    /// The most turns of an agent.
    Turns,
}

impl fmt::Display for RequestField {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Agent => "agent",
            Self::Agents => "agents",
            Self::Approvals => "approvals",
            Self::BudgetAgents => "budget.agents",
            Self::BudgetUsd => "budget.usd",
            Self::BudgetTime => "budget.wall_ms",
            Self::BudgetTokens => "budget.tokens",
            Self::Catalogue => "catalogue",
            Self::Continues => "continues",
            Self::Definitions => "definitions",
            Self::Dir => "dir",
            Self::Model => "model",
            Self::Operation => "operation",
            Self::Parallel => "parallel",
            Self::Prompt => "prompt",
            Self::Replay => "replay",
            Self::Request => "request",
            Self::Rules => "rules",
            Self::Skill => "skill",
            Self::Turns => "base_turns",
        })
    }
}
