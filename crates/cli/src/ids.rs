//! Parses ids of runs and agents for all verbs: any unique prefix of a run's id, or `last` for the newest run;
//! `PREFIX.2.1` and `last.2.1` for an agent.

use std::fmt;
use std::str::FromStr;

use posse::{AGENT_ID_MAX_LEN, AgentId, Posse, RUN_ID_LEN, RunId, nearest};

use crate::error::CliError;

/// Limit of runs that are searched for the one that was probably meant.
const LOOKED_THROUGH: u32 = 1_000;

/// The word for the newest run. No id begins like this: ids have no `l`.
const LAST: &str = "last";

/// A run as it was typed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RunArg(String);

impl FromStr for RunArg {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Some((run, _)) = text.split_once('.') {
            return Err(format!("that is an agent; its run is `{run}`"));
        }
        prefix(text).map(RunArg)
    }
}

impl RunArg {
    /// Finds the run. Refuses one with a damaged head.
    pub(crate) async fn find(&self, posse: &Posse) -> Result<RunId, CliError> {
        found(posse, &self.0).await
    }

    /// Finds the run, damaged or not.
    pub(crate) async fn find_any(&self, posse: &Posse) -> Result<RunId, CliError> {
        found_any(posse, &self.0).await
    }
}

/// An agent as it was typed. A run means its root.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AgentArg {
    run: String,
    path: String,
}

impl FromStr for AgentArg {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.len() > AGENT_ID_MAX_LEN {
            return Err(format!("an id has at most {AGENT_ID_MAX_LEN} characters"));
        }
        let (run, path) = text.split_once('.').map_or((text, None), |(run, path)| (run, Some(path)));
        let run = prefix(run)?;
        let path = match path {
            None => String::new(),
            Some(path) if path.split('.').all(is_number) => format!(".{path}"),
            Some(_) => return Err("an agent is a run and numbers, such as `k3f9.2.1`".to_owned()),
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
    /// Whether only a run was typed.
    pub(crate) fn is_run(&self) -> bool {
        self.path.is_empty()
    }

    /// Finds the agent and checks that its run has it.
    pub(crate) async fn find_known(&self, posse: &Posse) -> Result<AgentId, CliError> {
        let agent = self.find(posse).await?;
        check_known(posse, &agent).await?;
        Ok(agent)
    }

    /// Finds the agent. The caller checks whether the run has it.
    pub(crate) async fn find(&self, posse: &Posse) -> Result<AgentId, CliError> {
        let run = found(posse, &self.run).await?;
        let agent = format!("{run}{}", self.path);
        agent.parse().map_err(|error| CliError::usage(format!("{error}")))
    }
}

/// A run, or one of its agents: `k3f9`, `k3f9.2.1`, `k3f9 2.1`.
#[derive(Debug, Clone, PartialEq, Eq, clap::Args)]
pub(crate) struct WorkArg {
    /// The run, or an agent
    run: AgentArg,
    /// An agent of the run, such as 2.1
    agent: Option<PartArg>,
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
        if text.split('.').all(is_number) {
            return Ok(Self::Path(format!(".{text}")));
        }
        text.parse().map(Self::Whole)
    }
}

impl WorkArg {
    /// Finds the agent and checks that its run has it. A run means its root.
    pub(crate) async fn find(&self, posse: &Posse) -> Result<AgentId, CliError> {
        match &self.agent {
            None => self.run.find_known(posse).await,
            Some(_) if !self.run.is_run() => {
                Err(CliError::usage(format!("`{}` is already the name of an agent", self.run)))
            }
            Some(part) => part.find(posse, &self.run.find(posse).await?.run()).await,
        }
    }

    /// Whether only a run was typed.
    pub(crate) fn is_run(&self) -> bool {
        self.agent.is_none() && self.run.is_run()
    }
}

