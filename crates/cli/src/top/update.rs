//! What a key or an event changes, and what it asks for.

use std::ops::ControlFlow;

use posse::view::Tracks;
use posse::{AgentId, Answer, JournalEvent, ListedRun, PendingQuestion, RunId, RunView};

use super::open_run::OpenRun;
use super::page::Page;
use super::scroll::{Move, top_for};
use super::state::{Bottom, CONTENT_ROW, Request, State, Tab};
use crate::view::keys::{Key, Mouse, MouseAction};

/// Rows that the wheel of a mouse moves.
const WHEEL_ROWS: isize = 3;
/// Longest text that can be typed.
const INPUT_MAX_CHARS: usize = 2_000;

/// Something that happened.
#[derive(Debug)]
pub(super) enum Input {
    Key(Key),
    Resize(u16, u16),
    /// The time, once a second.
    Tick(i64),
    /// The runs and their open questions.
    Runs(Vec<ListedRun>, Vec<PendingQuestion>),
    Run(Box<RunView>, Tracks),
    /// An event of the open run.
    Event(Box<JournalEvent>),
    Page(Box<Page>),
    Note(String),
}

/// Something that is to be done outside.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Effect {
    Quit,
    LoadRuns,
    Open(RunId),
    LoadPage(Tab, AgentId),
    Send(AgentId, String),
    Perform(Request),
}

/// The result of an update.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Update {
    /// Whether the screen is to be drawn again.
    pub(super) is_changed: bool,
    pub(super) effect: Option<Effect>,
}

impl From<Option<Effect>> for Update {
    fn from(effect: Option<Effect>) -> Self {
        Self { is_changed: true, effect }
    }
}

impl State {
    /// Takes something that happened.
    pub(super) fn update(&mut self, input: Input) -> Update {
        match input {
            Input::Key(key) => self.on_key(key).into(),
            Input::Resize(columns, rows) => {
                (self.columns, self.rows) = (columns, rows);
                self.keep_visible();
                None.into()
            }
            Input::Tick(now_ms) => {
                self.now_ms = now_ms;
                Update { is_changed: self.has_clock(), effect: Some(Effect::LoadRuns) }
            }
            Input::Runs(runs, questions) => {
                let is_changed = [self.runs.load(runs), self.inbox.load(questions)].contains(&true);
                self.keep_visible();
                Update { is_changed, effect: None }
            }
            Input::Run(view, tracks) => self.on_run(*view, tracks).into(),
            Input::Event(event) => self.on_event(&event),
            Input::Page(page) => self.on_page(*page).into(),
            Input::Note(note) => {
                self.bottom = Bottom::Note(note);
                None.into()
            }
        }
    }

    fn on_run(&mut self, view: RunView, tracks: Tracks) -> Option<Effect> {
        let run = view.run()?;
        if self.opening.as_ref() != Some(&run) {
            return None;
        }
        self.opening = None;
        let mut open = OpenRun::new(view, tracks, run.root());
        if let Some(before) = self.run.take() {
            open.keep_selection_of(before);
        }
        self.run = Some(open);
        self.page = None;
        self.keep_visible();
        self.wanted_page()
    }

    fn on_event(&mut self, event: &JournalEvent) -> Update {
        let Some(run) = self.run.as_mut().filter(|run| run.agent.run() == event.agent_id.run()) else {
            return Update::default();
        };
        run.apply(event);
        let is_page_changed = self.page.as_mut().is_some_and(|page| page.apply(event));
        let is_changed = match self.tab {
            Tab::Runs | Tab::Inbox => false,
            Tab::Tree | Tab::Timeline => true,
            _ => is_page_changed,
        };
        // The end of a run is also the end of its changes.
        let effect = event.kind.ends_run().then(|| self.reload()).flatten();
        Update { is_changed: is_changed || effect.is_some(), effect }
    }

    fn on_page(&mut self, page: Page) -> Option<Effect> {
        let run = self.run.as_ref()?;
        let is_wanted = page.tab == self.tab && page.agent == run.agent;
        if !is_wanted {
            return None;
        }
        // Events that came while the page was read are in neither.
        let is_behind = page.last_seq < run.view.last_seq();
        let wanted = is_behind.then(|| Effect::LoadPage(page.tab, page.agent.clone()));
        self.page = Some(page);
        wanted
    }

