//! Converts a user's draft of a run into a run request, for every front end.
//!
//! A front end fills a [`RunDraft`] from its own request type, loads the [`RunDirectory`] that the run works in, and
//! prepares the run. This checks everything that can be wrong (settings, definitions, models, limits, trust) before
//! anything is written. This process or another one can start the result.

mod continued;
mod depth;
mod directory;

mod permissions;
mod replay;

use std::path::{Path, PathBuf};

use posse::discovery::DefinitionType;
use posse::{
    Continuation, DEFAULT_ROOT, Definition, Definitions, ModelRegistry, NewRun, OnAsk, RunRequest, RunTerms,
};
use posse_domain::event::CatalogueText;
use posse_domain::plan::{Plan, UnownedWriters};
use posse_domain::skill::{DEFAULT_SKILL_AGENT, Skill};
use serde::{Deserialize, Serialize};

pub use directory::RunDirectory;
pub use permissions::RunPermissions;
pub use replay::{PreparedReplay, ReplayDraft};

use crate::discovery::{DiscoveryResult, SkillCall, SkillFolder, agents_md, folders_outside, named_skill};
use crate::error::{SetupError, Subject};
use crate::models::{self, canonical_model};
use crate::notes::{Notes, WithNotes};
use crate::plan::file::{Judge, report};
use crate::settings::{Origin, Settings, WithOrigin};
use crate::{Setup, given_agents, hide_state_dir, hooks, money};

/// A run as a user asks for it, in the terms of any front end. Unset fields come from the user's settings, from what
/// the project may choose, and from the defaults, in this order.
#[derive(Debug, Clone, Default)]
pub struct RunDraft {
    /// The task. `/NAME` at its beginning calls the skill of that name. A run with a plan needs no text, because the
    /// plan has a goal, nor does one with a skill.
    pub text: Option<String>,
    /// The root's first message, if it differs from the text. Lists of runs show the text.
    pub prompt: Option<String>,
    /// Text that the user passes beside the task, such as the output of a program. The root reads it after the task.
    pub context: Option<String>,
    /// The working directory, absolute or relative to that of the environment. By default it is the top of the repository
    /// that the environment's directory is in, or that directory itself.
    pub dir: Option<PathBuf>,
    /// The name of the root's definition.
    pub agent: Option<String>,
    /// Further definitions: JSON, or the path of a JSON file.
    pub agents: Option<String>,
    /// The name of the skill that executes the text.
    pub skill: Option<String>,
    /// The plan that the host executes.
    pub plan: Option<PlanInput>,
    /// What the user allows in advance, and the rules of this run.
    pub permissions: RunPermissions,
    /// The policy for writers that own no paths. A plan has its own for its steps.
    pub unowned_writers: UnownedWriters,
    /// The session of the front end that the run belongs to; opaque to Posse.
    pub session_id: Option<String>,
    /// Every option of the request that is also a setting. These take precedence over all other settings. Errors and
    /// notes use the name in their origin.
    pub settings: Settings,
    /// The full name of a model that the front end itself provides; the settings do not apply then.
    pub own_model: Option<String>,
    /// Whether the result is applied to the checkout when the run has completed. This is an option of the executing
    /// process and not part of the run.
    pub apply: bool,
    /// Whether a user of the front end answers the questions of sub-agents too, unless a setting says that they are denied.
    pub answers_sub_agents: bool,
    /// The agent of an earlier run that the root continues. [`RunDraft::follow_up`] and [`RunDraft::retry`] set it.
    pub continues: Option<Continuation>,
}

/// Where the plan of a run comes from.
#[derive(Debug, Clone)]
pub enum PlanInput {
    /// A file, as YAML or JSON.
    File(PathBuf),
    /// The same as text.
    Text(String),
    /// A plan that was checked against the definitions of this run.
    Checked(Box<Plan>),
}

/// A run that this process or another one can start.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PreparedRun {
    /// The request for [`posse::Posse::start_request`].
    pub request: RunRequest,
    /// Options for the process that executes it.
    pub local: LocalOptions,
}

/// Options of the process that executes a run; not part of the run.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LocalOptions {
    /// Folders of skills that commands may read ([`Setup::open_with_skills`]).
    pub skill_folders: Vec<SkillFolder>,
    /// Whether the result is applied to the checkout when the run has completed.
    pub apply: bool,
}

/// The resolved parts of a request, before limits and permissions.
struct RequestParts<'a> {
    text: String,
    plan: Option<Plan>,
    /// The skill that the request names.
    call: Option<SkillCall>,
    /// Definitions that were given with the request.
    given: Vec<Definition>,
    /// All definitions: given, discovered, built in.
    known: Definitions,
    directory: &'a RunDirectory,
}

impl RunDraft {
    /// Converts the draft into a run. Scripts that the run needs as models stay in the directory's registry, so that no
    /// script is read twice. The notes are for the user even if there is an error.
    pub async fn prepare(
        self,
        directory: &RunDirectory,
        setup: &Setup,
    ) -> WithNotes<Result<PreparedRun, SetupError>> {
        let mut notes = Notes::none();
        let value = self.convert(directory, setup, &mut notes).await;
        WithNotes::new(value, notes)
    }

