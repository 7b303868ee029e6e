//! The text of agents as lines, for a place without a live tree.

use std::collections::HashMap;

use posse::{AgentId, Delta, DeltaPart};

use crate::term;
use crate::view::width::{clip, text_columns, wrapped};

/// Longest line of streamed text, in characters.
const LINE_MAX_CHARS: usize = 100;
/// Text of one agent that waits for the end of its line, in bytes.
const WAITING_MAX_BYTES: usize = 4 * LINE_MAX_CHARS;
/// Longest panel with a report, in lines.
const PANEL_MAX_LINES: usize = 40;
/// Columns of the frame of a panel, unless the terminal is narrower.
const PANEL_COLUMNS: usize = 72;
/// Columns before each line of a panel.
const PANEL_EDGE_COLUMNS: usize = 2;

/// Turns pieces of replies into lines: one for each line of a reply, each cut.
pub(super) struct StreamedText {
    is_coloured: bool,
    /// Whether the text of the root is printed too. Its last reply is the report of the run, which follows anyway.
    with_root: bool,
    /// The width of the terminal, if it is one.
    width: Option<usize>,
    /// Text without its end, by agent.
    waiting: HashMap<AgentId, (DeltaPart, String)>,
}

impl StreamedText {
    pub(super) fn new(is_coloured: bool, with_root: bool, width: Option<usize>) -> Self {
        Self { is_coloured, with_root, width, waiting: HashMap::new() }
    }

    /// The lines that a piece completes.
    pub(super) fn take(&mut self, delta: &Delta) -> String {
        if delta.agent_id.is_root() && !self.with_root {
            return String::new();
        }
        let mut lines = match self.waiting.get(&delta.agent_id) {
            Some((part, _)) if *part != delta.part => self.end(&delta.agent_id),
            _ => String::new(),
        };
        let (part, mut text) =
            self.waiting.remove(&delta.agent_id).unwrap_or_else(|| (delta.part, String::new()));
        text.push_str(&delta.content);
        // The name of a tool is complete.
        if part == DeltaPart::Tool {
            text.push('\n');
        }
        if let Some(end) = text.rfind('\n') {
            let whole: String = text.drain(..=end).collect();
            lines.extend(whole.lines().map(|line| self.line(&delta.agent_id, part, line)));
        }
        // What does not fit into a line is cut anyway.
        text.truncate(text.floor_char_boundary(WAITING_MAX_BYTES));
        if !text.is_empty() {
            self.waiting.insert(delta.agent_id.clone(), (part, text));
        }
        lines
    }

    /// The last line of an agent's reply, which has ended.
    pub(super) fn end(&mut self, agent: &AgentId) -> String {
        let Some((part, text)) = self.waiting.remove(agent) else { return String::new() };
        self.line(agent, part, &text)
    }

    fn line(&self, agent: &AgentId, part: DeltaPart, text: &str) -> String {
        let clean = term::line(text);
        let clean = clean.trim();
        if clean.is_empty() {
            return String::new();
        }
        let mut shown: String = clean.chars().take(LINE_MAX_CHARS).collect();
        if shown.len() < clean.len() {
            shown.pop();
            shown.push('…');
        }
        let shown = if part == DeltaPart::Tool { format!("calls {shown}") } else { shown };
        let start = format!("{agent} ↳ ");
        let room = self.width.map(|width| width.saturating_sub(text_columns(&start)));
        let shown = room.map_or(shown.clone(), |room| clip(&shown, room).0);
        format!("{start}{}\n", paint(colour_of(part), &shown, self.is_coloured))
    }
}

/// The colour of each part of a reply, as the parameter of its sequence.
fn colour_of(part: DeltaPart) -> &'static str {
    match part {
        DeltaPart::Text => "32",
        DeltaPart::Tool => "36",
        DeltaPart::Error => "31",
        DeltaPart::Other => "2",
    }
}

fn paint(colour: &str, text: &str, is_coloured: bool) -> String {
    if is_coloured { format!("\u{1b}[{colour}m{text}\u{1b}[0m") } else { text.to_owned() }
}

