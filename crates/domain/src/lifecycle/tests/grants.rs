//! A child never gets more than its parent has: random definitions, rules and requests, also after a round trip.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select, subsequence};
use proptest::test_runner::{Config, TestRunner};

use super::fixture::{class_of, definition, id, request, root_contract, skill, started, started_with};
use crate::budget::Budget;
use crate::definition::{Definition, Trust};
use crate::event::{Event, EventBody, StoredEvent};
use crate::hash::Hash;
use crate::lifecycle::{DELEGATE_TO_AGENT, OpenAgent, Run, SKILL_TOOL, SpawnFrom, SpawnRequest};
use crate::permission::{Approvals, Decision, Operation, Rule};
use crate::skill::Skill;

const TOOLS: [&str; 7] = ["read", "write", "bash", "edit", "webfetch", SKILL_TOOL, DELEGATE_TO_AGENT];
const SKILLS: [&str; 3] = ["fix", "look", "lead"];
const NAMES: [&str; 4] = ["ann", "bob", "cid", "dot"];
const PATTERNS: [&str; 8] =
    ["*", "bash", "bash:git *", "read:src/**", "write", "write:src/**", "task:bob", "edit:**"];
const OPERATIONS: [&str; 10] = [
    "bash:ls",
    "bash:git log",
    "read:src/a.rs",
    "read:.env",
    "write:src/a.rs",
    "write:b",
    "edit:src/a.rs",
    "task:bob",
    "task:cid",
    "webfetch:docs.rs",
];

fn decisions() -> impl Strategy<Value = Decision> {
    prop_oneof![2 => Just(Decision::Allow), 1 => Just(Decision::Ask), 1 => Just(Decision::Deny)]
}

fn trust() -> impl Strategy<Value = Trust> {
    prop_oneof![Just(Trust::Trusted), Just(Trust::Untrusted)]
}

fn rules() -> impl Strategy<Value = Vec<Rule>> {
    let rule = (select(&PATTERNS[..]), decisions())
        .prop_map(|(pattern, decision)| Rule { pattern: pattern.parse().expect("pattern"), decision });
    vec(rule, 0..4)
}

fn kinds() -> impl Strategy<Value = Vec<Definition>> {
    let one = (
        subsequence(TOOLS.to_vec(), 0..=TOOLS.len()),
        prop::option::weighted(0.8, subsequence(NAMES.to_vec(), 1..=NAMES.len())),
        rules(),
        trust(),
        any::<bool>(),
    );
    vec(one, NAMES.len()..=NAMES.len()).prop_map(|made| {
        made.into_iter()
            .zip(NAMES)
            .map(|((tools, spawns, rules, trust, may_share_history), name)| Definition {
                trust,
                rules,
                may_share_history,
                ..definition(name, &tools, spawns.as_deref())
            })
            .collect()
    })
}

fn skills() -> impl Strategy<Value = Vec<Skill>> {
    let one = (
        (any::<bool>(), any::<bool>(), prop::option::of(select(&NAMES[..]))),
        prop::option::of(subsequence(TOOLS.to_vec(), 0..=TOOLS.len())),
        prop::option::of(subsequence(SKILLS.to_vec(), 0..=SKILLS.len())),
        prop::option::of(0..5_u32),
        rules(),
        trust(),
    );
    let list = |names: Vec<&str>| names.into_iter().map(ToOwned::to_owned).collect::<Vec<String>>();
    vec(one, SKILLS.len()..=SKILLS.len()).prop_map(move |made| {
        made.into_iter()
            .zip(SKILLS)
            .map(|(((fork, for_models, agent), tools, sub_agents, max_depth, rules, trust), name)| Skill {
                fork,
                for_models,
                agent: Some(agent.unwrap_or("ann").to_owned()),
                tools: tools.map(list),
                sub_agents: sub_agents.map(list),
                max_depth,
                rules,
                trust,
                ..skill(name)
            })
            .collect()
    })
}

