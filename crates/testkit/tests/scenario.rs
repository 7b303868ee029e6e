//! The scenario without any fault, in this process, and the checker, which must find every manipulation of a journal.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::path::Path;

use posse::{EventBody, JournalEvent, NewRun, Posse, parse_agents};
use posse_domain::event::Sender;
use posse_domain::hash::Hash;
use posse_sandbox::{InitBinary, SandboxOptions};
use posse_testkit::check::{
    AcknowledgedEvents, Breach, Files, Findings, Harm, Journal, Repositories, ended_run,
};
use posse_testkit::ledger;
use posse_testkit::scenario::{self, Scenario};
use serde_json::json;

/// Runs the scenario beneath `dir` and reads its journal.
fn told(dir: &Path) -> (Scenario, Journal) {
    let scenario = Scenario::create(dir).unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let run = runtime.block_on(async {
        let tool = ledger::tool(scenario.ledger(), posse::ports::Faults::default());
        // A test cannot be the first process of a sandbox.
        let init = InitBinary::At(env!("CARGO_BIN_EXE_posse-faulty").into());
        let sandbox = SandboxOptions { init, ..SandboxOptions::default() };
        let builder = Posse::builder().state_dir(scenario.state()).sandbox(sandbox).tool(tool);
        let posse = builder.script_dir(dir).open().unwrap();
        let text = fs::read_to_string(dir.join("agents.json")).unwrap();
        let definitions = parse_agents(&text, "agents.json", &posse.tool_names()).unwrap();
        let run = NewRun::new("Do everything at once.").definition("boss").definitions(definitions);
        let run = posse.start(run.model("scripted/script.yaml").dir(scenario.workspace())).await.unwrap();
        run.ended().await.unwrap();
        run.id().clone()
    });
    drop(runtime);
    let journal = Journal::read(&scenario.state(), &run).unwrap();
    (scenario, journal)
}

/// The files of the run's result.
fn result(scenario: &Scenario, journal: &Journal) -> Files {
    let repositories = Repositories::find(&scenario.state(), &scenario.workspace(), journal).unwrap();
    let result = repositories.files(&posse_testkit::check::result(journal).unwrap()).unwrap();
    Files::of(&result, Scenario::folder_files().into_keys().collect())
}

fn breaches(scenario: &Scenario, journal: &Journal, files: &Files) -> Vec<Breach> {
    ended_run(journal, &scenario.ledger(), files).into_breaches()
}

/// The breaches in the repositories.
fn torn(scenario: &Scenario, journal: &Journal) -> Vec<Breach> {
    let mut findings = Findings::default();
    let repositories = Repositories::find(&scenario.state(), &scenario.workspace(), journal).unwrap();
    let run_dir = scenario.state().join("runs").join(journal.run.as_str());
    repositories.check(journal, &run_dir, &mut findings);
    findings.into_breaches()
}

fn number(journal: &mut Journal) {
    for (at, event) in journal.events.iter_mut().enumerate() {
        event.seq = at as u64 + 1;
    }
}

fn find(journal: &Journal, wanted: impl Fn(&JournalEvent) -> bool) -> usize {
    journal.events.iter().position(wanted).unwrap()
}

type Change = fn(&mut Journal);

