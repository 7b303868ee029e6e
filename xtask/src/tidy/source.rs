//! One Rust file for the rules: masked, with its declarations, imports and test code.

use std::ops::Range;

use super::mask::{MaskedSource, is_word, mask};

pub(crate) struct Source {
    /// From the workspace root, with `/`.
    pub(crate) path: String,
    pub(crate) original: String,
    pub(crate) masked: MaskedSource,
    /// The ranges of `#[cfg(test)]` items.
    tests: Vec<Range<usize>>,
    /// The whole file is test code: reached only through a test target or a `#[cfg(test)] mod`.
    pub(crate) all_tests: bool,
}

/// A keyword with a declared name.
pub(crate) struct Declaration<'a> {
    pub(crate) keyword: &'static str,
    pub(crate) name: &'a str,
    pub(crate) at: usize,
    pub(crate) end: usize,
}

impl Source {
    pub(crate) fn new(path: &str, source: &str) -> Self {
        let masked = mask(source);
        let tests = test_items(&masked.code);
        Self { path: path.to_owned(), original: source.to_owned(), masked, tests, all_tests: false }
    }

    /// The crate's folder name, or the first folder for files outside `crates/`.
    pub(crate) fn owner(&self) -> &str {
        let inside = self.path.strip_prefix("crates/").unwrap_or(&self.path);
        inside.split('/').next().unwrap_or_default()
    }

    /// Counted from one, as in editors.
    pub(crate) fn line(&self, at: usize) -> usize {
        self.masked.code[..at].matches('\n').count() + 1
    }

    pub(crate) fn is_test(&self, at: usize) -> bool {
        self.all_tests || self.tests.iter().any(|range| range.contains(&at))
    }

    /// How many lines are not test code.
    pub(crate) fn lines_before_tests(&self) -> usize {
        if self.all_tests {
            return 0;
        }
        let code = &self.masked.code;
        let in_tests: usize = self.tests.iter().map(|range| code[range.clone()].lines().count()).sum();
        code.lines().count().saturating_sub(in_tests)
    }

    /// Every `keyword name` in the code, in no particular order.
    pub(crate) fn declarations<'a>(&'a self, keywords: &[&'static str]) -> Vec<Declaration<'a>> {
        let code = self.masked.code.as_str();
        let mut found = Vec::new();
        for keyword in keywords {
            for at in words(code, keyword) {
                let rest = &code[at + keyword.len()..];
                let name = rest.trim_start();
                let len = name.find(|c| !is_word(c)).unwrap_or(name.len());
                // Without a space or a name it is a type (`fn(u8)`) or part of something else.
                if rest.starts_with(char::is_whitespace) && len > 0 {
                    let end = code.len() - name.len() + len;
                    found.push(Declaration { keyword, name: &name[..len], at, end });
                }
            }
        }
        found
    }

    /// Every path that a `use` imports, with groups expanded: `use std::{env, fs}` is two.
    pub(crate) fn imports(&self) -> Vec<(usize, String)> {
        let code = self.masked.code.as_str();
        let mut found = Vec::new();
        for at in words(code, "use") {
            let rest = &code[at + 3..];
            if let (true, Some(end)) = (rest.starts_with(char::is_whitespace), rest.find(';')) {
                expand("", &rest[..end], at, &mut found);
            }
        }
        found
    }
}

fn expand(prefix: &str, tree: &str, at: usize, found: &mut Vec<(usize, String)>) {
    let tree = tree.trim();
    let Some(open) = tree.find('{') else {
        let name = tree.split(" as ").next().unwrap_or_default().trim().trim_start_matches("::");
        let path =
            if name == "self" { prefix.trim_end_matches("::").to_owned() } else { format!("{prefix}{name}") };
        found.push((at, path));
        return;
    };
    let head: String = tree[..open].chars().filter(|c| !c.is_whitespace()).collect();
    let prefix = format!("{prefix}{}", head.trim_start_matches("::"));
    let inner = &tree[open + 1..tree.rfind('}').unwrap_or(tree.len())];
    let (mut depth, mut begin) = (0_usize, 0);
    for (offset, c) in inner.char_indices() {
        match c {
            '{' => depth += 1,
            '}' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => {
                expand(&prefix, &inner[begin..offset], at, found);
                begin = offset + 1;
            }
            _ => {}
        }
    }
    if !inner[begin..].trim().is_empty() {
        expand(&prefix, &inner[begin..], at, found);
    }
}

/// Where `needle` occurs as whole words: `tokio` is not found in `tokio_util`.
pub(crate) fn words<'a>(haystack: &'a str, needle: &'a str) -> impl Iterator<Item = usize> + 'a {
    let whole_before = !needle.starts_with(is_word);
    let whole_after = !needle.ends_with(is_word);
    haystack.match_indices(needle).map(|(at, _)| at).filter(move |at| {
        (whole_before || !haystack[..*at].ends_with(is_word))
            && (whole_after || !haystack[at + needle.len()..].starts_with(is_word))
    })
}

/// The end of the item that begins at `from`: after its closing brace or its semicolon, whichever is first.
pub(crate) fn item_end(code: &str, from: usize) -> usize {
    let mut nested = 0_usize;
    for (offset, c) in code[from..].char_indices() {
        match c {
            '(' | '[' => nested += 1,
            ')' | ']' => nested = nested.saturating_sub(1),
            ';' if nested == 0 => return from + offset + 1,
            '{' if nested == 0 => return block_end(code, from + offset),
            _ => {}
        }
    }
    code.len()
}

/// The end of the block whose brace opens at `open`, after its closing brace.
pub(crate) fn block_end(code: &str, open: usize) -> usize {
    let mut depth = 0_usize;
    for (offset, c) in code[open..].char_indices() {
        match c {
            '{' => depth += 1,
            '}' => {
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    return open + offset + 1;
                }
            }
            _ => {}
        }
    }
    code.len()
}

