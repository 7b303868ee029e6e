//! The rules of a project's settings files, one layer per file.

use std::ops::Deref;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::rule::Rules;

/// A layer for each settings file of a project, the nearest first. They are never one list: the last match would let
/// one file override another.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProjectRules(Arc<[Rules]>);

impl Deref for ProjectRules {
    type Target = [Rules];

    fn deref(&self) -> &[Rules] {
        &self.0
    }
}

impl FromIterator<Rules> for ProjectRules {
    fn from_iter<I: IntoIterator<Item = Rules>>(layers: I) -> Self {
        Self(layers.into_iter().collect())
    }
}

impl Serialize for ProjectRules {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.iter())
    }
}

impl<'de> Deserialize<'de> for ProjectRules {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        /// Older journals have the rules of a single file.
        #[derive(Deserialize)]
        #[serde(untagged, expecting = "expected lists of rules")]
        enum RulesFormat {
            Layers(Vec<Rules>),
            One(Rules),
        }
        Ok(match RulesFormat::deserialize(deserializer)? {
            RulesFormat::Layers(layers) => layers.into_iter().collect(),
            RulesFormat::One(rules) => std::iter::once(rules).collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::Decision;
    use super::super::testing::rules;
    use super::*;

    #[test]
    fn the_rules_of_one_file_are_read_as_they_were_once_written() {
        let one = rules(&[("bash", Decision::Deny)]);
        let written = serde_json::to_string(&one).expect("JSON");
        let read: ProjectRules = serde_json::from_str(&written).expect("rules");
        assert_eq!(read, [one.clone()].into_iter().collect());
        let two: ProjectRules = [one.clone(), one].into_iter().collect();
        let written = serde_json::to_string(&two).expect("JSON");
        assert_eq!(serde_json::from_str::<ProjectRules>(&written).expect("rules"), two);
        assert!(serde_json::from_str::<ProjectRules>("[5]").is_err());
    }
}
