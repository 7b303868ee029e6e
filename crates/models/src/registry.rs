//! Finds models by name for the engine, and loads each only once.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, PoisonError, RwLock};

use posse_engine::ports::{Model, ModelError, Models};

use crate::http::Http;
use crate::prices::Prices;
use crate::provider::{ProviderError, Providers};
use crate::provider_queue::ProviderQueues;
use crate::remote::Remote;
use crate::scripted::ScriptedModel;
use crate::wire::text_tools::TextModels;

/// The provider whose models are script files.
const SCRIPTED: &str = "scripted";

pub struct ModelRegistry {
    /// Script files are relative to this folder.
    base: PathBuf,
    providers: Providers,
    prices: Prices,
    http: Http,
    queues: ProviderQueues,
    text_models: TextModels,
    known: RwLock<HashMap<String, Arc<dyn Model>>>,
}

impl ModelRegistry {
    /// A registry in which `scripted/<file>` is relative to `base`.
    pub fn new(base: impl Into<PathBuf>) -> Self {
        Self {
            base: base.into(),
            providers: Providers::default(),
            prices: Prices::default(),
            http: Http::new(),
            queues: ProviderQueues::default(),
            text_models: TextModels::default(),
            known: RwLock::default(),
        }
    }

    /// Sets the user's settings of providers. Without them only providers that need no key are usable.
    pub fn providers(mut self, providers: Providers) -> Self {
        self.providers = providers;
        self
    }

    pub fn prices(mut self, prices: Prices) -> Self {
        self.prices = prices;
        self
    }

    /// Sets the HTTP client, for example one with a proxy.
    pub fn http(mut self, http: Http) -> Self {
        self.http = http;
        self
    }

    /// Sets the provider queues, which other registries of the process may share.
    pub fn provider_queues(mut self, queues: ProviderQueues) -> Self {
        self.queues = queues;
        self
    }

    /// Sets the memory of models without native tool calls.
    pub fn text_models(mut self, text_models: TextModels) -> Self {
        self.text_models = text_models;
        self
    }

    /// The full name of a model, `provider/model`, for a bare name or an alias of a provider. Does not check that the
    /// model exists. A model of the embedder and a script keep their names.
    pub fn full_name(&self, name: &str) -> Result<String, ProviderError> {
        let is_script = name.split_once('/').is_some_and(|(provider, _)| provider == SCRIPTED);
        if is_script || self.get(name).is_some() {
            return Ok(name.to_owned());
        }
        let (provider, model) = self.providers.split(name, false)?;
        Ok(format!("{provider}/{model}"))
    }

    /// Adds a model under a name such as `mock/x`, replacing any other model of that name.
    pub fn insert(&self, name: impl Into<String>, model: Arc<dyn Model>) {
        self.known.write().unwrap_or_else(PoisonError::into_inner).insert(name.into(), model);
    }

    /// The full name of a usable model: its provider, base URL and key are known.
    pub fn canonical_name(&self, name: &str) -> Result<String, ProviderError> {
        let full = self.full_name(name)?;
        if self.get(&full).is_none()
            && let Some((provider, _)) = full.split_once('/').filter(|(provider, _)| *provider != SCRIPTED)
        {
            self.providers.endpoint(provider)?;
        }
        Ok(full)
    }

    fn get(&self, name: &str) -> Option<Arc<dyn Model>> {
        self.known.read().unwrap_or_else(PoisonError::into_inner).get(name).cloned()
    }

    fn load(&self, name: &str) -> Result<Arc<dyn Model>, ModelError> {
        match name.split_once('/') {
            Some((SCRIPTED, "")) => Err(ModelError::Unknown(format!(
                "the model `{name}` names no file: write `{SCRIPTED}/<file>`"
            ))),
            Some((SCRIPTED, file)) => {
                let script = ScriptedModel::load_as(&self.base.join(file), file);
                let script = script.map_err(|error| ModelError::Unusable(error.to_string()))?;
                Ok(Arc::new(script))
            }
            _ => Ok(self.connect(name)?),
        }
    }

