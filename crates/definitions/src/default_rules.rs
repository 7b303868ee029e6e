//! The rules of built-in agents with a shell: what they ask about before they do it.
//!
//! These rules are a convenience for users: they catch an agent that does in good faith what its user would want to be
//! asked about. They match only the beginning of a command, so a deliberate attempt gets past them. The boundary is the
//! sandbox: without the network nothing is pushed or published, and no process becomes root.

use std::sync::LazyLock;

use posse_domain::definition::Definition;
use posse_domain::permission::{Decision, Rule};

/// Operations that ask: those that leave the machine for good, and those that run as another user.
const ASKS: [&str; 28] = [
    // Visible to others at once.
    "bash:git push*",
    "bash:gh release *",
    "bash:gh pr merge*",
    "bash:glab release *",
    "bash:glab mr merge*",
    // Publishing packages and images.
    "bash:npm publish*",
    "bash:pnpm publish*",
    "bash:yarn publish*",
    "bash:yarn npm publish*",
    "bash:bun publish*",
    "bash:cargo publish*",
    "bash:cargo yank*",
    "bash:twine upload*",
    "bash:uv publish*",
    "bash:poetry publish*",
    "bash:gem push*",
    "bash:dotnet nuget push*",
    "bash:mvn deploy*",
    "bash:docker push*",
    "bash:podman push*",
    "bash:helm push*",
    // Running as another user.
    "bash:sudo *",
    "bash:su",
    "bash:su *",
    "bash:doas *",
    "bash:pkexec *",
    "bash:run0 *",
    // The network, for any program. Every definition asks for it anyway, and this row makes it explicit.
    "network",
];

static RULES: LazyLock<Vec<Rule>> = LazyLock::new(|| {
    // A test parses every row. Here an invalid pattern would be skipped, not applied.
    let rule = |text: &str| Some(Rule { pattern: text.parse().ok()?, decision: Decision::Ask });
    ASKS.iter().filter_map(|text| rule(text)).collect()
});

/// The rules of `coder` and `general`, and the first rules of every other definition with a shell.
pub fn default_rules() -> &'static [Rule] {
    &RULES
}

/// The definition with the default asks before its own rules, if it has a shell.
pub fn with_default_asks(mut definition: Definition) -> Definition {
    let asks = default_rules();
    if definition.has_shell() && !definition.rules.starts_with(asks) {
        definition.rules.splice(0..0, asks.iter().cloned());
    }
    definition
}

#[cfg(test)]
mod tests {
    use posse_domain::permission::{Operation, Rules};

    use super::*;

    #[test]
    fn every_entry_is_a_rule() {
        assert_eq!(default_rules().len(), ASKS.len());
    }

    #[test]
    fn what_leaves_the_machine_asks_and_the_rest_of_the_work_does_not() {
        let rules: Rules = default_rules().to_vec().into();
        let asks = |text: &str| rules.last_match(&Operation::parse(text)).map(|rule| rule.decision);
        for asked in [
            "bash:git push",
            "bash:git push --force origin main",
            "bash:npm publish --access public",
            "bash:cargo publish",
            "bash:docker push registry/x",
            "bash:sudo rm -rf /",
            "bash:su",
            "network",
        ] {
            assert_eq!(asks(asked), Some(Decision::Ask), "{asked}");
        }
        for free in [
            "bash:git status",
            "bash:git commit -m 'x'",
            "bash:cargo test",
            "bash:npm install",
            "bash:docker build .",
            "bash:summary.sh",
            "bash:sum file",
            "read:src/a.rs",
            "write:src/a.rs",
        ] {
            assert_eq!(asks(free), None, "{free}");
        }
    }
}
