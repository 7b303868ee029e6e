//! Fills the draft of a run that continues or repeats the work of an agent that has ended.
//!
//! The user's own words and settings come first: rules, definitions and everything that is not taken over from the earlier
//! run are those of today.

use std::path::PathBuf;
use std::time::Duration;

use posse::{Continuation, EndedAgent, RunStatus};

use super::{PlanInput, RunDraft};
use crate::error::SetupError;
use crate::limit::{Limit, MoneyLimit, TimeLimit};
use crate::settings::{Origin, Settings, WithOrigin};

impl RunDraft {
    /// Fills this draft of a follow-up: its text is the next message in the conversation of `earlier`, whose model,
    /// definition and directory it keeps unless it names others.
    pub fn follow_up(self, earlier: &EndedAgent, named: &'static str) -> Self {
        let mut draft = self.beside(earlier, named);
        draft.agent.get_or_insert_with(|| earlier.agent.agent.definition.clone());
        Self { continues: Some(earlier.continuation.clone()), ..draft }
    }

    /// Fills this draft of another try at work that did not complete, with the limits of the earlier run unless it has
    /// others. A plan continues with its open steps. A sub-agent's task starts anew, on the result of its run.
    pub fn retry(self, earlier: EndedAgent, named: &'static str) -> Result<Self, SetupError> {
        let id = &earlier.continuation.agent;
        if let Some(done) = earlier.outcome.as_ref().filter(|_| id.is_root())
            && done.status == RunStatus::Completed
            && !done.is_turn_limited()
        {
            return Err(SetupError::usage(format!("run {id} completed, so there is nothing to retry")));
        }
        let mut draft = self.beside(&earlier, named);
        draft.settings = with_limits(draft.settings, &earlier, named);
        let mut continuation = Continuation { is_retry: true, ..earlier.continuation.clone() };
        let is_root = id.is_root();
        if is_root && earlier.plan.is_none() && earlier.request.terms.skill.is_none() && earlier.has_replied()
        {
            draft.prompt.get_or_insert(again(&earlier));
        } else {
            continuation.conversation = None;
        }
        draft.continues = Some(continuation);
        if is_root { Ok(draft.whole_run(earlier)) } else { Ok(draft.one_task(earlier)) }
    }

    /// What every run that continues `earlier` takes over.
    fn beside(self, earlier: &EndedAgent, named: &'static str) -> Self {
        let mut draft = self;
        draft.dir = draft.dir.or_else(|| Some(PathBuf::from(&earlier.request.dir)));
        let model = &earlier.agent.agent.model;
        // A replay has no model of its own to continue with.
        if draft.settings.model.is_none() && posse::replayed(model).is_none() {
            let of_run = |value: &String| WithOrigin { value: value.clone(), origin: Origin::Request(named) };
            let url = earlier.request.terms.base_url.as_ref().map(|given| of_run(&given.url));
            draft.settings.base_url = draft.settings.base_url.or(url);
            draft.settings.model = Some(of_run(model));
        }
        draft
    }

    /// Another try at a whole run.
    fn whole_run(mut self, earlier: EndedAgent) -> Self {
        let EndedAgent { request, plan, agent, .. } = earlier;
        self.text.get_or_insert(request.text.to_shared().to_string());
        self.agent.get_or_insert(agent.agent.definition);
        match (plan, request.terms.skill) {
            (Some(plan), _) => self.plan = Some(PlanInput::Checked(Box::new(plan))),
            (None, Some(skill)) => self.skill = Some(skill),
            (None, None) => {
                let prompt = request.prompt.as_ref().map(|prompt| prompt.to_shared().to_string());
                self.prompt = self.prompt.or(prompt);
            }
        }
        self
    }

    /// Another try at the task of one sub-agent, on the result of its run: its step, if it belongs to a plan.
    fn one_task(mut self, earlier: EndedAgent) -> Self {
        let EndedAgent { agent, plan, .. } = earlier;
        if let Some(continuation) = &mut self.continues {
            continuation.files = continuation.files.map(|_| posse::ContinuedFiles::Result);
        }
        let title = agent.contract.step.title.clone();
        let step = plan.map(|mut plan| {
            plan.steps.retain(|step| step.title == title);
            plan.steps.iter_mut().for_each(|step| step.depends_on.clear());
            plan
        });
        if let Some(plan) = step.filter(|plan| !plan.steps.is_empty()) {
            self.plan = Some(PlanInput::Checked(Box::new(plan)));
        } else {
            self.agent.get_or_insert(agent.agent.definition);
            self.prompt.get_or_insert(agent.contract.step.description.clone());
        }
        self.text.get_or_insert(title);
        self
    }
}

/// The first message of a run that continues where an earlier one stopped.
fn again(earlier: &EndedAgent) -> String {
    let why = earlier.outcome.as_ref().and_then(|outcome| outcome.failure.as_ref());
    let why = why.map(|failure| failure.reason.as_str());
    let why = why
        .map_or_else(|| "it reached its turn limit".to_owned(), |why| why.trim_end_matches('.').to_owned());
    format!(
        "Your work on this task was stopped before it was complete ({why}). The files are as you left them. Look at \
         what is done, then complete the task."
    )
}

/// The limits of the earlier run, where the draft has none.
fn with_limits(settings: Settings, earlier: &EndedAgent, named: &'static str) -> Settings {
    fn or<T>(own: Option<WithOrigin<T>>, value: T, named: &'static str) -> WithOrigin<T> {
        own.unwrap_or(WithOrigin { value, origin: Origin::Request(named) })
    }
    let (budget, terms) = (&earlier.request.budget, &earlier.request.terms);
    Settings {
        max_depth: Some(or(settings.max_depth, earlier.request.max_depth, named)),
        max_turns: Some(or(settings.max_turns, Limit(terms.base_turns.map(u64::from)), named)),
        max_agents: Some(or(settings.max_agents, Limit(budget.agents), named)),
        max_tokens: Some(or(settings.max_tokens, Limit(budget.tokens), named)),
        max_usd: Some(or(settings.max_usd, MoneyLimit(budget.usd), named)),
        max_time: Some(or(settings.max_time, TimeLimit(budget.wall_ms.map(Duration::from_millis)), named)),
        ..settings
    }
}
