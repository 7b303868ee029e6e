//! Loads views and their parts from a store.

use std::collections::{BTreeSet, HashMap, HashSet};

use posse_domain::budget::Usage;
use posse_domain::event::{Event, EventKind};
use posse_domain::id::{AgentId, RunId};
use posse_domain::permission::Approvals;
use posse_domain::printable;
use posse_engine::ports::{AgentRow, ModelSpending, RunEntry, RunSpending, StoreError};

use super::continued::ContinuedPart;
use super::{
    AgentRecord, AgentView, Agents, BlockedAgents, ContinuedAgent, ListedRun, OpenModelCalls, OpenQuestions,
    PlanView, RefusedOperations, RunSummary, RunView, ShownStatus, SpendingOfRuns, SpendingTotal,
    TIMELINE_MAX_ENTRIES, Timeline, Tracks, ViewEvent, ViewPart,
};
use crate::{Error, Posse, RunOutcome};

/// How often rows are read until no commit happens in between; after that the journal is read.
const ROW_READS_MAX: u32 = 3;

/// How many of the last events tell what the agents of a running run do.
const ACTIVITY_EVENTS: u64 = 1_000;

/// The parts of a view that are folded from the events that rows name.
#[derive(Default)]
struct NamedParts {
    blocked: BlockedAgents,
    plan: PlanView,
    continued: ContinuedPart,
}

impl ViewPart for NamedParts {
    fn needs(&self, kind: EventKind) -> bool {
        self.blocked.needs(kind) || self.plan.needs(kind) || self.continued.needs(kind)
    }

    fn apply(&mut self, event: &ViewEvent<'_>) {
        self.blocked.take(event);
        self.plan.take(event);
        self.continued.take(event);
    }
}

impl Posse {
    /// The newest runs whose id starts with `prefix`, newest first, in a single query.
    pub async fn runs(&self, prefix: &str, limit: u32) -> Result<Vec<RunSummary>, Error> {
        let runs = self.store.runs(&self.tenant, prefix, limit).await?;
        Ok(runs.into_iter().map(RunSummary::from).collect())
    }

    /// The newest runs as a list shows them, newest first, at most `limit` of them and only those that are `wanted`: each
    /// with what its agents wait for and what they spent.
    pub async fn listed_runs(
        &self,
        limit: u32,
        wanted: impl Fn(&RunSummary) -> bool,
    ) -> Result<Vec<ListedRun>, Error> {
        let mut spent = self.usage_of_runs(limit).await?;
        let mut listed = Vec::new();
        for run in self.runs("", limit).await?.into_iter().filter(wanted) {
            // Only an unfinished run has blocked agents, and few runs are open at once. A damaged run is listed
            // nevertheless: it must not hide the others.
            let blocked = if run.status.is_running() && run.damage.is_none() {
                self.blocked(&run.run).await?
            } else {
                BlockedAgents::default()
            };
            let is_turn_limited = self.is_turn_limited(&run).await?;
            let unknown = Usage { micro_usd: None, ..Usage::default() };
            let mut usage =
                spent.as_mut().map_or(unknown, |spent| spent.remove(&run.run).unwrap_or_default());
            let is_open = run.status.is_running() && run.damage.is_none();
            let is_interrupted = is_open && run.holder.is_none();
            let stopped_at_ms =
                if is_interrupted { self.last_event_at_ms(&run).await?.max(run.alive_at_ms) } else { None };
            let mut is_cost_unknown = false;
            // A run that is executed and has spent something shows that; before, its journal is short.
            if is_interrupted || (is_open && usage.tokens() == 0) {
                let calls: OpenModelCalls = self.fold(&run.run).await?;
                if is_interrupted {
                    calls.as_cut_off().for_each(|(_, cut_off)| usage += cut_off);
                } else {
                    is_cost_unknown = calls.has_unknown_price();
                }
            }
            listed.push(ListedRun { run, blocked, is_turn_limited, stopped_at_ms, usage, is_cost_unknown });
        }
        Ok(listed)
    }

    /// What each of the newest runs spent; `None` if that cannot be read of one of them.
    async fn usage_of_runs(&self, limit: u32) -> Result<Option<HashMap<RunId, Usage>>, Error> {
        let spending = match self.store.spending(&self.tenant, limit).await {
            Err(StoreError::Damaged { .. }) => return Ok(None),
            spending => spending?,
        };
        let of_run = |run: RunSpending| {
            let mut sum = Usage::default();
            for of_model in run.by_model.into_values() {
                sum += of_model.figures.usage;
            }
            (run.run, sum)
        };
        Ok(Some(spending.into_iter().map(of_run).collect()))
    }

