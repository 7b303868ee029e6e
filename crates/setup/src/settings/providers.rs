//! The settings `providers`, `prices` and `model_aliases`: where models are, with which keys, limits, costs and names.
//!
//! They are read only from the user's settings file: a project that could set the address of a provider could have the
//! user's key sent there.

use std::collections::BTreeMap;
use std::num::{NonZeroU32, NonZeroU64};
use std::path::Path;

use posse::{BaseUrl, Format, Key, Limits, PriceTag, Prices, ProviderWords, Providers, ToolCalls};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::entries::{Entries, Secret, secret_of, without_secrets};
use super::located::{WithLine, sourced};
use super::problem::shown;
use super::{Origin, Settings, WithOrigin};
use crate::error::SetupError;

/// Prefixes of models without a provider. A provider of this name could not be reached.
const TAKEN: [&str; 2] = ["scripted", "replay"];

/// The name of one of `providers`: the first part of its models' names.
#[derive(Deserialize, PartialEq, Eq, PartialOrd, Ord, JsonSchema)]
#[serde(try_from = "String")]
#[schemars(with = "String")]
pub(super) struct ProviderName(String);

impl TryFrom<String> for ProviderName {
    type Error = String;

    fn try_from(name: String) -> Result<Self, String> {
        let wrong = |why: &str| Err(format!("`{}` cannot be the name of a provider: {why}", shown(&name)));
        match name.as_str() {
            "" => wrong("it is empty"),
            taken if TAKEN.contains(&taken) => wrong(&format!("`{taken}` is reserved; choose another name")),
            other if other.contains('/') => wrong("what follows the first `/` is the model; remove the `/`"),
            other if other.contains(|c: char| c.is_whitespace() || c.is_control()) => {
                wrong("it has spaces in it; remove them")
            }
            _ => Ok(Self(name)),
        }
    }
}

/// One provider of models.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "provider")]
pub(super) struct RawProvider {
    /// Its wire format.
    format: Option<RawFormat>,
    /// Its base URL.
    base_url: Option<WithLine<String>>,
    /// Its key.
    key: Option<WithLine<Secret>>,
    /// The environment variable that has its key.
    key_env: Option<String>,
    /// Limit of calls per minute.
    requests_per_minute: Option<NonZeroU32>,
    /// Limit of tokens per minute.
    tokens_per_minute: Option<NonZeroU64>,
    /// Limit of concurrent calls.
    concurrent: Option<NonZeroU32>,
    /// How tools are passed to its models.
    tools: Option<RawTools>,
    /// Tokens that fit into its models' context.
    context_tokens: Option<NonZeroU64>,
    /// Limit of tokens in one reply.
    max_output_tokens: Option<NonZeroU64>,
}

/// The price of a model, in dollars per million tokens.
// The shape of `PriceTag`, which has no schema.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields, rename = "price")]
#[expect(dead_code, reason = "only its shape is used")]
pub(super) struct PriceShape {
    /// Input that was not in a cache.
    input: f64,
    /// Output.
    output: f64,
    /// Input read from a cache.
    cache_read: Option<f64>,
    /// Input written to a cache.
    cache_write: Option<f64>,
    /// Reasoning output.
    reasoning: Option<f64>,
}

#[derive(Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(rename = "format")]
enum RawFormat {
    Anthropic,
    Responses,
    Chat,
}

#[derive(Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(rename = "tools")]
enum RawTools {
    Native,
    Text,
    Probe,
}

/// The keys `providers`, `prices` and `model_aliases`.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ProviderSettings {
    words: BTreeMap<String, WithOrigin<ProviderWords>>,
    prices: BTreeMap<String, WithOrigin<PriceTag>>,
    aliases: BTreeMap<String, WithOrigin<String>>,
}

impl Settings {
    /// Takes `providers` from a file.
    pub(super) fn read_providers(
        &mut self,
        providers: BTreeMap<ProviderName, WithLine<RawProvider>>,
        path: &Path,
    ) {
        let words = |(ProviderName(name), raw): (ProviderName, WithLine<RawProvider>)| {
            let WithOrigin { value, origin } = raw.sourced(path);
            (name, WithOrigin { value: value.words(path), origin })
        };
        self.providers.words = providers.into_iter().map(words).collect();
    }

    /// Takes `prices` from a file.
    pub(super) fn read_prices(&mut self, prices: BTreeMap<String, WithLine<PriceTag>>, path: &Path) {
        self.providers.prices = prices.into_iter().map(|(name, tag)| (name, tag.sourced(path))).collect();
    }
}

