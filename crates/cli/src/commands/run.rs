//! `posse run`.

use std::path::PathBuf;

use posse::{REQUEST_MAX_BYTES, UnownedWriters};
use posse_setup::draft::{PlanInput, PreparedReplay, ReplayDraft};
use posse_setup::plan::file as plan_file;
use posse_setup::{PreparedRun, RunDirectory, RunDraft};

use crate::commands::plan::{DefinitionArgs, plan_for};
use crate::context::Context;
use crate::detach;
use crate::drive::{drive_and_apply, drive_and_print};
use crate::error::CliError;
use crate::exit::Exit;
use crate::ids::RunArg;
use crate::output::{note, print_noted};
use crate::permissions::PermissionArgs;
use crate::questions::{self, QuestionPrompter};
use crate::runtime;
use crate::server;
use crate::setting_flags::SettingFlags;
use crate::signals::Signals;
use crate::stdin;
use crate::typed_flags::TypedFlags;
use crate::view::View;

/// Start a run and watch it until it ends
///
/// The report is written to standard output, progress to standard error. On a terminal, the progress is a live tree with
/// keys: `?` lists them, `d` detaches and lets the run continue in the background. There, the first Ctrl-C asks what to do
/// and the second cancels the run; without a terminal, the first cancels it. One more, or SIGTERM or SIGHUP, stops at
/// once and leaves it to `posse resume`.
#[derive(Debug, clap::Args)]
pub(crate) struct RunArgs {
    /// What to do; `-` reads it from standard input. Beside a request, text on standard input is context for it. Optional with a plan, which has a goal, and with a replay, which has
    /// the request of the recorded run
    #[arg(required_unless_present_any = ["plan", "model", "skill"], value_name = "REQUEST")]
    request: Vec<String>,
    /// Execute a plan: a file, or `auto` to let the planner write one for the request
    #[arg(long, value_name = "FILE|auto")]
    plan: Option<String>,
    #[command(flatten)]
    settings: SettingFlags<false>,
    #[command(flatten)]
    definitions: DefinitionArgs,
    /// Let a skill execute the request, like `/NAME` at its beginning; `posse skills` lists them
    #[arg(long, value_name = "NAME", conflicts_with = "plan")]
    skill: Option<String>,
    /// The working directory [default: the top of the repository, else the current directory]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    #[command(flatten)]
    permissions: PermissionArgs,
    /// Children that write and own no paths run one after the other (`queue`) or at once (`parallel`) [default: queue]
    #[arg(long, value_name = "ORDER", value_parser = unowned_writers)]
    unowned_writers: Option<UnownedWriters>,
    /// Apply the result to the checkout when the run has completed, as `posse apply` does
    #[arg(long)]
    apply: bool,
    /// Print the run's id and execute the run in the background
    #[arg(long, short)]
    detach: bool,
    /// Print events and the result as JSON lines
    #[arg(long)]
    json: bool,
    /// The session of a front end that the run belongs to
    #[arg(long, value_name = "ID", hide = true)]
    session: Option<String>,
    #[command(flatten)]
    typed: TypedFlags,
}

/// The ids of the arguments that a replay accepts; everything else comes from the recorded run.
const REPLAY_TAKES: [&str; 8] = ["request", "model", "dir", "allow", "ask", "deny", "detach", "json"];

/// Starts a run.
pub(crate) fn run(args: RunArgs, context: &Context) -> Result<Exit, CliError> {
    let (detached, json) = (args.detach, args.json);
    if detached {
        refuse_notices(context)?;
    }
    if let Some(draft) = args.replay()? {
        return replay(draft, detached, json, context);
    }
    let (mut draft, plan) = args.draft()?;
    if let Some(server) = context.server() {
        let plan = match plan {
            Some(plan) if plan == AUTO => {
                return Err(CliError::usage("--plan auto: the planner works on this machine")
                    .hint("write the plan with `posse plan`, without --server, and name its file"));
            }
            Some(file) => Some(plan_file::read(file.as_ref(), context)?.0),
            None => None,
        };
        return server::start(server, &draft, plan, detached, json, context);
    }
    let directory = print_noted(RunDirectory::load(&draft, context))?;
    draft.plan = match plan {
        None => None,
        Some(plan) if plan == AUTO => match plan_for(&draft, &directory, context)? {
            Ok(plan) => Some(PlanInput::Checked(Box::new(plan))),
            Err(exit) => return Ok(exit),
        },
        Some(file) => Some(PlanInput::File(file.into())),
    };
    start_in(draft, &directory, detached, json, context)
}

