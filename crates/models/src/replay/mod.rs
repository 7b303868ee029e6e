//! A model that answers from a recorded run: `replay/<run>`.
//!
//! Each call is looked up in a recorded run by agent, attempt, turn and call. The reply, its cost and its error are
//! returned again, without waiting. A request that differs from the recorded one is answered with the difference.

mod difference;
mod lines;

use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use posse_domain::budget::Usage;
use posse_domain::code::Code;
use posse_domain::event::{CallError, ModelReplied};
use posse_engine::Recording;
use posse_engine::ports::{
    Model, ModelFacts, ModelFailure, ModelReply, ModelRequest, Retry, StreamPart, StreamSink,
};

/// The provider whose models are recorded runs.
pub const REPLAY: &str = "replay";
/// Context size of a recorded model: unlimited, because the recording determines which parts are omitted.
const CONTEXT_TOKENS: u64 = u64::MAX / 1_000;
/// How long a call that was recorded as dropped waits to be dropped again.
const DROPPED_AFTER: Duration = Duration::from_secs(30);

#[derive(Debug, Clone)]
pub struct Replay {
    recording: Arc<Recording>,
}

impl Replay {
    pub fn new(recording: Arc<Recording>) -> Self {
        Self { recording }
    }

    fn answer(&self, request: &ModelRequest) -> Answer {
        let agent = request.agent.relative();
        let Some(call) = self.recording.call(agent, request.place()) else {
            return Answer::Differs(self.not_recorded(request));
        };
        if call.called.request_hash != request.hash
            && let Some(text) = difference::describe(&self.recording, call, request)
        {
            return Answer::Differs(text);
        }
        let of_turn = self.recording.calls_of_turn(agent, request.place());
        let is_last = request.call as usize >= of_turn;
        let fails_again =
            call.replied.as_ref().and_then(|replied| replied.error.as_ref()).is_some_and(|e| e.again);
        if fails_again && request.call as usize > of_turn {
            return Answer::Differs(self.not_recorded(request));
        }
        match &call.replied {
            None => Answer::Differs(format!(
                "the recording of run {} ends here: {} had no answer yet",
                self.recording.run(),
                position(request)
            )),
            Some(_) if call.was_dropped() => Answer::Dropped,
            Some(replied) => Answer::Given(given(replied, is_last)),
        }
    }

    /// Why there is no recorded call.
    fn not_recorded(&self, request: &ModelRequest) -> String {
        let run = self.recording.run();
        let place = position(request);
        if self.recording.has_ended() {
            format!("the replay is not the recorded run {run}: {place} was not recorded")
        } else {
            format!("the recording of run {run} ends here, before its end: {place} was not recorded")
        }
    }
}

/// The position of a request, for users.
fn position(request: &ModelRequest) -> String {
    let attempt = if request.attempt > 1 { format!(", attempt {}", request.attempt) } else { String::new() };
    let summary = if request.place().summary { "the summary before " } else { "" };
    format!(
        "{summary}turn {} of agent {} ({}){attempt}",
        request.turn,
        request.agent.relative(),
        request.definition
    )
}

#[expect(clippy::large_enum_variant, reason = "there is one such value for each call")]
enum Answer {
    Given(Result<ModelReply, ModelFailure>),
    /// The call was dropped before its answer, and will be again.
    Dropped,
    /// The request differs from the recorded one.
    Differs(String),
}

fn given(replied: &ModelReplied, is_last: bool) -> Result<ModelReply, ModelFailure> {
    let tag = replied.tag.clone();
    match (&replied.reply, &replied.error) {
        (Some(reply), None) => {
            Ok(ModelReply { reply: reply.clone(), usage: replied.usage, cut_off: replied.cut_off, tag })
        }
        (_, Some(error)) => Err(ModelFailure {
            error: Box::new(CallError { again: false, ..error.clone() }),
            usage: (!replied.estimated).then_some(replied.usage),
            tag,
            // A recorded wait is not repeated, unless something ended it: that must happen again. Pauses do not count
            // among the calls that a turn may have.
            retry: error.again.then_some(Retry {
                after: if is_last { DROPPED_AFTER } else { Duration::ZERO },
                limited: true,
            }),
        }),
        (None, None) => Err(ModelFailure::last(CallError::new(
            Code::ReplayDiffers,
            "the recording has neither a reply nor an error for this call",
        ))),
    }
}

fn differs(text: String) -> ModelFailure {
    let error = Box::new(CallError::new(Code::ReplayDiffers, text));
    ModelFailure { error, usage: Some(Usage::ZERO), tag: None, retry: None }
}

impl Model for Replay {
    fn facts(&self) -> ModelFacts {
        let max_output_tokens = self.recording.max_output_tokens();
        ModelFacts { context_tokens: CONTEXT_TOKENS, max_output_tokens, price: None }
    }

    fn provider(&self) -> Arc<str> {
        format!("{REPLAY}/{}", self.recording.run()).into()
    }

    fn call(
        &self,
        request: ModelRequest,
        sink: Arc<dyn StreamSink>,
    ) -> BoxFuture<'static, Result<ModelReply, ModelFailure>> {
        let answer = self.answer(&request);
        Box::pin(async move {
            match answer {
                Answer::Given(given) => {
                    if let Ok(reply) = &given {
                        show(reply, &*sink);
                    }
                    given
                }
                Answer::Dropped => {
                    tokio::time::sleep(DROPPED_AFTER).await;
                    let place = position(&request);
                    Err(differs(format!("{place} was dropped in the recorded run, and is not now")))
                }
                Answer::Differs(text) => Err(differs(text)),
            }
        })
    }
}

/// Streams a reply to the sink.
fn show(reply: &ModelReply, sink: &dyn StreamSink) {
    let text = reply.reply.text.to_shared();
    if !text.is_empty() {
        sink.part(StreamPart::Text(text.to_string()));
    }
    for call in &reply.reply.calls {
        sink.part(StreamPart::Tool(call.name.clone()));
    }
}
