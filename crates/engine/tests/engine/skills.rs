//! Skills: delegated to, forked or loaded, and the terms of their sub-agents.

use std::time::Duration;

use posse_agent::conversation::Message;
use posse_domain::code::Code;
use posse_domain::contract::Contract;
use posse_domain::definition::Trust;
use posse_domain::event::{CatalogueText, EffectClass, EventBody};
use posse_domain::permission::Decision;
use posse_domain::skill::{DiscoveredDefinitions, Skill};
use posse_engine::ports::ModelRequest;
use posse_engine::{RunRequest, RunTerms};
use posse_models::scripted::{ScriptedAnswer, ScriptedCall};
use serde_json::{Value, json};

use crate::tools::{Latch, slow_to_act};
use crate::world::{EndedRun, World, child, definition, definitions, newest};

fn text(text: &str) -> ScriptedAnswer {
    ScriptedAnswer::text(text)
}

pub(crate) fn skill(name: &str) -> Skill {
    Skill {
        name: name.to_owned(),
        description: format!("does {name}"),
        instructions: format!("Do what {name} is about.").into(),
        fork: true,
        agent: None,
        tools: None,
        rules: Vec::new(),
        sub_agents: None,
        model: None,
        temperature: None,
        max_iterations: None,
        max_depth: None,
        max_retries_per_tool: None,
        turn_timeout_ms: None,
        include_sub_agent_events: false,
        for_models: true,
        for_people: true,
        argument_hint: None,
        background: false,
        trust: Trust::Trusted,
        dir: None,
        project: None,
        shown_dir: None,
    }
}

fn names(list: &[&str]) -> Vec<String> {
    list.iter().map(ToString::to_string).collect()
}

/// The same request with other limits or rules of the run.
pub(crate) fn with_terms(mut spec: RunRequest, change: impl FnOnce(&mut RunTerms)) -> RunRequest {
    change(&mut spec.terms);
    spec
}

/// A run with these skills, whose root has the tools for skills.
pub(crate) fn spec(world: &World, skills: impl IntoIterator<Item = Skill>) -> RunRequest {
    let tools = ["probe", "ask_net", "boom", "read", "todo", "skill", "delegate_to_agent"];
    let mut kinds = definitions();
    kinds.push(definition("general", &tools, &[]));
    kinds[0].tools.extend(names(&["skill", "delegate_to_agent"]));
    let catalogue =
        DiscoveredDefinitions { skills: skills.into_iter().collect(), ..DiscoveredDefinitions::default() };
    RunRequest { definitions: kinds, catalogue: CatalogueText::of(catalogue), ..world.spec() }
}

fn delegate(skill: &str, task: &str) -> ScriptedCall {
    ScriptedCall::new("delegate_to_agent", json!({"skill_name": skill, "task": task}))
}

/// The root makes these calls on its first turn and repeats their results on its second. Sub-agents report `report`.
fn world(calls: impl Fn() -> Vec<ScriptedCall> + Send + Sync + 'static, report: &'static str) -> World {
    World::new(move |request| match (request.depth, request.turn) {
        (0, 1) => text("I hand it on.").calls(calls()),
        (0, _) => text(&format!("Heard: {}", newest(request))),
        _ => text(report),
    })
}

fn json_of(result: &str) -> Value {
    serde_json::from_str(result).unwrap_or_else(|_| panic!("not JSON: {result}"))
}

fn contract<'e>(ended: &'e EndedRun, agent: &str) -> &'e Contract {
    let created = ended.of(agent).find_map(|event| match &event.body {
        EventBody::SubagentCreated(created) => Some(&created.contract),
        _ => None,
    });
    created.unwrap_or_else(|| panic!("{agent} was not created"))
}

fn said(request: &ModelRequest) -> String {
    let texts = request.messages.iter().map(|message| match &**message {
        Message::User(text) | Message::Assistant { text, .. } => text.to_string(),
        Message::Results(results) => results.iter().map(|result| result.text.to_string()).collect(),
    });
    format!("{}\n{}", request.system, texts.collect::<Vec<_>>().join("\n"))
}

