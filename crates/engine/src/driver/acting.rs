//! The tasks of tool calls: each looks, prepares, acts or recovers, and sends back what came of it.

use std::sync::Arc;
use std::time::Duration;

use posse_domain::code::Code;
use posse_domain::event::{EffectClass, WriteIntent};
use serde_json::Value;
use tokio::time::Instant;

use super::effects::Input;
use super::insisting::insist_unless;
use crate::ports::{
    CallContext, EffectTool, Faults, PreparedEffect, StopSignal, ToolFailure, Urgency, WorkspaceProblem,
    Workspaces,
};

/// How long an exec call may go on beyond its limit: it ends its programs gracefully, and reads what they still say.
const EXEC_GRACE: Duration = Duration::from_secs(30);
/// How long an exec call may go on after a kill.
const KILL_GRACE: Duration = Duration::from_secs(15);

/// How long a call may take, and what it is called when it took longer.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limit {
    pub(super) time: Duration,
    pub(super) class: EffectClass,
}

pub(super) async fn prepare_read(
    call: CallContext,
    tool: Arc<dyn EffectTool>,
    input: Value,
    limit: Limit,
    faults: Faults,
) -> Input {
    let (agent, call_id) = (call.agent.clone(), call.call_id.clone());
    let began = Instant::now();
    faults.hit("engine.read.before_run");
    let work = async {
        let prepared = tool.prepare(call, input).await?;
        (prepared.run)().await
    };
    let result = within(limit, work).await;
    faults.hit("engine.read.after_run");
    Input::Tool { agent, call_id, result, elapsed: began.elapsed(), cut: false }
}

/// What a call is prepared with.
pub(super) struct PrepareTask {
    pub(super) tool: Arc<dyn EffectTool>,
    pub(super) input: Value,
    pub(super) limit: Limit,
    pub(super) workspaces: Option<Arc<dyn Workspaces>>,
}

pub(super) async fn prepare(call: CallContext, preparing: PrepareTask, faults: Faults) -> Input {
    let PrepareTask { tool, input, limit, workspaces } = preparing;
    let (agent, call_id) = (call.agent.clone(), call.call_id.clone());
    faults.hit("engine.tool.before_prepare");
    let mut stop = call.stop.clone();
    if limit.class == EffectClass::Exec
        && let Err(problem) = made_ready(workspaces.as_deref(), &call).await
        && stop.now() == Urgency::None
    {
        return Input::Unready { agent, call_id, problem };
    }
    // An exec call waits here for its turn. Those before it have limits of their own.
    let limit = if limit.class == EffectClass::Exec { Limit { time: Duration::MAX, ..limit } } else { limit };
    let result = tokio::select! {
        biased;
        result = within(limit, tool.prepare(call, input)) => result,
        // It has only looked, or waited for its turn; nothing is to be ended.
        () = stop.at_least(Urgency::Gently) => {
            Err(ToolFailure { code: Code::Cancelled, text: "not carried out: the attempt has ended".to_owned() })
        }
    };
    faults.hit("engine.tool.after_prepare");
    Input::Prepared { agent, call_id, result }
}

/// Makes what the programs of a call need ready, however often the machine fails at it, within reason.
pub(super) async fn made_ready(
    workspaces: Option<&dyn Workspaces>,
    call: &CallContext,
) -> Result<(), WorkspaceProblem> {
    match workspaces {
        Some(workspaces) => insist_unless(&call.stop, || workspaces.ready(call)).await,
        None => Ok(()),
    }
}

pub(super) async fn act(call: CallContext, prepared: PreparedEffect, limit: Limit, faults: Faults) -> Input {
    let began = Instant::now();
    // A write that was cut off is recovered otherwise than anything else, so tests tell them apart.
    let (before, after) = match limit.class {
        EffectClass::Write => ("engine.write.before_run", "engine.write.after_run"),
        _ => ("engine.exec.before_run", "engine.exec.after_run"),
    };
    faults.hit(before);
    let CallContext { agent, call_id, stop, .. } = call;
    let work = (prepared.run)();
    let (result, cut) = match limit.class {
        EffectClass::Exec => tokio::select! {
            biased;
            result = work => (result, false),
            () = overdue(limit, stop) => (Err(took_too_long(limit)), true),
        },
        _ => (within(limit, work).await, false),
    };
    faults.hit(after);
    Input::Tool { agent, call_id, result, elapsed: began.elapsed(), cut }
}

pub(super) async fn recover(
    call: CallContext,
    tool: Arc<dyn EffectTool>,
    input: Value,
    intent: WriteIntent,
    faults: Faults,
) -> Input {
    let (agent, call_id) = (call.agent.clone(), call.call_id.clone());
    faults.hit("engine.recover.before_look");
    let recovered = tool.recover(call, input, intent).await;
    faults.hit("engine.recover.after_look");
    Input::Recovered { agent, call_id, recovered }
}

/// Returns when an exec call has not ended though it was to: some time after its limit, which it keeps by itself,
/// and some time after a kill.
async fn overdue(limit: Limit, mut stop: StopSignal) {
    let killed = async {
        stop.at_least(Urgency::AtOnce).await;
        tokio::time::sleep(KILL_GRACE).await;
    };
    tokio::select! {
        () = tokio::time::sleep(limit.time.saturating_add(EXEC_GRACE)) => {}
        () = killed => {}
    }
}

fn took_too_long(limit: Limit) -> ToolFailure {
    ToolFailure {
        code: Code::Timeout,
        text: format!("the call took longer than {} ms and was ended", limit.time.as_millis()),
    }
}

/// Cuts a call off at its limit. A write is never cut: it is short, and half a write is worse than a late one.
async fn within<T>(
    limit: Limit,
    work: impl Future<Output = Result<T, ToolFailure>>,
) -> Result<T, ToolFailure> {
    if limit.class == EffectClass::Write {
        return work.await;
    }
    match tokio::time::timeout(limit.time, work).await {
        Ok(result) => result,
        Err(_) => Err(took_too_long(limit)),
    }
}