impl PartArg {
    /// Finds the agent of this run and checks that the run has it.
    pub(crate) async fn find(&self, posse: &Posse, run: &RunId) -> Result<AgentId, CliError> {
        let agent = match self {
            PartArg::Path(path) => {
                let agent = format!("{run}{path}");
                agent.parse().map_err(|error| CliError::usage(format!("{error}")))?
            }
            PartArg::Whole(whole) => {
                let agent = whole.find(posse).await?;
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

/// Refuses an agent that its run does not have, and suggests the nearest that it has.
pub(crate) async fn check_known(posse: &Posse, agent: &AgentId) -> Result<(), CliError> {
    let state = posse.current_state(&agent.run()).await?;
    if state.agents().get(agent).is_some() {
        return Ok(());
    }
    let error = CliError::from(posse::Error::NoAgent(agent.clone()));
    let known = state.agents().iter().map(|known| known.id.as_str());
    Err(match nearest(agent.as_str(), known) {
        Some(near) => {
            error.hint(format!("did you mean {near}? `posse show {}` lists the agents", agent.run()))
        }
        None => error,
    })
}

/// The run with this prefix of its id, if its head is reliable.
async fn found(posse: &Posse, typed: &str) -> Result<RunId, CliError> {
    let run = found_any(posse, typed).await?;
    posse.check_head(&run).await?;
    Ok(run)
}

/// The run with this prefix of its id. If there is none, the error suggests the nearest.
async fn found_any(posse: &Posse, typed: &str) -> Result<RunId, CliError> {
    if typed == LAST {
        let newest = posse.runs("", 1).await?.into_iter().next();
        let none = || CliError::usage("there are no runs yet").hint("`posse demo` shows one");
        return newest.map(|run| run.run).ok_or_else(none);
    }
    match posse.find(typed).await {
        Err(error @ posse::Error::NoRun(_)) => {
            let runs = posse.runs("", LOOKED_THROUGH).await?;
            let near = nearest(typed, runs.iter().map(|run| run.run.as_str()));
            let hint = near.map(|near| format!("did you mean {near}? `posse ps --all` lists the runs"));
            let error = CliError::from(error);
            Err(match hint {
                Some(hint) => error.hint(hint),
                None => error,
            })
        }
        found => Ok(found?),
    }
}

/// Checks the prefix of a run's id.
fn prefix(text: &str) -> Result<String, String> {
    let lower = text.to_ascii_lowercase();
    if (1..=RUN_ID_LEN).contains(&lower.len()) && lower.bytes().all(|b| b.is_ascii_alphanumeric()) {
        Ok(lower)
    } else {
        Err(format!("a run is named by up to {RUN_ID_LEN} letters and digits, such as `k3f9ab2c` or `k3f`"))
    }
}

/// Whether a part is a child's number, in its canonical spelling.
fn is_number(part: &str) -> bool {
    part.parse::<u32>().is_ok_and(|number| number > 0 && number.to_string() == part)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_of_runs_and_agents_are_read() {
        assert_eq!("K3F".parse(), Ok(RunArg("k3f".to_owned())));
        assert_eq!("k3f.2.1".parse(), Ok(AgentArg { run: "k3f".to_owned(), path: ".2.1".to_owned() }));
        assert_eq!("k3f9ab2c".parse(), Ok(AgentArg { run: "k3f9ab2c".to_owned(), path: String::new() }));
    }

    #[test]
    fn what_cannot_be_an_id_is_refused_at_once() {
        for bad in ["", "k3f9ab2cx", "k3%", "k 3", "ä", "-"] {
            assert!(bad.parse::<RunArg>().is_err(), "{bad}");
            assert!(bad.parse::<AgentArg>().is_err(), "{bad}");
        }
        for bad in ["k3f.", "k3f.0", "k3f.01", "k3f.x", "k3f..1", ".1"] {
            assert!(bad.parse::<AgentArg>().is_err(), "{bad}");
        }
        assert_eq!("k3f.2".parse::<RunArg>(), Err("that is an agent; its run is `k3f`".to_owned()));
    }
}
