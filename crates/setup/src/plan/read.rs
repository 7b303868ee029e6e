//! Converts a syntax tree to a plan, field by field: a problem in one field does not stop the next.

use std::collections::BTreeMap;

use posse_domain::budget::Budget;
use posse_domain::contract::{CommandCriterion, Criterion};
use posse_domain::nearest::{hint, nearest};
use posse_domain::plan::{
    Author, DEFAULT_STEP_AGENT, IntegrationOrder, OnFailure, PROBLEMS_MAX, Plan, STEPS_MAX, Step, StepName,
    UnownedWriters, UnreadFields,
};
use posse_domain::text::first_line;

use super::{FieldLines, PlanProblem, PlanText};
use posse_agent::schema::Schema;
use posse_definitions::yaml::{Key, Node, Value};

/// The keys of a plan.
pub(super) const PLAN_KEYS: &[&str] = &["goal", "on_failure", "integration", "unowned_writers", "steps"];
const STEP_KEYS: &[&str] = &[
    "title",
    "description",
    "agent",
    "owns",
    "depends_on",
    "success_criteria",
    "required",
    "budget",
    "tools",
    "model",
    "max_turns",
    "timeout_ms",
    "max_retries",
    "result_schema",
];
const CRITERION_KEYS: &[&str] = &["command", "timeout_ms"];
const BUDGET_KEYS: &[&str] = &["tokens", "usd", "agents", "wall_ms"];
/// How many characters of a foreign text a problem quotes.
const QUOTED_MAX_CHARS: usize = 64;

/// A problem with its line.
type LocatedProblem = (u64, String);

pub(super) fn plan(document: Node) -> PlanText {
    let line = document.line;
    let Node { value: Value::Map(entries), .. } = document else {
        let problem = match document.value {
            Value::Null => "the plan is empty".to_owned(),
            _ => format!("a plan is a map with `goal` and `steps`; here is {}", document.kind()),
        };
        return PlanText::not_a_plan(PlanProblem { line: Some(line), step: None, field: None, problem });
    };
    let mut reader = Reader::default();
    let mut fields = reader.fields(None, entries, PLAN_KEYS);
    let plan = Plan {
        author: Author::Person,
        goal: reader.needed(None, "goal", &mut fields, line, text).unwrap_or_default(),
        on_failure: reader
            .given(None, "on_failure", &mut fields, |node| {
                choice(&node, &[("continue", OnFailure::Continue), ("stop", OnFailure::Stop)])
            })
            .unwrap_or_default(),
        integration: reader
            .given(None, "integration", &mut fields, |node| {
                let known =
                    [("ordered", IntegrationOrder::Ordered), ("as_finished", IntegrationOrder::AsFinished)];
                choice(&node, &known)
            })
            .unwrap_or_default(),
        unowned_writers: reader
            .given(None, "unowned_writers", &mut fields, |node| {
                choice(&node, &[("queue", UnownedWriters::Queue), ("parallel", UnownedWriters::Parallel)])
            })
            .unwrap_or_default(),
        steps: reader.needed(None, "steps", &mut fields, line, list).map_or_else(Vec::new, |nodes| {
            // Further steps are not read: the check reports that there are too many, and checks none of them.
            let nodes = nodes.into_iter().take(STEPS_MAX + 1).enumerate();
            nodes.map(|(position, node)| reader.step(position, node)).collect()
        }),
    };
    let Reader { problems, unread, lines } = reader;
    PlanText { plan, is_plan: true, problems, unread, lines }
}

/// The fields of a map, by key.
type Fields = BTreeMap<&'static str, Node>;

/// The state of reading one document.
#[derive(Default)]
struct Reader {
    problems: Vec<PlanProblem>,
    unread: UnreadFields,
    lines: FieldLines,
}

impl Reader {
    fn wrong(&mut self, step: Option<usize>, field: Option<&'static str>, (line, problem): LocatedProblem) {
        if let Some(field) = field {
            self.unread.add(step, field);
        }
        if self.problems.len() < PROBLEMS_MAX {
            // The title is added once it is known.
            let step = step.map(|position| StepName { position, title: String::new() });
            let field = field.map(str::to_owned);
            self.problems.push(PlanProblem { line: Some(line), step, field, problem });
        }
    }

    /// Sorts a map by its known keys. Other keys are problems.
    fn fields(&mut self, step: Option<usize>, entries: Vec<(Key, Node)>, known: &'static [&str]) -> Fields {
        let mut fields = Fields::new();
        for (key, node) in entries {
            match known.iter().copied().find(|name| *name == key.name) {
                Some(name) => {
                    self.lines.insert((step, Some(name), None), key.line);
                    fields.insert(name, node);
                }
                None => self.wrong(step, None, unknown_key(&key, known)),
            }
        }
        fields
    }