impl Settings {
    /// Takes `model_aliases` from a file.
    pub(super) fn read_aliases(&mut self, aliases: BTreeMap<String, WithLine<String>>, path: &Path) {
        let aliases = aliases.into_iter().map(|(name, model)| (name, model.sourced(path)));
        self.providers.aliases = aliases.collect();
    }
}

impl ProviderSettings {
    /// Refuses a provider with two keys.
    pub(super) fn check(&self) -> Result<(), SetupError> {
        for (name, words) in &self.words {
            if let Some(key) = words.value.key.as_ref().filter(|_| words.value.key_env.is_some()) {
                return Err(SetupError::usage(format!(
                    "{}: providers.{name} has both `key` and `key_env`",
                    key.origin()
                ))
                .hint("remove one of them; nothing was started"));
            }
        }
        Ok(())
    }

    /// These settings, or the other ones if these are empty.
    pub(super) fn or(self, other: Self) -> Self {
        if self == Self::default() { other } else { self }
    }

    /// The providers, with the variables in which keys may be.
    pub fn providers(&self, variables: &[(String, String)]) -> Providers {
        let words = self.words.iter().map(|(name, words)| (name.clone(), words.value.clone()));
        let aliases = self.aliases.iter().map(|(name, model)| (name.clone(), model.value.clone()));
        Providers::new(words, variables.iter().cloned()).with_aliases(aliases)
    }

    /// Adds the entries, by key. An API key is shown only by its origin.
    pub(super) fn list(&self, entries: &mut Entries) {
        for (name, words) in &self.words {
            entries.push(&format!("providers.{name}"), shown_words(&words.value), &words.origin);
        }
        for (name, WithOrigin { value: tag, origin }) in &self.prices {
            let value = json!({"input": tag.input, "output": tag.output, "cache_read": tag.cache_read,
                "cache_write": tag.cache_write, "reasoning": tag.reasoning});
            entries.push(&format!("prices.{name}"), value, origin);
        }
        for (name, WithOrigin { value: model, origin }) in &self.aliases {
            entries.push(&format!("model_aliases.{name}"), model.as_str().into(), origin);
        }
    }

    /// The user's prices, each by the full name of its model.
    pub fn prices(&self, providers: &Providers) -> Result<Prices, SetupError> {
        let full = |(name, tag): (&String, &WithOrigin<PriceTag>)| {
            let split = providers.split(name, false);
            let (provider, model) =
                split.map_err(|problem| SetupError::usage(format!("{}: prices: {problem}", tag.origin)))?;
            Ok((format!("{provider}/{model}"), tag.value))
        };
        Ok(Prices::new(self.prices.iter().map(full).collect::<Result<Vec<_>, SetupError>>()?))
    }
}

/// The settings of a provider, without its key.
fn shown_words(words: &ProviderWords) -> Value {
    let all = json!({
        "format": words.format.map(|format| format!("{format:?}").to_lowercase()),
        "base_url": words.base_url.as_ref().map(|base| without_secrets(&base.url)),
        "key": words.key.as_ref().map(|key| secret_of(key.origin())),
        "key_env": words.key_env,
        "requests_per_minute": words.limits.requests_per_minute,
        "tokens_per_minute": words.limits.tokens_per_minute,
        "concurrent": words.limits.concurrent,
        "tools": words.tools.map(|tools| format!("{tools:?}").to_lowercase()),
        "context_tokens": words.context_tokens,
        "max_output_tokens": words.max_output_tokens,
    });
    match all {
        Value::Object(all) => all.into_iter().filter(|(_, value)| !value.is_null()).collect(),
        other => other,
    }
}

