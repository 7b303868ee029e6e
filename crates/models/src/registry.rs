//! Finds models by name, and loads each only once.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, PoisonError, RwLock};

use posse_engine::ports::{Model, Models};

use crate::http::Http;
use crate::prices::Prices;
use crate::provider::{ProviderError, Providers};
use crate::provider_queue::ProviderQueues;
use crate::remote::Remote;
use crate::scripted::ScriptedModel;
use crate::wire::text_tools::TextModels;

/// The provider whose models are script files.
const SCRIPTED: &str = "scripted";

/// The models of a process, by name.
pub struct ModelRegistry {
    /// Script files are named relative to this folder.
    base: PathBuf,
    providers: Providers,
    prices: Prices,
    http: Http,
    lines: ProviderQueues,
    text_models: TextModels,
    known: RwLock<HashMap<String, Arc<dyn Model>>>,
}

impl ModelRegistry {
    /// A catalog in which `scripted/<file>` is relative to `base`.
    pub fn new(base: impl Into<PathBuf>) -> Self {
        Self {
            base: base.into(),
            providers: Providers::default(),
            prices: Prices::default(),
            http: Http::new(),
            lines: ProviderQueues::default(),
            text_models: TextModels::default(),
            known: RwLock::default(),
        }
    }

    /// The same with what a person said about providers. Without this only those are reached that want no key.
    pub fn providers(mut self, providers: Providers) -> Self {
        self.providers = providers;
        self
    }

    /// The same with the person's own prices.
    pub fn prices(mut self, prices: Prices) -> Self {
        self.prices = prices;
        self
    }

    /// The same through this HTTP: with a proxy, for example.
    pub fn http(mut self, http: Http) -> Self {
        self.http = http;
        self
    }

    /// The same with what is remembered of models without tool calls.
    pub fn text_models(mut self, text_models: TextModels) -> Self {
        self.text_models = text_models;
        self
    }

    /// The full name of a model, `provider/model`: what a bare name means, and an alias of a provider. Nothing is
    /// looked for; a model of the embedder's own and a script keep their names.
    pub fn full_name(&self, name: &str) -> Result<String, ProviderError> {
        let is_script = name.split_once('/').is_some_and(|(provider, _)| provider == SCRIPTED);
        if is_script || self.get(name).is_some() {
            return Ok(name.to_owned());
        }
        let (provider, model) = self.providers.split(name, false)?;
        Ok(format!("{provider}/{model}"))
    }

    /// Adds a model under a name such as `mock/x`, in place of any other of that name.
    pub fn insert(&self, name: impl Into<String>, model: Arc<dyn Model>) {
        self.known.write().unwrap_or_else(PoisonError::into_inner).insert(name.into(), model);
    }

    /// The full name of a model that can be asked: its provider is known, and so are its place and its key.
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

    fn load(&self, name: &str) -> Result<Arc<dyn Model>, String> {
        match name.split_once('/') {
            Some((SCRIPTED, "")) => {
                Err(format!("the model `{name}` names no file: write `{SCRIPTED}/<file>`"))
            }
            Some((SCRIPTED, file)) => {
                let script =
                    ScriptedModel::load_as(&self.base.join(file), file).map_err(|error| error.to_string())?;
                Ok(Arc::new(script))
            }
            _ => self.connect(name).map_err(|error| error.to_string()),
        }
    }

    /// A provider's model. Nothing is sent before it is asked.
    fn connect(&self, name: &str) -> Result<Arc<dyn Model>, ProviderError> {
        let (provider, model) = self.providers.split(name, false)?;
        let endpoint = self.providers.endpoint(&provider)?;
        let facts = self.prices.look_up(&provider, &model, self.providers.is_local(&provider));
        let facts = self.providers.facts(&provider, facts);
        let line = self.lines.of(&endpoint);
        Ok(Arc::new(Remote::new(&endpoint, &model, facts, &self.http, line, &self.text_models)))
    }
}

impl Models for ModelRegistry {
    fn resolve(&self, name: &str) -> Result<Arc<dyn Model>, String> {
        let name = &self.full_name(name).map_err(|error| error.to_string())?;
        if let Some(model) = self.get(name) {
            return Ok(model);
        }
        let loaded = self.load(name)?;
        // Two callers may both have read the file; the first one's model stays, so that all share one.
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        Ok(known.entry(name.to_owned()).or_insert(loaded).clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scripted::{FnModel, ScriptedAnswer};

    fn catalog() -> ModelRegistry {
        ModelRegistry::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/scripts"))
    }

    fn refusal(name: &str) -> String {
        catalog().resolve(name).err().expect(name)
    }

    #[test]
    fn a_script_is_loaded_once() {
        let catalog = catalog();
        let first = catalog.resolve("scripted/plan.yaml").expect("model");
        let second = catalog.resolve("scripted/plan.yaml").expect("model");
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
        let catalog = catalog();
        catalog.insert("mock/echo", Arc::new(FnModel::new(|_| ScriptedAnswer::text("echo"))));
        assert!(catalog.resolve("mock/echo").is_ok());
        assert!(catalog.resolve("scripted/plan.yaml").is_ok());
        assert!(refusal("mock/echo").starts_with("there is no provider `mock`"));
        assert_eq!(catalog.full_name("mock/echo").as_deref(), Ok("mock/echo"));
    }

    #[test]
    fn a_providers_model_is_made_once_and_only_with_a_key() {
        assert!(
            refusal("anthropic/claude-opus-5").starts_with("anthropic wants a key: set ANTHROPIC_API_KEY")
        );
        assert!(refusal("acme/x").starts_with("there is no provider `acme`"));
        let key = [("ANTHROPIC_API_KEY".to_owned(), "sk-canary".to_owned())];
        let catalog = catalog().providers(Providers::new([], key));
        let full = catalog.resolve("anthropic/claude-opus-5").expect("model");
        assert!(full.facts().price.is_some());
        assert!(Arc::ptr_eq(&full, &catalog.resolve("claude-opus-5").expect("the same by its bare name")));
        assert_eq!(catalog.full_name("claude-opus-5").as_deref(), Ok("anthropic/claude-opus-5"));
        assert!(catalog.resolve("ollama/qwen3:8b").is_ok(), "no key is wanted");
    }
}
