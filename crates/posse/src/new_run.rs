//! Builds the request of a run: an embedder or a front end sets options, and at the end the builder resolves everything
//! that depends on the available definitions and skills.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use posse_agent::prompts::loaded_skill;
use posse_definitions::{Definitions, default_rules, with_default_asks};
use posse_domain::budget::{Budget, effective_max_depth};
use posse_domain::definition::Definition;
use posse_domain::event::CatalogueText;
use posse_domain::permission::{Approvals, OnAsk, ProjectRules, Rules};
use posse_domain::plan::{Plan, UnownedWriters};
use posse_domain::request::{Continuation, GivenBaseUrl, RunRequest};
use posse_domain::skill::{DiscoveredDefinitions, Skill};
use posse_domain::text::Text;
use posse_engine::ports::WORKSPACE_SHOWN_AT;

use crate::{Error, RequestField};

/// A builder of a [`RunRequest`]: every option goes into the request, and [`NewRun::into_request`] resolves the
/// definitions, skills and depth that it names.
#[derive(Debug, Clone)]
pub struct NewRun {
    request: RunRequest,
    /// The depth of the tree, if set; else that of the forked skill applies.
    max_depth: Option<u32>,
    /// The arguments of the skill that the root loads.
    arguments: Option<String>,
    pub(crate) attended: bool,
}

/// A request whose definitions and skills are still to be resolved. Its depth stays unchanged.
impl From<RunRequest> for NewRun {
    fn from(request: RunRequest) -> Self {
        Self { max_depth: Some(request.max_depth), request, arguments: None, attended: false }
    }
}

impl NewRun {
    /// A run for this request, with the built-in `coder` as its root.
    pub fn new(request: impl Into<String>) -> Self {
        Self { max_depth: None, ..RunRequest::new(request.into()).into() }
    }

    /// Sets the root's definition.
    pub fn definition(mut self, name: impl Into<String>) -> Self {
        self.request.definition = name.into();
        self
    }

    /// Sets the model, `provider/model`.
    pub fn model(mut self, name: impl Into<String>) -> Self {
        self.request.model = name.into();
        self
    }

    /// Sets the working directory.
    pub fn dir(mut self, dir: impl AsRef<Path>) -> Self {
        self.request.dir = dir.as_ref().to_string_lossy().into_owned();
        self
    }

    /// Sets the embedder's session, opaque to Posse.
    pub fn session(mut self, id: impl Into<String>) -> Self {
        self.request.session_id = Some(id.into());
        self
    }

    /// Adds definitions. A definition with the name of a built-in one shadows it.
    pub fn definitions(mut self, more: impl IntoIterator<Item = Definition>) -> Self {
        for definition in more {
            self.request.definitions.retain(|known| known.name != definition.name);
            self.request.definitions.push(definition);
        }
        self
    }

    /// Sets the definitions and skills that were discovered on the machine. They come after those given to this run,
    /// and before the built-in ones.
    pub fn catalogue(mut self, found: DiscoveredDefinitions) -> Self {
        self.request.catalogue = CatalogueText::of(found);
        self
    }

    /// Sets the root's prompt, if it differs from the request that the user typed.
    pub fn prompt(mut self, prompt: impl Into<Text>) -> Self {
        self.request.prompt = Some(prompt.into());
        self
    }

    /// Lets one forked skill execute the request: the root calls no model, the skill's sub-agent is its only child, and
    /// its report is that child's summary.
    pub fn skill(mut self, name: impl Into<String>) -> Self {
        self.request.terms.skill = Some(name.into());
        self
    }

    /// Has the root load a skill of the catalogue that is not forked, with arguments: the skill's instructions become
    /// the root's task, and the root can read the skill's files. If the user does not trust the skill, the root asks
    /// before each use of a tool.
    pub fn load_skill(mut self, skill: impl Into<String>, arguments: impl Into<String>) -> Self {
        self.request.terms.loaded_skill = Some(skill.into());
        self.arguments = Some(arguments.into());
        self
    }

    /// Sets the project's instructions for agents (`AGENTS.md`), which are part of every system prompt of the run.
    pub fn agents_md(mut self, text: impl Into<Text>) -> Self {
        self.request.agents_md = Some(text.into());
        self
    }

    /// Sets whether the root may pass its conversation to children that ask to share it.
    pub fn may_share_history(mut self, may: bool) -> Self {
        self.request.may_share_history = may;
        self
    }

    /// Sets whether [`Posse::task_events`](crate::Posse::task_events) of an agent includes the events of its
    /// sub-agents.
    pub fn include_sub_agent_events(mut self, include: bool) -> Self {
        self.request.terms.include_sub_agent_events = include;
        self
    }

    /// Sets the rules of the project's settings: one more layer for each file, which can only narrow.
    pub fn project_rules(mut self, rules: ProjectRules) -> Self {
        self.request.terms.project_rules = rules;
        self
    }

