//! Checks an ended run of the [`crate::scenario`], whatever happened to its processes.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use posse::{EventBody, RunId};
use posse_domain::code::Code;
use posse_domain::hash::Hash;

use crate::check::{self, AcknowledgedEvents, Files, Findings, Harm, Journal, Repositories};
use crate::process::Launch;
use crate::scenario::{self, Scenario};

/// An ended run, and the outside knowledge about it.
#[derive(Debug, Clone, Copy)]
pub struct EndedRun<'a> {
    /// How its processes were started.
    pub launch: &'a Launch,
    pub scenario: &'a Scenario,
    pub run: &'a RunId,
    /// The events that a reader outside received.
    pub told: &'a AcknowledgedEvents,
}

#[derive(Debug, Default)]
pub struct Examination {
    pub findings: Findings,
    /// Calls that were reported to their agents as interrupted.
    pub interrupted: usize,
    /// Model calls that were interrupted and repeated.
    pub asked_again: usize,
}

impl EndedRun<'_> {
    pub fn examine(&self) -> io::Result<Examination> {
        let mut looked = Examination::default();
        let findings = &mut looked.findings;
        self.logs(findings)?;
        let said = self.launch.output(["verify", "--json", self.run.as_str()])?;
        findings.expect(said.status.success(), Harm::Broken, || {
            format!("`verify` says {}{}", said.out, said.err)
        });
        match Journal::read(&self.scenario.state(), self.run) {
            Ok(journal) => self.journal(&journal, &mut looked),
            Err(problem) => findings.add(Harm::Broken, problem),
        }
        Ok(looked)
    }

    /// Everything that was printed is in the journal, as `logs` prints it.
    fn logs(&self, findings: &mut Findings) -> io::Result<()> {
        let said = self.launch.output(["logs", "--json", self.run.as_str()])?;
        let mut logs = AcknowledgedEvents::default();
        for line in said.out.lines() {
            if let Err(problem) = logs.take(line) {
                findings.add(Harm::Broken, problem);
            }
        }
        findings.expect(said.status.success() && !logs.is_empty(), Harm::Broken, || {
            format!("`logs` ended with {}: {}", said.status, said.err)
        });
        self.told.check(&logs, findings);
        Ok(())
    }

    /// The files of the result. Also checks the repositories that contain them.
    fn files(&self, journal: &Journal, findings: &mut Findings) -> Files {
        let before = Scenario::folder_files().into_keys().collect();
        let (state, folder) = (self.scenario.state(), self.scenario.workspace());
        let looked = Repositories::find(&state, &folder, journal).and_then(|repositories| {
            repositories.check(journal, &state.join("runs").join(self.run.as_str()), findings);
            check::result(journal).map_or_else(|| Ok(BTreeMap::new()), |commit| repositories.files(&commit))
        });
        match looked {
            Ok(result) => Files::of(&result, before),
            Err(problem) => {
                findings.add(Harm::Broken, problem);
                Files { before, ..Files::default() }
            }
        }
    }

    /// The user's folder is unchanged.
    fn folder(&self, findings: &mut Findings) {
        let folder = self.scenario.workspace();
        let mut found = BTreeMap::new();
        for entry in std::fs::read_dir(&folder).into_iter().flatten().flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            found.insert(name, std::fs::read_to_string(entry.path()).unwrap_or_default());
        }
        found.remove(".git");
        findings.expect(found == Scenario::folder_files(), Harm::Broken, || {
            format!("the person's folder was changed: it has {:?}", found.keys())
        });
    }

    fn journal(&self, journal: &Journal, looked: &mut Examination) {
        let files = self.files(journal, &mut looked.findings);
        looked.findings.append(check::ended_run(journal, &self.scenario.ledger(), &files));
        outcome(journal, &files, &mut looked.findings);
        self.folder(&mut looked.findings);
        for event in &journal.events {
            match &event.body {
                EventBody::ToolInterrupted(_) => looked.interrupted += 1,
                EventBody::ModelReplied(replied) => {
                    let cut_off = replied.error.as_ref().is_some_and(|error| error.code == Code::Interrupted);
                    looked.asked_again += usize::from(cut_off);
                }
                _ => {}
            }
        }
    }
}

/// The outcome is the same as without any fault.
fn outcome(journal: &Journal, files: &Files, findings: &mut Findings) {
    findings.expect(journal.status == posse::RunStatus::Completed, Harm::Broken, || {
        format!("the run is {}", journal.status)
    });
    let root = journal.run.root();
    let children = journal.agents.iter().filter(|agent| agent.parent().as_ref() == Some(&root)).count();
    findings.expect(children == scenario::CHILDREN as usize, Harm::Broken, || format!("{children} children"));
    let expected = Scenario::expected_failures();
    for agent in &journal.agents {
        let failed = agent.final_status != Some(posse::FinalStatus::Completed);
        findings.expect(failed == expected.contains(&agent.id.relative()), Harm::Broken, || {
            format!("{} is {:?} ({:?})", agent.id, agent.final_status, agent.failure)
        });
    }
    for (path, content) in Scenario::expected_files() {
        let found = files.result.get(&path);
        findings.expect(found == Some(&Hash::of(content.as_bytes())), Harm::Lost, || {
            format!("`{path}` is not as its writer left it ({found:?})")
        });
    }
    for event in &journal.events {
        if let EventBody::ModelReplied(replied) = &event.body
            && replied.error.is_none()
        {
            let cost = (replied.usage.input_tokens, replied.usage.output_tokens);
            findings.expect(cost == scenario::TOKENS_PER_REPLY, Harm::Broken, || {
                format!("the reply at event {} cost {cost:?}", event.seq)
            });
        }
    }
}

/// When all processes have ended, no lock of a dead lease holder is left, because a later process removed it.
pub fn no_locks(state: &Path, findings: &mut Findings) {
    let left = std::fs::read_dir(state.join("owners")).map_or(0, Iterator::count);
    findings.expect(left == 0, Harm::Orphan, || format!("{left} locks of dead owners are left"));
}
