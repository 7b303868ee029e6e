//! Hooks at each moment: the effect of an objection, the order, and the effect of a cancel or a crash meanwhile.

use std::sync::{Arc, Mutex};

use futures::FutureExt;
use futures::future::BoxFuture;
use posse_domain::code::Code;
use posse_domain::event::{Event, EventBody, HostNote, Sender};
use posse_domain::permission::{Answer, Decision, Rule, Rules};
use posse_engine::FAULT_POINTS;
use posse_engine::ports::{HookAccess, HookAnswer, HookCall, Hooks, Moment, Urgency};
use posse_models::scripted::ScriptedAnswer;
use serde_json::json;

use crate::asking::{asked, escalating, say};
use crate::crash::dies_at;
use crate::power::CrashPoint;
use crate::tools::Latch;
use crate::world::{EndedRun, World, child, listing, newest};

fn text(text: &str) -> ScriptedAnswer {
    ScriptedAnswer::text(text)
}

fn no(reason: &str) -> HookAnswer {
    HookAnswer::Denied(reason.to_owned())
}

/// The notifications of a hook: the moment, the tool or agent, and the access to files.
type HookRecord = Arc<Mutex<Vec<(Moment, String, HookAccess)>>>;
type AnswerFn = Arc<dyn Fn(&HookCall) -> HookAnswer + Send + Sync>;

/// Hooks that are notified at some moments, wait at a latch if there is one, answer from a closure, and end on the stop
/// signal.
#[derive(Clone)]
struct ScriptedHooks {
    moments: Vec<Moment>,
    heard: HookRecord,
    ended: Arc<Mutex<usize>>,
    latch: Option<Latch>,
    say: AnswerFn,
}

impl ScriptedHooks {
    fn at(moments: &[Moment], say: impl Fn(&HookCall) -> HookAnswer + Send + Sync + 'static) -> Self {
        Self {
            moments: moments.to_vec(),
            heard: Arc::default(),
            ended: Arc::default(),
            latch: None,
            say: Arc::new(say),
        }
    }

    fn behind(mut self, latch: &Latch) -> Self {
        self.latch = Some(latch.clone());
        self
    }

    fn heard(&self) -> Vec<(Moment, String, HookAccess)> {
        self.heard.lock().expect("no panic while it is held").clone()
    }

    /// The number of hooks that ended because of the stop signal.
    fn ended(&self) -> usize {
        *self.ended.lock().expect("no panic while it is held")
    }
}

impl Hooks for ScriptedHooks {
    fn wants(&self, moment: Moment, _: &str) -> bool {
        self.moments.contains(&moment)
    }

    fn run(&self, call: HookCall) -> BoxFuture<'static, HookAnswer> {
        let about = call.call.as_ref().map_or(call.definition.clone(), |hooked| hooked.tool.clone());
        self.heard.lock().expect("no panic while it is held").push((call.moment, about, call.reach));
        let (latch, say, ended) = (self.latch.clone(), self.say.clone(), self.ended.clone());
        async move {
            if let Some(latch) = latch {
                let mut stop = call.at.stop.clone();
                tokio::select! {
                    () = latch.pass() => {}
                    () = stop.at_least(Urgency::Gently) => {
                        *ended.lock().expect("no panic while it is held") += 1;
                        return no("told to end");
                    }
                }
            }
            say(&call)
        }
        .boxed()
    }
}

fn decided(ended: &EndedRun, agent: &str) -> Vec<(String, Decision, Option<String>)> {
    let decided = |event: &Event| match &event.body {
        EventBody::PermissionDecided(e) => Some((e.operation.clone(), e.decision, e.layer.clone())),
        _ => None,
    };
    ended.of(agent).filter_map(decided).collect()
}

