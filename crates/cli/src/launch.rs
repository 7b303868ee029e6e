//! Converts what a person typed into the request of a run. Everything that can be wrong is found on the way: script,
//! definitions, limits, working directory. Nothing has been written by then, and the result can be handed to another
//! process.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use posse::discovery::Holds;
use posse::{
    Approvals, Budget, DEFAULT_MAX_AGENTS, DEFAULT_PARALLEL, DEFAULT_ROOT, Definition, Definitions,
    ModelRegistry, NewRun, OnAsk, Rules, RunRequest, RunTerms,
};
use posse_domain::budget::{DEFAULT_BASE_TURNS, Usd};
use posse_domain::contract::DEFAULT_IDLE_TIMEOUT_MS;
use posse_domain::event::CatalogueText;
use posse_domain::permission::{APPROVALS_MAX, RULES_MAX};
use posse_domain::plan::{Plan, UnownedWriters};
use posse_domain::skill::{DEFAULT_SKILL_AGENT, Skill};
pub(crate) use posse_setup::working_dir::working_dir;
use serde::{Deserialize, Serialize};

use crate::agents_flag;
use crate::approvals;
use crate::context::Context;
use crate::discovery::{DiscoveryResult, SkillCall, SkillFolder, folders_outside};
use crate::error::CliError;
use crate::hide_state_dir;
use crate::hooks;
use crate::limit::Limit;
use crate::models::{self, canonical_model};
use crate::money;
use crate::output::{note, print_noted, print_notes};
use crate::permissions::PermissionArgs;
use crate::runtime;
use crate::settings::{Origin, Settings, WithOrigin};

/// Longest that a model or a tool may be silent: a silence has an end.
const IDLE_MAX: Duration = Duration::from_hours(24);

/// What a run was asked to be, as typed.
#[derive(Debug, Default)]
pub(crate) struct TypedRequest {
    /// The request.
    pub(crate) request: String,
    /// The root's definition, if one was named.
    pub(crate) definition: Option<String>,
    /// More definitions: a file, or JSON itself.
    pub(crate) agents: Option<String>,
    /// What was found on the machine.
    pub(crate) found: Arc<DiscoveryResult>,
    /// The skill that the request names.
    pub(crate) called: Option<SkillCall>,
    /// The project's instructions for agents.
    pub(crate) agents_md: Option<String>,
    /// The working directory, if one was named.
    pub(crate) dir: Option<PathBuf>,
    /// What the run itself says about its depth.
    pub(crate) max_depth: Option<u32>,
    /// What the run's flags allow, ask and deny.
    pub(crate) permissions: PermissionArgs,
    /// What becomes of writers that own nothing of their own; a plan says that itself.
    pub(crate) unowned_writers: UnownedWriters,
    /// The plan that the host carries out.
    pub(crate) plan: Option<Plan>,
    /// A model that is part of this program, whatever the settings say.
    pub(crate) own_model: Option<&'static str>,
    /// Whether what it makes is brought into the checkout at its end.
    pub(crate) apply: bool,
    /// All settings, flags included.
    pub(crate) settings: Settings,
}

/// A run that can be started, by this process or by another one.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct PreparedRun {
    /// The run.
    pub(crate) request: RunRequest,
    /// What the process does that drives it.
    pub(crate) local: LocalOptions,
}

/// What a process does with a run that it drives; no part of the run.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct LocalOptions {
    /// Folders of skills that commands may read.
    pub(crate) skill_folders: Vec<SkillFolder>,
    /// Whether what the run makes is brought into the checkout at its end.
    pub(crate) apply: bool,
}

