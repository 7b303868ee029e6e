//! Checks each step of a plan by itself.

use super::super::limits::{
    COMMAND_TIMEOUT_MAX_MS, CRITERIA_MAX, CRITERION_MAX_BYTES, DESCRIPTION_MAX_BYTES, NAME_MAX_BYTES,
    OWNED_MAX_BYTES, OWNS_MAX, RETRIES_MAX, STEPS_MAX, TIMEOUT_MAX_MS, TITLE_MAX_CHARS, TOOLS_MAX,
};
use super::super::{Plan, Step};
use super::{CheckProgress, PlanContext, StepDefinition};
use crate::contract::{CommandCriterion, Criterion};
use crate::nearest::{hint, nearest};
use crate::ownership;

/// Maximum number of characters that a problem quotes from the plan.
const QUOTED_MAX_CHARS: usize = 64;

pub(super) fn check(found: &mut CheckProgress<'_>, context: &PlanContext) {
    let plan: &Plan = found.plan;
    for (position, step) in plan.steps.iter().enumerate() {
        let mut one = StepCheck { found, position, step };
        one.texts();
        one.owns();
        one.criteria();
        one.limits();
        one.agent(context);
        one.model(context);
    }
}

/// A text from the plan, short enough to be quoted.
pub(super) fn quoted(text: &str) -> String {
    format!("`{}`", crate::text::first_line(text, QUOTED_MAX_CHARS))
}

/// Names for a message, from which the user can choose.
fn listed<'a>(names: impl Iterator<Item = &'a str>) -> String {
    names.map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}

/// The check of one step, with access to the list of problems.
struct StepCheck<'f, 'a> {
    found: &'f mut CheckProgress<'a>,
    position: usize,
    step: &'f Step,
}

impl StepCheck<'_, '_> {
    fn wrong(&mut self, field: &'static str, problem: impl Into<String>) {
        self.found.add(Some(self.position), field, None, problem.into());
    }

    fn wrong_item(&mut self, field: &'static str, item: usize, problem: impl Into<String>) {
        self.found.add(Some(self.position), field, Some(item), problem.into());
    }

    fn at_most(&mut self, field: &'static str, count: usize, most: usize) {
        if count > most {
            self.wrong(field, format!("{count} entries, more than the {most} accepted"));
        }
    }

    fn texts(&mut self) {
        let title = &self.step.title;
        if title.trim().is_empty() {
            self.wrong("title", "is empty: other steps name this one by it");
        } else if title.chars().nth(TITLE_MAX_CHARS).is_some() {
            self.wrong("title", format!("has more than the {TITLE_MAX_CHARS} characters accepted"));
        } else if title.chars().any(char::is_control) {
            self.wrong("title", "must be one line without control characters");
        } else if title.trim() != title {
            self.wrong("title", "must not begin or end with a space");
        }
        let description = &self.step.description;
        if description.trim().is_empty() {
            self.wrong("description", "is empty: say what is to be done");
        } else if description.len() > DESCRIPTION_MAX_BYTES {
            self.wrong("description", format!("has more than the {DESCRIPTION_MAX_BYTES} bytes accepted"));
        }
        self.at_most("depends_on", self.step.depends_on.len(), STEPS_MAX);
    }

    fn owns(&mut self) {
        self.at_most("owns", self.step.owns.len(), OWNS_MAX);
        for (item, path) in self.step.owns.iter().enumerate().take(OWNS_MAX) {
            if path.len() > OWNED_MAX_BYTES {
                self.wrong_item("owns", item, format!("has more than the {OWNED_MAX_BYTES} bytes accepted"));
            } else if let Err(problem) = ownership::check(path) {
                self.wrong_item("owns", item, format!("{} {problem}", quoted(path)));
            }
        }
    }