    /// The agent of an earlier run that a run continues or retries.
    pub async fn continues(&self, run: &RunId) -> Result<Option<ContinuedAgent>, Error> {
        Ok(self.fold_of::<ContinuedPart>(run, []).await?.0)
    }

    /// What the newest runs spent together, at most `limit` of them. `day_of` returns the day of a time in milliseconds
    /// since 1970, which depends on the reader's time zone. With `since_ms`, only runs that started at this time or later
    /// are in the sums. In an interrupted run, the calls without a reply were cut off.
    pub async fn spending(
        &self,
        limit: u32,
        since_ms: Option<i64>,
        day_of: impl Fn(i64) -> String,
    ) -> Result<SpendingOfRuns, Error> {
        if let Some(server) = &self.server {
            return server.spending().await;
        }
        let mut runs = self.store.spending(&self.tenant, limit).await?;
        runs.retain(|run| since_ms.is_none_or(|since| run.created_at_ms >= since));
        let interrupted = self.interrupted_runs(limit).await?;
        for run in runs.iter_mut().filter(|run| interrupted.contains(&run.run)) {
            // Rows have neither the calls that were cut off nor the time of agents that have not ended.
            let view = self.view(&run.run).await?;
            let totals = view.figures(view.last_at_ms()).by_model();
            let spent = |sum: SpendingTotal| ModelSpending { agents: sum.agents, figures: sum.figures };
            run.by_model = totals.into_iter().map(|(model, sum)| (model, spent(sum))).collect();
        }
        Ok(SpendingOfRuns::new(runs, day_of))
    }

    /// Those of the newest runs that have not ended and that no process executes.
    async fn interrupted_runs(&self, limit: u32) -> Result<HashSet<RunId>, Error> {
        let runs = self.runs("", limit).await?.into_iter();
        let is_interrupted =
            |run: &RunSummary| run.damage.is_none() && run.shown_status() == ShownStatus::Interrupted;
        Ok(runs.filter(is_interrupted).map(|run| run.run).collect())
    }

    /// One run as an entry of a list.
    pub async fn summary(&self, run: &RunId) -> Result<RunSummary, Error> {
        Ok(self.sound(run).await?.into())
    }

    /// A run as front ends show it, ready to be followed: it starts from the rows of current state, and
    /// [`events`](Posse::events) after [`RunView::last_seq`] keep it current. What rows do not hold, such as the last action
    /// of an agent, is known from the next events on. For open questions and waits, the rows name the events that describe
    /// them; no other event is read.
    pub async fn view(&self, run: &RunId) -> Result<RunView, Error> {
        self.sound(run).await?;
        // The mailbox before the rows: an answer leaves it in the commit that changes the row, so read the other way round an
        // answer could be in neither.
        let mail = self.store.mail(&self.key(run)).await?;
        for _ in 0..ROW_READS_MAX {
            let before = self.sound(run).await?;
            let rows = self.store.agents(&self.key(run)).await?;
            let mut view = self.view_of_rows(&before, &rows).await?;
            // Rows and head are read one after the other: only without a commit in between do they belong together.
            if self.sound(run).await?.head != before.head {
                continue;
            }
            let parts = self.parts_of_rows(run, &rows, before.head.seq).await?;
            if before.row.ended_at_ms.is_none() {
                view.blocked = parts.blocked.known(before.holder.is_some());
                view.blocked.questions.mark_answered(&mail);
            }
            view.plan = parts.plan;
            view.continues = parts.continued.0;
            view.timeline = self.last_events(run, before.head.seq).await?;
            view.refused = self.refused_of(&view, before.head.seq).await?;
            if before.row.ended_at_ms.is_none() {
                self.recall_activities(&mut view, before.head.seq).await?;
            }
            self.count_cut_off_calls(&mut view, before.head.seq).await?;
            return Ok(view);
        }
        let RunEntry { holder, alive_at_ms, .. } = self.sound(run).await?;
        let mut view = RunView { holder, alive_at_ms, ..RunView::default() };
        let mut events = self.events(run, 0);
        while let Some(event) = events.try_next().await? {
            view.apply(&event);
        }
        view.blocked.questions.mark_answered(&mail);
        self.count_cut_off_calls(&mut view, u64::MAX).await?;
        Ok(view)
    }

