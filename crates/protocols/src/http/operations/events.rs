//! Operations that read the journal of a run, page by page or as it grows.

use posse::{EventKind, RunSummary, api};

use super::super::limits::{EVENTS_LOOKED_AT_MAX, EVENTS_PAGE, EVENTS_PAGE_BYTES};
use super::super::problem::{Problem, ProblemCode};
use super::super::reply::{Reply, json};
use super::super::sse::{self, EventFilter, LAST_EVENT_ID};
use super::{Call, agent_of};

/// The filters of a request.
fn filter(call: &Call, run: &RunSummary) -> Result<EventFilter, Problem> {
    let agents = call.query.all("agent").map(|agent| {
        agent_of(&run.run, agent).map_err(|problem| Problem::parameter("agent", problem.detail))
    });
    let kinds = call.query.all("kind").map(|kind| {
        EventKind::parse(kind).ok_or_else(|| Problem::parameter("kind", "there is no such kind of events"))
    });
    Ok(EventFilter { agents: agents.collect::<Result<_, _>>()?, kinds: kinds.collect::<Result<_, _>>()? })
}

/// Refuses a number that the journal does not have: a client that waited after it would miss events.
pub(super) fn check_after(after: u64, run: &RunSummary, field: &str) -> Result<(), Problem> {
    if after <= run.events {
        return Ok(());
    }
    let last = run.events;
    let detail = format!("run {} has no event {after}; its last event is {last}", run.run);
    Err(Problem { code: ProblemCode::InvalidCursor, ..Problem::parameter(field, detail) })
}

/// Reads a part of the journal.
pub(super) async fn page(call: Call) -> Result<Reply, Problem> {
    let run = call.run().await?;
    let filter = filter(&call, &run)?;
    let limit = call.query.number("limit").unwrap_or(EVENTS_PAGE).max(1);
    let mut after = call.query.number("after").unwrap_or(0);
    check_after(after, &run, "after")?;
    let mut reading = call.tenant.posse.events(&run.run, after);
    let mut events = Vec::new();
    let (mut bytes, mut looked_at, mut more) = (0, 0, false);
    while let Some(event) = reading.try_next().await? {
        let is_full =
            events.len() as u64 >= limit || bytes >= EVENTS_PAGE_BYTES || looked_at >= EVENTS_LOOKED_AT_MAX;
        if is_full {
            more = true;
            break;
        }
        after = event.seq;
        looked_at += 1;
        if filter.has(&event.agent_id, event.kind) {
            let event = api::Event::new(&event).into_owned();
            bytes += json(&event)?.len();
            events.push(event);
        }
    }
    Reply::object(&api::EventPage { events, after, more })
}

/// Follows the journal until the run ends.
pub(super) async fn follow(call: Call) -> Result<Reply, Problem> {
    let run = call.run().await?;
    let filter = filter(&call, &run)?;
    let after = sse::continues_after(&call.headers, call.query.number("after"))?;
    let field = if call.headers.contains_key(LAST_EVENT_ID) { LAST_EVENT_ID } else { "after" };
    check_after(after, &run, field)?;
    if !run.status.is_running() && after == run.events {
        return Ok(Reply::Over);
    }
    let reader = call.tenant.reader(&run.run);
    let events = call.state.feeds.follow(&call.caller.tenant, &run.run, reader, after, run.events);
    Ok(Reply::Stream(sse::events(&call.state, &call.caller, run.run, events, filter)?))
}

/// Follows an agent in the form of a task.
pub(super) async fn task(call: Call) -> Result<Reply, Problem> {
    let run = call.run().await?.run;
    let agent = call.agent(&run)?;
    let known = sse::continues_after(&call.headers, None)?;
    let posse = call.tenant.reader(&run);
    posse.agent(&agent).await?;
    Ok(Reply::Stream(sse::task(&call.state, &call.caller, run, posse.task_events(&agent), known)?))
}

/// Follows the deltas of a run that this process executes.
pub(super) async fn deltas(call: Call) -> Result<Reply, Problem> {
    let run = call.run().await?.run;
    let agent = call.query.one("agent").map(|agent| agent_of(&run, agent)).transpose()?;
    let executed = call.tenant.host.executed(&run).ok_or_else(|| {
        let detail = format!("this server does not execute run {run}; its events can be followed");
        Problem::conflict(ProblemCode::NotExecutedHere, detail)
    })?;
    Ok(Reply::Stream(sse::deltas(&call.state, &call.caller, executed.handle.deltas(), agent)?))
}
