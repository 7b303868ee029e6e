//! Follows a run to its end: shows its progress, asks its questions, and reacts to keys and signals. The run is executed by
//! this process, or by another one that this process only watches.

use std::sync::Arc;
use std::time::Duration;

use posse::hooks::HookFailures;
use posse::{AgentId, Delta, EventKind, Posse, RunHandle, RunId, RunOutcome};

use tokio::sync::broadcast::{self, error::RecvError};
use tokio::task::JoinSet;

use crate::commands::apply::apply_at_end;
use crate::commands::wait::interrupted;
use crate::error::CliError;
use crate::exit::Exit;
use crate::message::MessagePrompt;
use crate::output::note;
use crate::questions::{QuestionPrompter, Step};
use crate::signals::{Ask, Signals};
use crate::view::{Key, TerminalEvent, View, Wish, next_report};

/// How long a stop waits until the run's lease is released. After that the next lease holder does not wait longer,
/// because the lock of an ended process is free.
const STOP_PATIENCE: Duration = Duration::from_secs(2);

/// How following a run ended.
pub(crate) enum DriveOutcome {
    /// The run ended.
    Ended(Box<RunOutcome>),
    /// A signal stopped the process; the run can be resumed.
    Stopped(Ask),
    /// The user left a run that another process executes.
    Left(Exit),
}

/// Who executes the run.
#[derive(Clone, Copy)]
enum Role<'a> {
    /// This process.
    Executes(&'a RunHandle),
    /// Another process.
    Watches,
}

/// A run that is being followed.
struct RunFollower<'a> {
    posse: &'a Posse,
    run: RunId,
    role: Role<'a>,
    /// Events up to this number are not shown again.
    known: u64,
    view: &'a mut View,
    asking: &'a mut QuestionPrompter,
    message: Option<MessagePrompt>,
    deltas: Option<broadcast::Receiver<Arc<[Delta]>>>,
    failing: Option<HookFailures>,
    /// How many failed hooks were shown.
    failed_shown: usize,
    /// Cancellations and messages on their way. They are not awaited: a disk that hangs must not delay Ctrl-C.
    posting: JoinSet<Result<Option<String>, CliError>>,
    is_cancelling: bool,
    has_ended: bool,
}

/// What happened.
enum FollowerEvent {
    Event(Box<posse::JournalEvent>),
    Question(Step),
    Message(Option<String>),
    Posted(Result<Option<String>, CliError>),
    Signal(Ask),
    Deltas(Option<Arc<[Delta]>>),
    Files(Option<posse::FilesProgress>),
    HookFailed,
    Terminal(TerminalEvent),
}

impl<'a> RunFollower<'a> {
    fn new(
        posse: &'a Posse,
        run: &RunId,
        role: Role<'a>,
        known: u64,
        view: &'a mut View,
        asking: &'a mut QuestionPrompter,
    ) -> Self {
        let deltas = match role {
            Role::Executes(handle) if view.wants() => Some(handle.deltas()),
            _ => None,
        };
        Self {
            posse,
            run: run.clone(),
            role,
            known,
            view,
            asking,
            message: None,
            deltas,
            failing: posse.hook_failures(),
            failed_shown: 0,
            posting: JoinSet::new(),
            is_cancelling: false,
            has_ended: false,
        }
    }

    /// Follows the run until it ends, a signal asks to stop, or the user leaves.
    async fn follow(&mut self, signals: &mut Signals) -> Result<DriveOutcome, CliError> {
        let posse = self.posse;
        let after = if self.view.needs_past() { 0 } else { self.known };
        if after > 0 {
            self.view.start_from(posse.view(&self.run).await?);
            // Its end would not be reported again.
            self.has_ended = matches!(self.role, Role::Watches) && !self.view.run().status().is_running();
            if !self.has_ended {
                self.ask().await?;
            }
        }
        let mut events = posse.events(&self.run, after);
        let mut reports = posse.files_progress();
        let mut lost = Box::pin(lost(posse, self.run.clone(), self.role));
        let mut is_released = false;
        while !self.has_ended {
            let happened = tokio::select! {
                event = events.next() => FollowerEvent::Event(Box::new(event?)),
                // A regular end is read from the journal. Only losing the run is reported here.
                ended = &mut lost, if !is_released => {
                    is_released = true;
                    ended?;
                    continue;
                }
                ask = signals.next() => FollowerEvent::Signal(ask),
                report = next_report(&mut reports) => FollowerEvent::Files(report),
                happened = self.next() => happened,
            };
            if let Some(outcome) = self.handle(happened).await? {
                return Ok(outcome);
            }
        }
        self.print_failed_hooks();
        self.asking.withdraw(self.view);
        if let (Role::Executes(_), false) = (self.role, is_released) {
            lost.await?;
        }
        let finished = posse.wait(&self.run).await?;
        self.view.close();
        Ok(DriveOutcome::Ended(Box::new(finished)))
    }

