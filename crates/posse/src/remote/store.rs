//! A store over the HTTP API of a server.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::future::BoxFuture;
use posse_domain::budget::Figures;
use posse_domain::event::{EVENT_VERSION, EventKind, StoredEvent};
use posse_domain::hash::Hash;
use posse_domain::id::RunId;
use posse_domain::permission::Answer;
use posse_engine::ports::{
    AgentRow, Capabilities, Claim, Commit, CommitReceipt, Epoch, Head, Health, Holder, Mail, MailCommand,
    ModelSpending, Pulse, RemovedRun, RunEntry, RunKey, RunRow, RunSpending, Store, StoreError, TenantId,
};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::watch;

use super::{ServerClient, ServerError};
use crate::{RunStatus, Usage, api};

/// How often a server is asked for news of a run that is watched.
const POLL: Duration = Duration::from_millis(150);
/// How many events, and how many runs, are asked for at once.
const EVENTS_PAGE: &str = "1000";
const RUNS_PAGE: u32 = 500;

/// A store over the API.
pub(super) struct RemoteStore(Arc<Remote>);

struct Remote {
    client: Arc<ServerClient>,
    /// The events of the runs that were read.
    journals: Mutex<HashMap<RunId, Arc<tokio::sync::Mutex<Journal>>>>,
}

/// The events of a run that were read so far.
#[derive(Default)]
struct Journal {
    events: Vec<StoredEvent>,
    is_ended: bool,
}

/// A page of events, with what is stored of them.
#[derive(Deserialize)]
struct EventPage {
    events: Vec<api::Event<'static>>,
    after: u64,
    more: bool,
}

impl RemoteStore {
    pub(super) fn new(client: Arc<ServerClient>) -> Self {
        Self(Arc::new(Remote { client, journals: Mutex::default() }))
    }
}

impl Remote {
    fn journal(&self, run: &RunId) -> Arc<tokio::sync::Mutex<Journal>> {
        let mut journals = self.journals.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(journals.entry(run.clone()).or_default())
    }

    /// Reads what is new of a journal.
    async fn refresh(&self, run: &RunId, journal: &mut Journal) -> Result<(), StoreError> {
        while !journal.is_ended {
            let after = journal.events.len().to_string();
            let path = format!("/api/v1/runs/{run}/events");
            let query = [("after", after.as_str()), ("limit", EVENTS_PAGE)];
            let page: EventPage =
                self.client.get(&path, &query).await.map_err(|error| of_run(run, &error))?;
            for event in &page.events {
                let stored =
                    stored(event).ok_or_else(|| damaged(run, "the server has an event that is none"))?;
                if stored.seq != journal.events.len() as u64 + 1 {
                    return Err(damaged(run, "the server omits an event"));
                }
                journal.is_ended |= EventKind::parse(&stored.kind).is_some_and(EventKind::ends_run);
                journal.events.push(stored);
            }
            if !page.more || page.after < journal.events.len() as u64 {
                break;
            }
        }
        Ok(())
    }

    async fn runs(&self, prefix: &str, limit: u32) -> Result<Vec<api::RunSummary>, StoreError> {
        let mut all: Vec<api::RunSummary> = Vec::new();
        let mut cursor: Option<String> = None;
        loop {
            let wanted = limit.saturating_sub(u32::try_from(all.len()).unwrap_or(u32::MAX));
            if wanted == 0 {
                return Ok(all);
            }
            let size = wanted.min(RUNS_PAGE).to_string();
            let mut query = vec![("limit", size.as_str())];
            if !prefix.is_empty() {
                query.push(("prefix", prefix));
            }
            query.extend(cursor.as_ref().map(|cursor| ("cursor", cursor.as_str())));
            let page: api::RunPage =
                self.client.get("/api/v1/runs", &query).await.map_err(|error| failed(&error))?;
            all.extend(page.runs);
            match page.next {
                Some(next) => cursor = Some(next),
                None => return Ok(all),
            }
        }
    }

    async fn post(&self, run: &RunId, command: &MailCommand) -> Result<u64, StoreError> {
        let of = |rest: &str| format!("/api/v1/runs/{run}{rest}");
        let (path, body) = match command {
            MailCommand::Cancel { agent, reason, kill } => {
                let path = of(if *kill { "/kill" } else { "/cancel" });
                let body = if agent.is_root() {
                    json!({ "reason": reason })
                } else {
                    json!({ "agent": agent, "reason": reason })
                };
                (path, body)
            }
            MailCommand::Send { agent, text } => {
                (of(&format!("/agents/{agent}/messages")), json!({ "text": text }))
            }
            MailCommand::Answer { agent, call_id, approval, answer } => {
                let mut body = json!({ "agent": agent, "call_id": call_id, "approval": approval });
                match answer {
                    Answer::Once => body["decision"] = "allow".into(),
                    Answer::Always => body["decision"] = "always".into(),
                    Answer::Deny { reason } => {
                        body["decision"] = "deny".into();
                        if let Some(reason) = reason {
                            body["reason"] = reason.as_str().into();
                        }
                    }
                }
                (of("/answers"), body)
            }
        };
        self.client.post::<Value>(&path, &body).await.map_err(|error| of_run(run, &error))?;
        Ok(0)
    }
}

