//! Starts children with their parent's conversation, as it was before the reply that spawned them.
//!
//! Why it is like this: `docs/decisions/delegation-shared-history.md`.

use std::collections::{HashMap, HashSet};

use posse_agent::conversation::Conversation;
use posse_agent::machine::Machine;
use posse_domain::contract::Contract;
use posse_domain::event::EventBody;
use posse_domain::id::AgentId;

use super::Driver;
use super::session::SessionError;
use crate::history::{reply_id, shared_from};

impl Driver {
    /// The conversation that a new child begins with, if it shares its parent's conversation. The parent's last message
    /// is the reply that requests the child.
    pub(super) fn shared_now(&self, child: &AgentId) -> Result<Option<Conversation>, SessionError> {
        let agent = self.core.run.open(child).filter(|agent| agent.contract.execution.share_history);
        if agent.is_none() {
            return Ok(None);
        }
        let parent = child.parent().and_then(|parent| self.core.sessions.get(&parent));
        let shared = parent.and_then(|parent| parent.machine.conversation().before_reply());
        shared.map(Some).ok_or_else(|| SessionError::NoParent(child.clone()))
    }

    /// Prepares the search for the conversations that open children share with their parents. They are found while the
    /// parents are folded.
    pub(super) fn shared_in_journal(&self, order: &[AgentId]) -> SharedInJournal {
        let mut wanted: HashMap<AgentId, HashSet<String>> = HashMap::new();
        for agent in order.iter().filter_map(|id| self.core.run.open(id)) {
            if let Some((parent, reply)) = shared_from(&agent.contract) {
                wanted.entry(parent.clone()).or_default().insert(reply.to_owned());
            }
        }
        SharedInJournal { wanted, found: HashMap::new() }
    }
}

/// The shared conversations that are needed, and those already found in the events of parents.
pub(super) struct SharedInJournal {
    wanted: HashMap<AgentId, HashSet<String>>,
    found: HashMap<(AgentId, String), Conversation>,
}

impl SharedInJournal {
    /// Takes an event of an agent before its machine applies it.
    pub(super) fn find_shared(&mut self, agent: &AgentId, machine: &Machine, body: &EventBody) {
        let Some(wanted) = self.wanted.get(agent) else { return };
        if let Some(reply) = reply_id(body).filter(|reply| wanted.contains(reply)) {
            self.found.insert((agent.clone(), reply), machine.conversation().clone());
        }
    }

    /// The conversation that an agent with this contract begins with, if it shares one.
    pub(super) fn of(&self, contract: &Contract) -> Result<Option<Conversation>, SessionError> {
        let Some((parent, reply)) = shared_from(contract) else { return Ok(None) };
        let found = self.found.get(&(parent.clone(), reply.to_owned()));
        found
            .cloned()
            .map(Some)
            .ok_or_else(|| SessionError::NoReply { parent: parent.clone(), reply: reply.to_owned() })
    }
}
