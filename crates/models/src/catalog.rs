//! Finds models by name, and loads each only once.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, PoisonError, RwLock};

use posse_engine::ports::{Model, Models};

use crate::scripted::Scripted;

/// The provider whose models are script files.
const SCRIPTED: &str = "scripted";

/// The models of a process, by name.
pub struct Catalog {
    /// Script files are named relative to this folder.
    base: PathBuf,
    known: RwLock<HashMap<String, Arc<dyn Model>>>,
}

impl Catalog {
    /// A catalog in which `scripted/<file>` is relative to `base`.
    pub fn new(base: impl Into<PathBuf>) -> Self {
        Self { base: base.into(), known: RwLock::default() }
    }

    /// Adds a model under a name such as `mock/x`, in place of any other of that name.
    pub fn insert(&self, name: impl Into<String>, model: Arc<dyn Model>) {
        self.known.write().unwrap_or_else(PoisonError::into_inner).insert(name.into(), model);
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
                    Scripted::load_as(&self.base.join(file), file).map_err(|error| error.to_string())?;
                Ok(Arc::new(script))
            }
            _ => Err(self.unknown(name)),
        }
    }

    fn unknown(&self, name: &str) -> String {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        let is_script = |name: &str| name.split_once('/').is_some_and(|(provider, _)| provider == SCRIPTED);
        let mut others: Vec<&str> =
            known.keys().map(String::as_str).filter(|name| !is_script(name)).collect();
        others.sort_unstable();
        others.insert(0, "scripted/<file>");
        format!("there is no model `{name}`; available now: `{}`", others.join("`, `"))
    }
}

impl Models for Catalog {
    fn resolve(&self, name: &str) -> Result<Arc<dyn Model>, String> {
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

    fn catalog() -> Catalog {
        Catalog::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/scripts"))
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
        assert_eq!(
            catalog.resolve("acme/x").err().as_deref(),
            Some("there is no model `acme/x`; available now: `scripted/<file>`, `mock/echo`")
        );
        assert_eq!(refusal("mock/echo"), "there is no model `mock/echo`; available now: `scripted/<file>`");
    }
}
