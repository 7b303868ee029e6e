//! `posse diff`.

use std::io::IsTerminal;

use posse::{DiffForm, DiffOptions, api};

use crate::conflicts;
use crate::context::Context;
use crate::error::CliError;
use crate::exit::Exit;
use crate::ids::WorkArg;
use crate::output::{Output, note};
use crate::runtime;
use crate::term;
use crate::view::rows::Tint;

/// Show the changes of a run, or of one of its agents
///
/// While the run is running, these are the changes of all tool calls that have ended. If the changes of a sub-agent were
/// not merged, the lines in conflict are printed to standard error.
#[derive(Debug, clap::Args)]
pub(crate) struct DiffArgs {
    #[command(flatten)]
    work: WorkArg,
    /// Show the files as they were at this event of the run (`posse logs` numbers the events)
    #[arg(long, value_name = "EVENT")]
    at: Option<u64>,
    /// Only the files, with the number of lines
    #[arg(long)]
    stat: bool,
    /// Only the files, with a letter for what happened to them
    #[arg(long, conflicts_with = "stat")]
    name_status: bool,
    /// Print one JSON object: every changed file with its paths, its lines and its part of the diff, and the whole diff
    #[arg(long, conflicts_with_all = ["stat", "name_status"])]
    json: bool,
}

/// Prints a diff.
pub(crate) fn diff(args: &DiffArgs, context: &Context) -> Result<Exit, CliError> {
    let posse = context.open_read_only()?;
    let form = match (args.stat, args.name_status) {
        (true, _) => DiffForm::Stat,
        (_, true) => DiffForm::NameStatus,
        (false, false) => DiffForm::Patch,
    };
    // Colours are added here, after the content of the files has been cleaned.
    let options = DiffOptions { form, colour: false };
    let (agent, text, conflicts) = runtime::looking(async {
        let agent = args.work.find(&posse, context).await?;
        let text = match args.at {
            Some(event) => posse.diff_at(&agent, event, options).await?,
            None => posse.diff(&agent, options).await?,
        };
        // For information only: what cannot be read must not hide the diff.
        let conflicts = if args.at.is_none() && form == DiffForm::Patch {
            posse.merge_conflicts(&agent).await.unwrap_or_default()
        } else {
            Vec::new()
        };
        Ok((agent, text, conflicts))
    })?;
    let mut output = Output::new();
    if args.json {
        output.json(&api::DiffResult::new(&agent, &text))?;
    } else if std::io::stdout().is_terminal() {
        let coloured = form == DiffForm::Patch && context.display.is_output_coloured;
        output.own(&shown(&text, coloured))?;
    } else {
        output.bytes(&text)?;
    }
    output.flush()?;
    for conflict in &conflicts {
        note(conflicts::of_merge(conflict).trim_end());
    }
    Ok(Exit::DONE)
}

/// A diff for a terminal.
fn shown(diff: &[u8], coloured: bool) -> String {
    let mut shown = String::with_capacity(diff.len());
    for (kind, line) in lines(diff) {
        match kind.colour().filter(|_| coloured) {
            Some(colour) => shown.extend(["\u{1b}[", colour, "m", &line, "\u{1b}[m\n"]),
            None => shown.extend([&line, "\n"]),
        }
    }
    shown
}

/// The kinds of lines of a diff.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DiffLine {
    Header,
    Hunk,
    Added,
    Removed,
    Same,
}

impl DiffLine {
    fn of(line: &str, in_header: bool) -> Self {
        match line.as_bytes().first() {
            _ if in_header => Self::Header,
            Some(b'@') => Self::Hunk,
            Some(b'+') => Self::Added,
            Some(b'-') => Self::Removed,
            _ => Self::Same,
        }
    }

    /// Its colour, as in git.
    fn colour(self) -> Option<&'static str> {
        match self {
            Self::Header => Some("1"),
            Self::Hunk => Some("36"),
            Self::Added => Some("32"),
            Self::Removed => Some("31"),
            Self::Same => None,
        }
    }

    /// Its colour on a drawn screen.
    pub(crate) fn tint(self) -> Tint {
        match self {
            Self::Header => Tint::Bold,
            Self::Hunk => Tint::Busy,
            Self::Added => Tint::Good,
            Self::Removed => Tint::Bad,
            Self::Same => Tint::Plain,
        }
    }
}

/// The lines of a diff. Each is cleaned separately, so that an escape sequence in one cannot swallow the next.
pub(crate) fn lines(diff: &[u8]) -> Vec<(DiffLine, String)> {
    let mut in_header = true;
    let mut lines = Vec::new();
    for line in diff.split_inclusive(|byte| *byte == b'\n') {
        let line = String::from_utf8_lossy(line);
        let line = line.trim_end_matches(['\n', '\r']);
        if line.starts_with("diff ") {
            in_header = true;
        } else if line.starts_with("@@") {
            in_header = false;
        }
        lines.push((DiffLine::of(line, in_header), term::clean(line).replace('\n', " ")));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    const DIFF: &[u8] =
        b"diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1 +1,2 @@\n-old\r\n+new \x1b]0;title\n+\x1b[8mhidden\n same\n";

    #[test]
    fn what_files_hold_does_not_steer_a_terminal_and_swallows_no_line() {
        assert_eq!(
            shown(DIFF, false),
            "diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1 +1,2 @@\n-old\n+new 0;title\n+hidden\n same\n"
        );
    }

    #[test]
    fn headers_hunks_and_lines_have_their_colours() {
        let shown = shown(DIFF, true);
        for line in [
            "\u{1b}[1m--- a/x\u{1b}[m\n",
            "\u{1b}[31m-old\u{1b}[m\n",
            "\u{1b}[32m+hidden\u{1b}[m\n",
            "\n same\n",
        ] {
            assert!(shown.contains(line), "{line:?} in {shown:?}");
        }
    }
}