/// A request for a child: the parent, its definition or skill, whether it continues the last closed child, and whether
/// it starts with its parent's conversation.
type Ask = (Index, Result<&'static str, &'static str>, bool, bool);

fn asks() -> impl Strategy<Value = Vec<Ask>> {
    let of = prop_oneof![select(&NAMES[..]).prop_map(Ok), select(&SKILLS[..]).prop_map(Err)];
    vec((any::<Index>(), of, any::<bool>(), any::<bool>()), 1..12)
}

/// The event after a round trip through the journal.
fn stored(event: &Event) -> Event {
    let mut blobs = Vec::new();
    let encoded = event.clone().encode(&mut blobs).expect("encoded");
    let stored = StoredEvent {
        seq: 1,
        agent: encoded.agent,
        kind: encoded.kind.into(),
        at_ms: encoded.at_ms,
        version: encoded.version,
        payload: encoded.payload,
        hash: Hash::ZERO,
    };
    let mut decoded = Event::decode(&stored).expect("decoded");
    // Long texts are fetched before a run begins.
    if let (EventBody::RunStarted(begun), EventBody::RunStarted(before)) = (&mut decoded.body, &event.body) {
        begun.request.catalogue.clone_from(&before.request.catalogue);
    }
    decoded
}

fn lowest(agent: &OpenAgent, operation: &str) -> Decision {
    agent.authority.decide(&Approvals::none(), &Operation::parse(operation)).decision
}

fn never_wider(child: &OpenAgent, parent: &OpenAgent) -> usize {
    let (mine, above) = (child.authority.grant(), parent.authority.grant());
    assert!(mine.allowed_tools.is_within(&above.allowed_tools));
    assert!(above.can_spawn_children || !mine.can_spawn_children);
    assert!(mine.max_delegation_depth < above.max_delegation_depth.max(1));
    let may_share = above.may_share_history && child.prepared.definition.may_share_history;
    assert!(may_share || !mine.may_share_history);
    assert!(may_share == mine.may_share_history || child.contract.parent.continues.is_some());
    assert!(above.may_share_history || !child.contract.execution.share_history);
    assert_eq!(*mine, child.contract.permissions, "the contract says what holds");
    let above_depth = parent.contract.context.depth;
    assert_eq!(child.contract.context.depth, above_depth + 1);
    for operation in OPERATIONS {
        let (child, parent) = (lowest(child, operation), lowest(parent, operation));
        assert!(child <= parent, "{operation}: {child} below {parent}");
    }
    OPERATIONS.len()
}

/// How many random runs are tried, how many decisions they have at least, and how many children of skills.
const RUNS: u32 = if option_env!("POSSE_CAMPAIGNS").is_some() { 3_500 } else { 700 };
const SAMPLES_MIN: usize = RUNS as usize * 28;
const FORKED_MIN: usize = RUNS as usize / 7;