    async fn convert(
        self,
        directory: &RunDirectory,
        setup: &Setup,
        notes: &mut Notes,
    ) -> Result<PreparedRun, SetupError> {
        let RunDirectory { dir, settings, models, discovered, .. } = directory;
        let dir_path = Path::new(dir);
        let state_dir = setup.state_dir()?;
        let parts = self.resolve(directory, setup, notes)?;
        let agents_md = notes.take(agents_md(Some(&PathBuf::from(&directory.start)), setup)?);
        let root = self.root(&parts)?;
        // Every field is named, so that the compiler asks what a new one sets. `RunDirectory::load`, `resolve` and
        // `root` have read those that are ignored here.
        let Self {
            prompt,
            context,
            permissions,
            unowned_writers,
            session_id,
            own_model,
            apply,
            answers_sub_agents,
            continues,
            text: _,
            dir: _,
            agent: _,
            agents: _,
            skill: _,
            plan: _,
            settings: _,
        } = self;
        let skill = parts.call.as_ref().map(|call| &call.skill);
        let catalogue = discovered.catalogue(&parts.known, &parts.given, root, skill);
        if !catalogue.is_empty() || DiscoveryResult::concerns(root) {
            notes.extend(discovered.run_notes(root, skill, &catalogue));
        }
        let model = match own_model.or_else(|| root.model.clone()) {
            Some(model) => model,
            None => model_of(settings, setup, models, notes).await?,
        };
        let certain = parts.certain_models(&model);
        let max_usd = notes.take(money::held(settings, &certain, models, setup, dir_path)?);
        if let Some(limit) = &max_usd {
            let given = catalogue.definitions.iter().chain(&parts.given);
            let others = given.filter(|own| own.name != root.name);
            notes.extend(money::unpriced_notes(&limit.origin, others, &catalogue.skills, models));
        }
        permissions.check(&setup.tool_names())?;
        let (run_rules, approvals) = permissions.with_stored(&setup.stored_approvals(dir).await?)?;
        let skill_folders = folders_outside(&catalogue.skills, dir_path);
        let call = parts.call.as_ref();
        let mut request = RunRequest {
            definition: root.name.clone(),
            catalogue: CatalogueText::of(catalogue),
            agents_md: agents_md.map(Into::into),
            prompt: parts
                .prompt(prompt.or_else(|| call.and_then(SkillCall::prompt)), context.as_deref())
                .map(Into::into),
            model,
            dir: dir.clone(),
            session_id,
            max_depth: depth::max_depth(settings, skill, notes),
            terms: RunTerms {
                operator_rules: hide_state_dir::closed(settings.rules(), dir_path, state_dir),
                project_rules: settings.project_rules(),
                run_rules,
                approvals,
                unowned_writers,
                base_url: directory.base_url.clone(),
                skill: skill.filter(|skill| skill.fork).map(|skill| skill.name.clone()),
                ..RunTerms::default()
            },
            plan: parts.plan,
            continues,
            on_ask: if answers_sub_agents { OnAsk::Escalate } else { OnAsk::Deny },
            ..RunRequest::new(parts.text)
        };
        Settings { max_usd, ..settings.clone() }.apply(&mut request);
        let mut run = NewRun::from(request).definitions(parts.given);
        if let Some((skill, arguments)) = call.and_then(SkillCall::loaded) {
            run = run.load_skill(skill, arguments);
        }
        let request = run.into_request(&setup.tool_names());
        let request = request.map_err(|error| SetupError::usage(error.to_string()))?;
        Ok(PreparedRun { request, local: LocalOptions { skill_folders, apply } })
    }

