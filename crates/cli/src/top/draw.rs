//! Draws the state.

use ratatui::buffer::Buffer;
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};

use super::open_run::LEGEND;
use super::runs::RunList;
use super::state::{Bottom, CONTENT_ROW, Request, State, Tab};
use crate::term;
use crate::text::{at_least, cost_of_view, duration, plural};
use crate::view::rows::{Row, Tint};
use crate::view::width::{clip, cut, text_columns};
use posse::Answer;

const HELP: &[&str] = &[
    "1 to 8, Tab, Shift-Tab   choose a tab; a click does, too",
    "↑ ↓ PgUp PgDn Home End   move; also j k g G, and the wheel of a mouse",
    "Enter                    open the selected row; a click on it does, too",
    "Esc                      back",
    "/                        search; n and N go to the next and the previous match",
    "r                        read again",
    "q, Ctrl-C                quit; the runs continue",
    "",
    "Runs: s shows the next status, p only the runs of this project",
    "Tree: ← and → hide and show the children of an agent",
    "Conversation, Diff, Contract: ← and → go to the agent before and after",
    "Inbox: o allows a call once, a always, d denies it; each asks first",
    "m sends a message to the selected run or agent, c cancels it",
];

/// Draws with or without colour.
#[derive(Debug, Clone, Copy)]
pub(super) struct ScreenPainter {
    pub(super) is_coloured: bool,
}

impl ScreenPainter {
    /// Draws the whole screen into an empty buffer.
    pub(super) fn draw(self, state: &State, buffer: &mut Buffer) {
        self.tabs(state, buffer);
        self.row(buffer, 1, &Row::tinted(Tint::Dim, heading(state)), false);
        if state.is_help_shown {
            for (at, line) in HELP.iter().enumerate().take(state.height()) {
                self.row(buffer, CONTENT_ROW + row_number(at), &Row::plain(*line), false);
            }
        } else {
            self.content(state, buffer);
        }
        let last = state.rows.saturating_sub(1);
        self.row(buffer, last, &bottom(state), false);
    }

    fn tabs(self, state: &State, buffer: &mut Buffer) {
        for (tab, column, title) in state.tabs() {
            let room = state.columns().saturating_sub(column);
            let style = match tab {
                tab if tab == state.tab => self.style(Tint::Selected),
                Tab::Inbox if !state.inbox.questions.is_empty() => self.style(Tint::Warning),
                _ => Style::new(),
            };
            if let Ok(column) = u16::try_from(column)
                && room > 0
                && state.rows > 0
            {
                buffer.set_stringn(column, 0, &title, room, style);
            }
        }
    }

    fn content(self, state: &State, buffer: &mut Buffer) {
        let (columns, height) = (state.columns(), state.height());
        let rows: Vec<(Row, bool)> = match (state.tab, &state.run, &state.page) {
            (Tab::Runs, ..) => runs(state),
            (Tab::Inbox, ..) => inbox(state),
            (Tab::Tree, Some(run), _) => {
                selected(run.tree(state.now_ms, columns, height), run.at().checked_sub(run.top))
            }
            (Tab::Timeline, Some(run), _) => {
                let rows = run.timeline(state.now_ms, columns, height);
                selected(rows, run.at().checked_sub(run.top).map(|at| at + 1))
            }
            (tab, Some(_), Some(page)) if page.tab == tab => {
                let first = page.first(columns, height);
                let shown = page
                    .with_lines(columns, |lines| lines.iter().skip(first).take(height).cloned().collect());
                selected(shown, None)
            }
            _ => vec![(Row::tinted(Tint::Dim, "reading …"), false)],
        };
        for (at, (row, is_selected)) in rows.iter().take(height).enumerate() {
            self.row(buffer, CONTENT_ROW + row_number(at), row, *is_selected);
        }
    }

