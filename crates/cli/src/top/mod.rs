//! `posse top`: a full screen with all runs.
//!
//! Everything that happens is an [`Input`] of the pure [`State`], whose `update` says what is to be read or done. The
//! session here waits for inputs, performs effects, and draws if something has changed, a few times a second at most.
//!
//! | file | content |
//! |---|---|
//! | `state`, `update` | pure: what is shown, and what an input changes |
//! | `runs`, `open_run`, `page`, `inbox`, `contract` | pure: the parts of the state, and their rows |
//! | `draw`, `scroll` | pure: the screen, and movements |
//! | `load` | reads runs and pages, sends answers |
//! | `terminal` | the screen, the keyboard and the mouse |
//!
//! Why it is like this: `docs/decisions/cli-full-screen.md`.

mod contract;
mod draw;
mod inbox;
mod load;
mod open_run;
mod page;
mod runs;
mod scroll;
mod state;
mod terminal;
#[cfg(test)]
mod tests;
mod update;

use std::path::PathBuf;
use std::time::Duration;

use posse::view::ListStatus;
use posse::{Events, JournalEvent, Posse, RunId};
use posse_setup::project_runs::Project;
use tokio::task::JoinSet;
use tokio::time::{Instant, Interval, MissedTickBehavior, interval, sleep_until};

use crate::error::CliError;
use crate::exit::Exit;
use crate::signals::{Ask, Signals};
use crate::text::now_ms;
use draw::ScreenPainter;
use runs::RunList;
use state::{State, Tab};
use terminal::{FullScreen, ScreenEvent};
use update::{Effect, Input};

/// The least time between two frames.
const FRAME: Duration = Duration::from_millis(100);
/// The time between two looks at the list of runs.
const LOOK: Duration = Duration::from_secs(1);

/// What to show at first.
#[derive(Debug, Default)]
pub(crate) struct TopOptions {
    pub(crate) run: Option<RunId>,
    pub(crate) status: Option<ListStatus>,
    /// The project that the list can be limited to.
    pub(crate) project: Option<Project>,
    pub(crate) is_only_project: bool,
    pub(crate) home: Option<PathBuf>,
    pub(crate) is_coloured: bool,
}

/// Shows all runs until the user leaves.
pub(crate) async fn show(posse: Posse, options: TopOptions) -> Result<Exit, CliError> {
    terminal::give_back_on_panic();
    let signals = Signals::listen()?;
    let screen = FullScreen::take()?;
    let drawing = ScreenPainter { is_coloured: options.is_coloured };
    let (columns, rows) = screen.size();
    let runs = RunList::new(options.status, options.project, options.is_only_project, options.home);
    let state = State { columns, rows, now_ms: now_ms(), runs, ..State::default() };
    let mut looks = interval(LOOK);
    looks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    let mut session = Session {
        posse,
        state,
        screen,
        drawing,
        signals,
        looks,
        loading: JoinSet::new(),
        is_looking: false,
        events: None,
        is_changed: true,
        next_frame: Instant::now(),
    };
    if let Some(run) = options.run {
        let effect = session.state.open(run, Tab::Tree);
        session.perform(effect);
    }
    session.run().await
}

/// The terminal with what it shows.
struct Session {
    posse: Posse,
    state: State,
    screen: FullScreen,
    drawing: ScreenPainter,
    signals: Signals,
    looks: Interval,
    loading: JoinSet<Option<Input>>,
    /// Whether the list of runs is being read.
    is_looking: bool,
    /// The events of the open run.
    events: Option<Events>,
    is_changed: bool,
    next_frame: Instant,
}

/// What ended a wait.
enum SessionEvent {
    Screen(ScreenEvent),
    Signal(Ask),
    Tick,
    Loaded(Option<Input>),
    Event(Box<Result<JournalEvent, posse::Error>>),
    FrameDue,
}

impl Session {
    async fn run(&mut self) -> Result<Exit, CliError> {
        loop {
            let input = match self.next().await {
                SessionEvent::Signal(ask) => return Ok(ask.exit()),
                SessionEvent::FrameDue => {
                    self.draw();
                    continue;
                }
                SessionEvent::Screen(ScreenEvent::Key(key)) => Input::Key(key),
                SessionEvent::Screen(ScreenEvent::Resized) => {
                    self.screen.resize();
                    self.resized()
                }
                SessionEvent::Screen(ScreenEvent::Suspended) => {
                    self.screen.suspend();
                    self.resized()
                }
                SessionEvent::Tick => Input::Tick(now_ms()),
                SessionEvent::Loaded(None) => continue,
                SessionEvent::Loaded(Some(input)) => self.loaded(input),
                SessionEvent::Event(event) => match *event {
                    Ok(event) => Input::Event(Box::new(event)),
                    Err(error) => {
                        self.events = None;
                        Input::Note(CliError::from(error).text())
                    }
                },
            };
            let update = self.state.update(input);
            self.is_changed |= update.is_changed;
            if update.effect == Some(Effect::Quit) {
                return Ok(Exit::DONE);
            }
            self.perform(update.effect);
        }
    }

    fn resized(&self) -> Input {
        let (columns, rows) = self.screen.size();
        Input::Resize(columns, rows)
    }

    async fn next(&mut self) -> SessionEvent {
        tokio::select! {
            event = self.screen.next() => SessionEvent::Screen(event),
            ask = self.signals.next() => SessionEvent::Signal(ask),
            _ = self.looks.tick() => SessionEvent::Tick,
            Some(loaded) = self.loading.join_next() => SessionEvent::Loaded(loaded.ok().flatten()),
            event = next_event(self.events.as_mut()) => SessionEvent::Event(Box::new(event)),
            () = sleep_until(self.next_frame), if self.is_changed => SessionEvent::FrameDue,
        }
    }

    /// Follows a run from what was read of it on.
    fn loaded(&mut self, input: Input) -> Input {
        match &input {
            Input::Runs(..) => self.is_looking = false,
            Input::Run(view, _) => {
                let run = view.run().filter(|run| self.state.opening.as_ref() == Some(run));
                if let Some(run) = run {
                    self.events = Some(self.posse.events(&run, view.last_seq()));
                }
            }
            _ => {}
        }
        input
    }

    fn perform(&mut self, effect: Option<Effect>) {
        let Some(effect) = effect else { return };
        // A slow disk gets no second look before the first has ended.
        if effect == Effect::LoadRuns && std::mem::replace(&mut self.is_looking, true) {
            return;
        }
        self.loading.spawn(load::perform(self.posse.clone(), effect));
    }

    fn draw(&mut self) {
        self.next_frame = Instant::now() + FRAME;
        // A terminal that is stopped, or that another job has, gets its frame later.
        if self.screen.is_ready() {
            self.is_changed = false;
            let (state, drawing) = (&self.state, self.drawing);
            self.screen.frame(|buffer| drawing.draw(state, buffer));
        }
    }
}

/// The next event of the open run; without one, waits forever.
async fn next_event(events: Option<&mut Events>) -> Result<JournalEvent, posse::Error> {
    match events {
        Some(events) => events.next().await,
        None => std::future::pending().await,
    }
}
