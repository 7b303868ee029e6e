//! What each token may use at once, so that one client does not take the server from the others.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use axum::http::StatusCode;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

use super::limits::{
    BODIES_OF_TOKEN_MAX, REQUESTS_BURST, REQUESTS_OF_TOKEN_MAX, REQUESTS_PER_SECOND, STREAMS_OF_TOKEN_MAX,
    TOKENS_COUNTED_MAX,
};
use super::problem::{Problem, ProblemCode};

/// The limits of all tokens that were used.
#[derive(Default)]
pub(super) struct AllTokenLimits(Mutex<HashMap<String, Arc<TokenLimits>>>);

/// What one token may use at once.
pub(super) struct TokenLimits {
    rate: Mutex<Rate>,
    requests: Arc<Semaphore>,
    streams: Arc<Semaphore>,
    bodies: Arc<Semaphore>,
}

/// The requests that a token may send now; it gets more as time passes.
struct Rate {
    left: f64,
    at: Instant,
}

impl AllTokenLimits {
    /// The limits of a token.
    pub(super) fn of(&self, token: &str) -> Arc<TokenLimits> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = all.get(token) {
            return Arc::clone(known);
        }
        if all.len() >= TOKENS_COUNTED_MAX {
            // Those of tokens that were revoked or are not used now.
            all.retain(|_, limits| Arc::strong_count(limits) > 1);
        }
        let new = Arc::new(TokenLimits::new());
        all.insert(token.to_owned(), Arc::clone(&new));
        new
    }
}

impl TokenLimits {
    fn new() -> Self {
        Self {
            rate: Mutex::new(Rate { left: REQUESTS_BURST, at: Instant::now() }),
            requests: Arc::new(Semaphore::new(REQUESTS_OF_TOKEN_MAX)),
            streams: Arc::new(Semaphore::new(STREAMS_OF_TOKEN_MAX)),
            bodies: Arc::new(Semaphore::new(BODIES_OF_TOKEN_MAX)),
        }
    }

    /// The right to send a request, until it is answered.
    pub(super) fn request(&self) -> Result<OwnedSemaphorePermit, Problem> {
        self.count_request()?;
        Arc::clone(&self.requests).try_acquire_owned().map_err(|_| {
            too_many(format!("this token has {REQUESTS_OF_TOKEN_MAX} requests at once, which is the most"))
        })
    }

    /// Counts a request.
    fn count_request(&self) -> Result<(), Problem> {
        let mut rate = self.rate.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        let more = now.duration_since(rate.at).as_secs_f64() * REQUESTS_PER_SECOND;
        *rate = Rate { left: (rate.left + more).min(REQUESTS_BURST), at: now };
        if rate.left < 1.0 {
            return Err(too_many(format!(
                "this token has sent more than {REQUESTS_PER_SECOND} requests a second"
            )));
        }
        rate.left -= 1.0;
        Ok(())
    }

    /// The right to one more stream.
    pub(super) fn stream(&self) -> Result<OwnedSemaphorePermit, Problem> {
        Arc::clone(&self.streams).try_acquire_owned().map_err(|_| {
            too_many(format!("this token has {STREAMS_OF_TOKEN_MAX} open streams, which is the most"))
        })
    }

    /// The right to send one more body.
    pub(super) fn body(&self) -> Result<OwnedSemaphorePermit, Problem> {
        Arc::clone(&self.bodies).try_acquire_owned().map_err(|_| {
            too_many(format!("this token sends {BODIES_OF_TOKEN_MAX} bodies at once, which is the most"))
        })
    }
}

fn too_many(detail: String) -> Problem {
    Problem::new(StatusCode::TOO_MANY_REQUESTS, ProblemCode::TooMany, detail)
        .remedy("wait as long as `Retry-After` says, in seconds")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_token_gets_more_requests_as_time_passes_and_takes_none_from_others() {
        let all = AllTokenLimits::default();
        let all = |token: &str| {
            let limits = all.of(token);
            std::iter::from_fn(|| limits.count_request().ok()).take(10_000).count()
        };
        let burst = all("one");
        let is_about = |count: usize, limit: f64| {
            (f64::from(u32::try_from(count).expect("a small number")) - limit).abs() < 0.5
        };
        assert!(is_about(burst, REQUESTS_BURST), "{burst}");
        assert_eq!(all("one"), 0);
        assert_eq!(all("two"), burst);
        tokio::time::advance(Duration::from_secs(1)).await;
        assert!(is_about(all("one"), REQUESTS_PER_SECOND));
        tokio::time::advance(Duration::from_hours(1)).await;
        assert_eq!(all("one"), burst, "no more than that, however long it was silent");
    }

    #[tokio::test]
    async fn what_a_token_does_at_once_is_limited_until_it_ends() {
        let limits = AllTokenLimits::default().of("one");
        let streams: Vec<_> = std::iter::from_fn(|| limits.stream().ok()).take(10_000).collect();
        assert_eq!(streams.len(), STREAMS_OF_TOKEN_MAX);
        let problem = limits.stream().expect_err("too many");
        assert_eq!((problem.status, problem.code), (429, ProblemCode::TooMany));
        drop(streams);
        assert!(limits.stream().is_ok());
        let bodies: Vec<_> = std::iter::from_fn(|| limits.body().ok()).take(10_000).collect();
        assert_eq!(bodies.len(), BODIES_OF_TOKEN_MAX);
        let requests: Vec<_> = std::iter::from_fn(|| limits.request().ok()).take(10_000).collect();
        assert_eq!(requests.len(), REQUESTS_OF_TOKEN_MAX);
        drop(requests);
        assert!(limits.request().is_ok());
    }
}