    fn row(self, buffer: &mut Buffer, y: u16, row: &Row, is_selected: bool) {
        let columns = buffer.area.width;
        if y >= buffer.area.height {
            return;
        }
        let row = cut(row, usize::from(columns));
        let spans: Vec<Span<'_>> =
            row.pieces.iter().map(|(tint, text)| Span::styled(text.as_str(), self.style(*tint))).collect();
        buffer.set_line(0, y, &Line::from(spans), columns);
        if is_selected {
            let area = ratatui::layout::Rect { x: 0, y, width: columns, height: 1 };
            buffer.set_style(area, self.style(Tint::Selected));
        }
    }

    fn style(self, tint: Tint) -> Style {
        let style = Style::new();
        match tint {
            // What is selected must be seen without colour, too.
            Tint::Selected => style.add_modifier(Modifier::REVERSED),
            Tint::Bold => style.add_modifier(Modifier::BOLD),
            _ if !self.is_coloured => style,
            Tint::Plain => style,
            Tint::Dim => style.add_modifier(Modifier::DIM),
            Tint::Good => style.fg(Color::Green),
            Tint::Bad => style.fg(Color::Red),
            Tint::Busy => style.fg(Color::Cyan),
            Tint::Warning => style.fg(Color::Yellow),
        }
    }
}

fn row_number(at: usize) -> u16 {
    u16::try_from(at).unwrap_or(u16::MAX - CONTENT_ROW)
}

/// Rows with the one that is selected.
fn selected(rows: Vec<Row>, at: Option<usize>) -> Vec<(Row, bool)> {
    rows.into_iter().enumerate().map(|(row, text)| (text, Some(row) == at)).collect()
}

fn runs(state: &State) -> Vec<(Row, bool)> {
    let list = &state.runs;
    if !list.is_loaded {
        return vec![(Row::tinted(Tint::Dim, "reading …"), false)];
    }
    let mut rows = vec![(RunList::heading(state.columns()), false)];
    let (shown, at) = (list.shown(), list.at());
    if shown.is_empty() {
        let text = if list.count() == 0 { "no runs yet; `posse demo` shows one" } else { "no such runs" };
        rows.push((Row::tinted(Tint::Dim, text), false));
    }
    let visible = shown.iter().enumerate().skip(list.top).take(state.list_height());
    rows.extend(visible.map(|(row, listed)| (list.row(listed, state.now_ms, state.columns()), row == at)));
    rows
}

fn inbox(state: &State) -> Vec<(Row, bool)> {
    let inbox = &state.inbox;
    if inbox.questions.is_empty() {
        return vec![(Row::tinted(Tint::Dim, "no call waits for an answer"), false)];
    }
    let visible = inbox.rows(state.now_ms).into_iter().skip(inbox.top).take(state.list_height()).collect();
    let mut rows = selected(visible, inbox.at().checked_sub(inbox.top));
    rows.push((Row::tinted(Tint::Dim, "─".repeat(state.columns())), false));
    // The keys that answer stay on the screen, however long the operation is.
    let room = state.height().saturating_sub(rows.len());
    let mut detail = inbox.detail(state.columns());
    if detail.len() > room {
        let keys = detail.pop();
        detail.truncate(room.saturating_sub(2));
        let more = "… the operation is longer: make the window higher, or use `posse approve`";
        detail.push(Row::tinted(Tint::Warning, more));
        detail.extend(keys);
    }
    rows.extend(detail.into_iter().map(|row| (row, false)));
    rows
}