    /// The next thing that happens apart from events and signals.
    async fn next(&mut self) -> FollowerEvent {
        tokio::select! {
            step = self.asking.next() => FollowerEvent::Question(step),
            line = typed(self.message.as_mut()) => FollowerEvent::Message(line),
            Some(posted) = self.posting.join_next() => {
                // A task that panicked has posted nothing.
                let failed = |_| Err(CliError::failed("the request was not stored"));
                FollowerEvent::Posted(posted.unwrap_or_else(failed))
            }
            deltas = next_deltas(self.deltas.as_mut()) => FollowerEvent::Deltas(deltas),
            () = more_failed(self.failing.as_mut(), self.failed_shown) => FollowerEvent::HookFailed,
            event = self.view.next() => FollowerEvent::Terminal(event),
        }
    }

    async fn handle(&mut self, happened: FollowerEvent) -> Result<Option<DriveOutcome>, CliError> {
        match happened {
            FollowerEvent::Event(event) => self.on_event(&event).await?,
            FollowerEvent::Question(Step::Typed(line)) => {
                self.asking.take(line.as_deref(), self.posse, self.view)?;
            }
            FollowerEvent::Question(Step::Posted(posted)) => {
                self.show(posted?);
                self.ask().await?;
            }
            FollowerEvent::Message(line) => {
                self.on_message(line);
                self.ask().await?;
            }
            FollowerEvent::Posted(posted) => self.show(posted?),
            FollowerEvent::Signal(ask) => return self.on_signal(ask).await,
            FollowerEvent::Terminal(TerminalEvent::Key(Key::Interrupt)) => {
                return self.on_signal(Ask::Interrupt).await;
            }
            FollowerEvent::Terminal(TerminalEvent::Key(key)) => {
                if let Some(wish) = self.view.on_key(key) {
                    return self.on_wish(wish).await;
                }
            }
            FollowerEvent::Terminal(TerminalEvent::Suspended) => self.view.suspend(),
            FollowerEvent::Terminal(TerminalEvent::FrameDue) => self.view.draw(),
            FollowerEvent::Deltas(Some(deltas)) => self.view.deltas(&deltas),
            FollowerEvent::Deltas(None) => self.deltas = None,
            FollowerEvent::Files(report) => {
                self.view.progress(report.filter(|report| report.run == self.run.as_str()).as_ref());
            }
            FollowerEvent::HookFailed => self.print_failed_hooks(),
        }
        Ok(None)
    }

    async fn on_event(&mut self, event: &posse::JournalEvent) -> Result<(), CliError> {
        // Text that was streamed before the event is shown before it.
        while let Some(Ok(deltas)) = self.deltas.as_mut().map(broadcast::Receiver::try_recv) {
            self.view.deltas(&deltas);
        }
        self.has_ended = event.kind.ends_run();
        if event.seq <= self.known {
            self.view.past(event);
            // What was open before is asked too.
            let is_newest = event.seq == self.known;
            return if is_newest && !self.has_ended { self.ask().await } else { Ok(()) };
        }
        self.view.event(event)?;
        if event.kind == EventKind::InputRequested {
            self.asking.ask_again();
        }
        if self.has_ended { Ok(()) } else { self.ask().await }
    }

    /// Asks the next question, unless the user is typing something else.
    async fn ask(&mut self) -> Result<(), CliError> {
        if self.message.is_some() {
            return Ok(());
        }
        self.asking.refresh(self.posse, self.view).await
    }

    fn show(&mut self, text: Option<String>) {
        if let Some(text) = text {
            self.view.note(&text);
        }
    }

    fn on_message(&mut self, line: Option<String>) {
        let Some(prompt) = self.message.take() else { return };
        self.view.resume_drawing(if line.is_none() { "\n" } else { "" });
        let text = line.unwrap_or_default().trim().to_owned();
        if text.is_empty() {
            return;
        }
        let (posse, agent) = (self.posse.clone(), prompt.agent);
        self.posting.spawn(async move {
            match posse.send(&agent, &text).await {
                Ok(()) => Ok(Some(format!("sent to {agent}"))),
                Err(error) => Ok(Some(CliError::from(error).text())),
            }
        });
    }

    async fn on_signal(&mut self, ask: Ask) -> Result<Option<DriveOutcome>, CliError> {
        let is_first = ask == Ask::Interrupt && !self.is_cancelling;
        if is_first {
            if self.message.take().is_some() {
                self.view.resume_drawing("\n");
            }
            self.asking.put_off(self.view);
            if self.view.interrupt() {
                return Ok(None);
            }
            if let Role::Watches = self.role
                && !self.view.has_keys()
            {
                // Without a terminal, the end of a view is no wish about the run.
                return Ok(Some(self.leave(Exit::INTERRUPTED)));
            }
            let root = self.run.root();
            self.cancel(&root);
            return Ok(None);
        }
        self.asking.withdraw(self.view);
        Ok(Some(self.stop(ask).await))
    }

