//! A rule, and a list of rules in which the last match wins.

use std::borrow::Cow;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::operation::Operation;
use super::pattern::Pattern;

/// Maximum number of rules in one list. More is a mistake, and every call searches them.
pub const RULES_MAX: usize = 1000;

/// The decision of a layer about an operation. Ordered: deny < ask < allow, and the lowest wins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Decision {
    /// The operation is forbidden.
    Deny,
    /// A user decides.
    Ask,
    /// The operation is allowed.
    Allow,
}

impl fmt::Display for Decision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Decision::Deny => "deny",
            Decision::Ask => "ask",
            Decision::Allow => "allow",
        })
    }
}

/// `pattern -> decision`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// The operations that the rule matches.
    pub pattern: Pattern,
    /// The decision for these operations.
    pub decision: Decision,
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} -> {}", self.pattern, self.decision)
    }
}

/// A list of rules, shared instead of copied: ten thousand siblings use the same one.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Rules(Arc<[Rule]>);

impl Rules {
    /// The rule that decides the operation: the last match.
    pub fn last_match(&self, operation: &Operation<'_>) -> Option<&Rule> {
        self.0.iter().rev().find(|rule| rule.pattern.matches(operation))
    }
}

impl Deref for Rules {
    type Target = [Rule];

    fn deref(&self) -> &[Rule] {
        &self.0
    }
}

impl From<Vec<Rule>> for Rules {
    fn from(rules: Vec<Rule>) -> Self {
        Self(rules.into())
    }
}

impl FromIterator<Rule> for Rules {
    fn from_iter<I: IntoIterator<Item = Rule>>(rules: I) -> Self {
        Self(rules.into_iter().collect())
    }
}

impl fmt::Debug for Rules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

impl Serialize for Rules {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.iter())
    }
}

impl<'de> Deserialize<'de> for Rules {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let rules = Vec::<Rule>::deserialize(deserializer)?;
        if rules.len() > RULES_MAX {
            let text = format!("{} rules, more than the {RULES_MAX} accepted", rules.len());
            return Err(serde::de::Error::custom(text));
        }
        Ok(rules.into())
    }
}

impl JsonSchema for Rules {
    fn schema_name() -> Cow<'static, str> {
        "Rules".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "array",
            "items": generator.subschema_for::<Rule>(),
            "maxItems": RULES_MAX,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lowest_decision_is_deny() {
        assert!(Decision::Deny < Decision::Ask && Decision::Ask < Decision::Allow);
    }

    #[test]
    fn a_rule_is_read_strictly() {
        let text = r#"{"pattern":"bash:git push*","decision":"deny"}"#;
        let rule: Rule = serde_json::from_str(text).expect("rule");
        assert_eq!(rule.to_string(), "bash:git push* -> deny");
        assert_eq!(serde_json::to_string(&rule).expect("json"), text);
        for (bad, named) in [
            (r#"{"pattern":"bash","decision":"deny","reason":"x"}"#, "reason"),
            (r#"{"pattern":"bash"}"#, "decision"),
            (r#"{"pattern":"bash:","decision":"deny"}"#, "`bash:`"),
            (r#"{"pattern":"bash","decision":"maybe"}"#, "maybe"),
        ] {
            let error = serde_json::from_str::<Rule>(bad).expect_err(bad).to_string();
            assert!(error.contains(named), "{error}");
        }
    }

    #[test]
    fn the_last_match_wins() {
        let rule = |pattern: &str, decision| Rule { pattern: pattern.parse().expect(pattern), decision };
        let rules: Rules = vec![
            rule("bash", Decision::Allow),
            rule("bash:git push*", Decision::Deny),
            rule("bash:git push --dry-run*", Decision::Ask),
        ]
        .into();
        let say = |text| rules.last_match(&Operation::parse(text)).map(|rule| rule.decision);
        assert_eq!(say("bash:ls"), Some(Decision::Allow));
        assert_eq!(say("bash:git push"), Some(Decision::Deny));
        assert_eq!(say("bash:git push --dry-run origin"), Some(Decision::Ask));
        assert_eq!(say("read:a"), None);
    }

    #[test]
    fn too_many_rules_are_refused() {
        let many = vec![r#"{"pattern":"bash","decision":"allow"}"#; RULES_MAX + 1].join(",");
        let error = serde_json::from_str::<Rules>(&format!("[{many}]")).expect_err("too many").to_string();
        assert!(error.contains("1001 rules"), "{error}");
    }
}
