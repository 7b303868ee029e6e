//! The server that a command uses instead of the state directory of this machine: named with `--server` or a variable.

use std::io::IsTerminal;
use std::path::Path;

use posse::remote::ServerClient;
use posse::{AgentId, Decision, Posse, RunId, api};
use posse_setup::RunDraft;
use posse_setup::draft::PlanInput;
use posse_setup::environment::{POSSE_SERVER, POSSE_SERVER_TOKEN, POSSE_SERVER_TOKEN_FILE};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use crate::args::Command;
use crate::context::Context;
use crate::drive::watch;
use crate::error::CliError;
use crate::exit::Exit;
use crate::output::{Output, note};
use crate::questions::{self, QuestionPrompter};
use crate::runtime;
use crate::signals::Signals;
use crate::term;
use crate::view::View;

/// What stands before the token in the URL that a server prints.
const TOKEN: &str = "/?token=";
/// Largest file with a token.
const TOKEN_MAX_BYTES: u64 = 4 * 1024;

/// Which server a command uses.
#[derive(Debug, Clone, Default, clap::Args)]
#[command(next_help_heading = "Server")]
pub(crate) struct ServerArgs {
    /// Use the runs of this server instead of those of this machine; the token is in `POSSE_SERVER_TOKEN`, or in the file that `POSSE_SERVER_TOKEN_FILE` names [variable: `POSSE_SERVER`]
    #[arg(long, global = true, hide_short_help = true, value_name = "URL")]
    pub(crate) server: Option<String>,
}

impl ServerArgs {
    /// The client of the named server; `None` without one.
    pub(crate) fn client(
        &self,
        variables: &[(String, String)],
        cwd: &Path,
    ) -> Result<Option<ServerClient>, CliError> {
        let set = |name: &str| {
            let found = variables.iter().find(|(known, value)| known == name && !value.is_empty());
            found.map(|(_, value)| value.as_str())
        };
        let (url, named) = match (&self.server, set(POSSE_SERVER)) {
            (Some(url), _) => (url.as_str(), "--server"),
            (None, Some(url)) => (url, POSSE_SERVER),
            (None, None) => return Ok(None),
        };
        // The printed URL can be given as it is.
        let (url, printed) =
            url.split_once(TOKEN).map_or((url, None), |(url, token)| (url, Some(token.to_owned())));
        let token = match (printed, set(POSSE_SERVER_TOKEN), set(POSSE_SERVER_TOKEN_FILE)) {
            (Some(token), ..) => token,
            (None, Some(token), _) => token.to_owned(),
            (None, None, Some(file)) => read_token(&cwd.join(file))?,
            (None, None, None) => {
                return Err(CliError::usage("the token of the server is missing").hint(format!(
                    "set {POSSE_SERVER_TOKEN}, or {POSSE_SERVER_TOKEN_FILE} to a file that has it; `posse token new` \
                     makes one on the server's machine"
                )));
            }
        };
        let client = ServerClient::new(url, token.trim());
        client.map(Some).map_err(|problem| {
            CliError::usage(format!("{named}: {problem}")).hint("name it as `http://127.0.0.1:7766`")
        })
    }
}

fn read_token(path: &Path) -> Result<String, CliError> {
    let wrong = |problem: String| {
        CliError::usage(format!("{POSSE_SERVER_TOKEN_FILE}: {}: {problem}", path.display()))
    };
    let about = std::fs::metadata(path).map_err(|error| wrong(error.to_string()))?;
    if about.len() > TOKEN_MAX_BYTES {
        return Err(wrong("this is not a token".to_owned()));
    }
    std::fs::read_to_string(path).map_err(|error| wrong(error.to_string()))
}

/// Refuses a verb that uses what only this machine has.
pub(crate) fn refuse_unless_offered(command: &Command) -> Result<(), CliError> {
    let is_offered = matches!(
        command,
        Command::Run(_)
            | Command::Continue(_)
            | Command::Retry(_)
            | Command::Resume(_)
            | Command::Ps(_)
            | Command::Show(_)
            | Command::Stats(_)
            | Command::Logs(_)
            | Command::Trace(_)
            | Command::Report(_)
            | Command::Diff(_)
            | Command::Apply(_)
            | Command::Salvage(_)
            | Command::Wait(_)
            | Command::Attach(_)
            | Command::Top(_)
            | Command::Send(_)
            | Command::Cancel(_)
            | Command::Kill(_)
            | Command::Approve(_)
            | Command::Deny(_)
            | Command::Approvals(_)
            | Command::Explain(_)
            | Command::Export(_)
            | Command::Models(_)
            | Command::Settings(_)
            | Command::Doctor(_)
            | Command::Completions(_)
            | Command::Man(_)
    );
    if is_offered {
        return Ok(());
    }
    Err(CliError::usage("this verb works with the runs of this machine, not with those of a server")
        .hint(format!("omit --server, or unset {POSSE_SERVER}")))
}

/// Refuses what a server does not accept, by the words that the user typed; without a server, nothing.
pub(crate) fn refuse(context: &Context, typed: &[(bool, &str)]) -> Result<(), CliError> {
    let found = typed.iter().find(|(is_given, _)| context.server().is_some() && *is_given);
    match found {
        Some((_, word)) => {
            Err(CliError::usage(format!("{word}: a server does not accept this")).hint("omit it"))
        }
        None => Ok(()),
    }
}

