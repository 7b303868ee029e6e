//! The tasks of tool calls: each reads, prepares, acts or recovers, and sends its result to the driver.

use std::sync::Arc;
use std::time::Duration;

use posse_domain::code::Code;
use posse_domain::event::{EffectClass, WriteIntent};
use serde_json::Value;
use tokio::time::Instant;

use super::{CallDesk, CallEnd, CallStage, CommittedFiles};
use crate::driver::core::Core;
use crate::driver::effects::Input;
use crate::driver::workspace_retry::retry_unless;
use crate::ports::{
    CallContext, EffectTool, Faults, PreparedEffect, RecoveredEffect, StopSignal, ToolFailure, Urgency,
    WorkspaceError, Workspaces,
};

/// How long an exec call may run beyond its limit, to end its programs gracefully and read their last output.
const EXEC_GRACE: Duration = Duration::from_secs(30);
/// How long an exec call may run after a kill.
const KILL_GRACE: Duration = Duration::from_secs(15);

/// How long a call may run, by its class.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limit {
    pub(super) time: Duration,
    pub(super) class: EffectClass,
}

pub(crate) enum CallEffect {
    /// Prepare and act at once: a read.
    Read { call: CallContext, tool: Arc<dyn EffectTool>, input: Value, limit: Limit },
    /// Prepare only, to learn the intent.
    Prepare { call: CallContext, tool: Arc<dyn EffectTool>, input: Value, limit: Limit },
    /// Act as prepared and journalled.
    Run { call: CallContext, prepared: PreparedEffect, limit: Limit },
    /// Determine whether a write that a crash interrupted happened.
    Recover { call: CallContext, tool: Arc<dyn EffectTool>, input: Value, intent: WriteIntent },
}

impl CallDesk {
    pub(crate) fn start(&mut self, core: &Core, effect: CallEffect) {
        match effect {
            CallEffect::Read { call, tool, input, limit } => {
                self.start_task(core, call, true, move |call, faults| {
                    prepare_read(call, tool, input, limit, faults)
                });
            }
            CallEffect::Prepare { call, tool, input, limit } => {
                let workspaces = core.rt.parts.workspaces.clone();
                self.start_task(core, call, true, move |call, faults| {
                    prepare(call, PrepareTask { tool, input, limit, workspaces }, faults)
                });
            }
            CallEffect::Run { call, prepared, limit } => {
                let workspaces = core.rt.parts.workspaces.clone();
                self.start_task(core, call, false, move |call, faults| {
                    act(call, prepared, limit, workspaces, faults)
                });
            }
            CallEffect::Recover { call, tool, input, intent } => {
                let workspaces = core.rt.parts.workspaces.clone();
                self.start_task(core, call, false, move |call, faults| {
                    recover(call, RecoverTask { tool, input, intent, workspaces }, faults)
                });
            }
        }
    }

    /// Starts the task of a tool call. A `droppable` call changes nothing and is not started if its agent is ending.
    fn start_task<F, T>(&mut self, core: &Core, call: CallContext, droppable: bool, task: F)
    where
        F: FnOnce(CallContext, Faults) -> T,
        T: Future<Output = Input> + Send + 'static,
    {
        let Some(session) = core.sessions.get(&call.agent) else { return };
        let Some(in_flight) = self.call_mut(&call.agent, &call.call_id) else { return };
        // No tool starts after a cancel, even if its intent is committed. The call is answered when the agent ends.
        if session.is_ending() && (droppable || matches!(in_flight.stage, CallStage::Committing)) {
            in_flight.stage = CallStage::Committing;
            return;
        }
        let sender = core.sender.clone();
        let work = task(call, core.rt.parts.faults.clone());
        let handle = tokio::spawn(async move {
            // The driver exits early only if it gives the run up. The answer is then not needed.
            drop(sender.send(work.await));
        });
        in_flight.stage = CallStage::Running(handle.abort_handle());
    }
}

