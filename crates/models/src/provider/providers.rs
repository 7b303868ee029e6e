//! Combines the table of providers with settings, variables and flags, and computes endpoints from them.

use std::collections::BTreeMap;
use std::fmt;

use posse_domain::nearest::{hint, nearest};
use posse_engine::ports::ModelFacts;

use super::table::ALIASES;
use super::{KeyNeed, Provider, ProviderError, address};
use crate::endpoint::{Endpoint, Format, Key, Limits, ToolCalls};
use crate::prices;

/// How many providers an error names.
const NAMED_MAX: usize = 6;

/// The provider of a model that was named without a provider, beside a base URL.
const COMPATIBLE: &str = "openai-compatible";
/// The provider whose variable may be less than a URL.
const OLLAMA: &str = "ollama";

/// A base URL and its origin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BaseUrl {
    /// The URL as the user wrote it.
    pub url: String,
    /// The origin: a variable, a flag, a line of the settings.
    pub origin: String,
}

/// The settings of one provider. For absent values the table applies.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProviderWords {
    /// The wire format. Required for a provider that is not in the table.
    pub format: Option<Format>,
    pub base_url: Option<BaseUrl>,
    pub key: Option<Key>,
    /// The variable with the key.
    pub key_env: Option<String>,
    pub limits: Limits,
    /// How its models call tools.
    pub tools: Option<ToolCalls>,
    /// Context size of its models, instead of the table's.
    pub context_tokens: Option<u64>,
    /// Limit of tokens in one reply, instead of the table's.
    pub max_output_tokens: Option<u64>,
}

/// The table of providers with the user's settings, variables and flags.
#[derive(Clone, Default)]
pub struct Providers {
    words: BTreeMap<String, ProviderWords>,
    variables: BTreeMap<String, String>,
    /// From a flag: the provider and its base URL.
    given: Option<(String, BaseUrl)>,
    /// The user's short names of models.
    aliases: BTreeMap<String, String>,
}

impl fmt::Debug for Providers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Variables may contain keys, so they are not shown.
        f.debug_struct("Providers")
            .field("words", &self.words)
            .field("given", &self.given)
            .finish_non_exhaustive()
    }
}

/// A provider: the table's row, the user's settings, or both.
struct Row<'a> {
    name: &'a str,
    known: Option<&'static Provider>,
    words: Option<&'a ProviderWords>,
}

impl Row<'_> {
    fn format(&self) -> Format {
        let said = self.words.and_then(|words| words.format);
        said.or(self.known.map(|known| known.format)).unwrap_or(Format::Chat)
    }
}

/// A full name for a name without a provider: that of a script for a file, else that of a local model.
fn example(name: &str) -> String {
    let is_script = [".yaml", ".yml"].iter().any(|end| name.ends_with(end));
    match name {
        "" => "anthropic/claude-sonnet-5-5".to_owned(),
        name if is_script => format!("scripted/{name}"),
        name => format!("ollama/{name}"),
    }
}

impl Providers {
    /// Takes the settings, and the variables that may contain keys and base URLs.
    pub fn new(
        words: impl IntoIterator<Item = (String, ProviderWords)>,
        variables: impl IntoIterator<Item = (String, String)>,
    ) -> Self {
        let set = variables.into_iter().filter(|(_, value)| !value.trim().is_empty());
        Self { words: words.into_iter().collect(), variables: set.collect(), ..Self::default() }
    }

    /// Sets a base URL for one provider that overrides all others.
    pub fn with_base_url(mut self, provider: impl Into<String>, base_url: BaseUrl) -> Self {
        self.given = Some((provider.into(), base_url));
        self
    }

    /// Sets the user's short names of models, which precede the built-in ones.
    pub fn with_aliases(mut self, aliases: impl IntoIterator<Item = (String, String)>) -> Self {
        self.aliases = aliases.into_iter().collect();
        self
    }

    /// All short names of models, each with the model that it means: the user's, then the built-in ones.
    pub fn aliases(&self) -> Vec<(&str, &str)> {
        let own = self.aliases.iter().map(|(alias, model)| (alias.as_str(), model.as_str()));
        let built_in = ALIASES.iter().filter(|(alias, _)| !self.aliases.contains_key(*alias)).copied();
        own.chain(built_in).collect()
    }

