//! Parses the names of runs and agents, the same way for all verbs: any unique prefix of a run's id, `@` for the newest
//! run of this project, `@2` for the second newest, `last` for the newest of all; with `.2.1` behind it, an agent.
//!
//! A verb that only reads takes the newest run of this project if none is named. A verb that changes something does not:
//! what it changes would depend on what was started last.

use std::fmt;
use std::str::FromStr;

use posse::{AGENT_ID_MAX_LEN, AgentId, Posse, RUN_ID_LEN, RunId, RunView, nearest};
use posse_setup::project_runs::Project;

use crate::context::Context;
use crate::error::CliError;
use crate::text::plural;

/// Limit of runs that are searched for the one that was probably meant.
const LOOKED_THROUGH: u32 = 1_000;
/// How many runs or agents an error names.
const NAMED_MAX: usize = 5;
/// The sign for the newest run of this project.
const NEWEST: char = '@';
/// The word for the newest run of all projects. No id begins like this: ids have no `l`.
const LAST: &str = "last";

/// A run as it was typed.
#[derive(Debug, Clone, PartialEq, Eq)]
enum RunName {
    /// The beginning of its id, in lower case.
    Prefix(String),
    /// Its place among the runs of this project; 1 is the newest.
    Newest(usize),
    /// The newest run of all projects.
    Last,
}

impl FromStr for RunName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let lower = text.to_ascii_lowercase();
        if let Some(place) = lower.strip_prefix(NEWEST) {
            return match place {
                "" => Ok(Self::Newest(1)),
                place if is_number(place) => place.parse().map(Self::Newest).map_err(|_| not_a_run()),
                _ => Err(not_a_run()),
            };
        }
        if lower == LAST {
            return Ok(Self::Last);
        }
        if (1..=RUN_ID_LEN).contains(&lower.len()) && lower.bytes().all(|b| b.is_ascii_alphanumeric()) {
            Ok(Self::Prefix(lower))
        } else {
            Err(not_a_run())
        }
    }
}

fn not_a_run() -> String {
    format!(
        "a run is named by up to {RUN_ID_LEN} letters and digits, such as `k3f9ab2c` or `k3f`, or by `@`, the newest run \
         of this project (`@2` is the one before it)"
    )
}

impl fmt::Display for RunName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Prefix(prefix) => f.write_str(prefix),
            Self::Newest(1) => write!(f, "{NEWEST}"),
            Self::Newest(place) => write!(f, "{NEWEST}{place}"),
            Self::Last => f.write_str(LAST),
        }
    }
}

impl RunName {
    /// Finds the run, if its head is reliable.
    async fn find(&self, posse: &Posse, context: &Context) -> Result<RunId, CliError> {
        let run = self.find_any(posse, context).await?;
        posse.check_head(&run).await?;
        Ok(run)
    }

    /// Finds the run, damaged or not.
    async fn find_any(&self, posse: &Posse, context: &Context) -> Result<RunId, CliError> {
        match self {
            Self::Prefix(prefix) => match posse.find(prefix).await {
                Err(error @ posse::Error::NoRun(_)) => Err(no_run(error, prefix, posse, context).await?),
                found => Ok(found?),
            },
            Self::Newest(place) => {
                let runs = Project::current(&context.environment).runs(posse).await?;
                let found = runs.get(place - 1).map(|run| run.run.clone());
                match found {
                    Some(run) => Ok(run),
                    None => Err(too_few(runs.len(), posse, context).await?),
                }
            }
            Self::Last => {
                let newest = posse.runs("", 1).await?.into_iter().next();
                newest.map(|run| run.run).ok_or_else(no_runs)
            }
        }
    }
}

fn no_runs() -> CliError {
    CliError::usage("there are no runs yet").hint("`posse demo` shows one")
}