/// Possible defects of a journal, and their harm.
const CHANGES: &[(&str, Harm, Change)] = &[
    ("a result is gone", Harm::Lost, |journal| {
        let at = find(journal, |event| matches!(&event.body, EventBody::ToolFinished(e) if e.tool == "read"));
        journal.events.remove(at);
    }),
    ("a result is there twice", Harm::Doubled, |journal| {
        let at =
            find(journal, |event| matches!(&event.body, EventBody::ToolFinished(e) if e.child.is_some()));
        journal.events.insert(at, journal.events[at].clone());
    }),
    ("a background child was not reported", Harm::Lost, |journal| {
        let from_child = |body: &EventBody| matches!(body, EventBody::MessageReceived(e) if matches!(e.from, Sender::Child(_)));
        let at = find(journal, |event| from_child(&event.body));
        journal.events.remove(at);
    }),
    ("a background child was reported twice", Harm::Doubled, |journal| {
        let from_child = |body: &EventBody| matches!(body, EventBody::MessageReceived(e) if matches!(e.from, Sender::Child(_)));
        let at = find(journal, |event| from_child(&event.body));
        journal.events.insert(at, journal.events[at].clone());
    }),
    ("a background child is reported before it has ended", Harm::Broken, |journal| {
        let from_child = |body: &EventBody| matches!(body, EventBody::MessageReceived(e) if matches!(e.from, Sender::Child(_)));
        let at = find(journal, |event| from_child(&event.body));
        let early = journal.events.remove(at);
        journal.events.insert(1, early);
    }),
    ("a foreground child is reported before it has ended", Harm::Broken, |journal| {
        let of_child = |body: &EventBody| matches!(body, EventBody::ToolFinished(e) if e.child.is_some());
        let at = find(journal, |event| of_child(&event.body));
        let early = journal.events.remove(at);
        journal.events.insert(1, early);
    }),
    ("what a background child said is read by no turn", Harm::Lost, |journal| {
        let from_child = |body: &EventBody| matches!(body, EventBody::MessageReceived(e) if matches!(e.from, Sender::Child(_)));
        let at = find(journal, |event| from_child(&event.body) && event.agent_id.is_root());
        let late = journal.events.remove(at);
        let end = journal.events.len() - 1;
        journal.events.insert(end, late);
    }),
    ("an answer is gone", Harm::Lost, |journal| {
        let at = find(
            journal,
            |event| matches!(&event.body, EventBody::ModelReplied(e) if e.reply.as_ref().is_some_and(|r| r.calls.is_empty())),
        );
        journal.events.remove(at);
    }),
    ("what was answered is asked again", Harm::Doubled, |journal| {
        let called = find(journal, |event| matches!(event.body, EventBody::ModelCalled(_)));
        let replied = find(journal, |event| matches!(event.body, EventBody::ModelReplied(_)));
        let (call, reply) = (journal.events[called].clone(), journal.events[replied].clone());
        let rest = journal.events.split_off(replied + 1);
        journal.events.extend([call, reply].into_iter().chain(rest));
    }),
    ("a child was never closed", Harm::Orphan, |journal| {
        let at = find(journal, |event| matches!(event.body, EventBody::SubagentClosed(_)));
        journal.events.remove(at);
    }),
    ("a child was made twice", Harm::Doubled, |journal| {
        let at = find(journal, |event| matches!(event.body, EventBody::SubagentCreated(_)));
        journal.events.insert(at, journal.events[at].clone());
    }),
    ("a tool starts after a cancel", Harm::Broken, |journal| {
        let cancel = find(journal, |event| matches!(event.body, EventBody::CancelRequested(_)));
        let called = find(journal, |event| matches!(event.body, EventBody::ModelCalled(_)));
        let mut call = journal.events[called].clone();
        call.agent_id = journal.events[cancel].agent_id.clone();
        journal.events.insert(cancel + 1, call);
    }),
    ("the run ends twice", Harm::Broken, |journal| {
        let end = journal.events.last().unwrap().clone();
        journal.events.push(end);
    }),
    ("a write without an intent", Harm::Orphan, |journal| {
        journal.events.retain(|event| {
            !matches!(&event.body, EventBody::ToolIntended(e) if e.write.as_ref().is_some_and(|w| w.path == "notes.txt"))
        });
    }),
    ("an agent is still open in the table", Harm::Orphan, |journal| {
        journal.agents[3].state = posse::AgentState::Running;
    }),
    ("an agent spent something else", Harm::Broken, |journal| {
        journal.agents[3].own.usage.output_tokens += 1;
    }),
    ("an agent has no row", Harm::Lost, |journal| {
        journal.agents.remove(5);
    }),
];

#[test]
fn undisturbed_it_does_everything_it_is_for_and_every_change_of_it_is_found() {
    let dir = tempfile::tempdir().unwrap();
    let (scenario, journal) = told(dir.path());
    let files = result(&scenario, &journal);
    assert_eq!(breaches(&scenario, &journal, &files), []);
    assert_eq!(torn(&scenario, &journal), []);
    assert_eq!(journal.status, posse::RunStatus::Completed);
    assert_eq!(journal.agents.len() as u64, scenario::AGENTS);
    for (path, content) in Scenario::expected_files() {
        assert_eq!(files.result.get(&path), Some(&Hash::of(content.as_bytes())), "{path}");
        assert!(!scenario.workspace().join(&path).exists(), "{path} is in the person's folder");
    }
    for (name, harm, change) in CHANGES {
        let mut changed = journal.clone();
        change(&mut changed);
        number(&mut changed);
        let found = breaches(&scenario, &changed, &files);
        assert!(found.iter().any(|breach| breach.harm == *harm), "{name}: {found:?}");
    }
    gaps(&scenario, &journal, &files);
    ledgers(&scenario, &journal, &files);
    results(&scenario, &journal, &files);
    repositories(&scenario, &journal);
}

fn gaps(scenario: &Scenario, journal: &Journal, files: &Files) {
    let mut gap = journal.clone();
    let last = gap.events.last_mut().unwrap();
    last.seq += 1;
    assert!(breaches(scenario, &gap, files).iter().any(|breach| breach.harm == Harm::Lost));
}