    /// The model that a short name means, or the name itself.
    fn unaliased<'a>(&'a self, name: &'a str) -> &'a str {
        let found = self.aliases().into_iter().find(|(alias, _)| *alias == name);
        found.map_or(name, |(_, model)| model)
    }

    /// Splits a name into provider and model. A bare name is accepted if its provider is clear. `elsewhere` states that
    /// a base URL comes with the name, so that an unknown name is a model there.
    pub fn split(&self, name: &str, elsewhere: bool) -> Result<(String, String), ProviderError> {
        let name = self.unaliased(name);
        let is_given = elsewhere || self.given.as_ref().is_some_and(|(provider, _)| provider == COMPATIBLE);
        if let Some((provider, model)) = name.split_once('/') {
            match self.row(provider) {
                Some(row) if model.is_empty() => return Err(no_model(row.name, row.known)),
                Some(row) => return Ok((row.name.to_owned(), model.to_owned())),
                // Models on a user's own server have names that look like a provider: `mistralai/...`, `Qwen/...`.
                None if is_given => {}
                None => return Err(self.unknown_provider(provider)),
            }
        } else {
            let family = Provider::of_family(name).map(|provider| provider.name);
            if let Some(provider) = prices::provider_of(name).or(family) {
                return Ok((provider.to_owned(), name.to_owned()));
            }
            if let Some(row) = self.row(name) {
                return Err(no_model(row.name, row.known));
            }
            if !is_given {
                let near = prices::nearest_model(name);
                let hint = near.map_or_else(String::new, |near| format!(" (did you mean `{near}`?)"));
                return Err(ProviderError::UnknownModel {
                    example: example(name),
                    name: name.to_owned(),
                    hint,
                });
            }
        }
        Ok((COMPATIBLE.to_owned(), name.to_owned()))
    }

    pub fn endpoint(&self, provider: &str) -> Result<Endpoint, ProviderError> {
        let row = self.row(provider).ok_or_else(|| self.unknown_provider(provider))?;
        let words = row.words.cloned().unwrap_or_default();
        Ok(Endpoint {
            provider: row.name.to_owned(),
            format: row.format(),
            base_url: self.base_url(&row)?,
            key: self.key(&row)?,
            limits: words.limits,
            tools: words.tools.or(row.known.map(|known| known.tools)).unwrap_or_default(),
        })
    }

    /// Whether calls to a provider cost nothing because it runs on the user's machine.
    pub fn is_local(&self, provider: &str) -> bool {
        self.row(provider).and_then(|row| row.known).is_some_and(|known| known.is_local)
    }

    /// Applies the user's settings for the provider's models to the facts.
    pub(crate) fn facts(&self, provider: &str, facts: ModelFacts) -> ModelFacts {
        let words = self.row(provider).and_then(|row| row.words);
        let (context, output) =
            words.map_or((None, None), |words| (words.context_tokens, words.max_output_tokens));
        ModelFacts {
            context_tokens: context.unwrap_or(facts.context_tokens),
            max_output_tokens: output.unwrap_or(facts.max_output_tokens),
            ..facts
        }
    }

