//! Plans: the host spawns the steps in the order that follows from the plan. The root's model is called only if a step
//! fails.

use posse_domain::code::Code;
use posse_domain::contract::{CommandCriterion, Criterion};
use posse_domain::event::{EventBody, Purpose};
use posse_domain::plan::{Author, IntegrationOrder, OnFailure, Plan, Step, UnownedWriters};
use posse_engine::ports::ModelRequest;
use posse_engine::{FAULT_POINTS, RunRequest};
use posse_models::scripted::{ScriptedAnswer, ScriptedCall};
use serde_json::json;

use crate::crash::dies_at;
use crate::integration::{builder, calls, task};
use crate::power::CrashPoint;
use crate::simulation::{Dice, cancels};
use crate::world::{EndedRun, World, child, newest};

fn plan(steps: Vec<Step>) -> Plan {
    Plan {
        goal: "Make it.".to_owned(),
        on_failure: OnFailure::Continue,
        integration: IntegrationOrder::Ordered,
        unowned_writers: UnownedWriters::Queue,
        steps,
        author: Author::Person,
    }
}

/// A step whose builder writes `PATH=TEXT` to a path that it owns.
fn step(title: &str, what: &str, depends_on: &[&str]) -> Step {
    Step {
        title: title.to_owned(),
        description: what.to_owned(),
        agent: "builder".to_owned(),
        owns: vec![what.split('=').next().unwrap_or_default().to_owned()],
        depends_on: depends_on.iter().map(ToString::to_string).collect(),
        ..Step::default()
    }
}

fn command(text: &str) -> Vec<Criterion> {
    vec![Criterion::Command(CommandCriterion { command: text.to_owned(), timeout_ms: None })]
}

fn spec(world: &World, plan: Plan) -> RunRequest {
    RunRequest { plan: Some(plan), ..world.spec() }
}

/// Builders build. The root's model must not be called.
fn silent(request: &ModelRequest) -> ScriptedAnswer {
    assert_ne!(&*request.definition, "boss", "nobody asks the root while all goes well");
    builder(request)
}

fn merged(ended: &EndedRun) -> Vec<&str> {
    let merges = ended.events.iter().filter(|event| matches!(event.body, EventBody::WorktreeMerged(_)));
    merges.map(|event| event.agent.relative()).collect()
}

fn final_text(ended: &EndedRun) -> String {
    match &ended.events.last().expect("events").body {
        EventBody::RunCompleted(e) => e.text.to_shared().to_string(),
        EventBody::RunFailed(e) => {
            e.text.as_ref().map(|text| text.to_shared().to_string()).unwrap_or_default()
        }
        other => panic!("ends with {}", other.kind()),
    }
}

#[tokio::test]
async fn steps_run_as_their_dependencies_are_integrated_and_the_root_is_not_asked() {
    let world = World::new(silent).isolated();
    // The steps are listed in reverse: the order follows from the dependencies, not from the text.
    let plan = plan(vec![
        Step { success_criteria: command("a=1"), ..step("last", "d=4", &["left", "right"]) },
        step("left", "b=2", &["first"]),
        step("right", "c=3", &["first"]),
        step("first", "a=1", &[]),
    ]);
    let ended = world.run(spec(&world, plan)).await;
    assert_eq!(ended.status(), "completed");
    let files = world.workspaces().result(&ended.run.id).expect("a result");
    assert_eq!(files.len(), 5, "{files:?}");
    // The children's numbers follow from when they could start: first, left, right, last.
    assert_eq!(merged(&ended), ["1", "2", "3", "4"]);
    let steps: Vec<u32> = ended
        .events
        .iter()
        .filter_map(|event| match &event.body {
            EventBody::SubagentClosed(closed) => Some(closed.step_idx),
            _ => None,
        })
        .collect();
    assert_eq!(steps, [3, 1, 2, 0]);
    let report = final_text(&ended);
    assert!(report.contains("Make it.") && report.matches("integrated").count() == 4, "{report}");
    assert_eq!(ended.events[1].body.kind(), "run.planned");
}

#[tokio::test]
async fn a_failed_step_is_repaired_by_the_root_and_what_depends_on_it_goes_on() {
    let script = |request: &ModelRequest| match (&*request.definition, request.turn) {
        ("boss", 1) => {
            assert!(newest(request).contains("`first`") && newest(request).contains("CHECKS_FAILED"));
            let mut input = child("builder", "a=2");
            input["repairs"] = json!("1");
            input["success_criteria"] = json!([{"command": "a=2"}]);
            calls([task(input)])
        }
        ("boss", _) => ScriptedAnswer::text("I mended it."),
        _ => builder(request),
    };
    let world = World::new(script).isolated();
    let plan = plan(vec![
        Step { success_criteria: command("a=2"), ..step("first", "a=1", &[]) },
        step("second", "b=2", &["first"]),
        step("aside", "c=3", &[]),
    ]);
    let ended = world.run(spec(&world, plan)).await;
    assert_eq!(ended.status(), "completed", "{}", crate::world::listing(&ended.events));
    let files = world.workspaces().result(&ended.run.id).expect("a result");
    assert_eq!((files["a"].as_str(), files["b"].as_str(), files["c"].as_str()), ("2", "2", "3"));
    let report = final_text(&ended);
    assert!(report.contains("I mended it.") && report.contains("failed, then repaired"), "{report}");
    assert!(report.contains("integrated: I put it there."), "a line of what each step found: {report}");
    let closed = ended.events.iter().filter_map(|event| match &event.body {
        EventBody::SubagentClosed(closed) => Some(closed.step_idx),
        _ => None,
    });
    let places: std::collections::BTreeSet<u32> = closed.collect();
    assert_eq!(places.into_iter().collect::<Vec<_>>(), [0, 1, 2, 3], "each child has a place of its own");
    let reports = world.reports(&ended.run.id).await;
    for place in 0..4 {
        let path = format!(".posse/step-{place}-result.md");
        assert!(reports.contains_key(&path), "each child has a report of its own: {path}");
    }
}

