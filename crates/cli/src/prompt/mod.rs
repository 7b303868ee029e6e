//! `posse` alone on a terminal: a prompt. Each request is a run, and the next one continues it.
//!
//! The prompt only reads lines. Whatever a line asks for is done by this program under a verb, in a process of its own: a
//! run that is detached, stopped or killed leaves the prompt as it is.
//!
//! | file | content |
//! |---|---|
//! | `editor`, `render` | pure: the typed text, and its rows on the terminal |
//! | `commands`, `completion` | pure: what a line means, and suggestions |
//! | `history` | what was typed before |
//! | `line_reader` | the terminal while a line is typed |
//!
//! Why it is like this: `docs/decisions/cli-prompt.md`.

mod commands;
mod completion;
mod editor;
mod history;
mod line_reader;
mod render;

use std::ffi::OsString;
use std::io::IsTerminal;
use std::path::PathBuf;

use posse::view::ShownStatus;
use posse::{REQUEST_MAX_BYTES, RunId, RunSummary};
use posse_setup::working_dir::RunDir;

use crate::complete;
use crate::context::Context;
use crate::error::CliError;
use crate::exit::Exit;
use crate::foreground::wait_for_second;
use crate::output::note;
use crate::runtime;
use crate::term;
use crate::text::now_ms;
use commands::Line;
use completion::ProjectNames;
use editor::Editor;
use history::History;
use line_reader::{Read, read_line};

/// How many of the newest runs are searched for those of this prompt.
const RUNS_SEARCHED: u32 = 100;

/// Whether this process can prompt: it has a terminal, and runs may work in its directory.
pub(crate) fn is_possible(context: &Context) -> bool {
    let is_terminal = context.display.is_live && std::io::stdin().is_terminal();
    is_terminal && RunDir::find(None, &context.environment).is_ok()
}

/// Prompts until the user leaves. `args` are those of this process: its name and options of every verb.
pub(crate) fn prompt(args: Vec<OsString>, context: &Context) -> Result<Exit, CliError> {
    let dir = RunDir::find(None, &context.environment)?.dir;
    note(&format!("{} · /help lists the commands, Ctrl-D quits", term::line(&dir)));
    let mut session = PromptSession {
        args,
        context,
        id: format!("prompt-{}-{}", std::process::id(), now_ms()),
        last: None,
        model: None,
        agent: None,
        names: names(dir.into()),
        history: context.state_dir().map(History::load).unwrap_or_default(),
    };
    let mut editor = Editor::new(REQUEST_MAX_BYTES);
    loop {
        let read = runtime::looking(read_line(&mut editor, &session.history, &session.names))?;
        match read {
            Read::Quit => return Ok(Exit::DONE),
            Read::Stopped(ask) => return Ok(ask.exit()),
            Read::Line(text) if text.trim().is_empty() => {}
            Read::Line(text) => {
                session.history.push(&text);
                match session.take(&text) {
                    Ok(Next::Prompt) => {}
                    Ok(Next::Quit) => return Ok(Exit::DONE),
                    // A mistake in one line is no reason to leave.
                    Err(error) => drop(error.report()),
                }
                // The first run has created the state directory.
                session.history.save();
            }
        }
    }
}

/// The names that can be completed.
fn names(dir: PathBuf) -> ProjectNames {
    ProjectNames {
        dir,
        skills: complete::skill_names(),
        agents: complete::definition_names(),
        models: complete::model_names(),
    }
}

enum Next {
    Prompt,
    Quit,
}

/// What the lines of a prompt have in common.
struct PromptSession<'a> {
    args: Vec<OsString>,
    context: &'a Context,
    /// Marks the runs of this prompt.
    id: String,
    /// The run that the next request continues.
    last: Option<RunId>,
    model: Option<String>,
    agent: Option<String>,
    names: ProjectNames,
    history: History,
}

