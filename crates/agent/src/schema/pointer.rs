//! JSON pointers to places of schemas and answers, for the texts of problems.

/// One step of a pointer.
#[derive(Debug, Clone, Copy)]
pub(super) enum Token<'a> {
    Name(&'a str),
    Index(usize),
}

pub(super) fn pointer<'t>(tokens: impl IntoIterator<Item = &'t Token<'t>>) -> String {
    tokens.into_iter().fold(String::new(), |pointer, token| match token {
        Token::Name(name) => pointer + "/" + &name.replace('~', "~0").replace('/', "~1"),
        Token::Index(index) => format!("{pointer}/{index}"),
    })
}