    /// A run as it was when its journal got this event: what every view of it showed then.
    pub async fn view_at(&self, run: &RunId, event: u64) -> Result<RunView, Error> {
        let entry = self.sound(run).await?;
        let last = entry.head.seq;
        if event == 0 || event > last {
            return Err(Error::NoEvent { run: run.clone(), event, last });
        }
        let key = self.key(run);
        let mut view = RunView { is_past: true, ..RunView::default() };
        posse_engine::read_events(&*self.store, &key, 0, |stored| {
            // Long texts are not fetched: a view has their first lines, and the only one that may be long is the title.
            if stored.seq <= event {
                view.take(&ViewEvent::new(stored.seq, &posse_engine::decode(&key, &stored)?));
            }
            Ok(())
        })
        .await?;
        view.title = printable::line(&entry.row.title);
        Ok(view)
    }

    /// Counts the open model calls of an interrupted run as cut off.
    async fn count_cut_off_calls(&self, view: &mut RunView, until: u64) -> Result<(), Error> {
        if let Some(run) = view.run().filter(|_| view.is_interrupted()) {
            view.agents.count_as_cut_off(&self.fold_up_to(&run, until).await?);
        }
        Ok(())
    }

    /// A run from its rows alone, for a reader that neither follows it nor needs open questions and waits: the journal
    /// is not read. A commit during the read may be in some rows and not in others.
    pub async fn current_state(&self, run: &RunId) -> Result<RunView, Error> {
        let entry = self.sound(run).await?;
        let rows = self.store.agents(&self.key(run)).await?;
        self.view_of_rows(&entry, &rows).await
    }

    /// The refused operations of a run, up to the event `until`. Rows count them, so that the journal is read only if there
    /// are any.
    pub(crate) async fn refused_of(&self, view: &RunView, until: u64) -> Result<RefusedOperations, Error> {
        let is_any = view.agents.root().is_some_and(|root| root.subtree.refused > 0);
        match view.run().filter(|_| is_any) {
            Some(run) => self.fold_up_to(&run, until).await,
            None => Ok(RefusedOperations::default()),
        }
    }

    /// Every operation of a run that was refused, from its whole journal.
    pub async fn refused(&self, run: &RunId) -> Result<RefusedOperations, Error> {
        self.sound(run).await?;
        self.fold(run).await
    }

    /// When each agent of a run did what, from its whole journal.
    pub async fn tracks(&self, run: &RunId) -> Result<Tracks, Error> {
        self.sound(run).await?;
        self.fold(run).await
    }

    /// Adds what agents do now, as far as the last events tell.
    async fn recall_activities(&self, view: &mut RunView, until: u64) -> Result<(), Error> {
        let key = self.key(&view.run().ok_or_else(|| Error::NoRun(String::new()))?);
        let after = until.saturating_sub(ACTIVITY_EVENTS);
        let agents = &mut view.agents;
        posse_engine::read_events(&*self.store, &key, after, |stored| {
            if stored.seq <= until {
                let event = posse_engine::decode(&key, &stored)?;
                agents.recall_activity(&ViewEvent::new(stored.seq, &event));
            }
            Ok(())
        })
        .await?;
        Ok(())
    }

    async fn view_of_rows(&self, entry: &RunEntry, rows: &[AgentRow]) -> Result<RunView, Error> {
        let key = self.key(&entry.run);
        let agents = Agents::from_rows(rows)?;
        let last = self.store.read(&key, entry.head.seq.saturating_sub(1), 1).await?;
        let last = last.first().and_then(|stored| Event::decode(stored).ok());
        let last_at_ms = entry.row.ended_at_ms.or(last.as_ref().map(|event| event.at_ms));
        Ok(RunView {
            agents,
            title: printable::line(&entry.row.title),
            dir: entry.row.dir.clone(),
            holder: entry.holder.clone(),
            last_seq: entry.head.seq,
            last_at_ms: last_at_ms.unwrap_or(entry.row.created_at_ms),
            alive_at_ms: entry.alive_at_ms,
            is_turn_limited: last.is_some_and(|event| RunOutcome::is_turn_limited_by(&event.body)),
            starts_from_rows: true,
            ..RunView::default()
        })
    }

    /// An agent with its contract and its report.
    pub async fn agent(&self, agent: &AgentId) -> Result<AgentRecord, Error> {
        let entry = self.sound(&agent.run()).await?;
        let mut rows = self.store.agents(&self.key(&agent.run())).await?;
        let mut agents = Agents::from_rows(&rows)?;
        if entry.row.ended_at_ms.is_none() && entry.holder.is_none() {
            agents.count_as_cut_off(&self.fold_up_to(&agent.run(), entry.head.seq).await?);
        }
        let (Some(at), Some(view)) = (rows.iter().position(|row| row.id == *agent), agents.get(agent)) else {
            return Err(Error::NoAgent(agent.clone()));
        };
        AgentRecord::from_row(rows.swap_remove(at), view)
    }