    /// Resolves what the request names: its plan, its skill, its definitions.
    fn resolve<'a>(
        &self,
        directory: &'a RunDirectory,
        setup: &Setup,
        notes: &mut Notes,
    ) -> Result<RequestParts<'a>, SetupError> {
        let discovered = &directory.discovered;
        let plan = match &self.plan {
            None => None,
            Some(PlanInput::Checked(plan)) => Some(Plan::clone(plan)),
            Some(PlanInput::File(file)) => {
                Some(self.judge(directory, setup)?.load(file, setup, &directory.models)?)
            }
            Some(PlanInput::Text(text)) => {
                let judged =
                    self.judge(directory, setup)?.judge(text, &setup.environment.cwd, &directory.models);
                Some(judged.map_err(|problems| SetupError::usage(report(None, &problems)))?)
            }
        };
        let text = match (&self.text, &plan, &self.skill) {
            (Some(text), ..) => text.clone(),
            (None, Some(plan), _) => plan.goal.clone(),
            (None, None, Some(skill)) => SkillCall::request(skill),
            (None, None, None) => return Err(SetupError::about(Subject::Text, "the task is missing")),
        };
        let call = match (&plan, &self.skill) {
            (Some(_), _) => None,
            (None, None) => notes.take(discovered.called(&text)),
            (None, Some(name)) => {
                let arguments = self.text.clone().unwrap_or_default();
                Some(SkillCall { skill: named_skill(discovered, name)?, arguments })
            }
        };
        let given = self.given_definitions(directory, setup, notes)?;
        let known = Definitions::builtin_and(discovered.and_given(&given));
        notes.extend(hooks::unused_matchers(&directory.settings, setup, &known));
        Ok(RequestParts { text, plan, call, given, known, directory })
    }

    /// The checker for plans of this draft.
    pub fn judge(&self, directory: &RunDirectory, setup: &Setup) -> Result<Judge, SetupError> {
        Judge::new(self.agent.as_deref(), self.agents.as_deref(), &directory.discovered, setup)
    }

    /// The definitions that were given with the request, with resolved models.
    fn given_definitions(
        &self,
        directory: &RunDirectory,
        setup: &Setup,
        notes: &mut Notes,
    ) -> Result<Vec<Definition>, SetupError> {
        let Some(agents) = &self.agents else { return Ok(Vec::new()) };
        let given = given_agents::read(agents, &directory.discovered, setup)?;
        notes.extend(given_agents::notes(&given.notes));
        let mut definitions = given.definitions;
        for own in &mut definitions {
            if let Some(name) = &own.model {
                let found = canonical_model(name, &setup.environment.cwd, &directory.models);
                own.model = Some(found.map_err(|problem| {
                    SetupError::about(Subject::Agents, format!("{}.model: {problem}", own.name))
                })?);
            }
        }
        Ok(definitions)
    }

    /// The root's definition. The definition of a forked skill must exist too.
    fn root<'a>(&self, parts: &'a RequestParts<'_>) -> Result<&'a Definition, SetupError> {
        let name = self.agent.as_deref().unwrap_or(DEFAULT_ROOT);
        let root = parts.known.find(name).map_err(|unknown| {
            let unusable = parts.directory.discovered.why_unusable(name, DefinitionType::Agents);
            SetupError::about(Subject::Agent, unusable.unwrap_or_else(|| unknown.to_string()))
        })?;
        if let Some(forked) = parts.call.as_ref().map(|call| &call.skill).filter(|skill| skill.fork) {
            let agent = parts.known.find(forked.agent.as_deref().unwrap_or(DEFAULT_SKILL_AGENT));
            agent.map_err(|unknown| {
                let problem = format!("`{}` cannot be used: {unknown}", forked.name);
                SetupError::about(Subject::Skill, problem)
            })?;
        }
        Ok(root)
    }
}

impl RequestParts<'_> {
    /// The root's first message, with what the user passes beside the task and with where they are; `None` if it is the
    /// task itself. The agents of a plan work on its steps and do not read it.
    fn prompt(&self, prompt: Option<String>, context: Option<&str>) -> Option<String> {
        let below = self.directory.below.as_deref();
        if self.plan.is_some() || (context.is_none() && below.is_none()) {
            return prompt;
        }
        let mut prompt = prompt.unwrap_or_else(|| self.text.clone());
        if let Some(context) = context {
            prompt.push_str("\n\nThe user passed this text with the request:\n\n");
            prompt.push_str(context);
        }
        if let Some(below) = below {
            prompt.extend([
                "\n\nThe user is in the directory `",
                below,
                "` of the workspace, and paths in the request may be relative to it.",
            ]);
        }
        Some(prompt)
    }

    /// The models that the run is certain to call: those of the root, of its skill and of its plan's steps.
    fn certain_models(&self, model: &str) -> Vec<String> {
        let of = |own: Option<&str>, definition: &str| {
            own.map(str::to_owned).or_else(|| self.known.find(definition).ok()?.model.clone())
        };
        let steps = self.plan.iter().flat_map(|plan| &plan.steps);
        let steps = steps.filter_map(|step| of(step.model.as_deref(), &step.agent));
        let skill: Option<&Skill> = self.call.as_ref().map(|call| &call.skill);
        let forked = skill.filter(|skill| skill.fork).and_then(|skill| {
            of(skill.model.as_deref(), skill.agent.as_deref().unwrap_or(DEFAULT_SKILL_AGENT))
        });
        std::iter::once(model.to_owned()).chain(forked).chain(steps).collect()
    }
}

/// The model of the settings, including the request's; else the default for this user.
async fn model_of(
    settings: &Settings,
    setup: &Setup,
    models: &ModelRegistry,
    notes: &mut Notes,
) -> Result<String, SetupError> {
    let cwd = &setup.environment.cwd;
    let Some(WithOrigin { value, origin }) = &settings.model else {
        let chosen = notes.take(models::choose(settings, setup).await?);
        return models.canonical_name(&chosen).map_err(|error| models::problem("", &error));
    };
    // A path in a settings file is relative to that file, wherever the front end is.
    let base = match origin {
        Origin::File { path, .. } => path.parent().unwrap_or(cwd),
        Origin::Variable(_) | Origin::Request(_) => cwd,
    };
    let origin = origin.to_string();
    let named = models.canonical_name(value).map_err(|error| models::problem(&origin, &error))?;
    canonical_model(&named, base, models).map_err(|problem| SetupError::usage(format!("{origin}: {problem}")))
}
