//! The task of a model call: it sends the request, watches for silence, and passes the reply or the failure to the
//! driver.

use std::sync::Arc;
use std::time::Duration;

use posse_agent::machine::CallPlace;
use posse_domain::budget::Amount;
use posse_domain::code::Code;
use posse_domain::event::CallError;
use posse_domain::id::AgentId;
use tokio::sync::{Notify, mpsc};
use tokio::time::Instant;

use super::ModelDesk;
use crate::deltas::{CallSink, DeltaCall};
use crate::driver::core::Core;
use crate::driver::effects::Input;
use crate::driver::session::AgentWait;
use crate::ports::{Faults, Model, ModelFailure, ModelReply, ModelRequest, Permit, Retry};

pub(crate) struct ModelEffect {
    pub(crate) model: Arc<dyn Model>,
    pub(crate) request: ModelRequest,
    /// Held until the call has ended.
    pub(crate) permit: Permit,
    pub(crate) reserved: Amount,
    pub(crate) total: Duration,
    pub(crate) idle: Duration,
}

pub(crate) struct ModelDone {
    pub(crate) agent: AgentId,
    pub(crate) place: CallPlace,
    pub(crate) reserved: Amount,
    pub(crate) result: Result<ModelReply, ModelFailure>,
    pub(crate) elapsed: Duration,
}

impl ModelDesk {
    /// Starts the task of a journalled call.
    pub(crate) fn start(&self, core: &mut Core, effect: ModelEffect) {
        let agent = effect.request.agent.clone();
        // The call was cut between its commit and now. It was never sent, and is already charged.
        let Some(session) = core.sessions.get_mut(&agent) else { return };
        let place = effect.request.place();
        let cut = session.machine.in_flight() != Some(place);
        if session.is_ending() || cut || core.stop.is_some() {
            return;
        }
        let alive = Arc::new(Notify::new());
        let CallPlace { attempt, turn, call, summary } = place;
        let call = DeltaCall { attempt, turn, call };
        // A summary is not what the agent says.
        let sink = Arc::new(CallSink {
            hub: self.deltas.clone(),
            agent,
            call,
            silent: summary,
            alive: alive.clone(),
        });
        let task = tokio::spawn(ask(effect, sink, alive, core.sender.clone(), core.rt.parts.faults.clone()));
        session.wait = AgentWait::Reply(task.abort_handle());
    }
}

async fn ask(
    effect: ModelEffect,
    sink: Arc<CallSink>,
    alive: Arc<Notify>,
    sender: mpsc::UnboundedSender<Input>,
    faults: Faults,
) {
    let ModelEffect { model, request, permit, reserved, total, idle } = effect;
    let (agent, place) = (request.agent.clone(), request.place());
    faults.hit("engine.model.before_send");
    let began = Instant::now();
    let answer = model.call(request, sink);
    drop(model);
    let result = tokio::select! {
        biased;
        result = answer => result,
        failure = watchdog(&alive, idle, total) => Err(failure),
    };
    drop(permit);
    faults.hit("engine.model.after_reply");
    let done = ModelDone { agent, place, reserved, result, elapsed: began.elapsed() };
    drop(sender.send(Input::Model(Box::new(done))));
}

/// Returns when a call was silent for `idle`, or has taken `total` in all.
async fn watchdog(alive: &Notify, idle: Duration, total: Duration) -> ModelFailure {
    let end = tokio::time::Instant::now() + total;
    loop {
        let silent = tokio::time::Instant::now() + idle;
        let (at, silence) = if end < silent { (end, false) } else { (silent, true) };
        tokio::select! {
            () = tokio::time::sleep_until(at) => return timed_out(silence, idle, total),
            () = alive.notified() => {}
        }
    }
}

/// The failure of a call that timed out. A silent call may be repeated. A call that used all its time may not.
fn timed_out(silence: bool, idle: Duration, total: Duration) -> ModelFailure {
    let message = if silence {
        format!("the model was silent for {} ms", idle.as_millis())
    } else {
        format!("no reply within {} ms", total.as_millis())
    };
    let retry = silence.then_some(Retry { after: Duration::ZERO, limited: false });
    let error = Box::new(CallError::new(Code::Timeout, message));
    ModelFailure { error, usage: None, tag: None, retry }
}