    /// The children of an agent, oldest first.
    pub async fn children(&self, agent: &AgentId) -> Result<Vec<AgentView>, Error> {
        let view = self.current_state(&agent.run()).await?;
        let parent = view.agents().get(agent);
        Ok(parent.into_iter().flat_map(|parent| view.agents().children(parent)).cloned().collect())
    }

    /// What the agents of a run wait for outside of it.
    pub async fn blocked(&self, run: &RunId) -> Result<BlockedAgents, Error> {
        let entry = self.sound(run).await?;
        if entry.row.ended_at_ms.is_some() {
            return Ok(BlockedAgents::default());
        }
        // In this order, see `view`.
        let mail = self.store.mail(&self.key(run)).await?;
        let rows = self.store.agents(&self.key(run)).await?;
        let blocked = self.parts_of_rows(run, &rows, u64::MAX).await?.blocked;
        let mut blocked = blocked.known(entry.holder.is_some());
        blocked.questions.mark_answered(&mail);
        Ok(blocked)
    }

    /// The literals that a run allows: those that it started with, and those of answers of "always".
    pub(crate) async fn approvals_of(&self, run: &RunId, rows: &[AgentRow]) -> Result<Approvals, Error> {
        let root = rows.iter().find(|row| row.id.is_root()).and_then(|row| row.events_in_force.as_deref());
        let Some(seqs) = root else {
            return Ok(self.runtime.load(run).await?.terms.approvals);
        };
        let questions: OpenQuestions = self.fold_of(run, seqs.iter().copied()).await?;
        Ok(questions.approvals().clone())
    }

    /// The parts that rows do not hold, from the events that rows name. A row of an older version names none: then the
    /// journal is read, up to the number `until`.
    async fn parts_of_rows(&self, run: &RunId, rows: &[AgentRow], until: u64) -> Result<NamedParts, Error> {
        let in_force: Option<Vec<&[u64]>> = rows.iter().map(|row| row.events_in_force.as_deref()).collect();
        match in_force {
            Some(in_force) => self.fold_of(run, in_force.into_iter().flatten().copied()).await,
            None => self.fold_up_to(run, until).await,
        }
    }

    /// The last events of a run, up to the number `until`.
    async fn last_events(&self, run: &RunId, until: u64) -> Result<Timeline, Error> {
        let after = until.saturating_sub(TIMELINE_MAX_ENTRIES as u64);
        self.fold_between(run, after, until).await
    }

    /// A part of a view, from the first event and the events with these numbers.
    async fn fold_of<P: ViewPart>(
        &self,
        run: &RunId,
        seqs: impl IntoIterator<Item = u64>,
    ) -> Result<P, Error> {
        let key = self.key(run);
        let seqs: BTreeSet<u64> = seqs.into_iter().chain([1]).collect();
        let mut part = P::default();
        for seq in seqs {
            let page = self.store.read(&key, seq.saturating_sub(1), 1).await?;
            let Some(stored) = page.first().filter(|stored| stored.seq == seq) else {
                let problem = format!("a row names event {seq}, which does not exist");
                return Err(StoreError::Damaged { run: run.clone(), problem }.into());
            };
            part.take(&ViewEvent::new(seq, &posse_engine::decode(&key, stored)?));
        }
        Ok(part)
    }

    /// A part of a view, from the whole journal. Events that the part does not need are not decoded, and long texts are
    /// not fetched.
    pub(crate) async fn fold<P: ViewPart>(&self, run: &RunId) -> Result<P, Error> {
        self.fold_up_to(run, u64::MAX).await
    }

    pub(crate) async fn fold_up_to<P: ViewPart>(&self, run: &RunId, until: u64) -> Result<P, Error> {
        self.fold_between(run, 0, until).await
    }

    /// Computes a part of a view from the events after this number.
    pub(crate) async fn fold_after<P: ViewPart>(&self, run: &RunId, seq: u64) -> Result<P, Error> {
        self.fold_between(run, seq, u64::MAX).await
    }

    async fn fold_between<P: ViewPart>(&self, run: &RunId, after: u64, until: u64) -> Result<P, Error> {
        let key = self.key(run);
        let mut part = P::default();
        posse_engine::read_events(&*self.store, &key, after, |stored| {
            let is_needed = EventKind::parse(&stored.kind).is_some_and(|kind| part.needs(kind));
            if is_needed && stored.seq <= until {
                let event = posse_engine::decode(&key, &stored)?;
                part.apply(&ViewEvent::new(stored.seq, &event));
            }
            Ok(())
        })
        .await?;
        Ok(part)
    }
}
