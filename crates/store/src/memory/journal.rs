//! The data that all handles of a memory store share. Each operation checks first and then changes, so that none stays
//! half done.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use posse_domain::event::{Link, StoredEvent, chain};
use posse_domain::hash::Hash;
use posse_domain::id::{AgentId, RunId};
use posse_engine::ports::{
    AgentRow, Basis, Claim, Commit, CommitReceipt, Epoch, Head, Holder, MAILBOX_MAX, Mail, MailCommand,
    ModelSpending, Pulse, RemovedRun, RunEntry, RunKey, RunRow, RunSpending, StoreError, TenantId,
};
use tokio::sync::watch;

use super::Process;
use crate::clock::{Expiry, LeaseClock};

#[derive(Debug, Default)]
pub(super) struct Data {
    runs: HashMap<RunKey, Run>,
    /// Keys in the order of creation.
    order: Vec<RunKey>,
    /// Removed runs, in the order of removal.
    removed: Vec<(TenantId, RemovedRun)>,
    blobs: HashMap<(TenantId, Hash), Arc<[u8]>>,
    watchers: HashMap<RunKey, watch::Sender<Pulse>>,
    /// Handles that are not dropped yet.
    alive: BTreeSet<HandleNo>,
    /// The number of handles that were ever created.
    handles: HandleNo,
    /// Whether the lease of a dropped handle stays live until it expires.
    pub(super) ignores_death: bool,
}

/// The number of a handle among all handles of the same data.
pub(super) type HandleNo = u64;

#[derive(Debug)]
struct Run {
    row: RunRow,
    events: Vec<StoredEvent>,
    agents: Vec<AgentRow>,
    places: HashMap<AgentId, usize>,
    mailbox: Vec<Mail>,
    /// The number of commands that were ever posted.
    messages: u64,
    epoch: Epoch,
    lease: Option<Lease>,
}

#[derive(Debug, Clone)]
struct Lease {
    handle: HandleNo,
    label: Arc<str>,
    expiry: Expiry,
    length: Duration,
}

impl Lease {
    fn of(process: &Process) -> Self {
        let (boot, until_ms) = (process.clock.boot().to_owned(), process.clock.until_ms(process.lease));
        let (label, length) = (process.label.clone(), process.lease);
        Self { handle: process.handle, label, expiry: Expiry { boot, until_ms }, length }
    }
}

impl Run {
    fn head(&self) -> Head {
        match self.events.last() {
            Some(event) => Head { seq: event.seq, hash: event.hash },
            None => Head { seq: 0, hash: Hash::ZERO },
        }
    }

    /// Refuses a process that does not hold the lease with this epoch.
    fn check_epoch(&self, key: &RunKey, held: Epoch, process: &Process) -> Result<(), StoreError> {
        if self.epoch == held && self.lease.as_ref().is_some_and(|lease| lease.handle == process.handle) {
            return Ok(());
        }
        Err(StoreError::Fenced { run: key.run.clone(), held, actual: self.epoch })
    }

    fn check_agents(&self, rows: &[AgentRow]) -> Result<(), StoreError> {
        let mut new: HashSet<&AgentId> = HashSet::new();
        for row in rows {
            let exists = self.places.contains_key(&row.id) || new.contains(&row.id);
            if exists == row.terms.is_some() {
                let problem = if exists { "has terms already" } else { "has no terms yet" };
                return Err(StoreError::Failed(format!("agent {} {problem}", row.id)));
            }
            if !exists {
                new.insert(&row.id);
            }
        }
        Ok(())
    }

    fn append(&mut self, key: &RunKey, commit: Commit) {
        for event in commit.events {
            let previous = self.head();
            let seq = previous.seq + 1;
            let link = Link {
                tenant: key.tenant.as_str(),
                run: &key.run,
                seq,
                agent: &event.agent,
                kind: event.kind,
                at_ms: event.at_ms,
                version: event.version,
                payload: &event.payload,
            };
            let hash = chain(&previous.hash, link);
            let (kind, at_ms, version) = (event.kind.into(), event.at_ms, event.version);
            self.events.push(StoredEvent {
                seq,
                agent: event.agent,
                kind,
                at_ms,
                version,
                payload: event.payload,
                hash,
            });
        }
        for row in commit.agents {
            if let Some(&place) = self.places.get(&row.id) {
                let terms = self.agents[place].terms.take();
                self.agents[place] = AgentRow { terms, ..row };
            } else {
                self.places.insert(row.id.clone(), self.agents.len());
                self.agents.push(row);
            }
        }
        if let Some(row) = commit.run {
            self.row = row;
        }
        if let Some(taken) = commit.mail_taken {
            self.mailbox.retain(|mail| mail.id > taken);
        }
    }
}

impl Data {
    /// Registers a new handle.
    pub(super) fn arrive(&mut self) -> HandleNo {
        self.handles += 1;
        self.alive.insert(self.handles);
        self.handles
    }

    /// Unregisters a dropped handle.
    pub(super) fn leave(&mut self, handle: HandleNo) {
        self.alive.remove(&handle);
    }

