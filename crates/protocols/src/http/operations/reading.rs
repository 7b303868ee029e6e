//! Operations that read one agent, or a run over time.

use posse::api;

use super::super::assets::now_ms;
use super::super::limits::{CONVERSATION_PAGE, EVENTS_PAGE_BYTES};
use super::super::problem::Problem;
use super::super::reply::Reply;
use super::Call;

/// Shows the terms of an agent.
pub(super) async fn contract(call: Call) -> Result<Reply, Problem> {
    let run = call.run().await?.run;
    let agent = call.agent(&run)?;
    Reply::object(&api::ContractDetail::new(&call.tenant.posse.agent(&agent).await?))
}

/// Reads a part of the conversation of an agent.
pub(super) async fn conversation(call: Call) -> Result<Reply, Problem> {
    let run = call.run().await?;
    let agent = call.agent(&run.run)?;
    let after = call.query.number("after").unwrap_or(0);
    super::events::check_after(after, &run, "after")?;
    let limit =
        usize::try_from(call.query.number("limit").unwrap_or(CONVERSATION_PAGE)).unwrap_or(usize::MAX);
    let posse = &call.tenant.posse;
    posse.agent(&agent).await?;
    let part = posse.conversation(&agent, after, limit, EVENTS_PAGE_BYTES).await?;
    Reply::object(&api::Conversation::new(&agent, &part))
}

/// Shows when each agent of a run did what.
pub(super) async fn timeline(call: Call) -> Result<Reply, Problem> {
    let run = call.run().await?.run;
    let posse = call.tenant.reader(&run);
    let view = posse.current_state(&run).await?;
    let tracks = posse.tracks(&run).await?;
    Reply::object(&api::RunTimeline::new(&view, &tracks, now_ms()))
}