impl PreparedRun {
    /// Checks what was asked for. The models it needs are left in `models`, so that no script is read twice.
    pub(crate) fn new(
        wanted: TypedRequest,
        context: &Context,
        models: &ModelRegistry,
    ) -> Result<Self, CliError> {
        let TypedRequest {
            request,
            definition,
            agents,
            found,
            called,
            agents_md,
            dir,
            max_depth,
            permissions,
            unowned_writers,
            plan,
            own_model,
            apply,
            settings,
        } = wanted;
        let cwd = &context.environment.cwd;
        let definitions = given_definitions(agents.as_deref(), &found, context, models)?;
        let base_url = models::given(&settings, context)?;
        let known = Definitions::builtin_and(found.and_given(&definitions));
        for line in hooks::unheard(&settings, context, &known) {
            note(&line);
        }
        let root = definition.as_deref().unwrap_or(DEFAULT_ROOT);
        let root = known.find(root).map_err(|unknown| {
            let problem = found.why_unusable(root, Holds::Agents).unwrap_or_else(|| unknown.to_string());
            CliError::usage(format!("--agent: {problem}"))
        })?;
        let skill = called.as_ref().map(|called| &called.skill);
        if let Some(forked) = skill.filter(|skill| skill.fork) {
            let agent = known.find(forked.agent.as_deref().unwrap_or(DEFAULT_SKILL_AGENT));
            agent.map_err(|unknown| {
                CliError::usage(format!("--skill: `{}` cannot be used: {unknown}", forked.name))
            })?;
        }
        let catalogue = found.catalogue(&known, &definitions, root, skill);
        if !catalogue.is_empty() || DiscoveryResult::concerns(root) {
            print_notes(&found.run_notes(root, skill, &catalogue));
        }
        let model = match own_model.map(str::to_owned).or_else(|| root.model.clone()) {
            Some(model) => model,
            None => model_of(&settings, context, models)?,
        };
        let dir = working_dir(dir, cwd)?;
        let sure = sure_models(&model, plan.as_ref(), skill, &known);
        let max_usd = print_noted(money::held(&settings, &sure, models, context, Path::new(&dir))?);
        if let Some(limit) = &max_usd {
            let others = catalogue.definitions.iter().chain(&definitions).filter(|own| own.name != root.name);
            print_notes(&money::unpriced_notes(&limit.origin, others, &catalogue.skills, models));
        }
        permissions.are_about(&context.tool_names())?;
        let (run_rules, approvals) = permitted(permissions, &approvals::load(context.state_dir()?, &dir)?)?;
        let max_depth = print_depth(max_depth, skill, settings.max_orchestration_depth.as_ref());
        let project_rules = settings.project_rules();
        let operator_rules = hide_state_dir::closed(settings.rules(), Path::new(&dir), context.state_dir()?);
        let skill_folders = folders_outside(&catalogue.skills, Path::new(&dir));
        let request = RunRequest {
            definition: root.name.clone(),
            catalogue: CatalogueText::of(catalogue),
            agents_md: agents_md.map(Into::into),
            prompt: called.as_ref().and_then(SkillCall::prompt).map(Into::into),
            model,
            dir,
            terms: RunTerms {
                operator_rules,
                project_rules,
                run_rules,
                approvals,
                unowned_writers,
                base_url,
                skill: skill.filter(|skill| skill.fork).map(|skill| skill.name.clone()),
                ..RunTerms::default()
            },
            plan,
            ..RunRequest::new(request)
        };
        let max_usd = max_usd.and_then(|limit| limit.value.0);
        let mut run = with_settings(request, settings, max_usd).definitions(definitions);
        if let Some(depth) = max_depth {
            run = run.max_depth(depth);
        }
        if let Some((skill, arguments)) = called.as_ref().and_then(SkillCall::taken_in) {
            run = run.take_in(skill, arguments);
        }
        let request = run.into_request(&context.tool_names())?;
        Ok(Self { request, local: LocalOptions { skill_folders, apply } })
    }

    /// What a recorded run is run again with; it brings everything else along, but no right that is not given here.
    pub(crate) fn of_replay(
        model: String,
        text: Option<String>,
        dir: Option<String>,
        (operator_rules, permissions): (Rules, PermissionArgs),
    ) -> Result<Self, CliError> {
        // What was kept for a directory was said about runs of one's own.
        let (run_rules, approvals) = permitted(permissions, &Approvals::none())?;
        let request = RunRequest {
            model,
            dir: dir.unwrap_or_default(),
            terms: RunTerms { operator_rules, run_rules, approvals, ..RunTerms::default() },
            ..RunRequest::new(text.unwrap_or_default())
        };
        Ok(Self { request, local: LocalOptions::default() })
    }
}

/// A request with what the settings and the flags above them say. Each run option that is a setting has its line here.
fn with_settings(request: RunRequest, settings: Settings, max_usd: Option<Usd>) -> NewRun {
    let is_on = |setting: Option<WithOrigin<bool>>| setting.is_some_and(|setting| setting.value);
    let request = RunRequest {
        budget: Budget {
            agents: limit(settings.max_agents, Some(DEFAULT_MAX_AGENTS)),
            tokens: limit(settings.max_tokens, None),
            usd: max_usd,
            wall_ms: settings.max_time.and_then(|limit| limit.value.0).map(milliseconds),
        },
        idle_timeout_ms: settings.idle_timeout.map_or(DEFAULT_IDLE_TIMEOUT_MS, |limit| {
            milliseconds(limit.value.0.unwrap_or(IDLE_MAX).min(IDLE_MAX))
        }),
        may_share_history: is_on(settings.may_share_history),
        on_ask: settings.on_ask.map_or(OnAsk::Deny, |on_ask| on_ask.value),
        terms: RunTerms {
            base_turns: settings.max_turns.map_or(Some(DEFAULT_BASE_TURNS), |limit| limit.value.as_u32()),
            parallel: settings
                .parallel
                .map_or(DEFAULT_PARALLEL, |limit| limit.value.as_u32().unwrap_or(u32::MAX)),
            include_sub_agent_events: is_on(settings.include_sub_agent_events),
            ..request.terms
        },
        ..request
    };
    NewRun::from(request)
        .default_max_depth(settings.max_depth.map(|depth| depth.value))
        .max_orchestration_depth(settings.max_orchestration_depth.map(|depth| depth.value))
}