    /// Stops this process. A run that another process executes continues.
    async fn stop(&mut self, ask: Ask) -> DriveOutcome {
        match self.role {
            Role::Watches => self.leave(ask.exit()),
            Role::Executes(handle) => {
                let (is_recorded, ()) =
                    tokio::join!(wait_until_recorded(&mut self.posting), stop(self.posse, handle));
                let run = &self.run;
                self.view.stop(&match (self.is_cancelling, is_recorded) {
                    (true, true) => format!(
                        "stopped; the cancellation is recorded: `posse resume {run}` completes it, and `posse retry {run}` starts again"
                    ),
                    (true, false) => {
                        format!("stopped before the cancellation was recorded: `posse resume {run}` continues the run")
                    }
                    (false, _) => format!("stopped; `posse resume {run}` continues the run"),
                });
                DriveOutcome::Stopped(ask)
            }
        }
    }

    fn leave(&mut self, exit: Exit) -> DriveOutcome {
        self.asking.withdraw(self.view);
        self.view.stop(&format!("run {} continues; `posse attach {0}` shows it again", self.run));
        DriveOutcome::Left(exit)
    }

    async fn on_wish(&mut self, wish: Wish) -> Result<Option<DriveOutcome>, CliError> {
        match wish {
            Wish::Message(agent) => match MessagePrompt::begin(agent, self.view) {
                Ok(prompt) => self.message = Some(prompt),
                Err(error) => self.view.note(&error.text()),
            },
            Wish::Answer => {
                let has_none = self.view.run().blocked().questions().unanswered().next().is_none();
                if has_none {
                    self.view.note("no question waits for an answer");
                }
                self.asking.ask_again();
                self.ask().await?;
            }
            Wish::Cancel(agent) => self.cancel(&agent),
            Wish::Detach => return Ok(self.detach()),
        }
        Ok(None)
    }

    fn detach(&mut self) -> Option<DriveOutcome> {
        if let Role::Watches = self.role {
            return Some(self.leave(Exit::DONE));
        }
        self.asking.put_off(self.view);
        match self.view.detach(&self.run) {
            Ok(()) => self.asking.withdraw(self.view),
            Err(reason) => self.view.note(&reason),
        }
        None
    }

    /// Requests the cancellation of an agent; of the root for the whole run.
    fn cancel(&mut self, agent: &AgentId) {
        self.view.end_choice();
        if agent.is_root() {
            self.is_cancelling = true;
            self.asking.withdraw(self.view);
            self.view.note("cancelling; press Ctrl-C again to stop at once");
        } else {
            self.view.note(&format!("cancelling {agent}"));
        }
        let (posse, agent) = (self.posse.clone(), agent.clone());
        self.posting.spawn(async move {
            match posse.cancel(&agent, "cancelled by the user").await {
                // It ended at the same moment: its end is on the way.
                Err(posse::Error::Ended { .. }) => Ok(None),
                other => Ok(other.map(|()| None)?),
            }
        });
    }

    /// Shows which hooks of the run have failed since.
    fn print_failed_hooks(&mut self) {
        let Some(failing) = &self.failing else { return };
        let failed = failing.borrow().clone();
        for failed in failed.iter().skip(self.failed_shown).filter(|failed| failed.run == self.run) {
            self.view.note(&format!("warning: {}", failed.text));
        }
        self.failed_shown = failed.len();
    }
}

/// Waits until everything that was posted is in the store; `false` if it is not. A disk that hangs is not awaited for long.
async fn wait_until_recorded(posting: &mut JoinSet<Result<Option<String>, CliError>>) -> bool {
    let recorded = async {
        while let Some(posted) = posting.join_next().await {
            if !matches!(posted, Ok(Ok(_))) {
                return false;
            }
        }
        true
    };
    tokio::time::timeout(STOP_PATIENCE, recorded).await.unwrap_or(false)
}

/// Waits until this process has lost or released the run; for one that another process executes, until none does.
async fn lost(posse: &Posse, run: RunId, role: Role<'_>) -> Result<(), CliError> {
    match role {
        Role::Executes(handle) => Ok(handle.ended().await?),
        Role::Watches => {
            posse.wait_until_interrupted(&run).await?;
            Err(interrupted(&run))
        }
    }
}

/// A line that the user types; without a prompt, waits forever.
async fn typed(message: Option<&mut MessagePrompt>) -> Option<String> {
    match message {
        Some(message) => message.line().await,
        None => std::future::pending().await,
    }
}

