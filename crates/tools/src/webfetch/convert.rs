//! Turns answers into text on threads of their own, a few at a time.
//!
//! A thread cannot be ended from outside. So everything that it does is bounded before it begins (`tags`, `dom`), it
//! checks between pieces of work whether its caller still waits, and nothing waits for it: neither the call, which has a
//! time limit, nor the end of the process. One that takes long all the same keeps its permit, so that there are never
//! more than a few.

use std::sync::Arc;
use std::time::Duration;

use posse_domain::code::Code;
use posse_egress::Answer;
use posse_engine::ports::ToolFailure;
use tokio::sync::{Semaphore, oneshot};

use super::limits::{Stop, StopOnDrop};
use super::page::{self, NotShown, Page};

/// How long turning a page into text may take, the wait for a thread included.
const CONVERT_TIMEOUT: Duration = Duration::from_secs(15);
/// Conversions at once. Each may take some hundred megabytes for a moment.
const CONVERTERS_MAX: usize = 4;

/// What converts.
#[derive(Clone)]
pub(super) struct Converter(Arc<Semaphore>);

impl Default for Converter {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(CONVERTERS_MAX)))
    }
}

impl Converter {
    /// Turns an answer into text. Dropping the future stops the conversion.
    pub(super) async fn convert(&self, answer: Answer) -> Result<Page, ToolFailure> {
        let stop = Stop::default();
        let _stop_on_drop = StopOnDrop(stop.clone());
        let broken =
            || ToolFailure::failed("The page could not be turned into text: it broke the converter.");
        let converted = tokio::time::timeout(CONVERT_TIMEOUT, async {
            let permit = self.0.clone().acquire_owned().await.map_err(|_| broken())?;
            let (done, result) = oneshot::channel();
            let thread = std::thread::Builder::new().name("posse-convert".to_owned());
            let work = move || {
                let _ = done.send(page::read(&answer, &stop));
                drop(permit);
            };
            // It is not joined: the channel has the result, and is closed if the thread panicked.
            thread.spawn(work).map_err(|_| broken())?;
            result.await.map_err(|_| broken())?.map_err(|why| not_shown(&why))
        });
        converted.await.unwrap_or_else(|_| {
            let seconds = CONVERT_TIMEOUT.as_secs();
            let text = format!("The page could not be turned into text within {seconds} seconds.");
            Err(ToolFailure { code: Code::Timeout, text })
        })
    }
}

fn not_shown(why: &NotShown) -> ToolFailure {
    ToolFailure { code: Code::Unsupported, text: format!("The page was fetched, but {why}.") }
}
