//! What is available, as a list by place, for people and as JSON.

use std::fmt::Write;
use std::io::IsTerminal;

use posse::Definition;
use posse_agent::definition::{Severity, Warning};
use posse_domain::skill::Skill;
use serde_json::{Value, json};

use crate::discovery::{DiscoveryResult, Entry, Origin, Precedence, Unusable, ValidationReport};
use crate::error::CliError;
use crate::exit::Exit;
use crate::output::{Output, note};
use crate::term;
use crate::text::plural;
use crate::view::clip;

/// Widest column of names.
const NAME_WIDTH_MAX: usize = 32;
/// Widest line where there is no terminal. What needs whole descriptions asks for JSON.
const WIDTH_WITHOUT_TERMINAL: usize = 100;

/// Something that can be listed.
pub(crate) trait ListItem {
    /// Its name.
    fn name(&self) -> &str;
    /// When to use it.
    fn description(&self) -> &str;
}

impl ListItem for Definition {
    fn name(&self) -> &str {
        &self.name
    }

    fn description(&self) -> &str {
        &self.description
    }
}

impl ListItem for Skill {
    fn name(&self) -> &str {
        &self.name
    }

    fn description(&self) -> &str {
        &self.description
    }
}

/// What is listed: all that was found of one kind, and what is built in.
pub(crate) struct List<'a, T> {
    /// What it is, in JSON and in hints: `agents` or `skills`.
    pub(crate) what: &'static str,
    /// What was found.
    pub(crate) found: &'a DiscoveryResult,
    /// Of this kind.
    pub(crate) entries: &'a [Entry<T>],
    /// What comes after all of it.
    pub(crate) built_in: &'a [T],
}

impl<T: ListItem> List<'_, T> {
    /// Prints it.
    pub(crate) fn print(&self, as_json: bool) -> Result<(), CliError> {
        let mut output = Output::new();
        if as_json {
            return output.json(&self.json());
        }
        let text = self.text(width().unwrap_or(WIDTH_WITHOUT_TERMINAL));
        if text.is_empty() {
            note(&format!("there are no {}", self.what));
        }
        output.own(&text)?;
        output.flush()?;
        let wrong = self.unusable().filter(|unusable| unusable.is_wrong()).count();
        if wrong > 0 {
            let files = plural(wrong as u64, "file");
            note(&format!("{files} cannot be used; `posse {} validate` says why", self.what));
        }
        let odd = self.entries.iter().filter(|entry| entry.counts() && entry.has_problem()).count();
        if odd > 0 {
            let files = plural(odd as u64, "file");
            note(&format!("{files} with mistakes; `posse {} validate` lists them", self.what));
        }
        if self.entries.iter().any(|entry| !entry.trusted) {
            note("what is not trusted may use nothing without asking; `posse trust` shows and trusts it");
        }
        Ok(())
    }

    fn unusable(&self) -> impl Iterator<Item = &Unusable> {
        self.found.unusable.iter().filter(|unusable| unusable.is_skill == (self.what == "skills"))
    }

    /// One paragraph for each place.
    fn text(&self, width: usize) -> String {
        let names =
            self.entries.iter().map(|entry| entry.value.name()).chain(self.built_in.iter().map(T::name));
        let column = names.map(|name| name.chars().count()).max().unwrap_or_default().min(NAME_WIDTH_MAX);
        let mut text = String::new();
        let line = |text: &mut String, name: &str, remark: Option<String>, description: &str| {
            let remark = remark.map(|remark| format!("({remark}) ")).unwrap_or_default();
            let line = term::line(&format!("{remark}{description}"));
            let line = format!("  {name:column$}  {line}");
            // A text cannot fail to be written to.
            let _ = writeln!(text, "{}", clip(&line, width).0.trim_end());
        };
        for (number, place) in self.found.places.iter().enumerate() {
            let mut here: Vec<&Entry<T>> =
                self.entries.iter().filter(|entry| entry.place == number).collect();
            here.sort_by_key(|entry| entry.value.name());
            if !here.is_empty() {
                let dir = term::line(&self.found.shown.path(&place.dir));
                let _ = writeln!(text, "{} {dir}", place.origin.words());
            }
            for entry in here {
                line(&mut text, entry.value.name(), self.remark(entry), entry.value.description());
            }
        }
        if !self.built_in.is_empty() {
            let _ = writeln!(text, "{}", Origin::BuiltIn.words());
        }
        let mut all_built_in: Vec<&T> = self.built_in.iter().collect();
        all_built_in.sort_by_key(|built_in| built_in.name());
        for built_in in all_built_in {
            let shadow =
                self.entries.iter().find(|entry| entry.counts() && entry.value.name() == built_in.name());
            let remark = shadow.map(|entry| self.shadowed_by(entry));
            line(&mut text, built_in.name(), remark, built_in.description());
        }
        text
    }

    /// What is special about an entry.
    fn remark(&self, entry: &Entry<T>) -> Option<String> {
        match &entry.standing {
            Precedence::Shadowed(by) => Some(self.shadowed_by(&self.entries[*by])),
            Precedence::WaitsForTrust(Some(of)) => {
                let other = self.found.shown.path(&self.entries[*of].path);
                Some(format!("waits for trust: {other} has its name"))
            }
            Precedence::WaitsForTrust(None) => {
                Some("waits for trust: a built-in one has its name".to_owned())
            }
            Precedence::Counts => (!entry.trusted).then(|| "not trusted".to_owned()),
        }
    }

    fn shadowed_by(&self, entry: &Entry<T>) -> String {
        format!("shadowed by {}", self.found.shown.path(&entry.path))
    }

    fn json(&self) -> Value {
        let found = self.entries.iter().map(|entry| {
            let by = match &entry.standing {
                Precedence::Shadowed(by) => Some(self.entries[*by].path.display().to_string()),
                Precedence::Counts | Precedence::WaitsForTrust(_) => None,
            };
            let standing = match &entry.standing {
                Precedence::Counts => "used",
                Precedence::Shadowed(_) => "shadowed",
                Precedence::WaitsForTrust(_) => "waits_for_trust",
            };
            json!({
                "name": entry.value.name(),
                "description": entry.value.description(),
                "origin": self.found.origin(entry.place),
                "path": entry.path,
                "standing": standing,
                "shadowed_by": by,
                "trusted": entry.trusted,
                "warnings": warnings(&entry.warnings),
            })
        });
        let built_in = self.built_in.iter().map(|built_in| {
            let shadow =
                self.entries.iter().find(|entry| entry.counts() && entry.value.name() == built_in.name());
            json!({
                "name": built_in.name(),
                "description": built_in.description(),
                "origin": Origin::BuiltIn,
                "path": null,
                "standing": if shadow.is_some() { "shadowed" } else { "used" },
                "shadowed_by": shadow.map(|entry| &entry.path),
                "trusted": true,
                "warnings": [],
            })
        });
        let unusable = self.unusable().flat_map(|unusable| unusable.warnings.iter().map(warning));
        json!({
            (self.what): found.chain(built_in).collect::<Vec<_>>(),
            "unusable": unusable.collect::<Vec<_>>(),
        })
    }
}

