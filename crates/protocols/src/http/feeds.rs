//! Events of runs as the clients of their streams get them. An event is read from the journal and written as JSON once for
//! all clients that follow the run; each takes it from there at its own pace.
//!
//! A feed keeps the newest events of its run. A client that is further behind reads the journal by itself until it has
//! reached them: it costs its own time, and neither the run nor another client waits for it.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use posse::api;
use posse::ports::TenantId;
use posse::{AgentId, EventKind, Events, JournalEvent, Posse, RunId};
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::limits::{FEED_MAX_BYTES, FEED_PAST_EVENTS_MAX, FEEDS_MAX_BYTES, PIECE_MAX_BYTES};
use super::problem::Problem;
use super::reply::json;

/// An event as clients get it.
#[derive(Debug)]
pub(super) struct FeedEvent {
    pub(super) seq: u64,
    pub(super) agent: AgentId,
    pub(super) kind: EventKind,
    /// Its message in a stream.
    pub(super) message: String,
}

impl FeedEvent {
    fn new(event: &JournalEvent) -> Result<Self, Problem> {
        // JSON has no line breaks.
        let data = json(&api::Event::new(event))?;
        let message = format!("id: {}\ndata: {data}\n\n", event.seq);
        Ok(Self { seq: event.seq, agent: event.agent_id.clone(), kind: event.kind, message })
    }
}

/// The feeds of all runs that clients follow.
pub(super) struct RunFeeds {
    open: Mutex<HashMap<(TenantId, RunId), Weak<RunFeed>>>,
    budget: Arc<FeedBudget>,
}

impl Default for RunFeeds {
    fn default() -> Self {
        Self {
            open: Mutex::default(),
            budget: Arc::new(FeedBudget { most: FEEDS_MAX_BYTES, feeds: 0.into() }),
        }
    }
}

/// What all feeds may keep together.
struct FeedBudget {
    most: usize,
    feeds: AtomicUsize,
}

impl FeedBudget {
    /// What one feed may keep now.
    fn of_one(&self) -> usize {
        (self.most / self.feeds.load(Ordering::Relaxed).max(1)).min(FEED_MAX_BYTES)
    }
}

/// The newest events of a run. It reads the journal as long as a client follows it.
struct RunFeed {
    shared: Arc<SharedFeed>,
    _reading: JoinSet<()>,
}

struct SharedFeed {
    kept: Mutex<KeptEvents>,
    /// How many events were read; it changes with the feed.
    news: watch::Sender<u64>,
    budget: Arc<FeedBudget>,
}

impl Drop for SharedFeed {
    fn drop(&mut self) {
        self.budget.feeds.fetch_sub(1, Ordering::Relaxed);
    }
}

struct KeptEvents {
    /// Without gaps, the oldest first.
    events: VecDeque<Arc<FeedEvent>>,
    bytes: usize,
    /// The number of the last event that was read.
    last: u64,
    /// Why no more events are read.
    problem: Option<Problem>,
}

/// What a feed has for a client.
enum FeedNews {
    Events(Vec<Arc<FeedEvent>>),
    /// The client has everything.
    Nothing,
    /// The client's next event is older than what the feed keeps.
    Older,
}

impl KeptEvents {
    fn after(&self, known: u64) -> Result<FeedNews, Problem> {
        let first = self.events.front().map_or(self.last + 1, |event| event.seq);
        if known + 1 < first {
            return Ok(FeedNews::Older);
        }
        let from = usize::try_from(known + 1 - first).unwrap_or(usize::MAX);
        let mut bytes = 0;
        let of_piece = self.events.iter().skip(from).take_while(|event| {
            let is_first = bytes == 0;
            bytes += event.message.len();
            is_first || bytes <= PIECE_MAX_BYTES
        });
        let events: Vec<Arc<FeedEvent>> = of_piece.cloned().collect();
        match &self.problem {
            _ if !events.is_empty() => Ok(FeedNews::Events(events)),
            Some(problem) => Err(problem.clone()),
            None => Ok(FeedNews::Nothing),
        }
    }
}

impl SharedFeed {
    fn kept(&self) -> MutexGuard<'_, KeptEvents> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads the journal until an error; dropped with the feed.
    async fn read(self: Arc<Self>, mut events: Events) {
        loop {
            let added = match events.next().await {
                Ok(event) => FeedEvent::new(&event).map(|event| self.add(event)),
                Err(error) => Err(error.into()),
            };
            if let Err(problem) = added {
                self.kept().problem = Some(problem);
                self.news.send_modify(|_| {});
                return;
            }
        }
    }

    fn add(&self, event: FeedEvent) {
        let most = self.budget.of_one();
        let mut kept = self.kept();
        kept.last = event.seq;
        kept.bytes += event.message.len();
        kept.events.push_back(Arc::new(event));
        while kept.bytes > most
            && let Some(oldest) = kept.events.pop_front()
        {
            kept.bytes -= oldest.message.len();
        }
        let last = kept.last;
        drop(kept);
        self.news.send_replace(last);
    }
}

impl RunFeeds {
    /// Follows a run after an event that the client has. `head` is the number of the newest event.
    pub(super) fn follow(
        &self,
        tenant: &TenantId,
        run: &RunId,
        posse: Posse,
        after: u64,
        head: u64,
    ) -> FeedFollower {
        let feed = self.feed(tenant, run, &posse, after.max(head.saturating_sub(FEED_PAST_EVENTS_MAX)));
        let news = feed.shared.news.subscribe();
        FeedFollower { feed, news, posse, run: run.clone(), after, own: None, read: Vec::new() }
    }

