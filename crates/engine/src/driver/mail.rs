//! Commands for the run from outside: taken once, in order, in the commit that acts on them.

use posse_domain::event::Sender;
use posse_domain::id::AgentId;
use posse_domain::lifecycle::Cancel;

use super::Driver;
use super::effects::Input;
use crate::ports::{Mail, MailCommand};

/// Where the driver stands with its mailbox.
#[derive(Debug, Default)]
pub(super) struct Mailbox {
    looking: bool,
    again: bool,
    posts_seen: u64,
    taken: u64,
}

impl Driver {
    /// Looks into the mailbox if something may have been posted since the last look.
    pub(super) fn check_mailbox(&mut self) {
        let posts = self.pulse.borrow_and_update().posts;
        if posts == self.mail.posts_seen {
            return;
        }
        self.mail.posts_seen = posts;
        self.fetch_mail();
    }

    /// Fetches what is in the mailbox, one look at a time.
    pub(super) fn fetch_mail(&mut self) {
        if self.mail.looking {
            self.mail.again = true;
            return;
        }
        self.mail.looking = true;
        let mail = self.rt.parts.store.mail(&self.key);
        let sender = self.sender.clone();
        tokio::spawn(async move {
            let input = match mail.await {
                Ok(mail) => Input::Mail(mail),
                Err(error) => Input::Lost(error),
            };
            drop(sender.send(input));
        });
    }

    pub(super) fn take_mail(&mut self, mail: Vec<Mail>) {
        self.mail.looking = false;
        for Mail { id, command } in mail {
            if id <= self.mail.taken || self.run.outcome.is_some() {
                continue;
            }
            self.mail.taken = id;
            // Taken in the same commit as what it leads to, also when that is nothing.
            self.batch.mail_taken = Some(id);
            match command {
                MailCommand::Cancel { agent, reason, kill } => {
                    self.cancel(&agent, Cancel { by: "user".to_owned(), reason, kill });
                }
                MailCommand::Send { agent, text } => self.route_messages(&agent, text),
                MailCommand::Answer { agent, call_id, approval, answer } => {
                    self.take_answer(&agent, &call_id, &approval, answer);
                }
            }
        }
        if std::mem::take(&mut self.mail.again) {
            self.fetch_mail();
        }
    }

    /// A root that only runs a skill asks no model, and would never read a message: the one who works does.
    fn route_messages(&mut self, agent: &AgentId, text: String) {
        let worker = agent.child(1);
        let agent = if agent.is_root() && self.run.is_run_skill(&worker) { &worker } else { agent };
        if self.takes_messages(agent) {
            self.receive(agent, Sender::Person, text.into());
        } else {
            tracing::warn!(agent_id = %agent, "a message came after the agent had ended");
        }
    }
}