/// An event as a store has it. Its place in the chain of hashes is known to the server alone.
fn stored(event: &api::Event<'_>) -> Option<StoredEvent> {
    Some(StoredEvent {
        seq: event.seq,
        agent: event.agent_id.parse().ok()?,
        kind: event.kind.as_ref().into(),
        at_ms: milliseconds(&event.at)?,
        version: EVENT_VERSION,
        payload: event.detail.to_string(),
        hash: Hash::ZERO,
    })
}

pub(super) fn milliseconds(timestamp: &str) -> Option<i64> {
    timestamp.parse::<jiff::Timestamp>().ok().map(jiff::Timestamp::as_millisecond)
}

fn entry(run: api::RunSummary) -> Option<RunEntry> {
    let created_at_ms = milliseconds(&run.created_at)?;
    let status = match run.status {
        api::RunStatus::Running | api::RunStatus::Interrupted => RunStatus::Running,
        api::RunStatus::Completed => RunStatus::Completed,
        api::RunStatus::Failed => RunStatus::Failed,
        api::RunStatus::Cancelled => RunStatus::Cancelled,
    };
    let is_interrupted = run.status == api::RunStatus::Interrupted;
    let holder = run.holder.map(|label| Holder { id: label.clone(), label, pid: run.pid, epoch: 0 });
    Some(RunEntry {
        run: run.run.parse().ok()?,
        row: RunRow {
            status,
            title: run.request,
            definition: run.definition,
            model: run.model,
            dir: run.dir,
            session_id: None,
            created_at_ms,
            ended_at_ms: run.ended_at.as_deref().and_then(milliseconds),
        },
        agents: run.agents,
        head: Head { seq: run.events, hash: Hash::ZERO },
        holder,
        alive_at_ms: is_interrupted.then(|| created_at_ms.saturating_add_unsigned(run.wall_ms)),
        damage: None,
    })
}

fn spending(run: &api::RunSummary) -> Option<RunSpending> {
    let figures = Figures { usage: usage(&run.usage), ..Figures::default() };
    let of_model = ModelSpending { agents: run.agents, figures };
    Some(RunSpending {
        run: run.run.parse().ok()?,
        model: run.model.clone(),
        created_at_ms: milliseconds(&run.created_at)?,
        by_model: BTreeMap::from([(run.model.clone(), of_model)]),
    })
}

/// The usage behind its API type.
pub(super) fn usage(of: &api::Usage) -> Usage {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "sums of money are small and positive"
    )]
    let micros = |dollars: f64| (dollars * 1e6).round() as u64;
    Usage {
        // What was cut off is not divided into input and output: its calls are in the sum of the input.
        input_tokens: of.input_tokens.saturating_add(of.cut_off_tokens_at_most),
        output_tokens: of.output_tokens,
        cached_tokens: of.cached_tokens,
        cache_write_tokens: of.cache_write_tokens,
        reasoning_tokens: of.reasoning_tokens,
        micro_usd: of.usd_at_most.map(micros),
        known_micro_usd: Some(micros(of.usd_known)),
        unpriced_tokens: Some(of.unpriced_tokens),
        cut_off: posse_domain::budget::CutOffCalls {
            calls: of.cut_off_calls,
            input_tokens: of.cut_off_tokens_at_most,
            output_tokens: 0,
        },
        cut_off_micro_usd: 0,
    }
}

fn damaged(run: &RunId, problem: &str) -> StoreError {
    StoreError::Damaged { run: run.clone(), problem: problem.to_owned() }
}

fn failed(error: &ServerError) -> StoreError {
    let remedy = match error {
        ServerError::Refused { remedy: Some(remedy), .. } => format!("; {remedy}"),
        _ => String::new(),
    };
    StoreError::Failed(format!("{error}{remedy}"))
}

fn of_run(run: &RunId, error: &ServerError) -> StoreError {
    match error {
        ServerError::Refused { code, .. } if code == "UNKNOWN_RUN" => StoreError::UnknownRun(run.clone()),
        error => failed(error),
    }
}

fn not_offered<T: Send + 'static>(what: &str) -> BoxFuture<'static, Result<T, StoreError>> {
    let problem = format!("a server {what} its runs itself");
    Box::pin(async move { Err(StoreError::Failed(problem)) })
}

impl Store for RemoteStore {
    fn capabilities(&self) -> Capabilities {
        Capabilities { notices_death: true }
    }

