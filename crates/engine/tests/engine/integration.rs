//! Children that write: each has its own files, which are merged in a fixed order after the host has checked them.

use posse_domain::code::Code;
use posse_domain::event::EventBody;
use posse_domain::id::AgentId;
use posse_engine::ports::{ModelRequest, WorkspaceError};
use posse_models::scripted::{ScriptedAnswer, ScriptedCall};
use serde_json::{Value, json};

use crate::crash::dies_at;
use crate::power::CrashPoint;
use crate::tools::Latch;
use crate::world::{EndedRun, World, background, child, newest};

pub(crate) fn calls(calls: impl IntoIterator<Item = ScriptedCall>) -> ScriptedAnswer {
    ScriptedAnswer::text("").calls(calls)
}

pub(crate) fn put(path: &str, text: &str) -> ScriptedCall {
    ScriptedCall::new("put", json!({"path": path, "text": text}))
}

pub(crate) fn task(input: Value) -> ScriptedCall {
    ScriptedCall::new("task", input)
}

/// A `task` for a builder with a prompt `PATH=TEXT`: it writes the text to the path, and owns these paths.
fn build(what: &str, owns: &[&str]) -> Value {
    let mut input = child("builder", what);
    input["owns"] = json!(owns);
    input
}

/// The script of a builder: it writes the file in its prompt, then reports.
pub(crate) fn builder(request: &ModelRequest) -> ScriptedAnswer {
    let posse_agent::conversation::Message::User(said) = &*request.messages[0] else { panic!("no prompt") };
    let what = said.split_whitespace().find(|word| word.contains('=')).unwrap_or("x=y");
    match (request.turn, what.split_once('=')) {
        (1, Some((path, text))) => calls([put(path, text)]),
        _ => ScriptedAnswer::text("I put it there."),
    }
}

/// The root requests these children at once, then ends.
fn boss(asked: Vec<ScriptedCall>) -> impl Fn(&ModelRequest) -> ScriptedAnswer + Send + Sync + 'static {
    move |request| match (&*request.definition, request.turn) {
        ("boss", 1) => calls(asked.clone()),
        ("boss", _) => ScriptedAnswer::text("All is done."),
        _ => builder(request),
    }
}

fn agent(ended: &EndedRun, relative: &str) -> AgentId {
    AgentId::from_relative(&ended.run.id, relative).expect("an id")
}

fn results(request: &ModelRequest) -> String {
    newest(request)
}

fn kinds_of(ended: &EndedRun, relative: &str) -> Vec<&'static str> {
    let id = agent(ended, relative);
    ended.events.iter().filter(|event| event.agent == id).map(|event| event.body.kind()).collect()
}

#[tokio::test]
async fn a_childs_change_is_merged_into_what_the_run_delivers() {
    let world = World::new(boss(vec![task(build("src/a=1", &[]))])).isolated();
    let ended = world.run(world.spec()).await;
    assert_eq!(ended.status(), "completed");
    let files = world.workspaces().result(&ended.run.id).expect("a result");
    assert_eq!(files.get("src/a").map(String::as_str), Some("1"));
    assert_eq!(files.get("README").map(String::as_str), Some("a project"));
    let kinds = kinds_of(&ended, "1");
    let merged = kinds.iter().position(|kind| *kind == "agent.worktree_merged").expect("merged");
    let order = ["agent.workspace_made", "agent.workspace_salvaged", "agent.subagent_waiting_for_merge"];
    for kind in order {
        assert!(kinds[..merged].contains(&kind), "{kind} comes before the merge: {kinds:?}");
    }
    // The root only delegated: it needs no files on disk, and only its work ref moves.
    assert_eq!((world.workspaces().asked("make"), world.workspaces().asked("snapshot")), (1, 0));
    let reports = world.reports(&ended.run.id).await;
    assert_eq!(reports[".posse/step-0-result.md"], "I put it there.");
}

