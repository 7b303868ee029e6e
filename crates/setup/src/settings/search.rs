//! The setting `search`: the provider of web searches, and its key.

use posse::Search;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::WithOrigin;
use super::entries::Secret;
use crate::error::SetupError;

/// The well-known variables of keys.
const BRAVE_KEY: &str = "BRAVE_API_KEY";
const TAVILY_KEY: &str = "TAVILY_API_KEY";
pub(crate) const SEARCH_KEYS: [&str; 2] = [BRAVE_KEY, TAVILY_KEY];

/// The keys of `search`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SearchSettings {
    /// `search.provider`.
    pub(super) provider: Option<WithOrigin<Provider>>,
    /// `search.url`: the provider's address.
    pub(super) url: Option<WithOrigin<String>>,
    /// `search.key`: the provider's key.
    pub(super) key: Option<WithOrigin<Secret>>,
    /// `search.key_env`: the variable that has the key.
    pub(super) key_env: Option<WithOrigin<String>>,
}

/// A search provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(rename = "search_provider")]
pub(super) enum Provider {
    Searxng,
    Brave,
    Tavily,
}

impl Provider {
    /// From the text of a variable.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        match text {
            "searxng" => Ok(Provider::Searxng),
            "brave" => Ok(Provider::Brave),
            "tavily" => Ok(Provider::Tavily),
            _ => Err("expected `searxng`, `brave` or `tavily`".to_owned()),
        }
    }
}

impl SearchSettings {
    /// Whether a provider is named.
    pub fn is_set(&self) -> bool {
        self.provider.is_some()
    }

    /// The provider's address, if the settings name it.
    pub fn address(&self) -> Option<&str> {
        self.url.as_ref().map(|url| url.value.as_str())
    }

    /// The provider, with its key from the variables. A missing key is reported to the agent that searches, because a
    /// run without searches needs no key.
    pub fn search(&self, variables: &[(String, String)]) -> Result<Search, SetupError> {
        let Some(provider) = &self.provider else {
            let origins =
                [self.url.as_ref().map(|url| &url.origin), self.key.as_ref().map(|key| &key.origin)];
            return match origins.into_iter().flatten().next() {
                Some(origin) => Err(SetupError::usage(format!("{origin}: search has no provider"))
                    .hint("set search.provider to searxng, brave or tavily")),
                None => Ok(Search::default()),
            };
        };
        let url = self.url.as_ref().map(|url| url.value.as_str());
        let made = match provider.value {
            Provider::Searxng => {
                let missing = || {
                    SetupError::usage(format!("{}: searxng needs a URL", provider.origin))
                        .hint("set search.url, for example to http://localhost:8888")
                };
                Search::searxng(url.ok_or_else(missing)?)
            }
            Provider::Brave => match self.key(BRAVE_KEY, variables) {
                Ok(key) => Search::brave(key, url),
                Err(name) => return Ok(without_key("brave", name)),
            },
            Provider::Tavily => match self.key(TAVILY_KEY, variables) {
                Ok(key) => Search::tavily(key, url),
                Err(name) => return Ok(without_key("tavily", name)),
            },
        };
        made.map_err(|problem| {
            let origin = self.url.as_ref().map_or(&provider.origin, |url| &url.origin);
            SetupError::usage(format!("{origin}: search.url {problem}"))
        })
    }

    /// The variable that provides the key of the named provider, if it is set.
    pub fn key_variable<'a>(&'a self, variables: &'a [(String, String)]) -> Option<&'a str> {
        let usual = match self.provider.as_ref()?.value {
            Provider::Searxng => return None,
            Provider::Brave => BRAVE_KEY,
            Provider::Tavily => TAVILY_KEY,
        };
        let name = self.key_env.as_ref().map_or(usual, |name| name.value.as_str());
        (self.key.is_none() && self.key(usual, variables).is_ok()).then_some(name)
    }

    /// The key, or the name of the variable that lacks it.
    fn key<'a>(&'a self, usual: &'a str, variables: &'a [(String, String)]) -> Result<&'a str, &'a str> {
        if let Some(key) = &self.key {
            return Ok(key.value.text());
        }
        let name = self.key_env.as_ref().map_or(usual, |name| name.value.as_str());
        let found = variables.iter().find(|(known, value)| known == name && !value.is_empty());
        found.map(|(_, value)| value.trim()).ok_or(name)
    }
}

