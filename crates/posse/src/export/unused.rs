//! Omits the texts of discovered definitions and skills that the run did not use from a bundle. They belong to the
//! user, no model received them, and a replay does not need them. Works on the events of the bundle in memory, and
//! needs the texts of replies: see `docs/decisions/view-read-model.md` for why it is not part of the view.

use std::collections::{BTreeMap, BTreeSet};

use posse_domain::contract::Contract;
use posse_domain::event::{Event, EventBody, StoredEvent};
use posse_domain::hash::Hash;
use posse_domain::lifecycle::SKILL_TOOL;
use posse_domain::message::ToolCall;
use posse_domain::skill::{DEFAULT_SKILL_AGENT, DELEGATE_TO_AGENT, DiscoveredDefinitions};
use posse_domain::text::BlobRef;

/// The text in place of an omitted one.
const LEFT_OUT: &str = "[not in this bundle: the run did not use it]";

/// What was omitted.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct OmittedTexts {
    /// The changed blob.
    pub(super) blob: Hash,
    /// How many definitions have no text.
    pub(super) agents: u64,
    /// How many skills have no text.
    pub(super) skills: u64,
}

/// Omits the unused texts from the catalogue of the run; `None` if it has no unused text.
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
            // The path would reveal the user's home directory.
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

/// The blob with the catalogue of a run.
fn found(first: &StoredEvent) -> Option<Hash> {
    let EventBody::RunStarted(mut started) = Event::decode(first).ok()?.body else { return None };
    started.request.catalogue.take().and_then(|catalogue| catalogue.missing()).map(|at| at.blob)
}

/// The definitions of a run's agents, and the skills that they requested.
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
                    used.skills.extend(terms.skill.iter().chain(&terms.loaded_skill).cloned());
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

/// The skill that a call requests, in the canonical spelling.
fn named(call: &ToolCall) -> Option<String> {
    let field = match call.name.as_str() {
        SKILL_TOOL => "name",
        DELEGATE_TO_AGENT => "skill_name",
        _ => return None,
    };
    let name = call.input.get(field)?.as_str()?.trim();
    Some(name.strip_prefix('/').unwrap_or(name).to_ascii_lowercase())
}
