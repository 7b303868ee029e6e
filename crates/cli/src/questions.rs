//! Asking the person at the terminal about a call that waits for them.
//!
//! The whole operation is shown, with everything in it that a terminal would hide or act on made visible, and who
//! asks. Whatever was typed before the question stood there is thrown away: an answer is given to what was read.
//! Enter is a no. If somebody answers elsewhere, the question goes away.

use std::fmt::Write as _;
use std::io::{IsTerminal, PipeWriter, Write as _};
use std::pin::Pin;

use posse::{Answer, JournalEvent, Posse, Request, RunId, StoredApproval};
use posse_setup::SetupError;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::termios::{QueueSelector, tcflush};
use tokio::sync::oneshot;

use crate::error::CliError;
use crate::term;
use crate::view::View;

/// Longest line that is read; a terminal hands over no longer one.
const LINE_MAX_BYTES: usize = 4096;
/// Characters of a call's arguments that are shown beside its operation.
const ARGUMENTS_MAX_CHARS: usize = 2_000;

/// Whether somebody at a terminal can be asked.
pub(crate) fn attended(json: bool) -> bool {
    !json && std::io::stdin().is_terminal() && std::io::stderr().is_terminal()
}

type PostFuture = Pin<Box<dyn Future<Output = Result<Option<String>, CliError>> + Send>>;

/// Asks about one call after the other.
pub(crate) struct QuestionPrompter {
    /// Whether a person at this terminal is asked.
    is_attended: bool,
    /// The question that stands on the screen.
    prompt: Option<Prompt>,
    /// An answer on its way.
    posting: Option<PostFuture>,
}

struct Prompt {
    request: Request,
    reading: PendingLine,
}

impl QuestionPrompter {
    /// Nobody is asked.
    pub(crate) fn without_terminal() -> Self {
        Self { is_attended: false, prompt: None, posting: None }
    }

    /// The person at this terminal is asked.
    pub(crate) fn here() -> Self {
        Self { is_attended: true, prompt: None, posting: None }
    }

    /// Whether an event can open or close a question.
    pub(crate) fn is_about(&self, event: &JournalEvent) -> bool {
        // After a resume a question may be open that nobody asks again.
        let opens = ["agent.input_requested", "run.resumed"].contains(&event.kind);
        let closes = [
            "agent.input_answered",
            "agent.tool_finished",
            "agent.tool_interrupted",
            "agent.subagent_refused",
        ];
        let asks = |prompt: &Prompt| prompt.request.agent == event.agent_id;
        let is_open = self.prompt.as_ref().is_some_and(asks);
        self.is_attended && (opens || (is_open && closes.contains(&event.kind)))
    }

    /// Shows the next question if there is none on the screen, and takes one away that is settled.
    pub(crate) async fn refresh(
        &mut self,
        posse: &Posse,
        run: &RunId,
        view: &mut View,
    ) -> Result<(), CliError> {
        if !self.is_attended || self.posting.is_some() {
            return Ok(());
        }
        let open = posse.requests(run).await?;
        let waits = |request: &Request| !request.is_answered;
        if let Some(prompt) = &self.prompt {
            if open.iter().any(|request| is_same(request, &prompt.request) && waits(request)) {
                return Ok(());
            }
            self.prompt = None;
            view.go_on("\nsettled elsewhere\n");
        }
        if let Some(request) = open.into_iter().find(waits) {
            // Typed before it was asked for is no answer. If it cannot be thrown away, the person sees what they typed.
            let _ = tcflush(std::io::stdin(), QueueSelector::IFlush);
            view.pause(&question(&request));
            self.prompt = Some(Prompt { reading: PendingLine::begin()?, request });
        }
        Ok(())
    }

    /// The question goes away without an answer.
    pub(crate) fn withdraw(&mut self, view: &mut View) {
        if self.prompt.take().is_some() {
            view.go_on("\n");
        }
    }

    /// Waits for a line to be typed, or for an answer to be on its way; without a question for ever.
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