async fn prepare_read(
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
    let files = CommittedFiles::default();
    Input::Tool {
        agent,
        call_id,
        end: Box::new(CallEnd { result, elapsed: began.elapsed(), cut: false, files }),
    }
}

/// The inputs of a call's preparation.
struct PrepareTask {
    tool: Arc<dyn EffectTool>,
    input: Value,
    limit: Limit,
    workspaces: Option<Arc<dyn Workspaces>>,
}

async fn prepare(call: CallContext, preparing: PrepareTask, faults: Faults) -> Input {
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
    // An exec call waits here for its permit, so it has no limit here. The calls before it have their own limits.
    let limit = if limit.class == EffectClass::Exec { Limit { time: Duration::MAX, ..limit } } else { limit };
    let result = tokio::select! {
        biased;
        result = within(limit, tool.prepare(call, input)) => result,
        // Preparing changes nothing, so it can be dropped.
        () = stop.at_least(Urgency::Gently) => {
            Err(ToolFailure { code: Code::Cancelled, text: "not executed: the attempt has ended".to_owned() })
        }
    };
    faults.hit("engine.tool.after_prepare");
    Input::Prepared { agent, call_id, result }
}

/// Prepares a workspace for the programs of a call, and retries a few times if the machine fails.
pub(super) async fn made_ready(
    workspaces: Option<&dyn Workspaces>,
    call: &CallContext,
) -> Result<(), WorkspaceError> {
    match workspaces {
        Some(workspaces) => retry_unless(&call.stop, || workspaces.ready(call)).await,
        None => Ok(()),
    }
}

async fn act(
    call: CallContext,
    prepared: PreparedEffect,
    limit: Limit,
    workspaces: Option<Arc<dyn Workspaces>>,
    faults: Faults,
) -> Input {
    let began = Instant::now();
    // A write has its own fault points, because its recovery differs from that of other calls.
    let (before, after) = match limit.class {
        EffectClass::Write => ("engine.write.before_run", "engine.write.after_run"),
        _ => ("engine.exec.before_run", "engine.exec.after_run"),
    };
    faults.hit(before);
    let CallContext { agent, call_id, stop, files, .. } = call;
    let work = (prepared.run)();
    let (result, cut) = match limit.class {
        EffectClass::Exec => tokio::select! {
            biased;
            result = work => (result, false),
            () = overdue(limit, stop) => (Err(took_too_long(limit)), true),
        },
        _ => (within(limit, work).await, false),
    };
    let elapsed = began.elapsed();
    faults.hit(after);
    // A call that was cut off may still be writing. The next commit has what it left.
    let files = if cut || !limit.class.changes_workspace() {
        CommittedFiles::default()
    } else {
        CommittedFiles::after_call(workspaces.as_deref(), &files).await
    };
    faults.hit("engine.call.after_files");
    Input::Tool { agent, call_id, end: Box::new(CallEnd { result, elapsed, cut, files }) }
}

/// The inputs of a write's recovery.
struct RecoverTask {
    tool: Arc<dyn EffectTool>,
    input: Value,
    intent: WriteIntent,
    workspaces: Option<Arc<dyn Workspaces>>,
}

async fn recover(call: CallContext, recovering: RecoverTask, faults: Faults) -> Input {
    let RecoverTask { tool, input, intent, workspaces } = recovering;
    let (agent, call_id, files) = (call.agent.clone(), call.call_id.clone(), call.files.clone());
    faults.hit("engine.recover.before_look");
    let recovered = tool.recover(call, input, intent).await;
    faults.hit("engine.recover.after_look");
    let files = match &recovered {
        RecoveredEffect::Done(_) | RecoveredEffect::Unknown => {
            CommittedFiles::after_call(workspaces.as_deref(), &files).await
        }
        RecoveredEffect::Apply(_) => CommittedFiles::default(),
    };
    Input::Recovered { agent, call_id, recovered, files }
}

/// Returns when an exec call is overdue: some time after its limit, at which it should have ended by itself, or some
/// time after a kill.
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

/// Aborts a call at its limit. A write is never aborted: it is short, and half a write is worse than a late one.
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
