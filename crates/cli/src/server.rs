//! The server that a command uses instead of the state directory of this machine: named with `--server` or a variable.

use std::io::IsTerminal;
use std::path::Path;

use posse::remote::ServerClient;
use posse::{Decision, Posse, RunId, api};
use posse_setup::RunDraft;
use posse_setup::draft::PlanInput;
use posse_setup::environment::{POSSE_SERVER, POSSE_SERVER_TOKEN, POSSE_SERVER_TOKEN_FILE};
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
            | Command::Ps(_)
            | Command::Show(_)
            | Command::Logs(_)
            | Command::Trace(_)
            | Command::Report(_)
            | Command::Diff(_)
            | Command::Wait(_)
            | Command::Attach(_)
            | Command::Send(_)
            | Command::Cancel(_)
            | Command::Kill(_)
            | Command::Approve(_)
            | Command::Deny(_)
            | Command::Completions(_)
            | Command::Man(_)
    );
    if is_offered {
        return Ok(());
    }
    Err(CliError::usage("this verb works with the runs of this machine, not with those of a server")
        .hint(format!("omit --server, or unset {POSSE_SERVER}")))
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
    let body = request(draft, plan)?;
    runtime::looking(async {
        let posse = context.open_for_commands()?;
        let mut signals = Signals::listen()?;
        let starting = Box::pin(client.post::<api::StartedRun>("/api/v1/runs", &body));
        let started = match signals.unless_one_comes(starting).await {
            Ok(started) => started.map_err(|error| CliError::from(posse::Error::from(error)))?,
            Err(ask) => return Ok(ask.exit()),
        };
        for text in &started.notes {
            note(&term::line(text));
        }
        if detached {
            return print_started(&started.run, json);
        }
        let run: RunId = started.run.parse().map_err(|_| CliError::failed("the server started no run"))?;
        attach(&posse, &run, &mut signals, json, context).await
    })
}

async fn attach(
    posse: &Posse,
    run: &RunId,
    signals: &mut Signals,
    json: bool,
    context: &Context,
) -> Result<Exit, CliError> {
    let asking = QuestionPrompter::new(questions::attended(json));
    watch(posse, run, 0, signals, View::new(json, context), asking).await
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
fn request(draft: &RunDraft, plan: Option<String>) -> Result<Value, CliError> {
    let only_here = [
        (draft.agents.is_some(), "--agents"),
        (draft.apply, "--apply"),
        (draft.session_id.is_some(), "--session"),
        (draft.unowned_writers != RunDraft::default().unowned_writers, "--unowned-writers"),
    ];
    if let Some((_, flag)) = only_here.into_iter().find(|(is_given, _)| *is_given) {
        return Err(CliError::usage(format!("{flag}: a server does not accept this")).hint("omit it"));
    }
    let mut body = Map::new();
    let mut set = |name: &str, value: Option<Value>| body.extend(value.map(|value| (name.to_owned(), value)));
    let text = |text: &Option<String>| text.as_ref().map(|text| json!(text));
    set("request", text(&draft.text));
    set("context", text(&draft.context));
    set("agent", text(&draft.agent));
    set("skill", text(&draft.skill));
    set("dir", draft.dir.as_ref().map(|dir| json!(dir)));
    set("base_url", draft.settings.base_url.as_ref().map(|url| json!(url.value)));
    set(
        "plan",
        match (&draft.plan, plan) {
            (Some(PlanInput::Text(text)), _) => Some(json!(text)),
            (_, plan) => plan.map(|text| json!(text)),
        },
    );
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
    Ok(body.into())
}