/// An agent in the middle of the tree without its own files: its change consists of its child's changes.
#[tokio::test]
async fn what_is_merged_into_one_that_only_delegates_goes_up_with_it() {
    let script = |request: &ModelRequest| match (&*request.definition, request.turn) {
        ("boss", 1) => calls([task(child("crew", "have it done"))]),
        ("crew", 1) => calls([task(build("src/a=1", &[]))]),
        ("boss" | "crew", _) => ScriptedAnswer::text("All is done."),
        _ => builder(request),
    };
    let world = World::new(script).isolated();
    let ended = world.run(world.spec()).await;
    assert_eq!(ended.status(), "completed");
    let kinds = kinds_of(&ended, "1");
    assert!(!kinds.contains(&"agent.workspace_made"), "it had no files: {kinds:?}");
    assert!(kinds.contains(&"agent.worktree_merged"), "{kinds:?}");
    let files = world.workspaces().result(&ended.run.id).expect("a result");
    assert_eq!(files.get("src/a").map(String::as_str), Some("1"));
}

#[tokio::test]
async fn writers_of_different_paths_work_at_once_and_are_merged_in_the_order_they_were_asked_for() {
    let latch = Latch::closed();
    let held = latch.clone();
    let calls = vec![task(build("a/x=1", &["a/**"])), task(build("b/x=2", &["b/**"]))];
    let world = World::new(boss(calls))
        .isolated()
        .holding(move |request| (request.agent.relative() == "1" && request.turn == 2).then(|| held.clone()));
    let process = world.process();
    let handle = process.runtime.start(world.spec()).await.expect("started");
    latch.reached(1).await;
    let second = handle.id().root().child(2);
    world
        .until(handle.id(), |event| {
            event.agent == second && event.body.kind() == "agent.subagent_waiting_for_merge"
        })
        .await;
    assert!(world.workspaces().updates().is_empty(), "the second waits for the first, which still works");
    latch.open();
    let ended = world.ended(&handle).await;
    let merged: Vec<String> = ended
        .events
        .iter()
        .filter(|event| matches!(event.body, EventBody::WorktreeMerged(_)))
        .map(|event| event.agent.relative().to_owned())
        .collect();
    assert_eq!(merged, ["1", "2"]);
    let files = world.workspaces().result(&ended.run.id).expect("a result");
    assert_eq!((files["a/x"].as_str(), files["b/x"].as_str()), ("1", "2"));
}

#[tokio::test]
async fn a_writer_waits_for_one_that_owns_the_same_and_starts_from_what_that_made() {
    let calls = vec![task(build("a/x=1", &["a/**"])), task(build("a/x=2", &["a/x"]))];
    let world = World::new(boss(calls)).isolated();
    let ended = world.run(world.spec()).await;
    assert_eq!(ended.status(), "completed");
    let files = world.workspaces().result(&ended.run.id).expect("a result");
    assert_eq!(files["a/x"], "2", "the second changed what the first had made, without a conflict");
    assert!(kinds_of(&ended, "2").contains(&"agent.subagent_queued"));
}

#[tokio::test]
async fn a_change_outside_what_the_child_owns_is_refused_and_the_parent_is_as_before() {
    let calls = vec![task(build("b/x=1", &["a/**"])), task(build("c/x=2", &["c/**"]))];
    let told = std::sync::Arc::new(std::sync::Mutex::new(String::new()));
    let heard = told.clone();
    let script = boss(calls);
    let world = World::new(move |request| {
        if &*request.definition == "boss" && request.turn == 2 {
            *heard.lock().expect("free") = results(request);
        }
        script(request)
    })
    .isolated();
    let ended = world.run(world.spec()).await;
    let files = world.workspaces().result(&ended.run.id).expect("a result");
    assert!(!files.contains_key("b/x") && files.contains_key("c/x"));
    let told = told.lock().expect("free").clone();
    assert!(
        told.contains("OWNERSHIP_VIOLATION") && told.contains("b/x") && told.contains("I put it there."),
        "{told}"
    );
    assert_eq!(
        ended.run.failed.iter().map(|child| child.code).collect::<Vec<_>>(),
        [Code::OwnershipViolation]
    );
    let salvaged = world.workspaces().salvaged(&agent(&ended, "1"), 1).expect("salvaged");
    assert_eq!(salvaged["b/x"], "1", "what it made is not lost");
}

