//! Whichever budget runs out, and whichever agents wait for others, every agent that started ends with a report, and no
//! limit is exceeded.

use std::time::Duration;

use posse_domain::budget::{Budget, Price, REPORT_INPUT_TOKENS, Usd};
use posse_domain::event::{EventBody, Purpose};
use posse_domain::lifecycle::FailKind;
use posse_engine::ports::{ModelFacts, ModelRequest, Retry};
use posse_engine::{RequestField, RunRequest, RuntimeError};
use posse_models::scripted::ScriptedAnswer;
use serde_json::json;

use crate::world::{EndedRun, World, background, child, listing};

const REPORT: &str = "What I found.";

fn text(text: &str) -> ScriptedAnswer {
    ScriptedAnswer::text(text)
}

/// A tree of agents that work as long as they may.
#[derive(Debug, Clone, Copy)]
enum Tree {
    Alone,
    /// A parent waits for one child after the other.
    OneByOne,
    /// A parent waits for three children at once.
    Together,
    /// Three children work while their parent works.
    Background,
    Deep,
}

const TREES: [Tree; 5] = [Tree::Alone, Tree::OneByOne, Tree::Together, Tree::Background, Tree::Deep];

impl Tree {
    /// The script of an agent's next turn.
    fn work(self, request: &ModelRequest) -> ScriptedAnswer {
        let said =
            format!("{} in turn {}: {}", request.agent.relative(), request.turn, "more to do. ".repeat(20));
        let pad = "x".repeat(600);
        let probe = || text(&said).call("probe", json!({"turn": request.turn, "pad": pad}));
        let prompt = format!("part {} of {}", request.turn, request.agent.relative());
        match (self, request.depth, request.turn) {
            (Tree::OneByOne, 0, 1..=20) => text(&said).call("task", child("scout", &prompt)),
            (Tree::Together, 0, 1..=8) => (0..3)
                .fold(text(&said), |answer, n| answer.call("task", child("scout", &format!("{prompt}.{n}")))),
            (Tree::Background, 0, 1) => (0..3).fold(text(&said), |answer, n| {
                answer.call("task", background("scout", &format!("{prompt}.{n}")))
            }),
            (Tree::Deep, 0..=1, 1..=6) => {
                text(&said).call("task", child("lead", &prompt)).call("task", background("lead", &prompt))
            }
            (_, 1.., 30..) => text("done"),
            _ => probe(),
        }
    }
}

/// A world in which every agent keeps working, and writes its report when it must.
fn world(tree: Tree, price: Option<Price>) -> World {
    let facts = ModelFacts { context_tokens: 200_000, max_output_tokens: 8_000, price };
    World::new(move |request| match request.purpose {
        Purpose::Work => tree.work(request),
        Purpose::Report | Purpose::Summary => text(REPORT),
    })
    .with_facts(facts)
}