/// The models that the run is sure to ask: the root's, its skill's and those of its plan's steps.
fn sure_models(model: &str, plan: Option<&Plan>, skill: Option<&Skill>, known: &Definitions) -> Vec<String> {
    let of = |own: Option<&str>, definition: &str| {
        own.map(str::to_owned).or_else(|| known.find(definition).ok()?.model.clone())
    };
    let steps = plan.into_iter().flat_map(|plan| &plan.steps);
    let steps = steps.filter_map(|step| of(step.model.as_deref(), &step.agent));
    let forked = skill
        .filter(|skill| skill.fork)
        .and_then(|skill| of(skill.model.as_deref(), skill.agent.as_deref().unwrap_or(DEFAULT_SKILL_AGENT)));
    std::iter::once(model.to_owned()).chain(forked).chain(steps).collect()
}

fn milliseconds(time: Duration) -> u64 {
    time.as_millis().try_into().unwrap_or(u64::MAX)
}

/// The run's rules, and what was allowed in advance: typed for this run, or kept for its directory.
fn permitted(typed: PermissionArgs, kept: &Approvals) -> Result<(Rules, Approvals), CliError> {
    let too_many = |flag: &str, most| CliError::usage(format!("{flag}: more than {most} patterns"));
    if typed.rules.len() > RULES_MAX {
        return Err(too_many("--ask, --deny", RULES_MAX));
    }
    if typed.allow.len() > APPROVALS_MAX {
        return Err(too_many("--allow", APPROVALS_MAX));
    }
    let approvals = typed.allow.into_iter().chain(kept.iter().cloned()).take(APPROVALS_MAX).collect();
    Ok((typed.rules.into(), approvals))
}

fn limit<const LEAST: u64>(limit: Option<WithOrigin<Limit<LEAST>>>, default: Option<u64>) -> Option<u64> {
    limit.map_or(default, |limit| limit.value.0)
}

/// The depth that the run or its root skill says. The operator's ceiling binds either way; a person who asked for more
/// should know.
fn print_depth(typed: Option<u32>, skill: Option<&Skill>, ceiling: Option<&WithOrigin<u32>>) -> Option<u32> {
    let typed = typed.map(|depth| ("--max-depth".to_owned(), depth));
    let of_skill = || {
        skill.and_then(|skill| Some((format!("max-depth of the skill `{}`", skill.name), skill.max_depth?)))
    };
    let (said, depth) = typed.or_else(of_skill)?;
    let binding =
        ceiling.map_or(posse_domain::budget::DEFAULT_MAX_ORCHESTRATION_DEPTH, |ceiling| ceiling.value);
    if depth > binding {
        let place = ceiling.map(|ceiling| format!(" ({})", ceiling.origin)).unwrap_or_default();
        note(&format!(
            "note: {said} {depth} is more than agent.max_orchestration_depth allows{place}: {binding} counts"
        ));
    }
    Some(depth)
}

/// The definitions of `--agents`, with their models found.
fn given_definitions(
    agents: Option<&str>,
    found: &DiscoveryResult,
    context: &Context,
    models: &ModelRegistry,
) -> Result<Vec<Definition>, CliError> {
    let Some(agents) = agents else { return Ok(Vec::new()) };
    let given = agents_flag::read(agents, found, context)?;
    print_notes(&agents_flag::notes(&given.notes));
    let mut definitions = given.definitions;
    for own in &mut definitions {
        if let Some(name) = &own.model {
            let wrong = |problem| CliError::usage(format!("--agents: {}.model: {problem}", own.name));
            own.model = Some(canonical_model(name, &context.environment.cwd, models).map_err(wrong)?);
        }
    }
    Ok(definitions)
}

fn model_of(settings: &Settings, context: &Context, models: &ModelRegistry) -> Result<String, CliError> {
    let cwd = &context.environment.cwd;
    let Some(WithOrigin { value, origin }) = &settings.model else {
        let chosen = runtime::looking(async { Ok(models::choose(settings, context).await?) })?;
        let chosen = print_noted(chosen);
        return Ok(models.canonical_name(&chosen).map_err(|error| models::problem("", &error))?);
    };
    // A path in the settings file means the same wherever the command is typed.
    let base = match origin {
        Origin::File { path, .. } => path.parent().unwrap_or(cwd),
        Origin::Variable(_) | Origin::Flag(_) => cwd,
    };
    let origin = origin.to_string();
    let named = models.canonical_name(value).map_err(|error| models::problem(&origin, &error))?;
    canonical_model(&named, base, models).map_err(|problem| CliError::usage(format!("{origin}: {problem}")))
}
