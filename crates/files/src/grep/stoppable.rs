//! Matches expressions so that a search can be stopped even within a line.
//!
//! A regex engine cannot be interrupted, and in the worst case it follows every state of the expression for every byte.
//! So it gets only as many lines at once as are little work even then. A line that is too long for that is matched byte
//! by byte, with checks of the stop flag in between.

use std::cell::RefCell;
use std::sync::OnceLock;

use grep_matcher::{ByteSet, LineMatchKind, LineTerminator, Match, Matcher, NoCaptures, NoError};
use grep_regex::RegexMatcher;
use regex_automata::Input;
use regex_automata::hybrid::dfa::{Cache, DFA};
use regex_automata::nfa::thompson::{self, WhichCaptures};
use regex_automata::util::syntax;
use thiserror::Error;

use super::GrepQuery;
use crate::Stop;

/// Maximum work between two checks of the flag: bytes of the compiled expression times bytes of text. Two tenths of a
/// second in a build without optimisation.
const WORK_AT_ONCE_MAX: usize = 512 * 1024 * 1024;
/// How many bytes are matched one by one between two checks. Each may have to follow every state of the expression.
const STEPS_AT_ONCE: usize = 64;

/// An expression, and the longest line that it is matched with.
pub(super) struct Expression {
    pub(super) matcher: RegexMatcher,
    pub(super) regex_max_bytes: usize,
    pub(super) line_max_bytes: usize,
    pattern: String,
    case_insensitive: bool,
    /// The expression as a DFA for long lines. None if it cannot be matched byte by byte.
    steps: OnceLock<Option<DFA>>,
}

impl Expression {
    pub(super) fn new(
        matcher: RegexMatcher,
        (regex_max_bytes, line_max_bytes): (usize, usize),
        query: &GrepQuery,
    ) -> Self {
        let (pattern, case_insensitive) = (query.pattern.clone(), query.case_insensitive);
        Self { matcher, regex_max_bytes, line_max_bytes, pattern, case_insensitive, steps: OnceLock::new() }
    }

    fn steps(&self) -> Option<&DFA> {
        let build = || {
            let syntax = syntax::Config::new()
                .case_insensitive(self.case_insensitive)
                .multi_line(true)
                .crlf(true)
                .utf8(false);
            let states = thompson::Config::new()
                .utf8(false)
                .which_captures(WhichCaptures::None)
                .nfa_size_limit(Some(self.regex_max_bytes));
            // Unicode word boundaries cannot be matched byte by byte: a line with non-ASCII letters ends the search of
            // its file.
            let config = DFA::config().unicode_word_boundary(true).skip_cache_capacity_check(true);
            DFA::builder().syntax(syntax).thompson(states).configure(config).build(&self.pattern).ok()
        };
        self.steps.get_or_init(build).as_ref()
    }
}

/// Why it is unknown whether something matches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub(super) enum NoMatchReason {
    #[error("the search was stopped")]
    Stopped,
    #[error("a line is too long for this expression")]
    TooLong,
}

impl From<NoError> for NoMatchReason {
    fn from(_: NoError) -> Self {
        Self::TooLong
    }
}

/// An expression as one thread of a search uses it.
pub(super) struct StoppableMatcher<'a> {
    expression: &'a Expression,
    stop: &'a Stop,
    cache: RefCell<Option<Cache>>,
}

impl<'a> StoppableMatcher<'a> {
    pub(super) fn new(expression: &'a Expression, stop: &'a Stop) -> Self {
        Self { expression, stop, cache: RefCell::new(None) }
    }

    fn check(&self) -> Result<(), NoMatchReason> {
        if self.stop.is_stopped() { Err(NoMatchReason::Stopped) } else { Ok(()) }
    }

    /// The first result in whole lines from `at` on. `few` searches several lines between two offsets, and `long`
    /// converts the end of a match in one long line to a result.
    fn by_lines<T>(
        &self,
        haystack: &[u8],
        at: usize,
        few: impl Fn(usize, usize) -> Result<Option<T>, NoError>,
        long: impl Fn(usize) -> T,
    ) -> Result<Option<T>, NoMatchReason> {
        let most = WORK_AT_ONCE_MAX / self.expression.regex_max_bytes;
        let mut from = at;
        loop {
            self.check()?;
            let (end, is_long) = lines_end(haystack, from, most);
            let found = if is_long { self.follow(haystack, from, end)?.map(&long) } else { few(from, end)? };
            if found.is_some() || end == haystack.len() {
                return Ok(found);
            }
            from = end;
        }
    }