/// Starts a run with this budget. `None` if the budget is refused because it does not cover a first call and a report.
async fn run(world: &World, budget: Budget, field: RequestField) -> Option<EndedRun> {
    let process = world.process();
    let budget = Budget { agents: Some(60), ..budget };
    match process.runtime.start(RunRequest { budget, max_depth: 3, ..world.spec() }).await {
        Ok(handle) => Some(world.ended(&handle).await),
        Err(RuntimeError::Invalid { field: found, problem }) if found == field => {
            assert!(
                problem.contains("need") || problem.contains("cost"),
                "it says how much is needed: {problem}"
            );
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// Every agent that a budget ended has written its report, without paying for tools, and states which budget it was.
fn all_report(name: &str, world: &World, ended: &EndedRun) {
    for event in &ended.events {
        let (id, kind, reason, report) = match &event.body {
            EventBody::SubagentFailed(e) => (event.agent.relative(), e.kind, &e.reason, e.report.clone()),
            EventBody::RunFailed(e) => ("0", e.kind, &e.reason, e.text.clone()),
            _ => continue,
        };
        // An agent that never made a call has nothing to report.
        let started = ended.of(id).any(|event| matches!(event.body, EventBody::ModelCalled(_)));
        if kind != FailKind::Budget || !started {
            continue;
        }
        let report = report.map(|report| report.to_shared().to_string());
        let all = listing(&ended.events);
        assert!(
            report.is_some_and(|report| report.starts_with(REPORT)),
            "{name}: {id} has no report:\n{all}"
        );
        assert!(reason.contains("of the run") && reason.contains("its limit is"), "{name}: {reason}");
        let asked = world.asked_by(id);
        let last = asked.iter().rfind(|request| request.purpose == Purpose::Report).expect("a report turn");
        assert!(last.tools.is_empty(), "{name}: {id} paid for tools that it may not use");
    }
}

/// The request of a trimmed report turn is a single plain message.
fn short_reports_are_short(name: &str, world: &World) -> usize {
    let mut short = 0;
    for id in ["0", "1", "2", "1.1"] {
        for request in world.asked_by(id).iter().filter(|request| request.purpose == Purpose::Report) {
            if let [only] = request.messages.as_slice()
                && request.turn > 1
            {
                let posse_agent::conversation::Message::User(text) = &**only else {
                    panic!("{name}: {only:?}")
                };
                assert!(request.tools.is_empty(), "{name}: it has no tools");
                assert!((text.len() + request.system.len()) as u64 <= REPORT_INPUT_TOKENS * 4, "{name}");
                short += 1;
            }
        }
    }
    short
}

#[tokio::test(flavor = "multi_thread")]
async fn every_run_with_a_limit_of_tokens_ends_with_a_report() {
    let (mut refused, mut failed, mut short) = (0, 0, 0);
    for tree in TREES {
        for cap in [
            1_000, 5_000, 7_000, 8_000, 9_000, 10_000, 12_000, 15_000, 18_000, 20_000, 25_000, 30_000,
            40_000, 50_000, 60_000, 80_000, 100_000, 130_000, 160_000, 200_000, 250_000, 300_000,
        ] {
            let name = format!("{tree:?} with {cap} tokens");
            let world = world(tree, None);
            let Some(ended) =
                run(&world, Budget { tokens: Some(cap), ..Budget::NONE }, RequestField::BudgetTokens).await
            else {
                refused += 1;
                continue;
            };
            all_report(&name, &world, &ended);
            failed += usize::from(ended.status() == "failed");
            short += short_reports_are_short(&name, &world);
            let spent = ended.run.ledger.subtree(&ended.run.id.root()).expect("figures").usage.tokens();
            assert!(spent <= cap, "{name}: spent {spent}");
        }
    }
    assert!(refused >= 5 && failed >= 50 && short >= 5, "{refused} refused, {failed} failed, {short} short");
}

#[tokio::test(flavor = "multi_thread")]
async fn every_run_with_a_limit_of_money_ends_with_a_report() {
    let price = Price::plain(3_000_000, 15_000_000);
    let (mut refused, mut failed) = (0, 0);
    for tree in TREES {
        for cents in [1, 3, 4, 5, 6, 8, 10, 15, 20, 30, 50, 80, 120, 200] {
            let name = format!("{tree:?} with {cents} cents");
            let world = world(tree, Some(price));
            let usd = Usd::from_micros(cents * 10_000);
            let Some(ended) =
                run(&world, Budget { usd: Some(usd), ..Budget::NONE }, RequestField::BudgetUsd).await
            else {
                refused += 1;
                continue;
            };
            all_report(&name, &world, &ended);
            failed += usize::from(ended.status() == "failed");
            let spent = ended.run.ledger.subtree(&ended.run.id.root()).expect("figures").usage.micro_usd;
            assert!(spent.is_some_and(|spent| spent <= usd.micros()), "{name}: spent {spent:?}");
        }
    }
    assert!(refused >= 5 && failed >= 20, "{refused} refused, {failed} failed");
}

#[tokio::test(start_paused = true)]
async fn every_run_with_a_limit_of_time_ends_with_a_report() {
    let mut failed = 0;
    for tree in TREES {
        for wall_ms in [200, 1_000, 5_000, 20_000, 60_000, 600_000, 36_000_000] {
            for part in [3, 10, 40] {
                let name = format!("{tree:?} with {wall_ms} ms, turns of a {part}th");
                let latency = Duration::from_millis(wall_ms / part);
                let quick = Duration::from_millis(wall_ms / 100).min(Duration::from_secs(10));
                let world = World::new(move |request| match request.purpose {
                    Purpose::Work => tree.work(request).latency(latency),
                    Purpose::Report | Purpose::Summary => text(REPORT).latency(quick),
                })
                .in_virtual_time();
                let budget = Budget { wall_ms: Some(wall_ms), ..Budget::NONE };
                let ended = run(&world, budget, RequestField::BudgetTime).await.expect("it starts");
                all_report(&name, &world, &ended);
                failed += usize::from(ended.status() == "failed");
                let took = ended.events.last().expect("events").at_ms - ended.events[0].at_ms;
                assert!(took <= i64::try_from(wall_ms).expect("short"), "{name}: took {took} ms");
            }
        }
    }
    assert!(failed >= 50, "{failed} failed");
}

/// A running read, a call that the agent waits for, and a call that has not begun are all cut, and the report is
/// written.
#[tokio::test(start_paused = true)]
async fn what_an_agent_does_when_its_time_is_up_is_cut() {
    for (name, tool, input) in [
        ("a tool that hangs", "ask_net", json!({"hang": true})),
        ("a status that waits", "task_status", json!({"wait_ms": 600_000})),
    ] {
        let world = World::new(move |request| match (request.depth, request.purpose, request.turn) {
            (0, Purpose::Work, 1) => {
                text("").call("task", background("scout", "never ends")).call(tool, input.clone())
            }
            (_, Purpose::Work, _) => text("").latency(Duration::from_hours(1)),
            _ => text(REPORT),
        })
        .in_virtual_time();
        let ended =
            run(&world, Budget { wall_ms: Some(60_000), ..Budget::NONE }, RequestField::BudgetTime).await;
        let ended = ended.expect("it starts");
        all_report(name, &world, &ended);
        assert!(
            ended.text().starts_with("BUDGET_EXHAUSTED: the wall time of the run"),
            "{name}: {}",
            ended.text()
        );
        let child = ended.of("1").find_map(|event| match &event.body {
            EventBody::SubagentFailed(e) => e.report.clone(),
            _ => None,
        });
        assert_eq!(child.map(|report| report.to_shared().to_string()).as_deref(), Some(REPORT), "{name}");
    }
}

/// A wait for a provider is cut like any other work: the agent gets no extra time for it.
#[tokio::test(start_paused = true)]
async fn a_provider_that_lets_the_report_wait_does_not_lengthen_the_time() {
    let world = World::new(|_| {
        let again = Retry { after: Duration::from_secs(30), limited: true };
        ScriptedAnswer::error(Some(429), "slow down").retry(again)
    })
    .in_virtual_time();
    let began = tokio::time::Instant::now();
    let ended = run(&world, Budget { wall_ms: Some(60_000), ..Budget::NONE }, RequestField::BudgetTime).await;
    let ended = ended.expect("it starts");
    assert!(ended.text().starts_with("BUDGET_EXHAUSTED: the wall time of the run"), "{}", ended.text());
    let took = began.elapsed();
    assert!(took <= Duration::from_secs(61), "{took:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_model_that_repeats_a_spawn_without_budget_ends_with_a_report() {
    let world = World::new(|request| match (request.purpose, request.depth) {
        (Purpose::Work, 0) => {
            (0..12).fold(text(""), |answer, n| answer.call("task", background("scout", &n.to_string())))
        }
        _ => text(REPORT),
    });
    let budget = Budget { tokens: Some(30_000), ..Budget::NONE };
    let ended = run(&world, budget, RequestField::BudgetTokens).await.expect("it starts");
    assert!(ended.text().starts_with("BUDGET_EXHAUSTED: "), "{}", ended.text());
    all_report("repeated spawns", &world, &ended);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_spawn_that_leaves_no_room_for_reports_is_refused_and_says_why() {
    let world = World::new(|request| match (request.purpose, request.turn) {
        (Purpose::Work, 1) => {
            (0..12).fold(text(""), |answer, n| answer.call("task", background("scout", &n.to_string())))
        }
        _ => text(REPORT),
    });
    let ended = run(&world, Budget { tokens: Some(30_000), ..Budget::NONE }, RequestField::BudgetTokens)
        .await
        .expect("it starts");
    let refused: Vec<String> = ended
        .results("0")
        .into_iter()
        .filter(|(_, ok, said)| !ok && said.starts_with("BUDGET_EXHAUSTED: "))
        .map(|(_, _, said)| said)
        .collect();
    assert!(!refused.is_empty() && refused.len() < 12, "{refused:?}");
    let all = "its limit is 30000 tokens";
    assert!(
        refused.iter().all(|said| said.contains("no room for the report") && said.contains(all)),
        "{refused:?}"
    );
    assert_eq!(ended.run.agent_count() + refused.len(), 13);
}
