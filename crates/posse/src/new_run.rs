//! Builds the request of a run: what an embedder or a front end says is set on a [`RunRequest`], and what depends on the
//! definitions and skills at hand is resolved once, at the end.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use posse_agent::definition::{Definitions, default_rules, taken_in, with_default_asks};
use posse_domain::budget::{Budget, effective_max_depth};
use posse_domain::definition::Definition;
use posse_domain::event::CatalogueText;
use posse_domain::permission::{Approvals, OnAsk, ProjectRules, Rules};
use posse_domain::plan::{Plan, UnownedWriters};
use posse_domain::request::{GivenBaseUrl, RunRequest};
use posse_domain::skill::{DiscoveredDefinitions, Skill};
use posse_domain::text::Text;
use posse_engine::ports::WORKSPACE_SHOWN_AT;

use crate::Error;

/// Describes a run before it is started.
#[derive(Debug, Clone)]
pub struct NewRun {
    request: RunRequest,
    depth: DepthLimits,
    taken_in: Option<TakenIn>,
    pub(crate) attended: bool,
}

/// What is said about the depth of the tree, and by whom.
#[derive(Debug, Clone, Copy, Default)]
struct DepthLimits {
    run: Option<u32>,
    default: Option<u32>,
    ceiling: Option<u32>,
}

/// A skill that the root takes in, and what was written after its name.
#[derive(Debug, Clone)]
struct TakenIn {
    skill: String,
    arguments: String,
}

/// A request whose definitions, skills and depth are still to be resolved.
impl From<RunRequest> for NewRun {
    fn from(request: RunRequest) -> Self {
        Self { request, depth: DepthLimits::default(), taken_in: None, attended: false }
    }
}

impl NewRun {
    /// A run for this request, with the built-in `coder` as its root.
    pub fn new(request: impl Into<String>) -> Self {
        RunRequest::new(request.into()).into()
    }

    /// The root's definition.
    pub fn definition(mut self, name: impl Into<String>) -> Self {
        self.request.definition = name.into();
        self
    }

    /// The model, `provider/model`.
    pub fn model(mut self, name: impl Into<String>) -> Self {
        self.request.model = name.into();
        self
    }

    /// The working directory.
    pub fn dir(mut self, dir: impl AsRef<Path>) -> Self {
        self.request.dir = dir.as_ref().to_string_lossy().into_owned();
        self
    }

    /// The embedder's session, opaque to Posse.
    pub fn session(mut self, id: impl Into<String>) -> Self {
        self.request.session_id = Some(id.into());
        self
    }

    /// More definitions; one of the same name shadows a built-in.
    pub fn definitions(mut self, more: impl IntoIterator<Item = Definition>) -> Self {
        for definition in more {
            self.request.definitions.retain(|known| known.name != definition.name);
            self.request.definitions.push(definition);
        }
        self
    }

    /// Definitions and skills that were found on the machine. They come after those that were given to this run, and
    /// before the built-in ones.
    pub fn catalogue(mut self, found: DiscoveredDefinitions) -> Self {
        self.request.catalogue = CatalogueText::of(found);
        self
    }

    /// What the root is told to do, where that is not the request as it was typed.
    pub fn prompt(mut self, prompt: impl Into<Text>) -> Self {
        self.request.prompt = Some(prompt.into());
        self
    }

    /// Lets one forked skill carry out the request: the root asks no model, it has the skill's sub-agent as its only
    /// child, and its report is that child's summary.
    pub fn skill(mut self, name: impl Into<String>) -> Self {
        self.request.terms.skill = Some(name.into());
        self
    }

    /// Has the root take in a skill of the catalogue that is not forked, with what was written after its name: that text is
    /// what it is told to do, and it can read the skill's files. If nobody trusts the skill, the root asks before each use
    /// of a tool.
    pub fn take_in(mut self, skill: impl Into<String>, arguments: impl Into<String>) -> Self {
        self.taken_in = Some(TakenIn { skill: skill.into(), arguments: arguments.into() });
        self
    }

    /// The project's instructions for agents (`AGENTS.md`), part of every system prompt of the run.
    pub fn agents_md(mut self, text: impl Into<Text>) -> Self {
        self.request.agents_md = Some(text.into());
        self
    }

    /// Whether the root may give its conversation to children that ask to share it.
    pub fn may_share_history(mut self, may: bool) -> Self {
        self.request.may_share_history = may;
        self
    }

