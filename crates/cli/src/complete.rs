//! Completions that know the user's runs, agents, skills and models. The script of a shell calls this program, with a
//! variable that names the shell, and prints what it answers.

use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::sync::Arc;

use clap::{Arg, Command};
use clap_complete::engine::{ArgValueCompleter, CompletionCandidate};
use clap_complete::env::CompleteEnv;
use posse::event::EventBody;
use posse::{Posse, QuestionScope, RunSummary};
use posse_setup::approvals::FileApprovals;
use posse_setup::discovery::DiscoveryResult;
use posse_setup::model_list;
use posse_setup::project_runs::Project;

use crate::Extras;
use crate::context::Context;
use crate::display::DisplayArgs;
use crate::error::CliError;
use crate::help;
use crate::ids::AgentArg;
use crate::runtime;
use crate::term;

/// The variable with the name of the shell. It does not begin like those of settings.
pub(crate) const VARIABLE: &str = "_POSSE_COMPLETE";
/// What the name of a model that repeats a recorded run begins with.
const REPLAY: &str = "replay/";
/// Limit of runs that are searched for those that are offered.
const RUNS_SEARCHED: u32 = 1_000;
/// How many runs are offered.
const RUNS_MAX: usize = 50;

/// The prefix of most kinds of events, which may be omitted.
const AGENT_KIND: &str = "agent.";

/// Answers a shell that asks for completions. `false` if this is an ordinary call.
pub(crate) fn answered(args: &[OsString]) -> bool {
    // The shell's words follow the first `--`, and begin with the name of the command.
    let words = args.iter().skip_while(|word| *word != "--").skip(2);
    let words: Arc<[String]> = words.map(|word| word.to_string_lossy().into_owned()).collect();
    let factory = move || with_completers(help::command(), "", &words);
    let env = CompleteEnv::with_factory(factory).var(VARIABLE);
    // A shell shows nothing if it gets no answer.
    env.try_complete(args.iter().cloned(), None::<&Path>).unwrap_or(true)
}

/// The word that is completed, with all words of the line after the name of the command.
#[derive(Debug, Clone, Copy)]
struct TypedWord<'a> {
    word: &'a str,
    line: &'a [String],
}

impl TypedWord<'_> {
    /// Nothing is typed.
    const NOTHING: TypedWord<'static> = TypedWord { word: "", line: &[] };
}

