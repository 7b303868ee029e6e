//! `posse run`.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use posse::{ModelRegistry, OnAsk, REQUEST_MAX_BYTES};
use posse_domain::plan::{Plan, UnownedWriters};

use crate::commands::plan::{KnownArgs, MakeArgs, plan_for};
use crate::context::Context;
use crate::detach;
use crate::discovery::{self, DiscoveryResult, SkillCall, named_skill};
use crate::drive::drive_and_apply;
use crate::error::CliError;
use crate::exit::Exit;
use crate::launch::{PreparedRun, TypedRequest, working_dir};
use crate::limit::{Limit, MoneyLimit, TimeLimit};
use crate::models::{self, BASE_URL_FLAG};
use crate::output::{Output, print_noted};
use crate::permissions::PermissionArgs;
use crate::questions::{self, QuestionPrompter};
use crate::replay::{self, ReplayRun};
use crate::runtime;
use crate::settings::{Settings, WithOrigin, on_ask};
use crate::signals::Signals;
use crate::view::View;

/// Start a run and watch it until it ends
///
/// The report is written to standard output, progress to standard error. The first Ctrl-C cancels the run; the
/// second, or SIGTERM or SIGHUP, stops at once and leaves it to `posse resume`.
#[derive(Debug, clap::Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own")]
pub(crate) struct RunArgs {
    /// What to do; `-` reads it from standard input. With a plan file it may be left out: the plan's goal counts. So it
    /// may with a replay, which asks for what the recorded run did
    #[arg(required_unless_present_any = ["plan", "model", "skill"], value_name = "REQUEST")]
    request: Vec<String>,
    /// Carry out a plan: a file, or `auto` to let the planner write one for the request
    #[arg(long, value_name = "FILE|auto")]
    plan: Option<String>,
    /// The model, as provider/name; scripted/<file> answers from a YAML script, replay/<run> and replay/<file>.posse as
    /// a recorded run was answered [default: that of the first provider with a key, else of a local Ollama]
    #[arg(long, value_name = "MODEL")]
    model: Option<String>,
    /// Where the model's provider is, for example `http://localhost:8080/v1`
    #[arg(long, value_name = "URL")]
    base_url: Option<String>,
    /// The definition of the root agent [default: coder]
    #[arg(long, value_name = "NAME")]
    agent: Option<String>,
    /// More definitions: a JSON file, or the JSON itself
    #[arg(long, value_name = "FILE|JSON")]
    agents: Option<String>,
    /// Let a skill carry out the request, as `/NAME` at its beginning does; `posse skills` lists them
    #[arg(long, value_name = "NAME", conflicts_with = "plan")]
    skill: Option<String>,
    /// The working directory [default: the current one]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Turns of the root, halved with every level below it, or none [default: 40]
    #[arg(long, value_name = "N")]
    max_turns: Option<Limit<1>>,
    /// Deepest level of sub-agents; 0 allows none [default: 2]
    #[arg(long, value_name = "N")]
    max_depth: Option<u32>,
    /// Agents in the whole tree, or none [default: 200]
    #[arg(long, value_name = "N")]
    max_agents: Option<Limit<1>>,
    /// Tokens of the whole tree, or none [default: none]
    #[arg(long, value_name = "N")]
    max_tokens: Option<Limit<0>>,
    /// Dollars of the whole tree, or none [default: none]
    #[arg(long, value_name = "USD")]
    max_usd: Option<MoneyLimit>,
    /// Wall time of the run, such as 90s, 30m or 2h, or none [default: none]
    #[arg(long, value_name = "TIME")]
    max_time: Option<TimeLimit>,
    /// Calls that run at once, or none [default: 32]
    #[arg(long, value_name = "N")]
    parallel: Option<Limit<1>>,
    #[command(flatten)]
    permissions: PermissionArgs,
    /// Children that write and own nothing of their own: `queue`, or in `parallel` [default: queue]
    #[arg(long, value_name = "HOW", value_parser = unowned_writers)]
    unowned_writers: Option<UnownedWriters>,
    /// What becomes of a question that nobody here answers: deny it, or escalate it to whoever answers with
    /// `posse approve` [default: deny]
    #[arg(long, value_name = "deny|escalate", value_parser = on_ask)]
    on_ask: Option<OnAsk>,
    /// Let agents give their whole conversation to sub-agents that they start, where they ask for it
    #[arg(long)]
    may_share_history: bool,
    /// For programs: what an agent tells as a task (`posse::Posse::task_events`) has the events of the sub-agents below
    /// it, too. This command always prints all events
    #[arg(long)]
    include_sub_agent_events: bool,
    /// Bring what it made into the checkout once it has completed, as `posse apply` does
    #[arg(long)]
    apply: bool,
    /// Print the run's id and carry it in the background
    #[arg(long, short)]
    detach: bool,
    /// Print events and the result as JSON lines
    #[arg(long)]
    json: bool,
}

