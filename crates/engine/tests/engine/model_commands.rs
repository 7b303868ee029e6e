//! Commands that models write as success criteria: each is a `bash` call of the agent that requests the child, however
//! it requests it, and is decided before the child exists.

use posse_domain::contract::{CommandCriterion, Criterion};
use posse_domain::definition::{Definition, Trust};
use posse_domain::event::{Event, EventBody};
use posse_domain::permission::{Answer, Approvals, Decision, OnAsk, ProjectRules, Rule, Rules};
use posse_domain::plan::{Author, Plan, Step, UnownedWriters};
use posse_engine::ports::{HookAnswer, HookCall, Hooks, ModelRequest, Moment};
use posse_engine::{FAULT_POINTS, RunRequest};
use posse_models::scripted::{ScriptedAnswer, ScriptedCall};
use serde_json::{Value, json};

use crate::asking::{asked, escalating, say};
use crate::crash::dies_at;
use crate::integration::{builder, calls, put, task};
use crate::power::CrashPoint;
use crate::world::{EndedRun, World, child};

fn rule(pattern: &str, decision: Decision) -> Rule {
    Rule { pattern: pattern.parse().expect(pattern), decision }
}

fn rules(pattern: &str, decision: Decision) -> Rules {
    vec![rule(pattern, decision)].into()
}

/// A `task` for a builder that writes `a=1`, with these criteria.
fn checked(criteria: &Value) -> Value {
    let mut input = child("builder", "a=1");
    input["success_criteria"] = criteria.clone();
    input
}

/// The boss makes this `task` call once.
fn boss(input: Value) -> impl Fn(&ModelRequest) -> ScriptedAnswer + Send + Sync + 'static {
    move |request| match (&*request.definition, request.turn) {
        ("boss", 1) => calls([task(input.clone())]),
        ("boss", _) => ScriptedAnswer::text("All is done."),
        _ => builder(request),
    }
}

fn of<'a>(spec: &'a mut RunRequest, name: &str) -> &'a mut Definition {
    spec.definitions.iter_mut().find(|definition| definition.name == name).expect(name)
}

fn without_bash(spec: &mut RunRequest, name: &str) {
    of(spec, name).tools.retain(|tool| tool != "bash");
}

/// The decisions about `bash` operations: agent, call, operation, decision.
fn decided(ended: &EndedRun) -> Vec<(String, String, String, Decision)> {
    let decided = |event: &Event| match &event.body {
        EventBody::PermissionDecided(e) if e.operation.starts_with("bash") => {
            let agent = event.agent.relative().to_owned();
            Some((agent, e.call_id.clone(), e.operation.clone(), e.decision))
        }
        _ => None,
    };
    ended.events.iter().filter_map(decided).collect()
}

fn count(ended: &EndedRun, kind: &str) -> usize {
    ended.events.iter().filter(|event| event.body.kind() == kind).count()
}

/// Hooks that are notified only before a `bash` call.
struct OnBash(HookAnswer);

impl Hooks for OnBash {
    fn wants(&self, moment: Moment, about: &str) -> bool {
        moment == Moment::PreToolUse && about == "bash"
    }

    fn run(&self, call: HookCall) -> futures::future::BoxFuture<'static, HookAnswer> {
        let hooked = call.call.expect("it is about a call");
        assert_eq!((hooked.tool.as_str(), hooked.spawns), ("bash", false));
        let secret = hooked.input["command"].as_str().is_some_and(|command| command.contains("secret"));
        let answer = if secret { self.0.clone() } else { HookAnswer::Goes };
        Box::pin(async move { answer })
    }
}

struct Case {
    name: &'static str,
    criteria: Value,
    rights: fn(&mut RunRequest),
    hook: Option<HookAnswer>,
    /// A text in the refusal. `None` if the commands run.
    refused: Option<&'static str>,
}

fn case(name: &'static str, rights: fn(&mut RunRequest), refused: Option<&'static str>) -> Case {
    Case { name, criteria: json!([{"command": "a=1"}]), rights, hook: None, refused }
}