    /// Whether [`Posse::task_events`](crate::Posse::task_events) of an agent tells the events of sub-agents below it too.
    pub fn include_sub_agent_events(mut self, include: bool) -> Self {
        self.request.terms.include_sub_agent_events = include;
        self
    }

    /// Rules of the project's settings: one more layer for each file, which can only narrow.
    pub fn project_rules(mut self, rules: ProjectRules) -> Self {
        self.request.terms.project_rules = rules;
        self
    }

    /// Base of the turn limit by depth; none does not limit.
    pub fn base_turns(mut self, turns: Option<u32>) -> Self {
        self.request.terms.base_turns = turns;
        self
    }

    /// Deepest depth an agent may have.
    pub fn max_depth(mut self, depth: u32) -> Self {
        self.depth.run = Some(depth);
        self
    }

    /// The operator's `agent.max_depth`: counts where the run says nothing.
    pub fn default_max_depth(mut self, depth: Option<u32>) -> Self {
        self.depth.default = depth;
        self
    }

    /// The operator's ceiling, `agent.max_orchestration_depth`: no run goes deeper. Set alone it is the default too.
    pub fn max_orchestration_depth(mut self, ceiling: Option<u32>) -> Self {
        self.depth.ceiling = ceiling;
        self
    }

    /// What the whole tree may spend.
    pub fn budget(mut self, budget: Budget) -> Self {
        self.request.budget = budget;
        self
    }

    /// How long a model or a tool may be silent before it is cut. Local models that read a long conversation may need
    /// more than the usual two minutes.
    pub fn idle_timeout(mut self, silence: Duration) -> Self {
        self.request.idle_timeout_ms = silence.as_millis().try_into().unwrap_or(u64::MAX);
        self
    }

    /// How many calls may run at once.
    pub fn parallel(mut self, parallel: u32) -> Self {
        self.request.terms.parallel = parallel;
        self
    }

    /// Leaves completed children open until their parent closes them with `task_close`, or ends.
    pub fn leave_children_open(mut self) -> Self {
        self.request.terms.close_on_completion = false;
        self
    }

    /// Rules of the user's settings.
    pub fn operator_rules(mut self, rules: Rules) -> Self {
        self.request.terms.operator_rules = rules;
        self
    }

    /// Rules of this run.
    pub fn run_rules(mut self, rules: Rules) -> Self {
        self.request.terms.run_rules = rules;
        self
    }

    /// What a person allows in advance. It lifts an `ask` of a definition and opens the protected names and the
    /// non-public addresses that it names; it never lifts a deny.
    pub fn approvals(mut self, approvals: Approvals) -> Self {
        self.request.terms.approvals = approvals;
        self
    }

    /// A plan that the host carries out: its steps are the root's children, and the root's model is asked only if one
    /// of them fails. Check it first, with [`posse_agent::plan`] and [`posse_domain::plan::check`].
    pub fn plan(mut self, plan: Plan) -> Self {
        self.request.plan = Some(plan);
        self
    }

    /// Lets writers that name no paths run beside others, instead of one after the other.
    pub fn unowned_writers(mut self, unowned: UnownedWriters) -> Self {
        self.request.terms.unowned_writers = unowned;
        self
    }

    /// What becomes of an `ask` that nobody attends to, and of a child's: a no, or a question that waits until
    /// somebody answers it with [`Posse::answer`](crate::Posse::answer), in whatever process.
    pub fn on_ask(mut self, on_ask: OnAsk) -> Self {
        self.request.on_ask = on_ask;
        self
    }

    /// Remembers in the journal where a provider is for this run, without a trailing slash. It is for whoever resumes
    /// the run ([`Posse::base_url`](crate::Posse::base_url)): calls go where the catalogue says.
    pub fn base_url(mut self, provider: impl Into<String>, url: impl Into<String>) -> Self {
        self.request.terms.base_url = Some(GivenBaseUrl { provider: provider.into(), url: url.into() });
        self
    }

    /// Says that somebody attends to this process and answers the root's questions
    /// ([`Posse::requests`](crate::Posse::requests), [`Posse::answer`](crate::Posse::answer)). It holds until the
    /// process ends; whoever resumes the run says it anew.
    pub fn attended(mut self, attended: bool) -> Self {
        self.attended = attended;
        self
    }

