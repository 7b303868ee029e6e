//! Limits of depth, agents, tokens, wall time and turns: every limit is exact, and every run ends.

use std::time::Duration;

use posse_domain::budget::{Budget, Price, REPORT_TOKENS, Usage, Usd};
use posse_domain::event::{EventBody, Purpose, ReportCause};
use posse_engine::ports::ModelFacts;
use posse_engine::{RequestField, RunTerms};
use posse_models::scripted::ScriptedAnswer;
use serde_json::json;

use crate::tools::Latch;
use crate::world::{World, background, child, is_error, newest};

fn text(text: &str) -> ScriptedAnswer {
    ScriptedAnswer::text(text)
}

fn tokens(tokens: u64) -> Usage {
    Usage {
        input_tokens: tokens,
        output_tokens: 0,
        cached_tokens: 0,
        micro_usd: None,
        cache_write_tokens: 0,
        reasoning_tokens: 0,
        ..Usage::ZERO
    }
}

/// Every agent spawns two leads on every turn. The prompts differ, because a call that fails again and again would end
/// the attempt.
fn always_spawning() -> World {
    World::new(|request| {
        let prompt = format!("more of {} in turn {}", request.agent, request.turn);
        match request.purpose {
            Purpose::Work => {
                text("more").call("task", child("lead", &prompt)).call("task", background("lead", &prompt))
            }
            Purpose::Report | Purpose::Summary => text("that was all"),
        }
    })
}

