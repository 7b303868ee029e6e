//! Checks which crates may depend on which, from the manifests.
//!
//! `domain <- {agent, definitions} <- engine <- {store, models, files, sandbox, workspace, egress, tools} <- posse <-
//! setup <- protocols <- cli`: a crate may use crates of a lower layer, and never of its own. Dev-dependencies are
//! exempt: a test of a lower crate may use a real store, because none of it reaches the product.

use serde_json::Value;

use super::Breach;

/// Each crate with its layer. Test crates are on top: they may use anything, and only each other.
const LAYERS: &[(&str, u8)] = &[
    ("posse-domain", 0),
    ("posse-agent", 1),
    ("posse-definitions", 1),
    ("posse-engine", 2),
    ("posse-store", 3),
    ("posse-models", 3),
    ("posse-tools", 3),
    ("posse-files", 3),
    ("posse-sandbox", 3),
    ("posse-workspace", 3),
    ("posse-egress", 3),
    ("posse", 4),
    ("posse-setup", 5),
    ("posse-protocols", 6),
    ("posse-front-end", 6),
    ("posse-cli", 7),
    ("posse-testkit", 8),
    ("xtask", 9),
];

/// Exceptions within a layer, in this direction: tools and workspaces use files beneath a handle, programs in a sandbox
/// and, for tools, the only network client.
const EXCEPTIONS: &[(&str, &str)] = &[
    ("posse-sandbox", "posse-files"),
    ("posse-workspace", "posse-files"),
    ("posse-workspace", "posse-sandbox"),
    ("posse-tools", "posse-files"),
    ("posse-tools", "posse-sandbox"),
    ("posse-tools", "posse-egress"),
];

/// Crates between users and the library.
const FRONT_ENDS: &[&str] = &["posse-protocols", "posse-front-end", "posse-cli"];

/// The crates of Posse that a front end may use. The command also has the servers, as verbs.
const USED_BY_FRONT_ENDS: &[&str] = &["posse", "posse-setup", "posse-protocols"];

/// Foreign crates that would bring in what a crate must not know.
struct Foreign {
    /// The crates that may not have them, or with `only` the only ones that may.
    crates: &'static [&'static str],
    only: bool,
    names: &'static [&'static str],
    why: &'static str,
}

const FOREIGN: &[Foreign] = &[
    Foreign {
        crates: &["posse-domain", "posse-agent", "posse-definitions"],
        only: false,
        names: &[
            "tokio",
            "tokio-util",
            "futures",
            "async-trait",
            "rand",
            "getrandom",
            "fastrand",
            "uuid",
            "rustix",
            "libc",
            "nix",
            "reqwest",
        ],
        why: "pure crates take every fact from outside as an argument: no async, clock, randomness or IO",
    },
    Foreign {
        crates: &["posse-engine"],
        only: false,
        names: &["rusqlite", "rustix", "libc", "nix", "reqwest", "axum"],
        why: "the engine knows ports, not what stands behind them",
    },
    Foreign {
        crates: &["posse-store", "posse-testkit", "xtask"],
        only: true,
        names: &["rusqlite", "libsqlite3-sys"],
        why: "all access to SQLite is in one crate, so that its guarantees are stated and tested in one place",
    },
    Foreign {
        crates: &["posse-egress", "posse-models", "posse-testkit", "xtask"],
        only: true,
        names: &["reqwest", "ureq", "isahc", "curl", "native-tls"],
        why: "tools, engine and cli have no HTTP client but posse-egress, which judges every address; models have their own",
    },
    Foreign {
        crates: &["posse-egress", "posse-models", "posse-protocols", "posse-testkit", "xtask"],
        only: true,
        names: &["hyper", "hyper-util", "axum"],
        why: "posse-egress and posse-models are the HTTP clients, and posse-protocols is the server",
    },
    Foreign {
        crates: &["posse-egress", "posse-models", "posse-protocols", "posse-testkit", "xtask"],
        only: true,
        names: &["tokio-rustls"],
        why: "only clients and servers encrypt connections",
    },
];

/// Checks `cargo metadata --no-deps`.
pub(crate) fn check(metadata: &Value) -> Vec<Breach> {
    let mut breaches = Vec::new();
    for package in metadata["packages"].as_array().into_iter().flatten() {
        let name = package["name"].as_str().unwrap_or_default();
        let Some(layer) = layer_of(name) else {
            breaches.push(breach(name, "is in no layer".to_owned(), "add it to the table in tidy/layers.rs"));
            continue;
        };
        for dependency in package["dependencies"].as_array().into_iter().flatten() {
            let is_dev = dependency["kind"].as_str() == Some("dev");
            let used = dependency["name"].as_str().unwrap_or_default();
            if !is_dev && let Some(why) = fault(name, layer, used) {
                breaches.push(breach(name, format!("depends on `{used}`"), why));
            }
        }
    }
    breaches
}

