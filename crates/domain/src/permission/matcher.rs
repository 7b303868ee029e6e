//! Matches the specifier of a pattern, the part after its colon.
//!
//! Two kinds of text need two algorithms. A command line can be a hundred kilobytes, and every `*` in it means the
//! same: the matcher searches the literal pieces between the stars from left to right, in linear time. A path is short,
//! but `*` and `**` differ: the matcher follows all reachable positions of the pattern at once, one character after the
//! other. Neither backtracks, so no pattern is slow on any text.

use super::pattern::PatternProblem;

/// The pattern for "no specifier": a lone backslash, which otherwise always escapes a character.
pub(super) const NO_SPECIFIER: &str = "\\";

/// The specifiers that a pattern matches.
#[derive(Debug)]
pub(super) enum Matcher {
    Every,
    Exact(Box<str>),
    /// These pieces in this order with anything between them. The first begins the text, the last ends it.
    Pieces(Box<[Box<str>]>),
    /// A literal prefix, then tokens.
    Path(Box<str>, Box<[Token]>),
}

/// One position of a path pattern.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Token {
    Char(char),
    /// `*`: anything within one name.
    Name,
    /// `**`: anything.
    Any,
    /// `**/`: any number of directories, including zero.
    Directories,
    /// The `/` of a closing `/**`. It may match nothing, for the directory itself. `Any` follows.
    Below,
}

/// A unit of a specifier after unescaping.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Atom {
    Char(char),
    Star,
    DoubleStar,
}

impl Matcher {
    /// Parses the specifier of a path tool's pattern, which is a normalised path.
    pub(super) fn path(specifier: &str) -> Result<Self, PatternProblem> {
        let atoms = atoms(specifier)?;
        let literal = atoms.iter().map_while(|atom| atom.literal());
        if literal.clone().count() == atoms.len() {
            return Ok(Matcher::Exact(literal.collect()));
        }
        let tokens = tokens(&atoms);
        let mut beginning = String::new();
        for token in &tokens {
            let Token::Char(c) = token else { break };
            beginning.push(*c);
        }
        let rest = tokens[beginning.chars().count()..].into();
        Ok(Matcher::Path(beginning.into(), rest))
    }

    /// Parses the specifier of any other tool's pattern.
    pub(super) fn text(specifier: &str) -> Result<Self, PatternProblem> {
        let mut pieces = vec![String::new()];
        for atom in atoms(specifier)? {
            match (atom.literal(), pieces.last_mut()) {
                (Some(c), Some(piece)) => piece.push(c),
                _ => pieces.push(String::new()),
            }
        }
        let mut pieces: Vec<Box<str>> = pieces.into_iter().map(String::into_boxed_str).collect();
        match pieces.len() {
            1 => Ok(Matcher::Exact(pieces.remove(0))),
            _ => Ok(Matcher::Pieces(pieces.into())),
        }
    }

    /// Whether a specifier matches. An operation without specifier has the empty text.
    pub(super) fn matches(&self, text: &str) -> bool {
        match self {
            Matcher::Every => true,
            Matcher::Exact(exact) => **exact == *text,
            Matcher::Pieces(pieces) => pieces_match(pieces, text),
            Matcher::Path(beginning, tokens) => {
                text.strip_prefix(&**beginning).is_some_and(|rest| tokens_match(tokens, rest))
            }
        }
    }
}

impl Atom {
    fn literal(self) -> Option<char> {
        match self {
            Atom::Char(c) => Some(c),
            Atom::Star | Atom::DoubleStar => None,
        }
    }
}

/// Escapes a text so that, parsed as a specifier, it matches only itself.
pub(super) fn escape(text: &str) -> String {
    if text.is_empty() {
        return NO_SPECIFIER.into();
    }
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        if matches!(c, '*' | '\\') {
            escaped.push('\\');
        }
        escaped.push(c);
    }
    escaped
}