#[tokio::test]
async fn a_conflict_fails_the_child_and_a_repair_starts_from_the_merged_files() {
    let script = |request: &ModelRequest| match (&*request.definition, request.turn) {
        ("boss", 1) => {
            let mut input = background("builder", "src/a=1");
            input["required"] = json!(true);
            calls([task(input), put("src/a", "mine")])
        }
        ("boss", 2) if newest(request).contains("INTEGRATION_CONFLICT") || request.messages.len() > 3 => {
            let mut input = build("src/b=2", &[]);
            input["repairs"] = json!("1");
            calls([task(input)])
        }
        ("boss", 2) => ScriptedAnswer::text("I wait."),
        ("boss", 3) if !newest(request).contains("Subagent Result") => {
            let mut input = build("src/b=2", &[]);
            input["repairs"] = json!("1");
            calls([task(input)])
        }
        ("boss", _) => ScriptedAnswer::text("Repaired."),
        _ => builder(request),
    };
    let world = World::new(script).isolated();
    let ended = world.run(world.spec()).await;
    assert_eq!(ended.status(), "completed", "{:?}", ended.run.outcome);
    assert!(kinds_of(&ended, "1").contains(&"agent.worktree_conflicted"));
    let files = world.workspaces().result(&ended.run.id).expect("a result");
    assert_eq!((files["src/a"].as_str(), files["src/b"].as_str()), ("mine", "2"));
}

#[tokio::test]
async fn commands_of_the_contract_run_on_the_merged_tree_and_decide() {
    let criteria = |mut input: Value, command: &str| {
        input["success_criteria"] = json!([{"command": command}]);
        task(input)
    };
    let calls = vec![
        criteria(build("a/x=1", &["a/**"]), "a/x=1"),
        // Only true of the merged tree, because the other child created that file.
        criteria(build("b/x=2", &["b/**"]), "a/x=1"),
        criteria(build("c/x=3", &["c/**"]), "c/x=4"),
    ];
    let world = World::new(boss(calls)).isolated();
    let ended = world.run(world.spec()).await;
    let files = world.workspaces().result(&ended.run.id).expect("a result");
    assert!(
        files.contains_key("a/x") && files.contains_key("b/x") && !files.contains_key("c/x"),
        "{files:?}"
    );
    let kinds = kinds_of(&ended, "3");
    assert!(
        kinds.contains(&"agent.checks_failed") && kinds.contains(&"agent.integration_failed"),
        "{kinds:?}"
    );
    let failed = &ended.run.failed[0];
    assert_eq!(failed.code, Code::ChecksFailed);
    assert!(failed.reason.contains("c/x=4") && failed.reason.contains("looked at"), "{}", failed.reason);
    let report = &world.reports(&ended.run.id).await[".posse/step-2-result.md"];
    assert!(report.contains("CHECKS_FAILED") && report.contains("I put it there."), "it says both: {report}");
}

#[tokio::test]
async fn a_background_child_whose_checks_take_long_keeps_no_foreground_one_waiting() {
    let script = |request: &ModelRequest| match (&*request.definition, request.turn) {
        ("boss", 1) => {
            let mut input = background("builder", "a/x=1");
            input["owns"] = json!(["a/**"]);
            input["success_criteria"] = json!([{"command": "hang"}]);
            calls([task(input)])
        }
        ("boss", 2) => calls([task(build("b/x=2", &["b/**"]))]),
        ("boss", 3) => calls([ScriptedCall::new("task_cancel", json!({"task_id": "1", "reason": "long"}))]),
        ("boss", _) => ScriptedAnswer::text("Done."),
        _ => builder(request),
    };
    let world = World::new(script).isolated();
    let ended = world.run(world.spec()).await;
    assert_eq!(ended.status(), "completed");
    let files = world.workspaces().result(&ended.run.id).expect("a result");
    assert!(files.contains_key("b/x") && !files.contains_key("a/x"));
}

#[tokio::test]
async fn a_second_attempt_has_fresh_files_and_the_first_ones_are_kept() {
    let script = |request: &ModelRequest| match (&*request.definition, request.attempt, request.turn) {
        ("boss", _, 1) => calls([task(build("a=1", &[]))]),
        ("boss", ..) => ScriptedAnswer::text("Done."),
        (_, 1, 1) => calls([put("half", "done")]),
        (_, 1, _) => ScriptedAnswer::error(Some(500), "broken"),
        (_, _, 1) => calls([put("whole", "done")]),
        _ => ScriptedAnswer::text("Whole."),
    };
    let world = World::new(script).isolated();
    let ended = world.run(world.spec()).await;
    assert_eq!(ended.status(), "completed");
    let files = world.workspaces().result(&ended.run.id).expect("a result");
    assert!(files.contains_key("whole") && !files.contains_key("half"), "{files:?}");
    let first = world.workspaces().salvaged(&agent(&ended, "1"), 1).expect("kept");
    assert_eq!(first["half"], "done");
}