    /// A model of a provider. Sends nothing before its first call.
    fn connect(&self, name: &str) -> Result<Arc<dyn Model>, ProviderError> {
        let (provider, model) = self.providers.split(name, false)?;
        let endpoint = self.providers.endpoint(&provider)?;
        let facts = self.prices.look_up(&provider, &model, self.providers.is_local(&provider));
        let facts = self.providers.facts(&provider, facts);
        let queue = self.queues.of(&endpoint);
        Ok(Arc::new(Remote::new(&endpoint, &model, facts, &self.http, queue, &self.text_models)))
    }
}

impl From<ProviderError> for ModelError {
    fn from(error: ProviderError) -> Self {
        let text = error.to_string();
        match error {
            ProviderError::UnknownProvider { .. }
            | ProviderError::UnknownModel { .. }
            | ProviderError::NoModel { .. } => Self::Unknown(text),
            ProviderError::NoKey { .. } | ProviderError::BadKey { .. } => Self::Unauthenticated(text),
            ProviderError::NoBaseUrl { .. } | ProviderError::BadBaseUrl { .. } => Self::Unusable(text),
        }
    }
}

impl Models for ModelRegistry {
    fn resolve(&self, name: &str) -> Result<Arc<dyn Model>, ModelError> {
        let name = &self.full_name(name)?;
        if let Some(model) = self.get(name) {
            return Ok(model);
        }
        let loaded = self.load(name)?;
        // Two callers may both have read the file. The first one's model stays, so that all share one.
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        Ok(known.entry(name.to_owned()).or_insert(loaded).clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scripted::{FnModel, ScriptedAnswer};

    fn registry() -> ModelRegistry {
        ModelRegistry::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/scripts"))
    }

    fn refusal(name: &str) -> String {
        registry().resolve(name).err().expect(name).to_string()
    }

    #[test]
    fn a_script_is_loaded_once() {
        let registry = registry();
        let first = registry.resolve("scripted/plan.yaml").expect("model");
        let second = registry.resolve("scripted/plan.yaml").expect("model");
        assert!(Arc::ptr_eq(&first, &second));
    }

    #[test]
    fn a_script_that_cannot_be_used_is_named() {
        assert!(refusal("scripted/none.yaml").starts_with("none.yaml: cannot read the script: "));
        assert!(
            refusal("scripted/broken.yaml").starts_with("broken.yaml:5: unknown field \"repply\", expected ")
        );
        assert_eq!(refusal("scripted/"), "the model `scripted/` names no file: write `scripted/<file>`");
    }

    #[test]
    fn an_embedders_model_stands_beside_scripts() {
        let registry = registry();
        registry.insert("mock/echo", Arc::new(FnModel::new(|_| ScriptedAnswer::text("echo"))));
        assert!(registry.resolve("mock/echo").is_ok());
        assert!(registry.resolve("scripted/plan.yaml").is_ok());
        assert!(refusal("mock/echo").starts_with("unknown provider `mock`"));
        assert_eq!(registry.full_name("mock/echo").as_deref(), Ok("mock/echo"));
    }

    #[test]
    fn a_providers_model_is_made_once_and_only_with_a_key() {
        assert!(
            refusal("anthropic/claude-opus-5")
                .starts_with("anthropic needs an API key: set ANTHROPIC_API_KEY")
        );
        assert!(refusal("acme/x").starts_with("unknown provider `acme`"));
        let key = [("ANTHROPIC_API_KEY".to_owned(), "sk-canary".to_owned())];
        let registry = registry().providers(Providers::new([], key));
        let full = registry.resolve("anthropic/claude-opus-5").expect("model");
        assert!(full.facts().price.is_some());
        assert!(Arc::ptr_eq(&full, &registry.resolve("claude-opus-5").expect("the same by its bare name")));
        assert_eq!(registry.full_name("claude-opus-5").as_deref(), Ok("anthropic/claude-opus-5"));
        assert!(registry.resolve("ollama/qwen3:8b").is_ok(), "no key is wanted");
    }
}