fn atoms(specifier: &str) -> Result<Vec<Atom>, PatternProblem> {
    if specifier == NO_SPECIFIER {
        return Ok(Vec::new());
    }
    let mut atoms = Vec::with_capacity(specifier.len());
    let mut chars = specifier.chars().peekable();
    while let Some(c) = chars.next() {
        atoms.push(match c {
            '\\' => match chars.next() {
                Some(escaped @ ('*' | '\\')) => Atom::Char(escaped),
                _ => return Err(PatternProblem::Escape),
            },
            '*' if chars.next_if_eq(&'*').is_some() => {
                // Three stars mean the same as two.
                while chars.next_if_eq(&'*').is_some() {}
                Atom::DoubleStar
            }
            '*' => Atom::Star,
            c => Atom::Char(c),
        });
    }
    Ok(atoms)
}

/// Interprets each `**` by its position.
fn tokens(atoms: &[Atom]) -> Vec<Token> {
    let slash = Some(&Atom::Char('/'));
    let mut tokens = Vec::with_capacity(atoms.len() + 1);
    let mut at = 0;
    while let Some(atom) = atoms.get(at) {
        let before = at.checked_sub(1).and_then(|i| atoms.get(i));
        let after = atoms.get(at + 1);
        match atom {
            Atom::Char(c) => tokens.push(Token::Char(*c)),
            Atom::Star => tokens.push(Token::Name),
            // `**/.env` also matches `.env`, `a/**/b` also `a/b`: a deny must apply at the top too.
            Atom::DoubleStar if (at == 0 || before == slash) && after == slash => {
                tokens.push(Token::Directories);
                at += 1;
            }
            // `secrets/**` also matches `secrets`, because listing a directory shows its entries. `/**` names no
            // directory.
            Atom::DoubleStar if at > 1 && before == slash && after.is_none() => {
                if tokens.last() == Some(&Token::Char('/')) {
                    tokens.pop();
                    tokens.push(Token::Below);
                }
                tokens.push(Token::Any);
            }
            Atom::DoubleStar => tokens.push(Token::Any),
        }
        at += 1;
    }
    tokens
}

fn pieces_match(pieces: &[Box<str>], text: &str) -> bool {
    let [first, between @ .., last] = pieces else { return false };
    let Some(mut rest) = text.strip_prefix(&**first) else { return false };
    for piece in between {
        // The leftmost match leaves the most text for the remaining pieces, so it is always right.
        let Some(found) = rest.find(&**piece) else { return false };
        rest = &rest[found + piece.len()..];
    }
    rest.ends_with(&**last)
}

fn tokens_match(tokens: &[Token], text: &str) -> bool {
    let mut now = MatchPositions::new(tokens);
    let mut next = MatchPositions::new(tokens);
    now.enter(0);
    for c in text.chars() {
        next.clear();
        for (at, token) in tokens.iter().enumerate() {
            if now.reached[at] {
                next.step(at, *token, c);
            }
        }
        std::mem::swap(&mut now, &mut next);
    }
    now.reached[tokens.len()]
}

/// The positions of a pattern that the text so far can reach.
struct MatchPositions<'a> {
    tokens: &'a [Token],
    reached: Vec<bool>,
}

impl<'a> MatchPositions<'a> {
    fn new(tokens: &'a [Token]) -> Self {
        Self { tokens, reached: vec![false; tokens.len() + 1] }
    }

    fn clear(&mut self) {
        self.reached.fill(false);
    }

    /// Reaches a position, and those beyond it if it may match nothing.
    fn enter(&mut self, from: usize) {
        let mut at = from;
        while !std::mem::replace(&mut self.reached[at], true) {
            match self.tokens.get(at) {
                Some(Token::Name | Token::Any | Token::Directories) => at += 1,
                Some(Token::Below) => at = self.tokens.len(),
                Some(Token::Char(_)) | None => return,
            }
        }
    }

    /// Advances from the position `at` over one character.
    fn step(&mut self, at: usize, token: Token, c: char) {
        match token {
            Token::Char(expected) if expected == c => self.enter(at + 1),
            Token::Name if c != '/' => self.enter(at),
            Token::Any => self.enter(at),
            Token::Below if c == '/' => self.enter(at + 1),
            Token::Directories => {
                // Within a directory's name: only its `/` advances, so the position is kept but not entered.
                self.reached[at] = true;
                if c == '/' {
                    self.enter(at + 1);
                }
            }
            Token::Char(_) | Token::Name | Token::Below => {}
        }
    }
}
