//! A model that answers from a closure, for tests and benchmarks that need more than rules.

use std::fmt;
use std::sync::Arc;

use futures::future::BoxFuture;
use posse_engine::ports::{Model, ModelFacts, ModelFailure, ModelReply, ModelRequest, StreamSink};

use super::DEFAULT_FACTS;
use super::answer::ScriptedAnswer;

/// A model that answers from a closure.
///
/// The closure is called once for each model call and must not block. A closure that uses only the request answers a
/// resumed run in the same way as the first. State that it must remember belongs into [`ScriptedAnswer::tag`].
///
/// ```
/// use posse_models::scripted::{FnModel, ScriptedAnswer};
///
/// let echo = FnModel::new(|request| ScriptedAnswer::text(format!("turn {}", request.turn)));
/// ```
pub struct FnModel<F> {
    answer: F,
    facts: ModelFacts,
}

impl<F: Fn(&ModelRequest) -> ScriptedAnswer + Send + Sync + 'static> FnModel<F> {
    /// A model that returns the closure's answers.
    pub fn new(answer: F) -> Self {
        Self { answer, facts: DEFAULT_FACTS }
    }

    /// The same model with other facts.
    pub fn with_facts(mut self, facts: ModelFacts) -> Self {
        self.facts = facts;
        self
    }
}

impl<F> fmt::Debug for FnModel<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FnModel").field("facts", &self.facts).finish_non_exhaustive()
    }
}

impl<F: Fn(&ModelRequest) -> ScriptedAnswer + Send + Sync + 'static> Model for FnModel<F> {
    fn facts(&self) -> ModelFacts {
        self.facts
    }

    fn call(
        &self,
        request: ModelRequest,
        sink: Arc<dyn StreamSink>,
    ) -> BoxFuture<'static, Result<ModelReply, ModelFailure>> {
        (self.answer)(&request).send_parts(&request, self.facts.price, sink)
    }
}
