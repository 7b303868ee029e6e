//! Hands the decisions of the driver to the store, and starts the effects of durable commits at their desks.

use posse_domain::id::AgentId;

use super::Driver;
use super::desks::files::FilesDesk;
use super::effects::{Effect, Input};
use crate::history::conversation_of;

impl Driver {
    pub(super) fn execute(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            match effect {
                Effect::Model(effect) => self.models.start(&mut self.core, *effect),
                Effect::Call(effect) => self.calls.start(&self.core, *effect),
                Effect::Files(effect) => FilesDesk::start(&self.core, effect),
                Effect::Hook(effect) => self.calls.start_hooks(&self.core, *effect),
                Effect::History { agent, of } => self.read_history(agent, of),
            }
        }
    }

    pub(super) fn submit(&mut self) {
        let effects = self.commits.submit(&mut self.core);
        self.execute(effects);
    }

    /// Hands the decisions of the round to the store if they are many. Must not be called between decisions that belong
    /// together: if a child were closed in one commit and its parent answered in the next, a crash between them would
    /// spawn the child again.
    pub(super) fn submit_if_full(&mut self) {
        if self.core.batch.is_full() {
            self.submit();
        }
    }

    /// Reads the conversation of a closed child in a task.
    fn read_history(&self, agent: AgentId, of: AgentId) {
        let store = self.core.rt.parts.store.clone();
        let key = self.core.key.clone();
        let sender = self.core.sender.clone();
        let faults = self.core.rt.parts.faults.clone();
        tokio::spawn(async move {
            let conversation = conversation_of(&*store, &key, &of).await;
            faults.hit("engine.history.after_read");
            drop(sender.send(Input::History { agent, conversation }));
        });
    }
}
