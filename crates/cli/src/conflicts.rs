//! Prints files that two sides changed in different ways, with the lines of both.

use std::fmt::Write;

use posse::{ConflictKind, ConflictLines, FileConflict, FileConflicts, MergeConflict};

use crate::term;
use crate::text::plural;

/// Limit of files whose lines are printed.
const FILES_MAX: usize = 5;

/// The names of the two sides of a conflict.
pub(crate) struct ConflictSides<'a> {
    pub(crate) ours: &'a str,
    pub(crate) theirs: &'a str,
}

/// The conflicts of a sub-agent with its parent.
pub(crate) fn of_merge(conflict: &MergeConflict) -> String {
    let (agent, parent) = (conflict.agent.to_string(), conflict.parent.to_string());
    let sides = ConflictSides { ours: &parent, theirs: &agent };
    format!("merge conflict of {agent} with {parent}:\n{}", files(&conflict.found, &sides))
}

/// The conflicting places of each file, indented.
pub(crate) fn files(conflicts: &FileConflicts, sides: &ConflictSides<'_>) -> String {
    let mut text = String::new();
    for file in conflicts.files.iter().take(FILES_MAX) {
        add_file(&mut text, file, sides);
    }
    let more = conflicts.files.len().saturating_sub(FILES_MAX) + conflicts.more;
    if more > 0 {
        let _ = writeln!(text, "  and {}", plural(more as u64, "more file"));
    }
    text
}

fn add_file(text: &mut String, file: &FileConflict, sides: &ConflictSides<'_>) {
    let ConflictSides { ours, theirs } = sides;
    let path = term::visible_line(&file.path);
    match file.kind {
        ConflictKind::Lines if !file.hunks.is_empty() => {}
        kind => {
            let why = match kind {
                ConflictKind::Lines => "both sides changed it".to_owned(),
                ConflictKind::OursDeleted => format!("{ours} deleted it, {theirs} changed it"),
                ConflictKind::TheirsDeleted => format!("{ours} changed it, {theirs} deleted it"),
                ConflictKind::NotText => "both sides changed it, and it cannot be merged by lines".to_owned(),
                ConflictKind::InTheWay => format!("{ours} has something else at this path"),
            };
            let _ = writeln!(text, "  {path}: {why}");
        }
    }
    for hunk in &file.hunks {
        let _ = writeln!(text, "  {path}, line {}:", hunk.line);
        add_side(text, ours, &hunk.ours);
        add_side(text, theirs, &hunk.theirs);
    }
    if file.more_hunks > 0 {
        let _ = writeln!(text, "  {path}: {}", plural(file.more_hunks as u64, "more place"));
    }
}

fn add_side(text: &mut String, name: &str, side: &ConflictLines) {
    if side.lines.is_empty() {
        let _ = writeln!(text, "    {name}: no lines");
        return;
    }
    let _ = writeln!(text, "    {name}:");
    for line in &side.lines {
        let _ = writeln!(text, "      {}", term::visible_line(line));
    }
    if side.more > 0 {
        let _ = writeln!(text, "      and {}", plural(side.more as u64, "more line"));
    }
}

#[cfg(test)]
mod tests {
    use posse::ConflictHunk;

    use super::*;

    fn lines(lines: &[&str], more: usize) -> ConflictLines {
        ConflictLines { lines: lines.iter().map(|line| (*line).to_owned()).collect(), more }
    }

    #[test]
    fn both_sides_of_each_place_are_printed_and_steer_no_terminal() {
        let hunk = ConflictHunk { line: 3, ours: lines(&["mine", "\u{1b}[2J"], 1), theirs: lines(&[], 0) };
        let text = FileConflict {
            path: "a.txt".to_owned(),
            kind: ConflictKind::Lines,
            hunks: vec![hunk],
            more_hunks: 2,
        };
        let gone = FileConflict {
            path: "gone".to_owned(),
            kind: ConflictKind::OursDeleted,
            hunks: Vec::new(),
            more_hunks: 0,
        };
        let found = FileConflicts { files: vec![text, gone], more: 1 };
        let shown = files(&found, &ConflictSides { ours: "your file", theirs: "run k3f9ab2c" });
        assert!(!shown.contains('\u{1b}'), "{shown:?}");
        let expected = [
            "  a.txt, line 3:",
            "    your file:",
            "      mine",
            "      and 1 more line",
            "    run k3f9ab2c: no lines",
            "  a.txt: 2 more places",
            "  gone: your file deleted it, run k3f9ab2c changed it",
            "  and 1 more file",
        ];
        for line in expected {
            assert!(shown.lines().any(|shown| shown == line), "{line:?} in\n{shown}");
        }
    }
}
