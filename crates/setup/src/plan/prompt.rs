//! Builds the planner's prompts and finds the plan in its answers.
//!
//! Why it is like this: `docs/decisions/plan-auto-author.md`.

use std::fmt::Write;

use posse_domain::definition::Definition;

use super::PlanProblem;
use super::read::PLAN_KEYS;
use posse::Definitions;

/// The format, as the planner reads it.
const FORMAT: &str = include_str!("request.md");
/// How much of a first answer the second request repeats.
const ANSWER_MAX_BYTES: usize = 256 * 1024;

/// The prompt for a plan with steps that this root may spawn.
pub fn first_request(goal: &str, definitions: &Definitions, root: &Definition) -> String {
    let mut request = format!("{FORMAT}\nThe agents:\n");
    for definition in definitions.spawnable(root) {
        let Definition { name, description, tools, .. } = definition.as_ref();
        // Writing to a string does not fail.
        let _ = writeln!(request, "- `{name}`: {description} Its tools: {}.", tools.join(", "));
    }
    let _ = write!(request, "\nThe goal:\n\n{}\n", goal.trim());
    request
}

/// The prompt for a corrected plan, with the first answer and its problems.
pub fn second_request(first_request: &str, answer: &str, problems: &[PlanProblem]) -> String {
    let answer = &answer[..answer.floor_char_boundary(ANSWER_MAX_BYTES)];
    let mut request = format!(
        "{first_request}\nYou have answered this before. Your answer:\n\n{}\n\nWhat is wrong with it, with the line \
         of the document:\n\n",
        answer.trim_end()
    );
    for problem in problems {
        let line = problem.line.map(|line| format!("line {line}: ")).unwrap_or_default();
        // Writing to a string does not fail.
        let _ = writeln!(request, "- {line}{problem}");
    }
    request.push_str("\nAnswer with the whole document, corrected, and no other text.\n");
    request
}

/// The document in an answer: the first fenced block that could be a plan, or the text from the plan's first key on, or
/// all of it.
pub fn document(answer: &str) -> &str {
    let fenced = fenced_blocks(answer);
    if let Some(block) = fenced.iter().find(|block| has_key(block)).or(fenced.first()) {
        return block;
    }
    let mut start = 0;
    for line in answer.split_inclusive('\n') {
        if begins_with_key(line) {
            return &answer[start..];
        }
        start += line.len();
    }
    answer
}

/// The contents of fenced blocks. A fence inside a document is indented, so only fences at the margin count.
fn fenced_blocks(text: &str) -> Vec<&str> {
    let (mut blocks, mut opened, mut start) = (Vec::new(), None, 0);
    for line in text.split_inclusive('\n') {
        let end = start + line.len();
        if line.starts_with("```") {
            match opened.take() {
                None => opened = Some(end),
                Some(from) => blocks.push(&text[from..start]),
            }
        }
        start = end;
    }
    // A truncated answer ends inside its block.
    blocks.extend(opened.map(|from| &text[from..]));
    blocks
}

fn has_key(block: &str) -> bool {
    block.lines().any(begins_with_key) || block.trim_start().starts_with('{')
}

fn begins_with_key(line: &str) -> bool {
    PLAN_KEYS.iter().any(|key| line.strip_prefix(key).is_some_and(|rest| rest.starts_with(':')))
}
