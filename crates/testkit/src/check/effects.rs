//! Compares the effects on the outside with the journal.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use posse::{AgentId, EventBody};
use posse_domain::event::WriteIntent;
use posse_domain::hash::Hash;

use super::{Findings, Harm, Journal};
use crate::ledger::{self, Entry};
use crate::scenario::{self, RAN_DIR};

/// The files of a run's result.
#[derive(Debug, Clone, Default)]
pub struct Files {
    pub result: BTreeMap<String, Hash>,
    /// How often each command left its line.
    pub ran: BTreeMap<String, u32>,
    /// The files that existed before the run.
    pub before: BTreeSet<String>,
}

impl Files {
    /// Builds the value from the files of a result and the files that existed before.
    pub fn of(result: &BTreeMap<String, Vec<u8>>, before: BTreeSet<String>) -> Self {
        let mut ran = BTreeMap::new();
        for (_, content) in result.iter().filter(|(path, _)| path.starts_with(RAN_DIR)) {
            for line in String::from_utf8_lossy(content).lines() {
                *ran.entry(line.to_owned()).or_default() += 1;
            }
        }
        let result = result.iter().map(|(path, content)| (path.clone(), Hash::of(content))).collect();
        Self { result, ran, before }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Done,
    Failed,
    Interrupted,
}

/// How each intended call ended, by agent and call.
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

/// Each ledger call wrote its line and is done, or its agent got a result with an unknown outcome.
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

/// Each command that is recorded as done ran once, and none ran without an intent. A command without a result may have
/// run.
pub(super) fn check_commands(journal: &Journal, files: &Files, findings: &mut Findings) {
    let ends = ends(journal);
    let completed = |agent: &AgentId| {
        let of = journal.agents.iter().find(|known| known.id == *agent);
        of.is_some_and(|known| known.final_status == Some(posse::FinalStatus::Completed))
    };
    let mut intended: BTreeMap<&str, Option<End>> = BTreeMap::new();
    for event in &journal.events {
        let EventBody::ModelReplied(replied) = &event.body else { continue };
        // Work that is not merged is not in the result.
        let calls =
            replied.reply.iter().filter(|_| completed(&event.agent_id)).flat_map(|reply| &reply.calls);
        for call in calls.filter(|call| call.name == "bash") {
            let Some(line) = call.input["command"].as_str().and_then(scenario::line_of) else { continue };
            // A later attempt has the same commands and begins with other files.
            intended.insert(line, ends.get(&(&event.agent_id, call.id.as_str())).copied());
        }
    }
    for (line, count) in &files.ran {
        findings.expect(*count == 1, Harm::Doubled, || format!("the command {line} ran {count} times"));
        findings.expect(intended.contains_key(line.as_str()), Harm::Broken, || {
            format!("the command {line} ran, and no call of it is in the journal")
        });
    }
    for (line, end) in intended {
        let holds = end != Some(End::Done) || files.ran.contains_key(line);
        findings
            .expect(holds, Harm::Lost, || format!("the command {line} is said to be done, and never ran"));
    }
}

/// The possible contents of a file. More than one only while a write is under way or was interrupted.
type Contents = BTreeSet<Option<Hash>>;

/// Every file of the result has the content of its last writes, and there is no other file. Each agent writes in its
/// own workspace, and no two agents of the scenario write the same file.
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
        let known = known || path.starts_with(RAN_DIR);
        findings.expect(known, Harm::Orphan, || format!("`{path}` is in the result, and no agent wrote it"));
    }
    for (path, possible) in contents {
        let now = files.result.get(path).copied();
        // Work that was under way when the run was stopped is not in the result.
        if now.is_none() && journal.status != posse::RunStatus::Completed {
            continue;
        }
        findings.expect(possible.contains(&now), Harm::Lost, || {
            format!("`{path}` is {now:?}, the journal says {possible:?}")
        });
    }
}
