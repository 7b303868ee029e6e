//! What was done to the outside, held against what the journal says was done.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use posse::{AgentId, EventBody};
use posse_domain::event::WriteIntent;
use posse_domain::hash::Hash;

use super::{Findings, Harm, Journal};
use crate::ledger::{self, Entry};

/// What the run made of the folder.
#[derive(Debug, Clone, Default)]
pub struct Files {
    /// The files of the result.
    pub result: BTreeMap<String, Hash>,
    /// Those that were there before the run.
    pub before: BTreeSet<String>,
}

/// How a call ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Done,
    Failed,
    Interrupted,
}

/// How each call ended that was intended, by agent and call.
fn ends(journal: &Journal) -> BTreeMap<(&AgentId, &str), End> {
    let mut ends = BTreeMap::new();
    for event in &journal.events {
        match &event.body {
            EventBody::ToolFinished(e) => {
                let end = if e.ok { End::Done } else { End::Failed };
                ends.insert((&event.agent_id, e.call_id.as_str()), end);
            }
            EventBody::ToolInterrupted(e) => {
                ends.insert((&event.agent_id, e.call_id.as_str()), End::Interrupted);
            }
            _ => {}
        }
    }
    ends
}

/// Each ledger call wrote its line and is done, or its agent was told that nobody knows.
pub(super) fn check_ledger(journal: &Journal, file: &Path, findings: &mut Findings) {
    let lines = match ledger::read(file) {
        Ok(lines) => lines,
        Err(problem) => return findings.add(Harm::Broken, problem),
    };
    let ends = ends(journal);
    let intended: BTreeSet<Entry> = journal
        .events
        .iter()
        .filter_map(|event| match &event.body {
            EventBody::ToolIntended(e) if e.tool == ledger::NAME => {
                Some(Entry { agent: event.agent_id.clone(), call_id: e.call_id.clone() })
            }
            _ => None,
        })
        .collect();
    for (entry, count) in &lines {
        let Entry { agent, call_id } = entry;
        findings.expect(*count == 1, Harm::Doubled, || {
            format!("{agent}: `{call_id}` is {count} times in the ledger")
        });
        findings.expect(intended.contains(entry), Harm::Broken, || {
            format!("{agent}: `{call_id}` is in the ledger without an intent in the journal")
        });
    }
    for entry in &intended {
        let Entry { agent, call_id } = entry;
        let end = ends.get(&(agent, call_id.as_str()));
        let written = lines.contains_key(entry);
        let holds = matches!(
            (end, written),
            (Some(End::Done), true) | (Some(End::Interrupted), _) | (Some(End::Failed), false)
        );
        findings.expect(holds, Harm::Lost, || {
            format!("{agent}: `{call_id}` ended as {end:?}, its line is there: {written}")
        });
    }
}

/// What a file may be: more than one only while a write is under way or was cut off.
type Contents = BTreeSet<Option<Hash>>;

/// Every file of the result is what the last writes to it say, and nothing else is there. Each agent writes in a
/// workspace of its own, and no two of the scenario write the same file.
pub(super) fn check_files(journal: &Journal, files: &Files, findings: &mut Findings) {
    let ends = ends(journal);
    let mut contents: BTreeMap<&str, Contents> = BTreeMap::new();
    for event in &journal.events {
        let EventBody::ToolIntended(intended) = &event.body else { continue };
        let Some(WriteIntent { path, before, after }) = &intended.write else { continue };
        let known = contents.entry(path).or_insert_with(|| [*before].into());
        findings.expect(known.contains(before), Harm::Broken, || {
            format!("event {}: `{path}` is said to be {before:?}, it can be {known:?}", event.seq)
        });
        match ends.get(&(&event.agent_id, intended.call_id.as_str())) {
            Some(End::Done) => *known = [Some(*after)].into(),
            Some(End::Interrupted) => *known = [*before, Some(*after)].into(),
            Some(End::Failed) | None => *known = [*before].into(),
        }
    }
    for path in files.result.keys() {
        let known = contents.contains_key(path.as_str()) || files.before.contains(path);
        findings.expect(known, Harm::Orphan, || format!("`{path}` is in the result, and nobody wrote it"));
    }
    for (path, possible) in contents {
        let now = files.result.get(path).copied();
        // Work that was under way when the run was stopped is not in the result.
        if now.is_none() && journal.info.status != "completed" {
            continue;
        }
        findings.expect(possible.contains(&now), Harm::Lost, || {
            format!("`{path}` is {now:?}, the journal says {possible:?}")
        });
    }
}
