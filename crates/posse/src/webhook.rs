//! A webhook: an address that a user named, to which events of runs are sent, signed with a key.
//!
//! The signature is an HMAC-SHA256 over `TIMESTAMP.BODY`, so that a receiver can tell the sender and refuse a message that
//! another sender repeats later. A message that is sent again has the same id.

use std::fmt::{self, Write as _};
use std::time::Duration;

use posse_egress::{Egress, Limits, Openings, Redirects, Reply, Request, Target, UrlProblem};
use ring::hmac;

/// The header with the id of a message, which repeats have too.
pub const ID_HEADER: &str = "posse-webhook-id";
/// The header with the time of sending, in seconds since 1970.
pub const TIMESTAMP_HEADER: &str = "posse-webhook-timestamp";
/// The header with the signature: `v1=` and hexadecimal digits.
pub const SIGNATURE_HEADER: &str = "posse-webhook-signature";
/// How long a receiver may take.
const TIMEOUT: Duration = Duration::from_secs(15);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// The answer of a receiver, which is not used.
const ANSWER_MAX_BYTES: usize = 64 * 1024;

/// What is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum WebhookEvent {
    /// A run ended.
    RunEnded,
    /// A call waits for an approver.
    QuestionAsked,
}

impl WebhookEvent {
    /// Everything that can be sent.
    pub const ALL: [Self; 2] = [Self::RunEnded, Self::QuestionAsked];

    /// Its name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::RunEnded => "run.ended",
            Self::QuestionAsked => "question.asked",
        }
    }

    /// Parses a name.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|event| event.as_str() == text)
    }

    /// What an event of a journal is sent as.
    pub fn of(kind: crate::EventKind) -> Option<Self> {
        match kind {
            crate::EventKind::InputRequested => Some(Self::QuestionAsked),
            kind if kind.ends_run() => Some(Self::RunEnded),
            _ => None,
        }
    }
}

/// An address with its key.
#[derive(Clone)]
pub struct Webhook {
    target: Target,
    key: hmac::Key,
    events: Vec<WebhookEvent>,
    client: Egress,
}

impl fmt::Debug for Webhook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Webhook").field("target", &self.target).finish_non_exhaustive()
    }
}

impl Webhook {
    /// A webhook; an error says what is wrong with the address.
    pub fn new(url: &str, key: &str, events: Vec<WebhookEvent>) -> Result<Self, String> {
        let target = Target::parse(url).map_err(|problem: UrlProblem| problem.to_string())?;
        let key = hmac::Key::new(hmac::HMAC_SHA256, key.as_bytes());
        Ok(Self { target, key, events, client: Egress::default() })
    }

    /// Whether an event is sent.
    pub fn wants(&self, event: WebhookEvent) -> bool {
        self.events.contains(&event)
    }

    /// Sends a message once. Any answer of success is a delivery; an error says why there was none.
    pub async fn send(&self, id: &str, body: &str, now_ms: i64) -> Result<(), String> {
        let seconds = now_ms.div_euclid(1_000);
        let request = Request {
            target: self.target.clone(),
            post: Some(body.to_owned()),
            headers: vec![
                (ID_HEADER, id.to_owned()),
                (TIMESTAMP_HEADER, seconds.to_string()),
                (SIGNATURE_HEADER, self.signature(seconds, body)),
            ],
            accept: "*/*",
            limits: Limits { total: TIMEOUT, connect: CONNECT_TIMEOUT, body_max_bytes: ANSWER_MAX_BYTES },
            redirects: Redirects::HandBack,
        };
        // The user named exactly this address, which may be one of their own machine.
        let named = self.target.clone();
        let openings =
            Openings::by(move |target| target.host() == named.host() && target.port() == named.port());
        match self.client.send(request, &openings).await {
            Ok(Reply::Answer(answer)) if (200..300).contains(&answer.status) => Ok(()),
            Ok(Reply::Answer(answer)) => Err(format!("the receiver answered with status {}", answer.status)),
            Ok(Reply::Elsewhere { .. }) => Err("the receiver redirects, which is not followed".to_owned()),
            Err(error) => Err(error.to_string()),
        }
    }

    fn signature(&self, seconds: i64, body: &str) -> String {
        let tag = hmac::sign(&self.key, format!("{seconds}.{body}").as_bytes());
        let mut text = "v1=".to_owned();
        for byte in tag.as_ref() {
            // Writing to a string does not fail.
            let _ = write!(text, "{byte:02x}");
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_signature_is_an_hmac_over_time_and_body() {
        let webhook = Webhook::new("http://127.0.0.1:1/hook", "key", Vec::new()).expect("a webhook");
        // printf '0.The quick brown fox' | openssl dgst -sha256 -hmac key
        assert_eq!(
            webhook.signature(0, "The quick brown fox"),
            "v1=10c3ae5bdd0fd5c9ad60a05ea4051bb529622def626c0d64295951b2039454ed"
        );
        assert_ne!(webhook.signature(1, "x"), webhook.signature(0, "x"));
        assert!(!format!("{webhook:?}").contains("key"));
        for wrong in ["ftp://x", "x", "http://user@x/"] {
            Webhook::new(wrong, "key", Vec::new()).expect_err("no address");
        }
    }

    #[test]
    fn events_have_names() {
        for event in WebhookEvent::ALL {
            assert_eq!(WebhookEvent::parse(event.as_str()), Some(event));
        }
        assert_eq!(WebhookEvent::parse("run"), None);
    }
}
