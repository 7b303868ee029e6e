//! Views and their parts, read from a store.

use posse_domain::id::RunId;

use super::{OpenQuestions, ProviderWaits, RunView, ViewEvent, ViewPart};
use crate::{AgentInfo, Error, Posse, ProviderWait, Request};

/// How often rows are read until no commit came in between; after that the journal is read.
const ROW_READS_MAX: u32 = 3;

impl Posse {
    /// A run as front ends show it. It starts from the rows of current state, and
    /// [`events`](Posse::events) after [`RunView::last_seq`] keep it current. What rows do not hold, such as what an agent
    /// did last, is known from the next events on; the open questions and waits of a run that goes on are read from its
    /// journal.
    pub async fn view(&self, run: &RunId) -> Result<RunView, Error> {
        for _ in 0..ROW_READS_MAX {
            let before = self.sound(run).await?;
            let rows = self.store.agents(&self.key(run)).await?;
            let agents: Vec<AgentInfo> =
                rows.into_iter().map(AgentInfo::from_row).collect::<Result<_, _>>()?;
            let (questions, waits) = if before.row.ended_at_ms.is_some() {
                (OpenQuestions::default(), ProviderWaits::default())
            } else {
                self.fold(run).await?
            };
            // Rows and head are read one after the other: only without a commit in between do they belong together.
            if self.sound(run).await?.head == before.head {
                let view = RunView::from_rows(&agents, before.head.seq);
                return Ok(RunView { questions, waits, ..view });
            }
        }
        let mut view = RunView::default();
        let mut events = self.events(run, 0);
        while let Some(event) = events.try_next().await? {
            view.apply(&event);
        }
        Ok(view)
    }

    /// What the agents of a run wait for: a person, oldest first, or the provider of their model, by agent. The journal is
    /// read once for both.
    pub async fn blocked(&self, run: &RunId) -> Result<(Vec<Request>, Vec<ProviderWait>), Error> {
        // In this order: an answer leaves the mailbox in the commit that puts it into the journal, so read the other
        // way round one that is on its way could be in neither.
        let mail = self.store.mail(&self.key(run)).await?;
        let (questions, waits): (OpenQuestions, ProviderWaits) = self.fold(run).await?;
        Ok((self.requests_of(run, questions, &mail).await?, waits.into_vec()))
    }

    /// The agents of a run that wait for the provider of their model, by id.
    pub async fn provider_waits(&self, run: &RunId) -> Result<Vec<ProviderWait>, Error> {
        Ok(self.fold::<ProviderWaits>(run).await?.into_vec())
    }

    /// A part of a view, from the whole journal. Events that the part does not need are not decoded, and long texts are
    /// not fetched.
    pub(crate) async fn fold<P: ViewPart>(&self, run: &RunId) -> Result<P, Error> {
        let key = self.key(run);
        let mut part = P::default();
        posse_engine::read_events(&*self.store, &key, 0, |stored| {
            if part.needs(&stored.kind) {
                let event = posse_engine::decode(&key, &stored)?;
                part.apply(&ViewEvent::new(stored.seq, &event));
            }
            Ok(())
        })
        .await?;
        Ok(part)
    }
}
