//! Operations that an agent may not execute: denied by a rule, asked about when no user can answer, or outside the
//! paths that it owns.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use posse_domain::event::EventBody;
use posse_domain::permission::{Decision, Rule, Rules};
use posse_models::scripted::ScriptedAnswer;
use serde_json::json;

use crate::world::{World, child, definition};

fn text(text: &str) -> ScriptedAnswer {
    ScriptedAnswer::text(text)
}

fn rules(rules: &[(&str, Decision)]) -> Rules {
    let rule = |(pattern, decision): &(&str, Decision)| Rule {
        pattern: pattern.parse().expect("a pattern"),
        decision: *decision,
    };
    rules.iter().map(rule).collect()
}

fn decided(ended: &crate::world::EndedRun, agent: &str) -> Vec<(String, Decision, Option<String>)> {
    ended
        .of(agent)
        .filter_map(|event| match &event.body {
            EventBody::PermissionDecided(e) => Some((e.operation.clone(), e.decision, e.layer.clone())),
            _ => None,
        })
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_denied_call_is_answered_with_the_layer_that_denied_it() {
    let world = World::new(|request| match (request.depth, request.turn) {
        (0, 1) => text("").call("strike", json!({"on": "a"})).call("task", child("builder", "x")),
        (1, 1) => text("").call("strike", json!({"on": "b"})),
        _ => text("done"),
    });
    let mut spec = world.spec();
    spec.terms.operator_rules = rules(&[("strike", Decision::Deny)]);
    let ended = world.run(spec).await;
    for agent in ["0", "1"] {
        let (_, ok, said) = ended.results(agent).remove(0);
        assert!(!ok && said.starts_with("PERMISSION_DENIED: ") && said.contains("operator"), "{said}");
        assert_eq!(decided(&ended, agent)[0].1, Decision::Deny);
        assert_eq!(decided(&ended, agent)[0].2.as_deref(), Some("operator"));
    }
    assert_eq!(world.outside.count("strike"), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_settings_and_flags_deny_is_in_the_prompt_of_every_agent() {
    let prompts = Arc::new(Mutex::new(BTreeMap::new()));
    let seen = prompts.clone();
    let world = World::new(move |request| {
        seen.lock().expect("no panic").insert(request.depth, request.system.to_string());
        match (request.depth, request.turn) {
            (0, 1) => text("").call("task", child("builder", "x")),
            _ => text("done"),
        }
    });
    let mut spec = world.spec();
    spec.terms.operator_rules = rules(&[("strike:a", Decision::Deny)]);
    spec.terms.run_rules = rules(&[("strike:b", Decision::Deny)]);
    world.run(spec).await;
    let prompts = prompts.lock().expect("no panic").clone();
    assert_eq!(prompts.len(), 2, "a parent and its child");
    for (depth, prompt) in &prompts {
        for denied in ["`strike:a`", "`strike:b`"] {
            assert!(prompt.contains(denied), "depth {depth}: {denied} is not in\n{prompt}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_ask_is_a_deny_where_nobody_can_answer() {
    let world = World::new(|request| match (request.depth, request.turn) {
        (0, 1) => text("").call("strike", json!({})).call("task", child("builder", "x")),
        (1, 1) => text("").call("strike", json!({})),
        _ => text("done"),
    });
    let mut spec = world.spec();
    spec.terms.run_rules = rules(&[("strike", Decision::Ask)]);
    let ended = world.run(spec).await;
    let said = |agent: &str| ended.results(agent).remove(0).2;
    assert!(said("0").contains("no user is available"), "{}", said("0"));
    assert!(said("1").contains("sub-agents cannot request permission"), "{}", said("1"));
    assert_eq!(decided(&ended, "1")[0].1, Decision::Ask);
    assert_eq!(world.outside.count("strike"), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_parents_definition_binds_its_children_also_after_a_resume() {
    let latch = crate::tools::Latch::closed();
    let held = latch.clone();
    let world = World::new(|request| match (request.depth, request.turn) {
        (0, 1) => text("").call("task", child("builder", "x")),
        (1, 1) => text("").call("strike", json!({"on": "b"})),
        _ => text("done"),
    })
    .holding(move |request| (request.depth == 1).then(|| held.clone()));
    let mut spec = world.spec();
    spec.definitions[0].rules =
        vec![Rule { pattern: "strike:b".parse().expect("pattern"), decision: Decision::Deny }];
    let dying = world.mortal(None);
    let handle = dying.runtime.start(spec).await.expect("started");
    let run = handle.id().clone();
    latch.reached(1).await;
    dying.power.as_ref().expect("mortal").cut();
    latch.open();
    let heir = world.process();
    let handle = world.resume(&heir, &run).await.expect("it goes on");
    let ended = world.ended(&handle).await;
    let (ok, said) = ended.result("1");
    assert!(!ok && said.contains("ancestor") && said.contains("definition boss"), "{said}");
    assert_eq!(world.outside.count("strike"), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tool_that_was_not_granted_is_denied_and_not_offered() {
    let world = World::new(|request| match (request.depth, request.turn) {
        (0, 1) => text("").call("task", child("scout", "x")),
        (1, 1) => text("").call("strike", json!({})),
        _ => text("done"),
    });
    let ended = world.run(world.spec()).await;
    let (ok, said) = ended.result("1");
    assert!(!ok && said.starts_with("PERMISSION_DENIED: "), "{said}");
    let offered: Vec<String> = world.asked_by("1")[0].tools.iter().map(|tool| tool.name.clone()).collect();
    assert_eq!(offered, ["ask_net", "boom", "list", "probe", "read"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_child_never_has_a_tool_that_its_parent_lacks() {
    let world = World::new(|request| match (request.depth, request.turn) {
        (0, 1) => text("").call("task", child("builder", "x")),
        (1, 1) => text("").call("strike", json!({})).call("probe", json!({})),
        _ => text("done"),
    });
    let mut spec = world.spec();
    spec.definitions[0] = definition("boss", &["probe"], &["builder"]);
    let ended = world.run(spec).await;
    let results = ended.results("1");
    assert!(results.iter().any(|(tool, ok, _)| tool == "strike" && !ok), "{results:?}");
    assert!(results.iter().any(|(tool, ok, _)| tool == "probe" && *ok), "{results:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_denied_definition_cannot_be_spawned() {
    let world = World::new(|request| match (request.depth, request.turn) {
        (0, 1) => text("").call("task", child("builder", "x")).call("task", child("scout", "x")),
        _ => text("done"),
    });
    let mut spec = world.spec();
    spec.terms.run_rules = rules(&[("task:builder", Decision::Deny)]);
    let ended = world.run(spec).await;
    let results = ended.results("0");
    assert!(results[0].2.starts_with("PERMISSION_DENIED: "), "{results:?}");
    assert!(results[1].1);
    assert_eq!(ended.run.agent_count(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_write_outside_what_the_child_owns_is_refused() {
    let world = World::new(|request| match (request.depth, request.turn) {
        (0, 1) => {
            let mut input = child("builder", "x");
            input["owns"] = json!(["src/**"]);
            text("").call("task", input)
        }
        (1, 1) => text("")
            .call("write", json!({"path": "src/a.rs", "content": "a"}))
            .call("write", json!({"path": "docs/b.md", "content": "b"}))
            .call("write", json!({"path": "src/../docs/c.md", "content": "c"})),
        _ => text("done"),
    });
    std::fs::create_dir(world.dir.path().join("src")).expect("a directory");
    std::fs::create_dir(world.dir.path().join("docs")).expect("a directory");
    let ended = world.run(world.spec()).await;
    let results = ended.results("1");
    let codes: Vec<&str> = results.iter().map(|(_, _, said)| said.split(':').next().unwrap_or("")).collect();
    assert!(results.iter().filter(|(_, ok, _)| *ok).count() == 1, "{results:?}");
    assert!(codes.contains(&"OWNERSHIP_VIOLATION"), "{codes:?}");
    assert!(world.dir.path().join("src/a.rs").exists());
    assert_eq!(std::fs::read_dir(world.dir.path().join("docs")).expect("a directory").count(), 0);
}
