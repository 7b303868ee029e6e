//! Keeps the JSON of tool lists, which is most of a request: all agents of a run have the same few lists, and each is
//! written once instead of in every call.

use std::sync::{Arc, Mutex, PoisonError};

use posse_agent::tool_spec::ToolSpec;
use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};

/// A run has a list for each definition that its agents have.
const LISTS_MAX: usize = 32;

/// Lists are the same if they are one allocation, which is held as long as it is listed here.
type WrittenList = (Arc<[Arc<ToolSpec>]>, Arc<RawValue>);

/// The lists that were written in the format of one model. Clones share them.
#[derive(Debug, Clone, Default)]
pub(crate) struct ToolLists(Arc<Mutex<Vec<WrittenList>>>);

impl ToolLists {
    /// The JSON of a list, which `write` converts to the format's own type; `None` for an empty list.
    pub(crate) fn json<'a, T: Serialize>(
        &self,
        tools: &'a Arc<[Arc<ToolSpec>]>,
        write: impl FnOnce(&'a [Arc<ToolSpec>]) -> T,
    ) -> Option<Arc<RawValue>> {
        if tools.is_empty() {
            return None;
        }
        let mut lists = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(at) = lists.iter().position(|(known, _)| Arc::ptr_eq(known, tools)) {
            // The one that was used last is the last.
            lists[at..].rotate_left(1);
            return lists.last().map(|(_, json)| json.clone());
        }
        // Schemas are plain JSON, which can always be written.
        let json: Arc<RawValue> = to_raw_value(&write(tools)).ok()?.into();
        if lists.len() == LISTS_MAX {
            lists.remove(0);
        }
        lists.push((tools.clone(), json.clone()));
        Some(json)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(name: &str) -> Arc<[Arc<ToolSpec>]> {
        let input_schema = serde_json::json!({"type": "object"});
        [Arc::new(ToolSpec { name: name.to_owned(), description: String::new(), input_schema })].into()
    }

    fn names(tools: &[Arc<ToolSpec>]) -> Vec<&str> {
        tools.iter().map(|tool| tool.name.as_str()).collect()
    }

    #[test]
    fn a_list_is_written_once() {
        let lists = ToolLists::default();
        let read = list("read");
        let json = lists.json(&read, names).expect("not empty");
        assert_eq!(json.get(), r#"["read"]"#);
        let again = lists.clone().json(&read, |_| -> Vec<&str> { panic!("written before") });
        assert!(Arc::ptr_eq(&again.expect("kept"), &json));
        assert_eq!(lists.json(&list("grep"), names).expect("not empty").get(), r#"["grep"]"#);
        assert!(lists.json(&Arc::default(), names).is_none());
    }

    #[test]
    fn only_so_many_lists_are_kept() {
        let lists = ToolLists::default();
        let all: Vec<_> = (0..=LISTS_MAX).map(|number| list(&number.to_string())).collect();
        for tools in &all {
            lists.json(tools, names);
            lists.json(&all[0], names);
        }
        assert_eq!(lists.0.lock().expect("no panic").len(), LISTS_MAX);
        assert_eq!(
            Arc::strong_count(&all[1]),
            1,
            "the one that was not used for the longest time was dropped"
        );
        assert_eq!(Arc::strong_count(&all[0]), 2);
    }
}