fn fault(name: &str, layer: u8, used: &str) -> Option<&'static str> {
    if let Some(used_layer) = layer_of(used) {
        let allowed = used_layer < layer || EXCEPTIONS.contains(&(name, used));
        if !allowed {
            return Some(
                "domain <- agent <- engine <- adapters <- posse <- setup <- protocols <- cli; adapters never import each other, and only tests import the testkit",
            );
        }
        let bypasses = FRONT_ENDS.contains(&name) && !USED_BY_FRONT_ENDS.contains(&used);
        return bypasses.then_some(
            "a front end uses posse and posse-setup alone, as an embedder does: what it needs from another crate is missing in their interface, also for the next front end",
        );
    }
    let hit = |rule: &&Foreign| rule.names.contains(&used) && rule.crates.contains(&name) != rule.only;
    FOREIGN.iter().find(hit).map(|rule| rule.why)
}

fn layer_of(name: &str) -> Option<u8> {
    LAYERS.iter().find(|(known, _)| *known == name).map(|(_, layer)| *layer)
}

fn breach(name: &str, found: String, why: &'static str) -> Breach {
    Breach { place: format!("{name} (Cargo.toml)"), rule: "layer", found, why }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn found(name: &str, used: &str, kind: Option<&str>) -> Vec<String> {
        let dependency = json!({"name": used, "kind": kind});
        let metadata = json!({"packages": [{"name": name, "dependencies": [dependency]}]});
        check(&metadata).into_iter().map(|breach| format!("{}: {}", breach.place, breach.found)).collect()
    }

    #[test]
    fn a_lower_layer_may_be_used_and_a_higher_one_may_not() {
        assert_eq!(found("posse-setup", "posse-domain", None), [""; 0]);
        assert_eq!(found("posse-agent", "posse-domain", None), [""; 0]);
        assert_eq!(
            found("posse-domain", "posse-agent", None),
            ["posse-domain (Cargo.toml): depends on `posse-agent`"]
        );
        assert_eq!(found("posse-engine", "posse-store", None).len(), 1);
        assert_eq!(found("posse-engine", "posse-store", Some("build")).len(), 1);
    }

    #[test]
    fn adapters_do_not_know_each_other_but_for_files() {
        assert_eq!(found("posse-models", "posse-store", None).len(), 1);
        assert_eq!(found("posse-tools", "posse-sandbox", None), [""; 0]);
        assert_eq!(found("posse-sandbox", "posse-tools", None).len(), 1);
    }

    #[test]
    fn protocols_are_front_ends_below_the_command() {
        assert_eq!(found("posse-protocols", "posse-setup", None), [""; 0]);
        assert_eq!(found("posse-cli", "posse-protocols", None), [""; 0]);
        assert_eq!(found("posse-setup", "posse-protocols", None).len(), 1);
    }

    #[test]
    fn front_ends_use_the_facade_and_the_setup_alone() {
        for front_end in FRONT_ENDS {
            assert_eq!(found(front_end, "posse", None), [""; 0]);
            assert_eq!(found(front_end, "posse-setup", None), [""; 0]);
            assert_eq!(found(front_end, "posse-engine", Some("dev")), [""; 0], "tests are free");
            assert_eq!(
                found(front_end, "posse-engine", None),
                [format!("{front_end} (Cargo.toml): depends on `posse-engine`")]
            );
            assert_eq!(found(front_end, "posse-domain", Some("build")).len(), 1);
        }
        assert_eq!(found("posse-setup", "posse-engine", None), [""; 0], "it is no front end");
    }

    #[test]
    fn only_tests_and_xtask_use_the_testkit() {
        assert_eq!(found("posse-cli", "posse-testkit", None).len(), 1);
        assert_eq!(found("posse-cli", "posse-testkit", Some("dev")), [""; 0]);
        assert_eq!(found("xtask", "posse-testkit", None), [""; 0]);
        assert_eq!(found("posse-testkit", "posse-cli", None), [""; 0]);
    }

    #[test]
    fn a_crate_outside_the_table_is_a_breach() {
        assert_eq!(found("posse-new", "serde", None), ["posse-new (Cargo.toml): is in no layer"]);
    }

    #[test]
    fn foreign_crates_that_bring_in_the_world_are_kept_out() {
        assert_eq!(found("posse-domain", "tokio", None).len(), 1);
        assert_eq!(found("posse-domain", "serde", None), [""; 0]);
        assert_eq!(found("posse-engine", "tokio", None), [""; 0]);
        assert_eq!(found("posse-engine", "rustix", None).len(), 1);
        assert_eq!(found("posse-cli", "rusqlite", None).len(), 1);
        assert_eq!(found("posse-store", "rusqlite", None), [""; 0]);
        assert_eq!(found("posse-tools", "reqwest", None).len(), 1);
        assert_eq!(found("posse-cli", "hyper", None).len(), 1);
        assert_eq!(found("posse-egress", "hyper", None), [""; 0]);
        assert_eq!(found("posse-protocols", "axum", None), [""; 0]);
        assert_eq!(found("posse-setup", "axum", None).len(), 1);
        assert_eq!(found("posse-protocols", "reqwest", None).len(), 1, "a server is no client");
    }
}