impl PromptSession<'_> {
    fn take(&mut self, text: &str) -> Result<Next, CliError> {
        match Line::read(text, &self.names) {
            Line::Request(request) => self.request(&request)?,
            Line::Help => note(commands::help().trim_end()),
            Line::New => {
                self.last = None;
                note("the next request starts a new run");
            }
            Line::Model(Some(model)) => {
                note(&format!("model {model} from the next request on"));
                self.model = Some(model);
            }
            Line::Model(None) => {
                note(&format!(
                    "model: {}",
                    self.model.as_deref().unwrap_or("that of the run or of your settings")
                ));
            }
            Line::Agent(Some(agent)) => {
                note(&format!("agent {agent} from the next request on"));
                self.agent = Some(agent);
            }
            Line::Agent(None) => {
                note(&format!(
                    "agent: {}",
                    self.agent.as_deref().unwrap_or("that of the run, else the default")
                ));
            }
            Line::Quit => return Ok(Next::Quit),
            Line::Verb(verb, rest) => drop(self.call(&[&[verb.to_owned()][..], &rest].concat())?),
            Line::OfRun(verb, rest) => self.of_run(verb, &rest)?,
            Line::Unknown(name) => {
                let problem = format!("there is no command or skill `/{}`", term::line(&name));
                return Err(CliError::usage(problem).hint("/help lists the commands, /skills the skills"));
            }
        }
        Ok(Next::Prompt)
    }

    /// Starts a run, or continues the last one.
    fn request(&mut self, text: &str) -> Result<(), CliError> {
        let mut words = match self.continued()? {
            Some(run) => vec!["continue".to_owned(), run.to_string()],
            None => vec!["run".to_owned()],
        };
        words.extend(["--session".to_owned(), self.id.clone()]);
        for (flag, value) in [("--model", &self.model), ("--agent", &self.agent)] {
            words.extend(value.iter().flat_map(|value| [flag.to_owned(), value.clone()]));
        }
        words.extend(["--".to_owned(), text.to_owned()]);
        self.call(&words)?;
        self.find_last()
    }

    /// The run that the next request continues; an error if it has not ended.
    fn continued(&self) -> Result<Option<RunId>, CliError> {
        let Some(run) = &self.last else { return Ok(None) };
        let summary = self.summary(run)?;
        match summary.map(|summary| summary.shown_status()) {
            // It was removed: there is nothing to continue.
            None => Ok(None),
            Some(ShownStatus::Interrupted) => Err(CliError::failed(format!("run {run} was interrupted"))
                .hint("/resume continues it, /new starts a new run")),
            Some(ShownStatus::Recorded(status)) if status.is_running() => {
                Err(CliError::failed(format!("run {run} has not ended"))
                    .hint("/attach shows it, /cancel ends it, /new starts a new run"))
            }
            Some(ShownStatus::Recorded(_)) => Ok(Some(run.clone())),
        }
    }

    /// Calls a verb about the last run.
    fn of_run(&mut self, verb: &str, rest: &[String]) -> Result<(), CliError> {
        let Some(run) = &self.last else {
            return Err(CliError::usage(format!(
                "/{verb} is about the last run of this prompt, and there is none"
            ))
            .hint("type a request first; /ps lists the runs of all projects"));
        };
        let mut words = vec![verb.to_owned(), run.to_string()];
        if verb == "retry" {
            words.extend(["--session".to_owned(), self.id.clone()]);
        }
        words.extend_from_slice(rest);
        self.call(&words)?;
        self.find_last()
    }

    /// Calls this program with a verb, and waits until it ends or its run is detached.
    fn call(&self, words: &[String]) -> Result<Exit, CliError> {
        let mut args = self.args.clone();
        args.extend(words.iter().map(OsString::from));
        wait_for_second(&args)
    }

    fn summary(&self, run: &RunId) -> Result<Option<RunSummary>, CliError> {
        let posse = self.context.open_read_only()?;
        runtime::looking(async { Ok(posse.runs(run.as_str(), 1).await?.into_iter().next()) })
    }

    /// The newest run of this prompt.
    fn find_last(&mut self) -> Result<(), CliError> {
        // A request that was refused before the first run leaves no state directory.
        if !self.context.state_dir()?.is_dir() {
            return Ok(());
        }
        let posse = self.context.open_read_only()?;
        let runs = runtime::looking(async { Ok(posse.runs("", RUNS_SEARCHED).await?) })?;
        let own = runs.into_iter().find(|run| run.session_id.as_deref() == Some(&self.id));
        self.last = own.map(|own| own.run).or_else(|| self.last.take());
        Ok(())
    }
}
