//! Remembers which models have no native tool calls.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

/// The models that are known to have no native tool calls, shared by the whole process. Its creator stores it between
/// processes.
#[derive(Clone, Default)]
pub struct TextModels {
    shared: Arc<KnownModels>,
}

/// Called for each newly detected model.
type NotifyFn = Box<dyn Fn(&str) + Send + Sync>;

#[derive(Default)]
struct KnownModels {
    names: RwLock<BTreeSet<String>>,
    tell: Option<NotifyFn>,
}

impl TextModels {
    /// Takes the full names of the models that are known already. `tell` is called once for each newly detected model.
    /// It runs within a model call and must be quick.
    pub fn new(names: impl IntoIterator<Item = String>, tell: impl Fn(&str) + Send + Sync + 'static) -> Self {
        let names = RwLock::new(names.into_iter().collect());
        Self { shared: Arc::new(KnownModels { names, tell: Some(Box::new(tell)) }) }
    }

    pub fn remembered(&self) -> Vec<String> {
        self.shared.names.read().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect()
    }

    pub(crate) fn has(&self, full_name: &str) -> bool {
        self.shared.names.read().unwrap_or_else(PoisonError::into_inner).contains(full_name)
    }

    pub(crate) fn note(&self, full_name: &str) {
        let mut names = self.shared.names.write().unwrap_or_else(PoisonError::into_inner);
        let is_new = names.insert(full_name.to_owned());
        drop(names);
        if let Some(tell) = self.shared.tell.as_ref().filter(|_| is_new) {
            tell(full_name);
        }
    }
}

impl fmt::Debug for TextModels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.remembered()).finish()
    }
}