    /// The feed of a run. A new one begins after this event.
    fn feed(&self, tenant: &TenantId, run: &RunId, posse: &Posse, after: u64) -> Arc<RunFeed> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let name = (tenant.clone(), run.clone());
        let known = open.get(&name).and_then(Weak::upgrade);
        if let Some(known) = known.filter(|feed| feed.shared.kept().problem.is_none()) {
            return known;
        }
        open.retain(|_, feed| feed.strong_count() > 0);
        self.budget.feeds.fetch_add(1, Ordering::Relaxed);
        let kept = KeptEvents { events: VecDeque::new(), bytes: 0, last: after, problem: None };
        let shared = Arc::new(SharedFeed {
            kept: Mutex::new(kept),
            news: watch::Sender::new(after),
            budget: Arc::clone(&self.budget),
        });
        let mut reading = JoinSet::new();
        reading.spawn(Arc::clone(&shared).read(posse.events(run, after)));
        let feed = Arc::new(RunFeed { shared, _reading: reading });
        open.insert(name, Arc::downgrade(&feed));
        feed
    }
}

/// A client that follows a run.
pub(super) struct FeedFollower {
    feed: Arc<RunFeed>,
    news: watch::Receiver<u64>,
    posse: Posse,
    run: RunId,
    /// The number of the last event that it got.
    after: u64,
    /// Its own reader, while it is further behind than the feed keeps.
    own: Option<Events>,
    /// What the own reader has read so far of the next piece.
    read: Vec<Arc<FeedEvent>>,
}

impl FeedFollower {
    /// The next events, at least one. Dropping the future loses none.
    pub(super) async fn next(&mut self) -> Result<Vec<Arc<FeedEvent>>, Problem> {
        loop {
            self.news.mark_unchanged();
            let news = self.feed.shared.kept().after(self.after)?;
            let events = match news {
                FeedNews::Events(events) => {
                    self.own = None;
                    self.read.clear();
                    events
                }
                FeedNews::Nothing => {
                    // The sender lives as long as the feed.
                    let _ = self.news.changed().await;
                    continue;
                }
                FeedNews::Older => self.older().await?,
            };
            self.after = events.last().map_or(self.after, |event| event.seq);
            return Ok(events);
        }
    }

    /// The next events from the journal.
    async fn older(&mut self) -> Result<Vec<Arc<FeedEvent>>, Problem> {
        let (posse, run, after) = (&self.posse, &self.run, self.after);
        let events = self.own.get_or_insert_with(|| posse.events(run, after));
        loop {
            let bytes: usize = self.read.iter().map(|event| event.message.len()).sum();
            let event = if self.read.is_empty() {
                Some(events.next().await?)
            } else if bytes < PIECE_MAX_BYTES {
                events.try_next().await?
            } else {
                None
            };
            let Some(event) = event else { return Ok(std::mem::take(&mut self.read)) };
            self.read.push(Arc::new(FeedEvent::new(&event)?));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(seq: u64, bytes: usize) -> Arc<FeedEvent> {
        let agent = "k3f9ab2c".parse().expect("an agent");
        Arc::new(FeedEvent { seq, agent, kind: EventKind::RunCompleted, message: "x".repeat(bytes) })
    }

    fn kept(numbers: std::ops::RangeInclusive<u64>, bytes: usize) -> KeptEvents {
        let last = *numbers.end();
        KeptEvents { events: numbers.map(|seq| event(seq, bytes)).collect(), bytes: 0, last, problem: None }
    }

    /// The numbers that a client gets; `None` if they are older than what is kept.
    fn after(kept: &KeptEvents, known: u64) -> Option<Vec<u64>> {
        match kept.after(known).expect("no problem") {
            FeedNews::Events(events) => Some(events.iter().map(|event| event.seq).collect()),
            FeedNews::Nothing => Some(Vec::new()),
            FeedNews::Older => None,
        }
    }

    #[test]
    fn a_client_gets_exactly_the_events_that_it_lacks() {
        let kept = kept(4..=6, 1);
        assert_eq!(after(&kept, 2), None, "event 3 is not kept");
        assert_eq!(after(&kept, 3), Some(vec![4, 5, 6]));
        assert_eq!(after(&kept, 5), Some(vec![6]));
        assert_eq!(after(&kept, 6), Some(vec![]));
        assert_eq!(after(&kept, 9), Some(vec![]), "the feed has not read them yet");
        let empty = KeptEvents { events: VecDeque::new(), bytes: 0, last: 6, problem: None };
        assert_eq!((after(&empty, 5), after(&empty, 6)), (None, Some(vec![])));
    }

    #[test]
    fn a_piece_is_limited_but_has_an_event() {
        assert_eq!(after(&kept(1..=3, PIECE_MAX_BYTES / 2), 0), Some(vec![1, 2]));
        assert_eq!(after(&kept(1..=3, 2 * PIECE_MAX_BYTES), 0), Some(vec![1]));
    }

    #[test]
    fn a_client_has_read_everything_before_it_gets_the_problem() {
        let kept = KeptEvents { problem: Some(Problem::failed("the disk")), ..kept(1..=2, 1) };
        assert_eq!(after(&kept, 0), Some(vec![1, 2]));
        assert!(kept.after(2).is_err());
    }

    #[test]
    fn all_feeds_together_keep_a_limited_part_of_the_journals() {
        let budget = FeedBudget { most: FEEDS_MAX_BYTES, feeds: 1.into() };
        assert_eq!(budget.of_one(), FEED_MAX_BYTES);
        budget.feeds.store(64, Ordering::Relaxed);
        assert_eq!(budget.of_one() * 64, FEEDS_MAX_BYTES);
    }
}
