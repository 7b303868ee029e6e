//! Completions that know the user's runs, agents, skills and models. The script of a shell calls this program, with a
//! variable that names the shell, and prints what it answers.

use std::ffi::{OsStr, OsString};
use std::path::Path;

use clap::{Arg, Command};
use clap_complete::engine::{ArgValueCompleter, CompletionCandidate};
use clap_complete::env::CompleteEnv;
use posse::event::EventBody;
use posse_setup::discovery::DiscoveryResult;
use posse_setup::model_list;
use posse_setup::project_runs::Project;

use crate::Extras;
use crate::context::Context;
use crate::display::DisplayArgs;
use crate::error::CliError;
use crate::help;
use crate::runtime;
use crate::term;

/// The variable with the name of the shell. It does not begin like those of settings.
pub(crate) const VARIABLE: &str = "_POSSE_COMPLETE";
/// How many runs are offered.
const RUNS_MAX: usize = 50;

/// Answers a shell that asks for completions. `false` if this is an ordinary call.
pub(crate) fn answered(args: &[OsString]) -> bool {
    let env = CompleteEnv::with_factory(|| with_completers(help::command(), "")).var(VARIABLE);
    // A shell shows nothing if it gets no answer.
    env.try_complete(args.iter().cloned(), None::<&Path>).unwrap_or(true)
}

type Complete = fn(&str) -> Vec<CompletionCandidate>;

/// What completes an argument of a verb; `None` for the parser's own choices.
fn completer(verb: &str, argument: &Arg) -> Option<Complete> {
    match (verb, argument.get_id().as_str()) {
        ("run" | "plan", "agent") | ("agents show", "name") => Some(definitions),
        (_, "run" | "runs" | "words") => Some(runs),
        ("run", "skill") | ("skills show", "name") => Some(skills),
        ("run" | "plan", "model") | ("models", "text") => Some(models),
        ("run", "on-ask") => Some(|_| words(&["deny", "escalate"])),
        ("run", "unowned_writers") => Some(|_| words(&["queue", "parallel"])),
        ("logs", "kind") => Some(|_| words(EventBody::KINDS)),
        ("man", "verb") => Some(|_| verbs()),
        _ => None,
    }
}

fn with_completers(mut command: Command, path: &str) -> Command {
    let names: Vec<String> = command.get_subcommands().map(|verb| verb.get_name().to_owned()).collect();
    for name in names {
        let whole = if path.is_empty() { name.clone() } else { format!("{path} {name}") };
        // A shell would offer an alias in place of the verb that it begins like.
        let without_aliases = |verb: Command| verb.visible_alias(None::<&'static str>);
        command = command.mut_subcommand(name, |verb| with_completers(without_aliases(verb), &whole));
    }
    command.mut_args(|argument| match completer(path, &argument) {
        None => argument,
        Some(complete) => argument.add(ArgValueCompleter::new(move |typed: &OsStr| {
            let typed = typed.to_string_lossy();
            let mut offered = complete(&typed);
            offered.retain(|candidate| candidate.get_value().to_string_lossy().starts_with(&*typed));
            offered
        })),
    })
}

fn words(words: &[&str]) -> Vec<CompletionCandidate> {
    words.iter().map(CompletionCandidate::new).collect()
}

fn verbs() -> Vec<CompletionCandidate> {
    let command = help::command();
    let shown = command.get_subcommands().filter(|verb| !verb.is_hide_set());
    shown.map(|verb| CompletionCandidate::new(verb.get_name().to_owned())).collect()
}

/// A candidate with a line about it.
fn described(name: &str, about: &str) -> CompletionCandidate {
    CompletionCandidate::new(name).help(Some(term::line(about).into()))
}

/// Whatever goes wrong, a shell gets no candidates and no error.
fn offered(
    find: impl FnOnce(&Context) -> Result<Vec<CompletionCandidate>, CliError>,
) -> Vec<CompletionCandidate> {
    let context = Context::new("posse".to_owned(), Extras::default(), DisplayArgs::default(), None);
    context.and_then(|context| find(&context)).unwrap_or_default()
}

/// The newest runs, those of this project first; with a dot, the agents of a run.
fn runs(typed: &str) -> Vec<CompletionCandidate> {
    offered(|context| {
        let posse = context.open_read_only()?;
        if let Some((run, _)) = typed.split_once('.') {
            return runtime::looking(async {
                let run = posse.find(run).await?;
                let state = posse.current_state(&run).await?;
                let agents = state.agents().iter().filter(|agent| !agent.id.is_root());
                Ok(agents.map(|agent| described(agent.id.as_str(), &agent.title)).collect())
            });
        }
        let all = runtime::looking(async { Ok(posse.runs("", 1_000).await?) })?;
        let project = Project::current(&context.environment);
        let (own, others): (Vec<_>, Vec<_>) = all.into_iter().partition(|run| project.has(run));
        let newest = described("@", "the newest run of this project");
        let runs = own.iter().chain(&others).take(RUNS_MAX).enumerate();
        let run = |(order, run): (usize, &posse::RunSummary)| {
            let about = format!("{}: {}", run.shown_status().as_str(), run.title);
            described(run.run.as_str(), &about).display_order(Some(order))
        };
        Ok(std::iter::once(newest).chain(runs.map(run)).collect())
    })
}

fn discovered(context: &Context) -> Result<DiscoveryResult, CliError> {
    Ok(DiscoveryResult::load(&context.environment.cwd, None, context)?)
}

fn definitions(_: &str) -> Vec<CompletionCandidate> {
    offered(|context| {
        let built_in = posse::builtin();
        let found = discovered(context)?;
        let all = built_in.iter().chain(found.agents.iter().map(|entry| &entry.value));
        Ok(all.map(|own| described(&own.name, &own.description)).collect())
    })
}

fn skills(_: &str) -> Vec<CompletionCandidate> {
    offered(|context| {
        let found = discovered(context)?;
        Ok(found.skills.iter().map(|entry| described(&entry.value.name, &entry.value.description)).collect())
    })
}

/// The names of a kind, each with a line about it, for the prompt.
fn pairs(candidates: &[CompletionCandidate]) -> Vec<(String, String)> {
    let pair = |candidate: &CompletionCandidate| {
        let about = candidate.get_help().map(ToString::to_string).unwrap_or_default();
        (candidate.get_value().to_string_lossy().into_owned(), about)
    };
    candidates.iter().map(pair).collect()
}

pub(crate) fn skill_names() -> Vec<(String, String)> {
    pairs(&skills(""))
}

pub(crate) fn definition_names() -> Vec<(String, String)> {
    pairs(&definitions(""))
}

pub(crate) fn model_names() -> Vec<(String, String)> {
    pairs(&models(""))
}

/// Short names, and the models with known prices of providers that can be used.
fn models(_: &str) -> Vec<CompletionCandidate> {
    offered(|context| {
        let list = model_list::list(context)?;
        let aliases = list.aliases.iter().map(|alias| described(&alias.name, &alias.model));
        let usable = |name: &str| list.providers.iter().any(|known| known.usable && known.name == name);
        let models = list.models.iter().filter(|model| model.name.split('/').next().is_some_and(usable));
        Ok(aliases.chain(models.map(|model| CompletionCandidate::new(&model.name))).collect())
    })
}