/// The report of a sub-agent in a frame. On a terminal, its lines fit.
pub(super) fn panel(agent: &AgentId, report: &str, is_coloured: bool, width: Option<usize>) -> String {
    let clean = term::clean(report.trim_end()).replace('\t', "    ");
    if clean.trim().is_empty() {
        return String::new();
    }
    let clean = match width {
        Some(width) => wrapped(&clean, width.saturating_sub(PANEL_EDGE_COLUMNS).max(1)),
        None => clean,
    };
    let columns = width.map_or(PANEL_COLUMNS, |width| width.min(PANEL_COLUMNS));
    let title = clip(&format!("╭─ Subagent Result ({agent}) "), columns).0;
    let rule = "─".repeat(columns.saturating_sub(text_columns(&title)));
    let mut lines = vec![format!("{title}{rule}")];
    lines.extend(clean.lines().take(PANEL_MAX_LINES).map(|line| format!("│ {line}")));
    match clean.lines().count().saturating_sub(PANEL_MAX_LINES) {
        0 => {}
        more => lines.push(format!("│ … {more} more lines: posse report {agent}")),
    }
    lines.push(format!("╰{}", "─".repeat(columns.saturating_sub(1))));
    lines.iter().map(|line| paint("2", line.trim_end(), is_coloured) + "\n").collect()
}

#[cfg(test)]
mod tests {
    use posse::DeltaCall;

    use super::*;

    fn delta(agent: &str, part: DeltaPart, content: &str) -> Delta {
        Delta {
            agent_id: agent.parse().expect("an id"),
            parent_id: None,
            part,
            content: content.to_owned(),
            call: DeltaCall::default(),
        }
    }

    #[test]
    fn each_line_of_a_reply_is_one_line_however_its_pieces_arrive() {
        let mut streamed = StreamedText::new(false, false, None);
        let child = "k3f9ab2c.1";
        let mut text = String::new();
        for piece in ["I lo", "ok around\nand", " find\n\n", "it"] {
            text.push_str(&streamed.take(&delta(child, DeltaPart::Text, piece)));
        }
        text.push_str(&streamed.take(&delta(child, DeltaPart::Tool, "grep")));
        text.push_str(&streamed.take(&delta(child, DeltaPart::Text, "done")));
        text.push_str(&streamed.end(&child.parse().expect("an id")));
        assert_eq!(
            text,
            "k3f9ab2c.1 ↳ I look around\nk3f9ab2c.1 ↳ and find\nk3f9ab2c.1 ↳ it\nk3f9ab2c.1 ↳ calls grep\nk3f9ab2c.1 ↳ done\n"
        );
    }

    #[test]
    fn a_long_line_is_cut_and_nothing_steers_the_terminal() {
        let mut streamed = StreamedText::new(true, true, None);
        let long = format!("\u{1b}]52;c;x\u{7}{}\n", "long ".repeat(1_000));
        let line = streamed.take(&delta("k3f9ab2c", DeltaPart::Error, &long));
        let shown =
            line.strip_prefix("k3f9ab2c ↳ \u{1b}[31m").and_then(|line| line.strip_suffix("\u{1b}[0m\n"));
        let shown = shown.expect("red");
        assert_eq!(shown.chars().count(), LINE_MAX_CHARS);
        assert!(shown.ends_with('…') && !shown.contains('\u{1b}'), "{shown:?}");
    }

    #[test]
    fn the_root_is_silent_unless_asked_for() {
        assert_eq!(
            StreamedText::new(false, false, None).take(&delta("k3f9ab2c", DeltaPart::Text, "x\n")),
            ""
        );
        let verbose = StreamedText::new(false, true, None).take(&delta("k3f9ab2c", DeltaPart::Text, "x\n"));
        assert_eq!(verbose, "k3f9ab2c ↳ x\n");
    }

    #[test]
    fn a_report_has_a_frame_and_a_limit() {
        let agent: AgentId = "k3f9ab2c.1".parse().expect("an id");
        let shown = panel(&agent, &"line\n".repeat(50), false, None);
        assert!(shown.starts_with("╭─ Subagent Result (k3f9ab2c.1) ───"), "{shown}");
        assert!(shown.contains("│ … 10 more lines: posse report k3f9ab2c.1\n╰──"), "{shown}");
        assert_eq!(panel(&agent, " \n", false, None), "");
    }

    #[test]
    fn on_a_terminal_no_line_is_longer() {
        let agent: AgentId = "k3f9ab2c.1".parse().expect("an id");
        let long = "a report with many words ".repeat(8);
        let mut shown = panel(&agent, &long, false, Some(40));
        assert!(shown.contains("│ a report with many words a report with\n│ many words"), "{shown}");
        let mut streamed = StreamedText::new(false, false, Some(40));
        shown.push_str(&streamed.take(&delta("k3f9ab2c.1", DeltaPart::Text, &format!("{long}\n"))));
        for line in shown.lines() {
            assert!(text_columns(line) <= 40, "{line}");
        }
    }
}