    /// Takes what was typed: an answer, or something that is none.
    pub(crate) fn take(
        &mut self,
        line: Option<&str>,
        posse: &Posse,
        view: &mut View,
    ) -> Result<(), CliError> {
        let Some(prompt) = self.prompt.take() else { return Ok(()) };
        let request = prompt.request;
        // The end of the input is a person who has gone.
        let Some(answer) = read_answer(line.unwrap_or(""), request.always.is_some()) else {
            view.pause(&choices(&request));
            self.prompt = Some(Prompt { reading: PendingLine::begin()?, request });
            return Ok(());
        };
        view.go_on("");
        let posse = posse.clone();
        self.posting = Some(Box::pin(async move { post(&posse, &request, answer).await }));
        Ok(())
    }
}

/// What happened while nobody looked.
pub(crate) enum Step {
    /// A line; none at the end of the input.
    Typed(Option<String>),
    /// The answer is durable, or could not be made so; a text for the person if there is something to say.
    Posted(Result<Option<String>, CliError>),
}

async fn post(posse: &Posse, request: &Request, answer: Answer) -> Result<Option<String>, CliError> {
    match posse.answer(request, answer).await {
        // Another person answered first.
        Err(posse::Error::NotAsked { .. }) => Ok(Some("settled elsewhere".to_owned())),
        // The answer counts all the same; only the next run would ask again.
        Ok(StoredApproval::Failed(error)) => Ok(Some(not_stored(error).text())),
        Ok(StoredApproval::None | StoredApproval::Stored { .. }) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Why an answer of "always" counts for its run alone.
pub(crate) fn not_stored(error: Box<dyn std::error::Error + Send + Sync>) -> CliError {
    match error.downcast::<SetupError>() {
        Ok(error) => CliError::from(*error),
        Err(error) => CliError::failed(error.to_string()),
    }
}

fn is_same(one: &Request, other: &Request) -> bool {
    (&one.agent, &one.call_id, one.approval) == (&other.agent, &other.call_id, other.approval)
}

/// What is asked, with all of the operation.
fn question(request: &Request) -> String {
    format!("\n{}{}", describe(request), choices(request))
}

/// An operation that waits for a person, and who asks; nothing in it steers a terminal.
pub(crate) fn describe(request: &Request) -> String {
    let operation = term::visible(&request.operation, "    ");
    let mut text = format!("{} asks for permission:\n    {operation}\n", request.agent);
    let arguments: String = request.arguments.chars().take(ARGUMENTS_MAX_CHARS).collect();
    let _ = write!(text, "  with {}", term::visible(&arguments, "       "));
    let more = request.arguments.len() - arguments.len();
    if more > 0 {
        let _ = write!(text, " and {more} bytes more (`posse trace {}` shows all)", request.agent);
    }
    let _ = write!(text, "\n  because of {}\n", term::visible(&request.why(), "    "));
    text
}

fn choices(request: &Request) -> String {
    match &request.always {
        Some(literal) => format!(
            "  always would keep exactly `{}` for this directory\n  [o]nce / [a]lways / [d]eny (Enter): ",
            term::visible(literal.as_str(), "    ")
        ),
        None => "  [o]nce / [d]eny (Enter): ".to_owned(),
    }
}

/// What a line says; none if it is no answer. What follows a no is its reason.
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

/// A line that is being waited for. Dropping it takes nothing from the terminal.
struct PendingLine {
    line: oneshot::Receiver<Option<String>>,
    /// Closed with this value: the thread that waits ends.
    _open: PipeWriter,
}

impl PendingLine {
    fn begin() -> Result<Self, CliError> {
        let failed =
            |error: std::io::Error| CliError::failed(format!("the terminal cannot be read: {error}"));
        let (closed, open) = std::io::pipe().map_err(failed)?;
        let (tell, line) = oneshot::channel();
        // A thread of its own: a read of a terminal cannot be called off, so it is begun only once there is a line.
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
            let _ = tell.send(line);
        };
        std::thread::Builder::new().name("posse-prompt".to_owned()).spawn(reader).map_err(failed)?;
        Ok(Self { line, _open: open })
    }

    async fn line(&mut self) -> Option<String> {
        (&mut self.line).await.unwrap_or(None)
    }
}

/// Writes to the terminal at once.
pub(crate) fn write_out(text: &str) {
    let mut stderr = std::io::stderr();
    // A terminal that is gone is no reason to stop.
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