/// Reads an object of a server.
pub(crate) fn fetch<T: DeserializeOwned>(
    client: &ServerClient,
    path: &str,
    query: &[(&str, &str)],
) -> Result<T, CliError> {
    runtime::looking(async { Ok(client.get(path, query).await.map_err(posse::Error::from)?) })
}

/// Starts the run of a draft on a server, and watches it unless it is detached.
pub(crate) fn start(
    client: &ServerClient,
    draft: &RunDraft,
    plan: Option<String>,
    detached: bool,
    json: bool,
    context: &Context,
) -> Result<Exit, CliError> {
    let mut body = request(draft, context)?;
    let plan = match (&draft.plan, plan) {
        (Some(PlanInput::Text(text)), _) => Some(text.clone()),
        (_, plan) => plan,
    };
    body.extend(plan.map(|plan| ("plan".to_owned(), json!(plan))));
    start_at(client, "/api/v1/runs", &body.into(), detached, json, context)
}

/// Starts a run on a server that continues the conversation of an agent.
pub(crate) fn continue_agent(
    client: &ServerClient,
    agent: &AgentId,
    draft: &RunDraft,
    detached: bool,
    json: bool,
    context: &Context,
) -> Result<Exit, CliError> {
    let mut body = request(draft, context)?;
    // The message of a follow-up has another name than the request of a new run.
    let text = body.remove("request").unwrap_or_default();
    body.insert("text".to_owned(), text);
    let path = format!("/api/v1/runs/{}/agents/{agent}/continue", agent.run());
    start_at(client, &path, &body.into(), detached, json, context)
}

/// Starts a run on a server that does the work of an agent again.
pub(crate) fn retry_agent(
    client: &ServerClient,
    agent: &AgentId,
    draft: &RunDraft,
    detached: bool,
    json: bool,
    context: &Context,
) -> Result<Exit, CliError> {
    let path = format!("/api/v1/runs/{}/agents/{agent}/retry", agent.run());
    start_at(client, &path, &request(draft, context)?.into(), detached, json, context)
}

fn start_at(
    client: &ServerClient,
    path: &str,
    body: &Value,
    detached: bool,
    json: bool,
    context: &Context,
) -> Result<Exit, CliError> {
    runtime::looking(async {
        let posse = context.open_for_commands()?;
        let mut signals = Signals::listen()?;
        let starting = Box::pin(client.post::<api::StartedRun>(path, body));
        let started = match signals.unless_one_comes(starting).await {
            Ok(started) => started.map_err(posse::Error::from)?,
            Err(ask) => return Ok(ask.exit()),
        };
        if detached {
            print_notes(&started);
            return print_started(&started.run, json);
        }
        attach(&posse, &started, 0, &mut signals, json, context).await
    })
}

/// Watches a run that a server has just begun to execute. Events up to this number are not shown again.
pub(crate) async fn attach(
    posse: &Posse,
    started: &api::StartedRun,
    known: u64,
    signals: &mut Signals,
    json: bool,
    context: &Context,
) -> Result<Exit, CliError> {
    print_notes(started);
    let run: RunId = started.run.parse().map_err(|_| CliError::failed("the server started no run"))?;
    let asking = QuestionPrompter::new(questions::attended(json));
    watch(posse, &run, known, signals, View::new(json, context), asking).await
}

fn print_notes(started: &api::StartedRun) {
    for text in &started.notes {
        note(&term::line(text));
    }
}

/// Prints the id of a run that the server executes.
fn print_started(run: &str, json: bool) -> Result<Exit, CliError> {
    let mut output = Output::new();
    if json {
        output.json(&api::RunReference::new(run))?;
    } else {
        output.own(&format!("{run}\n"))?;
    }
    output.flush()?;
    if !json && std::io::stdout().is_terminal() {
        note(&format!("the server executes it; `posse wait {run}` waits for its end"));
    }
    Ok(Exit::DONE)
}

/// The request of a draft, as the API has it.
fn request(draft: &RunDraft, context: &Context) -> Result<Map<String, Value>, CliError> {
    refuse(
        context,
        &[
            (draft.agents.is_some(), "--agents"),
            (draft.apply, "--apply"),
            (draft.session_id.is_some(), "--session"),
            (draft.unowned_writers != RunDraft::default().unowned_writers, "--unowned-writers"),
        ],
    )?;
    let mut body = Map::new();
    let mut set = |name: &str, value: Option<Value>| body.extend(value.map(|value| (name.to_owned(), value)));
    let text = |text: &Option<String>| text.as_ref().map(|text| json!(text));
    set("request", text(&draft.text));
    set("context", text(&draft.context));
    set("agent", text(&draft.agent));
    set("skill", text(&draft.skill));
    set("dir", draft.dir.as_ref().map(|dir| json!(dir)));
    set("base_url", draft.settings.base_url.as_ref().map(|url| json!(url.value)));
    let allow: Vec<String> = draft.permissions.allow.iter().map(ToString::to_string).collect();
    set("allow", (!allow.is_empty()).then(|| json!(allow)));
    let rules = draft.permissions.rules.iter().map(|rule| {
        let decision = if rule.decision == Decision::Ask { "ask" } else { "deny" };
        json!({ "pattern": rule.pattern.to_string(), "decision": decision })
    });
    let rules: Vec<Value> = rules.collect();
    set("rules", (!rules.is_empty()).then(|| json!(rules)));
    let settings: Map<String, Value> =
        draft.settings.entries().into_iter().map(|entry| (entry.key, entry.value)).collect();
    set("settings", (!settings.is_empty()).then(|| json!(settings)));
    Ok(body)
}
