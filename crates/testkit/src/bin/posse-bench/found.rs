//! Measures the cost of finding definitions and skills: a list of them, and a run that uses none, compared with a home
//! without any.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::fs::{Advice, fadvise};

use crate::Plan;
use crate::command::{beside_this, ms};
use crate::report::Report;

/// Number of rounds. The best counts, because other work of the machine only adds time.
const ROUNDS: usize = 10;
const DEFINITIONS: usize = 500;
const SKILLS: usize = 200;
/// Lines of a prompt, so that a file is as long as typical shared ones.
const LINES: usize = 40;
/// Limit for finding all of them, in milliseconds.
const LIMIT_MS: f64 = 30.0;

pub(crate) fn measure(plan: &Plan, report: &mut Report) {
    // The command group has already reported that the command is not built.
    let Some(posse) = beside_this() else { return };
    let rounds = if plan.quick { 1 } else { ROUNDS };
    let (without, with) = (Person::new(plan), Person::new(plan).furnished());
    for (name, args) in [
        ("`posse skills` with 500 definitions and 200 skills, cold, beyond none", &["skills"][..]),
        (
            "`posse run` that can reach none of them, cold, beyond none",
            &["run", "--agent", "explore", "--model", "scripted/script.yaml", "Look."],
        ),
        (
            "`posse run` that can reach all of them, cold, beyond none",
            &["run", "--model", "scripted/script.yaml", "Look."],
        ),
    ] {
        let best = |person: &Person| (0..rounds).map(|_| person.once(&posse, args)).min().unwrap_or_default();
        let (none, all) = (best(&without), best(&with));
        report.at_most(name, ms(all.saturating_sub(none)), "ms", LIMIT_MS);
    }
}

/// A user's home with a project in it.
struct Person {
    home: tempfile::TempDir,
    files: Vec<PathBuf>,
}

impl Person {
    fn new(plan: &Plan) -> Self {
        let home = tempfile::tempdir_in(&plan.dir).expect("a directory");
        let mut person = Self { home, files: Vec::new() };
        person.write("project/script.yaml", "- reply: {text: Done.}\n");
        person
    }

    fn furnished(mut self) -> Self {
        let body = "Look at what was changed, and say what could go wrong with it, with path and line.\n"
            .repeat(LINES);
        for number in 0..DEFINITIONS {
            let text = format!(
                "---\nname: agent-{number}\ndescription: Does the work of number {number}. Use it for what no other agent does.\n\
                 tools: Read, Grep, Glob, Bash\nmodel: sonnet\ncolor: blue\n---\n\n{body}"
            );
            self.write(&format!(".claude/agents/agent-{number}.md"), &text);
        }
        for number in 0..SKILLS {
            let text = format!(
                "---\nname: skill-{number}\ndescription: Knows how to do number {number}.\nallowed-tools: Read, Bash\n\
                 license: MIT\n---\n\n{body}"
            );
            self.write(&format!(".claude/skills/skill-{number}/SKILL.md"), &text);
        }
        self
    }

    fn write(&mut self, name: &str, text: &str) {
        let path = self.home.path().join(name);
        fs::create_dir_all(path.parent().expect("a parent")).expect("a directory");
        fs::write(&path, text).expect("a file");
        self.files.push(path);
    }

    /// The duration of the command in its own process, with none of the files in the page cache.
    fn once(&self, posse: &Path, args: &[&str]) -> Duration {
        for path in &self.files {
            let file = File::open(path).expect("a file");
            // Only synced pages can be evicted.
            file.sync_all().expect("synced");
            fadvise(&file, 0, None, Advice::DontNeed).expect("forgotten");
        }
        let home = self.home.path();
        let mut command = Command::new(posse);
        command
            .env_clear()
            .env("HOME", home)
            .env("POSSE_HOME", home.join("state"))
            .current_dir(home.join("project"));
        command.args(args).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let began = Instant::now();
        let status = command.status().expect("the command starts");
        let took = began.elapsed();
        assert!(status.success(), "it ended with {status}");
        took
    }
}
