//! The project's own commands: `cargo xtask <verb>`.
//!
//! They are Rust and not shell so that they run wherever the project builds, and so that the rules they enforce have
//! tests. A command is one file; a new one needs its `mod` line and its row in [`VERBS`].

mod animation;
mod bench;
mod campaigns;
mod ci;
mod command;
mod docs;
mod faults;
mod fresh_filesystem;
mod fuzz;
mod licences;
mod matrix;
mod packages;
mod quick;
mod reference;
mod replays;
mod sdks;
mod tidy;
mod web;

use std::fmt;
use std::process::ExitCode;

/// A command that a user can type after `cargo xtask`.
struct Verb {
    name: &'static str,
    about: &'static str,
    run: fn(&[String]) -> Outcome,
}

const VERBS: &[Verb] = &[
    Verb {
        name: "ci",
        about: "every check a change has to pass, or the stages named; `quick` for one change",
        run: ci::run,
    },
    Verb { name: "tidy", about: "layers, absences and sizes that the compiler cannot see", run: tidy::run },
    Verb { name: "animation", about: "records the demo and writes docs/demo.svg", run: animation::run },
    Verb {
        name: "docs",
        about: "runs every example of README.md and docs/: [--write] [PAGE...]",
        run: docs::run,
    },
    Verb {
        name: "reference",
        about: "writes docs/reference and tests/voice.txt from the code",
        run: reference::run,
    },
    Verb {
        name: "voice",
        about: "writes tests/voice.txt: every text that a user can read, for reviewers",
        run: tidy::write_voice,
    },
    Verb {
        name: "bench",
        about: "what it costs, beside the limits: [--quick] [--json FILE] [GROUP...]",
        run: bench::run,
    },
    Verb {
        name: "faults",
        about: "kills and resumes: [--points] [--random N] [--short] [--seed S] [--json FILE]; --power [--rounds N]",
        run: faults::run,
    },
    Verb { name: "campaigns", about: "the random tests at their full length", run: campaigns::run },
    Verb {
        name: "matrix",
        about: "the tests of workspaces: [overlays|copies] [root|ordinary], or all four",
        run: matrix::run,
    },
    Verb {
        name: "fuzz",
        about: "reads front matter that a fuzzer makes up: [--seconds N]; [--input FILE] reads one file again",
        run: fuzz::run,
    },
    Verb {
        name: "sdks",
        about: "whether the official SDKs understand the mock model server",
        run: sdks::run,
    },
    Verb {
        name: "web",
        about: "builds the page in crates/protocols/page; `check`: it is the built one; `test`: in a browser",
        run: web::run,
    },
    Verb { name: "licences", about: "licences, sources and versions of dependencies", run: licences::run },
];

/// The result of a command or a stage.
type Outcome = Result<(), Failure>;

/// The reason of a failure, as text for the user at the terminal. No code depends on it.
#[derive(Debug)]
struct Failure(String);

impl Failure {
    fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let (name, rest) = args.split_first().map_or(("help", &[][..]), |(name, rest)| (name.as_str(), rest));
    if matches!(name, "help" | "-h" | "--help") {
        println!("{}", usage());
        return ExitCode::SUCCESS;
    }
    if name == matrix::AS_USER {
        return ended(name, matrix::become_user(rest));
    }
    let Some(verb) = VERBS.iter().find(|verb| verb.name == name) else {
        eprintln!("xtask: unknown verb `{name}`\n\n{}", usage());
        return ExitCode::from(2);
    };
    ended(name, (verb.run)(rest))
}

fn ended(name: &str, outcome: Outcome) -> ExitCode {
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("xtask {name}: {failure}");
            ExitCode::FAILURE
        }
    }
}

fn usage() -> String {
    let rows = VERBS.iter().map(|verb| (verb.name, verb.about)).chain([("help", "this text")]);
    let rows = rows.map(|(name, about)| format!("  {name:<10} {about}"));
    let head = ["usage: cargo xtask <verb>".to_owned(), String::new()];
    head.into_iter().chain(rows).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usage_names_every_verb() {
        let text = usage();
        assert!(VERBS.iter().all(|verb| text.contains(&format!("\n  {} ", verb.name))));
    }
}
