//! Children that begin with their parent's conversation, as it was when the model was asked for the reply that spawned them.
//!
//! Why it is like this: `docs/decisions/delegation-shared-history.md`.

use std::collections::{HashMap, HashSet};

use posse_agent::conversation::Conversation;
use posse_agent::machine::Machine;
use posse_domain::contract::Contract;
use posse_domain::event::EventBody;
use posse_domain::id::AgentId;

use super::Driver;
use crate::history::{reply_id, shared_from};

impl Driver {
    /// The conversation that a child which is being created begins with, if it shares its parent's. The reply that asks
    /// for the child is the last thing its parent has said.
    pub(super) fn shared_now(&self, child: &AgentId) -> Result<Option<Conversation>, String> {
        let agent = self.run.open(child).filter(|agent| agent.contract.execution.share_history);
        if agent.is_none() {
            return Ok(None);
        }
        let parent = child.parent().and_then(|parent| self.sessions.get(&parent));
        let shared = parent.and_then(|parent| parent.machine.conversation().before_reply());
        shared.map(Some).ok_or_else(|| format!("{child} is to begin with a conversation that is not there"))
    }

    /// The conversations that open children begin with and that are to be found while their parents are folded.
    pub(super) fn shared_in_journal(&self, order: &[AgentId]) -> SharedInJournal {
        let mut wanted: HashMap<AgentId, HashSet<String>> = HashMap::new();
        for agent in order.iter().filter_map(|id| self.run.open(id)) {
            if let Some((parent, reply)) = shared_from(&agent.contract) {
                wanted.entry(parent.clone()).or_default().insert(reply.to_owned());
            }
        }
        SharedInJournal { wanted, found: HashMap::new() }
    }
}

/// What is looked for in the events of parents, and what was found of it.
pub(super) struct SharedInJournal {
    wanted: HashMap<AgentId, HashSet<String>>,
    found: HashMap<(AgentId, String), Conversation>,
}

impl SharedInJournal {
    /// Looks at an event of an agent before its machine is told of it.
    pub(super) fn find_shared(&mut self, agent: &AgentId, machine: &Machine, body: &EventBody) {
        let Some(wanted) = self.wanted.get(agent) else { return };
        if let Some(reply) = reply_id(body).filter(|reply| wanted.contains(reply)) {
            self.found.insert((agent.clone(), reply), machine.conversation().clone());
        }
    }

    /// The conversation that an agent of this contract begins with, if it shares one.
    pub(super) fn of(&self, contract: &Contract) -> Result<Option<Conversation>, String> {
        let Some((parent, reply)) = shared_from(contract) else { return Ok(None) };
        let found = self.found.get(&(parent.clone(), reply.to_owned()));
        found.cloned().map(Some).ok_or_else(|| format!("reply {reply} of {parent} is not in the journal"))
    }
}