#[tokio::test]
async fn readers_share_the_snapshot_and_nothing_is_taken_twice() {
    let asked = (0..20).map(|_| task(child("scout", "look"))).collect();
    let script = boss(asked);
    let world = World::new(move |request| match (&*request.definition, request.turn) {
        ("scout", 1) => calls([ScriptedCall::new("probe", json!({}))]),
        ("scout", _) => ScriptedAnswer::text("Seen."),
        _ => script(request),
    })
    .isolated();
    let ended = world.run(world.spec()).await;
    assert_eq!(ended.status(), "completed");
    let asked = |what| world.workspaces().asked(what);
    assert_eq!((asked("make"), asked("snapshot"), asked("merge"), asked("deliver")), (0, 0, 0, 0));
    assert_eq!(asked("shared"), 1, "twenty readers, one checkout");
}

#[tokio::test]
async fn what_the_root_changed_by_itself_is_delivered_too() {
    let world = World::new(|request: &ModelRequest| match request.turn {
        1 => calls([put("own", "work")]),
        _ => ScriptedAnswer::text("Done."),
    })
    .isolated();
    let ended = world.run(world.spec()).await;
    assert_eq!(world.workspaces().result(&ended.run.id).expect("a result")["own"], "work");
    let Some(EventBody::RunCompleted(completed)) = ended.events.last().map(|event| &event.body) else {
        panic!("not completed");
    };
    assert!(completed.result.as_ref().is_some_and(|result| result.branch.is_some()));
}

/// The run is killed at every pass of every fault point, and always ends with the same files, merged once.
#[tokio::test(flavor = "multi_thread")]
async fn a_run_of_writers_killed_anywhere_merges_everything_once() {
    let world = || {
        let mut checked = build("b/x=2", &["b/**"]);
        checked["success_criteria"] = json!([{"command": "a/x=1"}]);
        World::new(boss(vec![task(build("a/x=1", &["a/**"])), task(checked), put("own", "work")])).isolated()
    };
    let counted = world();
    let process = counted.mortal(None);
    let handle = process.runtime.start(counted.spec()).await.expect("started");
    let ended = counted.ended(&handle).await;
    let expected = counted.workspaces().result(&ended.run.id).expect("a result");
    let passes = process.power.expect("mortal").passes();
    let mut killed = 0;
    for (point, count) in passes {
        for pass in 1..=count.min(4) {
            let world = world();
            let ended = dies_at(&world, world.spec(), &[CrashPoint { point, pass }]).await;
            let Some(ended) = Some(ended).filter(|ended| ended.status() == "completed") else {
                panic!("killed at {point} it did not complete");
            };
            killed += 1;
            // Without any change there is no result. Then everything was interrupted.
            let files = world.workspaces().result(&ended.run.id);
            let mut files = files.unwrap_or_else(|| [("README".to_owned(), "a project".to_owned())].into());
            // An interrupted command is not run again, so its file may be missing.
            for cut in ["own", "a/x", "b/x"] {
                if let (None, Some(text)) = (files.get(cut), expected.get(cut)) {
                    let interrupted =
                        ended.events.iter().any(|event| event.body.kind() == "agent.tool_interrupted")
                            || !ended.run.failed.is_empty();
                    assert!(interrupted, "{cut} is missing though nothing was cut off at {point} {pass}");
                    files.insert(cut.to_owned(), text.clone());
                }
            }
            assert_eq!(files, expected, "killed at {point} {pass}");
            let merges = ended
                .events
                .iter()
                .filter(|event| matches!(event.body, EventBody::WorktreeMerged(_)))
                .count();
            assert!(world.workspaces().updates().len() <= merges, "merged twice at {point} {pass}");
        }
    }
    assert!(killed > 30, "{killed}");
}

/// Every operation at which the machine can fail, from creating a workspace to publishing the result.
const STEPS: [&str; 8] = ["make", "ready", "snapshot", "salvage", "merge", "check", "update", "deliver"];

