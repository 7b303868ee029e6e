//! Prints lists of definitions and skills by search directory, for users.

use std::fmt::Write;

use posse::discovery::DefinitionType;
use posse_setup::discovery::{
    DefinitionList, Entry, ListItem, Origin, Precedence, Severity, ValidationReport, Warning,
};

use crate::error::CliError;
use crate::exit::Exit;
use crate::output::{Output, note, output_width};
use crate::term;
use crate::text::plural;
use crate::view::clip;

/// Widest column of names.
const NAME_WIDTH_MAX: usize = 32;
/// Widest line without a terminal. JSON has the whole descriptions.
const WIDTH_WITHOUT_TERMINAL: usize = 100;

/// A list for users.
pub(crate) struct List<'a, T>(pub(crate) DefinitionList<'a, T>);

impl<T: ListItem> List<'_, T> {
    pub(crate) fn print(&self) -> Result<(), CliError> {
        let mut output = Output::new();
        let text = self.text(output_width().unwrap_or(WIDTH_WITHOUT_TERMINAL));
        if text.is_empty() {
            note(&format!("there are no {}", self.verb()));
        }
        output.own(&text)?;
        output.flush()?;
        let wrong = self.0.unusable().filter(|unusable| unusable.is_wrong()).count();
        if wrong > 0 {
            let files = plural(wrong as u64, "file");
            note(&format!("{files} cannot be used; `posse {} validate` explains why", self.verb()));
        }
        let odd = self.0.entries.iter().filter(|entry| entry.is_first() && entry.has_problem()).count();
        if odd > 0 {
            let files = plural(odd as u64, "file");
            note(&format!("problems in {files}; `posse {} validate` lists them", self.verb()));
        }
        if self.0.entries.iter().any(|entry| !entry.trusted) {
            note(
                "untrusted agents and skills must ask before every tool call; `posse trust` shows and trusts them",
            );
        }
        Ok(())
    }

    /// The verb that lists them.
    fn verb(&self) -> &'static str {
        match self.0.holds {
            DefinitionType::Agents => "agents",
            DefinitionType::Skills => "skills",
        }
    }

    /// One paragraph for each search directory.
    fn text(&self, width: usize) -> String {
        let names =
            self.0.entries.iter().map(|entry| entry.value.name()).chain(self.0.built_in.iter().map(T::name));
        let column = names.map(|name| name.chars().count()).max().unwrap_or_default().min(NAME_WIDTH_MAX);
        let mut text = String::new();
        let line = |text: &mut String, name: &str, remark: Option<String>, description: &str| {
            let remark = remark.map(|remark| format!("({remark}) ")).unwrap_or_default();
            let line = term::line(&format!("{remark}{description}"));
            let line = format!("  {name:column$}  {line}");
            // Writing to a string does not fail.
            let _ = writeln!(text, "{}", clip(&line, width).0.trim_end());
        };
        for (number, place) in self.0.found.places.iter().enumerate() {
            let mut here: Vec<&Entry<T>> =
                self.0.entries.iter().filter(|entry| entry.place == number).collect();
            here.sort_by_key(|entry| entry.value.name());
            if !here.is_empty() {
                let dir = term::line(&self.0.found.shown.path(&place.dir));
                let _ = writeln!(text, "{} {dir}", place.origin.words());
            }
            for entry in here {
                line(&mut text, entry.value.name(), self.remark(entry), entry.value.description());
            }
        }
        if !self.0.built_in.is_empty() {
            let _ = writeln!(text, "{}", Origin::BuiltIn.words());
        }
        let mut all_built_in: Vec<&T> = self.0.built_in.iter().collect();
        all_built_in.sort_by_key(|built_in| built_in.name());
        for built_in in all_built_in {
            let remark = self.0.shadow_of(built_in).map(|entry| self.shadowed_by(entry));
            line(&mut text, built_in.name(), remark, built_in.description());
        }
        text
    }

    /// A remark about an entry: shadowed, untrusted or with problems.
    fn remark(&self, entry: &Entry<T>) -> Option<String> {
        match &entry.standing {
            Precedence::Shadowed(by) => Some(self.shadowed_by(&self.0.entries[*by])),
            Precedence::WaitsForTrust(Some(of)) => {
                let other = self.0.found.shown.path(&self.0.entries[*of].path);
                Some(format!("not trusted yet: {other} has the same name"))
            }
            Precedence::WaitsForTrust(None) => {
                Some("not trusted yet: a built-in one has the same name".to_owned())
            }
            Precedence::First => (!entry.trusted).then(|| "not trusted".to_owned()),
        }
    }

    fn shadowed_by(&self, entry: &Entry<T>) -> String {
        format!("shadowed by {}", self.0.found.shown.path(&entry.path))
    }
}

/// Prints the result of a strict check. The exit code is 1 if a file has a problem.
pub(crate) fn print_validation(report: &ValidationReport, as_json: bool) -> Result<Exit, CliError> {
    let problems = report.problems();
    let mut output = Output::new();
    if as_json {
        output.json(&report.to_api())?;
    } else {
        for warning in &report.warnings {
            let lead = if warning.level == Severity::Note { "note: " } else { "" };
            output.prose(&format!("{lead}{}\n", term::line(&warning_text(warning))))?;
        }
        let count = plural(report.files.len() as u64, "file");
        let summary = if problems == 0 {
            format!("ok: {count}\n")
        } else {
            format!("{} in {count}\n", plural(problems as u64, "problem"))
        };
        output.prose(&summary)?;
        output.flush()?;
    }
    Ok(if problems == 0 { Exit::DONE } else { Exit::FAILED })
}

/// A warning with the command that helps.
pub(crate) fn warning_text(warning: &Warning) -> String {
    let hint = if warning.needs_trust { " (see `posse trust`)" } else { "" };
    format!("{warning}{hint}")
}