    fn commit(&self, _: Commit) -> BoxFuture<'static, Result<CommitReceipt, StoreError>> {
        not_offered("writes")
    }

    fn read(
        &self,
        key: &RunKey,
        after: u64,
        limit: u32,
    ) -> BoxFuture<'static, Result<Vec<StoredEvent>, StoreError>> {
        let (remote, run) = (Arc::clone(&self.0), key.run.clone());
        Box::pin(async move {
            let journal = remote.journal(&run);
            let mut journal = journal.lock().await;
            let has_enough = journal.events.len() as u64 >= after.saturating_add(u64::from(limit));
            if !has_enough {
                remote.refresh(&run, &mut journal).await?;
            }
            let known = journal.events.iter().skip(usize::try_from(after).unwrap_or(usize::MAX));
            Ok(known.take(usize::try_from(limit).unwrap_or(usize::MAX)).cloned().collect())
        })
    }

    fn head(&self, key: &RunKey) -> BoxFuture<'static, Result<Head, StoreError>> {
        let (remote, run) = (Arc::clone(&self.0), key.run.clone());
        Box::pin(async move {
            let journal = remote.journal(&run);
            let mut journal = journal.lock().await;
            remote.refresh(&run, &mut journal).await?;
            Ok(Head { seq: journal.events.len() as u64, hash: Hash::ZERO })
        })
    }

    fn watch(&self, key: &RunKey) -> watch::Receiver<Pulse> {
        let (sender, receiver) = watch::channel(Pulse::default());
        let (remote, run) = (Arc::clone(&self.0), key.run.clone());
        tokio::spawn(async move {
            while !sender.is_closed() {
                tokio::time::sleep(POLL).await;
                let journal = remote.journal(&run);
                let mut journal = journal.lock().await;
                // An error is met by the reader too, which reports it.
                let is_failed = remote.refresh(&run, &mut journal).await.is_err();
                let head = journal.events.len() as u64;
                sender.send_if_modified(|pulse| {
                    let is_new = is_failed || pulse.head < head;
                    pulse.head = pulse.head.max(head);
                    is_new
                });
                if is_failed || journal.is_ended {
                    // The reader may wait for what it has not seen yet.
                    drop(journal);
                    sender.closed().await;
                }
            }
        });
        receiver
    }

    fn claim(&self, _: &RunKey) -> BoxFuture<'static, Result<Claim, StoreError>> {
        not_offered("executes")
    }

    fn heartbeat(&self, _: &RunKey, _: Epoch) -> BoxFuture<'static, Result<(), StoreError>> {
        not_offered("executes")
    }

    fn release(&self, _: &RunKey, _: Epoch) -> BoxFuture<'static, Result<(), StoreError>> {
        not_offered("executes")
    }

    fn claimable(&self, _: &TenantId, _: u32) -> BoxFuture<'static, Result<Vec<RunId>, StoreError>> {
        not_offered("executes")
    }

    fn post(&self, key: &RunKey, command: MailCommand) -> BoxFuture<'static, Result<u64, StoreError>> {
        let (remote, run) = (Arc::clone(&self.0), key.run.clone());
        Box::pin(async move { remote.post(&run, &command).await })
    }

    fn mail(&self, _: &RunKey) -> BoxFuture<'static, Result<Vec<Mail>, StoreError>> {
        // Commands that no commit has taken yet are known to the server alone.
        Box::pin(async { Ok(Vec::new()) })
    }

    fn get_blob(&self, _: &TenantId, _: &Hash) -> BoxFuture<'static, Result<Vec<u8>, StoreError>> {
        // The API has long texts in its events. It only names pictures, and what the machine of the server has found.
        Box::pin(async { Ok(Vec::new()) })
    }

    fn runs(
        &self,
        _: &TenantId,
        prefix: &str,
        limit: u32,
    ) -> BoxFuture<'static, Result<Vec<RunEntry>, StoreError>> {
        let (remote, prefix) = (Arc::clone(&self.0), prefix.to_owned());
        Box::pin(
            async move { Ok(remote.runs(&prefix, limit).await?.into_iter().filter_map(entry).collect()) },
        )
    }

    fn agents(&self, key: &RunKey) -> BoxFuture<'static, Result<Vec<AgentRow>, StoreError>> {
        let (remote, run) = (Arc::clone(&self.0), key.run.clone());
        Box::pin(async move {
            let journal = remote.journal(&run);
            let mut journal = journal.lock().await;
            remote.refresh(&run, &mut journal).await?;
            posse_engine::rows_of(&journal.events).map_err(|problem| damaged(&run, &problem))
        })
    }

    fn spending(&self, _: &TenantId, limit: u32) -> BoxFuture<'static, Result<Vec<RunSpending>, StoreError>> {
        let remote = Arc::clone(&self.0);
        Box::pin(async move { Ok(remote.runs("", limit).await?.iter().filter_map(spending).collect()) })
    }

    fn remove(&self, _: &RunKey) -> BoxFuture<'static, Result<Head, StoreError>> {
        not_offered("removes")
    }

    fn removed(
        &self,
        _: &TenantId,
        _: &str,
        _: u32,
    ) -> BoxFuture<'static, Result<Vec<RemovedRun>, StoreError>> {
        Box::pin(async { Ok(Vec::new()) })
    }

    fn check_run(&self, _: &RunKey) -> BoxFuture<'static, Result<Health, StoreError>> {
        not_offered("verifies")
    }

    fn check(&self) -> BoxFuture<'static, Result<Health, StoreError>> {
        not_offered("verifies")
    }
}