#[tokio::test]
async fn what_depends_on_a_step_that_nobody_repairs_fails_with_it_and_the_rest_goes_on() {
    for (on_failure, aside) in [(OnFailure::Continue, true), (OnFailure::Stop, false)] {
        let world = World::new(|request: &ModelRequest| match &*request.definition {
            "boss" => ScriptedAnswer::text("I leave it."),
            _ => builder(request),
        })
        .isolated();
        let failing =
            Step { success_criteria: command("a=2"), max_retries: Some(0), ..step("first", "a=1", &[]) };
        let steps = vec![
            failing,
            step("second", "b=2", &["first"]),
            step("third", "c=3", &["second"]),
            {
                // It waits for a step that succeeds, so that the failure comes first.
                step("aside", "d=4", &["long"])
            },
            step("long", "e=5", &[]),
        ];
        let plan = Plan { on_failure, ..plan(steps) };
        let ended = world.run(spec(&world, plan)).await;
        assert_eq!(ended.status(), "failed");
        let failed: Vec<Code> = ended.run.failed.iter().map(|child| child.code).collect();
        let expected = if aside {
            vec![Code::ChecksFailed, Code::Cancelled, Code::Cancelled]
        } else {
            vec![Code::ChecksFailed, Code::Cancelled, Code::Cancelled, Code::Cancelled]
        };
        assert_eq!(failed, expected, "{on_failure:?}");
        let files = world.workspaces().result(&ended.run.id).expect("a result");
        assert_eq!((files.contains_key("d"), files.contains_key("e")), (aside, true), "{on_failure:?}");
    }
}

#[tokio::test]
async fn a_step_that_is_not_required_may_fail() {
    let world = World::new(|request: &ModelRequest| match &*request.definition {
        "boss" => ScriptedAnswer::text("Never mind."),
        _ => builder(request),
    })
    .isolated();
    let outside = Step { owns: vec!["z".to_owned()], required: false, ..step("outside", "a=1", &[]) };
    let ended = world.run(spec(&world, plan(vec![outside, step("good", "b=2", &[])]))).await;
    assert_eq!(ended.status(), "completed");
    let files = world.workspaces().result(&ended.run.id).expect("a result");
    assert!(files.contains_key("b") && !files.contains_key("a"));
    assert_eq!(ended.run.failed[0].code, Code::OwnershipViolation);
}