fn denials() -> Vec<Case> {
    let no = || HookAnswer::Denied("not on a Friday".to_owned());
    vec![
        case(
            "the tool is not in the grant",
            |spec| without_bash(spec, "boss"),
            Some("not among the agent's tools"),
        ),
        case(
            "a rule of the run",
            |spec| spec.terms.run_rules = rules("bash", Decision::Deny),
            Some("run, by the rule"),
        ),
        case(
            "a rule of the operator for all commands",
            |spec| spec.terms.operator_rules = rules("bash:*", Decision::Deny),
            Some("operator, by the rule"),
        ),
        case(
            "a rule of the project",
            |spec| {
                spec.terms.project_rules =
                    [rules("bash:a*", Decision::Deny)].into_iter().collect::<ProjectRules>();
            },
            Some("project, by the rule"),
        ),
        case(
            "a rule of its definition for this command",
            |spec| of(spec, "boss").rules = vec![rule("bash:a=1", Decision::Deny)],
            Some("definition boss"),
        ),
        Case {
            criteria: json!([{"command": "  a=1\n"}]),
            ..case(
                "blanks around the command do not hide it",
                |spec| of(spec, "boss").rules = vec![rule("bash:a=1", Decision::Deny)],
                Some("definition boss"),
            )
        },
        Case {
            criteria: json!(["It is there.", {"command": "a=1"}, {"command": "secret=1", "timeout_ms": 5}]),
            ..case(
                "one of several commands",
                |spec| spec.terms.run_rules = rules("bash:secret*", Decision::Deny),
                Some("`bash:secret=1`"),
            )
        },
        case(
            "an ask of the definition, and no user is available",
            |spec| of(spec, "boss").rules = vec![rule("bash", Decision::Ask)],
            Some("no user is available"),
        ),
        case(
            "an ask of the operator is not lifted by an approval",
            |spec| {
                spec.terms.operator_rules = rules("bash", Decision::Ask);
                spec.terms.approvals =
                    ["bash:a=1".parse().expect("a pattern")].into_iter().collect::<Approvals>();
            },
            Some("no user is available"),
        ),
        case(
            "a definition that asks by default",
            |spec| {
                of(spec, "boss").trust = Trust::Untrusted;
                of(spec, "boss").rules = vec![rule("task", Decision::Allow)];
            },
            Some("no user is available"),
        ),
        Case {
            criteria: json!([{"command": "secret=1"}]),
            hook: Some(no()),
            ..case("a hook", |_| {}, Some("not on a Friday"))
        },
        Case {
            criteria: json!([{"command": "a=1"}, {"command": "secret=1"}]),
            hook: Some(no()),
            ..case("a hook, for the second command", |_| {}, Some("`bash:secret=1`"))
        },
        Case {
            criteria: json!([{"command": "secret=1"}]),
            hook: Some(HookAnswer::Asks("who knows".to_owned())),
            ..case("a hook that asks, and no user attends", |_| {}, Some("no user is available"))
        },
        Case {
            criteria: json!([{"command": "secret=1"}]),
            hook: Some(HookAnswer::Goes),
            ..case(
                "a hook's yes does not lift a rule",
                |spec| spec.terms.run_rules = rules("bash", Decision::Deny),
                Some("run, by the rule"),
            )
        },
        case(
            "an approval for all tools gives no tool",
            |spec| {
                without_bash(spec, "boss");
                spec.terms.approvals = ["*".parse().expect("a pattern")].into_iter().collect::<Approvals>();
            },
            Some("not among the agent's tools"),
        ),
    ]
}

fn yes() -> Vec<Case> {
    vec![
        case("it may use bash", |_| {}, None),
        case(
            "an approval lifts its definition's ask",
            |spec| {
                of(spec, "boss").rules = vec![rule("bash", Decision::Ask)];
                spec.terms.approvals =
                    ["bash:a=1".parse().expect("a pattern")].into_iter().collect::<Approvals>();
            },
            None,
        ),
        case("the child needs no bash of its own", |spec| without_bash(spec, "builder"), None),
        Case { hook: Some(HookAnswer::Goes), ..case("a hook that does not object", |_| {}, None) },
        case(
            "another command is denied",
            |spec| spec.terms.run_rules = rules("bash:rm*", Decision::Deny),
            None,
        ),
    ]
}

async fn play(case: &Case, input: Value) -> (World, EndedRun) {
    let world = World::new(boss(input)).isolated();
    let world = match &case.hook {
        Some(answer) => world.with_hooks(OnBash(answer.clone())),
        None => world,
    };
    let mut spec = world.spec();
    (case.rights)(&mut spec);
    let ended = world.run(spec).await;
    (world, ended)
}