    /// Reads an optional field; `null` is the same as no field.
    fn given<T>(
        &mut self,
        step: Option<usize>,
        field: &'static str,
        fields: &mut Fields,
        read: impl FnOnce(Node) -> Result<T, Vec<LocatedProblem>>,
    ) -> Option<T> {
        let node = fields.remove(field).filter(|node| !matches!(node.value, Value::Null))?;
        if let Value::List(items) = &node.value {
            for (item, node) in items.iter().enumerate() {
                self.lines.insert((step, Some(field), Some(item)), node.line);
            }
        }
        match read(node) {
            Ok(value) => Some(value),
            Err(all) => {
                for wrong in all {
                    self.wrong(step, Some(field), wrong);
                }
                None
            }
        }
    }

    /// Reads a required field. `line` is where the map begins that lacks it.
    fn needed<T>(
        &mut self,
        step: Option<usize>,
        field: &'static str,
        fields: &mut Fields,
        line: u64,
        read: impl FnOnce(Node) -> Result<T, Vec<LocatedProblem>>,
    ) -> Option<T> {
        match fields.get(field) {
            Some(node) if !matches!(node.value, Value::Null) => self.given(step, field, fields, read),
            other => {
                let line = other.map_or(line, |node| node.line);
                self.wrong(step, Some(field), (line, "is missing".to_owned()));
                None
            }
        }
    }

    fn step(&mut self, position: usize, node: Node) -> Step {
        let (line, kind, at) = (node.line, node.kind(), Some(position));
        self.lines.insert((at, None, None), line);
        let Value::Map(entries) = node.value else {
            for key in STEP_KEYS.iter().copied() {
                self.unread.add(at, key);
            }
            self.wrong(
                at,
                None,
                (line, format!("a step is a map with `title` and `description`; here is {kind}")),
            );
            return Step::default();
        };
        let first_problem = self.problems.len();
        let mut fields = self.fields(at, entries, STEP_KEYS);
        let fields = &mut fields;
        let step = Step {
            title: self.needed(at, "title", fields, line, text).unwrap_or_default(),
            description: self.needed(at, "description", fields, line, text).unwrap_or_default(),
            agent: self.given(at, "agent", fields, text).unwrap_or_else(|| DEFAULT_STEP_AGENT.to_owned()),
            owns: self.given(at, "owns", fields, texts).unwrap_or_default(),
            depends_on: self.given(at, "depends_on", fields, texts).unwrap_or_default(),
            success_criteria: self.given(at, "success_criteria", fields, criteria).unwrap_or_default(),
            required: self.given(at, "required", fields, |node| boolean(&node)).unwrap_or(true),
            budget: self.given(at, "budget", fields, budget).unwrap_or_default(),
            tools: self.given(at, "tools", fields, texts),
            model: self.given(at, "model", fields, text),
            max_turns: self.given(at, "max_turns", fields, |node| whole(&node)),
            timeout_ms: self.given(at, "timeout_ms", fields, |node| whole(&node)),
            max_retries: self.given(at, "max_retries", fields, |node| whole(&node)),
            result_schema: self.given(at, "result_schema", fields, schema),
        };
        for problem in &mut self.problems[first_problem..] {
            problem.step = Some(StepName::new(position, &step.title));
        }
        step
    }
}

fn unknown_key(key: &Key, known: &[&str]) -> LocatedProblem {
    let hint = hint(nearest(&key.name, known.iter().copied()));
    let name = first_line(&key.name, QUOTED_MAX_CHARS);
    (key.line, format!("unknown key `{name}`{hint}; known keys: {}", known.join(", ")))
}

fn expected<T>(what: &str, node: &Node) -> Result<T, Vec<LocatedProblem>> {
    Err(vec![(node.line, format!("expected {what}, found {}", node.kind()))])
}

fn text(node: Node) -> Result<String, Vec<LocatedProblem>> {
    match node.value {
        Value::Text(text) => Ok(text),
        Value::Number(_) | Value::Bool(_) => expected("text (write it in quotes)", &node),
        _ => expected("text", &node),
    }
}

fn list(node: Node) -> Result<Vec<Node>, Vec<LocatedProblem>> {
    match node.value {
        Value::List(items) => Ok(items),
        _ => expected("a list", &node),
    }
}

fn texts(node: Node) -> Result<Vec<String>, Vec<LocatedProblem>> {
    each(list(node)?, text)
}