/// Starts the run of a draft, and watches it unless it is detached.
pub(crate) fn start(
    draft: RunDraft,
    detached: bool,
    json: bool,
    context: &Context,
) -> Result<Exit, CliError> {
    if detached {
        refuse_notices(context)?;
    }
    let directory = print_noted(RunDirectory::load(&draft, context))?;
    start_in(draft, &directory, detached, json, context)
}

/// Refuses `--notify` for a run in the background, which has no terminal.
fn refuse_notices(context: &Context) -> Result<(), CliError> {
    if context.display.notifies {
        let problem = "--notify: a run in the background has no terminal to notify you on";
        return Err(CliError::usage(problem)
            .hint("omit it; `posse wait --notify` and `posse attach --notify` notify you of a run's end"));
    }
    Ok(())
}

fn start_in(
    draft: RunDraft,
    directory: &RunDirectory,
    detached: bool,
    json: bool,
    context: &Context,
) -> Result<Exit, CliError> {
    let draft = RunDraft { answers_sub_agents: !detached && questions::attended(json), ..draft };
    let prepared = runtime::looking(async { Ok(draft.prepare(directory, context).await) })?;
    let prepared = print_noted(prepared)?;
    if detached {
        if prepared.local.apply {
            note("the result is applied to the checkout when the run has completed");
        }
        return detach::detach_and_print(&prepared, json, context);
    }
    runtime::driving(async {
        let mut signals = Signals::listen()?;
        let PreparedRun { request, local } = prepared;
        let posse = directory.open(&local, context)?;
        let attended = questions::attended(json);
        let mut view = View::new(json, context);
        let starting = view.while_starting(&posse, Box::pin(posse.start_request(request, attended)));
        let handle = match signals.unless_one_comes(starting).await {
            Ok(started) => started?,
            Err(ask) => {
                view.progress(None);
                return Ok(ask.exit());
            }
        };
        let asking = QuestionPrompter::new(attended);
        drive_and_apply(&posse, &handle, 0, &mut signals, view, asking, local.apply).await
    })
}

/// The recorded run of a name that depends on where the user is, such as `@`. Other names stay as they are.
fn recorded_run(recorded: String, context: &Context) -> Result<String, CliError> {
    if !recorded.starts_with('@') && recorded != "last" {
        return Ok(recorded);
    }
    let named: RunArg = recorded.parse().map_err(|problem| CliError::usage(format!("--model: {problem}")))?;
    let reader = context.open_read_only()?;
    let run = runtime::looking(named.find(&reader, context))?;
    Ok(run.to_string())
}

/// Replays a recorded run.
fn replay(draft: ReplayDraft, detached: bool, json: bool, context: &Context) -> Result<Exit, CliError> {
    let draft = ReplayDraft { recorded: recorded_run(draft.recorded, context)?, ..draft };
    let prepared = runtime::looking(async { Ok(draft.prepare(context).await) })?;
    let replay = print_noted(prepared)?;
    if detached {
        return detach::detach_and_print(&replay.run, json, context);
    }
    runtime::driving(async {
        let mut signals = Signals::listen()?;
        let posse = replay.open(context)?;
        let attended = questions::attended(json);
        let PreparedReplay { recorded, run, .. } = replay;
        let starting = posse.replay(&recorded, run.request, attended);
        let handle = match signals.unless_one_comes(starting).await {
            Ok(started) => started?,
            Err(ask) => return Ok(ask.exit()),
        };
        let asking = QuestionPrompter::new(attended);
        drive_and_print(&posse, &handle, 0, &mut signals, View::new(json, context), asking).await
    })
}

/// The value of `--plan` that lets the planner write one.
const AUTO: &str = "auto";

impl RunArgs {
    /// Whether no user watches the run.
    pub(crate) fn is_for_programs(&self) -> bool {
        self.detach || self.json
    }

