//! Random trees, replies, limits, cancels and deaths: every run ends, and every check holds.

use std::sync::Arc;
use std::time::Duration;

use posse_domain::budget::Usage;
use posse_domain::code::Code;
use posse_domain::event::{CallError, Purpose};
use posse_domain::id::RunId;
use posse_domain::permission::{Answer, Decision, OnAsk, Rule};
use posse_domain::skill::Skill;
use posse_engine::ports::{
    Admission, MailCommand, ModelFacts, ModelRequest, Notice, Permit, QueuedCall, Retry, Store,
};
use posse_engine::{FAULT_POINTS, RunRequest};
use posse_models::scripted::{ScriptedAnswer, ScriptedCall};
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use crate::asking::Approver;
use crate::crash::{dies_at, go_on};
use crate::power::CrashPoint;
use crate::skills::{self, skill};
use crate::world::{World, background, child};

/// Reproducible randomness: a model's reply depends on the agent and its turn, never on earlier draws.
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn of(seed: u64, words: &[&str]) -> Self {
        let mut state = seed ^ 0x51_7c_c1_b7_27_22_0a_95;
        for byte in words.iter().flat_map(|word| word.bytes().chain([0])) {
            state = (state ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
        Self(state)
    }

    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % limit
    }

    pub(crate) fn one_in(&mut self, odds: u64) -> bool {
        self.below(odds) == 0
    }

    pub(crate) fn pick<T: Clone>(&mut self, from: &[T]) -> T {
        let at = self.below(from.len() as u64);
        from[usize::try_from(at).expect("small")].clone()
    }
}

fn answer(seed: u64, request: &ModelRequest) -> ScriptedAnswer {
    let place = format!("{} {}", request.attempt, request.turn);
    let mut chance = Dice::of(seed, &[request.agent.relative(), &place]);
    let usage = Usage {
        input_tokens: chance.below(400),
        output_tokens: chance.below(200),
        cached_tokens: 0,
        micro_usd: None,
        cache_write_tokens: 0,
        reasoning_tokens: 0,
        ..Usage::ZERO
    };
    if request.purpose == Purpose::Report {
        let text = if chance.one_in(10) { "" } else { "My report." };
        return ScriptedAnswer::text(text).usage(usage);
    }
    if chance.one_in(15) {
        return ScriptedAnswer::error(Some(529), "overloaded");
    }
    if chance.one_in(3) {
        let text = if chance.one_in(8) { "" } else { "Done." };
        return ScriptedAnswer::text(text).usage(usage);
    }
    let calls = 1 + chance.below(4);
    let calls: Vec<ScriptedCall> = (0..calls).map(|_| call(&mut chance, request.turn)).collect();
    ScriptedAnswer::text("On it.").calls(calls).usage(usage)
}