fn without_key(provider: &str, name: &str) -> Search {
    Search::unavailable(format!(
        "the provider is {provider}, but its key is missing. The user has to set the environment variable {name}."
    ))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use crate::settings::{Settings, file, variables};

    fn settings(text: &str) -> Settings {
        file::parse(text, Path::new("settings.yaml")).map_err(|error| error.text()).expect("settings")
    }

    fn search(text: &str, variables: &[(&str, &str)]) -> Result<String, String> {
        let owned: Vec<(String, String)> =
            variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let search = settings(text).search.search(&owned);
        search.map(|search| format!("{search:?}")).map_err(|error| error.text())
    }

    #[test]
    fn each_provider_is_set_up_with_its_url_and_key() {
        let brave = [("BRAVE_API_KEY", "canary")];
        for (text, variables, expected) in [
            ("", &brave[..], "Search(none)"),
            (
                "search: {provider: searxng, url: 'http://localhost:8888'}",
                &[],
                "Search(http://localhost:8888/)",
            ),
            ("search: {provider: brave}", &brave, "Search(https://api.search.brave.com/)"),
            ("search: {provider: brave}", &[], "Search(none)"),
            ("search: {provider: brave}", &[("BRAVE_API_KEY", "")], "Search(none)"),
            ("search: {provider: tavily}", &brave, "Search(none)"),
            ("search: {provider: tavily, key_env: BRAVE_API_KEY}", &brave, "Search(https://api.tavily.com/)"),
            (
                "search: {provider: tavily, key: canary, url: 'https://t.example'}",
                &[],
                "Search(https://t.example/)",
            ),
        ] {
            assert_eq!(search(text, variables).as_deref(), Ok(expected), "{text}");
        }
    }

    #[test]
    fn mistakes_are_named_with_their_place_and_without_the_key() {
        for (text, start) in [
            ("search:\n  provider: searxng\n", "error: settings.yaml:2: searxng needs a URL"),
            ("search:\n  key: canary\n", "error: settings.yaml:2: search has no provider"),
            (
                "search:\n  provider: searxng\n  url: localhost\n",
                "error: settings.yaml:3: search.url must begin with `http://` or `https://`",
            ),
        ] {
            let error = search(text, &[]).expect_err(text);
            assert!(error.starts_with(start) && !error.contains("canary"), "{error}");
        }
        let read = |text| file::parse(text, Path::new("settings.yaml")).map_err(|error| error.text());
        let error = read("search: {provider: google}\n").expect_err("unknown");
        assert!(error.starts_with("error: settings.yaml:1: "), "{error}");
        let error = read("search:\n  provder: brave\n").expect_err("unknown");
        assert!(error.contains("unknown key `search.provder` (did you mean `provider`?)"), "{error}");
    }

    #[test]
    fn variables_set_it_too_and_a_key_is_never_shown() {
        let set = [
            ("POSSE_SEARCH__PROVIDER", "tavily"),
            ("POSSE_SEARCH__URL", "https://t.example"),
            ("POSSE_SEARCH__KEY", "canary"),
            ("POSSE_SEARCH__KEY_ENV", "X"),
        ];
        let owned: Vec<(String, String)> =
            set.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let settings = variables::read(&owned).map_err(|error| error.text()).expect("read");
        assert!(!format!("{settings:?}").contains("canary"));
        let from_file = settings_with_key();
        assert!(!format!("{from_file:?}").contains("canary"));
        let search = settings.or(from_file).search.search(&[]).map_err(|error| error.text()).expect("search");
        assert_eq!(format!("{search:?}"), "Search(https://t.example/)");
        let wrong = [("POSSE_SEARCH__PROVIDER".to_owned(), "google".to_owned())];
        let error = variables::read(&wrong).map_err(|error| error.text()).expect_err("unknown");
        assert_eq!(
            error.lines().next(),
            Some("error: POSSE_SEARCH__PROVIDER: expected `searxng`, `brave` or `tavily`")
        );
    }

    fn settings_with_key() -> Settings {
        settings("search: {provider: brave, key: canary}")
    }
}