fn checked_child() -> Value {
    let mut input = build("src/a=1", &[]);
    input["success_criteria"] = json!([{"command": "src/a=1"}]);
    input
}

#[tokio::test(start_paused = true)]
async fn a_machine_that_fails_for_a_while_loses_nothing_and_fails_nobody() {
    for step in STEPS {
        let script = boss(vec![put("b", "2"), task(checked_child())]);
        let world = World::new(script).isolated().in_virtual_time();
        world.workspaces().ail(step, 3);
        let ended = world.run(world.spec()).await;
        assert_eq!(ended.status(), "completed", "{step}: {}", ended.text());
        assert!(world.workspaces().asked(step) > 3, "{step} was not asked for");
        let files = world.workspaces().result(&ended.run.id).expect("delivered");
        assert_eq!((files["src/a"].as_str(), files["b"].as_str()), ("1", "2"), "{step}");
        assert_eq!(world.asked_by_depth(1), 2, "{step}: the child worked once");
    }
}

#[tokio::test(start_paused = true)]
async fn a_machine_that_fails_for_good_ends_the_process_and_not_the_work() {
    for step in STEPS {
        let script = boss(vec![put("b", "2"), task(checked_child())]);
        let world = World::new(script).isolated().in_virtual_time();
        world.workspaces().ail(step, 1_000);
        let process = world.process();
        let handle = process.runtime.start(world.spec()).await.expect("the run starts");
        let error = handle.ended().await.expect_err("it cannot go on").to_string();
        assert!(error.contains(&format!("{step} was killed (tried 5 times)")), "{step}: {error}");
        let events = world.store_events(handle.id()).await;
        let failed = |event: &&posse_domain::event::Event| event.body.kind().contains("fail");
        assert_eq!(events.iter().find(failed), None, "{step}: nobody is at fault");
        drop(process);
        world.workspaces().ail(step, 0);
        let later = world.process();
        let handle = world.resume(&later, handle.id()).await.expect("it is not over");
        let ended = world.ended(&handle).await;
        assert_eq!(ended.status(), "completed", "{step}: {}", ended.text());
        let files = world.workspaces().result(&ended.run.id).expect("delivered");
        assert_eq!((files["src/a"].as_str(), files["b"].as_str()), ("1", "2"), "{step}");
        assert_eq!(world.asked_by_depth(1), 2, "{step}: the child worked once");
    }
}

/// A command may itself be the cause that its helper processes end. If that happens on each try, its agent fails, and
/// the run continues.
#[tokio::test(start_paused = true)]
async fn a_check_that_ends_its_own_sandbox_each_time_fails_its_child_and_not_the_run() {
    for (times, status) in [(3, "completed"), (1_000, "failed")] {
        let world = World::new(boss(vec![task(checked_child())])).isolated().in_virtual_time();
        world.workspaces().fail(
            "check",
            times,
            WorkspaceError::Suspect("the command ended its own sandbox".to_owned()),
        );
        let ended = world.run(world.spec()).await;
        assert_eq!(ended.status(), "completed", "{}", ended.text());
        let child = if ended.run.failed.is_empty() { "completed" } else { "failed" };
        assert_eq!(child, status, "{}", ended.text());
        let reason = ended.run.failed.first().map_or("", |failed| failed.reason.as_str());
        let expected = "could not be run: the command ended its own sandbox each of 5 times";
        assert_eq!(reason.contains(expected), status == "failed", "{reason}");
    }
}

/// If a helper was killed on one of the tries, the cause is uncertain. This counts as a failure of the machine.
#[tokio::test(start_paused = true)]
async fn a_check_that_is_not_always_the_suspect_is_the_machines_failure() {
    let world = World::new(boss(vec![task(checked_child())])).isolated().in_virtual_time();
    let suspect = WorkspaceError::Suspect("the command ended its own sandbox".to_owned());
    world.workspaces().fail("check", 4, suspect);
    world.workspaces().fail("check", 1, WorkspaceError::Unavailable("check was killed".to_owned()));
    let process = world.process();
    let handle = process.runtime.start(world.spec()).await.expect("the run starts");
    let error = handle.ended().await.expect_err("it cannot go on").to_string();
    assert!(error.contains("check was killed (tried 5 times)"), "{error}");
}