/// Reads every entry and reports all problems.
fn each<T>(
    items: Vec<Node>,
    read: impl Fn(Node) -> Result<T, Vec<LocatedProblem>>,
) -> Result<Vec<T>, Vec<LocatedProblem>> {
    let (mut values, mut problems) = (Vec::new(), Vec::new());
    for item in items {
        match read(item) {
            Ok(value) => values.push(value),
            Err(wrong) => problems.extend(wrong),
        }
    }
    if problems.is_empty() { Ok(values) } else { Err(problems) }
}

fn boolean(node: &Node) -> Result<bool, Vec<LocatedProblem>> {
    match node.value {
        Value::Bool(value) => Ok(value),
        _ => expected("true or false", node),
    }
}

fn whole<N: TryFrom<u64>>(node: &Node) -> Result<N, Vec<LocatedProblem>> {
    let number = match &node.value {
        Value::Number(number) => number.as_u64(),
        _ => return expected("a whole number", node),
    };
    let fitting = number.and_then(|number| N::try_from(number).ok());
    fitting.ok_or_else(|| {
        vec![(node.line, "expected a whole number of at least 0 that is not too large".to_owned())]
    })
}

fn choice<T: Copy>(node: &Node, known: &[(&str, T)]) -> Result<T, Vec<LocatedProblem>> {
    let names = || known.iter().map(|(name, _)| *name);
    let Value::Text(text) = &node.value else {
        return expected(&format!("one of {}", names().collect::<Vec<_>>().join(", ")), node);
    };
    let found = known.iter().find(|(name, _)| name == text).map(|(_, value)| *value);
    found.ok_or_else(|| {
        let hint = hint(nearest(text, names()));
        let text = first_line(text, QUOTED_MAX_CHARS);
        vec![(node.line, format!("`{text}` is not one of {}{hint}", names().collect::<Vec<_>>().join(", ")))]
    })
}

fn criteria(node: Node) -> Result<Vec<Criterion>, Vec<LocatedProblem>> {
    each(list(node)?, criterion)
}

fn criterion(node: Node) -> Result<Criterion, Vec<LocatedProblem>> {
    let line = node.line;
    let entries = match node.value {
        Value::Text(words) => return Ok(Criterion::Words(words)),
        Value::Map(entries) => entries,
        _ => return expected("words, or a map with `command`", &node),
    };
    let (mut command, mut timeout_ms, mut problems) = (None, None, Vec::new());
    for (key, node) in entries {
        match key.name.as_str() {
            "command" => command = Some(text(node).map_err(|all| problems.extend(named("command", all)))),
            "timeout_ms" if matches!(node.value, Value::Null) => {}
            "timeout_ms" => match whole(&node) {
                Ok(limit) => timeout_ms = Some(limit),
                Err(all) => problems.extend(named("timeout_ms", all)),
            },
            _ => problems.push(unknown_key(&key, CRITERION_KEYS)),
        }
    }
    if command.is_none() {
        problems.push((
            line,
            "a criterion that is a map needs a `command`; words are written as text".to_owned(),
        ));
    }
    if let Some(Ok(command)) = &command
        && command.trim().is_empty()
    {
        // Reported here too: the check skips the criteria of a step if one of them could not be read.
        problems.push((line, "the command is empty".to_owned()));
    }
    match command {
        Some(Ok(command)) if problems.is_empty() => {
            Ok(Criterion::Command(CommandCriterion { command, timeout_ms }))
        }
        _ => Err(problems),
    }
}

fn named(key: &'static str, all: Vec<LocatedProblem>) -> impl Iterator<Item = LocatedProblem> {
    all.into_iter().map(move |(line, problem)| (line, format!("{key}: {problem}")))
}

fn budget(node: Node) -> Result<Budget, Vec<LocatedProblem>> {
    let Value::Map(entries) = &node.value else {
        return expected("a map with tokens, usd, agents or wall_ms", &node);
    };
    let is_known = |key: &Key| BUDGET_KEYS.contains(&key.name.as_str());
    let unknown: Vec<LocatedProblem> = entries
        .iter()
        .filter(|(key, _)| !is_known(key))
        .map(|(key, _)| unknown_key(key, BUDGET_KEYS))
        .collect();
    if !unknown.is_empty() {
        return Err(unknown);
    }
    let line = node.line;
    serde_json::from_value(node.into_json()).map_err(|error| vec![(line, error.to_string())])
}

fn schema(node: Node) -> Result<BTreeMap<String, serde_json::Value>, Vec<LocatedProblem>> {
    let line = node.line;
    if !matches!(node.value, Value::Map(_)) {
        return expected("a JSON Schema, which is a map", &node);
    }
    let value = node.into_json();
    if let Err(problem) = Schema::compile(&value) {
        return Err(vec![(line, format!("is not a JSON Schema that can be checked: {problem}"))]);
    }
    serde_json::from_value(value).map_err(|error| vec![(line, error.to_string())])
}