/// The newest output of models; `None` once no model writes any more. Output that came too fast to be shown is skipped.
async fn next_deltas(deltas: Option<&mut broadcast::Receiver<Arc<[Delta]>>>) -> Option<Arc<[Delta]>> {
    let Some(deltas) = deltas else { return std::future::pending().await };
    loop {
        match deltas.recv().await {
            Ok(deltas) => return Some(deltas),
            Err(RecvError::Lagged(_)) => {}
            Err(RecvError::Closed) => return None,
        }
    }
}

/// Waits until more hooks have failed than are shown.
async fn more_failed(failing: Option<&mut HookFailures>, shown: usize) {
    let Some(failing) = failing else { return std::future::pending().await };
    if failing.wait_for(|failed| failed.len() > shown).await.is_err() {
        std::future::pending::<()>().await;
    }
}

async fn stop(posse: &Posse, handle: &RunHandle) {
    posse.stop();
    if tokio::time::timeout(STOP_PATIENCE, handle.ended()).await.is_err() {
        // The disk hangs. The journal is consistent at every moment, and the lease ends with the process. Dropping the
        // store would wait for the disk, so it is leaked.
        std::mem::forget(posse.clone());
    }
}
/// Executes the run, and prints how it ended.
pub(crate) async fn drive_and_print(
    posse: &Posse,
    handle: &RunHandle,
    known: u64,
    signals: &mut Signals,
    view: View,
    asking: QuestionPrompter,
) -> Result<Exit, CliError> {
    drive_and_apply(posse, handle, known, signals, view, asking, false).await
}

/// Executes the run, applies its result if requested and completed, and prints how it ended.
pub(crate) async fn drive_and_apply(
    posse: &Posse,
    handle: &RunHandle,
    known: u64,
    signals: &mut Signals,
    mut view: View,
    mut asking: QuestionPrompter,
    apply: bool,
) -> Result<Exit, CliError> {
    match drive_to_end(posse, handle, known, signals, &mut view, &mut asking).await? {
        DriveOutcome::Ended(finished) => print_end(posse, &finished, &mut view, apply).await,
        DriveOutcome::Stopped(ask) => Ok(ask.exit()),
        DriveOutcome::Left(exit) => Ok(exit),
    }
}

/// Prints how a run ended, and applies its result if requested and completed.
pub(crate) async fn print_end(
    posse: &Posse,
    finished: &RunOutcome,
    view: &mut View,
    apply: bool,
) -> Result<Exit, CliError> {
    let outcome = if apply { apply_at_end(posse, finished).await } else { None };
    let applied = outcome.as_ref().map(Result::is_ok);
    view.result(finished, applied)?;
    match outcome {
        Some(Ok(applied)) => note(&applied),
        Some(Err(error)) => note(error.text().trim_end()),
        None if apply => note("not applied: the run did not complete"),
        None => {}
    }
    Ok(Exit::of_applied(finished, applied))
}

/// Executes the run. The caller prints how it ended.
pub(crate) async fn drive_to_end(
    posse: &Posse,
    handle: &RunHandle,
    known: u64,
    signals: &mut Signals,
    view: &mut View,
    asking: &mut QuestionPrompter,
) -> Result<DriveOutcome, CliError> {
    let role = Role::Executes(handle);
    let mut following = RunFollower::new(posse, handle.id(), role, known, &mut *view, &mut *asking);
    let driven = following.follow(signals).await;
    if driven.is_err() {
        asking.withdraw(view);
        // Nothing more may start without a user who watches. Written events stay.
        stop(posse, handle).await;
        view.close();
    }
    driven
}

/// Watches a run that another process executes, and prints how it ended.
pub(crate) async fn watch(
    posse: &Posse,
    run: &RunId,
    known: u64,
    signals: &mut Signals,
    mut view: View,
    mut asking: QuestionPrompter,
) -> Result<Exit, CliError> {
    let mut following = RunFollower::new(posse, run, Role::Watches, known, &mut view, &mut asking);
    let watched = following.follow(signals).await;
    view.close();
    match watched? {
        DriveOutcome::Ended(finished) => print_end(posse, &finished, &mut view, false).await,
        DriveOutcome::Stopped(ask) => Ok(ask.exit()),
        DriveOutcome::Left(exit) => Ok(exit),
    }
}

/// Executes a run that is about to end, without showing it.
pub(crate) async fn drive_quietly(
    posse: &Posse,
    handle: &RunHandle,
    signals: &mut Signals,
) -> Result<(), CliError> {
    tokio::select! {
        ended = handle.ended() => Ok(ended?),
        _ = signals.next() => {
            stop(posse, handle).await;
            Err(CliError::interrupted("stopped before the run was ended")
                .hint(format!("`posse resume {}` ends it", handle.id())))
        }
    }
}