#[test]
fn a_child_never_gets_what_its_parent_lacks_also_after_a_round_trip() {
    let samples = std::cell::Cell::new(0_usize);
    let mut runner = TestRunner::new(Config { cases: RUNS, failure_persistence: None, ..Config::default() });
    let strategy = (kinds(), skills(), asks(), 0..4_u32);
    let forked = std::cell::Cell::new(0_usize);
    let checked = runner.run(&strategy, |(kinds, skills, asks, max_depth)| {
        let mut beginning = started_with(kinds, skills, max_depth, Budget::NONE);
        // The root may share its conversation, so that a child can lose that right.
        if let EventBody::RunStarted(begun) = &mut beginning.body {
            begun.contract.permissions.may_share_history = true;
            begun.contract_hash = begun.contract.hash();
        }
        let mut live = Run::begin(&beginning).expect("begins");
        let mut loaded = Run::begin(&stored(&beginning)).expect("begins again");
        let mut closed = None;
        for (parent, name, continues, share_history) in asks {
            let open = live.open_in_order();
            let parent = parent.get(&open).clone();
            let asked = SpawnRequest {
                continues: closed.clone().filter(|_| continues),
                share_history,
                skill: name.err().map(ToOwned::to_owned),
                ..request(name.unwrap_or_default())
            };
            let from = SpawnFrom { parent: &parent, call_id: "c", message_id: Some("m"), step: None };
            let Ok((child, body)) = live.spawn(from, &asked, &class_of) else { continue };
            forked.set(forked.get() + usize::from(asked.skill.is_some()));
            let created = Event { agent: child.clone(), at_ms: 2_000, body };
            live.apply(&created).expect("legal");
            loaded.apply(&stored(&created)).expect("legal after a round trip");
            for run in [&live, &loaded] {
                let (child, parent) = (run.open(&child).expect("open"), run.open(&parent).expect("open"));
                samples.set(samples.get() + never_wider(child, parent));
            }
            let started = Event {
                agent: child.clone(),
                at_ms: 2_001,
                body: live.start(&child, None).expect("starts").1,
            };
            live.apply(&started).expect("legal");
            loaded.apply(&stored(&started)).expect("legal");
            if parent.is_root() && continues {
                for (_, body) in live.finish(&child, finish()).into_iter().flatten() {
                    let event = Event { agent: child.clone(), at_ms: 2_002, body };
                    live.apply(&event).expect("legal");
                    loaded.apply(&stored(&event)).expect("legal");
                }
                if let Ok((agent, body)) = live.close(&child, 2_003) {
                    let event = Event { agent, at_ms: 2_003, body };
                    live.apply(&event).expect("legal");
                    loaded.apply(&stored(&event)).expect("legal");
                    closed = Some(child.relative().to_owned());
                }
            }
        }
        Ok(())
    });
    checked.expect("never wider");
    assert!(samples.get() >= SAMPLES_MIN, "{} samples", samples.get());
    assert!(forked.get() >= FORKED_MIN, "{} children of skills", forked.get());
}

fn finish() -> crate::lifecycle::Finish {
    crate::lifecycle::Finish { report: "done".into(), turns_exhausted: false, change: None }
}

#[test]
fn a_parents_deny_binds_the_child_also_after_a_round_trip() {
    let kinds = vec![
        Definition {
            rules: vec![Rule {
                pattern: "bash:git push*".parse().expect("pattern"),
                decision: Decision::Deny,
            }],
            ..definition("ann", &["bash", "read"], Some(&["bob"]))
        },
        Definition {
            rules: vec![Rule { pattern: "bash:*".parse().expect("pattern"), decision: Decision::Allow }],
            ..definition("bob", &["bash", "read"], Some(&["bob"]))
        },
    ];
    let beginning = started(kinds, 3, Budget::NONE);
    for through_the_journal in [false, true] {
        let pass = |event: &Event| if through_the_journal { stored(event) } else { event.clone() };
        let mut run = Run::begin(&pass(&beginning)).expect("begins");
        let mut parent = id("0");
        for _ in 0..3 {
            let from = SpawnFrom { parent: &parent, call_id: "c", message_id: Some("m"), step: None };
            let (child, body) = run.spawn(from, &request("bob"), &class_of).expect("spawned");
            run.apply(&pass(&Event { agent: child.clone(), at_ms: 2_000, body })).expect("legal");
            let (_, body) = run.start(&child, None).expect("starts");
            run.apply(&pass(&Event { agent: child.clone(), at_ms: 2_000, body })).expect("legal");
            let agent = run.open(&child).expect("open");
            assert_eq!(lowest(agent, "bash:git push origin"), Decision::Deny);
            assert_eq!(lowest(agent, "bash:git log"), Decision::Allow);
            parent = child;
        }
    }
}

#[test]
fn the_root_gets_what_its_contract_says_and_no_more() {
    let kinds = vec![definition("ann", &["bash"], None)];
    let contract = root_contract(&kinds[0], 2, Budget::NONE);
    let run = Run::begin(&started(kinds, 2, Budget::NONE)).expect("begins");
    let root = run.open(&id("0")).expect("open");
    assert_eq!(*root.authority.grant(), contract.permissions);
    assert_eq!(lowest(root, "read:a"), Decision::Deny, "a tool it does not list");
}
