//! The two stores agree: for every sequence of operations, in any order, by processes that start and die, both give the
//! same answers.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::PathBuf;
use std::sync::Arc;

use posse_domain::event::EncodedEvent;
use posse_domain::hash::Hash;
use posse_domain::id::RunId;
use posse_domain::lifecycle::{AgentState, RunStatus};
use posse_domain::text::Blob;
use posse_engine::ports::{
    AgentRow, AgentTerms, Basis, Claim, Commit, Epoch, Holder, MailCommand, RunKey, RunRow, Store,
    StoreError, TenantId,
};
use posse_store::{MemoryStore, SqliteOptions, SqliteStore};
use proptest::prelude::*;
use proptest::sample::Index;

const PROCESSES: usize = 2;

/// An operation that a process requests from its store.
#[derive(Debug, Clone)]
enum Op {
    Create {
        run: u64,
    },
    Commit {
        run: u64,
        slip: Slip,
        events: u64,
        agent: Option<(u32, bool)>,
        blob: bool,
        takes_mail: bool,
    },
    Claim {
        run: u64,
    },
    Heartbeat {
        run: u64,
        slip: Slip,
    },
    Release {
        run: u64,
        slip: Slip,
    },
    Post {
        run: u64,
    },
    /// The process dies and another one replaces it.
    Die,
}

/// An error of the caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Slip {
    None,
    Head,
    Epoch,
}

fn op() -> impl Strategy<Value = Op> {
    let run = 0..2_u64;
    let slip = prop_oneof![8 => Just(Slip::None), 1 => Just(Slip::Head), 1 => Just(Slip::Epoch)];
    let agent = proptest::option::of((0..3_u32, any::<bool>()));
    let commit = (run.clone(), slip.clone(), 0..4_u64, agent, any::<bool>(), any::<bool>()).prop_map(
        |(run, slip, events, agent, blob, takes_mail)| Op::Commit {
            run,
            slip,
            events,
            agent,
            blob,
            takes_mail,
        },
    );
    prop_oneof![
        2 => run.clone().prop_map(|run| Op::Create { run }),
        8 => commit,
        3 => run.clone().prop_map(|run| Op::Claim { run }),
        1 => (run.clone(), slip.clone()).prop_map(|(run, slip)| Op::Heartbeat { run, slip }),
        2 => (run.clone(), slip).prop_map(|(run, slip)| Op::Release { run, slip }),
        2 => run.prop_map(|run| Op::Post { run }),
        1 => Just(Op::Die),
    ]
}

/// One of the two stores, with all its processes.
struct Side {
    open: Box<dyn Fn() -> Arc<dyn Store>>,
    processes: Vec<Arc<dyn Store>>,
    /// The epoch that each process believes it has.
    epochs: Vec<[Epoch; 2]>,
}

impl Side {
    fn new(open: impl Fn() -> Arc<dyn Store> + 'static) -> Self {
        let processes = (0..PROCESSES).map(|_| open()).collect();
        Self { open: Box::new(open), processes, epochs: vec![[1; 2]; PROCESSES] }
    }

    /// Executes one operation and returns its outcome as text.
    async fn carry_out(&mut self, process: usize, op: &Op) -> String {
        let store = self.processes[process].clone();
        let epoch = |run: u64, slip: Slip| {
            let known = self.epochs[process][usize::try_from(run).unwrap()];
            if slip == Slip::Epoch { known + 1 } else { known }
        };
        match op {
            Op::Create { run } => said(store.commit(first(*run)).await),
            Op::Commit { run, slip, .. } => {
                let head = store.head(&key(*run)).await.map_or(0, |head| head.seq);
                let head = if *slip == Slip::Head { head + 1 } else { head };
                let commit = commit(op, *run, Basis::Held { head, epoch: epoch(*run, *slip) });
                said(store.commit(commit).await)
            }
            Op::Claim { run } => {
                let claim = store.claim(&key(*run)).await;
                if let Ok(Claim::Granted(epoch)) = claim {
                    self.epochs[process][usize::try_from(*run).unwrap()] = epoch;
                }
                // Each store has its own ids of lease holders.
                said(claim.map(|claim| match claim {
                    Claim::Held(holder) => Claim::Held(Holder { id: String::new(), ..holder }),
                    granted @ Claim::Granted(_) => granted,
                }))
            }
            Op::Heartbeat { run, slip } => said(store.heartbeat(&key(*run), epoch(*run, *slip)).await),
            Op::Release { run, slip } => said(store.release(&key(*run), epoch(*run, *slip)).await),
            Op::Post { run } => {
                let agent = key(*run).run.root();
                said(store.post(&key(*run), MailCommand::Send { agent, text: "hello".to_owned() }).await)
            }
            Op::Die => {
                drop(store);
                self.processes[process] = (self.open)();
                self.epochs[process] = [1; 2];
                "another process".to_owned()
            }
        }
    }

