//! How the part after a pattern's colon is matched.
//!
//! Two kinds of text need two ways. A command line can be a hundred kilobytes, and every `*` in it means the
//! same: the literal pieces between the stars are looked for from left to right, which is linear. A path is
//! short, but `*` and `**` differ: all places of the pattern that can be reached are followed at once, one
//! character after the other. Neither ever goes back, so no pattern is slow on any text.

use super::pattern::PatternProblem;

/// The spelling of "no specifier": a lone backslash, which otherwise always stands before something.
pub(super) const NO_SPECIFIER: &str = "\\";

/// What specifiers a pattern matches.
#[derive(Debug)]
pub(super) enum Matcher {
    /// All of them.
    Every,
    /// Exactly this one.
    Exact(Box<str>),
    /// These pieces in this order with anything between them: the first begins the text, the last ends it.
    Pieces(Box<[Box<str>]>),
    /// A literal beginning, then tokens.
    Path(Box<str>, Box<[Token]>),
}

/// One place of a path pattern.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Token {
    /// This character.
    Char(char),
    /// `*`: anything within one name.
    Name,
    /// `**`: anything.
    Any,
    /// `**/`: no directory, or some.
    Directories,
    /// The `/` of a closing `/**`, which may also match nothing: the directory itself. `Any` follows.
    Below,
}

/// A specifier's text without its escapes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Atom {
    Char(char),
    Star,
    DoubleStar,
}

impl Matcher {
    /// Reads the specifier of a path tool's pattern, which is in the one spelling of paths.
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

    /// Reads the specifier of any other tool's pattern.
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

    /// Whether the specifier is matched; none is the empty text.
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

/// Escapes a text so that, read as a specifier, it matches itself only.
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
                // Three stars say no more than two.
                while chars.next_if_eq(&'*').is_some() {}
                Atom::DoubleStar
            }
            '*' => Atom::Star,
            c => Atom::Char(c),
        });
    }
    Ok(atoms)
}

/// Gives `**` its meaning by where it stands.
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
            // `**/.env` is also `.env`, `a/**/b` is also `a/b`: a deny must not be passed at the top.
            Atom::DoubleStar if (at == 0 || before == slash) && after == slash => {
                tokens.push(Token::Directories);
                at += 1;
            }
            // `secrets/**` is also `secrets`: listing a directory shows what is in it. `/**` names none.
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
        // The leftmost place leaves the most for the pieces to come, so it is never wrong to take it.
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

/// The places of a pattern that some reading of the text so far has reached.
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

    /// Reaches a place, and those beyond it if it may match nothing.
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

    /// Goes on from a place over one character.
    fn step(&mut self, at: usize, token: Token, c: char) {
        match token {
            Token::Char(expected) if expected == c => self.enter(at + 1),
            Token::Name if c != '/' => self.enter(at),
            Token::Any => self.enter(at),
            Token::Below if c == '/' => self.enter(at + 1),
            Token::Directories => {
                // Within a directory's name: only its `/` leads on, so the place is kept but not entered.
                self.reached[at] = true;
                if c == '/' {
                    self.enter(at + 1);
                }
            }
            Token::Char(_) | Token::Name | Token::Below => {}
        }
    }
}
