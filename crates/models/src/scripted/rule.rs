//! One rule of a script: its conditions, its limit, and its answer.

use std::fmt;
use std::sync::Arc;

use globset::{Glob, GlobMatcher, GlobSet};
use posse_agent::conversation::Message;
use posse_domain::event::Purpose;
use posse_domain::id::AgentId;
use posse_engine::ports::ModelRequest;
use thiserror::Error;

use super::answer::ScriptedAnswer;

#[derive(Debug, Clone)]
pub struct Rule {
    pub(super) when: RuleConditions,
    pub(super) answer: ScriptedAnswer,
    pub(super) times: Option<u32>,
    /// The line of the rule in its file.
    pub(super) line: Option<u64>,
}

impl Rule {
    /// A rule that gives this answer whenever the conditions hold.
    pub fn new(when: RuleConditions, answer: ScriptedAnswer) -> Self {
        Self { when, answer, times: None, line: None }
    }

    /// Limits how often the rule answers the same agent. Counted from the journal, over all attempts of the agent.
    pub fn times(mut self, times: u32) -> Self {
        self.times = Some(times);
        self
    }

    /// Whether the rule answers a request of an agent that it has answered `used` times. Cheap conditions are checked
    /// first.
    pub(super) fn check(&self, request: &ModelRequest, used: u32) -> Result<(), Mismatch<'_>> {
        let RuleConditions { definition, depth, agent, turn, purpose, contains } = &self.when;
        match self.times {
            Some(times) if used >= times => return Err(Mismatch::Used(times)),
            _ => {}
        }
        match *turn {
            Some(turn) if turn != request.turn => return Err(Mismatch::Turn(turn)),
            _ => {}
        }
        match *purpose {
            Some(purpose) if purpose != request.purpose => return Err(Mismatch::Purpose(purpose)),
            _ => {}
        }
        match *depth {
            Some(depth) if depth != request.depth => return Err(Mismatch::Depth(depth)),
            _ => {}
        }
        match definition {
            Some(name) if !name.eq_ignore_ascii_case(&request.definition) => {
                return Err(Mismatch::Definition(name));
            }
            _ => {}
        }
        match agent {
            Some(glob) if !glob.matches(&request.agent) => return Err(Mismatch::Agent(glob.as_str())),
            _ => {}
        }
        match contains {
            Some(text) if !newest_contains(request, text) => Err(Mismatch::Contains(text)),
            _ => Ok(()),
        }
    }
}

/// The conditions of a rule. All that are set must hold.
#[derive(Debug, Clone, Default)]
pub struct RuleConditions {
    pub(super) definition: Option<String>,
    pub(super) depth: Option<u32>,
    agent: Option<AgentGlob>,
    turn: Option<u32>,
    pub(super) purpose: Option<Purpose>,
    pub(super) contains: Option<String>,
}

impl RuleConditions {
    /// No condition: matches every request.
    pub fn any() -> Self {
        Self::default()
    }

    /// Agents of this definition, ignoring case.
    pub fn definition(mut self, name: impl Into<String>) -> Self {
        self.definition = Some(name.into());
        self
    }

    /// Agents at this depth. The root has 0.
    pub fn depth(mut self, depth: u32) -> Self {
        self.depth = Some(depth);
        self
    }

    /// Agents whose id matches the glob, in full (`k3f9ab2c.2.1`) or relative to the run (`2.1`, the root is `0`). A
    /// `*` matches any characters, including dots.
    pub fn agent(mut self, glob: &str) -> Result<Self, InvalidGlob> {
        self.agent = Some(AgentGlob::parse(glob)?);
        Ok(self)
    }

    /// This turn of an attempt, counted from 1.
    pub fn turn(mut self, turn: u32) -> Self {
        self.turn = Some(turn);
        self
    }

    /// Calls with this purpose. Without it, a rule also answers calls for a summary of the conversation.
    pub fn purpose(mut self, purpose: Purpose) -> Self {
        self.purpose = Some(purpose);
        self
    }

