//! The conversation of one agent, part by part: what `posse trace` prints, and what other front ends show.

use std::sync::Arc;

use posse_domain::event::{Event, EventBody, EventKind, Preamble, StoredEvent};
use posse_domain::hash::Hash;
use posse_domain::id::{AgentId, RunId};
use posse_engine::ports::READ_MAX_EVENTS;

use crate::{Error, JournalEvent, Posse};

/// A part of the conversation of an agent.
#[derive(Debug, Clone, PartialEq)]
pub struct ConversationPart {
    /// The events of the agent, in their order, with their long texts.
    pub events: Vec<ConversationEvent>,
    /// The number of the last event of the run that was looked at: the next part begins after it.
    pub after: u64,
    /// Whether the agent has more events.
    pub has_more: bool,
}

/// An event of an agent.
#[derive(Debug, Clone, PartialEq)]
pub struct ConversationEvent {
    /// The event.
    pub event: JournalEvent,
    /// The agent's system prompt, if this is its first model call. The journal has equal prompts of a run once.
    pub system_prompt: Option<Arc<str>>,
}

impl Posse {
    /// The events of an agent after this number of its run, at most `limit` of them and with at most about `max_bytes` of
    /// text, but at least one.
    pub async fn conversation(
        &self,
        agent: &AgentId,
        after: u64,
        limit: usize,
        max_bytes: usize,
    ) -> Result<ConversationPart, Error> {
        let run = agent.run();
        self.check_head(&run).await?;
        let key = self.key(&run);
        let mut part = ConversationPart { events: Vec::new(), after, has_more: false };
        let mut bytes = 0;
        loop {
            let page = self.store.read(&key, part.after, READ_MAX_EVENTS).await?;
            let Some(last) = page.last().map(|last| last.seq) else { return Ok(part) };
            for stored in page.iter().filter(|stored| stored.agent == *agent) {
                if part.events.len() >= limit.max(1) || (bytes >= max_bytes && !part.events.is_empty()) {
                    part.has_more = true;
                    return Ok(part);
                }
                let found = self.conversation_event(&run, stored).await?;
                bytes += found.len_bytes();
                part.events.push(found);
                part.after = stored.seq;
            }
            part.after = last;
        }
    }

    async fn conversation_event(
        &self,
        run: &RunId,
        stored: &StoredEvent,
    ) -> Result<ConversationEvent, Error> {
        let event = JournalEvent::new(stored.seq, self.filled(run, stored).await?);
        let system_prompt = match &event.body {
            EventBody::ModelCalled(call) => match &call.preamble {
                Some(preamble) => self.system_prompt(run, preamble, stored.seq).await?,
                None => None,
            },
            _ => None,
        };
        Ok(ConversationEvent { event, system_prompt })
    }

    /// An event with its long texts.
    async fn filled(&self, run: &RunId, stored: &StoredEvent) -> Result<Event, Error> {
        let key = self.key(run);
        let mut event = posse_engine::decode(&key, stored)?;
        posse_engine::fill_readable(&*self.store, &key, &mut event).await?;
        Ok(event)
    }

    /// The system prompt of a preamble: its own text, or that of the first call of the run with the same prompt.
    async fn system_prompt(
        &self,
        run: &RunId,
        preamble: &Preamble,
        before: u64,
    ) -> Result<Option<Arc<str>>, Error> {
        if let Some(text) = &preamble.system_text {
            return Ok(Some(text.to_shared()));
        }
        let key = self.key(run);
        let mut after = 0;
        while after < before {
            let page = self.store.read(&key, after, READ_MAX_EVENTS).await?;
            let Some(last) = page.last() else { break };
            after = last.seq;
            for stored in page.iter().filter(|stored| &*stored.kind == EventKind::ModelCalled.as_str()) {
                if has_text_of(&posse_engine::decode(&key, stored)?, preamble.system) {
                    let event = self.filled(run, stored).await?;
                    return Ok(preamble_of(&event).and_then(|of| Some(of.system_text.as_ref()?.to_shared())));
                }
            }
        }
        Ok(None)
    }
}

impl ConversationEvent {
    /// About how long the event is with all its texts.
    fn len_bytes(&self) -> usize {
        let texts = serde_json::to_string(&self.event.detail).map_or(0, |detail| detail.len());
        texts + self.system_prompt.as_ref().map_or(0, |prompt| prompt.len())
    }
}

fn preamble_of(event: &Event) -> Option<&Preamble> {
    match &event.body {
        EventBody::ModelCalled(call) => call.preamble.as_deref(),
        _ => None,
    }
}

fn has_text_of(event: &Event, system: Hash) -> bool {
    preamble_of(event).is_some_and(|preamble| preamble.system == system && preamble.system_text.is_some())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::NewRun;
    use crate::scripted::ScriptedModel;

    #[tokio::test]
    async fn parts_of_a_conversation_have_each_event_once_and_the_prompt_that_another_agent_wrote_first() {
        let script = "
- when: {definition: coder, turn: 1}
  reply:
    tool_calls:
      - {name: task, input: {subagent_type: explore, description: one, prompt: one}}
      - {name: task, input: {subagent_type: explore, description: two, prompt: two}}
- reply: {text: done}
";
        let script = ScriptedModel::from_yaml(script, "talk.yaml").expect("a script");
        let posse = Posse::builder().model("scripted/talk", script).in_memory().open().expect("open");
        let run = NewRun::new("Look.").model("scripted/talk").dir(".");
        let run = posse.start(run).await.expect("started");
        posse.wait(run.id()).await.expect("it ends");
        for agent in [run.id().root(), run.id().root().child(1), run.id().root().child(2)] {
            let whole = posse.conversation(&agent, 0, usize::MAX, usize::MAX).await.expect("whole");
            assert!(!whole.has_more && whole.events.len() > 3, "{whole:?}");
            let mut parts = Vec::new();
            let mut after = 0;
            loop {
                // The smallest parts: one event each.
                let part = posse.conversation(&agent, after, 5, 1).await.expect("a part");
                assert_eq!(part.events.len().max(1), 1);
                parts.extend(part.events);
                after = part.after;
                if !part.has_more {
                    break;
                }
            }
            assert_eq!(parts, whole.events);
            let prompts: Vec<&str> =
                whole.events.iter().filter_map(|event| event.system_prompt.as_deref()).collect();
            assert_eq!(prompts.len(), 1);
            assert!(prompts[0].len() > 100, "{prompts:?}");
        }
    }
}