/// Starts a run.
pub(crate) fn run(mut args: RunArgs, context: &Context) -> Result<Exit, CliError> {
    let (detach, json) = (args.detach, args.json);
    if let Some(replay) = args.replay()? {
        return replay::run(&replay, context);
    }
    let dir = PathBuf::from(working_dir(args.dir.clone(), &context.environment.cwd)?);
    let settings = args.settings().or(context.settings_in(&dir)?);
    let models = models::catalog(&settings, models::given(&settings, context)?.as_ref(), context)?;
    let found = Arc::new(DiscoveryResult::load(&dir, Some(&models), context)?);
    let plan = match args.planned(&found, &models, context)? {
        PlanOutcome::Nothing => None,
        PlanOutcome::Plan(plan) => Some(*plan),
        PlanOutcome::Ended(exit) => return Ok(exit),
    };
    let opened = settings.clone();
    let prepared = PreparedRun::new(args.wanted(plan, settings, found, context)?, context, &models)?;
    if detach {
        let run = detach::detach(&prepared, context)?;
        let mut output = Output::new();
        if json {
            output.json(&posse::api::RunReference::new(&run))?;
        } else {
            output.own(&format!("{run}\n"))?;
        }
        output.flush()?;
        return Ok(Exit::DONE);
    }
    runtime::driving(async {
        let mut signals = Signals::listen()?;
        let PreparedRun { request, local } = prepared;
        let posse = context.open_with_skills(models, &opened, &local.skill_folders)?;
        let attended = questions::attended(json);
        let starting = posse.start_request(request, attended);
        let handle = match signals.unless_one_comes(starting).await {
            Ok(started) => started?,
            Err(ask) => return Ok(ask.exit()),
        };
        let asking = if attended { QuestionPrompter::here() } else { QuestionPrompter::without_terminal() };
        drive_and_apply(&posse, &handle, 0, &mut signals, View::new(json, context), asking, local.apply).await
    })
}

/// The value of `--plan` that lets the planner write one.
const AUTO: &str = "auto";

/// What came of `--plan`.
enum PlanOutcome {
    /// There is none.
    Nothing,
    /// It is good.
    Plan(Box<Plan>),
    /// The planner's run ended without one; the rest is said.
    Ended(Exit),
}

impl RunArgs {
    fn planned(
        &mut self,
        found: &Arc<DiscoveryResult>,
        models: &ModelRegistry,
        context: &Context,
    ) -> Result<PlanOutcome, CliError> {
        let known = KnownArgs { agent: self.agent.clone(), agents: self.agents.clone() };
        match self.plan.as_deref() {
            None => Ok(PlanOutcome::Nothing),
            Some(AUTO) if self.request.is_empty() => {
                Err(CliError::usage("--plan auto needs a request: what is to be true in the end"))
            }
            Some(AUTO) => {
                let goal = typed("request", &self.request)?;
                // Standard input can be read once.
                self.request = vec![goal.clone()];
                let reached = (self.model.clone(), self.base_url.clone());
                let args = MakeArgs::of_run(reached, known, self.dir.clone());
                let plan = plan_for(&goal, args, found, models, context)?;
                Ok(plan.map_or_else(PlanOutcome::Ended, |plan| PlanOutcome::Plan(Box::new(plan))))
            }
            Some(file) => {
                let plan = known.judge(found, context)?.load(Path::new(file), context, models)?;
                Ok(PlanOutcome::Plan(Box::new(plan)))
            }
        }
    }