    /// The page that the screen needs and does not have.
    fn wanted_page(&mut self) -> Option<Effect> {
        let run = self.run.as_ref().filter(|_| self.tab.is_page())?;
        let has_it = self.page.as_ref().is_some_and(|page| page.tab == self.tab && page.agent == run.agent);
        if has_it {
            return None;
        }
        self.page = None;
        Some(Effect::LoadPage(self.tab, run.agent.clone()))
    }

    /// Reads again what does not follow the run by itself.
    fn reload(&mut self) -> Option<Effect> {
        let run = self.run.as_ref()?;
        match self.tab {
            Tab::Diff | Tab::Contract => Some(Effect::LoadPage(self.tab, run.agent.clone())),
            _ => None,
        }
    }

    fn on_key(&mut self, key: Key) -> Option<Effect> {
        match std::mem::take(&mut self.bottom) {
            Bottom::Search(text) => return self.on_search_key(text, key),
            Bottom::Message(agent, text) => return self.on_message_key(agent, text, key),
            Bottom::Confirm(request) => return self.on_answer_key(request, key),
            Bottom::Keys | Bottom::Note(_) => {}
        }
        if std::mem::take(&mut self.is_help_shown) && key != Key::Char('q') {
            return None;
        }
        if let Key::Mouse(mouse) = key {
            return self.on_mouse(mouse);
        }
        if let Some(movement) = Move::of(key) {
            self.go(movement);
            return None;
        }
        match self.on_global_key(key) {
            ControlFlow::Break(effect) => effect,
            ControlFlow::Continue(()) => self.on_tab_key(key),
        }
    }

    /// A key that means the same everywhere. Others are left to the tab.
    fn on_global_key(&mut self, key: Key) -> ControlFlow<Option<Effect>> {
        ControlFlow::Break(match key {
            Key::Char('q') => Some(Effect::Quit),
            Key::Char('?') => {
                self.is_help_shown = true;
                None
            }
            Key::Char('/') => {
                self.bottom = Bottom::Search(String::new());
                None
            }
            Key::Char('n') => self.find(false),
            Key::Char('N') => self.find(true),
            Key::Char('r') => self.reload().or(Some(Effect::LoadRuns)),
            Key::Char(digit @ '1'..='8') => {
                let at = usize::try_from(u32::from(digit) - u32::from('1')).unwrap_or(0);
                self.show(Tab::ALL[at])
            }
            Key::Tab => self.show(self.beside(1)),
            Key::BackTab => self.show(self.beside(Tab::ALL.len() - 1)),
            Key::Escape => self.back(),
            Key::Char('c') => {
                self.bottom =
                    self.target().map_or(Bottom::Keys, |agent| Bottom::Confirm(Request::Cancel(agent)));
                None
            }
            Key::Char('m') => {
                self.bottom =
                    self.target().map_or(Bottom::Keys, |agent| Bottom::Message(agent, String::new()));
                None
            }
            _ => return ControlFlow::Continue(()),
        })
    }

    /// The agent that a message or a cancellation is for.
    fn target(&self) -> Option<AgentId> {
        match self.tab {
            Tab::Runs => self.runs.selected().map(|run| run.root()),
            Tab::Inbox => self.inbox.selected().map(|question| question.agent.clone()),
            _ => self.run.as_ref().map(|run| run.agent.clone()),
        }
    }

    fn on_tab_key(&mut self, key: Key) -> Option<Effect> {
        match (self.tab, key) {
            (Tab::Runs, Key::Enter | Key::Right) => self.show(Tab::Tree),
            (Tab::Runs, Key::Char('s')) => {
                self.runs.next_status();
                self.keep_visible();
                None
            }
            (Tab::Runs, Key::Char('p')) => {
                self.runs.is_only_project = !self.runs.is_only_project;
                self.keep_visible();
                None
            }
            (Tab::Tree, Key::Left | Key::Right) => {
                if let Some(run) = &mut self.run {
                    run.fold(key == Key::Left);
                }
                None
            }
            (Tab::Tree | Tab::Timeline, Key::Enter) => self.show(Tab::Conversation),
            (Tab::Conversation | Tab::Diff | Tab::Contract, Key::Left | Key::Right) => {
                let run = self.run.as_mut()?;
                let at = run.at();
                run.select(if key == Key::Right { at + 1 } else { at.saturating_sub(1) });
                self.wanted_page()
            }
            (Tab::Inbox, Key::Enter) => {
                let agent = self.inbox.selected()?.agent.clone();
                self.open(agent.run(), Tab::Tree)
            }
            (Tab::Inbox, Key::Char(letter)) => self.on_inbox_key(letter),
            _ => None,
        }
    }

