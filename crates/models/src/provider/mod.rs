//! Resolves providers by name for the registry: the format, the base URL and the key of each.
//!
//! [`Provider`] is a row of the table. [`Providers`] adds the user's settings, environment variables and flags. Nothing
//! else is read. Both together give an [`Endpoint`](crate::Endpoint).

mod address;
mod ollama;
mod providers;
mod table;

use thiserror::Error;

pub use ollama::ollama_models;
pub use providers::{BaseUrl, ProviderWords, Providers};

use crate::endpoint::{Format, ToolCalls};

/// A provider in the built-in table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Provider {
    /// The name of the provider, the first part of its models' names.
    pub name: &'static str,
    pub aliases: &'static [&'static str],
    pub format: Format,
    /// The base URL, unless the user sets another. `None` if it differs from user to user.
    pub base_url: Option<&'static str>,
    /// Variables with the base URL. The first that is set counts.
    pub url_variables: &'static [&'static str],
    /// Variables with the key. The first that is set counts.
    pub key_variables: &'static [&'static str],
    pub key: KeyNeed,
    /// Whether the provider runs on the user's own machine, where calls cost nothing.
    pub is_local: bool,
    /// How its models call tools, unless the user sets it.
    pub tools: ToolCalls,
    /// The model of a run that names none.
    pub default_model: Option<&'static str>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyNeed {
    /// No call works without a key.
    Needed,
    /// It depends on the server's operator.
    Optional,
}

impl Provider {
    /// All providers, the preferred ones first.
    pub fn all() -> &'static [Provider] {
        table::PROVIDERS
    }

    pub fn find(name: &str) -> Option<&'static Provider> {
        Self::all().iter().find(|provider| provider.name == name || provider.aliases.contains(&name))
    }

    /// The provider whose models have names that begin like this name.
    fn of_family(model: &str) -> Option<&'static Provider> {
        let model = model.to_ascii_lowercase();
        let family = table::FAMILIES.iter().find(|(start, _)| model.starts_with(start))?;
        Self::find(family.1)
    }
}

/// Why a model name does not resolve to a usable endpoint.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ProviderError {
    /// The provider is neither in the table nor in the settings.
    #[error("unknown provider `{name}`{hint}; available: {known}, and those of the settings (`providers`)")]
    UnknownProvider {
        name: String,
        /// The name that was probably meant, as text.
        hint: String,
        known: String,
    },
    /// A name without a provider that several providers could serve.
    #[error("unknown model `{name}`{hint}; write it as provider/model, for example `{example}`")]
    UnknownModel {
        name: String,
        /// A full name that may be meant.
        example: String,
        /// The name that was probably meant, as text.
        hint: String,
    },
    #[error("`{provider}/` names no model: write `{provider}/<model>`{example}")]
    NoModel {
        provider: String,
        /// A model of the provider, as text.
        example: String,
    },
    /// The provider has no known base URL.
    #[error(
        "`{provider}` has no base URL; set providers.{provider}.base_url in the settings, or one for this run"
    )]
    NoBaseUrl { provider: String },
    #[error("{origin}: the base URL of {provider} {problem}")]
    BadBaseUrl { provider: String, origin: String, problem: String },
    #[error("{provider} needs an API key: set {variables}, or providers.{provider}.key_env in the settings")]
    NoKey {
        provider: String,
        /// The variables that may contain the key.
        variables: String,
    },
    /// The key has invalid characters or an invalid length.
    #[error("{origin}: the key of {provider} {problem}")]
    BadKey {
        provider: String,
        origin: String,
        /// The problem, never the key.
        problem: &'static str,
    },
}

impl ProviderError {
    /// Whether the error is about a key.
    pub fn is_about_key(&self) -> bool {
        matches!(self, ProviderError::NoKey { .. } | ProviderError::BadKey { .. })
    }
}

#[cfg(test)]
mod tests;