#[tokio::test]
async fn a_step_that_cannot_be_given_to_anybody_fails_the_run_and_says_why() {
    let world = World::new(silent).isolated();
    let mut spec = spec(&world, plan(vec![step("one", "a=1", &[]), step("two", "b=2", &[])]));
    spec.budget.agents = Some(2);
    let ended = world.run(spec).await;
    assert_eq!(ended.status(), "failed");
    assert!(ended.text().contains("`two`") && ended.text().contains("BUDGET_EXHAUSTED"), "{}", ended.text());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plan_killed_anywhere_goes_on_from_the_last_integrated_step() {
    let world = || World::new(silent).isolated();
    let steps = || vec![step("a", "a=1", &[]), step("b", "b=2", &[]), step("c", "c=3", &["a", "b"])];
    let counted = world();
    let process = counted.mortal(None);
    let handle = process.runtime.start(spec(&counted, plan(steps()))).await.expect("started");
    counted.ended(&handle).await;
    for (point, count) in process.power.expect("mortal").passes() {
        for pass in 1..=count.min(3) {
            let world = world();
            let ended = dies_at(&world, spec(&world, plan(steps())), &[CrashPoint { point, pass }]).await;
            assert_eq!(ended.status(), "completed", "killed at {point} {pass}");
            let order: Vec<&str> = merged(&ended);
            let mut sorted = order.clone();
            sorted.sort_unstable();
            assert_eq!(order, sorted, "killed at {point} {pass}");
        }
    }
}

/// A random plan: steps depend on earlier steps, owners overlap only in order (as the check of plans demands), some
/// steps fail.
fn random(seed: u64) -> (World, RunRequest, Dice) {
    let mut chance = Dice::of(seed, &["plan"]);
    let count = 1 + chance.below(6);
    let mut steps: Vec<Step> = Vec::new();
    for at in 0..count {
        let path = format!("{}", chance.below(4));
        let mut depends_on: Vec<String> =
            (0..at).filter(|_| chance.one_in(4)).map(|before| format!("s{before}")).collect();
        let clash =
            steps.iter().filter(|before| before.owns == [path.clone()]).map(|before| before.title.clone());
        depends_on.extend(clash);
        depends_on.sort();
        depends_on.dedup();
        let criteria =
            if chance.one_in(3) { command(&format!("{path}={}", chance.below(2))) } else { Vec::new() };
        let kinds = ["builder", "builder", "builder", "crew", "scout"];
        steps.push(Step {
            title: format!("s{at}"),
            description: format!("{path}={}", chance.below(2)),
            agent: chance.pick(&kinds).to_owned(),
            owns: vec![path],
            depends_on,
            success_criteria: criteria,
            required: chance.one_in(2),
            max_retries: Some(u32::from(chance.one_in(2))),
            ..Step::default()
        });
    }
    let plan = Plan {
        on_failure: if chance.one_in(4) { OnFailure::Stop } else { OnFailure::Continue },
        integration: if chance.one_in(4) { IntegrationOrder::AsFinished } else { IntegrationOrder::Ordered },
        ..plan(steps)
    };
    let world = World::new(move |request| by_chance(seed, request)).isolated();
    let mut spec = spec(&world, plan);
    spec.terms.parallel = 1 + u32::try_from(chance.below(2)).expect("small");
    spec.budget.agents = Some(3 + chance.below(20));
    spec.terms.close_on_completion = !chance.one_in(4);
    (world, spec, chance)
}

fn by_chance(seed: u64, request: &ModelRequest) -> ScriptedAnswer {
    let place = format!("{} {}", request.attempt, request.turn);
    let mut chance = Dice::of(seed, &[request.agent.relative(), &place]);
    if chance.one_in(20) {
        return ScriptedAnswer::error(Some(529), "overloaded");
    }
    if request.purpose == Purpose::Report {
        return ScriptedAnswer::text("My report.");
    }
    match &*request.definition {
        "boss" if chance.one_in(2) && request.turn < 4 => {
            let mut input = child("builder", &format!("{}={}", chance.below(4), chance.below(2)));
            input["repairs"] = json!((1 + chance.below(4)).to_string());
            input["run_in_background"] = json!(chance.one_in(3));
            calls([task(input)])
        }
        "boss" => ScriptedAnswer::text("So be it."),
        "crew" if request.turn == 1 => {
            let mut input = child("builder", "x=1");
            input["run_in_background"] = json!(chance.one_in(2));
            calls([task(input), ScriptedCall::new("put", json!({"path": "y", "text": "1"}))])
        }
        "crew" => ScriptedAnswer::text("Led."),
        _ => builder(request),
    }
}

/// The number of random plans in each of eight tests: ten thousand in all in a campaign.
const PLANS: u64 = if option_env!("POSSE_CAMPAIGNS").is_some() { 1_250 } else { 250 };

/// The number of plans in each test that a cancel ends at least. About one in eighty is: most have ended before.
const CANCELLED_MIN: usize = if option_env!("POSSE_CAMPAIGNS").is_some() { 6 } else { 0 };

async fn random_plans_end(seeds: std::ops::Range<u64>) {
    let mut statuses = std::collections::BTreeMap::<&str, usize>::new();
    for seed in seeds {
        let (world, spec, mut chance) = random(seed);
        match seed % 4 {
            0 => {
                let process = world.mortal(None);
                let handle = process.runtime.start(spec).await.expect("started");
                cancels(&world, handle.id(), &mut chance).await;
                *statuses.entry(world.ended(&handle).await.status()).or_default() += 1;
            }
            1 => {
                let deaths: Vec<CrashPoint> = (0..=chance.below(3))
                    .map(|_| CrashPoint { point: chance.pick(FAULT_POINTS), pass: 1 + chance.below(8) })
                    .collect();
                *statuses.entry(dies_at(&world, spec, &deaths).await.status()).or_default() += 1;
            }
            _ => *statuses.entry(world.run(spec).await.status()).or_default() += 1,
        }
    }
    for (status, least) in [("completed", 6), ("failed", 6), ("cancelled", CANCELLED_MIN)] {
        assert!(statuses.get(status).copied().unwrap_or_default() >= least, "{statuses:?}");
    }
}

/// Split into tests that run at the same time.
macro_rules! parts {
    ($($name:ident $part:literal)*) => {
        $(#[tokio::test(flavor = "multi_thread")]
        async fn $name() {
            random_plans_end($part * PLANS..($part + 1) * PLANS).await;
        })*
    };
}

parts! {
    random_plans_always_end_0 0
    random_plans_always_end_1 1
    random_plans_always_end_2 2
    random_plans_always_end_3 3
    random_plans_always_end_4 4
    random_plans_always_end_5 5
    random_plans_always_end_6 6
    random_plans_always_end_7 7
}
