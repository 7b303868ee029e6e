//! A process dies at every fault point that it passes, and another process continues the run. Nothing is lost, and
//! nothing happens twice.

use std::collections::{BTreeMap, HashMap, HashSet};

use posse_domain::event::{Event, EventBody, Purpose};
use posse_domain::id::RunId;
use posse_engine::{FAULT_POINTS, RunRequest};
use posse_models::scripted::{ScriptedAnswer, ScriptedCall};
use serde_json::json;

use crate::checks;
use crate::power::CrashPoint;
use crate::tools::Latch;
use crate::world::{EndedRun, Process, World, background, child, listing, newest};

fn text(text: &str) -> ScriptedAnswer {
    ScriptedAnswer::text(text)
}

/// A tree that passes every kind of fault point: reads, writes, commands, the network, children in the foreground and
/// in the background, a failed attempt, a refusal, messages, a list, a child that continues another.
fn busy() -> World {
    World::new(|request| {
        let again = || {
            let mut input = child("scout", "Go on.");
            input["task_id"] = json!("1");
            input
        };
        match (request.agent.relative(), request.attempt, request.turn) {
            ("0", _, 1) => text("I split it.")
                .call("task", child("scout", "look"))
                .call("task", child("builder", "build"))
                .call("task", background("lead", "split"))
                .call("task", child("nobody", "refused"))
                .call("todo", json!({"items": [{"text": "wait", "status": "pending"}]})),
            ("0", _, 2) => text("And more.")
                .call("task", again())
                .call("write", json!({"path": "root.txt", "content": "by the root"}))
                .call("strike", json!({"n": 0})),
            ("0", _, _) => text("done"),
            ("1", 1, 1) => text("").call("probe", json!({})).call("ask_net", json!({})),
            ("1", 1, _) => ScriptedAnswer::error(Some(529), "overloaded"),
            ("2", _, 1) => text("")
                .call("write", json!({"path": "built.txt", "content": "by a child"}))
                .call("strike", json!({"n": 1}))
                .call("strike", json!({"n": 2})),
            ("2", _, 2) => text("")
                .call("edit", json!({"path": "built.txt", "old_text": "a child", "new_text": "the child"})),
            ("3", _, 1) => text("").call("task", child("scout", "a")).call("task", background("scout", "b")),
            ("3", _, 2) => text("").call("task_send", json!({"task_id": "2", "message": "hello"})),
            _ => text("found"),
        }
    })
}

/// The durable state at the death of a process.
struct Remains {
    events: Vec<Event>,
    asked: usize,
}

async fn remains(world: &World, run: &RunId) -> Remains {
    let asked = world.asked.lock().expect("no panic while it is held").len();
    Remains { events: checks::read(world.store(), &world.key(run)).await, asked }
}

/// Waits for the end of the run or of the process. Returns whether the run ended.
async fn carried(process: &Process, handle: &posse_engine::RunHandle) -> bool {
    let power = process.power.as_ref().expect("mortal");
    tokio::select! {
        biased;
        () = power.lost() => false,
        ended = handle.ended() => match ended {
            Ok(()) => true,
            // The death of the process unwound the driver.
            Err(_) if !power.is_on() => false,
            Err(error) => panic!("{error}"),
        },
    }
}

/// Starts a run in a process that dies at `death`. Returns the run if any of its events is durable.
async fn start(world: &World, spec: RunRequest, death: Option<CrashPoint>) -> (Process, Option<RunId>, bool) {
    let process = world.mortal(death);
    let starting = process.runtime.clone();
    // Dying unwinds the task that starts the run, so that must not be the test's own task.
    let started = tokio::spawn(async move { starting.start(spec).await });
    let power = process.power.clone().expect("mortal");
    let handle = tokio::select! {
        started = started => started.ok().and_then(Result::ok),
        () = power.lost() => None,
    };
    let ended = match &handle {
        Some(handle) => carried(&process, handle).await,
        None => false,
    };
    let tenant = posse_engine::ports::TenantId::local();
    let runs = posse_engine::ports::Store::runs(world.store(), &tenant, "", 1).await.expect("runs");
    (process, runs.first().map(|entry| entry.run.clone()), ended)
}