/// Warnings as machines read them.
pub(crate) fn warnings(all: &[Warning]) -> Vec<Value> {
    all.iter().map(warning).collect()
}

/// A warning as machines read it.
fn warning(warning: &Warning) -> Value {
    json!({
        "file": warning.file,
        "line": warning.line,
        "level": match warning.level {
            Severity::Note => "note",
            Severity::Problem => "problem",
        },
        "problem": warning.problem,
        "fix": warning.fix,
    })
}

/// Prints what a strict check says; the exit code says whether all is well.
pub(crate) fn print_validation(report: &ValidationReport, as_json: bool) -> Result<Exit, CliError> {
    let problems = report.problems();
    let mut output = Output::new();
    if as_json {
        let all = warnings(&report.warnings);
        output.json(&json!({"ok": problems == 0, "files": report.files.len(), "problems": all}))?;
    } else {
        for warning in &report.warnings {
            let lead = if warning.level == Severity::Note { "note: " } else { "" };
            output.own(&format!("{lead}{}\n", term::line(&warning.to_string())))?;
        }
        let count = plural(report.files.len() as u64, "file");
        let summary = if problems == 0 {
            format!("ok: {count}\n")
        } else {
            format!("{} in {count}\n", plural(problems as u64, "problem"))
        };
        output.own(&summary)?;
        output.flush()?;
    }
    Ok(if problems == 0 { Exit::DONE } else { Exit::FAILED })
}

/// How wide the terminal is; none if there is none.
fn width() -> Option<usize> {
    if !std::io::stdout().is_terminal() {
        return None;
    }
    crossterm::terminal::size().ok().map(|(width, _)| usize::from(width)).filter(|width| *width > 0)
}