    /// Sets the base of the turn limit by depth; `None` means no limit.
    pub fn base_turns(mut self, turns: Option<u32>) -> Self {
        self.request.terms.base_turns = turns;
        self
    }

    /// Sets the maximum depth of agents, up to the default ceiling.
    pub fn max_depth(mut self, depth: u32) -> Self {
        self.max_depth = Some(effective_max_depth(Some(depth), None, None));
        self
    }

    /// Sets the budget of the whole tree.
    pub fn budget(mut self, budget: Budget) -> Self {
        self.request.budget = budget;
        self
    }

    /// Sets how long a model or a tool may be silent before it is cut off. Local models that read a long conversation
    /// may need more than the usual two minutes.
    pub fn idle_timeout(mut self, silence: Duration) -> Self {
        self.request.idle_timeout_ms = silence.as_millis().try_into().unwrap_or(u64::MAX);
        self
    }

    /// Sets the limit of concurrent calls.
    pub fn parallel(mut self, parallel: u32) -> Self {
        self.request.terms.parallel = parallel;
        self
    }

    /// Leaves completed children open until their parent closes them with `task_close`, or ends.
    pub fn leave_children_open(mut self) -> Self {
        self.request.terms.close_on_completion = false;
        self
    }

    /// Sets the rules of the user's settings.
    pub fn operator_rules(mut self, rules: Rules) -> Self {
        self.request.terms.operator_rules = rules;
        self
    }

    /// Sets the rules of this run.
    pub fn run_rules(mut self, rules: Rules) -> Self {
        self.request.terms.run_rules = rules;
        self
    }

    /// Sets what the user allows in advance. It lifts an `ask` of a definition and opens the protected names and
    /// non-public addresses that it names. It never lifts a deny.
    pub fn approvals(mut self, approvals: Approvals) -> Self {
        self.request.terms.approvals = approvals;
        self
    }

    /// Sets a plan that the host executes: its steps are the root's children, and the root's model is called only if
    /// one of them fails. Check it first, with `posse_setup::plan` and [`posse_domain::plan::check`].
    pub fn plan(mut self, plan: Plan) -> Self {
        self.request.plan = Some(plan);
        self
    }

    /// Continues an agent of an earlier run ([`Posse::ended_agent`](crate::Posse::ended_agent)): the root begins with its
    /// conversation and files, and the request is its next message. Rules, limits and definitions are those of this run.
    pub fn continues(mut self, earlier: Continuation) -> Self {
        self.request.continues = Some(earlier);
        self
    }

    /// Lets writers that own no paths run beside others, instead of one after the other.
    pub fn unowned_writers(mut self, unowned: UnownedWriters) -> Self {
        self.request.terms.unowned_writers = unowned;
        self
    }

    /// Sets the answer to an `ask` of an unattended run or of a child: deny, or a question that waits until any process
    /// answers it with [`Posse::answer`](crate::Posse::answer).
    pub fn on_ask(mut self, on_ask: OnAsk) -> Self {
        self.request.on_ask = on_ask;
        self
    }

    /// Records in the journal the base URL of a provider for this run, without a trailing slash. It is for the process
    /// that resumes the run ([`Posse::base_url`](crate::Posse::base_url)); calls use the URL of the model registry.
    pub fn base_url(mut self, provider: impl Into<String>, url: impl Into<String>) -> Self {
        self.request.terms.base_url = Some(GivenBaseUrl { provider: provider.into(), url: url.into() });
        self
    }

    /// Sets whether an approver attends this process and answers the root's questions
    /// ([`Posse::pending_questions`](crate::Posse::pending_questions), [`Posse::answer`](crate::Posse::answer)). It
    /// applies until the process ends; a process that resumes the run sets it again.
    pub fn attended(mut self, attended: bool) -> Self {
        self.attended = attended;
        self
    }

    /// Resolves everything and returns the request for [`Posse::start_request`](crate::Posse::start_request), here or
    /// in another process. `known_tools` are the names that definitions given to the run may list. A replay takes its
    /// definitions from the recorded run, so nothing is resolved for it.
    pub fn into_request(self, known_tools: &[&str]) -> Result<RunRequest, Error> {
        let Self { mut request, max_depth, arguments, .. } = self;
        if crate::replayed(&request.model).is_some() {
            return Ok(request);
        }
        if request.model.is_empty() {
            let problem = "no model is set: name one as `provider/model`, or `scripted/<file>`";
            return Err(Error::invalid(RequestField::Model, problem));
        }
        for definition in &request.definitions {
            if let Some(tool) = definition.tools.iter().find(|tool| !known_tools.contains(&tool.as_str())) {
                let problem = format!("`{}` lists the tool `{tool}`, which does not exist", definition.name);
                return Err(Error::invalid(RequestField::Agents, problem));
            }
        }
        let mut known = known(&mut request)?;
        if request.dir.is_empty() {
            return Err(Error::invalid(RequestField::Dir, "no working directory is set"));
        }
        if let Some((skill, arguments)) = request.terms.loaded_skill.as_ref().zip(arguments) {
            request.prompt = known.load(skill, &arguments).map(Into::into).or(request.prompt);
        }
        let RunDefinitions { definitions, catalogue, root } = known;
        // The depth of the root skill counts as that of the request.
        let own = |skill: &&Skill| {
            request.terms.skill.as_ref().is_some_and(|name| skill.name.eq_ignore_ascii_case(name))
        };
        let of_skill = catalogue.skills.iter().find(own).and_then(|skill| skill.max_depth);
        Ok(RunRequest {
            definition: root.name.clone(),
            model: root.model.clone().unwrap_or(request.model),
            max_depth: max_depth.unwrap_or_else(|| effective_max_depth(of_skill, None, None)),
            definitions,
            catalogue: CatalogueText::of(catalogue),
            ..request
        })
    }
}