/// The error for a place beyond the runs of this project.
async fn too_few(count: usize, posse: &Posse, context: &Context) -> Result<CliError, CliError> {
    let Some(newest) = posse.runs("", 1).await?.into_iter().next() else { return Ok(no_runs()) };
    let top = Project::current(&context.environment).top().display().to_string();
    let error = match count {
        0 => CliError::usage(format!("there are no runs in {top}")),
        1 => CliError::usage(format!("there is only 1 run in {top}")),
        count => CliError::usage(format!("there are only {} in {top}", plural(count as u64, "run"))),
    };
    let hint = if count == 0 {
        format!("the newest run of all is {}, in {} (`last` names it)", newest.run, newest.dir)
    } else {
        "`posse ps` lists the runs".to_owned()
    };
    Ok(error.hint(hint))
}

/// Adds to the error for an unknown run which runs may have been meant, those of this project first.
async fn no_run(
    error: posse::Error,
    typed: &str,
    posse: &Posse,
    context: &Context,
) -> Result<CliError, CliError> {
    let all = posse.runs("", LOOKED_THROUGH).await?;
    let project = Project::current(&context.environment);
    let own: Vec<&str> = all.iter().filter(|run| project.has(run)).map(|run| run.run.as_str()).collect();
    let any = || nearest(typed, all.iter().map(|run| run.run.as_str()));
    let near = nearest(typed, own.iter().copied()).or_else(any);
    let newest = &own[..own.len().min(NAMED_MAX)];
    let hint = match (near, newest) {
        (Some(near), _) => Some(format!("did you mean {near}? `posse ps --all` lists the runs")),
        (None, []) => None,
        (None, [one]) => Some(format!("the only run of this project is {one}; `posse ps --all` lists all")),
        (None, newest) => Some(format!(
            "the newest runs of this project are {}; `posse ps --all` lists all",
            newest.join(", ")
        )),
    };
    let error = CliError::from(error);
    Ok(match hint {
        Some(hint) => error.hint(hint),
        None => error,
    })
}

/// A run as it was typed, for verbs about whole runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RunArg(RunName);

impl FromStr for RunArg {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Some((run, _)) = text.split_once('.') {
            return Err(format!("that is an agent; its run is `{run}`"));
        }
        text.parse().map(Self)
    }
}

impl RunArg {
    /// The newest run of this project, for a verb that was typed without a run.
    pub(crate) fn newest() -> Self {
        Self(RunName::Newest(1))
    }

    /// Finds the run. Refuses one with a damaged head.
    pub(crate) async fn find(&self, posse: &Posse, context: &Context) -> Result<RunId, CliError> {
        self.0.find(posse, context).await
    }

    /// Finds the run, damaged or not.
    pub(crate) async fn find_any(&self, posse: &Posse, context: &Context) -> Result<RunId, CliError> {
        self.0.find_any(posse, context).await
    }
}

/// A run or an agent as it was typed. A run means its root.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AgentArg {
    run: RunName,
    path: String,
}

impl FromStr for AgentArg {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.len() > AGENT_ID_MAX_LEN {
            return Err(format!("an id has at most {AGENT_ID_MAX_LEN} characters"));
        }
        let (run, path) = text.split_once('.').map_or((text, None), |(run, path)| (run, Some(path)));
        let run = run.parse()?;
        let path = match path {
            None => String::new(),
            Some(path) if is_path(path) => format!(".{path}"),
            Some(_) => return Err("an agent is a run and numbers, such as `k3f9.2.1` or `@.2.1`".to_owned()),
        };
        Ok(Self { run, path })
    }
}

impl fmt::Display for AgentArg {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.run, self.path)
    }
}

impl AgentArg {
    /// The newest run of this project, for a verb that was typed without a run.
    fn newest() -> Self {
        Self { run: RunName::Newest(1), path: String::new() }
    }

    /// Whether only a run was typed.
    pub(crate) fn is_run(&self) -> bool {
        self.path.is_empty()
    }

    /// Finds the agent and checks that its run has it.
    pub(crate) async fn find_known(&self, posse: &Posse, context: &Context) -> Result<AgentId, CliError> {
        let agent = self.find(posse, context).await?;
        check_known(posse, &agent).await?;
        Ok(agent)
    }

