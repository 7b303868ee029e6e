//! Takes commands for the run from its mailbox: each once, in order, in the commit that acts on it.

use posse_domain::event::Sender;
use posse_domain::id::AgentId;
use posse_domain::lifecycle::Cancel;
use tokio::sync::watch;

use super::Driver;
use super::effects::Input;
use crate::ports::{Mail, MailCommand, Pulse};

/// The driver's view of the run's mailbox in the store.
#[derive(Debug)]
pub(super) struct Mailbox {
    pulse: watch::Receiver<Pulse>,
    /// Whether the store has closed the channel that reports new messages.
    closed: bool,
    fetching: bool,
    fetch_again: bool,
    posts_seen: u64,
    taken: u64,
}

impl Mailbox {
    pub(super) fn new(pulse: watch::Receiver<Pulse>) -> Self {
        Self { pulse, closed: false, fetching: false, fetch_again: false, posts_seen: 0, taken: 0 }
    }

    /// Waits until a command may have been posted.
    pub(super) async fn posted(&mut self) {
        loop {
            if self.closed {
                // A closed channel would return at once each time.
                return std::future::pending().await;
            }
            self.closed = self.pulse.changed().await.is_err();
            let posts = self.pulse.borrow_and_update().messages;
            if posts != self.posts_seen {
                self.posts_seen = posts;
                return;
            }
        }
    }
}

impl Driver {
    /// Fetches the commands in the mailbox, one fetch at a time.
    pub(super) fn fetch_mail(&mut self) {
        if self.mail.fetching {
            self.mail.fetch_again = true;
            return;
        }
        self.mail.fetching = true;
        let mail = self.core.rt.parts.store.mail(&self.core.key);
        let sender = self.core.sender.clone();
        tokio::spawn(async move {
            let input = match mail.await {
                Ok(mail) => Input::Mail(mail),
                Err(error) => Input::Lost(error),
            };
            drop(sender.send(input));
        });
    }

    pub(super) fn take_mail(&mut self, mail: Vec<Mail>) {
        self.mail.fetching = false;
        for Mail { id, command } in mail {
            if id <= self.mail.taken || self.core.run.outcome.is_some() {
                continue;
            }
            self.mail.taken = id;
            // The command is marked as taken in the commit of the events that follow from it, also if none follow.
            self.core.batch.mail_taken = Some(id);
            match command {
                MailCommand::Cancel { agent, reason, kill } => {
                    if let Err(refused) = self.cancel(&agent, Cancel { by: "user".to_owned(), reason, kill })
                    {
                        // The user may have sent it when the agent had already ended.
                        tracing::info!(agent_id = %agent, %refused, "a cancel was ignored");
                    }
                }
                MailCommand::Send { agent, text } => self.route_message(&agent, text),
                MailCommand::Answer { agent, call_id, approval, answer } => {
                    self.take_answer(&agent, &call_id, &approval, answer);
                }
            }
        }
        if std::mem::take(&mut self.mail.fetch_again) {
            self.fetch_mail();
        }
    }

    /// Delivers a user's message. The root of a run that only executes a skill calls no model, so its child gets the
    /// message.
    fn route_message(&mut self, agent: &AgentId, text: String) {
        let worker = agent.child(1);
        let agent = if agent.is_root() && self.core.run.is_run_skill(&worker) { &worker } else { agent };
        if self.core.takes_messages(agent) {
            self.receive(agent, Sender::Person, text.into());
        } else {
            tracing::warn!(agent_id = %agent, "a message came after the agent had ended");
        }
    }
}
