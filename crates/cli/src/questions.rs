//! Asks the user at the terminal about a call that waits for an answer.
//!
//! The whole operation is shown, with control characters made visible, and the agent that asks. Input that was typed
//! before the question was shown is discarded. Enter means no. If another user answers elsewhere, the question is
//! removed.

use std::fmt::Write as _;
use std::io::{IsTerminal, PipeWriter, Write as _};
use std::pin::Pin;

use posse::{Answer, ApprovalError, PendingQuestion, Posse, StoredApproval};
use posse_setup::SetupError;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::termios::{QueueSelector, tcflush};
use tokio::sync::oneshot;

use crate::error::CliError;
use crate::output::error_width;
use crate::term;
use crate::view::View;
use crate::view::width::wrapped;

/// Longest line that is read; a terminal returns no longer one.
const LINE_MAX_BYTES: usize = 4096;
/// How many characters of a call's arguments are shown beside its operation.
const ARGUMENTS_MAX_CHARS: usize = 2_000;
/// What an operation that pushes contains.
const PUSH: &str = "git push";

/// Whether a user at a terminal can be asked.
pub(crate) fn attended(json: bool) -> bool {
    !json && std::io::stdin().is_terminal() && std::io::stderr().is_terminal()
}

type PostFuture = Pin<Box<dyn Future<Output = Result<Option<String>, CliError>> + Send>>;

/// Asks about one call after the other.
pub(crate) struct QuestionPrompter {
    /// Whether a user at this terminal is asked.
    is_attended: bool,
    /// The question on the screen.
    prompt: Option<Prompt>,
    /// An answer that is being stored.
    posting: Option<PostFuture>,
    /// Whether the user wants to answer later.
    is_put_off: bool,
}

struct Prompt {
    question: PendingQuestion,
    reading: PendingLine,
}

impl QuestionPrompter {
    /// Asks at this terminal if a user attends it.
    pub(crate) fn new(is_attended: bool) -> Self {
        Self { is_attended, prompt: None, posting: None, is_put_off: false }
    }

    /// Never asks.
    pub(crate) fn without_terminal() -> Self {
        Self::new(false)
    }

    /// Shows the next question of the view if the screen has none, and removes one that was answered.
    pub(crate) async fn refresh(&mut self, posse: &Posse, view: &mut View) -> Result<(), CliError> {
        if !self.is_attended || self.is_put_off || self.posting.is_some() {
            return Ok(());
        }
        let questions = view.run().blocked().questions();
        if let Some(prompt) = &self.prompt {
            if questions.has_unanswered(&prompt.question) {
                return Ok(());
            }
            self.prompt = None;
            view.resume_drawing("\nanswered in another terminal\n");
        }
        if view.run().blocked().questions().unanswered().next().is_none() {
            return Ok(());
        }
        for question in posse.pending_questions_of(view.run()).await? {
            if question.is_answered {
                // Its answer is in the mailbox: another user posted it.
                view.mark_answered(&question);
                continue;
            }
            // Earlier input is not an answer. If it cannot be discarded, the user sees what they typed.
            let _ = tcflush(std::io::stdin(), QueueSelector::IFlush);
            view.pause(&prompt_text(&question));
            self.prompt = Some(Prompt { reading: PendingLine::begin()?, question });
            break;
        }
        Ok(())
    }

    /// Removes the question without an answer, and asks no other: the run ends or is cancelled.
    pub(crate) fn withdraw(&mut self, view: &mut View) {
        self.is_attended = false;
        if self.prompt.take().is_some() {
            view.resume_drawing("\n");
        }
    }

    /// Removes the question without an answer; [`Self::ask_again`] shows it again.
    pub(crate) fn put_off(&mut self, view: &mut View) {
        if self.prompt.take().is_some() {
            self.is_put_off = true;
            view.resume_drawing("\n");
        }
    }

    /// Asks what was put off.
    pub(crate) fn ask_again(&mut self) {
        self.is_put_off = false;
    }

    /// Waits for a typed line, or until an answer is stored; without a question, forever.
    pub(crate) async fn next(&mut self) -> Step {
        if let Some(posting) = &mut self.posting {
            let posted = posting.await;
            self.posting = None;
            return Step::Posted(posted);
        }
        match &mut self.prompt {
            Some(prompt) => Step::Typed(prompt.reading.line().await),
            None => std::future::pending().await,
        }
    }

    /// Handles a typed line, and asks again if it is not an answer.
    pub(crate) fn take(
        &mut self,
        line: Option<&str>,
        posse: &Posse,
        view: &mut View,
    ) -> Result<(), CliError> {
        let Some(prompt) = self.prompt.take() else { return Ok(()) };
        let question = prompt.question;
        // The input ends when the user has gone.
        let Some(answer) = read_answer(line.unwrap_or(""), question.always.is_some()) else {
            view.pause(&choices(&question));
            self.prompt = Some(Prompt { reading: PendingLine::begin()?, question });
            return Ok(());
        };
        // Ctrl-D ends no line.
        view.resume_drawing(if line.is_none() { "\n" } else { "" });
        view.mark_answered(&question);
        let posse = posse.clone();
        self.posting = Some(Box::pin(async move { post(&posse, &question, answer).await }));
        Ok(())
    }
}

/// What happened to the question.
pub(crate) enum Step {
    /// A line; `None` at the end of the input.
    Typed(Option<String>),
    /// The answer is durable, or could not be stored; with a text for the user if there is something to report.
    Posted(Result<Option<String>, CliError>),
}