    /// The end of the first match in a line.
    fn follow(&self, haystack: &[u8], from: usize, end: usize) -> Result<Option<usize>, NoMatchReason> {
        let dfa = self.expression.steps().ok_or(NoMatchReason::TooLong)?;
        let mut cache = self.cache.borrow_mut();
        let cache = cache.get_or_insert_with(|| dfa.create_cache());
        let line = haystack[..end].strip_suffix(b"\n").unwrap_or(&haystack[..end]);
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let start = |cache: &mut Cache, at: usize| {
            let input = Input::new(line).span(at..line.len());
            dfa.start_state_forward(cache, &input).map_err(|_| NoMatchReason::TooLong)
        };
        let mut state = start(cache, from)?;
        for (number, byte) in line[from..].iter().enumerate() {
            if number % STEPS_AT_ONCE == 0 {
                self.check()?;
            }
            state = dfa.next_state(cache, state, *byte).map_err(|_| NoMatchReason::TooLong)?;
            if state.is_match() {
                // The DFA reports a match one byte late.
                return Ok(Some(from + number));
            }
            if state.is_dead() {
                return Ok(None);
            }
            if state.is_quit() {
                return Err(NoMatchReason::TooLong);
            }
            // The regex engine lets nothing match a line end, not even one in the middle.
            if *byte == b'\r' {
                state = start(cache, from + number + 1)?;
            }
        }
        state = dfa.next_eoi_state(cache, state).map_err(|_| NoMatchReason::TooLong)?;
        Ok(state.is_match().then_some(line.len()))
    }
}

/// The end of the lines that begin at `from`: as many as fit into `most` bytes, or one that does not fit.
fn lines_end(haystack: &[u8], from: usize, most: usize) -> (usize, bool) {
    let rest = &haystack[from..];
    if rest.len() <= most {
        return (haystack.len(), false);
    }
    if let Some(last) = rest[..most].iter().rposition(|byte| *byte == b'\n') {
        return (from + last + 1, false);
    }
    let end = rest.iter().position(|byte| *byte == b'\n').map_or(haystack.len(), |at| from + at + 1);
    (end, true)
}