/// The second row: what is shown.
fn heading(state: &State) -> String {
    if state.is_help_shown {
        return "keys; any key closes this help".to_owned();
    }
    match (state.tab, &state.run) {
        (Tab::Runs, _) => state.runs.about(),
        (Tab::Inbox, _) => match state.inbox.questions.len() as u64 {
            // The list says so.
            0 => String::new(),
            1 => "1 call waits for an answer".to_owned(),
            calls => format!("{} wait for an answer", plural(calls, "call")),
        },
        (_, None) => state.opening.as_ref().map_or(String::new(), |run| format!("run {run}")),
        (tab, Some(run)) => {
            let view = &run.view;
            let id = run.agent.run();
            let listed = state.runs.get(&id).map(|listed| listed.status().as_str());
            let status = listed.unwrap_or_else(|| view.shown_status().as_str());
            let elapsed_ms = view.elapsed_ms(state.now_ms);
            let took = if view.is_interrupted() { at_least(elapsed_ms) } else { duration(elapsed_ms) };
            let spent = cost_of_view(view);
            let agents = plural(view.agents().counts().all(), "agent");
            let about = match tab {
                Tab::Timeline => LEGEND.to_owned(),
                Tab::Tree | Tab::Journal => term::line(view.title()),
                _ => agent_about(run),
            };
            if tab == Tab::Timeline {
                return format!("{id} {status} · {about}");
            }
            format!("{id} {status} · {took} · {spent} · {agents} · {about}")
        }
    }
}

fn agent_about(run: &super::open_run::OpenRun) -> String {
    let name = if run.agent.is_root() { "root" } else { run.agent.relative() };
    let definition = run.view.agents().get(&run.agent).map(|agent| agent.definition.clone());
    format!("agent {name} {}", definition.unwrap_or_default())
}

/// The last row.
fn bottom(state: &State) -> Row {
    match &state.bottom {
        Bottom::Keys => Row::tinted(Tint::Dim, keys(state.tab)),
        Bottom::Note(note) => Row::plain(term::line(note)),
        Bottom::Search(text) => input(state, "search: ", text),
        Bottom::Message(agent, text) => input(state, &format!("message to {agent}: "), text),
        Bottom::Confirm(request) => Row::tinted(Tint::Warning, question(request, state.columns())),
    }
}

/// A text as it is typed; of a long one the end.
fn input(state: &State, label: &str, text: &str) -> Row {
    let room = state.columns().saturating_sub(text_columns(label) + 1);
    let text = term::visible_line(text);
    let mut shown = text.as_str();
    while text_columns(shown) > room {
        let first = shown.chars().next().map_or(1, char::len_utf8);
        shown = &shown[first..];
    }
    let mut row = Row::default();
    row.push(Tint::Bold, label).push(Tint::Plain, shown).push(Tint::Selected, " ");
    row
}

fn keys(tab: Tab) -> &'static str {
    match tab {
        Tab::Runs => "? keys · Enter open · / search · s status · p project · c cancel · q quit",
        Tab::Tree => "? keys · Enter conversation · ← → fold · m message · c cancel · q quit",
        Tab::Timeline => "? keys · Enter conversation · / search · m message · c cancel · q quit",
        Tab::Conversation | Tab::Diff | Tab::Contract => {
            "? keys · ↑ ↓ scroll · ← → agent · / search · Esc back · q quit"
        }
        Tab::Journal => "? keys · ↑ ↓ scroll · / search · Esc back · q quit",
        Tab::Inbox => "? keys · ↑ ↓ select · Enter open its run · Esc back · q quit",
    }
}

fn question(request: &Request, columns: usize) -> String {
    let (what, end) = match request {
        Request::Cancel(agent) if agent.is_root() => (format!("cancel run {agent}"), "?"),
        Request::Cancel(agent) => (format!("cancel agent {agent} and its subtree"), "?"),
        Request::Answer(question, answer) => {
            let word = match answer {
                Answer::Once => "allow once",
                Answer::Always => "allow always",
                Answer::Deny { .. } => "deny",
            };
            (format!("{word}: {}", term::visible_line(&question.operation)), "?")
        }
    };
    let keys = " y yes · any other key no";
    let room = columns.saturating_sub(text_columns(keys) + text_columns(end));
    format!("{}{end}{keys}", clip(&what, room).0)
}