impl RawProvider {
    fn words(self, path: &Path) -> ProviderWords {
        let at = |origin: Origin| origin.to_string();
        ProviderWords {
            format: self.format.map(|format| match format {
                RawFormat::Anthropic => Format::Anthropic,
                RawFormat::Responses => Format::Responses,
                RawFormat::Chat => Format::Chat,
            }),
            base_url: sourced(self.base_url, path)
                .map(|url| BaseUrl { url: url.value, origin: at(url.origin) }),
            key: sourced(self.key, path).map(|key| Key::new(key.value.into_text(), at(key.origin))),
            key_env: self.key_env,
            limits: Limits {
                requests_per_minute: self.requests_per_minute.map(NonZeroU32::get),
                tokens_per_minute: self.tokens_per_minute.map(NonZeroU64::get),
                concurrent: self.concurrent.map(NonZeroU32::get),
            },
            tools: self.tools.map(|tools| match tools {
                RawTools::Native => ToolCalls::Native,
                RawTools::Text => ToolCalls::Text,
                RawTools::Probe => ToolCalls::Probe,
            }),
            context_tokens: self.context_tokens.map(NonZeroU64::get),
            max_output_tokens: self.max_output_tokens.map(NonZeroU64::get),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use crate::settings::{Settings, file};

    fn read(text: &str) -> Result<Settings, String> {
        file::parse(text, Path::new("settings.yaml")).map_err(|error| error.text())
    }

    const FULL: &str = "\
providers:
  anthropic:
    key: sk-canary
    requests_per_minute: 50
    tokens_per_minute: 40000
    concurrent: 4
  lab:
    format: chat
    base_url: https://lab.example/api
    key_env: LAB_KEY
    tools: text
prices:
  lab/x: {input: 1, output: 2.5, cache_read: 0.1}
  claude-opus-5: {input: 3, output: 15}
";

    #[test]
    fn everything_about_a_provider_can_be_written_and_no_key_is_shown() {
        let settings = read(FULL).expect("settings");
        let variables = [("LAB_KEY".to_owned(), "lab-canary".to_owned())];
        let providers = settings.providers.providers(&variables);
        let anthropic = providers.endpoint("anthropic").expect("endpoint");
        assert_eq!(anthropic.key.as_ref().map(posse::Key::origin), Some("settings.yaml:3"));
        assert_eq!(anthropic.limits.requests_per_minute, Some(50));
        assert_eq!(
            (anthropic.limits.tokens_per_minute, anthropic.limits.concurrent),
            (Some(40_000), Some(4))
        );
        let lab = providers.endpoint("lab").expect("endpoint");
        assert_eq!((lab.base_url.as_str(), lab.tools), ("https://lab.example/api", posse::ToolCalls::Text));
        assert!(settings.providers.prices(&providers).is_ok());
        assert!(!format!("{settings:?}{anthropic:?}{lab:?}").contains("canary"));
    }

    #[test]
    fn mistakes_are_named_with_their_place_and_without_the_key() {
        for (text, part) in [
            (
                "providers:\n  lab:\n    base_uri: x\n",
                "settings.yaml:3: unknown key `providers.lab.base_uri` (did you mean `base_url`?)",
            ),
            ("providers:\n  lab: {requests_per_minute: 0}\n", "settings.yaml:2: "),
            ("providers:\n  lab: {key: sk-canary, tools: none}\n", "settings.yaml:2: "),
            ("prices:\n  lab/x: {input: 1}\n", "the key `output` is missing"),
            (
                "model: x\nproviders:\n  scripted: {key: k}\n",
                "settings.yaml:3: `scripted` cannot be the name of a provider",
            ),
            ("providers:\n  replay: {key: k}\n", "settings.yaml:2: `replay` cannot be"),
            ("providers:\n  my lab: {key: k}\n", "settings.yaml:2: `my lab` cannot be"),
            ("providers:\n  lab/x: {key: k}\n", "settings.yaml:2: `lab/x` cannot be"),
            (
                "providers:\n  lab:\n    key: canary\n    key_env: LAB\n",
                "settings.yaml:3: providers.lab has both `key` and `key_env`",
            ),
            (
                "providers:\n  lab:\n    sk-canary: x\n",
                "settings.yaml:3: unknown key `providers.lab.sk-c…`; known keys:",
            ),
            (
                "providers:\n  lab:\n    0123456789canary: x\n",
                "settings.yaml:3: unknown key `providers.lab.0123…`",
            ),
            ("x-a-long-text-of-many-words-that-is-no-canary: x\n", "settings.yaml:1: unknown key `x-a-…`"),
            ("providers:\n  lab: sk-canary\n", "settings.yaml:2: "),
            ("providers:\n  lab: {format: sk-canary}\n", "settings.yaml:2: "),
            ("providers:\n  lab: {concurrent: sk-canary}\n", "settings.yaml:2: "),
            ("prices:\n  lab/x: {input: -1, output: 2}\n", "settings.yaml:2: "),
        ] {
            let error = read(text).expect_err(text);
            assert!(error.contains(part) && !error.contains("canary"), "{error}");
        }
        let settings = read("prices:\n  alone: {input: 1, output: 2}\n").expect("settings");
        let providers = settings.providers.providers(&[]);
        let error = settings
            .providers
            .prices(&providers)
            .map(drop)
            .map_err(|error| error.text())
            .expect_err("no provider");
        assert!(error.starts_with("error: settings.yaml:2: prices: unknown model `alone`"), "{error}");
    }
}