/// The definitions of a run (given, built in and discovered), and which of them is its root.
struct RunDefinitions {
    definitions: Vec<Definition>,
    catalogue: DiscoveredDefinitions,
    root: Arc<Definition>,
}

impl RunDefinitions {
    /// The task of a root that loads this skill; `None` if the skill does not exist. If the user does not trust the
    /// skill, the root asks before each use of a tool, like the sub-agent of such a skill.
    fn load(&mut self, skill: &str, arguments: &str) -> Option<String> {
        let skill = self.catalogue.skills.iter().find(|known| known.name.eq_ignore_ascii_case(skill))?;
        let own = self.definitions.iter_mut().chain(&mut self.catalogue.definitions);
        for root in own.filter(|definition| definition.name == self.root.name) {
            root.trust = root.trust.min(skill.trust);
        }
        let reads = self.root.tools.iter().any(|tool| tool == "read");
        let runs = self.root.tools.iter().any(|tool| tool == "bash");
        Some(loaded_skill(skill, arguments, reads, runs))
    }
}

/// Takes the definitions out of a request.
fn known(request: &mut RunRequest) -> Result<RunDefinitions, Error> {
    let found = request.discovered().map_err(|problem| Error::invalid(RequestField::Catalogue, problem))?;
    request.catalogue = None;
    let given = std::mem::take(&mut request.definitions);
    let dir = Some(request.dir.as_str()).filter(|dir| !dir.is_empty());
    all_known(given, Arc::unwrap_or_clone(found), &request.definition, dir)
}

/// Resolves equal names: the given definition counts, then the discovered one, then the built-in one.
fn all_known(
    given: Vec<Definition>,
    found: DiscoveredDefinitions,
    root: &str,
    dir: Option<&str>,
) -> Result<RunDefinitions, Error> {
    let given: Vec<Definition> = given.into_iter().map(with_default_asks).collect();
    let is_given: BTreeSet<String> = given.iter().map(|given| given.name.clone()).collect();
    let mut found_first = found.definitions;
    found_first.retain(|found| !is_given.contains(&found.name));
    found_first.iter_mut().for_each(Definition::close_network);
    let has_shell = found_first.iter().any(Definition::has_shell);
    let names: BTreeSet<String> = found_first.iter().map(|found| found.name.clone()).collect();
    let all = Definitions::builtin_and(found_first.into_iter().chain(given).collect());
    let root =
        all.find(root).map_err(|unknown| Error::invalid(RequestField::Agent, unknown.to_string()))?.clone();
    let each = all.iter().map(|definition| Definition::clone(definition));
    let (found_definitions, definitions) = each.partition(|definition| names.contains(&definition.name));
    // Other programs have other names for the built-in definitions. The journal has only Posse's names.
    let ours = |mut skill: Skill| {
        let agent = skill.agent.as_deref().and_then(|agent| all.get(agent)).map(|found| found.name.clone());
        skill.agent = agent.or(skill.agent);
        // A folder that is not part of the project is in no workspace, wherever it is.
        let dir = dir.filter(|_| skill.project.is_some());
        skill.shown_dir = skill.dir.as_deref().map(|own| shown(own, dir, &skill.name));
        skill
    };
    let catalogue = DiscoveredDefinitions {
        asks: if has_shell { default_rules().to_vec() } else { Vec::new() },
        definitions: found_definitions,
        skills: found.skills.into_iter().map(ours).collect(),
        out_of_reach: found.out_of_reach,
    };
    Ok(RunDefinitions { definitions, catalogue, root })
}

/// The path by which commands find a skill's directory: in the workspace, or through a variable.
fn shown(own: &str, dir: Option<&str>, skill: &str) -> String {
    let inside = dir.and_then(|dir| Path::new(own).strip_prefix(dir).ok());
    inside.map_or_else(
        || format!("${}", Skill::variable(skill)),
        |inside| format!("{WORKSPACE_SHOWN_AT}/{}", inside.display()),
    )
}

#[cfg(test)]
mod tests;