fn call(chance: &mut Dice, turn: u32) -> ScriptedCall {
    let own = |chance: &mut Dice| (1 + chance.below(3)).to_string();
    let kinds = ["lead", "scout", "builder", "nobody"];
    let spawned = |chance: &mut Dice, input: Value| {
        let mut input = input;
        if chance.one_in(8) {
            input["budget"] = json!({"agents": 1 + chance.below(3), "tokens": 1_000 + chance.below(20_000)});
        }
        if chance.one_in(8) {
            input["required"] = json!(true);
        }
        if chance.one_in(10) {
            input["task_id"] = json!((1 + chance.below(3)).to_string());
        }
        if chance.one_in(8) {
            let file = format!("{}/{}", chance.below(3), chance.below(2));
            input["success_criteria"] = json!([{"command": format!("{file}={}", chance.below(4))}]);
        }
        if chance.one_in(10) {
            input["repairs"] = json!((1 + chance.below(3)).to_string());
        }
        if chance.one_in(3) {
            let owned = ["0/**", "1/**", "2/**", "0/1", "1/0"];
            input["owns"] = (0..=chance.below(2)).map(|_| json!(chance.pick(&owned))).collect();
        }
        if chance.one_in(6) {
            input["max_turns"] = json!(1 + chance.below(3));
        }
        input
    };
    let (name, input) = match chance.below(21) {
        0..=3 => {
            let kind = chance.pick(&kinds);
            ("task", spawned(chance, child(kind, "part")))
        }
        4..=6 => {
            let kind = chance.pick(&kinds);
            ("task", spawned(chance, background(kind, "part")))
        }
        7 => ("task_status", json!({"wait_ms": chance.below(3)})),
        8 => ("task_cancel", json!({"task_id": own(chance), "reason": "chance"})),
        9 => ("task_send", json!({"task_id": own(chance), "message": "hello"})),
        10 => ("task_close", json!({"task_id": own(chance)})),
        11 => ("strike", json!({"turn": turn})),
        12 => ("boom", json!({})),
        13 => ("teleport", json!({})),
        14 => (
            "write",
            json!({"path": format!("{}.txt", chance.below(3)), "content": "x".repeat(usize::try_from(chance.below(9_000)).expect("small"))}),
        ),
        15 => (
            "put",
            json!({"path": format!("{}/{}", chance.below(3), chance.below(2)), "text": format!("{}", chance.below(4))}),
        ),
        16 => ("skill", json!({"name": chance.pick(&["deep", "aside", "inline", "none"])})),
        17 | 18 => {
            let skill = chance.pick(&["deep", "aside", "inline", "none"]);
            ("delegate_to_agent", json!({"skill_name": skill, "task": "part"}))
        }
        _ => ("probe", json!({"turn": turn})),
    };
    // Ids may repeat from turn to turn, except those of commands, which are counted by their ids.
    let id = (chance.one_in(6) && name != "strike").then(|| "again".to_owned());
    ScriptedCall { id, ..ScriptedCall::new(name, input) }
}

fn world(seed: u64) -> (World, RunRequest, Dice) {
    world_of(seed, answer)
}

fn world_of(seed: u64, answer: fn(u64, &ModelRequest) -> ScriptedAnswer) -> (World, RunRequest, Dice) {
    let mut chance = Dice::of(seed, &["world"]);
    let facts = ModelFacts { context_tokens: 6_000, max_output_tokens: 500, price: None };
    let world = World::new(move |request| answer(seed, request)).with_facts(facts);
    let aside = Skill { background: true, tools: Some(vec!["probe".to_owned()]), ..skill("aside") };
    let inline = Skill { fork: false, agent: Some("crew".to_owned()), ..skill("inline") };
    let mut spec = skills::spec(&world, [skill("deep"), aside, inline]);
    spec.terms.skill = chance.one_in(6).then(|| "deep".to_owned());
    spec.terms.parallel = 1 + u32::try_from(chance.below(4)).expect("small");
    spec.max_depth = u32::try_from(chance.below(4)).expect("small");
    spec.terms.base_turns = Some(2 + u32::try_from(chance.below(6)).expect("small"));
    spec.budget.agents = Some(1 + chance.below(30));
    spec.budget.tokens = chance.one_in(3).then(|| 9_000 + chance.below(60_000));
    spec.terms.close_on_completion = !chance.one_in(4);
    for definition in &mut spec.definitions {
        definition.parallel = chance.one_in(3).then(|| 1 + u32::try_from(chance.below(2)).expect("small"));
    }
    (world, spec, chance)
}

#[tokio::test(flavor = "multi_thread")]
async fn random_trees_always_end() {
    let mut statuses = std::collections::BTreeMap::<&str, usize>::new();
    for seed in 0..300 {
        let (world, spec, _) = world(seed);
        let ended = world.run(spec).await;
        *statuses.entry(ended.status()).or_default() += 1;
    }
    assert!(statuses.get("completed").is_some_and(|count| *count > 30), "{statuses:?}");
    assert!(statuses.get("failed").is_some_and(|count| *count > 30), "{statuses:?}");
}