    /// The complete visible state.
    async fn look(&self) -> String {
        let store = (self.open)();
        let mut seen = String::new();
        for run in 0..2 {
            let key = key(run);
            seen += &said(store.read(&key, 0, u32::MAX).await);
            seen += &said(store.head(&key).await);
            seen += &said(store.agents(&key).await);
            seen += &said(store.mail(&key).await);
        }
        let mut runs = store.runs(&TenantId::local(), "", 9).await.unwrap();
        for run in &mut runs {
            // Each store has a clock of its own.
            run.alive_at_ms = run.alive_at_ms.map(|_| 0);
        }
        for holder in runs.iter_mut().filter_map(|run| run.holder.as_mut()) {
            holder.id = String::new();
        }
        let blob = store.get_blob(&TenantId::local(), &blob().hash).await;
        seen + &format!("{runs:?} {blob:?} {:?}", store.check().await)
    }
}

/// An answer as text. The text of a general failure may differ between stores.
fn said<T: std::fmt::Debug>(answer: Result<T, StoreError>) -> String {
    match answer {
        Err(StoreError::Failed(_)) => "failed".to_owned(),
        answer => format!("{answer:?}"),
    }
}

fn key(run: u64) -> RunKey {
    RunKey { tenant: TenantId::local(), run: RunId::from_random(run) }
}

fn blob() -> Blob {
    Blob { hash: Hash::of(b"content"), bytes: b"content".to_vec().into() }
}

fn event(run: u64, number: u64) -> EncodedEvent {
    let (agent, payload) = (key(run).run.root(), format!("{number}"));
    EncodedEvent { agent, kind: "agent.model_called", at_ms: 1, version: 1, payload }
}

fn first(run: u64) -> Commit {
    let row = RunRow {
        status: RunStatus::Running,
        title: "a title".to_owned(),
        definition: "coder".to_owned(),
        model: "scripted/none".to_owned(),
        dir: "/".to_owned(),
        session_id: None,
        created_at_ms: 0,
        ended_at_ms: None,
    };
    let (blobs, agents) = (Vec::new(), Vec::new());
    let events = vec![event(run, 1)];
    Commit { key: key(run), basis: Basis::New, events, blobs, agents, run: Some(row), mail_taken: None }
}

fn commit(op: &Op, run: u64, basis: Basis) -> Commit {
    let Op::Commit { events, agent, blob: has_blob, takes_mail, .. } = op else { panic!("not a commit") };
    let agents = agent.iter().map(|(number, is_new)| agent_row(run, *number, *is_new)).collect();
    Commit {
        basis,
        events: (0..*events).map(|number| event(run, number)).collect(),
        blobs: has_blob.then(blob).into_iter().collect(),
        agents,
        run: None,
        mail_taken: takes_mail.then_some(2),
        ..first(run)
    }
}

fn agent_row(run: u64, number: u32, is_new: bool) -> AgentRow {
    let id = key(run).run.root().child(number + 1);
    let terms = AgentTerms {
        parent: id.parent(),
        parent_message_id: None,
        depth: 1,
        definition: "explore".to_owned(),
        contract_json: "{}".to_owned(),
        permissions_json: "{}".to_owned(),
        created_at_ms: 1,
    };
    AgentRow {
        id,
        terms: is_new.then_some(terms),
        state: if is_new { AgentState::Created } else { AgentState::Running },
        final_status: None,
        close_reason: None,
        result: None,
        error: None,
        usage_json: "{}".to_owned(),
        subtree_usage_json: "{}".to_owned(),
        completed_at_ms: None,
        events_in_force: Some(if is_new { Vec::new() } else { vec![u64::from(number) + 1] }),
    }
}

fn sides(dir: PathBuf) -> [Side; 2] {
    let memory = MemoryStore::new();
    let in_memory = Side::new(move || Arc::new(memory.another_process()));
    let in_sqlite = Side::new(move || Arc::new(SqliteStore::open(&dir, SqliteOptions::default()).unwrap()));
    [in_memory, in_sqlite]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn both_stores_give_the_same_answers(ops in proptest::collection::vec((any::<Index>(), op()), 1..60)) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let dir = tempfile::tempdir().unwrap();
        let [mut in_memory, mut in_sqlite] = sides(dir.path().join("state"));
        runtime.block_on(async {
            for (process, op) in ops {
                let process = process.index(PROCESSES);
                let (expected, found) = (in_memory.carry_out(process, &op).await, in_sqlite.carry_out(process, &op).await);
                assert_eq!(expected, found, "{op:?} by process {process}");
            }
            assert_eq!(in_memory.look().await, in_sqlite.look().await);
        });
    }
}
