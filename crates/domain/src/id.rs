//! Ids that contain their parent's: run `k3f9ab2c`, its second child `k3f9ab2c.2`, that child's first `k3f9ab2c.2.1`.

use std::borrow::Borrow;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use thiserror::Error;

use crate::text::{QUOTE_MAX_CHARS, clip};

pub const RUN_ID_LEN: usize = 8;
/// Letters and digits of a run id. Letters that users confuse with others (`i l o u`) are omitted.
pub const RUN_ID_ALPHABET: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";
/// Maximum length of an agent id. No tree is deep enough for a longer one.
pub const AGENT_ID_MAX_LEN: usize = 128;

/// A text that is not a valid id.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("`{text}` is not {expected}")]
pub struct InvalidId {
    text: String,
    expected: &'static str,
}

/// The id of a run, which is also the id of its root agent.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RunId(Arc<str>);

impl RunId {
    /// Creates an id from 40 random bits that the caller drew.
    pub fn from_random(bits: u64) -> Self {
        let text: String = (0..RUN_ID_LEN)
            .map(|place| char::from(RUN_ID_ALPHABET[(bits >> (5 * place) & 31) as usize]))
            .collect();
        Self(text.into())
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The run's root agent.
    pub fn root(&self) -> AgentId {
        AgentId(self.0.clone())
    }
}

impl FromStr for RunId {
    type Err = InvalidId;

    fn from_str(text: &str) -> Result<Self, InvalidId> {
        let fits = text.len() == RUN_ID_LEN && text.bytes().all(|b| RUN_ID_ALPHABET.contains(&b));
        if fits {
            Ok(Self(text.into()))
        } else {
            Err(InvalidId {
                text: clip(text, QUOTE_MAX_CHARS),
                expected: "a run id (eight letters and digits)",
            })
        }
    }
}

/// The id of an agent; also its trace id.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct AgentId(Arc<str>);

impl AgentId {
    pub fn as_str(&self) -> &str {
        &self.0
    }

    pub fn run(&self) -> RunId {
        RunId(self.0[..RUN_ID_LEN].into())
    }

    pub fn is_root(&self) -> bool {
        self.0.len() == RUN_ID_LEN
    }

    /// Whether it is this agent or beneath it.
    pub fn is_within(&self, top: &AgentId) -> bool {
        let rest = self.as_str().strip_prefix(top.as_str());
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    }

    /// The parent, if this is not the root.
    pub fn parent(&self) -> Option<AgentId> {
        self.0.rfind('.').map(|dot| AgentId(self.0[..dot].into()))
    }

    /// The id of the child with this number. Numbers start at 1.
    pub fn child(&self, number: u32) -> AgentId {
        AgentId(format!("{}.{number}", self.0).into())
    }

    /// This agent's number among its siblings. The root has none.
    pub fn number(&self) -> Option<u32> {
        self.0.rfind('.').and_then(|dot| self.0[dot + 1..].parse().ok())
    }

    /// The number of ancestors.
    pub fn depth(&self) -> u32 {
        self.0.bytes().filter(|&b| b == b'.').count().try_into().unwrap_or(u32::MAX)
    }

    /// The id as models see and write it: relative to the run (`2.1`). The root is `0`.
    pub fn relative(&self) -> &str {
        if self.is_root() { "0" } else { &self.0[RUN_ID_LEN + 1..] }
    }

    /// Parses an id from a model, relative to `run`. A full id of the same run is accepted too.
    pub fn from_relative(run: &RunId, text: &str) -> Result<AgentId, InvalidId> {
        let expected = "a task id such as `2` or `2.1`";
        if text == "0" {
            return Ok(run.root());
        }
        let full = match text.strip_prefix(run.as_str()) {
            Some("") => return Ok(run.root()),
            Some(rest) if rest.starts_with('.') => text.to_owned(),
            _ => format!("{}.{text}", run.as_str()),
        };
        full.parse().map_err(|_| InvalidId { text: clip(text, QUOTE_MAX_CHARS), expected })
    }

    /// Whether `self` is `other` or one of its ancestors.
    pub fn contains(&self, other: &AgentId) -> bool {
        other.0.strip_prefix(&*self.0).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    }
}

impl FromStr for AgentId {
    type Err = InvalidId;

    fn from_str(text: &str) -> Result<Self, InvalidId> {
        let bad = || InvalidId {
            text: clip(text, QUOTE_MAX_CHARS),
            expected: "an agent id such as `k3f9ab2c.2.1`",
        };
        if text.len() > AGENT_ID_MAX_LEN || !text.is_char_boundary(RUN_ID_LEN.min(text.len())) {
            return Err(bad());
        }
        let (run, path) = text.split_at(RUN_ID_LEN.min(text.len()));
        run.parse::<RunId>().map_err(|_| bad())?;
        let numbers = match path.strip_prefix('.') {
            None if path.is_empty() => return Ok(Self(text.into())),
            None => return Err(bad()),
            Some(rest) => rest,
        };
        // Each id has one spelling: no empty part, no sign, no leading zero.
        let canonical =
            |part: &str| !part.starts_with('0') && part.parse::<u32>().is_ok_and(|n| n.to_string() == part);
        if numbers.split('.').all(canonical) { Ok(Self(text.into())) } else { Err(bad()) }
    }
}

macro_rules! text_id {
    ($name:ident) => {
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(&self.0)
            }
        }
        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
        impl Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }
        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(&self.0)
            }
        }
        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = std::borrow::Cow::<str>::deserialize(deserializer)?;
                text.parse().map_err(serde::de::Error::custom)
            }
        }
        impl schemars::JsonSchema for $name {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($name).into()
            }
            fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
                String::json_schema(generator)
            }
        }
    };
}

text_id!(RunId);
text_id!(AgentId);

#[cfg(test)]
mod tests {
    use super::*;

    fn agent(text: &str) -> AgentId {
        text.parse().unwrap()
    }

    #[test]
    fn ids_carry_their_parent() {
        let root = RunId::from_random(0x0012_3456_789a).root();
        let child = root.child(2);
        let grandchild = child.child(1);
        assert_eq!(grandchild.parent(), Some(child.clone()));
        assert_eq!(child.parent(), Some(root.clone()));
        assert_eq!(root.parent(), None);
        assert_eq!((root.depth(), child.depth(), grandchild.depth()), (0, 1, 2));
        assert_eq!(grandchild.relative(), "2.1");
        assert_eq!(AgentId::from_relative(&root.run(), "2.1").unwrap(), grandchild);
        assert!(root.contains(&grandchild) && child.contains(&child) && !grandchild.contains(&child));
    }

    #[test]
    fn a_prefix_twin_is_not_an_ancestor() {
        assert!(!agent("k3f9ab2c.1").contains(&agent("k3f9ab2c.12")));
    }

    #[test]
    fn only_one_spelling_of_an_id_is_accepted() {
        for bad in [
            "",
            "k3f9ab2",
            "k3f9ab2c.",
            "k3f9ab2c.0",
            "k3f9ab2c.01",
            "k3f9ab2c.+1",
            "k3f9ab2c..1",
            "k3f9ab2cx1",
            "K3F9AB2C",
            "äöüäöüäö",
        ] {
            assert!(bad.parse::<AgentId>().is_err(), "{bad}");
        }
        assert_eq!(agent("k3f9ab2c.4294967295").number(), Some(u32::MAX));
    }
}