    /// Requests whose newest message contains this text. The newest message consists of all messages since the model's
    /// last reply: the prompt, results, and messages of the host or of others.
    pub fn contains(mut self, text: impl Into<String>) -> Self {
        self.contains = Some(text.into());
        self
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("`{glob}` is not a glob: {problem}")]
pub struct InvalidGlob {
    glob: String,
    problem: String,
}

#[derive(Debug, Clone)]
enum AgentGlob {
    /// No wildcard: compared literally, which is fast for a script with a rule for each of many agents.
    Literal(String),
    Glob(GlobMatcher),
}

impl AgentGlob {
    fn parse(text: &str) -> Result<Self, InvalidGlob> {
        let invalid = |problem: String| InvalidGlob { glob: text.to_owned(), problem };
        if text.is_empty() {
            return Err(invalid("it is empty and would match no agent".to_owned()));
        }
        if text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'.') {
            return Ok(Self::Literal(text.to_owned()));
        }
        let glob = Glob::new(text).map_err(|error| invalid(error.kind().to_string()))?;
        // Compiling a single glob panics if it fails, for example with braces that are nested too deeply, so this
        // checks it first.
        if GlobSet::new([&glob]).is_err() {
            return Err(invalid("it is too large or too deeply nested".to_owned()));
        }
        Ok(Self::Glob(glob.compile_matcher()))
    }

    fn matches(&self, agent: &AgentId) -> bool {
        let fits = |id: &str| match self {
            Self::Literal(text) => text == id,
            Self::Glob(glob) => glob.is_match(id),
        };
        fits(agent.relative()) || fits(agent.as_str())
    }

    fn as_str(&self) -> &str {
        match self {
            Self::Literal(text) => text,
            Self::Glob(glob) => glob.glob().glob(),
        }
    }
}

fn newest_contains(request: &ModelRequest, text: &str) -> bool {
    newest(request).iter().any(|message| match &**message {
        Message::User(said) | Message::Assistant { text: said, .. } => said.contains(text),
        Message::Results(results) => results.iter().any(|result| result.text.contains(text)),
    })
}

/// The newest message: all messages since the model's last reply. The host may have added a note after a prompt or
/// after results (a new attempt, the last turn), and a model sees these as one message.
pub(super) fn newest(request: &ModelRequest) -> &[Arc<Message>] {
    let is_reply = |message: &Arc<Message>| matches!(**message, Message::Assistant { .. });
    let start = request.messages.iter().rposition(is_reply).map_or(0, |at| at + 1);
    &request.messages[start..]
}

/// The condition because of which a rule does not answer a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mismatch<'a> {
    Definition(&'a str),
    Depth(u32),
    Agent(&'a str),
    Turn(u32),
    Purpose(Purpose),
    Contains(&'a str),
    /// The rule has answered this agent as often as it may.
    Used(u32),
}

/// Limit of characters of a script's text that an error repeats.
const SHOWN_MAX_CHARS: usize = 60;

impl fmt::Display for Mismatch<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let clip = |text: &str| super::no_match::clip(text, SHOWN_MAX_CHARS);
        match self {
            Self::Definition(name) => write!(f, "requires definition {}", clip(name)),
            Self::Depth(depth) => write!(f, "requires depth {depth}"),
            Self::Agent(glob) => write!(f, "requires agent {}", clip(glob)),
            Self::Turn(turn) => write!(f, "requires turn {turn}"),
            Self::Purpose(Purpose::Work) => f.write_str("requires a turn of work"),
            Self::Purpose(Purpose::Report) => f.write_str("requires the report turn"),
            Self::Purpose(Purpose::Summary) => f.write_str("requires a call for a summary"),
            Self::Contains(text) => write!(f, "requires {:?} in the newest message", clip(text)),
            Self::Used(times) => write!(f, "has answered this agent {times} of {times} times"),
        }
    }
}
