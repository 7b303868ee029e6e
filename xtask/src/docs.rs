//! `cargo xtask docs`: runs every example of README.md and docs/ with the built command, and compares what it prints with
//! what the page shows.
//!
//! Each page is one session in a new project of its own, from top to bottom. The language of a code block decides:
//!
//! - `console`: lines after `$ ` are commands, the lines below are their output; `...` stands for any lines. A command that
//!   ends with `# exits N` has to end with that code, every other one with 0. `--write` replaces outputs without `...`.
//! - `sh`: a script that has to succeed; its output is not shown.
//! - `console not-run: REASON`, `sh not-run: REASON`: an example that needs what ci does not have.
//! - `yaml file=NAME` and the like: a file of the project, which is written.
//!
//! Ids, numbers, times, sizes and paths differ from run to run, so they are not compared ([`output`]).

mod output;
mod page;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use self::page::{Block, Page};
use crate::command::{FreshDir, Profile, Program, build, root};
use crate::{Failure, Outcome};

/// The longest time of one block, in seconds: a command that waits for an answer must not block ci.
const BLOCK_MAX_SECONDS: &str = "60";
/// What separates the outputs of the commands of a block.
const MARK: char = '\u{1}';
/// The project that every page starts with, committed to git.
const PROJECT: &[(&str, &str)] = &[
    ("README.md", "# greet\n\nPrints a greeting.\n"),
    ("src/main.rs", "fn main() {\n    println!(\"hello\");\n}\n"),
    ("Cargo.toml", "[package]\nname = \"greet\"\nversion = \"0.1.0\"\nedition = \"2024\"\n"),
];

/// Runs the examples of all pages, or of those named; with `--write`, replaces the outputs they show.
pub(crate) fn run(args: &[String]) -> Outcome {
    let (flags, named): (Vec<&String>, Vec<&String>) = args.iter().partition(|arg| arg.starts_with("--"));
    let write = match flags.as_slice() {
        [] => false,
        [only] if *only == "--write" => true,
        _ => return Err(Failure::new("usage: cargo xtask docs [--write] [PAGE...]")),
    };
    let program = build(&Program::Binary("posse"), Profile::Dev)?;
    let pages = pages()?;
    let wanted = |path: &&PathBuf| named.is_empty() || named.iter().any(|name| path.ends_with(name));
    let pages: Vec<&PathBuf> = pages.iter().filter(wanted).collect();
    let fresh = FreshDir::for_tests()?;
    let results: Vec<Result<usize, Failure>> = std::thread::scope(|scope| {
        let started: Vec<_> = pages
            .iter()
            .enumerate()
            .map(|(number, path)| {
                let home = fresh.path().join(number.to_string());
                let program = &program;
                scope.spawn(move || run_page(path, &home, program, write))
            })
            .collect();
        let ended = |thread: std::thread::ScopedJoinHandle<'_, _>| {
            thread.join().unwrap_or_else(|_| Err(Failure::new("a page ended with a panic")))
        };
        started.into_iter().map(ended).collect()
    });
    let mut count = 0;
    let mut problems = Vec::new();
    for result in results {
        match result {
            Ok(commands) => count += commands,
            Err(failure) => problems.push(failure.to_string()),
        }
    }
    println!("{} pages, {count} examples", pages.len());
    if problems.is_empty() { Ok(()) } else { Err(Failure::new(problems.join("\n\n"))) }
}

/// README.md and the pages of the book. The reference is generated, and decisions are about the code.
fn pages() -> Result<Vec<PathBuf>, Failure> {
    let failed = |error: std::io::Error| Failure::new(format!("docs/: {error}"));
    let entries = fs::read_dir(root().join("docs")).map_err(failed)?;
    let mut pages: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    pages.retain(|path| path.extension().is_some_and(|extension| extension == "md"));
    pages.push(root().join("README.md"));
    pages.sort();
    Ok(pages)
}

/// Runs the examples of a page in a new home, and returns how many there are.
fn run_page(path: &Path, home: &Path, program: &Path, write: bool) -> Result<usize, Failure> {
    let name = path.strip_prefix(root()).unwrap_or(path).display().to_string();
    let failed = |error: std::io::Error| Failure::new(format!("{name}: {error}"));
    let text = fs::read_to_string(path).map_err(failed)?;
    let mut page = Page::parse(&text).map_err(|problem| Failure::new(format!("{name}:{problem}")))?;
    let session = Session { home: home.to_owned(), program: program.to_owned() };
    session.begin().map_err(failed)?;
    let mut count = 0;
    let mut problems = Vec::new();
    for (line, block) in &mut page.blocks {
        match block {
            Block::File { name, content } => session.write(name, content).map_err(failed)?,
            Block::Script(script) => {
                count += 1;
                let (printed, code) = session.run(&format!("set -e\n{script}")).map_err(failed)?;
                if code != 0 {
                    problems.push(format!("{name}:{line}: exit code {code}\n{printed}"));
                }
            }
            Block::Session(commands) => {
                count += commands.len();
                let (printed, _) = session.run(&page::script(commands, MARK)).map_err(failed)?;
                for (command, printed) in commands.iter_mut().zip(page::outputs(&printed, MARK)) {
                    if let Err(problem) = command.check(&printed, home, write) {
                        problems.push(format!("{name}:{line}: `{}`: {problem}", command.text));
                    }
                }
            }
        }
    }
    if write {
        fs::write(path, page.render(&text)).map_err(failed)?;
    }
    if problems.is_empty() { Ok(count) } else { Err(Failure::new(problems.join("\n\n"))) }
}

/// One user with a project, for the examples of one page.
struct Session {
    home: PathBuf,
    program: PathBuf,
}

impl Session {
    fn begin(&self) -> std::io::Result<()> {
        fs::create_dir_all(self.home.join("tmp"))?;
        for (name, content) in PROJECT {
            self.write(name, content)?;
        }
        let script = "git config --global user.name you; git config --global user.email you@example.com
            git config --global init.defaultBranch main
            git init -q && git add . && git commit -qm 'greet'";
        let (printed, code) = self.run(script)?;
        if code == 0 { Ok(()) } else { Err(std::io::Error::other(printed)) }
    }

    fn project(&self) -> PathBuf {
        self.home.join("project")
    }

    fn write(&self, name: &str, content: &str) -> std::io::Result<()> {
        let path = self.project().join(name);
        fs::create_dir_all(path.parent().unwrap_or(&path))?;
        fs::write(path, content)
    }

    /// Runs a script and returns what it printed, errors included, and its exit code.
    fn run(&self, script: &str) -> std::io::Result<(String, i32)> {
        let programs = self.program.parent().unwrap_or(&self.program).display();
        let output = Command::new("timeout")
            .args([BLOCK_MAX_SECONDS, "bash", "--noprofile", "--norc", "-c"])
            .arg(format!("exec 2>&1\n{script}"))
            .current_dir(self.project())
            .env_clear()
            .env("PATH", format!("{programs}:/usr/local/bin:/usr/bin:/bin"))
            .env("HOME", &self.home)
            .env(crate::command::TMPDIR, self.home.join("tmp"))
            .env("LANG", "C.UTF-8")
            .env("TZ", "UTC")
            // No server answers there, whatever runs on this machine.
            .env("OLLAMA_HOST", "127.0.0.1:9")
            .stdin(Stdio::null())
            .output()?;
        let printed = String::from_utf8_lossy(&output.stdout).into_owned();
        Ok((printed, output.status.code().unwrap_or(-1)))
    }
}
