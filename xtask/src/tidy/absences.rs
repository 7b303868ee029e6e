//! Checks what code must not contain: a table of rules, each with its reason.
//!
//! The architecture is mostly absences: a crate is pure because of what it lacks. The compiler cannot see an absence,
//! so it is searched here, in code without comments (and, unless a rule says otherwise, without strings), so that docs
//! may name what code may not.

use std::collections::BTreeSet;

use super::Breach;
use super::mask::{Prose, is_word};
use super::source::{Source, words};

struct Rule {
    name: &'static str,
    why: &'static str,
    crates: Crates,
    tests: Tests,
    looks: &'static [SearchIn],
}

/// By folder name: `domain`, `cli`, ..., and `tests` and `xtask` for the folders at the root.
enum Crates {
    In(&'static [&'static str]),
    Outside(&'static [&'static str]),
}

/// How a rule treats test code.
#[derive(PartialEq)]
enum Tests {
    Exempt,
    Too,
    Only,
}

enum SearchIn {
    /// These words in code, or a path with these segments imported by `use`.
    Code(&'static str),
    /// These words in code or in a string.
    Text(&'static str),
    /// These letters in code or in a string, in any case.
    Letters(&'static str),
    /// What a function finds in a string literal, as it is in the source: positions and texts.
    Literal(fn(&str) -> Vec<(usize, &str)>),
    /// A name declared with one of the keywords.
    Name(&'static [&'static str], fn(&str) -> bool),
}

use SearchIn::{Code, Letters, Literal, Name, Text};

/// Crates that communicate with a user or a machine on purpose.
const OUTER: &[&str] = &["cli", "testkit", "tests", "xtask"];
/// The same, and the crate whose init is started with an argument.
const OUTER_AND_INIT: &[&str] = &["cli", "testkit", "tests", "xtask", "sandbox"];

const RULES: &[Rule] = &[
    Rule {
        name: "pure-async",
        why: "domain, agent and definitions are plain functions: the same `apply` serves the engine, recovery and verify",
        crates: Crates::In(&["domain", "agent", "definitions"]),
        tests: Tests::Exempt,
        looks: &[Code("async"), Code("await"), Code("tokio"), Code("futures"), Code("std::thread")],
    },
    Rule {
        name: "pure-clock",
        why: "a fold that reads a clock cannot be repeated; times arrive as arguments",
        crates: Crates::In(&["domain", "agent", "definitions"]),
        tests: Tests::Exempt,
        looks: &[
            Code("Instant::now"),
            Code("time::Instant"),
            Code("SystemTime"),
            Code("Timestamp::now"),
            Code("Zoned::now"),
            Code("Utc::now"),
        ],
    },
    Rule {
        name: "pure-random",
        why: "a fold that draws a random number cannot be repeated; ids arrive as arguments",
        crates: Crates::In(&["domain", "agent", "definitions"]),
        tests: Tests::Exempt,
        looks: &[
            Code("getrandom"),
            Code("fastrand"),
            Code("thread_rng"),
            Code("OsRng"),
            Code("RandomState"),
            Code("rand::random"),
            Code("rand::rng"),
        ],
    },
    Rule {
        name: "pure-world",
        why: "domain, agent and definitions touch no environment, file, process or network",
        crates: Crates::In(&["domain", "agent", "definitions"]),
        tests: Tests::Exempt,
        looks: &[Code("std::env"), Code("std::fs"), Code("std::net"), Code("std::process"), Code("std::os")],
    },
    Rule {
        name: "engine-vendor",
        why: "the engine names no vendor: models stand behind its model port",
        crates: Crates::In(&["engine"]),
        tests: Tests::Exempt,
        looks: &[
            Letters("anthropic"),
            Letters("openai"),
            Letters("gemini"),
            Letters("claude"),
            Letters("ollama"),
            Letters("mistral"),
            Letters("deepseek"),
            Letters("openrouter"),
        ],
    },
    Rule {
        name: "engine-sql",
        why: "the engine names no SQL: the store port promises guarantees, not tables",
        crates: Crates::In(&["engine"]),
        tests: Tests::Exempt,
        looks: &[
            Code("rusqlite"),
            Text("SELECT"),
            Text("INSERT INTO"),
            Text("DELETE FROM"),
            Text("CREATE TABLE"),
            Text("PRAGMA"),
        ],
    },
    Rule {
        name: "engine-os",
        why: "the engine names no operating system: files, sandbox and workspace stand behind its ports",
        crates: Crates::In(&["engine"]),
        tests: Tests::Exempt,
        looks: &[
            Code("rustix"),
            Code("libc"),
            Code("nix"),
            Code("std::os"),
            Code("target_os"),
            Code("cfg(unix)"),
            Code("cfg(windows)"),
        ],
    },
    Rule {
        name: "environment",
        why: "only cli reads the environment, the home or the working directory: settings are resolved once and passed as values",
        crates: Crates::Outside(OUTER),
        tests: Tests::Exempt,
        looks: &[
            Code("env::var"),
            Code("env::var_os"),
            Code("env::vars"),
            Code("env::vars_os"),
            Code("env::set_var"),
            Code("env::remove_var"),
            Code("env::temp_dir"),
            Code("env::current_dir"),
            Code("env::current_exe"),
            Code("home_dir"),
        ],
    },
    Rule {
        name: "arguments",
        why: "only cli reads what was typed; the sandbox's init knows by an argument that it is one",
        crates: Crates::Outside(OUTER_AND_INIT),
        tests: Tests::Exempt,
        looks: &[Code("env::args"), Code("env::args_os")],
    },
    Rule {
        name: "print",
        why: "only cli prints: a library that writes to a terminal cannot be embedded",
        crates: Crates::Outside(OUTER),
        tests: Tests::Exempt,
        looks: &[
            Code("println!"),
            Code("print!"),
            Code("eprintln!"),
            Code("eprint!"),
            Code("io::stdout"),
            Code("io::stderr"),
            Code("io::stdin"),
        ],
    },
    Rule {
        name: "command-in-message",
        why: "a library states what is wrong; the command states what to type, and another front end has no `posse` verbs, flags or variables: name the rule, the approval or the setting",
        crates: Crates::Outside(OUTER),
        tests: Tests::Exempt,
        looks: &[Letters("`posse "), Literal(flags), Literal(variables)],
    },
    Rule {
        name: "process",
        why: "processes are started by sandbox, which confines and ends them, by workspace for git, by setup for a run in the background, and by cli for itself",
        crates: Crates::Outside(&["cli", "setup", "sandbox", "workspace", "testkit", "tests", "xtask"]),
        tests: Tests::Exempt,
        looks: &[Code("process::Command"), Code("process::exit"), Code("process::abort")],
    },
    Rule {
        name: "network",
        why: "posse-egress is the one way of tools, engine and cli to the network: it judges every address; a second client would be one that does not",
        crates: Crates::Outside(&["egress", "models", "protocols", "testkit", "tests", "xtask"]),
        tests: Tests::Exempt,
        looks: &[
            Code("TcpStream"),
            Code("UdpSocket"),
            Code("lookup_host"),
            Code("ToSocketAddrs"),
            Code("hyper"),
            Code("hyper_util"),
            Code("axum"),
            Code("reqwest"),
            Code("ureq"),
            Code("tokio_rustls"),
        ],
    },
    Rule {
        name: "server-only",
        why: "posse-protocols accepts connections as a server and opens none: posse-egress judges every address that Posse calls",
        crates: Crates::In(&["protocols"]),
        tests: Tests::Exempt,
        looks: &[
            Code("TcpStream::connect"),
            Code("UdpSocket"),
            Code("lookup_host"),
            Code("hyper::client"),
            Code("hyper_util::client"),
            Code("reqwest"),
            Code("ureq"),
        ],
    },
    Rule {
        name: "working-directory",
        why: "the working directory is a value passed along, never process state: agents of one process have many",
        crates: Crates::Outside(&[]),
        tests: Tests::Too,
        looks: &[Code("set_current_dir")],
    },
    Rule {
        name: "unsafe",
        why: "only sandbox makes processes and talks to the kernel below its safe wrappers, so only sandbox may need unsafe",
        crates: Crates::Outside(&["sandbox"]),
        tests: Tests::Exempt,
        looks: &[Code("unsafe")],
    },
    Rule {
        name: "unsafe-in-test",
        why: "only tests of files and workspaces take privileges from a thread or cut a disk off, which has no safe form",
        crates: Crates::Outside(&["sandbox", "files", "workspace"]),
        tests: Tests::Only,
        looks: &[Code("unsafe")],
    },
    Rule {
        name: "sleep-in-test",
        why: "a test that sleeps is slow or flaky, mostly both: wait for what you expect, or move a virtual clock",
        crates: Crates::Outside(&[]),
        tests: Tests::Only,
        looks: &[Code("thread::sleep"), Code("time::sleep"), Code("time::sleep_until")],
    },
    Rule {
        name: "vocabulary",
        why: "one word for one thing: run, agent, child, step, definition, budget",
        crates: Crates::Outside(&[]),
        tests: Tests::Too,
        looks: &[Name(&["struct", "enum", "union", "trait", "type", "fn", "mod"], is_avoided)],
    },
    Rule {
        name: "version-in-name",
        why: "one current vocabulary: versions live in codecs, and a replacement deletes what it replaces",
        crates: Crates::Outside(&[]),
        tests: Tests::Too,
        looks: &[Name(&["struct", "enum", "union", "trait", "type"], is_versioned)],
    },
];

/// Where a rule does not apply to a text: the rule, the path or its prefix, the text that is found, and why.
const EXCEPTIONS: &[(&str, &str, &str, &str)] = &[
    (
        "command-in-message",
        "crates/models/src/wire/text_tools.rs",
        "--jinja",
        "an error message of a server, to be recognised",
    ),
    (
        "command-in-message",
        "crates/posse/src/api/schema.rs",
        "--json",
        "the schema is the one of the command's output with this flag",
    ),
    (
        "command-in-message",
        "crates/sandbox/src/error.rs",
        "--security-opt",
        "a flag of the programs that start containers",
    ),
    (
        "command-in-message",
        "crates/domain/src/skill.rs",
        "POSSE_SKILL_",
        "a variable that the commands of an agent have, whatever the front end is",
    ),
    (
        "command-in-message",
        "crates/setup/src/environment.rs",
        "POSSE_",
        "the names of the variables, not a message",
    ),
    (
        "command-in-message",
        "crates/setup/src/settings/variables.rs",
        "POSSE_TEST_",
        "a prefix of variables that are no settings, not a message",
    ),
];

/// Programs whose flags a message may name in backticks, with the program: `git config --list`.
const OTHER_PROGRAMS: &[&str] = &["git "];

pub(crate) fn check(source: &Source) -> Vec<Breach> {
    RULES.iter().filter(|rule| rule.crates.include(source)).flat_map(|rule| rule.breaches(source)).collect()
}

impl Crates {
    fn include(&self, source: &Source) -> bool {
        let owner = source.owner();
        match self {
            Self::In(names) => names.contains(&owner),
            Self::Outside(names) => !names.contains(&owner),
        }
    }
}

impl Rule {
    /// One breach per line, however many patterns match it.
    fn breaches(&self, source: &Source) -> Vec<Breach> {
        let mut lines = BTreeSet::new();
        let mut breaches = Vec::new();
        for (at, found) in self.looks.iter().flat_map(|look| look.hits(source)) {
            let counts = match self.tests {
                Tests::Too => true,
                Tests::Exempt => !source.is_test(at),
                Tests::Only => source.is_test(at),
            };
            let line = source.line(at);
            if counts && !self.excepts(source, &found) && lines.insert(line) {
                let place = format!("{}:{line}", source.path);
                breaches.push(Breach { place, rule: self.name, found: format!("`{found}`"), why: self.why });
            }
        }
        breaches
    }

    fn excepts(&self, source: &Source, found: &str) -> bool {
        EXCEPTIONS.iter().any(|(rule, path, text, _)| {
            *rule == self.name && source.path.starts_with(path) && found.starts_with(text)
        })
    }
}

impl SearchIn {
    fn hits(&self, source: &Source) -> Vec<(usize, String)> {
        let at_words =
            |text: &str, needle: &str| words(text, needle).map(|at| (at, needle.to_owned())).collect();
        match self {
            Code(needle) => {
                let mut found: Vec<(usize, String)> = at_words(&source.masked.code, needle);
                let brought_in = source.imports().into_iter().filter(|(_, path)| has_segments(path, needle));
                found.extend(brought_in);
                found
            }
            Text(needle) => at_words(&source.masked.text, needle),
            Letters(needle) => {
                let lower = source.masked.text.to_ascii_lowercase();
                lower.match_indices(needle).map(|(at, _)| (at, (*needle).to_owned())).collect()
            }
            Literal(find) => {
                let literals = source.masked.prose.iter().filter(|(_, prose)| *prose == Prose::Literal);
                let found = literals.flat_map(|(range, _)| {
                    let found = find(&source.original[range.clone()]).into_iter();
                    found.map(|(at, text)| (range.start + at, text.to_owned()))
                });
                found.collect()
            }
            Name(keywords, avoided) => source
                .declarations(keywords)
                .into_iter()
                .filter(|declaration| avoided(declaration.name))
                .map(|declaration| (declaration.at, format!("{} {}", declaration.keyword, declaration.name)))
                .collect(),
        }
    }
}

/// Flags in a text. A literal that is one word, or that begins with a flag and its value (`--format=%an %ae`), is the
/// argument of a program, and a span in backticks may be the command of another program.
fn flags(literal: &str) -> Vec<(usize, &str)> {
    if !literal.contains(char::is_whitespace) {
        return Vec::new();
    }
    let is_flag = |c: char| c.is_ascii_lowercase() || c == '-';
    let flags = literal.match_indices("--").filter_map(|(at, _)| {
        let (before, rest) = literal.split_at(at);
        let end = rest.find(|c| !is_flag(c)).unwrap_or(rest.len());
        let begins = before.ends_with(|c: char| c.is_whitespace() || "\"'`(".contains(c));
        let named = rest[2..].starts_with(|c: char| c.is_ascii_lowercase());
        let in_backticks = before.matches('`').count() % 2 == 1;
        let span = before.rsplit('`').next().filter(|_| in_backticks).unwrap_or_default();
        let is_other = OTHER_PROGRAMS.iter().any(|program| span.starts_with(program));
        let is_argument = before == "\"" && rest[end..].starts_with('=');
        (begins && named && !is_other && !is_argument).then(|| (at, &rest[..end]))
    });
    flags.collect()
}

/// The command's variables in a text.
fn variables(literal: &str) -> Vec<(usize, &str)> {
    let end = |rest: &str| rest.find(|c| !is_word(c)).unwrap_or(rest.len());
    let found = literal.match_indices("POSSE_").filter(|(at, _)| !literal[..*at].ends_with(is_word));
    found.map(|(at, _)| (at, &literal[at..at + end(&literal[at..])])).collect()
}

/// Whether the path contains the needle's segments in sequence: `std::env::var` contains `std::env` and `env::var`.
fn has_segments(path: &str, needle: &str) -> bool {
    let (path, needle): (Vec<&str>, Vec<&str>) = (path.split("::").collect(), needle.split("::").collect());
    path.windows(needle.len()).any(|window| window == needle)
}

/// Words that the glossary replaces and that other programs use: a text may name theirs, a name of ours may not.
fn is_avoided(name: &str) -> bool {
    name_parts(name).iter().any(|part| ["workflow", "workflows", "quota"].contains(&part.as_str()))
}

/// `ContractV2`, but not `Ipv4`.
fn is_versioned(name: &str) -> bool {
    let stem = name.trim_end_matches(|c: char| c.is_ascii_digit());
    let before = stem.strip_suffix('V').and_then(|rest| rest.chars().next_back());
    stem.len() < name.len() && before.is_some_and(|c| c.is_lowercase() || c.is_ascii_digit())
}

/// `SubSession` and `sub_session` are both `sub`, `session`.
pub(super) fn name_parts(name: &str) -> Vec<String> {
    let mut parts: Vec<String> = vec![String::new()];
    let mut after_lower = false;
    for c in name.chars() {
        if c == '_' || (c.is_uppercase() && after_lower) {
            parts.push(String::new());
        }
        if let Some(part) = parts.last_mut().filter(|_| c != '_') {
            part.extend(c.to_lowercase());
        }
        after_lower = c.is_lowercase() || c.is_ascii_digit();
    }
    parts.retain(|part| !part.is_empty());
    parts
}

#[cfg(test)]
mod tests;