/// `any(test, …)` is not included: such an item is in the product too.
fn test_items(code: &str) -> Vec<Range<usize>> {
    let marks = ["#[cfg(test)]", "#[cfg(all(test,"];
    let mut starts: Vec<usize> =
        marks.iter().flat_map(|mark| code.match_indices(mark).map(|(at, _)| at)).collect();
    starts.sort_unstable();
    let mut items: Vec<Range<usize>> = Vec::new();
    for at in starts {
        // A nested item is already counted.
        if items.last().is_none_or(|outer| !outer.contains(&at)) {
            items.push(at..item_end(code, at));
        }
    }
    items
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(text: &str) -> Source {
        Source::new("crates/engine/src/x.rs", text)
    }

    #[test]
    fn the_owner_is_the_crates_folder() {
        assert_eq!(source("").owner(), "engine");
        assert_eq!(Source::new("xtask/src/main.rs", "").owner(), "xtask");
        assert_eq!(Source::new("tests/main.rs", "").owner(), "tests");
    }

    #[test]
    fn words_are_whole() {
        assert_eq!(words("tokio_util tokio::x my_tokio", "tokio").collect::<Vec<_>>(), [11]);
        assert_eq!(words("eprintln!() println!()", "println!").collect::<Vec<_>>(), [12]);
    }

    #[test]
    fn imports_are_written_out() {
        let text = "use std::{env::{self, var as v}, fs,\n    net::*};\nuse a::b;\nimpl<'a> X + use<'a> {}";
        let paths: Vec<String> = source(text).imports().into_iter().map(|(_, path)| path).collect();
        assert_eq!(paths, ["std::env", "std::env::var", "std::fs", "std::net::*", "a::b"]);
    }

    #[test]
    fn a_test_item_ends_with_its_block_or_semicolon() {
        let text = "#[cfg(test)]\nmod tests;\nfn a() {}\n#[cfg(test)]\n#[allow(x)]\nmod more {\n#[cfg(test)] fn b() {} }\nfn c() {}";
        let source = source(text);
        let in_test = |needle: &str| source.is_test(text.find(needle).unwrap());
        assert!(in_test("mod tests") && in_test("fn b"));
        assert!(!in_test("fn a") && !in_test("fn c"));
        assert_eq!(source.lines_before_tests(), 2);
    }

    #[test]
    fn declarations_have_a_keyword_and_a_name() {
        let source = source("pub struct A; fn b(f: fn(u8)) {} // struct C\n");
        let found: Vec<(&str, &str)> =
            source.declarations(&["struct", "fn"]).iter().map(|it| (it.keyword, it.name)).collect();
        assert_eq!(found, [("struct", "A"), ("fn", "b")]);
    }
}
