//! What the built-in agents with a shell ask about before they do it.
//!
//! These rules are for people's comfort: they catch an agent that does in good faith what its person would rather
//! have been asked about. They read the beginning of a command and nothing more, so anybody who means to gets past
//! them. The boundary is the sandbox: without the network nothing is pushed or published, and nobody becomes root.

use std::sync::LazyLock;

use posse_domain::definition::Definition;
use posse_domain::permission::{Decision, Rule};

/// Operations that ask: what leaves the machine for good, and what wants to be somebody else.
const ASKS: [&str; 28] = [
    // What others see at once.
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
    // Becoming somebody else.
    "bash:sudo *",
    "bash:su",
    "bash:su *",
    "bash:doas *",
    "bash:pkexec *",
    "bash:run0 *",
    // The network, for whatever is started: every definition asks for it anyway; here it is said.
    "network",
];

static RULES: LazyLock<Vec<Rule>> = LazyLock::new(|| {
    // The table is text that a test reads; a pattern that were none would be left out, not believed.
    let rule = |text: &str| Some(Rule { pattern: text.parse().ok()?, decision: Decision::Ask });
    ASKS.iter().filter_map(|text| rule(text)).collect()
});

/// The rules of `coder` and `general`, and the first ones of every other definition with a shell.
pub fn default_rules() -> &'static [Rule] {
    &RULES
}

/// The same definition, which asks as the built-in ones with a shell do wherever its own rules do not say otherwise.
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