/// The same script for agents that write files more often.
fn writing(seed: u64, request: &ModelRequest) -> ScriptedAnswer {
    let place = format!("{} {} writes", request.attempt, request.turn);
    let mut chance = Dice::of(seed, &[request.agent.relative(), &place]);
    let writer = matches!(&*request.definition, "boss" | "crew" | "builder");
    if !writer || request.purpose == Purpose::Report || chance.one_in(3) {
        return answer(seed, request);
    }
    let path = format!("{}/{}", chance.below(3), chance.below(2));
    let put = ScriptedCall::new("put", json!({"path": path, "text": chance.below(4).to_string()}));
    if chance.one_in(2) || request.turn > 2 {
        return if request.turn > 1 {
            ScriptedAnswer::text("Written.")
        } else {
            ScriptedAnswer::text("").calls([put])
        };
    }
    let mut more = call(&mut chance, request.turn);
    // Agents that lead write too.
    if more.input.get("subagent_type").is_some_and(|kind| kind == "lead") {
        more.input["subagent_type"] = json!("crew");
    }
    ScriptedAnswer::text("").calls([put, more])
}

/// A random tree whose writers have workspaces, own paths, and are checked by the host.
fn isolated_world(seed: u64) -> (World, RunRequest, Dice) {
    let (world, mut spec, mut chance) = world_of(seed, writing);
    if chance.one_in(3) {
        spec.terms.unowned_writers = posse_domain::plan::UnownedWriters::Parallel;
    }
    spec.budget.agents = Some(4 + chance.below(30));
    (world.isolated(), spec, chance)
}

#[tokio::test(flavor = "multi_thread")]
async fn random_trees_of_writers_always_end() {
    let mut merged = 0;
    for seed in 0..800 {
        let (world, spec, _) = isolated_world(seed);
        let ended = world.run(spec).await;
        merged += ended.events.iter().filter(|event| event.body.kind() == "agent.worktree_merged").count();
    }
    assert!(merged > 25, "{merged}");
}