    /// The requested replay, if the model is a recorded run.
    fn replay(&self) -> Result<Option<ReplayDraft>, CliError> {
        let model = self.settings.0.model.as_ref().map(|model| model.value.as_str());
        let Some(recorded) = model.and_then(posse::replayed) else {
            return Ok(None);
        };
        if let Some(flag) = self.typed.first_other::<Self>(&REPLAY_TAKES) {
            let problem = format!("{flag}: a replay takes its terms and files from the recorded run");
            return Err(CliError::usage(problem).hint("omit it"));
        }
        Ok(Some(ReplayDraft {
            recorded: recorded.to_owned(),
            text: self.text()?,
            dir: self.dir.clone(),
            permissions: self.permissions.0.clone(),
            session_id: None,
        }))
    }

    /// The typed text, if any.
    fn text(&self) -> Result<Option<String>, CliError> {
        if self.request.is_empty() { Ok(None) } else { typed("request", &self.request).map(Some) }
    }

    /// The draft of the requested run, and the value of `--plan`.
    fn draft(self) -> Result<(RunDraft, Option<String>), CliError> {
        let text = match (&self.plan, &self.skill) {
            (None, None) => Some(typed("request", &self.request)?),
            _ => self.text()?,
        };
        let draft = RunDraft {
            context: if self.plan.is_none() { stdin::context(&self.request)? } else { None },
            text,
            settings: self.settings.0,
            dir: self.dir,
            agent: self.definitions.agent,
            agents: self.definitions.agents,
            skill: self.skill,
            permissions: self.permissions.0,
            unowned_writers: self.unowned_writers.unwrap_or_default(),
            // Known when the run is started.
            answers_sub_agents: false,
            apply: self.apply,
            // `run` sets the plan. Every field is named, so that the compiler asks for the flag of a new one.
            plan: None,
            prompt: None,
            session_id: self.session,
            own_model: None,
            continues: None,
        };
        Ok((draft, self.plan))
    }
}

fn unowned_writers(text: &str) -> Result<UnownedWriters, String> {
    match text {
        "queue" => Ok(UnownedWriters::Queue),
        "parallel" => Ok(UnownedWriters::Parallel),
        _ => Err("expected `queue` or `parallel`".to_owned()),
    }
}

/// The typed text, or standard input. `what` names it in errors.
pub(crate) fn typed(what: &str, words: &[String]) -> Result<String, CliError> {
    let wrong = |problem: &str| CliError::usage(format!("the {what} {problem}"));
    let text = match words {
        [] => return Err(wrong("is missing: describe what to do")),
        [dash] if dash == "-" => stdin::request()?,
        words => words.join(" "),
    };
    if text.trim().is_empty() {
        return Err(wrong("is empty"));
    }
    if text.len() > REQUEST_MAX_BYTES {
        return Err(wrong(&format!("has more than the {REQUEST_MAX_BYTES} bytes accepted")));
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use clap::{Args as _, FromArgMatches as _};

    use super::*;

    fn replay_draft(args: &[&str]) -> String {
        let command = RunArgs::augment_args(clap::Command::new("run").no_binary_name(true));
        let matches = command.try_get_matches_from(args).expect("arguments");
        let args = RunArgs::from_arg_matches(&matches).expect("arguments");
        format!("{:?}", args.replay().expect("accepted").expect("a replay"))
    }

    #[test]
    fn every_argument_that_a_replay_accepts_changes_the_replay() {
        let changing: [(&str, &[&str]); 6] = [
            ("request", &["--model=replay/a", "again"]),
            ("model", &["--model=replay/b"]),
            ("dir", &["--model=replay/a", "--dir=elsewhere"]),
            ("allow", &["--model=replay/a", "--allow=bash:ls"]),
            ("ask", &["--model=replay/a", "--ask=bash:ls"]),
            ("deny", &["--model=replay/a", "--deny=bash:ls"]),
        ];
        // `run` reads these two itself.
        let of_the_command = ["detach", "json"];
        let tried: Vec<&str> = changing.iter().map(|(id, _)| *id).chain(of_the_command).collect();
        assert_eq!(tried, REPLAY_TAKES);
        for (id, args) in changing {
            assert_ne!(
                replay_draft(args),
                replay_draft(&["--model=replay/a"]),
                "{id} is accepted and ignored"
            );
        }
    }
}
