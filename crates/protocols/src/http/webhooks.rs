//! Reports what happens in runs to a webhook, from their journals, so that nothing is lost if the server or the receiver is gone
//! for a while. Each open run is followed by a task of its own: one that waits for a receiver delays no other.

use std::collections::HashSet;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use posse::api::{self, VersionedObject};
use posse::webhook::{Webhook, WebhookEvent};
use posse::{JournalEvent, Posse, RunId};
use posse_setup::SetupError;
use posse_setup::server::SentEvents;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use super::assets::now_ms;
use super::hosting::blocking;
use super::limits::{
    RUNS_SEARCHED_MAX, WEBHOOK_NEW_RUNS, WEBHOOK_PAUSE_FIRST, WEBHOOK_PAUSE_MAX, WEBHOOK_POLL,
    WEBHOOK_RUNS_MAX, WEBHOOK_SENDS_MAX,
};

/// What sends events of runs.
pub(super) struct WebhookSender {
    webhook: Webhook,
    posse: Posse,
    sent: Mutex<SentEvents>,
    sends: Semaphore,
}

/// What a look at the list of runs found.
struct FoundRuns {
    /// Runs that may have something to send.
    wanted: Vec<RunId>,
    newest: Option<RunId>,
    /// Whether no older run can be missing.
    is_complete: bool,
}

impl WebhookSender {
    /// Reads what was sent.
    pub(super) async fn open(webhook: Webhook, posse: Posse, state_dir: &Path) -> Result<Self, SetupError> {
        let known = posse.runs("", RUNS_SEARCHED_MAX).await;
        let known = known.map_err(|error| SetupError::failed(error.to_string()))?;
        let known: HashSet<RunId> = known.into_iter().map(|run| run.run).collect();
        let sent = SentEvents::open(state_dir, now_ms(), |run| known.contains(run))?;
        Ok(Self { webhook, posse, sent: Mutex::new(sent), sends: Semaphore::new(WEBHOOK_SENDS_MAX) })
    }

    /// Sends until the server ends.
    pub(super) async fn run(self) {
        let sender = Arc::new(self);
        let mut followed = HashSet::new();
        let mut following = JoinSet::new();
        let mut limit = RUNS_SEARCHED_MAX;
        let mut newest = None;
        loop {
            match sender.runs_to_follow(&followed, limit, newest.as_ref()).await {
                Ok(found) => {
                    limit = if found.is_complete { WEBHOOK_NEW_RUNS } else { RUNS_SEARCHED_MAX };
                    newest = found.newest;
                    for run in found.wanted {
                        if following.len() >= WEBHOOK_RUNS_MAX {
                            // The others are found again once some of these have ended.
                            limit = RUNS_SEARCHED_MAX;
                            break;
                        }
                        followed.insert(run.clone());
                        following.spawn(Arc::clone(&sender).follow(run));
                    }
                }
                Err(error) => tracing::warn!(%error, "runs for the webhook cannot be listed"),
            }
            tokio::select! {
                () = tokio::time::sleep(WEBHOOK_POLL) => {}
                Some(ended) = following.join_next() => {
                    if let Ok(Err(run)) = ended {
                        // Its journal could not be read just now.
                        followed.remove(&run);
                        limit = RUNS_SEARCHED_MAX;
                        tokio::time::sleep(WEBHOOK_POLL).await;
                    }
                }
            }
        }
    }

    /// Runs that are not followed yet and may have something to send. `newest` was the newest run before.
    async fn runs_to_follow(
        &self,
        followed: &HashSet<RunId>,
        limit: u32,
        newest: Option<&RunId>,
    ) -> Result<FoundRuns, posse::Error> {
        let runs = self.posse.runs("", limit).await?;
        let sent = self.sent();
        let is_complete = limit == RUNS_SEARCHED_MAX
            || runs.len() < limit as usize
            || runs.iter().any(|run| Some(&run.run) == newest);
        let newest = runs.first().map(|run| run.run.clone());
        let wanted = runs.into_iter().filter(|run| {
            let is_new = run.ended_at_ms.is_none_or(|ended| ended >= sent.since_ms());
            is_new && run.damage.is_none() && run.events > sent.of(&run.run) && !followed.contains(&run.run)
        });
        Ok(FoundRuns { wanted: wanted.map(|run| run.run).collect(), newest, is_complete })
    }

    /// Sends the events of a run until it ends. The error is a run whose journal could not be read.
    async fn follow(self: Arc<Self>, run: RunId) -> Result<(), RunId> {
        let after = self.sent().of(&run);
        let mut events = self.posse.events(&run, after);
        loop {
            let event = match events.next().await {
                Ok(event) => event,
                Err(error) => {
                    tracing::warn!(%run, %error, "the journal cannot be read for the webhook");
                    return Err(run);
                }
            };
            if let Some(of) = WebhookEvent::of(event.kind) {
                // A run that began before has questions that were asked before.
                if self.webhook.wants(of) && event.at_ms >= self.sent().since_ms() {
                    self.deliver(&run, of, &event).await;
                }
                self.record(&run, event.seq).await;
            }
            if event.kind.ends_run() {
                return Ok(());
            }
        }
    }

    /// Sends an event until its receiver has it.
    async fn deliver(&self, run: &RunId, of: WebhookEvent, event: &JournalEvent) {
        let message = api::WebhookMessage {
            id: format!("{run}-{}", event.seq),
            r#type: of.as_str().to_owned(),
            run: run.to_string(),
            event: api::Event::new(event).into_owned(),
        };
        let body = match serde_json::to_string(&VersionedObject::new(&message)) {
            Ok(body) => body,
            Err(error) => return tracing::error!(%run, %error, "an event is no message"),
        };
        let mut pause = WEBHOOK_PAUSE_FIRST;
        loop {
            let sent = {
                let Ok(_slot) = self.sends.acquire().await else { return };
                self.webhook.send(&message.id, &body, now_ms()).await
            };
            match sent {
                Ok(()) => return,
                Err(why) => {
                    tracing::warn!(id = message.id, why, "the webhook was not reached; it is tried again");
                }
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(WEBHOOK_PAUSE_MAX);
        }
    }

    async fn record(self: &Arc<Self>, run: &RunId, seq: u64) {
        let (sender, run) = (Arc::clone(self), run.clone());
        let recorded = blocking(move || sender.sent().record(&run, seq)).await;
        // What is not recorded is sent again by the next server.
        match recorded {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::error!(%error, "a delivery is not recorded"),
            Err(problem) => tracing::error!(detail = problem.detail, "a delivery is not recorded"),
        }
    }

    fn sent(&self) -> MutexGuard<'_, SentEvents> {
        self.sent.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
