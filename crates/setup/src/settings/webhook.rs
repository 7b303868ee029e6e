//! The setting `webhook`: the address to which a server reports what happens, with the key of its signatures.

use posse::webhook::{Webhook, WebhookEvent};

use super::WithOrigin;
use super::entries::Secret;
use crate::error::SetupError;

/// The keys of `webhook`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WebhookSettings {
    /// `webhook.url`: the address of the receiver.
    pub(super) url: Option<WithOrigin<String>>,
    /// `webhook.key`: the key of the signatures.
    pub(super) key: Option<WithOrigin<Secret>>,
    /// `webhook.key_env`: the variable that has the key.
    pub(super) key_env: Option<WithOrigin<String>>,
    /// `webhook.events`: what is sent.
    pub(super) events: Option<WithOrigin<Vec<String>>>,
}

impl WebhookSettings {
    /// The webhook, with its key from the variables; `None` if no address is set.
    pub fn webhook(&self, variables: &[(String, String)]) -> Result<Option<Webhook>, SetupError> {
        let Some(url) = &self.url else { return Ok(None) };
        let events = self.events()?;
        let webhook = Webhook::new(&url.value, self.secret(&url.origin.to_string(), variables)?, events);
        let wrong = |problem| SetupError::usage(format!("{}: webhook.url {problem}", url.origin));
        webhook.map(Some).map_err(wrong)
    }

    fn secret<'a>(&'a self, origin: &str, variables: &'a [(String, String)]) -> Result<&'a str, SetupError> {
        if let Some(key) = &self.key {
            return Ok(key.value.text());
        }
        let Some(name) = &self.key_env else {
            return Err(SetupError::usage(format!("{origin}: the webhook has no key"))
                .hint("set webhook.key, or webhook.key_env to the name of a variable that has it"));
        };
        let found = variables.iter().find(|(known, value)| *known == name.value && !value.is_empty());
        found.map(|(_, value)| value.trim()).ok_or_else(|| {
            SetupError::usage(format!("{}: the variable {} is not set", name.origin, name.value))
                .hint("set it to the key of the webhook's signatures")
        })
    }

    fn events(&self) -> Result<Vec<WebhookEvent>, SetupError> {
        let Some(events) = &self.events else { return Ok(WebhookEvent::ALL.to_vec()) };
        let read = |name: &String| {
            WebhookEvent::parse(name).ok_or_else(|| {
                let known: Vec<&str> = WebhookEvent::ALL.iter().map(|event| event.as_str()).collect();
                let name = posse_domain::printable::visible_line(name);
                SetupError::usage(format!("{}: webhook.events: there is no `{name}`", events.origin))
                    .hint(format!("it has {}", known.join(", ")))
            })
        };
        events.value.iter().map(read).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use posse::webhook::{Webhook, WebhookEvent};

    use crate::error::SetupError;
    use crate::settings::file;

    fn webhook(text: &str) -> Result<Option<Webhook>, String> {
        let variables = [("KEY".to_owned(), "secret".to_owned())];
        let settings = file::parse(text, Path::new("settings.yaml")).map_err(|error| error.text())?;
        settings.webhook.webhook(&variables).map_err(|error: SetupError| error.text())
    }

    #[test]
    fn a_webhook_has_an_address_a_key_and_known_events() {
        assert!(webhook("model: a/b\n").expect("none").is_none());
        let all = webhook("webhook: {url: 'http://127.0.0.1:1', key: x}\n").expect("a webhook").expect("one");
        assert!(WebhookEvent::ALL.into_iter().all(|event| all.wants(event)));
        let one = "webhook: {url: 'http://127.0.0.1:1', key_env: KEY, events: [run.ended]}\n";
        let one = webhook(one).expect("a webhook").expect("one");
        assert!(one.wants(WebhookEvent::RunEnded) && !one.wants(WebhookEvent::QuestionAsked));
        for (wrong, said) in [
            ("webhook: {url: 'http://127.0.0.1:1'}\n", "the webhook has no key"),
            ("webhook: {url: 'http://127.0.0.1:1', key_env: NONE}\n", "the variable NONE is not set"),
            ("webhook: {url: 'ftp://x', key: x}\n", "webhook.url must begin with"),
            ("webhook: {url: 'http://x', key: x, events: [run]}\n", "there is no `run`"),
        ] {
            let error = webhook(wrong).expect_err("wrong");
            assert!(error.starts_with("error: settings.yaml:1: ") && error.contains(said), "{error}");
        }
    }
}
