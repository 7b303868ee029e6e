//! Patterns of schemas, matched in time that is linear in the text.

mod ecma;

use regex_automata::Input;
use regex_automata::hybrid::dfa::{Cache, DFA};
use regex_automata::nfa::thompson::{self, WhichCaptures};
use regex_automata::util::syntax;
use serde_json::Value;

use super::meter::{Limit, Meter};
use super::words::quote;

/// Largest pattern once it is compiled, and as much again for its tables.
pub(super) const PATTERN_MAX_BYTES: usize = 64 * 1024;
/// Most bytes of all patterns of a schema. Compiling takes a few microseconds for each byte, before the size is known.
pub(super) const PATTERN_TEXTS_MAX_BYTES: usize = 64 * 1024;
/// Deepest nesting of groups: the library compiles a group with a few frames of the stack.
const GROUPS_MAX: u32 = 50;
/// States of a pattern for which one byte of text is one step. In the worst case the engine follows every state for every
/// byte, and within one step it follows about this many.
const STATES_PER_STEP: usize = 256;

#[derive(Debug)]
pub(super) struct Pattern {
    text: String,
    automaton: DFA,
    steps_per_byte: usize,
}

impl Pattern {
    /// The error says what is wrong with the pattern.
    pub(super) fn compile(text: &str) -> Result<Self, String> {
        let shown = quote(&Value::from(text));
        let problem = |problem: &str| format!("{shown} is not a pattern that can be used: {problem}");
        let too_large = format!("it has more than {PATTERN_MAX_BYTES} bytes once it is compiled");
        let translated = ecma::translate(text).map_err(|error| problem(&error))?;
        let states = thompson::Config::new()
            .which_captures(WhichCaptures::None)
            .nfa_size_limit(Some(PATTERN_MAX_BYTES));
        let tables = DFA::config().cache_capacity(PATTERN_MAX_BYTES).skip_cache_capacity_check(true);
        let built = DFA::builder()
            .syntax(syntax::Config::new().nest_limit(GROUPS_MAX))
            .thompson(states)
            .configure(tables)
            .build(&translated);
        let automaton = built.map_err(|error| problem(&cause(&error, &too_large)))?;
        let steps_per_byte = 1 + automaton.get_nfa().states().len() / STATES_PER_STEP;
        Ok(Self { text: text.to_owned(), automaton, steps_per_byte })
    }

    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// The tables that matching fills. The caller keeps them for the next text.
    pub(super) fn cache(&self) -> Cache {
        self.automaton.create_cache()
    }

    /// Searches a text for the pattern. Returns whether it matches anywhere.
    pub(super) fn search(&self, text: &str, cache: &mut Cache, meter: &mut Meter) -> Result<bool, Limit> {
        meter.take(1 + text.len().saturating_mul(self.steps_per_byte))?;
        let found = self.automaton.try_search_fwd(cache, &Input::new(text).earliest(true));
        // The engine is configured never to give up. If it does, the check has no verdict.
        found.map(|end| end.is_some()).map_err(|_| Limit::Steps)
    }
}

/// The last line of the library's own message: the lines before it show the translated pattern, which the author of the
/// schema never saw.
fn cause(error: &(dyn std::error::Error + 'static), too_large: &str) -> String {
    let mut innermost = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    let text = innermost.to_string();
    if text.contains("size limit") || text.contains("exceeded") {
        return too_large.to_owned();
    }
    let last = text.lines().last().unwrap_or_default();
    last.strip_prefix("error: ").unwrap_or(last).to_owned()
}