    /// Prepares an answer to exactly the question on the screen.
    fn on_inbox_key(&mut self, letter: char) -> Option<Effect> {
        let question = self.inbox.selected()?;
        let answer = match letter {
            'o' => Answer::Once,
            'a' if question.always.is_some() => Answer::Always,
            'd' => Answer::Deny { reason: None },
            _ => return None,
        };
        self.bottom = Bottom::Confirm(Request::Answer(Box::new(question.clone()), answer));
        None
    }

    fn on_answer_key(&mut self, request: Request, key: Key) -> Option<Effect> {
        if key != Key::Char('y') {
            return None;
        }
        if let Request::Answer(question, _) = &request {
            self.inbox.remove(question);
            self.keep_visible();
        }
        Some(Effect::Perform(request))
    }

    fn on_search_key(&mut self, mut text: String, key: Key) -> Option<Effect> {
        let is_list = self.tab == Tab::Runs;
        match key {
            Key::Escape => {
                if is_list {
                    self.runs.search.clear();
                }
            }
            Key::Enter => {
                if !is_list {
                    self.search = text;
                    return self.find(false);
                }
            }
            key => {
                edit(&mut text, key);
                if is_list {
                    self.runs.search.clone_from(&text);
                }
                self.bottom = Bottom::Search(text);
            }
        }
        self.keep_visible();
        None
    }

    fn on_message_key(&mut self, agent: AgentId, mut text: String, key: Key) -> Option<Effect> {
        match key {
            Key::Escape => None,
            Key::Enter => Some(text.trim().to_owned())
                .filter(|text| !text.is_empty())
                .map(|text| Effect::Send(agent, text)),
            key => {
                edit(&mut text, key);
                self.bottom = Bottom::Message(agent, text);
                None
            }
        }
    }

    fn on_mouse(&mut self, mouse: Mouse) -> Option<Effect> {
        match mouse.action {
            MouseAction::WheelUp => self.go(Move::By(-WHEEL_ROWS)),
            MouseAction::WheelDown => self.go(Move::By(WHEEL_ROWS)),
            MouseAction::Press if mouse.row == 0 => {
                let column = usize::from(mouse.column);
                let tabs = self.tabs();
                let hit = tabs.iter().rev().find(|(_, begin, _)| *begin <= column);
                let tab = hit.map(|(tab, _, _)| *tab)?;
                return self.show(tab);
            }
            MouseAction::Press => return self.on_press(mouse.row),
        }
        None
    }

    /// Selects the row of a list; one that is selected is opened.
    fn on_press(&mut self, row: u16) -> Option<Effect> {
        let heading = usize::from(matches!(self.tab, Tab::Runs | Tab::Timeline));
        let row = usize::from(row.checked_sub(CONTENT_ROW)?).checked_sub(heading)?;
        if row >= self.list_height() {
            return None;
        }
        let (before, len) = self.position()?;
        let at = self.top() + row;
        if at >= len {
            return None;
        }
        self.select(at);
        (at == before).then(|| self.on_tab_key(Key::Enter)).flatten()
    }

    /// The selected row of the list on the screen, and how many rows it has.
    fn position(&self) -> Option<(usize, usize)> {
        match self.tab {
            Tab::Runs => Some((self.runs.at(), self.runs.shown().len())),
            Tab::Tree | Tab::Timeline => self.run.as_ref().map(|run| (run.at(), run.agents().len())),
            Tab::Inbox => Some((self.inbox.at(), self.inbox.questions.len())),
            _ => None,
        }
    }

    fn top(&self) -> usize {
        match self.tab {
            Tab::Runs => self.runs.top,
            Tab::Inbox => self.inbox.top,
            _ => self.run.as_ref().map_or(0, |run| run.top),
        }
    }

    fn select(&mut self, at: usize) {
        match self.tab {
            Tab::Runs => self.runs.select(at),
            Tab::Inbox => self.inbox.select(at),
            _ => {
                if let Some(run) = &mut self.run {
                    run.select(at);
                }
            }
        }
        self.keep_visible();
    }