#[tokio::test(flavor = "multi_thread")]
async fn delegating_runs_a_sub_agent_of_the_skill_and_answers_with_its_whole_report() {
    let world = world(|| vec![delegate("sum_up", "Sum the readme up.")], "It is about ropes.");
    let ended = world.run(spec(&world, [skill("sum_up")])).await;
    assert_eq!(ended.status(), "completed");
    let (ok, result) = ended.result("0");
    assert!(ok);
    assert_eq!(result, r#"{"status":"ok","skill":"sum_up","result":"It is about ropes.","depth":1}"#);
    let contract = contract(&ended, "1");
    assert_eq!(contract.execution.skill.as_deref(), Some("sum_up"));
    assert_eq!((contract.execution.definition.as_str(), contract.step.required), ("general", false));
    let asked = world.asked_by("1");
    assert_eq!(newest(&asked[0]), "Sum the readme up.");
    assert!(asked[0].system.contains("Do what sum_up is about."), "{}", asked[0].system);
    let created = ended.of("1").next().map(|event| event.body.summary());
    assert!(created.is_some_and(|line| line.contains("sum_up")), "the timeline names the skill");
}

/// A fork spawns a sub-agent. Its parent gets a summary, not the full output, and the id of the trace.
#[tokio::test(flavor = "multi_thread")]
async fn a_forked_skill_spawns_a_sub_agent_and_gives_its_parent_a_summary_and_a_trace() {
    let long: &'static str = Box::leak(format!("{}TAIL", "é".repeat(500)).into_boxed_str());
    let world = world(|| vec![ScriptedCall::new("skill", json!({"name": "Deep", "arguments": "src"}))], long);
    let ended = world.run(spec(&world, [skill("deep")])).await;
    let (ok, result) = ended.result("0");
    assert!(ok);
    let summary = format!("Sub-agent completed: {}... (truncated)\n\nFull trace: 1", "é".repeat(500));
    assert_eq!(result, summary);
    assert!(ended.kinds("1").contains(&"subagent_closed"));
    assert_eq!(newest(&world.asked_by("1")[0]), "src");
    // The trace contains the part that the summary omits.
    let report = ended.of("1").find_map(|event| match &event.body {
        EventBody::SubagentWaitingForMerge(e) => Some(e.report.to_shared().to_string()),
        _ => None,
    });
    assert_eq!(report.as_deref(), Some(long));
}

/// The child's model receives nothing of its parent's conversation.
#[tokio::test(flavor = "multi_thread")]
async fn the_sub_agent_of_a_skill_sees_nothing_of_its_parents_conversation() {
    for call in [
        ScriptedCall::new("skill", json!({"name": "deep", "arguments": "Look at src."})),
        delegate("deep", "Look at src."),
    ] {
        let world = World::new(move |request| match (request.depth, request.turn) {
            (0, 1) => text("I have SEEN-IT-ALL.").call("probe", json!({"name": "SECRET-PROBE"})),
            (0, 2) => text("Now I hand it on.").calls([call.clone()]),
            (0, _) => text("done"),
            _ => text("found"),
        });
        let spec = RunRequest { text: "The ROOT-REQUEST.".into(), ..spec(&world, [skill("deep")]) };
        world.run(spec).await;
        let [asked] = &world.asked_by("1")[..] else { panic!("one request") };
        let all = said(asked);
        for of_parent in ["ROOT-REQUEST", "SEEN-IT-ALL", "SECRET-PROBE", "You are a boss"] {
            assert!(!all.contains(of_parent), "{of_parent} in:\n{all}");
        }
        assert!(all.contains("Do what deep is about.") && all.contains("Look at src."));
        assert_eq!(asked.messages.len(), 1, "a fresh conversation");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_skill_sets_its_sub_agents_terms_and_only_narrows_what_its_parent_has() {
    let deep = Skill {
        tools: Some(names(&["probe", "bash", "webfetch"])),
        max_iterations: Some(9),
        max_retries_per_tool: Some(1),
        turn_timeout_ms: Some(30_000),
        temperature: Some(0.3),
        ..skill("deep")
    };
    let world = world(|| vec![delegate("deep", "Go.")], "found");
    let ended = world.run(with_terms(spec(&world, [deep]), |terms| terms.base_turns = Some(15))).await;
    let contract = contract(&ended, "1");
    let tools: Vec<&str> =
        contract.permissions.allowed_tools.iter().map(posse_domain::permission::ToolName::as_str).collect();
    assert_eq!(tools, ["probe"], "the root has no bash and no webfetch");
    let terms = &contract.execution;
    assert_eq!(terms.max_turns, Some(7), "15 halved, below the skill's 9");
    assert_eq!((terms.max_retries_per_tool, terms.turn_timeout_ms), (1, Some(30_000)));
    assert_eq!(terms.temperature, Some(0.3));
    assert_eq!(world.asked_by("1")[0].temperature, Some(0.3), "it reaches the model");
    assert!(!contract.permissions.can_spawn_children);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_context_of_a_delegation_is_passed_on() {
    let call = || {
        let input =
            json!({"skill_name": "deep", "task": "Go.", "context": "The door is green.", "timeout_ms": 5000});
        vec![ScriptedCall::new("delegate_to_agent", input)]
    };
    let world = world(call, "found");
    let ended = world.run(spec(&world, [skill("deep")])).await;
    assert_eq!(newest(&world.asked_by("1")[0]), "Go.\n\n## Context\n\nThe door is green.");
    let execution = &contract(&ended, "1").execution;
    assert_eq!(execution.extra_context.as_deref(), Some("The door is green."));
    assert_eq!(execution.attempt_timeout_ms, Some(5_000));
}

/// Refusals and failures are structured, with the caller's depth, and their code is in the journal.
#[tokio::test(flavor = "multi_thread")]
async fn a_delegation_that_is_refused_or_fails_answers_with_an_error_and_the_callers_depth() {
    let broken = Skill { agent: Some("nobody".to_owned()), ..skill("broken") };
    let hidden = Skill { for_models: false, ..skill("hidden") };
    let calls = || {
        let wrong = json!({"skill_name": "deep", "task": "Go.", "sandbox": false});
        vec![
            delegate("dep", "Go."),
            delegate("broken", "Go."),
            delegate("hidden", "Go."),
            delegate("deep", "fail"),
            ScriptedCall::new("delegate_to_agent", wrong),
        ]
    };
    let world = World::new(move |request| match (request.depth, request.turn) {
        (0, 1) => text("I hand it on.").calls(calls()),
        (0, _) => text("done"),
        _ => ScriptedAnswer::error(None, "the model broke"),
    });
    let ended = world.run(spec(&world, [skill("deep"), broken, hidden])).await;
    let expected = [
        (Code::UnknownSkill, "unknown skill `dep` (did you mean `deep`?); available: broken, deep"),
        (Code::UnknownAgent, "the skill `broken` is for the agent `nobody`, which does not exist"),
        (Code::SpawnNotAllowed, "`boss` may not delegate to the skill `hidden`"),
        (Code::ModelError, "the sub-agent for `deep` (task_id: 1) failed: the model broke"),
        (Code::InvalidInput, "unknown field `sandbox`"),
    ];
    for (code, words) in expected {
        let found = ended.of("0").find_map(|event| match &event.body {
            EventBody::ToolFinished(e) if e.code == Some(code) => Some((e.ok, e.output.to_shared())),
            _ => None,
        });
        let (ok, output) = found.unwrap_or_else(|| panic!("{code} in {:?}", ended.results("0")));
        let json = json_of(&output);
        assert!(!ok && json.as_object().is_some_and(|object| object.len() == 2), "{output}");
        assert_eq!(json["current_depth"], 0);
        let error = json["error"].as_str().expect("text");
        assert!(error.starts_with(&format!("{code}: ")) && error.contains(words), "{error}");
    }
    assert_eq!(ended.status(), "completed", "a failed delegation is no failed run");
}

/// Children of children: each has its own depth, whatever runs beside it, and the limit applies to each.
#[tokio::test(flavor = "multi_thread")]
async fn concurrent_delegations_keep_their_own_depth_and_the_limit_is_kept() {
    let latch = Latch::closed();
    let held = latch.clone();
    let world = World::new(|request| match (request.depth, request.turn) {
        (0, 1) => text("").calls((0..4).map(|n| delegate("deep", &format!("Part {n}.")))),
        (1, 1) => text("").calls([delegate("deep", "Deeper."), delegate("deep", "Deeper still.")]),
        (2, 1) => text("").calls([delegate("deep", "Too deep.")]),
        (depth, _) => text(&format!("depth {depth}")),
    })
    .holding(move |request| (request.depth == 2 && request.turn == 1).then(|| held.clone()));
    let process = world.process();
    let handle = process.runtime.start(spec(&world, [skill("deep")])).await.expect("starts");
    // All eight at depth 2 are open at once.
    latch.reached(8).await;
    latch.open();
    let ended = world.ended(&handle).await;
    for parent in ["0", "1", "2", "3", "4"] {
        let depth = if parent == "0" { 1 } else { 2 };
        for (_, ok, result) in ended.results(parent) {
            assert!(ok, "{result}");
            assert_eq!(json_of(&result)["depth"], depth);
            assert_eq!(json_of(&result)["result"], format!("depth {depth}"));
        }
    }
    for deepest in ["1.1", "1.2", "4.1", "4.2"] {
        let (ok, result) = ended.result(deepest);
        assert!(!ok);
        let json = json_of(&result);
        assert_eq!(json["current_depth"], 2);
        let error = json["error"].as_str().expect("text");
        assert_eq!(error, "MAX_DEPTH_EXCEEDED: maximum depth 2 reached: an agent at depth 2 cannot spawn");
    }
    assert_eq!(ended.run.agent_count(), 13);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_sub_agents_of_a_skill_are_enforced() {
    for (sub_agents, allowed) in
        [(None, true), (Some(&["leaf"][..]), true), (Some(&[][..]), false), (Some(&["other"][..]), false)]
    {
        let lead = Skill { sub_agents: sub_agents.map(names), ..skill("lead") };
        let world = World::new(|request| match (request.depth, request.turn) {
            (0, 1) => text("").calls([delegate("lead", "Lead.")]),
            (1, 1) => text("").calls([delegate("leaf", "Go.")]),
            _ => text("found"),
        });
        let ended = world.run(spec(&world, [lead, skill("leaf"), skill("other")])).await;
        let (ok, result) = ended.result("1");
        assert_eq!(ok, allowed, "{result}");
        if !allowed {
            let error = json_of(&result)["error"].as_str().expect("text").to_owned();
            assert!(error.starts_with("SPAWN_NOT_ALLOWED: "), "{error}");
            assert!(error.contains("`lead`") && !error.contains("`general`"), "{error}");
        }
        let offered = world.asked_by("1")[0].tools.iter().any(|tool| tool.name == "delegate_to_agent");
        assert_eq!(offered, sub_agents != Some(&[]), "not offered where there is nobody to delegate to");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn below_the_root_a_skills_depth_only_lowers_the_limit() {
    let shallow = Skill { max_depth: Some(1), ..skill("shallow") };
    let boastful = Skill { max_depth: Some(9), ..skill("boastful") };
    for (name, deeper) in [("shallow", false), ("boastful", true)] {
        let world = World::new(move |request| match (request.depth, request.turn) {
            (0, 1) => text("").calls([delegate(name, "Go.")]),
            (1 | 2, 1) => text("").calls([delegate(name, "Deeper.")]),
            _ => text("found"),
        });
        let ended = world.run(spec(&world, [shallow.clone(), boastful.clone()])).await;
        let (ok, result) = ended.result("1");
        assert_eq!(ok, deeper, "{result}");
        if deeper {
            assert!(ended.result("1.1").1.contains("maximum depth 2 reached"), "the run's limit holds");
        } else {
            assert!(result.contains("MAX_DEPTH_EXCEEDED: maximum depth 1 reached"), "{result}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_inline_skill_is_read_from_the_run_and_makes_no_agent() {
    let inline = Skill {
        fork: false,
        instructions: "Review $ARGUMENTS with care.".into(),
        dir: Some("/nowhere/review".to_owned()),
        ..skill("review")
    };
    let call = || vec![ScriptedCall::new("skill", json!({"name": "review", "arguments": "src/lib.rs"}))];
    let world = world(call, "never");
    let ended = world.run(spec(&world, [inline])).await;
    let (ok, result) = ended.result("0");
    assert!(ok);
    assert!(result.contains("Review src/lib.rs with care."), "{result}");
    assert!(result.contains("`skill://review/PATH`"), "{result}");
    assert_eq!(ended.run.agent_count(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn models_are_told_names_and_descriptions_of_the_skills_that_their_agent_may_use() {
    let hidden = Skill { for_models: false, ..skill("hidden") };
    let inline = Skill { fork: false, ..skill("inline") };
    let world = World::new(|_| text("done"));
    world.run(spec(&world, [hidden, inline, skill("deep")])).await;
    let asked = &world.asked_by("0")[0];
    assert!(
        asked.system.contains("\n- `deep`: does deep (carried out by a sub-agent)\n"),
        "{}",
        asked.system
    );
    assert!(asked.system.contains("\n- `inline`: does inline\n"));
    assert!(!asked.system.contains("hidden") && !asked.system.contains("Do what"), "{}", asked.system);
    let offered: Vec<&str> = asked.tools.iter().map(|tool| tool.name.as_str()).collect();
    assert!(offered.contains(&"skill") && offered.contains(&"delegate_to_agent"), "{offered:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_without_skills_has_no_trace_of_them() {
    let world = World::new(|_| text("done"));
    world.run(spec(&world, [])).await;
    let plain = World::new(|_| text("done"));
    plain.run(plain.spec()).await;
    let (with, without) = (&world.asked_by("0")[0], &plain.asked_by("0")[0]);
    assert_eq!(with.system, without.system);
    assert_eq!(with.tools, without.tools);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rule_about_a_skill_has_its_say() {
    let world = world(
        || {
            vec![
                delegate("deep", "Go."),
                delegate("Other", "Go."),
                delegate("third", "Go."),
                ScriptedCall::new("skill", json!({"name": "deep"})),
            ]
        },
        "found",
    );
    let rules = [("delegate_to_agent:other", Decision::Deny), ("skill:deep", Decision::Deny)];
    let rules = rules.map(|(pattern, decision)| posse_domain::permission::Rule {
        pattern: pattern.parse().expect("pattern"),
        decision,
    });
    let spec = spec(&world, [skill("deep"), skill("other"), skill("third")]);
    let ended = world.run(with_terms(spec, |terms| terms.run_rules = rules.into_iter().collect())).await;
    let results = ended.results("0");
    let oks: Vec<bool> = results.iter().map(|(_, ok, _)| *ok).collect();
    assert_eq!(oks.iter().filter(|ok| **ok).count(), 1, "{results:?}");
    assert!(results.iter().filter(|(_, ok, _)| !ok).all(|(_, _, text)| text.contains("PERMISSION_DENIED")));
    let system = &world.asked_by("0")[0].system;
    assert!(system.contains("- `third`") && !system.contains("- `deep`"), "no model is told of it: {system}");
}

#[tokio::test(flavor = "multi_thread")]
async fn where_rules_deny_every_skill_there_is_no_tool_for_them() {
    let world = World::new(|_| text("done"));
    let rule = posse_domain::permission::Rule {
        pattern: "skill".parse().expect("pattern"),
        decision: Decision::Deny,
    };
    let inline = Skill { fork: false, ..skill("inline") };
    let spec = spec(&world, [skill("deep"), inline]);
    world.run(with_terms(spec, |terms| terms.run_rules = vec![rule].into())).await;
    let asked = &world.asked_by("0")[0];
    assert!(!asked.system.contains("does deep") && !asked.system.contains("does inline"), "{}", asked.system);
    let offered: Vec<&str> = asked.tools.iter().map(|tool| tool.name.as_str()).collect();
    assert!(!offered.contains(&"skill") && !offered.contains(&"delegate_to_agent"), "{offered:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_skill_in_the_background_answers_at_once_and_tells_its_summary_later() {
    let slow = Skill { background: true, ..skill("slow") };
    let world = World::new(|request| match (request.depth, request.turn) {
        (0, 1) => text("I start it.").call("skill", json!({"name": "slow"})),
        (0, 2) if !newest(request).contains("Sub-agent completed") => text("I wait."),
        (0, _) => text(&format!("Heard: {}", newest(request))),
        _ => text("found"),
    });
    let ended = world.run(spec(&world, [slow])).await;
    assert!(ended.result("0").1.starts_with("Started in the background."), "{:?}", ended.result("0"));
    let told = "Heard: Task 1 (skill slow) has ended.\n\nSub-agent completed: found\n\nFull trace: 1";
    assert!(ended.text().contains(told) || ended.text().contains(&told[7..]), "{}", ended.text());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_forked_skill_that_fails_says_so_with_its_trace() {
    let world = World::new(|request| match (request.depth, request.turn) {
        (0, 1) => text("").call("skill", json!({"name": "deep"})),
        (0, _) => text("done"),
        _ => ScriptedAnswer::error(None, "the model broke"),
    });
    let ended = world.run(spec(&world, [skill("deep")])).await;
    let (ok, result) = ended.result("0");
    assert!(!ok);
    assert_eq!(result, "MODEL_ERROR: Failed: the model broke\n\nFull trace: 1");
}

/// A turn is one model call and its tool calls. Both count, waiting for children does not.
#[tokio::test(start_paused = true)]
async fn the_time_limit_of_a_turn_ends_the_attempt_as_a_timeout() {
    let hasty = Skill { turn_timeout_ms: Some(1_000), ..skill("hasty") };
    let slow = |ms| Duration::from_millis(ms);
    // The model alone exceeds the limit of the turn.
    let world = World::new(move |request| match request.depth {
        0 if request.turn == 1 => text("").calls([delegate("hasty", "Go.")]),
        0 => text("done"),
        _ => text("late").latency(slow(1_500)),
    })
    .in_virtual_time();
    let ended = world.run(spec(&world, [hasty.clone()])).await;
    let error = json_of(&ended.result("0").1)["error"].as_str().expect("text").to_owned();
    assert!(error.starts_with("TIMEOUT: ") && error.contains("no reply within 1000 ms"), "{error}");
    assert_eq!(world.asked_by("1").len(), 2, "it is tried again, as every timeout is");
    // The model and its tool exceed the limit together, but neither does alone.
    let latch = Latch::closed();
    let world = World::new(move |request| match (request.depth, request.turn) {
        (0, 1) => text("").calls([delegate("hasty", "Go.")]),
        (0, _) => text("done"),
        (_, 1) => text("").call("hold", json!({})).latency(slow(600)),
        _ => text("never"),
    })
    .with_tool(|outside| slow_to_act("hold", EffectClass::Read, outside, &latch))
    .in_virtual_time();
    let mut spec = spec(&world, [hasty]);
    let general = spec.definitions.iter_mut().find(|kind| kind.name == "general").expect("general");
    general.tools.push("hold".to_owned());
    let ended = world.run(spec).await;
    let held = &ended.results("1")[0];
    assert_eq!(held.2, "TIMEOUT: the call took longer than 400 ms and was ended");
    let error = json_of(&ended.result("0").1)["error"].as_str().expect("text").to_owned();
    assert!(error.starts_with("TIMEOUT: ") && error.contains("turn 1 took longer than 1000 ms"), "{error}");
}

/// The skill's instructions were in the system prompt. Without them the conversation makes no sense.
#[tokio::test(flavor = "multi_thread")]
async fn a_child_that_continues_one_of_a_skill_carries_the_skill_out_too() {
    for denied in [false, true] {
        let world = World::new(|request| match (request.depth, request.turn) {
            (0, 1) => text("").calls([delegate("sum_up", "Sum the readme up.")]),
            (0, 2) => {
                let mut input = child("scout", "Shorter.");
                input["task_id"] = json!("1");
                text("").call("task", input)
            }
            (0, _) => text(&format!("Heard: {}", newest(request))),
            _ => text("It is about ropes."),
        });
        let mut spec = spec(&world, [skill("sum_up")]);
        if denied {
            let rule = |pattern: &str| posse_domain::permission::Rule {
                pattern: pattern.parse().expect(pattern),
                decision: Decision::Deny,
            };
            spec.terms.run_rules = vec![rule("skill:sum_up")].into();
        }
        let ended = world.run(spec).await;
        if denied {
            assert_eq!(ended.run.agent_count(), 1, "a rule about a skill binds every way to it");
            continue;
        }
        let continued = contract(&ended, "2");
        assert_eq!(continued.execution.skill.as_deref(), Some("sum_up"));
        let (first, second) = (world.asked_by("1"), world.asked_by("2"));
        let instructions = "You execute the skill `sum_up`.";
        assert!(first[0].system.contains(instructions) && second[0].system.contains(instructions));
        assert!(said(&second[0]).contains("Sum the readme up.") && said(&second[0]).contains("Shorter."));
        assert_eq!(continued.step.title, "a piece of it");
        assert_eq!(contract(&ended, "1").step.title, "Sum the readme up.", "its work names it");
    }
}