    /// The origin of a provider's key, for display without the key. `None` if there is no key.
    pub fn key_origin(&self, provider: &str) -> Result<Option<String>, ProviderError> {
        let row = self.row(provider).ok_or_else(|| self.unknown_provider(provider))?;
        match self.key(&row) {
            Ok(key) => Ok(key.map(|key| key.origin().to_owned())),
            Err(ProviderError::NoKey { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The first provider with a key and a default model, and the name of that model.
    pub fn first_ready(&self) -> Option<(&'static Provider, String)> {
        Provider::all().iter().find_map(|provider| {
            let model = provider.default_model?;
            let has_key =
                matches!(self.key_origin(provider.name), Ok(Some(_)) | Err(ProviderError::BadKey { .. }));
            has_key.then(|| (provider, format!("{}/{model}", provider.name)))
        })
    }

    /// The names of all providers: the table's, then the user's own.
    pub fn names(&self) -> Vec<&str> {
        let own = self.words.keys().map(String::as_str).filter(|name| Provider::find(name).is_none());
        Provider::all().iter().map(|provider| provider.name).chain(own).collect()
    }

    fn row<'a>(&'a self, name: &'a str) -> Option<Row<'a>> {
        let known = Provider::find(name);
        let name = known.map_or(name, |known| known.name);
        let aliases = known.map_or(&[][..], |known| known.aliases);
        let mut names = std::iter::once(&name).chain(aliases);
        let words = names.find_map(|name| self.words.get(*name));
        (known.is_some() || words.is_some()).then_some(Row { name, known, words })
    }

    fn base_url(&self, row: &Row<'_>) -> Result<String, ProviderError> {
        let given =
            self.given.as_ref().filter(|(provider, _)| provider == row.name).map(|(_, url)| url.clone());
        let said = given.or_else(|| row.words?.base_url.clone()).or_else(|| self.url_variable(row));
        let Some(BaseUrl { url, origin }) = said else {
            let usual = row.known.and_then(|known| known.base_url).map(str::to_owned);
            return usual.ok_or_else(|| ProviderError::NoBaseUrl { provider: row.name.to_owned() });
        };
        address::base_url(&url, row.format()).map_err(|problem| ProviderError::BadBaseUrl {
            provider: row.name.to_owned(),
            origin,
            problem,
        })
    }

    fn url_variable(&self, row: &Row<'_>) -> Option<BaseUrl> {
        let (name, value) = self.first_set(row.known?.url_variables)?;
        let url = if row.name == OLLAMA { address::ollama_host(value) } else { value.to_owned() };
        Some(BaseUrl { url, origin: name.to_owned() })
    }

    fn key(&self, row: &Row<'_>) -> Result<Option<Key>, ProviderError> {
        let bad = |origin: &str| {
            let (provider, origin) = (row.name.to_owned(), origin.to_owned());
            move |problem| ProviderError::BadKey { provider, origin, problem }
        };
        if let Some(key) = row.words.and_then(|words| words.key.as_ref()) {
            let secret = address::key(key.secret()).map_err(bad(key.origin()))?;
            return Ok(Some(Key::new(secret, key.origin())));
        }
        let own = row.words.and_then(|words| words.key_env.as_deref());
        let usual = row.known.map_or(&[][..], |known| known.key_variables);
        let found = match &own {
            Some(own) => self.first_set(std::slice::from_ref(own)),
            None => self.first_set(usual),
        };
        match found {
            Some((name, value)) => {
                let secret = address::key(value).map_err(bad(name))?;
                Ok(Some(Key::new(secret, name)))
            }
            None if own.is_some() || row.known.is_some_and(|known| known.key == KeyNeed::Needed) => {
                let variables = own.map_or_else(|| usual.join(" or "), str::to_owned);
                Err(ProviderError::NoKey { provider: row.name.to_owned(), variables })
            }
            None => Ok(None),
        }
    }

    fn first_set<'a>(&'a self, names: &[&'a str]) -> Option<(&'a str, &'a str)> {
        names.iter().find_map(|name| self.variables.get(*name).map(|value| (*name, value.as_str())))
    }

    fn meant(&self, provider: &str) -> Option<&str> {
        nearest(provider, self.names())
    }

    /// The first names, for an error: all of them would hide the rest of it.
    fn some_names(&self) -> String {
        let names = self.names();
        let more = if names.len() > NAMED_MAX { ", ..." } else { "" };
        format!("{}{more}", names[..names.len().min(NAMED_MAX)].join(", "))
    }

    fn unknown_provider(&self, name: &str) -> ProviderError {
        ProviderError::UnknownProvider {
            name: name.to_owned(),
            hint: hint(self.meant(name)),
            known: self.some_names(),
        }
    }
}

fn no_model(provider: &str, known: Option<&'static Provider>) -> ProviderError {
    let example = known.and_then(|known| known.default_model);
    ProviderError::NoModel {
        provider: provider.to_owned(),
        example: example.map_or_else(String::new, |model| format!(", for example `{provider}/{model}`")),
    }
}
