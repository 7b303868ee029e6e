//! The line in front of a provider and key, shared by all agents of the process: limits, pauses and the breaker.

use std::sync::Arc;
use std::time::Duration;

use posse_engine::ports::{Admission, CallSize, Permit, Retry};

use crate::endpoint::Limits;
use crate::wire::{Problem, ProblemKind};

/// The line in front of one provider and key.
#[derive(Debug)]
pub(crate) struct Line {
    provider: Arc<str>,
    limits: Limits,
}

impl Line {
    /// A line with nobody in it.
    pub(crate) fn new(provider: Arc<str>, limits: Limits) -> Arc<Self> {
        Arc::new(Self { provider, limits })
    }

    /// Asks for leave to make a call of this size.
    pub(crate) fn admit(self: &Arc<Self>, size: CallSize) -> Admission {
        let _ = (size, &self.provider, self.limits);
        Admission::Go(Permit::default())
    }

    /// A call was answered.
    pub(crate) fn succeeded(&self) {}

    /// A call failed: what everybody is to know of it, and when the same call may be worth making again. `call` is its
    /// number in its turn, from 1.
    pub(crate) fn failed(&self, problem: &Problem, call: u32) -> Option<Retry> {
        let _ = call;
        // The same turn makes another request, and nobody has to wait for it.
        (problem.kind == ProblemKind::NoTools).then_some(Retry { after: Duration::ZERO, limited: false })
    }
}