type Complete = fn(TypedWord<'_>) -> Vec<CompletionCandidate>;

/// What completes an argument of a verb; `None` for the parser's own choices.
fn completer(verb: &str, argument: &Arg) -> Option<Complete> {
    match (verb, argument.get_id().as_str()) {
        ("run" | "plan" | "plan check" | "continue" | "retry", "agent") | ("agents show", "name") => {
            Some(definitions)
        }
        ("send", "agent") | ("cancel" | "kill", "run") => Some(open_runs),
        ("approve" | "deny", "run") => Some(waiting_runs),
        (_, "agent") | ("logs", "only") | ("approve" | "deny", "rest") => Some(agents),
        ("approvals revoke", "operations") => Some(approved),
        (_, "run" | "runs" | "words") => Some(runs),
        ("run", "skill") | ("skills show", "name") => Some(skills),
        ("run", "request") => Some(called_skills),
        ("run" | "plan" | "continue" | "retry", "model") | ("models", "text") => Some(models),
        ("run", "on-ask") => Some(|_| words(&["deny", "escalate"])),
        ("run", "unowned_writers") => Some(|_| words(&["queue", "parallel"])),
        ("logs", "kind") => Some(kinds),
        ("ps", "format") => Some(fields),
        ("man", "verb") => Some(|_| verbs()),
        _ => None,
    }
}

fn with_completers(mut command: Command, path: &str, line: &Arc<[String]>) -> Command {
    let names: Vec<String> = command.get_subcommands().map(|verb| verb.get_name().to_owned()).collect();
    for name in names {
        let whole = if path.is_empty() { name.clone() } else { format!("{path} {name}") };
        // A shell would offer an alias in place of the verb that it begins like.
        let without_aliases = |verb: Command| verb.visible_alias(None::<&'static str>);
        command = command.mut_subcommand(name, |verb| with_completers(without_aliases(verb), &whole, line));
    }
    command.mut_args(|argument| match completer(path, &argument) {
        None => argument,
        Some(complete) => {
            let line = line.clone();
            argument.add(ArgValueCompleter::new(move |word: &OsStr| {
                let word = word.to_string_lossy();
                let mut offered = complete(TypedWord { word: &word, line: &line });
                offered.retain(|candidate| candidate.get_value().to_string_lossy().starts_with(&*word));
                offered
            }))
        }
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
fn runs(typed: TypedWord<'_>) -> Vec<CompletionCandidate> {
    some_runs(typed, |posse| runtime::looking(async { Ok(posse.runs("", RUNS_SEARCHED).await?) }))
}

/// The same of runs that have not ended.
fn open_runs(typed: TypedWord<'_>) -> Vec<CompletionCandidate> {
    some_runs(typed, |posse| {
        let mut runs = runtime::looking(async { Ok(posse.runs("", RUNS_SEARCHED).await?) })?;
        runs.retain(|run| run.status.is_running());
        Ok(runs)
    })
}

/// The same of runs with a call that waits for an answer.
fn waiting_runs(typed: TypedWord<'_>) -> Vec<CompletionCandidate> {
    some_runs(typed, |posse| {
        runtime::looking(async {
            let found = posse.find_questions(&QuestionScope::AllRuns, None).await?;
            let mut runs = posse.runs("", RUNS_SEARCHED).await?;
            runs.retain(|run| found.unanswered.iter().any(|(_, asked)| asked.agent.run() == run.run));
            Ok(runs)
        })
    })
}

fn some_runs(
    typed: TypedWord<'_>,
    find: impl FnOnce(&Posse) -> Result<Vec<RunSummary>, CliError>,
) -> Vec<CompletionCandidate> {
    offered(|context| {
        let posse = context.open_read_only()?;
        if let Some((run, _)) = typed.word.split_once('.') {
            let agents = agents_of(run, &posse, context)?;
            let named = |(path, title): &(String, String)| described(&format!("{run}.{path}"), title);
            return Ok(agents.iter().map(named).collect());
        }
        let project = Project::current(&context.environment);
        let newest_of_all = runtime::looking(async { Ok(project.runs(&posse).await?) })?.into_iter().next();
        let (own, others): (Vec<_>, Vec<_>) = find(&posse)?.into_iter().partition(|run| project.has(run));
        let is_newest = |newest: &RunSummary| own.first().is_some_and(|run| run.run == newest.run);
        let newest =
            newest_of_all.filter(is_newest).map(|_| described("@", "the newest run of this project"));
        let runs = own.iter().chain(&others).take(RUNS_MAX).enumerate();
        let run = |(order, run): (usize, &RunSummary)| {
            let about = format!("{}: {}", run.shown_status().as_str(), run.title);
            described(run.run.as_str(), &about).display_order(Some(order))
        };
        Ok(newest.into_iter().chain(runs.map(run)).collect())
    })
}

/// The sub-agents of the run that the line names, or of the newest run of this project: by their numbers.
fn agents(typed: TypedWord<'_>) -> Vec<CompletionCandidate> {
    offered(|context| {
        let posse = context.open_read_only()?;
        let mut named = typed.line.iter().skip(1).filter(|word| !word.is_empty() && !word.starts_with('-'));
        let found = named.find_map(|word| agents_of(word, &posse, context).ok());
        let found = found.map_or_else(|| agents_of("@", &posse, context), Ok)?;
        Ok(found.iter().map(|(path, title)| described(path, title)).collect())
    })
}

/// The sub-agents of a run: the numbers of each, and its title.
fn agents_of(run: &str, posse: &Posse, context: &Context) -> Result<Vec<(String, String)>, CliError> {
    let run: AgentArg = run.parse().map_err(|problem: String| CliError::usage(problem))?;
    runtime::looking(async {
        let run = run.find_run(posse, context).await?;
        let state = posse.current_state(&run).await?;
        let agents = state.agents().iter().filter(|agent| !agent.id.is_root());
        Ok(agents.map(|agent| (agent.id.relative().to_owned(), agent.title.clone())).collect())
    })
}

/// The operations that are always allowed.
fn approved(_: TypedWord<'_>) -> Vec<CompletionCandidate> {
    offered(|context| {
        let stored = FileApprovals::new(context.state_dir()?).all()?;
        Ok(stored.iter().map(|stored| described(stored.operation.as_str(), &stored.dir)).collect())
    })
}

/// The kinds of events, as short as a filter takes them unless the long form is typed.
fn kinds(typed: TypedWord<'_>) -> Vec<CompletionCandidate> {
    let is_long = typed.word.starts_with(AGENT_KIND);
    let kind =
        |kind: &&'static str| if is_long { *kind } else { kind.strip_prefix(AGENT_KIND).unwrap_or(kind) };
    let kinds: Vec<&str> = EventBody::KINDS.iter().map(kind).collect();
    words(&kinds)
}

/// The fields of a template, behind what is typed before the last brace.
fn fields(typed: TypedWord<'_>) -> Vec<CompletionCandidate> {
    let before = typed.word.rsplit_once('{').map_or("", |(before, _)| before);
    let schema = posse::api::json_schema();
    let properties = schema["$defs"]["RunSummary"]["properties"].as_object();
    let names = properties.into_iter().flat_map(|properties| properties.keys());
    names.map(|name| CompletionCandidate::new(format!("{before}{{{name}}}"))).collect()
}

/// Skills at the beginning of a request.
fn called_skills(typed: TypedWord<'_>) -> Vec<CompletionCandidate> {
    if !typed.word.starts_with('/') {
        return Vec::new();
    }
    pairs(&skills(typed)).iter().map(|(name, about)| described(&format!("/{name}"), about)).collect()
}

fn discovered(context: &Context) -> Result<DiscoveryResult, CliError> {
    Ok(DiscoveryResult::load(&context.environment.cwd, None, context)?)
}

fn definitions(_: TypedWord<'_>) -> Vec<CompletionCandidate> {
    offered(|context| {
        let built_in = posse::builtin();
        let found = discovered(context)?;
        let all = built_in.iter().chain(found.agents.iter().map(|entry| &entry.value));
        Ok(all.map(|own| described(&own.name, &own.description)).collect())
    })
}

fn skills(_: TypedWord<'_>) -> Vec<CompletionCandidate> {
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
    pairs(&skills(TypedWord::NOTHING))
}

pub(crate) fn definition_names() -> Vec<(String, String)> {
    pairs(&definitions(TypedWord::NOTHING))
}

pub(crate) fn model_names() -> Vec<(String, String)> {
    pairs(&models(TypedWord::NOTHING))
}

/// Short names, and the models with known prices of providers that can be used; all models of a provider that is typed, and
/// the runs that can be replayed.
fn models(typed: TypedWord<'_>) -> Vec<CompletionCandidate> {
    if typed.word.starts_with(REPLAY) {
        let recorded = runs(TypedWord { word: "", ..typed });
        return pairs(&recorded)
            .iter()
            .map(|(run, about)| described(&format!("{REPLAY}{run}"), about))
            .collect();
    }
    let is_of_provider = typed.word.contains('/');
    offered(|context| {
        let list = model_list::list(context)?;
        let aliases = list.aliases.iter().map(|alias| described(&alias.name, &alias.model));
        let usable = |name: &str| list.providers.iter().any(|known| known.usable && known.name == name);
        let is_offered = |name: &str| is_of_provider || name.split('/').next().is_some_and(usable);
        let models = list.models.iter().filter(|model| is_offered(&model.name));
        Ok(aliases.chain(models.map(|model| CompletionCandidate::new(&model.name))).collect())
    })
}