    fn run(&self, key: &RunKey) -> Result<&Run, StoreError> {
        self.runs.get(key).ok_or_else(|| StoreError::UnknownRun(key.run.clone()))
    }

    fn run_mut(&mut self, key: &RunKey) -> Result<&mut Run, StoreError> {
        self.runs.get_mut(key).ok_or_else(|| StoreError::UnknownRun(key.run.clone()))
    }

    pub(super) fn commit(
        &mut self,
        mut commit: Commit,
        process: &Process,
    ) -> Result<CommitReceipt, StoreError> {
        let key = commit.key.clone();
        let mut new = None;
        let run = match commit.basis {
            Basis::New => {
                if self.runs.contains_key(&key) {
                    return Err(StoreError::Exists(key.run));
                }
                new.insert(new_run(&mut commit)?)
            }
            Basis::Held { head: expected, epoch } => {
                let run = self.run_mut(&key)?;
                run.check_epoch(&key, epoch, process)?;
                let actual = run.head().seq;
                if actual != expected {
                    return Err(StoreError::Conflict { run: key.run, expected, actual });
                }
                run
            }
        };
        run.check_agents(&commit.agents)?;
        // No operation below can fail.
        let blobs = std::mem::take(&mut commit.blobs);
        run.append(&key, commit);
        run.lease = Some(Lease::of(process));
        let committed = CommitReceipt { head: run.head(), epoch: run.epoch };
        if let Some(run) = new {
            self.runs.insert(key.clone(), run);
            self.order.push(key.clone());
        }
        for blob in blobs {
            self.blobs.entry((key.tenant.clone(), blob.hash)).or_insert(blob.bytes);
        }
        self.announce(&key);
        Ok(committed)
    }

    pub(super) fn read(&self, key: &RunKey, after: u64, limit: u32) -> Result<Vec<StoredEvent>, StoreError> {
        let events = &self.run(key)?.events;
        let start = usize::try_from(after).unwrap_or(usize::MAX).min(events.len());
        Ok(events[start..].iter().take(limit as usize).cloned().collect())
    }

    pub(super) fn head(&self, key: &RunKey) -> Result<Head, StoreError> {
        Ok(self.run(key)?.head())
    }

    /// The lease holder, while its lease is live.
    fn holder(&self, run: &Run, clock: &LeaseClock) -> Option<Holder> {
        let is_alive = |lease: &Lease| self.ignores_death || self.alive.contains(&lease.handle);
        let lease = run.lease.as_ref().filter(|lease| is_alive(lease) && !clock.is_over(&lease.expiry))?;
        Some(Holder {
            id: format!("{:016x}", lease.handle),
            label: lease.label.to_string(),
            pid: Some(std::process::id()),
            epoch: run.epoch,
        })
    }

    pub(super) fn claimable(&self, tenant: &TenantId, limit: u32, clock: &LeaseClock) -> Vec<RunId> {
        let is_free = |run: &Run| run.row.ended_at_ms.is_none() && self.holder(run, clock).is_none();
        let oldest = self.order.iter().filter(|key| key.tenant == *tenant);
        let free = oldest.filter(|key| self.runs.get(key).is_some_and(is_free));
        free.take(limit as usize).map(|key| key.run.clone()).collect()
    }

    pub(super) fn claim(&mut self, key: &RunKey, process: &Process) -> Result<Claim, StoreError> {
        if let Some(holder) = self.holder(self.run(key)?, &process.clock) {
            return Ok(Claim::Held(holder));
        }
        let run = self.run_mut(key)?;
        run.epoch += 1;
        run.lease = Some(Lease::of(process));
        Ok(Claim::Granted(run.epoch))
    }

    pub(super) fn heartbeat(
        &mut self,
        key: &RunKey,
        epoch: Epoch,
        process: &Process,
    ) -> Result<(), StoreError> {
        let run = self.run_mut(key)?;
        run.check_epoch(key, epoch, process)?;
        run.lease = Some(Lease::of(process));
        Ok(())
    }

    pub(super) fn release(
        &mut self,
        key: &RunKey,
        epoch: Epoch,
        process: &Process,
    ) -> Result<(), StoreError> {
        let run = self.run_mut(key)?;
        if run.check_epoch(key, epoch, process).is_ok() {
            run.lease = None;
        }
        Ok(())
    }

    pub(super) fn post(&mut self, key: &RunKey, command: MailCommand) -> Result<u64, StoreError> {
        let run = self.run_mut(key)?;
        if run.mailbox.len() >= MAILBOX_MAX as usize {
            return Err(StoreError::MailboxFull(key.run.clone()));
        }
        run.messages += 1;
        let id = run.messages;
        run.mailbox.push(Mail { id, command });
        self.announce(key);
        Ok(id)
    }

    pub(super) fn mail(&self, key: &RunKey) -> Result<Vec<Mail>, StoreError> {
        Ok(self.run(key)?.mailbox.clone())
    }