    fn go(&mut self, movement: Move) {
        let (columns, height) = (self.columns(), self.height());
        if let (true, Some(page)) = (self.tab.is_page(), &mut self.page) {
            page.scroll(movement, columns, height);
        } else if let Some((at, len)) = self.position() {
            self.select(movement.from(at, len, self.list_height()));
        }
    }

    /// Moves the lists so that their selected rows are on the screen.
    fn keep_visible(&mut self) {
        let height = self.list_height();
        self.runs.top = top_for(self.runs.at(), self.runs.top, height);
        self.inbox.top = top_for(self.inbox.at(), self.inbox.top, height);
        if let Some(run) = &mut self.run {
            run.top = top_for(run.at(), run.top, height);
        }
    }

    fn beside(&self, by: usize) -> Tab {
        let at = Tab::ALL.iter().position(|tab| *tab == self.tab).unwrap_or(0);
        Tab::ALL[(at + by) % Tab::ALL.len()]
    }

    /// Shows a tab, and opens the selected run if the tab needs one.
    pub(super) fn show(&mut self, tab: Tab) -> Option<Effect> {
        if !tab.is_of_run() {
            self.tab = tab;
            self.keep_visible();
            return None;
        }
        let open = self.run.as_ref().map(|run| run.agent.run());
        let wanted = if self.tab == Tab::Runs { self.runs.selected() } else { None };
        let Some(run) = wanted.or_else(|| open.clone()).or_else(|| self.runs.selected()) else {
            self.bottom = Bottom::Note("there is no run to show".to_owned());
            return None;
        };
        self.open(run, tab)
    }

    /// Shows a tab of a run.
    pub(super) fn open(&mut self, run: RunId, tab: Tab) -> Option<Effect> {
        self.tab = tab;
        if self.run.as_ref().is_some_and(|open| open.agent.run() == run) {
            self.keep_visible();
            return self.wanted_page();
        }
        (self.run, self.page) = (None, None);
        self.opening = Some(run.clone());
        Some(Effect::Open(run))
    }

    /// One step back towards the list of runs.
    fn back(&mut self) -> Option<Effect> {
        match self.tab {
            Tab::Runs => {
                self.runs.search.clear();
                self.runs.status = None;
                self.keep_visible();
                None
            }
            tab if tab.is_page() => self.show(Tab::Tree),
            _ => self.show(Tab::Runs),
        }
    }

    /// Moves to the next row that contains the text of the last search, or to the one before.
    fn find(&mut self, is_back: bool) -> Option<Effect> {
        let text = self.search.clone();
        if text.is_empty() || self.tab == Tab::Runs {
            return None;
        }
        let (columns, height) = (self.columns(), self.height());
        let is_found = match (&mut self.page, self.tab.is_page()) {
            (Some(page), true) => page.find(&text, is_back, columns, height),
            _ => self.find_in_list(&text, is_back),
        };
        if !is_found {
            self.bottom = Bottom::Note(format!("\u{201c}{text}\u{201d} was not found"));
        }
        None
    }

    fn find_in_list(&mut self, text: &str, is_back: bool) -> bool {
        let Some((at, len)) = self.position() else { return false };
        let wanted = text.to_lowercase();
        let texts: Vec<String> = if self.tab == Tab::Inbox {
            self.inbox.rows(self.now_ms).iter().map(|row| row.text().to_lowercase()).collect()
        } else {
            let text = |agent: &posse::AgentView| {
                format!("{} {} {} {}", agent.id, agent.definition, agent.title, agent.activity)
            };
            let agents = self.run.iter().flat_map(|run| run.agents());
            agents.map(|(_, agent)| text(agent).to_lowercase()).collect()
        };
        // From the next row on, around the end.
        let steps = (1..=len).map(|step| if is_back { (at + len - step) % len } else { (at + step) % len });
        let found = steps.into_iter().find(|at| texts.get(*at).is_some_and(|text| text.contains(&wanted)));
        if let Some(found) = found {
            self.select(found);
        }
        found.is_some()
    }
}

/// Changes a text by a key.
fn edit(text: &mut String, key: Key) {
    match key {
        Key::Char(c) if text.chars().count() < INPUT_MAX_CHARS => text.push(c),
        Key::Backspace => drop(text.pop()),
        Key::Control('u') => text.clear(),
        _ => {}
    }
}