/// Continues a run in a process that dies at `death`. Returns whether the run has ended.
pub(crate) async fn go_on(world: &World, run: &RunId, death: Option<CrashPoint>) -> bool {
    let process = world.mortal(death);
    let (runtime, id) = (process.runtime.clone(), run.clone());
    let resuming = tokio::spawn(async move { runtime.resume(&id).await });
    let power = process.power.clone().expect("mortal");
    let resumed = tokio::select! {
        resumed = resuming => resumed.ok(),
        () = power.lost() => None,
    };
    match resumed {
        Some(Ok(posse_engine::ResumeOutcome::Going(handle))) => carried(&process, &handle).await,
        Some(Ok(posse_engine::ResumeOutcome::Ended(_))) => true,
        Some(Ok(posse_engine::ResumeOutcome::Held(holder))) => panic!("held by {holder:?}"),
        Some(Err(error)) if power.is_on() => panic!("{error}"),
        _ => false,
    }
}

/// Invariants between the moment of a death and the end of the run.
fn nothing_lost(world: &World, before: &Remains, after: &EndedRun) {
    // Every durable event is still there, unchanged.
    assert_eq!(after.events[..before.events.len()], before.events[..], "{}", listing(&after.events));
    // No finished model call is repeated.
    let finished: HashSet<(String, u32, u32, bool)> = before
        .events
        .iter()
        .filter_map(|event| match &event.body {
            EventBody::ModelReplied(e) if e.error.is_none() => {
                Some((event.agent.relative().to_owned(), e.attempt, e.turn, e.summary))
            }
            _ => None,
        })
        .collect();
    for request in &world.asked.lock().expect("no panic while it is held")[before.asked..] {
        let is_summary = request.place().summary;
        let place = (request.agent.relative().to_owned(), request.attempt, request.turn, is_summary);
        assert!(!finished.contains(&place), "{place:?} is asked again:\n{}", listing(&after.events));
    }
}

/// Every command happened exactly once, or at most once if its result states that the outcome is unknown.
fn struck_at_most_once(world: &World, ended: &EndedRun) {
    let mut struck: BTreeMap<(String, String), usize> = BTreeMap::new();
    for (tool, agent, call) in world.outside.all() {
        if tool == "strike" {
            *struck.entry((agent, call)).or_default() += 1;
        }
    }
    let mut answered: HashMap<(String, String), (bool, bool)> = HashMap::new();
    for event in &ended.events {
        let (call_id, ok, interrupted) = match &event.body {
            EventBody::ToolFinished(e) if e.tool == "strike" => (&e.call_id, e.ok, false),
            EventBody::ToolInterrupted(e) if e.tool == "strike" => (&e.call_id, false, true),
            _ => continue,
        };
        answered.insert((event.agent.relative().to_owned(), call_id.clone()), (ok, interrupted));
    }
    for (call, count) in &struck {
        assert_eq!(*count, 1, "{call:?} happened {count} times:\n{}", listing(&ended.events));
        let (ok, interrupted) = answered.get(call).copied().unwrap_or_default();
        assert!(ok || interrupted, "{call:?} happened and its agent was told that it did not");
    }
    for (call, (ok, _)) in answered {
        assert!(
            !ok || struck.contains_key(&call),
            "{call:?} did not happen and its agent was told that it did"
        );
    }
}

/// Lets the process of a run die at each of these points in turn, continues the run until it ends, and checks
/// everything.
pub(crate) async fn dies_at(world: &World, spec: RunRequest, deaths: &[CrashPoint]) -> EndedRun {
    let mut deaths = deaths.iter().copied();
    let (_, run, mut ended) = start(world, spec.clone(), deaths.next()).await;
    let mut before = Vec::new();
    let run = if let Some(run) = run {
        run
    } else {
        // No event was durable, so there is no run, and the user starts it again.
        let (_, run, now_ended) = start(world, spec, None).await;
        ended = now_ended;
        run.expect("it starts")
    };
    while !ended {
        before.push(remains(world, &run).await);
        checks::whole(&before.last().expect("just pushed").events);
        ended = go_on(world, &run, deaths.next()).await;
    }
    let after = world.look(&run).await;
    for before in &before {
        nothing_lost(world, before, &after);
    }
    struck_at_most_once(world, &after);
    after
}