fn refusals(ended: &crate::world::EndedRun, code: &str) -> usize {
    let is_it = |body: &EventBody| matches!(body, EventBody::SubagentRefused(e) if e.code.as_str() == code);
    ended.events.iter().filter(|event| is_it(&event.body)).count()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_model_that_always_spawns_is_stopped_exactly_at_the_cap_on_agents() {
    for cap in [1, 2, 7, 50] {
        let world = always_spawning();
        let mut spec = world.spec();
        spec.budget.agents = Some(cap);
        spec.terms.base_turns = Some(4);
        spec.max_depth = 3;
        let ended = world.run(spec).await;
        assert_eq!(ended.run.agent_count() as u64, cap);
        assert!(refusals(&ended, "BUDGET_EXHAUSTED") > 0);
        assert_eq!(ended.status(), "completed");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_model_that_always_spawns_is_stopped_exactly_at_the_depth() {
    for depth in [0, 1, 2] {
        let world = always_spawning();
        let mut spec = world.spec();
        spec.budget.agents = Some(10_000);
        spec.terms.base_turns = Some(3);
        spec.max_depth = depth;
        let ended = world.run(spec).await;
        let deepest = ended.run.iter().map(|(id, _)| id.depth()).max();
        assert_eq!(deepest, Some(depth));
        assert!(refusals(&ended, "MAX_DEPTH_EXCEEDED") > 0);
        assert_eq!(refusals(&ended, "BUDGET_EXHAUSTED"), 0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_childs_cap_on_agents_binds_its_subtree_only() {
    let world = World::new(|request| match (request.depth, request.turn) {
        (0, 1) => {
            let mut input = child("lead", "x");
            input["budget"] = json!({"agents": 2});
            text("").call("task", input).call("task", child("scout", "y"))
        }
        (1, 1) => text("").call("task", child("scout", "a")).call("task", child("scout", "b")),
        _ => text("done"),
    });
    let ended = world.run(world.spec()).await;
    assert_eq!(ended.run.agent_count(), 4);
    assert_eq!(refusals(&ended, "BUDGET_EXHAUSTED"), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_exhausted_token_budget_gives_the_report_turn_and_fails() {
    let facts = ModelFacts { context_tokens: 100_000, max_output_tokens: 1_000, price: None };
    let world = World::new(|request| match request.purpose {
        Purpose::Work => text("working").call("probe", json!({"turn": request.turn})).usage(tokens(3_000)),
        Purpose::Report | Purpose::Summary => text("What I found.").usage(tokens(500)),
    })
    .with_facts(facts);
    let mut spec = world.spec();
    spec.budget.tokens = Some(20_000);
    let ended = world.run(spec).await;
    assert_eq!(ended.status(), "failed");
    assert!(ended.text().starts_with("BUDGET_EXHAUSTED: "), "{}", ended.text());
    let EventBody::RunFailed(failed) = &ended.events.last().expect("events").body else { panic!("failed") };
    assert_eq!(
        failed.text.as_ref().map(|text| text.to_shared().to_string()).as_deref(),
        Some("What I found.")
    );
    let causes: Vec<_> = ended
        .of("0")
        .filter_map(|event| match &event.body {
            EventBody::ModelCalled(e) => Some(e.cause),
            _ => None,
        })
        .collect();
    assert_eq!(causes.iter().filter(|cause| cause.is_some()).count(), 1);
    assert_eq!(causes.last(), Some(&Some(ReportCause::Budget)));
    let spent = ended.run.ledger.subtree(&ended.run.id.root()).expect("figures").usage.tokens();
    assert!(spent <= 20_000, "{spent}");
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_that_do_not_fit_now_wait_in_line_and_all_get_through() {
    let facts = ModelFacts { context_tokens: 100_000, max_output_tokens: 4_000, price: None };
    let world = World::new(|request| match (request.depth, request.turn) {
        (0, 1) => (0..6)
            .fold(text(""), |answer, n| answer.call("task", child("scout", &n.to_string())))
            .usage(tokens(100)),
        _ => text("done").usage(tokens(100)),
    })
    .with_facts(facts);
    let mut spec = world.spec();
    // Budget for about two calls at once beside the reserve for reports.
    spec.budget.tokens = Some(10_000 + 7 * REPORT_TOKENS);
    let ended = world.run(spec).await;
    assert_eq!(ended.status(), "completed", "{}", ended.text());
    assert_eq!(ended.run.failed, []);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_child_waiting_for_budget_says_so() {
    let facts = ModelFacts { context_tokens: 100_000, max_output_tokens: 4_000, price: None };
    let latch = Latch::closed();
    let held = latch.clone();
    let world = World::new(|request| match (request.depth, request.turn) {
        (0, 1) => {
            text("").call("task", child("scout", "1")).call("task", child("scout", "2")).usage(tokens(100))
        }
        _ => text("done").usage(tokens(100)),
    })
    .with_facts(facts)
    .holding(move |request| (request.depth == 1).then(|| held.clone()));
    let process = world.process();
    let mut spec = world.spec();
    spec.budget.tokens = Some(7_000 + 3 * REPORT_TOKENS);
    let handle = process.runtime.start(spec).await.expect("started");
    world.until(handle.id(), |event| matches!(event.body, EventBody::SubagentQueued(_))).await;
    latch.open();
    let ended = world.ended(&handle).await;
    let waits: Vec<_> = ended
        .events
        .iter()
        .filter_map(|event| match &event.body {
            EventBody::SubagentQueued(e) => Some(e.waits_for),
            _ => None,
        })
        .collect();
    assert_eq!(waits, [posse_domain::event::QueuedFor::Budget]);
}

#[tokio::test(start_paused = true)]
async fn wall_time_is_a_deadline_of_the_subtree_and_never_retried() {
    let world = World::new(|request| match (request.depth, request.turn) {
        (0, 1) => {
            let mut input = child("lead", "x");
            input["budget"] = json!({"wall_ms": 1_000});
            text("").call("task", input)
        }
        (1, 1) => text("").call("task", child("scout", "y")),
        (2, _) => text("never").latency(Duration::from_mins(1)),
        _ => text("done"),
    })
    .in_virtual_time();
    let ended = world.run(world.spec()).await;
    assert_eq!(ended.status(), "completed");
    let (ok, said) = ended.result("0");
    assert!(!ok && said.starts_with("BUDGET_EXHAUSTED: ") && said.contains("1000 ms"), "{said}");
    assert!(!ended.kinds("1").contains(&"subagent_attempt"));
    assert_eq!(ended.run.failed.len(), 2, "the child below it is cancelled");
}

#[tokio::test(start_paused = true)]
async fn the_roots_wall_time_ends_the_run() {
    let world = World::new(|_| text("never").latency(Duration::from_mins(1))).in_virtual_time();
    let mut spec = world.spec();
    spec.budget.wall_ms = Some(500);
    let ended = world.run(spec).await;
    assert_eq!(ended.status(), "failed");
    assert!(ended.text().starts_with("BUDGET_EXHAUSTED: "), "{}", ended.text());
}

#[tokio::test(flavor = "multi_thread")]
async fn money_is_counted_and_capped() {
    let price = Price::plain(1_000_000, 1_000_000);
    let facts = ModelFacts { context_tokens: 100_000, max_output_tokens: 500, price: Some(price) };
    let world = World::new(|request| match request.purpose {
        Purpose::Work => text("working").call("probe", json!({"turn": request.turn})).usage(tokens(3_000)),
        Purpose::Report | Purpose::Summary => text("What I found.").usage(tokens(500)),
    })
    .with_facts(facts);
    let mut spec = world.spec();
    spec.budget.usd = Some(Usd::from_micros(20_000));
    let ended = world.run(spec).await;
    assert!(ended.text().starts_with("BUDGET_EXHAUSTED: "), "{}", ended.text());
    let spent = ended.run.ledger.subtree(&ended.run.id.root()).expect("figures").usage.micro_usd;
    assert!(spent.is_some_and(|micros| micros <= 20_000), "{spent:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_wrong_with_a_run_is_said_before_it_starts() {
    let world = World::new(|_| text("done"));
    let process = world.process();
    let spec = world.spec();
    let with = |budget| posse_engine::RunRequest { budget, ..spec.clone() };
    let with_terms = |terms| posse_engine::RunRequest { terms, ..spec.clone() };
    let table: Vec<(RequestField, posse_engine::RunRequest)> = vec![
        (RequestField::Request, posse_engine::RunRequest { text: "  ".into(), ..spec.clone() }),
        (
            RequestField::Request,
            posse_engine::RunRequest { text: "x".repeat(5 << 20).into(), ..spec.clone() },
        ),
        (
            RequestField::Prompt,
            posse_engine::RunRequest { prompt: Some("x".repeat(5 << 20).into()), ..spec.clone() },
        ),
        (RequestField::Agent, posse_engine::RunRequest { definition: "nobody".to_owned(), ..spec.clone() }),
        (
            RequestField::Model,
            posse_engine::RunRequest { model: "nobody/nothing".to_owned(), ..spec.clone() },
        ),
        (RequestField::Turns, with_terms(RunTerms { base_turns: Some(0), ..RunTerms::default() })),
        (RequestField::Parallel, with_terms(RunTerms { parallel: 0, ..RunTerms::default() })),
        (
            RequestField::BudgetAgents,
            posse_engine::RunRequest { budget: Budget { agents: Some(0), ..Budget::NONE }, ..spec.clone() },
        ),
        (
            RequestField::BudgetUsd,
            posse_engine::RunRequest {
                budget: Budget { usd: Some(Usd::from_micros(1)), ..Budget::NONE },
                ..spec.clone()
            },
        ),
        (RequestField::BudgetTokens, with(Budget { tokens: Some(REPORT_TOKENS), ..Budget::NONE })),
        (RequestField::BudgetTokens, with(Budget { tokens: Some(0), ..Budget::NONE })),
        (RequestField::BudgetTime, with(Budget { wall_ms: Some(0), ..Budget::NONE })),
    ];
    for (field, spec) in table {
        let started = process.runtime.start(spec).await;
        assert!(is_error(&started, field), "{field}");
    }
    let runs =
        posse_engine::ports::Store::runs(world.store(), &posse_engine::ports::TenantId::local(), "", 10)
            .await;
    assert_eq!(runs.expect("runs"), [], "nothing was written");
}

/// An agent that cannot afford another turn of work does not cancel its children. It waits for them, and writes its
/// report when they have ended.
#[tokio::test(flavor = "multi_thread")]
async fn an_agent_that_cannot_afford_another_turn_reports_when_its_children_have_ended() {
    let facts = ModelFacts { context_tokens: 100_000, max_output_tokens: 300, price: None };
    let latch = Latch::closed();
    let held = latch.clone();
    let world = World::new(|request| match (request.agent.relative(), request.turn) {
        ("0", 1) => {
            let mut input = background("lead", "x");
            input["budget"] = json!({"tokens": 9_000 + 2 * REPORT_TOKENS});
            text("").call("task", input).usage(tokens(100))
        }
        ("1", 1) => text("").call("task", background("scout", "y")).usage(tokens(100)),
        // It spends more than its budget, and then its child completes.
        ("1", 2) => text("What I know.").usage(tokens(60_000)),
        ("1", _) => text("All of it.").usage(tokens(100)),
        ("1.1", _) => text("found late").usage(tokens(100)),
        _ => text("done").usage(tokens(100)),
    })
    .with_facts(facts)
    .holding(move |request| (request.agent.relative() == "1.1").then(|| held.clone()));
    let process = world.process();
    let handle = process.runtime.start(world.spec()).await.expect("started");
    let lead = handle.id().root().child(1);
    world
        .until(handle.id(), |event| {
            event.agent == lead && matches!(&event.body, EventBody::ModelReplied(e) if e.turn == 2)
        })
        .await;
    latch.open();
    let ended = world.ended(&handle).await;
    let failed = ended.of("1").find_map(|event| match &event.body {
        EventBody::SubagentFailed(e) => Some(e.clone()),
        _ => None,
    });
    let failed = failed.expect("it failed for its budget");
    assert_eq!(failed.code.as_str(), "BUDGET_EXHAUSTED");
    assert_eq!(failed.report.map(|report| report.to_shared().to_string()).as_deref(), Some("All of it."));
    let asked = world.asked_by("1").pop().expect("asked");
    assert_eq!(asked.purpose, Purpose::Report);
    assert!(newest(&asked).contains("found late"), "{}", newest(&asked));
    assert!(ended.kinds("1.1").contains(&"integration_passed"), "its child was not cancelled");
}

#[tokio::test(flavor = "multi_thread")]
async fn old_outputs_leave_a_conversation_that_grows_too_long() {
    let facts = ModelFacts { context_tokens: 9_000, max_output_tokens: 500, price: None };
    let world = World::new(|request| match request.turn {
        turn @ 1..=8 => text("").call("probe", json!({"turn": turn, "pad": "x".repeat(1_500)})),
        _ => text("done"),
    })
    .with_facts(facts);
    let ended = world.run(world.spec()).await;
    let trimmed = ended.kinds("0").iter().filter(|kind| **kind == "context_trimmed").count();
    assert!(trimmed > 0);
    let last = world.asked_by("0").pop().expect("asked");
    let all = format!("{:?}", last.messages);
    assert!(all.contains("output left out"), "the mark says so");
    assert_eq!(ended.results("0").len(), 8, "the journal keeps them all");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_result_too_long_for_a_conversation_is_cut_with_a_mark() {
    let world = World::new(|request| match request.turn {
        1 => text("").call("probe", json!({"pad": "ü".repeat(300_000)})),
        _ => text("done"),
    });
    let ended = world.run(world.spec()).await;
    let (ok, said) = ended.result("0");
    assert!(ok && said.len() < 300_000 && said.ends_with("bytes in all]"), "{} bytes", said.len());
}