    /// Finds the agent. The caller checks whether the run has it.
    async fn find(&self, posse: &Posse, context: &Context) -> Result<AgentId, CliError> {
        let run = self.run.find(posse, context).await?;
        agent_of(&run, &self.path)
    }

    /// Finds the run.
    pub(crate) async fn find_run(&self, posse: &Posse, context: &Context) -> Result<RunId, CliError> {
        self.run.find(posse, context).await
    }

    /// Finds the agent that `part` names in this run, or this one.
    pub(crate) async fn find_part(
        &self,
        part: Option<&PartArg>,
        posse: &Posse,
        context: &Context,
    ) -> Result<AgentId, CliError> {
        match part {
            None => self.find_known(posse, context).await,
            Some(_) if !self.is_run() => {
                Err(CliError::usage(format!("`{self}` is already the name of an agent")))
            }
            Some(part) => part.find(posse, &self.run.find(posse, context).await?, context).await,
        }
    }
}

/// A run or one of its agents, for verbs that read: `k3f9`, `k3f9.2.1`, `k3f9 2.1`, `@.2.1`.
#[derive(Debug, Clone, PartialEq, Eq, clap::Args)]
pub(crate) struct WorkArg {
    /// The run, or an agent such as RUN.2.1 [default: the newest run of this project]
    run: Option<AgentArg>,
    /// An agent of the run, such as 2.1
    agent: Option<PartArg>,
}

impl WorkArg {
    /// Reads the words before another argument.
    pub(crate) fn read(words: &[String]) -> Result<Self, String> {
        let wrong = |word: &str, problem: String| format!("`{word}`: {problem}");
        let run = words.first().map(|word| word.parse().map_err(|problem| wrong(word, problem)));
        let agent = words.get(1).map(|word| word.parse().map_err(|problem| wrong(word, problem)));
        Ok(Self { run: run.transpose()?, agent: agent.transpose()? })
    }

    /// Finds the agent and checks that its run has it. A run means its root.
    pub(crate) async fn find(&self, posse: &Posse, context: &Context) -> Result<AgentId, CliError> {
        let run = self.run.clone().unwrap_or_else(AgentArg::newest);
        run.find_part(self.agent.as_ref(), posse, context).await
    }

    /// Whether a run or an agent was typed.
    pub(crate) fn is_named(&self) -> bool {
        self.run.is_some()
    }

    /// Whether only a run was typed, or nothing.
    pub(crate) fn is_run(&self) -> bool {
        self.agent.is_none() && self.run.as_ref().is_none_or(AgentArg::is_run)
    }
}

/// A run or one of its agents, for verbs that change something and therefore need a name.
#[derive(Debug, Clone, PartialEq, Eq, clap::Args)]
pub(crate) struct NamedWorkArg {
    /// The run, or an agent such as RUN.2.1; `@` is the newest run of this project
    run: AgentArg,
    /// An agent of the run, such as 2.1
    agent: Option<PartArg>,
}

impl NamedWorkArg {
    /// Finds the agent and checks that its run has it. A run means its root.
    pub(crate) async fn find(&self, posse: &Posse, context: &Context) -> Result<AgentId, CliError> {
        self.run.find_part(self.agent.as_ref(), posse, context).await
    }
}

/// An agent as it is typed after its run: with the run, or without.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum PartArg {
    Path(String),
    Whole(AgentArg),
}

impl FromStr for PartArg {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if is_path(text) {
            return Ok(Self::Path(format!(".{text}")));
        }
        if !text.contains('.') {
            return Err("an agent of a run is named by its numbers, such as `1` or `2.1`".to_owned());
        }
        text.parse().map(Self::Whole)
    }
}

impl PartArg {
    /// Finds the agent of this run and checks that the run has it.
    pub(crate) async fn find(
        &self,
        posse: &Posse,
        run: &RunId,
        context: &Context,
    ) -> Result<AgentId, CliError> {
        let agent = match self {
            PartArg::Path(path) => agent_of(run, path)?,
            PartArg::Whole(whole) => {
                let agent = whole.find(posse, context).await?;
                if agent.run() != *run {
                    return Err(CliError::usage(format!("`{whole}` is not an agent of run {run}")));
                }
                agent
            }
        };
        check_known(posse, &agent).await?;
        Ok(agent)
    }
}