    pub(super) fn blob(&self, tenant: &TenantId, hash: &Hash) -> Result<Vec<u8>, StoreError> {
        let blob = self.blobs.get(&(tenant.clone(), *hash)).ok_or(StoreError::UnknownBlob(*hash))?;
        Ok(blob.to_vec())
    }

    pub(super) fn runs(
        &self,
        tenant: &TenantId,
        prefix: &str,
        limit: u32,
        clock: &LeaseClock,
    ) -> Vec<RunEntry> {
        let fits = |key: &&RunKey| key.tenant == *tenant && key.run.as_str().starts_with(prefix);
        let newest = self.order.iter().rev().filter(fits).take(limit as usize);
        newest.filter_map(|key| self.runs.get(key).map(|run| self.entry(key, run, clock))).collect()
    }

    fn entry(&self, key: &RunKey, run: &Run, clock: &LeaseClock) -> RunEntry {
        let (row, agents) = (run.row.clone(), run.agents.len() as u64);
        let (head, holder) = (run.head(), self.holder(run, clock));
        let over = run.lease.as_ref().filter(|_| holder.is_none());
        let alive_at_ms = over.and_then(|lease| clock.renewed_at_ms(&lease.expiry, lease.length));
        RunEntry { run: key.run.clone(), row, agents, head, holder, alive_at_ms, damage: None }
    }

    pub(super) fn agents(&self, key: &RunKey) -> Result<Vec<AgentRow>, StoreError> {
        Ok(self.run(key)?.agents.clone())
    }

    pub(super) fn spending(&self, tenant: &TenantId, limit: u32) -> Result<Vec<RunSpending>, StoreError> {
        let newest = self.order.iter().rev().filter(|key| key.tenant == *tenant).take(limit as usize);
        newest.filter_map(|key| self.runs.get(key).map(|run| spent(key, run))).collect()
    }

    pub(super) fn remove(&mut self, key: &RunKey, clock: &LeaseClock) -> Result<Head, StoreError> {
        let run = self.run(key)?;
        if run.row.ended_at_ms.is_none() || self.holder(run, clock).is_some() {
            return Err(StoreError::Open(key.run.clone()));
        }
        let head = run.head();
        self.runs.remove(key);
        self.order.retain(|known| known != key);
        self.removed.push((key.tenant.clone(), RemovedRun { run: key.run.clone(), head }));
        Ok(head)
    }

    pub(super) fn removed(&self, tenant: &TenantId, prefix: &str, limit: u32) -> Vec<RemovedRun> {
        let fits = |(of, removed): &&(TenantId, RemovedRun)| {
            of == tenant && removed.run.as_str().starts_with(prefix)
        };
        let last = self.removed.iter().rev().filter(fits).take(limit as usize);
        last.map(|(_, removed)| removed.clone()).collect()
    }

    pub(super) fn watch(&mut self, key: &RunKey) -> watch::Receiver<Pulse> {
        let pulse = self.pulse(key);
        self.watchers.retain(|_, sender| sender.receiver_count() > 0);
        let sender = self.watchers.entry(key.clone()).or_insert_with(|| watch::Sender::new(pulse));
        sender.subscribe()
    }

    fn pulse(&self, key: &RunKey) -> Pulse {
        self.runs
            .get(key)
            .map_or(Pulse::default(), |run| Pulse { head: run.head().seq, messages: run.messages })
    }

    fn announce(&self, key: &RunKey) {
        if let Some(sender) = self.watchers.get(key) {
            let pulse = self.pulse(key);
            sender.send_if_modified(|known| std::mem::replace(known, pulse) != pulse);
        }
    }
}

fn new_run(commit: &mut Commit) -> Result<Run, StoreError> {
    let Some(row) = commit.run.take() else {
        return Err(StoreError::Failed("a new run needs its row".to_owned()));
    };
    Ok(Run {
        row,
        events: Vec::new(),
        agents: Vec::new(),
        places: HashMap::new(),
        mailbox: Vec::new(),
        messages: 0,
        epoch: 1,
        lease: None,
    })
}

fn spent(key: &RunKey, run: &Run) -> Result<RunSpending, StoreError> {
    let damaged = |problem: serde_json::Error| StoreError::Damaged {
        run: key.run.clone(),
        problem: problem.to_string(),
    };
    let mut by_model = BTreeMap::<String, ModelSpending>::new();
    for agent in &run.agents {
        let model = match &agent.terms {
            Some(terms) if agent.id != key.run.root() => {
                let contract: serde_json::Value =
                    serde_json::from_str(&terms.contract_json).map_err(damaged)?;
                contract["execution"]["model"].as_str().unwrap_or_default().to_owned()
            }
            _ => run.row.model.clone(),
        };
        let sum = by_model.entry(model).or_default();
        sum.agents += 1;
        sum.figures += serde_json::from_str(&agent.usage_json).map_err(damaged)?;
    }
    let (model, created_at_ms) = (run.row.model.clone(), run.row.created_at_ms);
    Ok(RunSpending { run: key.run.clone(), model, created_at_ms, by_model })
}