    /// What a recorded run is run again with, if that is what was asked for. It brings its own terms along.
    fn replay(&self) -> Result<Option<ReplayRun>, CliError> {
        let Some(model) = self.model.as_deref().filter(|model| posse::replayed(model).is_some()) else {
            return Ok(None);
        };
        let given = [
            ("--plan", self.plan.is_some()),
            ("--agent", self.agent.is_some()),
            ("--agents", self.agents.is_some()),
            ("--skill", self.skill.is_some()),
            ("--max-turns", self.max_turns.is_some()),
            ("--max-depth", self.max_depth.is_some()),
            ("--max-agents", self.max_agents.is_some()),
            ("--max-tokens", self.max_tokens.is_some()),
            ("--max-usd", self.max_usd.is_some()),
            ("--max-time", self.max_time.is_some()),
            ("--base-url", self.base_url.is_some()),
            ("--parallel", self.parallel.is_some()),
            ("--unowned-writers", self.unowned_writers.is_some()),
            ("--on-ask", self.on_ask.is_some()),
            ("--may-share-history", self.may_share_history),
            ("--include-sub-agent-events", self.include_sub_agent_events),
            ("--apply", self.apply),
        ];
        if let Some((flag, _)) = given.iter().find(|(_, given)| *given) {
            return Err(CliError::usage(format!(
                "{flag}: a replay takes its terms and files from the recorded run"
            ))
            .hint("leave it out"));
        }
        let request = if self.request.is_empty() { None } else { Some(typed("request", &self.request)?) };
        Ok(Some(ReplayRun {
            model: model.to_owned(),
            request,
            dir: self.dir.clone(),
            permissions: self.permissions.clone(),
            detach: self.detach,
            json: self.json,
        }))
    }

    /// What the flags say.
    fn settings(&self) -> Settings {
        Settings {
            model: WithOrigin::flag(self.model.clone(), "--model"),
            base_url: WithOrigin::flag(self.base_url.clone(), BASE_URL_FLAG),
            max_usd: WithOrigin::flag(self.max_usd, "--max-usd"),
            max_time: WithOrigin::flag(self.max_time, "--max-time"),
            max_turns: WithOrigin::flag(self.max_turns, "--max-turns"),
            max_agents: WithOrigin::flag(self.max_agents, "--max-agents"),
            max_tokens: WithOrigin::flag(self.max_tokens, "--max-tokens"),
            parallel: WithOrigin::flag(self.parallel, "--parallel"),
            on_ask: WithOrigin::flag(self.on_ask, "--on-ask"),
            may_share_history: WithOrigin::flag(
                self.may_share_history.then_some(true),
                "--may-share-history",
            ),
            include_sub_agent_events: WithOrigin::flag(
                self.include_sub_agent_events.then_some(true),
                "--include-sub-agent-events",
            ),
            ..Settings::default()
        }
    }

    fn wanted(
        self,
        plan: Option<Plan>,
        settings: Settings,
        found: Arc<DiscoveryResult>,
        context: &Context,
    ) -> Result<TypedRequest, CliError> {
        let request = match (&plan, &self.skill, self.request.is_empty()) {
            (Some(plan), _, true) => plan.goal.clone(),
            (None, Some(skill), true) => SkillCall::request(skill),
            _ => typed("request", &self.request)?,
        };
        let called = match (&plan, &self.skill) {
            (Some(_), _) => None,
            (None, None) => print_noted(found.called(&request)),
            (None, Some(name)) => {
                let arguments = if self.request.is_empty() { String::new() } else { request.clone() };
                Some(SkillCall { skill: named_skill(&found, name)?, arguments })
            }
        };
        Ok(TypedRequest {
            settings,
            request,
            found,
            called,
            agents_md: print_noted(discovery::agents_md(self.dir.as_ref(), context)?),
            definition: self.agent,
            agents: self.agents,
            dir: self.dir,
            max_depth: self.max_depth,
            permissions: self.permissions,
            unowned_writers: self.unowned_writers.unwrap_or_default(),
            plan,
            own_model: None,
            apply: self.apply,
        })
    }
}

fn unowned_writers(text: &str) -> Result<UnownedWriters, String> {
    match text {
        "queue" => Ok(UnownedWriters::Queue),
        "parallel" => Ok(UnownedWriters::Parallel),
        _ => Err("say `queue` or `parallel`".to_owned()),
    }
}

/// The text that was typed, or what standard input holds; `what` it is, for errors.
pub(crate) fn typed(what: &str, words: &[String]) -> Result<String, CliError> {
    let wrong = |problem: &str| CliError::usage(format!("the {what} {problem}"));
    let text = match words {
        [] => return Err(wrong(&format!("is missing: {} says what to do", what.to_uppercase()))),
        [dash] if dash == "-" => from_stdin()?,
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

fn from_stdin() -> Result<String, CliError> {
    let mut bytes = Vec::new();
    let most = REQUEST_MAX_BYTES as u64 + 1;
    let read = std::io::stdin().lock().take(most).read_to_end(&mut bytes);
    read.map_err(|error| CliError::usage(format!("standard input cannot be read: {error}")))?;
    String::from_utf8(bytes).map_err(|_| CliError::usage("standard input is not UTF-8 text"))
}