#[tokio::test]
async fn a_command_of_a_task_that_its_agent_may_not_run_is_refused_before_the_child_exists() {
    for case in denials() {
        for background in [false, true] {
            let mut input = checked(&case.criteria);
            input["run_in_background"] = background.into();
            let (world, ended) = play(&case, input).await;
            let name = case.name;
            let (ok, said) = ended.result("0");
            let expected = case.refused.expect("a refusal");
            assert!(
                !ok && said.starts_with("PERMISSION_DENIED: ") && said.contains(expected),
                "{name}: {said}"
            );
            assert!(said.contains("`success_criteria`"), "{name}: {said}");
            assert_eq!(world.workspaces().asked("check"), 0, "{name}: nothing is run");
            assert_eq!(ended.run.agent_count(), 1, "{name}: there is no child");
            assert_eq!(count(&ended, "agent.subagent_refused"), 1, "{name}");
            let decided = decided(&ended);
            let is_last = |(agent, _, _, how): &(String, String, String, Decision)| {
                agent == "0" && *how != Decision::Allow
            };
            assert!(decided.iter().any(is_last), "{name}: {decided:?}");
        }
    }
}

#[tokio::test]
async fn a_command_that_its_agent_may_run_is_run_and_the_decision_is_in_the_journal() {
    for case in yes() {
        let (world, ended) = play(&case, checked(&case.criteria)).await;
        let name = case.name;
        let (ok, said) = ended.result("0");
        assert!(ok, "{name}: {said}");
        assert_eq!(world.workspaces().asked("check"), 1, "{name}");
        let call = ended.of("0").find_map(|event| match &event.body {
            EventBody::ToolIntended(e) => Some(e.call_id.clone()),
            _ => None,
        });
        let expected = ("0".to_owned(), call.expect("a call"), "bash:a=1".to_owned(), Decision::Allow);
        assert_eq!(decided(&ended), [expected], "{name}");
    }
}

