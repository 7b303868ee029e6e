//! API types of providers and their models.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A provider of models.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ModelProvider {
    /// The provider's name, the first part of the names of its models.
    pub name: String,
    /// Whether a run could call its models: its base URL is known, and its key if it needs one.
    pub usable: bool,
    /// Where its key comes from; null if there is no key. The key itself is never printed.
    pub key: Option<String>,
    /// What is missing, or wrong.
    pub problem: Option<String>,
    /// The model of a run that names none.
    pub default_model: Option<String>,
}

/// A model with a known price.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct KnownModel {
    /// The full name, `provider/model`.
    pub name: String,
    /// The price of input, in dollars for a million tokens.
    pub input_usd: f64,
    /// The price of output, in dollars for a million tokens.
    pub output_usd: f64,
    /// How many tokens a conversation may have; null if that is not known.
    pub context_tokens: Option<u64>,
}

/// A short name of a model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ModelAlias {
    /// The short name.
    pub name: String,
    /// The model that it means.
    pub model: String,
}

/// The providers, the models with known prices, and the short names of models.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ModelList {
    /// The providers, the preferred ones first.
    pub providers: Vec<ModelProvider>,
    /// The models with known prices, by name. Others can be used too.
    pub models: Vec<KnownModel>,
    /// The short names.
    pub aliases: Vec<ModelAlias>,
    /// The date of the built-in prices.
    pub prices_taken: String,
}
