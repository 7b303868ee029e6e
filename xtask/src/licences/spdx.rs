//! Checks whether a licence expression can be satisfied by a set of accepted licences.
//!
//! Supports only the part of SPDX that package manifests use: `AND`, `OR`, `WITH`, parentheses, and the `/` that older
//! manifests write for `OR`.

/// Whether some choice among the expression's `OR`s is accepted throughout. A licence with an exception is one name,
/// `Apache-2.0 WITH LLVM-exception`, because an exception changes what is granted.
pub(crate) fn satisfied(expression: &str, accepted: &dyn Fn(&str) -> bool) -> Result<bool, String> {
    let spaced = expression.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ");
    let mut parser = Parser { words: spaced.split_whitespace().collect(), at: 0, accepted };
    let answer = parser.any_of()?;
    match parser.peek() {
        None => Ok(answer),
        Some(word) => Err(format!("unexpected `{word}` in `{expression}`")),
    }
}

/// Recursive descent; `AND` binds tighter than `OR`. Both sides are always parsed, so that nonsense behind an accepted
/// licence is still reported.
struct Parser<'a> {
    words: Vec<&'a str>,
    at: usize,
    accepted: &'a dyn Fn(&str) -> bool,
}

impl<'a> Parser<'a> {
    fn any_of(&mut self) -> Result<bool, String> {
        let mut answer = self.all_of()?;
        while self.take("OR") {
            answer |= self.all_of()?;
        }
        Ok(answer)
    }

    fn all_of(&mut self) -> Result<bool, String> {
        let mut answer = self.one()?;
        while self.take("AND") {
            answer &= self.one()?;
        }
        Ok(answer)
    }

    fn one(&mut self) -> Result<bool, String> {
        if self.take("(") {
            let answer = self.any_of()?;
            return if self.take(")") { Ok(answer) } else { Err("a parenthesis is not closed".to_owned()) };
        }
        let licence = self.name()?;
        if self.take("WITH") {
            let exception = self.name()?;
            return Ok((self.accepted)(&format!("{licence} WITH {exception}")));
        }
        Ok((self.accepted)(licence))
    }

    fn name(&mut self) -> Result<&'a str, String> {
        match self.peek() {
            Some(word) if !matches!(word, "AND" | "OR" | "WITH" | "(" | ")") => {
                self.at += 1;
                Ok(word)
            }
            Some(word) => Err(format!("a licence was expected before `{word}`")),
            None => Err("a licence was expected at the end".to_owned()),
        }
    }

    fn peek(&self) -> Option<&'a str> {
        self.words.get(self.at).copied()
    }

    fn take(&mut self, word: &str) -> bool {
        let there = self.peek() == Some(word);
        self.at += usize::from(there);
        there
    }
}

#[cfg(test)]
mod tests {
    use super::satisfied;

    fn with_mit_and_bsd(expression: &str) -> Result<bool, String> {
        satisfied(expression, &|licence| matches!(licence, "MIT" | "BSD-3-Clause"))
    }

    #[test]
    fn a_single_licence_is_looked_up() {
        assert_eq!(with_mit_and_bsd("MIT"), Ok(true));
        assert_eq!(with_mit_and_bsd("GPL-3.0-only"), Ok(false));
    }

    #[test]
    fn one_side_of_or_is_enough_and_both_of_and_are_needed() {
        assert_eq!(with_mit_and_bsd("GPL-3.0-only OR MIT"), Ok(true));
        assert_eq!(with_mit_and_bsd("MIT AND GPL-3.0-only"), Ok(false));
        assert_eq!(with_mit_and_bsd("MIT AND BSD-3-Clause"), Ok(true));
    }

    #[test]
    fn and_binds_tighter_than_or_unless_grouped() {
        assert_eq!(with_mit_and_bsd("MIT OR Zlib AND Zlib"), Ok(true));
        assert_eq!(with_mit_and_bsd("(MIT OR Zlib) AND Zlib"), Ok(false));
        assert_eq!(with_mit_and_bsd("(Apache-2.0 OR MIT) AND BSD-3-Clause"), Ok(true));
    }

    #[test]
    fn the_old_slash_means_or() {
        assert_eq!(with_mit_and_bsd("Unlicense/MIT"), Ok(true));
    }

    #[test]
    fn an_exception_is_part_of_the_name() {
        assert_eq!(with_mit_and_bsd("MIT WITH some-exception"), Ok(false));
        let accepted = |licence: &str| licence == "Apache-2.0 WITH LLVM-exception";
        assert_eq!(satisfied("Apache-2.0 WITH LLVM-exception OR Zlib", &accepted), Ok(true));
    }

    #[test]
    fn nonsense_is_an_error_even_behind_an_accepted_licence() {
        for bad in ["", "MIT OR", "(MIT", "MIT)", "MIT MIT", "AND MIT", "MIT WITH"] {
            assert!(with_mit_and_bsd(bad).is_err(), "{bad:?} was read");
        }
    }
}