async fn post(posse: &Posse, question: &PendingQuestion, answer: Answer) -> Result<Option<String>, CliError> {
    match posse.answer(question, answer).await {
        // Another user answered first.
        Err(posse::Error::NotAsked { .. }) => Ok(Some("answered in another terminal".to_owned())),
        // The answer applies to this run. Only the next run would ask again.
        Ok(StoredApproval::Failed(error)) => Ok(Some(not_stored(error).text())),
        Ok(StoredApproval::None | StoredApproval::Stored { .. }) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Why an answer of "always" applies to its run alone.
pub(crate) fn not_stored(error: ApprovalError) -> CliError {
    SetupError::from(error).into()
}

/// The question, with the whole operation.
fn prompt_text(question: &PendingQuestion) -> String {
    let text = format!("\n{}{}", describe(question), choices(question));
    error_width().map_or(text.clone(), |width| wrapped(&text, width))
}

/// An operation that waits for an answer, and the agent that asks, without control characters.
pub(crate) fn describe(question: &PendingQuestion) -> String {
    let operation = term::visible(&question.operation, "    ");
    let mut text = format!("{} asks for permission:\n    {operation}\n", question.agent);
    let arguments: String = question.arguments.chars().take(ARGUMENTS_MAX_CHARS).collect();
    let _ = write!(text, "  with {}", term::visible(&arguments, "       "));
    let more = question.arguments.len() - arguments.len();
    if more > 0 {
        let _ = write!(text, " and {more} bytes more (`posse trace {}` shows all)", question.agent);
    }
    if question.operation.contains(PUSH) {
        let _ = write!(
            text,
            "\n  note: a workspace has no remote, so this fails; push yourself after `posse apply`"
        );
    }
    let _ = write!(text, "\n  approval required by {}\n", term::visible(&question.why(), "    "));
    text
}

fn choices(question: &PendingQuestion) -> String {
    match &question.always {
        Some(literal) => format!(
            "  \"always\" allows exactly `{}` in this directory\n  [o]nce / [a]lways / [d]eny [Enter = deny]: ",
            term::visible(literal.as_str(), "    ")
        ),
        None => "  [o]nce / [d]eny [Enter = deny]: ".to_owned(),
    }
}

/// Parses the answer in a line; `None` if it is not one. The text after a no is its reason.
fn read_answer(line: &str, may_always: bool) -> Option<Answer> {
    let (word, rest) = line.trim().split_once(char::is_whitespace).unwrap_or((line.trim(), ""));
    match (word.to_ascii_lowercase().as_str(), rest.trim()) {
        ("o" | "once", "") => Some(Answer::Once),
        ("a" | "always", "") if may_always => Some(Answer::Always),
        ("" | "d" | "deny" | "n" | "no", rest) => {
            Some(Answer::Deny { reason: (!rest.is_empty()).then(|| rest.to_owned()) })
        }
        _ => None,
    }
}

/// A pending read of a line. Dropping it takes nothing from the terminal.
pub(crate) struct PendingLine {
    line: oneshot::Receiver<Option<String>>,
    /// Closed when this value is dropped, which ends the waiting thread.
    _open: PipeWriter,
}

impl PendingLine {
    pub(crate) fn begin() -> Result<Self, CliError> {
        let failed =
            |error: std::io::Error| CliError::failed(format!("the terminal cannot be read: {error}"));
        let (closed, open) = std::io::pipe().map_err(failed)?;
        let (sender, line) = oneshot::channel();
        // A separate thread: a read of a terminal cannot be cancelled, so it starts only once there is a line.
        let reader = move || {
            let stdin = std::io::stdin();
            let mut watched = [PollFd::new(&stdin, PollFlags::IN), PollFd::new(&closed, PollFlags::IN)];
            while matches!(poll(&mut watched, None), Err(rustix::io::Errno::INTR)) {}
            if !watched[1].revents().is_empty() {
                return;
            }
            let mut line = vec![0; LINE_MAX_BYTES];
            let read = rustix::io::read(&stdin, &mut line).unwrap_or(0);
            line.truncate(read);
            let line = (read > 0).then(|| String::from_utf8_lossy(&line).into_owned());
            let _ = sender.send(line);
        };
        std::thread::Builder::new().name("posse-prompt".to_owned()).spawn(reader).map_err(failed)?;
        Ok(Self { line, _open: open })
    }

    pub(crate) async fn line(&mut self) -> Option<String> {
        (&mut self.line).await.unwrap_or(None)
    }
}

/// Writes to the terminal at once.
pub(crate) fn write_out(text: &str) {
    let mut stderr = std::io::stderr();
    // A closed terminal is no reason to stop.
    drop(stderr.write_all(text.as_bytes()).and_then(|()| stderr.flush()));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_clear_yes_is_a_yes() {
        for yes in ["o", "O\n", " once "] {
            assert_eq!(read_answer(yes, true), Some(Answer::Once), "{yes:?}");
        }
        assert_eq!(read_answer("a\n", true), Some(Answer::Always));
        assert_eq!(read_answer("a\n", false), None, "not offered");
        for no in ["", "\n", "d", "deny", "N"] {
            assert_eq!(read_answer(no, true), Some(Answer::Deny { reason: None }), "{no:?}");
        }
        let reason = Some("not on a Friday".to_owned());
        assert_eq!(read_answer("d not on a Friday\n", true), Some(Answer::Deny { reason }));
        for unclear in ["x", "oo", "o please", "always yes", "\u{1b}[A"] {
            assert_eq!(read_answer(unclear, true), None, "{unclear:?}");
        }
    }
}