/// The ways in which an agent without `bash` tries to have a command run, and the reasons for which it is refused.
#[tokio::test]
async fn no_other_way_to_ask_for_a_child_runs_a_command_of_one_that_may_not() {
    type Way = (&'static str, fn() -> World, fn(&mut RunRequest));
    let ways: [Way; 4] = [
        (
            "a child of one that may",
            || {
                World::new(|request| match (&*request.definition, request.turn) {
                    ("boss", 1) => calls([task(child("crew", "have it done"))]),
                    ("crew", 1) => calls([task(checked(&json!([{"command": "a=1"}])))]),
                    ("boss" | "crew", _) => ScriptedAnswer::text("All is done."),
                    _ => builder(request),
                })
            },
            |_| {},
        ),
        (
            "one below whom a rule denies it",
            || {
                World::new(|request| match (&*request.definition, request.turn) {
                    ("boss", 1) => calls([task(child("crew", "have it done"))]),
                    ("crew", 1) => calls([task(checked(&json!([{"command": "a=1"}])))]),
                    ("boss" | "crew", _) => ScriptedAnswer::text("All is done."),
                    _ => builder(request),
                })
            },
            |spec| {
                of(spec, "crew").tools.push("bash".to_owned());
                of(spec, "boss").rules = vec![rule("bash", Decision::Deny)];
            },
        ),
        (
            "one that continues a child",
            || {
                World::new(|request| match (&*request.definition, request.turn) {
                    ("boss", 1) => calls([task(child("builder", "b=1"))]),
                    ("boss", 2) => {
                        let mut input = checked(&json!([{"command": "a=1"}]));
                        input["task_id"] = json!("1");
                        calls([task(input)])
                    }
                    ("boss", _) => ScriptedAnswer::text("All is done."),
                    _ => builder(request),
                })
            },
            |spec| without_bash(spec, "boss"),
        ),
        (
            "one that repairs a child",
            || {
                World::new(|request| match (&*request.definition, request.turn) {
                    ("boss", 1) => {
                        let mut input = child("builder", "b=1");
                        input["owns"] = json!(["c"]);
                        calls([task(input)])
                    }
                    ("boss", 2) => {
                        let mut input = checked(&json!([{"command": "a=1"}]));
                        input["repairs"] = json!("1");
                        calls([task(input)])
                    }
                    ("boss", _) => ScriptedAnswer::text("All is done."),
                    _ => builder(request),
                })
            },
            |spec| without_bash(spec, "boss"),
        ),
    ];
    for (name, world, rights) in ways {
        let world = world().isolated();
        let mut spec = world.spec();
        rights(&mut spec);
        let ended = world.run(spec).await;
        assert_eq!(world.workspaces().asked("check"), 0, "{name}");
        assert_eq!(count(&ended, "agent.subagent_refused"), 1, "{name}");
        let decided = decided(&ended);
        assert!(
            decided.iter().all(|(.., how)| *how == Decision::Deny) && decided.len() == 1,
            "{name}: {decided:?}"
        );
    }
}

#[tokio::test]
async fn words_need_no_right_to_run_anything() {
    let world = World::new(boss(checked(&json!(["It is there."])))).isolated();
    let mut spec = world.spec();
    without_bash(&mut spec, "boss");
    let ended = world.run(spec).await;
    assert_eq!(count(&ended, "agent.subagent_created"), 1);
    assert!(decided(&ended).is_empty());
}

/// A user is asked about all commands at once. The child exists only after the last approval.
#[tokio::test]
async fn a_person_is_asked_about_every_command_before_the_child_is_created() {
    let criteria = json!([{"command": "a=1"}, {"command": "README=a project"}]);
    for answers in [[Answer::Once, Answer::Once], [Answer::Once, Answer::Deny { reason: None }]] {
        let world = World::new(boss(checked(&criteria))).isolated();
        let process = world.process();
        let mut spec = escalating(world.spec());
        of(&mut spec, "boss").rules = vec![rule("bash", Decision::Ask)];
        let handle = process.runtime.start(spec).await.expect("it starts");
        let mut operations = Vec::new();
        let all_yes = answers.iter().all(Answer::allows);
        for answer in answers {
            let question = asked(&world, handle.id()).await;
            assert_eq!(
                world
                    .store_events(handle.id())
                    .await
                    .iter()
                    .filter(|e| e.body.kind() == "agent.subagent_created")
                    .count(),
                0
            );
            operations.push(question.1.operation.clone());
            say(&world, &question, answer).await;
            let answered = operations.len();
            world
                .until(handle.id(), |event| {
                    matches!(&event.body, EventBody::InputAnswered(e) if e.call_id == question.1.call_id)
                        && answered > 0
                })
                .await;
        }
        let ended = world.ended(&handle).await;
        operations.sort();
        assert_eq!(operations, ["bash:README=a project", "bash:a=1"]);
        assert_eq!(count(&ended, "agent.input_requested"), 2);
        assert_eq!(count(&ended, "agent.subagent_created"), usize::from(all_yes));
        assert_eq!(world.workspaces().asked("check"), usize::from(all_yes));
        let (ok, said) = ended.result("0");
        assert_eq!(ok, all_yes, "{said}");
    }
}

/// A provider chooses the ids of calls, and may choose ids that the host gives to commands and to steps.
#[tokio::test]
async fn an_id_that_a_provider_chose_answers_no_hook_and_no_question_of_another_call() {
    for (asked_about, of_command) in [("c9/command-7", "c9"), ("step-1/command-1", "step-1")] {
        let world = World::new(move |request: &ModelRequest| match (&*request.definition, request.turn) {
            ("boss", 1) => calls([
                ScriptedCall { id: Some(asked_about.to_owned()), ..put("b", "2") },
                ScriptedCall {
                    id: Some(of_command.to_owned()),
                    ..task(checked(&json!([{"command": "secret"}])))
                },
            ]),
            ("boss", _) => ScriptedAnswer::text("All is done."),
            _ => builder(request),
        });
        let world = world.isolated().with_hooks(OnBash(HookAnswer::Denied("not on a Friday".to_owned())));
        let process = world.process();
        let mut spec = escalating(world.spec());
        of(&mut spec, "boss").rules = vec![rule("put", Decision::Ask)];
        let handle = process.runtime.start(spec).await.expect("it starts");
        let question = asked(&world, handle.id()).await;
        assert_eq!(question.1.operation, "put");
        say(&world, &question, Answer::Once).await;
        let ended = world.ended(&handle).await;
        assert_eq!(ended.status(), "completed", "{of_command}: the call that was asked about goes on");
        assert_eq!(world.workspaces().asked("check"), 0, "{of_command}: the hook denies the command");
        assert_eq!(count(&ended, "agent.subagent_refused"), 1, "{of_command}");
    }
}

#[tokio::test]
async fn a_task_that_waits_for_answers_about_its_commands_can_be_cancelled() {
    let world = World::new(boss(checked(&json!([{"command": "a=1"}, {"command": "b=1"}])))).isolated();
    let process = world.process();
    let mut spec = escalating(world.spec());
    of(&mut spec, "boss").rules = vec![rule("bash", Decision::Ask), rule("task", Decision::Ask)];
    let handle = process.runtime.start(spec).await.expect("it starts");
    let question = asked(&world, handle.id()).await;
    say(&world, &question, Answer::Once).await;
    world.until(handle.id(), |event| event.body.kind() == "agent.input_answered").await;
    world.cancel(&handle.id().root()).await;
    let ended = world.ended(&handle).await;
    assert_eq!((ended.status(), count(&ended, "agent.subagent_created")), ("cancelled", 0));
    assert_eq!(
        count(&ended, "agent.input_requested"),
        3,
        "the call and both commands are asked about at once"
    );
}

fn plan(author: Author, commands: &[&str]) -> Plan {
    let criterion = |command: &&str| {
        Criterion::Command(CommandCriterion { command: (*command).to_owned(), timeout_ms: None })
    };
    let step = |title: &str, what: &str, commands: &[&str]| Step {
        title: title.to_owned(),
        description: what.to_owned(),
        agent: "builder".to_owned(),
        owns: vec![what.split('=').next().unwrap_or_default().to_owned()],
        success_criteria: commands.iter().map(criterion).collect(),
        timeout_ms: Some(3_600_000),
        max_retries: Some(9),
        ..Step::default()
    };
    Plan {
        goal: "Make it.".to_owned(),
        on_failure: posse_domain::plan::OnFailure::Continue,
        integration: posse_domain::plan::IntegrationOrder::Ordered,
        unowned_writers: UnownedWriters::Parallel,
        steps: vec![step("first", "a=1", commands), step("second", "b=2", &[])],
        author,
    }
}

fn planned(world: &World, author: Author, commands: &[&str]) -> RunRequest {
    RunRequest { plan: Some(plan(author, commands)), ..world.spec() }
}

#[tokio::test]
async fn the_commands_of_a_models_plan_are_the_roots_and_those_of_a_persons_plan_need_no_leave() {
    for (author, runs) in [(Author::Person, true), (Author::Model, false)] {
        for case in denials() {
            let world = World::new(builder).isolated();
            let world = match &case.hook {
                Some(answer) => world.with_hooks(OnBash(answer.clone())),
                None => world,
            };
            let commands: Vec<String> = case
                .criteria
                .as_array()
                .into_iter()
                .flatten()
                .filter_map(|criterion| criterion["command"].as_str())
                .map(str::to_owned)
                .collect();
            let commands: Vec<&str> = commands.iter().map(String::as_str).collect();
            let mut spec = planned(&world, author, &commands);
            (case.rights)(&mut spec);
            let ended = world.run(spec).await;
            let name = case.name;
            assert_eq!(world.workspaces().asked("check") > 0, runs, "{author:?}, {name}");
            assert_eq!(count(&ended, "agent.subagent_refused"), usize::from(!runs), "{author:?}, {name}");
            assert_eq!(decided(&ended).is_empty(), runs, "{author:?}, {name}: {:?}", decided(&ended));
            let second = count(&ended, "agent.subagent_created");
            assert_eq!(second, if runs { 2 } else { 1 }, "{author:?}, {name}: the other step goes on");
        }
    }
}

#[tokio::test]
async fn a_models_plan_has_the_limits_of_task() {
    for (author, timeout_ms, retries, unowned) in [
        (Author::Person, 3_600_000, 9, UnownedWriters::Parallel),
        (Author::Model, 600_000, 1, UnownedWriters::Queue),
    ] {
        let world = World::new(builder).isolated();
        let mut spec = planned(&world, author, &["a=1"]);
        for criterion in &mut spec.plan.as_mut().expect("a plan").steps[0].success_criteria {
            let Criterion::Command(command) = criterion else { panic!("a command") };
            command.timeout_ms = Some(3_600_000);
        }
        let ended = world.run(spec).await;
        assert_eq!(ended.status(), "completed");
        let created: Vec<_> = ended
            .events
            .iter()
            .filter_map(|event| match &event.body {
                EventBody::SubagentCreated(e) => Some(&e.contract),
                _ => None,
            })
            .collect();
        assert_eq!(created.len(), 2);
        let checks: Vec<_> = created[0].checks().map(|check| check.timeout_ms).collect();
        assert_eq!(checks, [Some(timeout_ms)], "a model's check takes no longer than its `bash`");
        for contract in created {
            let execution = &contract.execution;
            assert_eq!((execution.attempt_timeout_ms, execution.max_retries), (Some(timeout_ms), retries));
        }
        assert_eq!(ended.run.terms.unowned_writers, unowned);
    }
    let world = World::new(builder).isolated();
    let mut spec = planned(&world, Author::Model, &[]);
    spec.plan.as_mut().expect("a plan").steps[0].model = Some("other/model".to_owned());
    let ended = world.run(spec).await;
    assert_eq!(count(&ended, "agent.subagent_refused"), 1, "it names no model that a person did not");
}

#[tokio::test]
async fn a_step_of_a_models_plan_waits_for_the_person_who_is_asked_about_its_commands() {
    for (answer, created) in [(Answer::Once, 2), (Answer::Deny { reason: Some("no".to_owned()) }, 1)] {
        let world = World::new(builder).isolated();
        let process = world.process();
        let mut spec = RunRequest { on_ask: OnAsk::Escalate, ..planned(&world, Author::Model, &["a=1"]) };
        of(&mut spec, "boss").rules = vec![rule("bash", Decision::Ask)];
        let handle = process.runtime.start(spec).await.expect("it starts");
        let question = asked(&world, handle.id()).await;
        assert_eq!(question.1.operation, "bash:a=1");
        // The other step does not wait for the answer.
        world.until(handle.id(), |event| event.body.kind() == "agent.subagent_created").await;
        say(&world, &question, answer).await;
        let ended = world.ended(&handle).await;
        assert_eq!(count(&ended, "agent.subagent_created"), created);
        assert_eq!(world.workspaces().asked("check"), created - 1);
        assert_eq!(ended.status(), if created == 2 { "completed" } else { "failed" });
    }
}

#[tokio::test]
async fn a_models_plan_whose_step_waits_for_a_person_can_be_cancelled() {
    let world = World::new(builder).isolated();
    let process = world.process();
    let mut spec = RunRequest { on_ask: OnAsk::Escalate, ..planned(&world, Author::Model, &["a=1", "b=2"]) };
    of(&mut spec, "boss").rules = vec![rule("bash", Decision::Ask)];
    let handle = process.runtime.start(spec).await.expect("it starts");
    asked(&world, handle.id()).await;
    world.cancel(&handle.id().root()).await;
    let ended = world.ended(&handle).await;
    assert_eq!(ended.status(), "cancelled");
    assert_eq!(world.workspaces().asked("check"), 0);
}

/// Wherever the process dies, a plan's commands are decided again, and the run ends in the same way.
#[tokio::test(flavor = "multi_thread")]
async fn a_crash_anywhere_neither_loses_a_command_nor_runs_one_that_is_denied() {
    let world = || World::new(builder).isolated().with_hooks(OnBash(HookAnswer::Denied("no".to_owned())));
    let spec = |world: &World| planned(world, Author::Model, &["a=1", "secret=1"]);
    let first = world();
    let process = first.mortal(None);
    let handle = process.runtime.start(spec(&first)).await.expect("it starts");
    handle.ended().await.expect("it ends");
    let passes = process.power.expect("mortal").passes();
    for point in FAULT_POINTS {
        for pass in 1..=passes.get(point).copied().unwrap_or(0) {
            let world = world();
            let ended = dies_at(&world, spec(&world), &[CrashPoint { point, pass }]).await;
            assert_eq!(world.workspaces().asked("check"), 0, "{point}, {pass}");
            assert_eq!(count(&ended, "agent.subagent_refused"), 1, "{point}, {pass}");
            assert_eq!(ended.status(), "failed", "{point}, {pass}");
        }
    }
}