fn ledgers(scenario: &Scenario, journal: &Journal, files: &Files) {
    let whole = fs::read_to_string(scenario.ledger()).unwrap();
    let (first, rest) = whole.split_once('\n').unwrap();
    let root = journal.run.root();
    let cases = [
        (format!("{whole}{first}\n"), Harm::Doubled),
        (rest.to_owned(), Harm::Lost),
        (format!("{whole}{root} call_9_9 1\n"), Harm::Broken),
        (format!("{whole}half a li"), Harm::Broken),
    ];
    for (text, harm) in cases {
        fs::write(scenario.ledger(), text).unwrap();
        let found = breaches(scenario, journal, files);
        assert!(found.iter().any(|breach| breach.harm == harm), "{harm:?}: {found:?}");
    }
    fs::write(scenario.ledger(), whole).unwrap();
}

fn results(scenario: &Scenario, journal: &Journal, files: &Files) {
    let found =
        |files: &Files, harm| breaches(scenario, journal, files).iter().any(|breach| breach.harm == harm);
    let mut changed = files.clone();
    changed.result.insert("notes.txt".to_owned(), Hash::of(b"twice"));
    assert!(found(&changed, Harm::Lost));
    let mut more = files.clone();
    more.result.insert("left.txt".to_owned(), Hash::of(b""));
    assert!(found(&more, Harm::Orphan));
    assert_eq!(files.ran.len(), 6, "{:?}", files.ran);
    let ran = |line: &str, count: u32| {
        let mut changed = files.clone();
        changed.ran.insert(line.to_owned(), count);
        changed
    };
    assert!(found(&ran("21.2", 2), Harm::Doubled));
    assert!(found(&ran("21.9", 1), Harm::Broken));
    let mut never = files.clone();
    never.ran.remove("20.1");
    assert!(found(&never, Harm::Lost));
}

type Merge = fn(&mut Journal, usize);

/// Possible differences between a journal and its repositories, and their harm.
fn repositories(scenario: &Scenario, journal: &Journal) {
    let merged = |event: &JournalEvent| matches!(event.body, EventBody::WorktreeMerged(_));
    let at = find(journal, merged);
    let changes: [(&str, Harm, Merge); 4] = [
        ("a merge is there twice", Harm::Doubled, |journal, at| {
            journal.events.insert(at, journal.events[at].clone());
        }),
        ("a merge that is not journalled", Harm::Doubled, |journal, at| {
            journal.events.remove(at);
        }),
        ("a merge that the result does not have", Harm::Lost, |journal, at| {
            let EventBody::WorktreeMerged(merged) = &mut journal.events[at].body else { panic!("a merge") };
            merged.commit = merged.ours;
        }),
        ("a workspace that is not journalled", Harm::Orphan, |journal, _| {
            journal.events.retain(|event| !matches!(event.body, EventBody::WorkspaceMade(_)));
        }),
    ];
    for (name, harm, change) in changes {
        let mut other = journal.clone();
        change(&mut other, at);
        let found = torn(scenario, &other);
        assert!(found.iter().any(|breach| breach.harm == harm), "{name}: {found:?}");
    }
    let branch = scenario.workspace().join(format!(".git/refs/heads/posse/{}", journal.run));
    fs::remove_file(branch).unwrap();
    assert!(torn(scenario, journal).iter().any(|breach| breach.harm == Harm::Lost), "the branch is gone");
}

#[test]
fn what_was_told_and_is_gone_or_different_is_found() {
    let line = |seq: u64, summary: &str| {
        json!({"seq": seq, "agent_id": "k3f9ab2c", "kind": "x", "summary": summary}).to_string()
    };
    let mut told = AcknowledgedEvents::default();
    told.take(&line(1, "one")).unwrap();
    told.take(&line(2, "two")).unwrap();
    told.take(r#"{"type": "result"}"#).unwrap();
    assert!(told.take(&line(2, "another")).is_err(), "told twice, and differently");
    let check = |lines: &[String]| {
        let mut logs = AcknowledgedEvents::default();
        for line in lines {
            logs.take(line).unwrap();
        }
        let mut told = AcknowledgedEvents::default();
        told.take(&line(1, "one")).unwrap();
        told.take(&line(2, "two")).unwrap();
        let mut findings = Findings::default();
        told.check(&logs, &mut findings);
        findings.into_breaches().len()
    };
    assert_eq!(check(&[line(1, "one"), line(2, "two"), line(3, "three")]), 0);
    assert_eq!(check(&[line(1, "one")]), 1);
    assert_eq!(check(&[line(1, "one"), line(2, "changed")]), 1);
    assert_eq!((told.len(), told.run().unwrap().as_str()), (2, "k3f9ab2c"));
}
