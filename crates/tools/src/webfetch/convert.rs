//! Converts responses to text on separate threads, a few at a time.
//!
//! A thread cannot be stopped from outside. So all its work is bounded in advance (`tags`, `dom`), it checks between
//! pieces of work whether its caller still waits, and nothing waits for it: neither the call, which has a timeout, nor
//! the end of the process. A thread that takes long nevertheless keeps its permit, so that there are never more than a
//! few.

use std::sync::Arc;
use std::time::Duration;

use posse_domain::code::Code;
use posse_egress::Answer;
use posse_engine::ports::ToolFailure;
use tokio::sync::{Semaphore, oneshot};

use super::limits::{Stop, StopOnDrop};
use super::page::{self, NotShown, Page};

/// Timeout of a conversion, including the wait for a thread.
const CONVERT_TIMEOUT: Duration = Duration::from_secs(15);
/// Maximum number of conversions at once. Each may take some hundred megabytes for a moment.
const CONVERTERS_MAX: usize = 4;

#[derive(Clone)]
pub(super) struct Converter(Arc<Semaphore>);

impl Default for Converter {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(CONVERTERS_MAX)))
    }
}

impl Converter {
    /// Converts a response to text. Dropping the future stops the conversion.
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
            // The thread is not joined: the channel has the result, and closes if the thread panicked.
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