    fn criteria(&mut self) {
        const FIELD: &str = "success_criteria";
        self.at_most(FIELD, self.step.success_criteria.len(), CRITERIA_MAX);
        for (item, criterion) in self.step.success_criteria.iter().enumerate().take(CRITERIA_MAX) {
            let (text, what) = match criterion {
                Criterion::Words(words) => (words, "criterion"),
                Criterion::Command(CommandCriterion { command, .. }) => (command, "command"),
            };
            if text.trim().is_empty() {
                self.wrong_item(FIELD, item, format!("the {what} is empty"));
            } else if text.len() > CRITERION_MAX_BYTES {
                let problem = format!("the {what} has more than the {CRITERION_MAX_BYTES} bytes accepted");
                self.wrong_item(FIELD, item, problem);
            } else if text.contains('\0') {
                self.wrong_item(FIELD, item, format!("the {what} holds a NUL character"));
            }
            if let Criterion::Command(CommandCriterion { timeout_ms: Some(limit), .. }) = criterion
                && !(1..=COMMAND_TIMEOUT_MAX_MS).contains(limit)
            {
                let problem = format!("timeout_ms is {limit}; it must be 1 to {COMMAND_TIMEOUT_MAX_MS}");
                self.wrong_item(FIELD, item, problem);
            }
        }
    }

    fn limits(&mut self) {
        if self.step.max_turns == Some(0) {
            self.wrong("max_turns", "must be at least 1: the last turn is the report");
        }
        if let Some(limit) = self.step.timeout_ms
            && !(1..=TIMEOUT_MAX_MS).contains(&limit)
        {
            self.wrong("timeout_ms", format!("is {limit}; it must be 1 to {TIMEOUT_MAX_MS}"));
        }
        if let Some(retries) = self.step.max_retries.filter(|retries| *retries > RETRIES_MAX) {
            self.wrong("max_retries", format!("is {retries}; it must be 0 to {RETRIES_MAX}"));
        }
        let budget = &self.step.budget;
        // A budget of no money allows free models. Zero of any other limit allows nothing.
        for (name, limit) in
            [("tokens", budget.tokens), ("agents", budget.agents), ("wall_ms", budget.wall_ms)]
        {
            if limit == Some(0) {
                self.wrong("budget", format!("{name} must not be 0; `none` is no limit"));
            }
        }
    }

    fn agent(&mut self, context: &PlanContext) {
        let name = &self.step.agent;
        let spawnable = || {
            let all = context.definitions.iter().filter(|(_, definition)| definition.spawnable);
            all.map(|(name, _)| name.as_str())
        };
        match context.definition(name) {
            None => {
                let hint = hint(nearest(name, spawnable()));
                let known = listed(spawnable());
                self.wrong("agent", format!("unknown definition {}{hint}; available: {known}", quoted(name)));
            }
            Some(definition) if !definition.spawnable => {
                let name = quoted(name);
                let problem = match spawnable().next() {
                    Some(_) => format!("{name} cannot execute a step; available: {}", listed(spawnable())),
                    None => format!(
                        "{name} cannot execute a step, because the run's agent cannot start sub-agents"
                    ),
                };
                self.wrong("agent", problem);
            }
            Some(definition) => self.tools(definition, context),
        }
    }

    fn tools(&mut self, definition: &StepDefinition, context: &PlanContext) {
        let Some(tools) = &self.step.tools else { return };
        self.at_most("tools", tools.len(), TOOLS_MAX);
        let own = || definition.tools.iter().map(String::as_str);
        for (item, tool) in tools.iter().enumerate().take(TOOLS_MAX) {
            if definition.tools.contains(tool) {
                continue;
            }
            let (name, has) = (quoted(tool), listed(own()));
            let problem = if context.tools.contains_key(tool) {
                format!("`{}` does not have {name}; it has {has}", self.step.agent)
            } else {
                format!("unknown tool {name}{}; available: {has}", hint(nearest(tool, own())))
            };
            self.wrong_item("tools", item, problem);
        }
    }

    fn model(&mut self, context: &PlanContext) {
        let Some(model) = &self.step.model else { return };
        if model.trim().is_empty() {
            self.wrong("model", "is empty; leave it out to use the definition's or the run's");
        } else if model.len() > NAME_MAX_BYTES {
            self.wrong("model", format!("has more than the {NAME_MAX_BYTES} bytes accepted"));
        } else if let Some(why) = context.unusable_models.get(model) {
            self.wrong("model", why.clone());
        }
    }
}