fn objections(ended: &EndedRun) -> Vec<String> {
    let said = |event: &Event| match &event.body {
        EventBody::MessageReceived(e) if e.from == Sender::Host(HostNote::Hook) => {
            Some(e.text.to_shared().to_string())
        }
        _ => None,
    };
    ended.events.iter().filter_map(said).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_of_any_class_is_refused_by_a_hook_before_it_happens() {
    let world = World::new(|request| match request.turn {
        1 => text("")
            .call("probe", json!({"on": "a"}))
            .call("strike", json!({"on": "b"}))
            .call("ask_net", json!({}))
            .call("write", json!({"path": "a.txt", "content": "a"}))
            .call("task", child("scout", "x"))
            .call("todo", json!({"items": []})),
        _ => text("done"),
    });
    let hooks = ScriptedHooks::at(&[Moment::PreToolUse], |_| no("not on a Friday"));
    let world = world.with_hooks(hooks.clone());
    let ended = world.run(world.spec()).await;
    let results = ended.results("0");
    assert_eq!(results.len(), 6, "{results:?}");
    for (tool, ok, said) in &results {
        assert!(
            !ok && said.starts_with("PERMISSION_DENIED: ") && said.contains("not on a Friday"),
            "{tool}: {said}"
        );
    }
    assert!(world.outside.all().is_empty() && !world.dir.path().join("a.txt").exists());
    assert_eq!(ended.run.agent_count(), 1);
    let decided = decided(&ended, "0");
    assert_eq!(decided.len(), 6);
    assert!(decided.iter().all(|(_, how, layer)| *how == Decision::Deny && layer.as_deref() == Some("hook")));
    assert!(decided.iter().any(|(operation, ..)| operation == "strike:b"), "{decided:?}");
    assert_eq!(hooks.heard().len(), 6);
    assert!(hooks.heard().iter().all(|(.., reach)| *reach == HookAccess::Read));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_yes_of_a_hook_does_not_lift_a_rule() {
    let world = World::new(|request| match request.turn {
        1 => text("").call("strike", json!({"on": "a"})),
        _ => text("done"),
    });
    let world = world.with_hooks(ScriptedHooks::at(&[Moment::PreToolUse], |_| HookAnswer::Goes));
    let mut spec = world.spec();
    let deny = Rule { pattern: "strike".parse().expect("a pattern"), decision: Decision::Deny };
    spec.terms.operator_rules = Rules::from(vec![deny]);
    let ended = world.run(spec).await;
    let (ok, said) = ended.result("0");
    assert!(!ok && said.contains("operator"), "{said}");
    assert_eq!(world.outside.count("strike"), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_waits_for_a_hook_keeps_its_place_and_holds_no_slot() {
    let latch = Latch::closed();
    let hooks = ScriptedHooks::at(&[Moment::PreToolUse], |_| HookAnswer::Goes).behind(&latch);
    let world = World::new(|request| match (request.agent.relative(), request.turn) {
        ("0", 1) => text("")
            .call("task", child("builder", "first"))
            .call("probe", json!({}))
            .call("strike", json!({"on": "after"})),
        ("1", 1) => text("").call("todo", json!({"items": []})),
        _ => text("done"),
    });
    // Only the root's `probe` waits. Its child, which has the only slot, continues.
    let hooks = OneToolHooks { hooks, tool: "probe" };
    let world = world.with_hooks(hooks);
    let process = world.process();
    let mut spec = world.spec();
    spec.terms.parallel = 1;
    let handle = process.runtime.start(spec).await.expect("it starts");
    latch.reached(1).await;
    world.until(handle.id(), |event| event.body.kind() == "agent.subagent_closed").await;
    assert!(world.outside.all().is_empty(), "what comes after it waits");
    latch.open();
    let ended = world.ended(&handle).await;
    assert_eq!(ended.status(), "completed");
    let order: Vec<String> = world.outside.all().into_iter().map(|(tool, ..)| tool).collect();
    assert_eq!(order, ["probe", "strike"]);
}

struct OneToolHooks {
    hooks: ScriptedHooks,
    tool: &'static str,
}

impl Hooks for OneToolHooks {
    fn wants(&self, moment: Moment, about: &str) -> bool {
        about == self.tool && self.hooks.wants(moment, about)
    }

    fn run(&self, call: HookCall) -> BoxFuture<'static, HookAnswer> {
        self.hooks.run(call)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_objection_after_a_call_is_read_beside_its_result() {
    let latch = Latch::closed();
    let world = World::new(|request| match request.turn {
        1 => text("").call("probe", json!({"on": "a"})).call("boom", json!({})),
        _ => text("done"),
    });
    let say = |call: &HookCall| {
        let output = call.call.as_ref().and_then(|call| call.output.clone()).expect("a result");
        no(&format!("I saw: {output}"))
    };
    let hooks = ScriptedHooks::at(&[Moment::PostToolUse], say).behind(&latch);
    let world = world.with_hooks(hooks.clone());
    let process = world.process();
    let handle = process.runtime.start(world.spec()).await.expect("it starts");
    latch.reached(1).await;
    world.until(handle.id(), |event| matches!(&event.body, EventBody::ToolFinished(e) if e.ok)).await;
    assert_eq!(world.asked_by_depth(0), 1, "the next turn waits for the hook");
    latch.open();
    let ended = world.ended(&handle).await;
    let results = ended.results("0");
    let looked = results.iter().find(|(tool, ..)| tool == "probe").expect("a result");
    assert_eq!(looked.2, r#"probe {"on":"a"}"#, "the result stays what it was");
    let notes = objections(&ended);
    assert_eq!(notes.len(), 1, "a call that failed is not heard of: {notes:?}");
    assert!(notes[0].contains("`probe`") && notes[0].ends_with(r#"I saw: probe {"on":"a"}"#), "{notes:?}");
    let read = newest(&world.asked_by("0")[1]);
    assert!(read.contains(r#"probe {"on":"a"}"#) && read.contains("A hook objects"), "{read}");
    assert_eq!(hooks.heard().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hook_after_a_change_may_change_the_files_and_keeps_them_from_others() {
    let latch = Latch::closed();
    let hooks = ScriptedHooks::at(&[Moment::PostToolUse], |_| HookAnswer::Goes).behind(&latch);
    let world = World::new(|request| match request.turn {
        1 => text("")
            .call("put", json!({"path": "a", "text": "1"}))
            .call("put", json!({"path": "b", "text": "2"})),
        _ => text("done"),
    });
    let world = world.with_hooks(hooks.clone()).isolated();
    let process = world.process();
    let handle = process.runtime.start(world.spec()).await.expect("it starts");
    latch.reached(1).await;
    world.until(handle.id(), |event| matches!(&event.body, EventBody::ToolFinished(e) if e.ok)).await;
    assert_eq!(hooks.heard().len(), 1, "the second change waits for the hook of the first");
    latch.open();
    let ended = world.ended(&handle).await;
    assert_eq!(ended.status(), "completed");
    let heard = hooks.heard();
    assert_eq!(heard.len(), 2);
    assert!(heard.iter().all(|(.., reach)| *reach == HookAccess::Change), "{heard:?}");
    let files = world.workspaces().result(handle.id()).expect("a result");
    assert_eq!((files["a"].as_str(), files["b"].as_str()), ("1", "2"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_child_that_a_hook_does_not_let_start_has_no_turn() {
    let world = World::new(|request| match (request.depth, request.turn) {
        (0, 1) => text("").call("task", child("scout", "x")),
        _ => text("done"),
    });
    let hooks = ScriptedHooks::at(&[Moment::SubagentStart], |_| no("scouts are resting"));
    let world = world.with_hooks(hooks.clone()).isolated();
    let ended = world.run(world.spec()).await;
    let (ok, said) = ended.result("0");
    assert!(!ok && said.starts_with("PERMISSION_DENIED: ") && said.contains("scouts are resting"), "{said}");
    assert_eq!(ended.kinds("1"), ["subagent_created", "subagent_failed", "subagent_closed"]);
    assert_eq!(world.asked_by_depth(1), 0);
    assert_eq!(hooks.heard(), [(Moment::SubagentStart, "scout".to_owned(), HookAccess::Borrowed)]);
    let kind = ended.of("1").find_map(|event| match &event.body {
        EventBody::SubagentFailed(e) => Some((e.kind.as_str(), e.code)),
        _ => None,
    });
    assert_eq!(kind, Some(("policy", Code::PermissionDenied)));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_childs_work_that_a_hook_objects_to_is_not_integrated() {
    let world = World::new(|request| match (request.depth, request.turn) {
        (0, 1) => text("").call("task", child("builder", "x")).call("task", child("scout", "y")),
        (1, 1) if &*request.definition == "builder" => {
            text("").call("put", json!({"path": "a", "text": "1"}))
        }
        _ => text("all is well"),
    });
    let say = |call: &HookCall| no(&format!("`{}` is no report", call.report.as_deref().expect("a report")));
    let hooks = ScriptedHooks::at(&[Moment::SubagentStop], say);
    let world = world.with_hooks(hooks.clone()).isolated();
    let ended = world.run(world.spec()).await;
    for agent in ["1", "2"] {
        let rejected = ended.of(agent).find_map(|event| match &event.body {
            EventBody::IntegrationFailed(e) => Some((e.code, e.reason.clone())),
            _ => None,
        });
        let (code, reason) = rejected.expect("a rejection");
        assert_eq!(code, Code::ChecksFailed);
        assert!(reason.ends_with("`all is well` is no report"), "{reason}");
    }
    let said = ended.results("0");
    assert!(said.iter().all(|(_, ok, said)| !ok && said.starts_with("CHECKS_FAILED: ")), "{said:?}");
    assert!(!ended.events.iter().any(|event| event.body.kind() == "agent.worktree_merged"));
    assert!(hooks.heard().contains(&(Moment::SubagentStop, "builder".to_owned(), HookAccess::Read)));
}

#[tokio::test(flavor = "multi_thread")]
async fn children_that_no_hook_objects_to_are_integrated_as_ever() {
    let script = |request: &posse_engine::ports::ModelRequest| match (request.depth, request.turn) {
        (0, 1) => text("").call("task", child("builder", "x")).call("task", child("scout", "y")),
        (1, 1) if &*request.definition == "builder" => {
            text("").call("put", json!({"path": "a", "text": "1"}))
        }
        _ => text("all is well"),
    };
    let hooks = ScriptedHooks::at(&Moment::ALL, |_| HookAnswer::Goes);
    let world = World::new(script).with_hooks(hooks.clone()).isolated();
    let ended = world.run(world.spec()).await;
    assert_eq!(ended.status(), "completed");
    assert!(ended.results("0").iter().all(|(_, ok, _)| *ok), "{:?}", ended.results("0"));
    assert_eq!(world.workspaces().result(&ended.run.id).expect("a result")["a"], "1");
    let of = |moment: Moment| hooks.heard().iter().filter(|(heard, ..)| *heard == moment).count();
    let counts = Moment::ALL.map(of);
    assert_eq!(counts, [3, 3, 2, 2], "two tasks and a put; both children");
    let alone = World::new(script).isolated();
    let alone = alone.run(alone.spec()).await;
    for agent in ["1", "2"] {
        assert_eq!(ended.kinds(agent), alone.kinds(agent), "the same events as without hooks");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_ask_of_a_hook_is_a_question_to_a_person() {
    let world = World::new(|request| match request.turn {
        1 => text("").call("strike", json!({"on": "a"})),
        _ => text("done"),
    });
    let hooks = ScriptedHooks::at(&[Moment::PreToolUse], |_| HookAnswer::Asks("is it Friday?".to_owned()));
    let world = world.with_hooks(hooks.clone());
    let process = world.process();
    let handle = process.runtime.start(escalating(world.spec())).await.expect("it starts");
    let question = asked(&world, handle.id()).await;
    assert_eq!((question.1.operation.as_str(), question.1.layer.as_deref()), ("strike:a", Some("hook")));
    say(&world, &question, Answer::Once).await;
    let ended = world.ended(&handle).await;
    assert_eq!(world.outside.count("strike"), 1);
    assert_eq!(hooks.heard().len(), 1, "it is not asked again about what a person answered");
    assert_eq!(ended.status(), "completed");
    // If no user can be asked, the call is denied.
    let ended = world.run(world.spec()).await;
    let (ok, said) = ended.result("0");
    assert!(!ok && said.contains("no user is available") && said.contains("is it Friday?"), "{said}");
    assert_eq!(world.outside.count("strike"), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_question_of_a_hook_is_answered_by_nobody_but_a_person_also_after_a_crash() {
    let world = World::new(|request| match request.turn {
        1 => text("").call("strike", json!({"on": "a"})),
        _ => text("done"),
    });
    let hooks = ScriptedHooks::at(&[Moment::PreToolUse], |_| HookAnswer::Asks("is it Friday?".to_owned()));
    let world = world.with_hooks(hooks.clone());
    let dying = world.mortal(None);
    let handle = dying.runtime.start(escalating(world.spec())).await.expect("it starts");
    let run = handle.id().clone();
    let question = asked(&world, &run).await;
    dying.power.as_ref().expect("mortal").cut();
    let heir = world.process();
    let handle = world.resume(&heir, &run).await.expect("it goes on");
    world.until(&run, |event| event.body.kind() == "run.resumed").await;
    assert_eq!(world.outside.count("strike"), 0, "the rules allow it, and the hook asked all the same");
    say(&world, &question, Answer::Deny { reason: None }).await;
    let ended = world.ended(&handle).await;
    assert!(!ended.result("0").0);
    assert_eq!(world.outside.count("strike"), 0);
    assert_eq!(hooks.heard().len(), 1);
}

/// One tree for every moment: a read, a change and a child.
fn busy(request: &posse_engine::ports::ModelRequest) -> ScriptedAnswer {
    match (request.depth, request.turn) {
        (0, 1) => text("").call("task", child("builder", "x")),
        (1, 1) => text("").call("probe", json!({})).call("put", json!({"path": "a", "text": "1"})),
        _ => text("done"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancel_and_a_kill_end_the_hooks_and_wait_for_them() {
    for moment in Moment::ALL {
        for kill in [false, true] {
            let latch = Latch::closed();
            let hooks = ScriptedHooks::at(&[moment], |_| HookAnswer::Goes).behind(&latch);
            let world = World::new(busy).with_hooks(hooks.clone()).isolated();
            let process = world.process();
            let handle = process.runtime.start(world.spec()).await.expect("it starts");
            latch.reached(1).await;
            let root = handle.id().root();
            let reason = "enough".to_owned();
            let command = posse_engine::ports::MailCommand::Cancel { agent: root, reason, kill };
            world.post(handle.id(), command).await;
            let ended = world.ended(&handle).await;
            assert_eq!(ended.status(), "cancelled", "{moment:?}");
            assert_eq!((hooks.heard().len(), hooks.ended()), (1, 1), "{moment:?}");
            assert!(objections(&ended).is_empty() && decided(&ended, "0").is_empty(), "{moment:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn hooks_that_a_crash_cut_off_are_asked_again() {
    for moment in Moment::ALL {
        let latch = Latch::closed();
        let hooks = ScriptedHooks::at(&[moment], |_| no("I am sure")).behind(&latch);
        let world = World::new(busy).with_hooks(hooks.clone()).isolated();
        let dying = world.mortal(None);
        let handle = dying.runtime.start(world.spec()).await.expect("it starts");
        latch.reached(1).await;
        dying.power.as_ref().expect("mortal").cut();
        let before = hooks.heard();
        let heir = world.process();
        let handle = world.resume(&heir, handle.id()).await.expect("it goes on");
        latch.reached(2).await;
        latch.open();
        let ended = world.ended(&handle).await;
        let after = hooks.heard();
        assert_eq!(after[1].1, before[0].1, "{moment:?} hears of the same again");
        let texts = |name: &str| {
            ended.results(name).into_iter().map(|(.., said)| said).collect::<Vec<_>>().join("\n")
        };
        let said = match moment {
            Moment::PostToolUse => objections(&ended).join("\n"),
            _ => texts("0"),
        };
        assert!(said.contains("I am sure"), "{moment:?}: {said}\n{}", listing(&ended.events));
        if moment == Moment::PostToolUse {
            assert_eq!(world.outside.count("probe"), 1, "a result that is journalled stays");
            let mut notes = objections(&ended);
            notes.sort();
            notes.dedup();
            assert_eq!(notes.len(), objections(&ended).len(), "nobody objects twice: {notes:?}");
        }
    }
}

/// Wherever the process dies, no operation happens that a hook refused, and every run ends.
#[tokio::test(flavor = "multi_thread")]
async fn hooks_survive_death_at_every_pass_of_every_point() {
    let say = |call: &HookCall| match (call.moment, &call.call) {
        (Moment::PreToolUse, Some(call)) if call.tool == "strike" => no("never"),
        (Moment::PostToolUse, Some(call)) if call.tool == "probe" => no("look again"),
        _ => HookAnswer::Goes,
    };
    let world = || {
        let world = World::new(|request| match (request.depth, request.turn) {
            (0, 1) => text("").call("strike", json!({"on": "a"})).call("task", child("builder", "x")),
            (1, 1) => text("").call("probe", json!({})).call("put", json!({"path": "a", "text": "1"})),
            _ => text("done"),
        });
        world.with_hooks(ScriptedHooks::at(&Moment::ALL, say)).isolated()
    };
    let undisturbed = world();
    let process = undisturbed.mortal(None);
    let handle = process.runtime.start(undisturbed.spec()).await.expect("it starts");
    handle.ended().await.expect("it ends");
    let passes = process.power.expect("mortal").passes();
    for point in FAULT_POINTS {
        for pass in 1..=passes.get(point).copied().unwrap_or(0) {
            let world = world();
            let ended = dies_at(&world, world.spec(), &[CrashPoint { point, pass }]).await;
            let what = || format!("{point} {pass}:\n{}", listing(&ended.events));
            assert_eq!(ended.status(), "completed", "{}", what());
            assert_eq!(world.outside.count("strike"), 0, "{}", what());
            assert_eq!(objections(&ended).len(), 1, "{}", what());
            let refused = decided(&ended, "0").len();
            assert_eq!(refused, 1, "{}", what());
        }
    }
}
