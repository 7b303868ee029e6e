//! What the screen shows, and what has happened so far. Nothing here reads, writes or draws.

use posse::{AgentId, Answer, PendingQuestion, RunId};

use super::inbox::Inbox;
use super::open_run::OpenRun;
use super::page::Page;
use super::runs::RunList;
use crate::view::width::text_columns;

/// Rows above and below the content: tabs and a heading, and the keys.
const FRAME_ROWS: usize = 3;
/// The first row of the content.
pub(super) const CONTENT_ROW: u16 = 2;

/// What fills the screen.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tab {
    #[default]
    Runs,
    Tree,
    Timeline,
    Conversation,
    Diff,
    Contract,
    Journal,
    Inbox,
}

impl Tab {
    /// In the order of their keys, from `1`.
    pub(super) const ALL: [Self; 8] = [
        Self::Runs,
        Self::Tree,
        Self::Timeline,
        Self::Conversation,
        Self::Diff,
        Self::Contract,
        Self::Journal,
        Self::Inbox,
    ];

    pub(super) fn title(self) -> &'static str {
        match self {
            Self::Runs => "Runs",
            Self::Tree => "Tree",
            Self::Timeline => "Timeline",
            Self::Conversation => "Conversation",
            Self::Diff => "Diff",
            Self::Contract => "Contract",
            Self::Journal => "Journal",
            Self::Inbox => "Inbox",
        }
    }

    /// Whether it shows one run.
    pub(super) fn is_of_run(self) -> bool {
        !matches!(self, Self::Runs | Self::Inbox)
    }

    /// Whether it is a text.
    pub(super) fn is_page(self) -> bool {
        matches!(self, Self::Conversation | Self::Diff | Self::Contract | Self::Journal)
    }
}

/// Something that the user asked for and must confirm.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Request {
    Cancel(AgentId),
    Answer(Box<PendingQuestion>, Answer),
}

/// The last row of the screen.
#[derive(Debug, Default, PartialEq)]
pub(super) enum Bottom {
    /// The most important keys.
    #[default]
    Keys,
    /// Something to know, until the next key.
    Note(String),
    /// A text to search for, as it is typed.
    Search(String),
    /// A message to an agent, as it is typed.
    Message(AgentId, String),
    /// A question before something is done.
    Confirm(Request),
}

/// Everything that is shown.
#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) columns: u16,
    pub(super) rows: u16,
    pub(super) now_ms: i64,
    pub(super) tab: Tab,
    pub(super) runs: RunList,
    pub(super) inbox: Inbox,
    /// The run that is being read.
    pub(super) opening: Option<RunId>,
    pub(super) run: Option<OpenRun>,
    pub(super) page: Option<Page>,
    pub(super) bottom: Bottom,
    /// The last text that was searched for, outside of the list of runs.
    pub(super) search: String,
    pub(super) is_help_shown: bool,
}

impl State {
    /// The columns of the content.
    pub(super) fn columns(&self) -> usize {
        usize::from(self.columns)
    }

    /// The rows of the content.
    pub(super) fn height(&self) -> usize {
        usize::from(self.rows).saturating_sub(FRAME_ROWS)
    }

    /// The rows of a list, below its heading if it has one.
    pub(super) fn list_height(&self) -> usize {
        match self.tab {
            Tab::Runs | Tab::Timeline => self.height().saturating_sub(1),
            Tab::Inbox => self.inbox_height(),
            _ => self.height(),
        }
    }

    /// Rows of the list of questions; the selected one is shown below in full.
    fn inbox_height(&self) -> usize {
        (self.height() / 3).clamp(1, self.inbox.questions.len().max(1))
    }

    /// Whether something on the screen changes with time.
    pub(super) fn has_clock(&self) -> bool {
        let is_open_running = self.run.as_ref().is_some_and(|run| run.view.status().is_running());
        match self.tab {
            Tab::Runs | Tab::Inbox => true,
            Tab::Tree | Tab::Timeline => is_open_running,
            _ => false,
        }
    }

    /// The titles of the tabs, each with the column where it begins.
    pub(super) fn tabs(&self) -> Vec<(Tab, usize, String)> {
        let mut column = 0;
        let mut tabs = Vec::new();
        for (at, tab) in Tab::ALL.into_iter().enumerate() {
            let waiting = match self.inbox.questions.len() {
                waiting @ 1.. if tab == Tab::Inbox => format!(" ({waiting})"),
                _ => String::new(),
            };
            let title = format!("{} {}{waiting}", at + 1, tab.title());
            let width = text_columns(&title);
            tabs.push((tab, column, title));
            column += width + 1;
        }
        tabs
    }
}