#[tokio::test(flavor = "multi_thread")]
async fn random_trees_of_writers_end_when_anybody_is_cancelled_and_survive_deaths() {
    for seed in 0..150 {
        let (world, spec, mut chance) = isolated_world(seed);
        let process = world.mortal(None);
        let handle = process.runtime.start(spec).await.expect("started");
        cancels(&world, handle.id(), &mut chance).await;
        world.ended(&handle).await;
    }
    for seed in 0..150 {
        let (world, spec, mut chance) = isolated_world(seed);
        let deaths: Vec<CrashPoint> = (0..=chance.below(4))
            .map(|_| CrashPoint { point: chance.pick(FAULT_POINTS), pass: 1 + chance.below(12) })
            .collect();
        dies_at(&world, spec, &deaths).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn random_trees_end_when_anybody_is_cancelled_at_any_moment() {
    for seed in 0..200 {
        let (world, spec, mut chance) = world(seed);
        let process = world.mortal(None);
        let handle = process.runtime.start(spec).await.expect("started");
        cancels(&world, handle.id(), &mut chance).await;
        world.ended(&handle).await;
    }
}

/// Cancels some agents while the run executes.
pub(crate) async fn cancels(world: &World, run: &RunId, chance: &mut Dice) {
    let key = world.key(run);
    let mut pulse = world.store().watch(&key);
    for _ in 0..=chance.below(3) {
        let at = chance.below(60);
        loop {
            let head = pulse.borrow_and_update().head;
            let entry = world.store().runs(&key.tenant, run.as_str(), 1).await.expect("runs").remove(0);
            if !entry.row.status.is_running() {
                return;
            }
            if head >= at {
                break;
            }
            pulse.changed().await.expect("the store lives");
        }
        let agents = world.store().agents(&key).await.expect("agents");
        let root_too = if chance.one_in(4) { 0 } else { usize::from(agents.len() > 1) };
        let agent = chance.pick(&agents[root_too..]).id;
        let command = MailCommand::Cancel { agent, reason: "chance".to_owned(), kill: chance.one_in(2) };
        world.post(run, command).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn random_trees_survive_random_deaths() {
    for seed in 0..150 {
        let (world, spec, mut chance) = world(seed);
        let deaths: Vec<CrashPoint> = (0..=chance.below(4))
            .map(|_| CrashPoint { point: chance.pick(FAULT_POINTS), pass: 1 + chance.below(20) })
            .collect();
        dies_at(&world, spec, &deaths).await;
    }
}

/// A cancel and a death race. Whichever comes first, the run ends, cancelled or completed before.
#[tokio::test(flavor = "multi_thread")]
async fn random_trees_survive_deaths_while_they_are_cancelled() {
    for seed in 0..100 {
        let (world, spec, mut chance) = world(seed);
        let death = CrashPoint { point: chance.pick(FAULT_POINTS), pass: 1 + chance.below(30) };
        let process = world.mortal(Some(death));
        let starting = process.runtime.clone();
        let Ok(Ok(handle)) = tokio::spawn(async move { starting.start(spec).await }).await else { continue };
        let run = handle.id().clone();
        let power = process.power.clone().expect("mortal");
        tokio::select! {
            () = power.lost() => {}
            () = async {
                cancels(&world, &run, &mut chance).await;
                drop(handle.ended().await);
            } => {}
        }
        while !go_on(&world, &run, None).await {}
        world.look(&run).await;
    }
}

/// A random tree with many questions, and a user who answers at random.
fn asking_world(seed: u64) -> (World, RunRequest, Dice, Approver) {
    let (world, mut spec, mut chance) = world(seed);
    spec.on_ask = OnAsk::Escalate;
    spec.terms.parallel = 1;
    let mut asks = |patterns: &[&str]| {
        let asked = patterns.iter().filter(|_| !chance.one_in(3));
        let rule =
            |pattern: &&str| Rule { pattern: pattern.parse().expect("a pattern"), decision: Decision::Ask };
        asked.map(rule).collect::<Vec<Rule>>()
    };
    spec.terms.run_rules = asks(&["probe", "write:0.txt", "task:scout"]).into();
    for definition in &mut spec.definitions {
        definition.rules = asks(&["strike", "write", "task:builder", "boom"]);
    }
    let person =
        Approver::says(&world, move |at| match Dice::of(seed, &["answer", &at.to_string()]).below(5) {
            0 => Answer::Always,
            1 => Answer::Deny { reason: Some("chance".to_owned()) },
            _ => Answer::Once,
        });
    (world, spec, chance, person)
}

#[tokio::test(flavor = "multi_thread")]
async fn random_trees_that_ask_always_end_with_one_slot() {
    let mut asked = 0;
    for seed in 0..300 {
        let (world, spec, _, person) = asking_world(seed);
        let ended = world.run(spec).await;
        drop(person);
        asked += ended.events.iter().filter(|event| event.body.kind() == "agent.input_requested").count();
    }
    assert!(asked > 200, "{asked}");
}

#[tokio::test(flavor = "multi_thread")]
async fn random_trees_that_ask_survive_deaths_and_cancels() {
    for seed in 0..120 {
        let (world, spec, mut chance, person) = asking_world(seed);
        let deaths: Vec<CrashPoint> = (0..=chance.below(4))
            .map(|_| CrashPoint { point: chance.pick(FAULT_POINTS), pass: 1 + chance.below(20) })
            .collect();
        let ended = dies_at(&world, spec, &deaths).await;
        drop(person);
        let of = |kind: &str| ended.events.iter().filter(|event| event.body.kind() == kind).count();
        assert!(of("agent.input_answered") <= of("agent.input_requested"));
        assert_eq!(ended.run.open_questions().count(), 0);
    }
    for seed in 0..80 {
        let (world, spec, mut chance, person) = asking_world(seed);
        let process = world.mortal(None);
        let handle = process.runtime.start(spec).await.expect("started");
        cancels(&world, handle.id(), &mut chance).await;
        world.ended(&handle).await;
        drop(person);
    }
}

/// The same script for a provider that fails, is silent, requests pauses and rejects long conversations.
fn unsteady(seed: u64, request: &ModelRequest) -> ScriptedAnswer {
    let place = format!("{} {} {} call", request.attempt, request.turn, request.call);
    let mut chance = Dice::of(seed, &[request.agent.relative(), &place]);
    let after = Duration::from_millis(chance.pick(&[0, 5, 900, 2_000, 60_000]));
    let error = || ScriptedAnswer::error(Some(529), "overloaded");
    match chance.below(20) {
        0..=2 => error().retry(Retry { after, limited: false }),
        3..=5 => error().retry(Retry { after, limited: true }),
        6 => ScriptedAnswer::failure(CallError::new(Code::ContextOverflow, "too long")),
        7 => answer(seed, request).latency(Duration::from_hours(1)),
        _ => answer(seed, request),
    }
}

/// A random tree with such a provider, which admits one or two calls at once and makes the others wait.
fn unsteady_world(seed: u64) -> (World, RunRequest, Dice) {
    let (world, spec, mut chance) = world_of(seed, unsteady);
    let permits = Arc::new(Semaphore::new(1 + usize::try_from(chance.below(2)).expect("small")));
    let (told, unwell) = (chance.one_in(2), chance.one_in(2));
    let admit = move || {
        if let Ok(permit) = permits.clone().try_acquire_owned() {
            return Admission::Go(Permit::holding(permit));
        }
        let permits = permits.clone();
        let turn = async move { Permit::holding(permits.acquire_owned().await.expect("open")) };
        let notice = Notice { reason: "chance".to_owned(), expected: Duration::from_secs(3), unwell };
        Admission::Wait(QueuedCall { turn: Box::pin(turn), notice: told.then_some(notice) })
    };
    (world.admitting(admit).in_virtual_time(), spec, chance)
}

#[tokio::test(start_paused = true)]
async fn random_trees_end_whatever_their_provider_does() {
    let mut waits = 0;
    let mut statuses = std::collections::BTreeMap::<&str, usize>::new();
    for seed in 0..300 {
        let (world, spec, _) = unsteady_world(seed);
        let ended = world.run(spec).await;
        *statuses.entry(ended.status()).or_default() += 1;
        let of = |kind: &str| ended.events.iter().filter(|event| event.body.kind() == kind).count();
        assert_eq!(of("agent.provider_wait_started"), of("agent.provider_wait_ended"), "seed {seed}");
        waits += of("agent.provider_wait_started");
    }
    assert!(waits > 150, "{waits}");
    assert!(statuses.get("completed").is_some_and(|count| *count > 30), "{statuses:?}");
}

#[tokio::test(start_paused = true)]
async fn random_trees_survive_deaths_and_cancels_whatever_their_provider_does() {
    for seed in 0..150 {
        let (world, spec, mut chance) = unsteady_world(seed);
        let deaths: Vec<CrashPoint> = (0..=chance.below(4))
            .map(|_| CrashPoint { point: chance.pick(FAULT_POINTS), pass: 1 + chance.below(20) })
            .collect();
        dies_at(&world, spec, &deaths).await;
    }
    for seed in 0..150 {
        let (world, spec, mut chance) = unsteady_world(seed);
        let process = world.mortal(None);
        let handle = process.runtime.start(spec).await.expect("started");
        cancels(&world, handle.id(), &mut chance).await;
        world.ended(&handle).await;
    }
}
