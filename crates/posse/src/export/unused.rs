//! What a bundle goes without: the texts of definitions and skills that were found on the machine and that the run did
//! not use. They are their person's, no model was told them, and a replay does not need them.

use std::collections::{BTreeMap, BTreeSet};

use posse_domain::contract::Contract;
use posse_domain::event::{Event, EventBody, StoredEvent};
use posse_domain::hash::Hash;
use posse_domain::lifecycle::SKILL_TOOL;
use posse_domain::message::ToolCall;
use posse_domain::skill::{DEFAULT_SKILL_AGENT, DELEGATE_TO_AGENT, DiscoveredDefinitions};
use posse_domain::text::BlobRef;

/// What stands in place of such a text.
const LEFT_OUT: &str = "[not in this bundle: the run did not use it]";

/// What went without its text.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct OmittedTexts {
    /// The blob that was changed.
    pub(super) blob: Hash,
    /// How many definitions.
    pub(super) agents: u64,
    /// How many skills.
    pub(super) skills: u64,
}

/// Takes the texts out of what the run found; none if there is nothing to take out.
pub(super) fn leave_out(events: &[StoredEvent], blobs: &mut BTreeMap<Hash, Vec<u8>>) -> Option<OmittedTexts> {
    let blob = found(events.first()?)?;
    let mut catalogue: DiscoveredDefinitions = serde_json::from_slice(blobs.get(&blob)?).ok()?;
    let used = UsedNames::of(events, blobs, &catalogue);
    let mut unused = OmittedTexts { blob, agents: 0, skills: 0 };
    for definition in &mut catalogue.definitions {
        if !used.definitions.contains(&definition.name) {
            definition.prompt = LEFT_OUT.into();
            unused.agents += 1;
        }
    }
    for skill in &mut catalogue.skills {
        if !used.skills.contains(&skill.name) {
            skill.instructions = LEFT_OUT.into();
            // Whose home it is in is nobody's business either.
            (skill.dir, skill.project, skill.shown_dir) = (None, None, None);
            unused.skills += 1;
        }
    }
    if unused.agents + unused.skills == 0 {
        return None;
    }
    blobs.insert(blob, catalogue.to_json().into_bytes());
    Some(unused)
}

/// Where a run keeps what it found.
fn found(first: &StoredEvent) -> Option<Hash> {
    let EventBody::RunStarted(mut started) = Event::decode(first).ok()?.body else { return None };
    started.request.catalogue.take().and_then(|catalogue| catalogue.missing()).map(|at| at.blob)
}

/// The names of what the agents of a run were, and of the skills that they asked for.
#[derive(Default)]
struct UsedNames {
    definitions: BTreeSet<String>,
    skills: BTreeSet<String>,
}

impl UsedNames {
    fn of(events: &[StoredEvent], blobs: &BTreeMap<Hash, Vec<u8>>, found: &DiscoveredDefinitions) -> Self {
        let mut used = Self::default();
        let mut asked = BTreeMap::new();
        for stored in events {
            let Ok(mut event) = Event::decode(stored) else { continue };
            match &mut event.body {
                EventBody::RunStarted(started) => {
                    used.contract(&started.contract);
                    let terms = &started.request.terms;
                    used.skills.extend(terms.skill.iter().chain(&terms.called_skill).cloned());
                }
                EventBody::SubagentCreated(created) => used.contract(&created.contract),
                body @ EventBody::ModelReplied(_) => {
                    let mut fetch = |at: &BlobRef| {
                        blobs.get(&at.blob).map(|bytes| String::from_utf8_lossy(bytes).into_owned())
                    };
                    let filled = body.fill(&mut fetch);
                    if let (Ok(()), EventBody::ModelReplied(replied)) = (filled, body) {
                        let calls = replied.reply.iter().flat_map(|reply| &reply.calls);
                        asked.extend(
                            calls.filter_map(|call| {
                                Some(((event.agent.clone(), call.id.clone()), named(call)?))
                            }),
                        );
                    }
                }
                EventBody::ToolFinished(finished) if finished.ok => {
                    used.skills.extend(asked.remove(&(event.agent, finished.call_id.clone())));
                }
                _ => {}
            }
        }
        let agents = found.skills.iter().filter(|skill| used.skills.contains(&skill.name));
        let agents = agents.map(|skill| skill.agent.as_deref().unwrap_or(DEFAULT_SKILL_AGENT).to_owned());
        used.definitions.extend(agents);
        used
    }

    fn contract(&mut self, contract: &Contract) {
        self.definitions.insert(contract.execution.definition.clone());
        self.skills.extend(contract.execution.skill.clone());
    }
}

/// The skill that a call asks for, in the one spelling that the tools read it in.
fn named(call: &ToolCall) -> Option<String> {
    let field = match call.name.as_str() {
        SKILL_TOOL => "name",
        DELEGATE_TO_AGENT => "skill_name",
        _ => return None,
    };
    let name = call.input.get(field)?.as_str()?.trim();
    Some(name.strip_prefix('/').unwrap_or(name).to_ascii_lowercase())
}