impl Matcher for StoppableMatcher<'_> {
    type Captures = NoCaptures;
    type Error = NoMatchReason;

    /// In a long line only the end of a match is known.
    fn find_at(&self, haystack: &[u8], at: usize) -> Result<Option<Match>, NoMatchReason> {
        let few = |from, end| self.expression.matcher.find_at(&haystack[..end], from);
        self.by_lines(haystack, at, few, |end| Match::new(end, end))
    }

    fn shortest_match_at(&self, haystack: &[u8], at: usize) -> Result<Option<usize>, NoMatchReason> {
        let few = |from, end| self.expression.matcher.shortest_match_at(&haystack[..end], from);
        self.by_lines(haystack, at, few, |end| end)
    }

    fn find_candidate_line(&self, haystack: &[u8]) -> Result<Option<LineMatchKind>, NoMatchReason> {
        let few = |from, end| {
            let found = self.expression.matcher.find_candidate_line(&haystack[from..end])?;
            Ok(found.map(|found| match found {
                LineMatchKind::Confirmed(at) => LineMatchKind::Confirmed(from + at),
                LineMatchKind::Candidate(at) => LineMatchKind::Candidate(from + at),
            }))
        };
        self.by_lines(haystack, 0, few, LineMatchKind::Confirmed)
    }

    fn new_captures(&self) -> Result<NoCaptures, NoMatchReason> {
        Ok(NoCaptures::new())
    }

    fn non_matching_bytes(&self) -> Option<&ByteSet> {
        self.expression.matcher.non_matching_bytes()
    }

    fn line_terminator(&self) -> Option<LineTerminator> {
        self.expression.matcher.line_terminator()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expression(pattern: &str, case_insensitive: bool) -> Expression {
        let query = GrepQuery { pattern: pattern.to_owned(), case_insensitive, ..GrepQuery::default() };
        Expression::compile(&query).expect("an expression")
    }

    /// A line that is too long to be matched at once, with a text in its middle.
    fn long_line(expression: &Expression, text: &str) -> Vec<u8> {
        let half = WORK_AT_ONCE_MAX / expression.regex_max_bytes;
        [&vec![b'-'; half], text.as_bytes(), &vec![b'-'; half]].concat()
    }

    #[test]
    fn a_search_is_stopped_within_a_line() {
        for pattern in [r"(?-u)[a-z-]{1,2000}x$", r"(?-u)[a-z-]{1,200}x$", "needle$"] {
            let expression = expression(pattern, false);
            let line = long_line(&expression, "");
            let looks = line.len() / STEPS_AT_ONCE;
            let stop = Stop::after(looks / 2);
            let found = StoppableMatcher::new(&expression, &stop).shortest_match(&line);
            assert_eq!(found, Err(NoMatchReason::Stopped), "{pattern}");
            // A whole line takes one check of the flag per piece.
            let stop = Stop::after(looks * 2);
            let found = StoppableMatcher::new(&expression, &stop).shortest_match(&line);
            assert_eq!(found, Ok(None), "{pattern}");
            assert!(stop.looks() >= looks, "{pattern}: {} looks", stop.looks());
        }
    }

    #[test]
    fn a_search_is_stopped_between_lines() {
        let expression = expression(r"(?-u)[a-z-]{1,2000}x$", false);
        let lines = b"abcdefgh\n".repeat(WORK_AT_ONCE_MAX / expression.regex_max_bytes);
        let stop = Stop::after(5);
        let found = StoppableMatcher::new(&expression, &stop).find_candidate_line(&lines);
        assert!(matches!(found, Err(NoMatchReason::Stopped)), "{found:?}");
    }

    #[test]
    fn a_long_line_matches_what_it_would_match_at_once() {
        let texts = ["", "needle", "Needle", "a needle.", "näedle", "x", "-\r", "needle\r", "a\rneedle"];
        for (pattern, case_insensitive) in [
            ("needle", false),
            ("needle", true),
            ("^-+needle", false),
            ("needle-+$", false),
            (r"\bneedle\b", false),
            (r"(?-u:\b)needle(?-u:\b)", false),
            (r"n\w{5}", false),
            (r"n\pL{1,20}e", true),
            ("^$", false),
            ("-$", false),
            ("a[^b]needle", false),
            (r"(?s)a.needle", false),
            (r"^\s*needle", false),
            (r"a$", false),
            ("a.needle|x-", false),
            ("(?i:NEEDLE)[^-]", false),
        ] {
            let expression = expression(pattern, case_insensitive);
            let stop = Stop::new();
            let watched = StoppableMatcher::new(&expression, &stop);
            for text in texts {
                let line = long_line(&expression, text);
                let expected = expression.matcher.is_match(&line).expect("no error");
                let found = watched.is_match(&line);
                // A word boundary in a line with non-ASCII letters is given up, but never wrong.
                let is_given_up = pattern == r"\bneedle\b" && !text.is_ascii();
                assert!(
                    found == Ok(expected) || is_given_up && found == Err(NoMatchReason::TooLong),
                    "{pattern} in {text:?}: {found:?}, and not {expected}"
                );
            }
        }
    }

    #[test]
    fn a_boundary_of_words_is_found_in_a_long_line_with_other_letters() {
        let expression = expression(r"\bneedle\b", false);
        let stop = Stop::new();
        let line = "ä, ".repeat(40_000) + "needle";
        assert_eq!(StoppableMatcher::new(&expression, &stop).is_match(line.as_bytes()), Ok(true));
    }

    #[test]
    fn lines_are_looked_at_a_few_at_a_time_without_losing_one() {
        let pattern = r"(?-u)[a-z]{1,2000}x\d$";
        let expression = expression(pattern, false);
        let stop = Stop::new();
        let watched = StoppableMatcher::new(&expression, &stop);
        let lines: Vec<String> = (0..20_000).map(|n| format!("line number {n}\r\n")).collect();
        for marked in [0, 1, 9_999, 19_999] {
            let mut lines = lines.clone();
            lines[marked] = "abcx1\n".to_owned();
            let before: usize = lines[..marked].iter().map(String::len).sum();
            let found = watched.shortest_match(lines.concat().as_bytes());
            assert_eq!(found, Ok(Some(before + "abcx1".len())), "{marked}");
        }
    }
}