    /// The request with everything resolved, ready for [`Posse::start_request`](crate::Posse::start_request) here or in
    /// another process. `known_tools` are the names that definitions given to the run may list. A replay takes its
    /// definitions from the recorded run, so nothing is resolved for it.
    pub fn into_request(self, known_tools: &[&str]) -> Result<RunRequest, Error> {
        let Self { mut request, depth, taken_in, .. } = self;
        if crate::replayed(&request.model).is_some() {
            return Ok(request);
        }
        if request.model.is_empty() {
            let problem = "no model is set: name one as `provider/model`, or `scripted/<file>`";
            return Err(Error::invalid("model", problem));
        }
        for definition in &request.definitions {
            if let Some(tool) = definition.tools.iter().find(|tool| !known_tools.contains(&tool.as_str())) {
                let problem = format!("`{}` lists the tool `{tool}`, which does not exist", definition.name);
                return Err(Error::invalid("agents", problem));
            }
        }
        let mut known = known(&mut request)?;
        if request.dir.is_empty() {
            return Err(Error::invalid("dir", "no working directory is set"));
        }
        if let Some(taken_in) = taken_in {
            request.prompt = known.take_in(&taken_in).map(Into::into).or(request.prompt);
            request.terms.called_skill = Some(taken_in.skill);
        }
        let RunDefinitions { definitions, catalogue, root } = known;
        // What the root skill says counts as if the run said it.
        let own = |skill: &&Skill| {
            request.terms.skill.as_ref().is_some_and(|name| skill.name.eq_ignore_ascii_case(name))
        };
        let of_skill = catalogue.skills.iter().find(own).and_then(|skill| skill.max_depth);
        Ok(RunRequest {
            definition: root.name.clone(),
            model: root.model.clone().unwrap_or(request.model),
            max_depth: effective_max_depth(depth.run.or(of_skill), depth.default, depth.ceiling),
            definitions,
            catalogue: CatalogueText::of(catalogue),
            ..request
        })
    }
}

/// What a run knows: what was given to it and is built in, what was found, and its root among them.
struct RunDefinitions {
    definitions: Vec<Definition>,
    catalogue: DiscoveredDefinitions,
    root: Arc<Definition>,
}

impl RunDefinitions {
    /// What the root is told that takes this skill in; none if there is no such skill. Somebody's text that nobody trusts
    /// is then what the root follows, so it asks before each use of a tool, as the sub-agent of such a skill would.
    fn take_in(&mut self, TakenIn { skill, arguments }: &TakenIn) -> Option<String> {
        let skill = self.catalogue.skills.iter().find(|known| known.name.eq_ignore_ascii_case(skill))?;
        let own = self.definitions.iter_mut().chain(&mut self.catalogue.definitions);
        for root in own.filter(|definition| definition.name == self.root.name) {
            root.default = root.default.min(skill.default);
        }
        let reads = self.root.tools.iter().any(|tool| tool == "read");
        let runs = self.root.tools.iter().any(|tool| tool == "bash");
        Some(taken_in(skill, arguments, reads, runs))
    }
}

/// Takes the definitions out of a request.
fn known(request: &mut RunRequest) -> Result<RunDefinitions, Error> {
    let found = request.discovered().map_err(|problem| Error::invalid("catalogue", problem))?;
    request.catalogue = None;
    let given = std::mem::take(&mut request.definitions);
    let dir = Some(request.dir.as_str()).filter(|dir| !dir.is_empty());
    all_known(given, Arc::unwrap_or_clone(found), &request.definition, dir)
}

/// Of one name the given definition counts, then the found one, then the built-in one.
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
    let root = all.find(root).map_err(|unknown| Error::invalid("agent", unknown.to_string()))?.clone();
    let each = all.iter().map(|definition| Definition::clone(definition));
    let (found_definitions, definitions) = each.partition(|definition| names.contains(&definition.name));
    // Other programs have names of their own for the built-in definitions; the journal has only ours.
    let ours = |mut skill: Skill| {
        let agent = skill.agent.as_deref().and_then(|agent| all.get(agent)).map(|found| found.name.clone());
        skill.agent = agent.or(skill.agent);
        // What is no part of the project is in no workspace, wherever it lies.
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

/// Where commands find the directory of a skill: in the workspace, or by a variable.
fn shown(own: &str, dir: Option<&str>, skill: &str) -> String {
    let inside = dir.and_then(|dir| Path::new(own).strip_prefix(dir).ok());
    inside.map_or_else(
        || format!("${}", Skill::variable(skill)),
        |inside| format!("{WORKSPACE_SHOWN_AT}/{}", inside.display()),
    )
}

#[cfg(test)]
mod tests;