fn agent_of(run: &RunId, path: &str) -> Result<AgentId, CliError> {
    format!("{run}{path}").parse().map_err(|error| CliError::usage(format!("{error}")))
}

/// Refuses an agent that its run does not have, and names those that it has.
pub(crate) async fn check_known(posse: &Posse, agent: &AgentId) -> Result<(), CliError> {
    let state = posse.current_state(&agent.run()).await?;
    if state.agents().get(agent).is_some() {
        return Ok(());
    }
    Err(CliError::from(posse::Error::NoAgent(agent.clone())).hint(known_agents(agent, &state)))
}

/// Names the siblings of an agent that does not exist, or else the first agents of its run.
fn known_agents(agent: &AgentId, state: &RunView) -> String {
    let run = agent.run();
    let parent = agent.parent();
    let children: Vec<_> = state.agents().iter().filter(|known| !known.id.is_root()).collect();
    let siblings = children.iter().filter(|known| known.parent() == parent);
    let mut named: Vec<&str> = siblings.map(|known| known.id.relative()).take(NAMED_MAX).collect();
    if named.is_empty() {
        named = children.iter().map(|known| known.id.relative()).take(NAMED_MAX).collect();
    }
    if named.is_empty() {
        return format!("run {run} has no sub-agents");
    }
    let few = if named.len() < NAMED_MAX { "" } else { ", ..." };
    format!("run {run} has {}{few}; `posse show {run}` lists its agents", named.join(", "))
}

/// Whether the text is the numbers of an agent, such as `2.1`.
pub(crate) fn is_path(text: &str) -> bool {
    text.split('.').all(is_number)
}

/// Whether a part is a child's number, in its canonical spelling.
fn is_number(part: &str) -> bool {
    part.parse::<u32>().is_ok_and(|number| number > 0 && number.to_string() == part)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn agent(run: RunName, path: &str) -> AgentArg {
        AgentArg { run, path: path.to_owned() }
    }

    #[test]
    fn prefixes_and_places_of_runs_and_agents_are_read() {
        let prefix = |text: &str| RunName::Prefix(text.to_owned());
        assert_eq!("K3F".parse(), Ok(RunArg(prefix("k3f"))));
        assert_eq!("k3f.2.1".parse(), Ok(agent(prefix("k3f"), ".2.1")));
        assert_eq!("k3f9ab2c".parse(), Ok(agent(prefix("k3f9ab2c"), "")));
        assert_eq!("@".parse(), Ok(RunArg(RunName::Newest(1))));
        assert_eq!("@2".parse(), Ok(RunArg(RunName::Newest(2))));
        assert_eq!("@.2.1".parse(), Ok(agent(RunName::Newest(1), ".2.1")));
        assert_eq!("@3.2".parse(), Ok(agent(RunName::Newest(3), ".2")));
        assert_eq!("last.1".parse(), Ok(agent(RunName::Last, ".1")));
        for text in ["k3f.2.1", "@", "@2", "@.2.1", "last"] {
            assert_eq!(text.parse::<AgentArg>().expect("a name").to_string(), text);
        }
    }

    #[test]
    fn what_cannot_be_an_id_is_refused_at_once() {
        for bad in ["", "k3f9ab2cx", "k3%", "k 3", "ä", "-", "@0", "@01", "@x", "@@"] {
            assert!(bad.parse::<RunArg>().is_err(), "{bad}");
            assert!(bad.parse::<AgentArg>().is_err(), "{bad}");
        }
        for bad in ["k3f.", "k3f.0", "k3f.01", "k3f.x", "k3f..1", ".1", "@."] {
            assert!(bad.parse::<AgentArg>().is_err(), "{bad}");
        }
        assert_eq!("k3f.2".parse::<RunArg>(), Err("that is an agent; its run is `k3f`".to_owned()));
        assert!("zz".parse::<PartArg>().is_err_and(|problem| problem.contains("`2.1`")));
    }
}
