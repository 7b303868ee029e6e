//! Providers by name: who speaks what, where, and with which key.
//!
//! [`Provider`] is what Posse knows of one; [`Providers`] adds what the person said: in the settings, the environment
//! and flags, and nowhere else. From both comes an [`Endpoint`](crate::Endpoint).

mod address;
mod ollama;
mod said;
mod table;

use thiserror::Error;

pub use ollama::ollama_models;
pub use said::{BaseUrl, ProviderWords, Providers};

use crate::endpoint::{Format, ToolCalls};

/// What Posse knows of a provider.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Provider {
    /// Its name, the first part of its models' names.
    pub name: &'static str,
    /// Other names it goes by.
    pub aliases: &'static [&'static str],
    /// What it speaks.
    pub format: Format,
    /// Where it is, unless the person says otherwise; none if only they know.
    pub base_url: Option<&'static str>,
    /// Variables that say where it is; the first that is set counts.
    pub url_variables: &'static [&'static str],
    /// Variables that hold its key; the first that is set counts.
    pub key_variables: &'static [&'static str],
    /// Whether it wants a key.
    pub key: KeyNeed,
    /// Whether it runs on the person's own machine, where calls cost nothing.
    pub is_local: bool,
    /// How its models call tools, unless the person says otherwise.
    pub tools: ToolCalls,
    /// The model of a run that names none.
    pub default_model: Option<&'static str>,
}

/// Whether a provider wants a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyNeed {
    /// Nothing works without one.
    Needed,
    /// It depends on who runs it.
    Optional,
}

impl Provider {
    /// All providers, the preferred ones first.
    pub fn all() -> &'static [Provider] {
        table::PROVIDERS
    }

    /// The provider of this name.
    pub fn find(name: &str) -> Option<&'static Provider> {
        Self::all().iter().find(|provider| provider.name == name || provider.aliases.contains(&name))
    }

    /// The provider whose models have names that begin like this one.
    fn of_family(model: &str) -> Option<&'static Provider> {
        let model = model.to_ascii_lowercase();
        let family = table::FAMILIES.iter().find(|(start, _)| model.starts_with(start))?;
        Self::find(family.1)
    }
}

/// Why there is no model of a name, or no way to it.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ProviderError {
    /// Nobody knows the provider.
    #[error(
        "there is no provider `{name}`{hint}; known are {known}, and those of your settings (`providers`)"
    )]
    UnknownProvider {
        /// The name.
        name: String,
        /// The name that was probably meant, in words.
        hint: String,
        /// All names.
        known: String,
    },
    /// A name without a provider that could be anybody's.
    #[error("whose model is `{name}`?{hint} Write it as provider/model, for example `ollama/{name}`")]
    UnknownModel {
        /// The name.
        name: String,
        /// The name that was probably meant, in words.
        hint: String,
    },
    /// A provider without a model.
    #[error("`{provider}/` names no model: write `{provider}/<model>`{example}")]
    NoModel {
        /// The provider.
        provider: String,
        /// A model it has, in words.
        example: String,
    },
    /// It is not known where the provider is.
    #[error(
        "where is `{provider}`? Give its base URL with --base-url, or as providers.{provider}.base_url in the settings"
    )]
    NoBaseUrl {
        /// The provider.
        provider: String,
    },
    /// A base URL that is not one.
    #[error("{origin}: the base URL of {provider} {problem}")]
    BadBaseUrl {
        /// The provider.
        provider: String,
        /// Where it was given.
        origin: String,
        /// What is wrong.
        problem: String,
    },
    /// There is no key.
    #[error("{provider} wants a key: set {variables}, or providers.{provider}.key_env in the settings")]
    NoKey {
        /// The provider.
        provider: String,
        /// The variables that were looked at.
        variables: String,
    },
    /// A key that cannot be one.
    #[error("{origin}: the key of {provider} {problem}")]
    BadKey {
        /// The provider.
        provider: String,
        /// Where it was given.
        origin: String,
        /// What is wrong; never the key.
        problem: &'static str,
    },
}

impl ProviderError {
    /// Whether it is about a key.
    pub fn is_about_key(&self) -> bool {
        matches!(self, ProviderError::NoKey { .. } | ProviderError::BadKey { .. })
    }
}

#[cfg(test)]
mod tests;