fn ends_well(ended: &EndedRun, world: &World, what: &str) {
    assert_eq!(ended.status(), "completed", "{what}: {}\n{}", ended.text(), listing(&ended.events));
    let read = |name: &str| std::fs::read_to_string(world.dir.path().join(name)).unwrap_or_default();
    assert_eq!(read("root.txt"), "by the root", "{what}");
    assert_eq!(read("built.txt"), "by the child", "{what}");
}

/// For every pass of every fault point: lets the process of a run die there and continues the run. Returns the number
/// of deaths.
pub(crate) async fn survives_everywhere(
    make: impl Fn() -> World,
    spec: impl Fn(&World) -> RunRequest,
    ends_well: impl Fn(&EndedRun, &World, &str),
) -> u64 {
    // How often each point is passed if the process does not die.
    let world = make();
    let (process, run, ended) = start(&world, spec(&world), None).await;
    assert!(ended);
    ends_well(&world.look(&run.expect("a run")).await, &world, "undisturbed");
    let passes = process.power.expect("mortal").passes();
    let mut deaths = 0;
    for point in FAULT_POINTS {
        for pass in 1..=passes.get(point).copied().unwrap_or(0) {
            let world = make();
            let ended = dies_at(&world, spec(&world), &[CrashPoint { point, pass }]).await;
            // After the last commit nothing can fail any more. An interrupted command does not count as a failure.
            ends_well(&ended, &world, &format!("{point} {pass}"));
            deaths += 1;
        }
    }
    deaths
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_survives_death_at_every_pass_of_every_point() {
    survives_everywhere(busy, World::spec, ends_well).await;
}

/// The process dies again, and again, while it resumes the run.
#[tokio::test(flavor = "multi_thread")]
async fn a_run_survives_death_while_it_is_put_back_on_its_feet() {
    let first = [
        ("engine.write.before_run", 1),
        ("engine.write.after_run", 1),
        ("engine.exec.before_run", 1),
        ("engine.exec.after_run", 2),
        ("engine.read.after_run", 1),
        ("engine.model.after_reply", 3),
        ("engine.history.after_read", 1),
        ("engine.commit.before", 5),
    ];
    let second = [
        ("engine.recover.after_claim", 1),
        ("engine.recover.after_fold", 1),
        ("engine.recover.before_look", 1),
        ("engine.recover.after_look", 1),
        ("engine.commit.before", 1),
        ("engine.commit.after", 1),
        ("engine.commit.before", 2),
    ];
    for (point, pass) in first {
        for (then, then_pass) in second {
            let world = busy();
            let again = CrashPoint { point: then, pass: then_pass };
            let ended = dies_at(&world, world.spec(), &[CrashPoint { point, pass }, again, again]).await;
            ends_well(&ended, &world, &format!("{point} {pass}, then {then} {then_pass}"));
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_survives_one_death_after_the_other() {
    for seed in 0..60_u64 {
        let world = busy();
        let mut state = seed;
        let mut draw = |below: usize| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            usize::try_from(state >> 33).expect("31 bits") % below
        };
        let deaths: Vec<CrashPoint> = (0..6)
            .map(|_| CrashPoint { point: FAULT_POINTS[draw(FAULT_POINTS.len())], pass: draw(6) as u64 + 1 })
            .collect();
        let ended = dies_at(&world, world.spec(), &deaths).await;
        assert_eq!(ended.status(), "completed", "{deaths:?}: {}\n{}", ended.text(), listing(&ended.events));
    }
}

/// A tree so wide that its events do not fit into one commit. Calls that are answered at once shift the boundary
/// between commits, so that every event of a call is tried as a boundary.
fn wide(at_once: usize) -> World {
    World::new(move |request| match (request.depth, request.turn) {
        (0, 1) => {
            let unknown = (0..at_once).map(|_| ScriptedCall::new("teleport", json!({})));
            let spawns = (0..WIDTH).map(|n| ScriptedCall::new("task", background("scout", &n.to_string())));
            text("").calls(unknown.chain(spawns))
        }
        (0, _) => text("done"),
        _ => text("found"),
    })
}

const WIDTH: usize = 450;

fn wide_spec(world: &World) -> RunRequest {
    let mut spec = world.spec();
    spec.budget.agents = Some(WIDTH as u64 + 1);
    spec.terms.parallel = 1_000;
    spec
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wide_reply_survives_death_between_its_commits() {
    for at_once in 0..3 {
        for pass in [3, 4] {
            let world = wide(at_once);
            let death = CrashPoint { point: "engine.commit.before", pass };
            let ended = dies_at(&world, wide_spec(&world), &[death]).await;
            assert_eq!(ended.status(), "completed", "{at_once} {pass}");
            assert_eq!(ended.run.agent_count(), WIDTH + 1, "{at_once} {pass}");
            assert_eq!(ended.results("0").len(), WIDTH + at_once, "{at_once} {pass}");
        }
    }
}

/// The end of a wide tree needs more than one commit, but is one cancel. A closed child is still reported to its
/// parent.
#[tokio::test(flavor = "multi_thread")]
async fn a_wide_cancel_survives_death_in_the_middle() {
    for at_once in 0..3 {
        for after in [0, 1] {
            let latch = Latch::closed();
            let held = latch.clone();
            let world = wide(at_once).holding(move |request| (request.depth == 1).then(|| held.clone()));
            let dying = world.mortal(None);
            let handle = dying.runtime.start(wide_spec(&world)).await.expect("started");
            let run = handle.id().clone();
            latch.reached(WIDTH).await;
            // The process dies with the commit that takes the cancel, or with the next commit, if there is one.
            dying.power.as_ref().expect("mortal").die_at("engine.commit.before", 1 + after);
            world.cancel(&run.root()).await;
            carried(&dying, &handle).await;
            checks::whole(&checks::read(world.store(), &world.key(&run)).await);
            while !go_on(&world, &run, None).await {}
            assert_eq!(world.look(&run).await.status(), "cancelled", "{at_once} {after}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stopped_runtime_leaves_its_runs_to_others() {
    let latch = Latch::closed();
    let held = latch.clone();
    let world = World::new(|request| match (request.depth, request.turn) {
        (0, 1) => text("").call("task", child("scout", "x")),
        (0, _) => text(&newest(request)),
        _ => text("found"),
    })
    .holding(move |request| (request.depth == 1).then(|| held.clone()));
    let first = world.process();
    let handle = first.runtime.start(world.spec()).await.expect("started");
    latch.reached(1).await;
    first.runtime.stop();
    let stopped = handle.ended().await;
    assert!(matches!(stopped, Err(posse_engine::RuntimeError::Stopped { .. })), "{stopped:?}");
    latch.open();
    let second = world.process();
    let handle = world.resume(&second, handle.id()).await.expect("it goes on");
    let ended = world.ended(&handle).await;
    assert!(ended.text().contains("found"));
    let calls: Vec<u32> = ended
        .of("1")
        .filter_map(|event| match &event.body {
            EventBody::ModelCalled(e) => Some(e.call),
            _ => None,
        })
        .collect();
    assert_eq!(calls, [1, 2], "the call that was cut off is repeated within its turn");
}

/// An interrupted call is charged with its reserve and repeated, so spending is never under-counted.
#[tokio::test(flavor = "multi_thread")]
async fn a_model_call_cut_off_by_a_crash_is_counted_at_what_it_had_reserved() {
    let world = World::new(|request| match request.purpose {
        Purpose::Work | Purpose::Report | Purpose::Summary => text("done"),
    });
    let ended =
        dies_at(&world, world.spec(), &[CrashPoint { point: "engine.model.before_send", pass: 1 }]).await;
    let (reserved, settled) =
        ended.events.iter().fold((0, 0), |(reserved, settled), event| match &event.body {
            EventBody::ModelCalled(e) if e.call == 1 => {
                (e.reserved.input_tokens + e.reserved.output_tokens, settled)
            }
            EventBody::ModelReplied(e) if e.estimated => (reserved, e.usage.tokens()),
            _ => (reserved, settled),
        });
    assert!(reserved > 0);
    assert_eq!(reserved, settled);
}
