//! Skills: which agents may fork them, the definitions of their sub-agents, and a run of one skill.

use super::fixture::{PlayedRun, class_of, definition, failure, id, skill, started_with};
use crate::budget::Budget;
use crate::code::Code;
use crate::definition::{Definition, Trust};
use crate::event::{Event, EventBody};
use crate::lifecycle::definitions::PreparedDefinitions;
use crate::lifecycle::{
    DELEGATE_TO_AGENT, FailKind, Outcome, PreparedDefinition, Run, RunEnd, SKILL_TOOL, SkillRights,
    SpawnRequest,
};
use crate::permission::{Approvals, Decision, Operation, Rule, ToolSet};
use crate::skill::{DiscoveredDefinitions, Skill};

fn asked(skill: &str) -> SpawnRequest {
    SpawnRequest { skill: Some(skill.to_owned()), prompt: "do it".to_owned(), ..SpawnRequest::default() }
}

fn beginning(skills: Vec<Skill>, max_depth: u32) -> Event {
    let tools = ["read", "write", SKILL_TOOL, DELEGATE_TO_AGENT];
    let kinds = vec![definition("boss", &tools, Some(&["lead"])), definition("lead", &tools, None)];
    started_with(kinds, skills, max_depth, Budget::NONE)
}

/// A run of one skill.
fn relay(skills: Vec<Skill>, name: &str, max_depth: u32) -> PlayedRun {
    let mut event = beginning(skills, max_depth);
    if let EventBody::RunStarted(begun) = &mut event.body {
        begun.request.terms.skill = Some(name.to_owned());
    }
    PlayedRun::with(event)
}

fn refusal(played: &mut PlayedRun, parent: &str, name: &str) -> (Code, String) {
    let refusal = played.try_spawn(&id(parent), &asked(name)).expect_err("refused");
    (refusal.code, refusal.reason)
}

#[test]
fn a_skills_turns_take_the_place_of_its_definitions_and_halve_with_depth() {
    let long = Skill { max_iterations: Some(12), ..skill("long") };
    let mut played = PlayedRun::with(beginning(vec![long], 3));
    let mut turns = Vec::new();
    let mut parent = id("0");
    for _ in 0..3 {
        let child = played.try_spawn(&parent, &asked("long")).expect("spawned");
        played.start(&child);
        turns.push(played.run.open(&child).expect("open").contract.execution.max_turns);
        parent = child;
    }
    // From 15 and 12 at the first level: 7, then 3, and never below 3.
    assert_eq!(turns, [Some(7), Some(3), Some(3)]);
}

#[test]
fn a_skill_is_found_in_any_case_and_never_replaced_by_another() {
    let orphan = Skill { agent: Some("nobody".to_owned()), ..skill("orphan") };
    let mut played = PlayedRun::with(beginning(vec![skill("review"), orphan], 2));
    let child = played.try_spawn(&id("0"), &asked("REVIEW")).expect("spawned");
    assert_eq!(played.run.open(&child).expect("open").contract.execution.skill.as_deref(), Some("review"));
    let (code, reason) = refusal(&mut played, "0", "revew");
    assert_eq!(code, Code::UnknownSkill);
    assert_eq!(reason, "unknown skill `revew` (did you mean `review`?); available: orphan, review");
    let (code, reason) = refusal(&mut played, "0", &"x".repeat(500));
    assert!(code == Code::UnknownSkill && reason.len() < 200, "{reason}");
    assert_eq!(refusal(&mut played, "0", "orphan").0, Code::UnknownAgent);
}

#[test]
fn tools_for_skills_are_only_there_with_a_skill_to_use_them_on() {
    let kind = definition("lead", &["read", SKILL_TOOL, DELEGATE_TO_AGENT], None);
    let tools = ToolSet::parse(kind.tools.iter().map(String::as_str)).expect("tools");
    let own = Skill { sub_agents: Some(Vec::new()), ..skill("own") };
    let inline = Skill { fork: false, ..skill("inline") };
    let hidden = Skill { for_models: false, ..skill("hidden") };
    let none: &[&str] = &["read"];
    let both: &[&str] = &[DELEGATE_TO_AGENT, "read", SKILL_TOOL];
    for (own, skills, left, spawns) in [
        (None, vec![], none, false),
        (None, vec![hidden], none, false),
        (None, vec![inline.clone()], both, true),
        (None, vec![skill("forked")], both, true),
        (Some(&own), vec![skill("forked")], none, false),
        (Some(&own), vec![skill("forked"), inline], &["read", SKILL_TOOL], false),
    ] {
        let rights = SkillRights::new(&kind, own);
        let useful = rights.tools(&tools, &skills.iter());
        assert_eq!(
            useful.iter().map(crate::permission::ToolName::as_str).collect::<Vec<_>>(),
            left,
            "{skills:?}"
        );
        assert_eq!(rights.can_spawn(&useful, skills.iter()), spawns, "{skills:?}");
    }
}

#[test]
fn a_definition_that_names_its_skills_may_use_no_others() {
    let mut kind = definition("lead", &[SKILL_TOOL], None);
    kind.skills = Some(vec!["Review".to_owned()]);
    let rights = SkillRights::new(&kind, None);
    assert!(rights.may_load(&skill("review")) && !rights.may_load(&skill("other")));
    assert!(!rights.may_delegate_to(&skill("other")));
}

/// A skill's rules apply beside its definition's: neither lifts a deny of the other, and an agent that continues the
/// work is bound by both.
#[test]
fn a_skill_narrows_and_never_lifts_what_its_definition_denies() {
    let rule = |pattern: &str, decision| Rule { pattern: pattern.parse().expect("a pattern"), decision };
    let boss = definition("boss", &["bash", SKILL_TOOL], Some(&["lead"]));
    let lead = definition("lead", &["bash"], None);
    let lead = Definition { rules: vec![rule("bash:git push*", Decision::Deny)], ..lead };
    let only_git = vec![rule("bash:*", Decision::Deny), rule("bash:git *", Decision::Allow)];
    let git = Skill { rules: only_git, ..skill("git") };
    let mut played = PlayedRun::with(started_with(vec![boss, lead], vec![git], 2, Budget::NONE));
    let child = played.try_spawn(&id("0"), &asked("git")).expect("spawned");
    let decide = |played: &PlayedRun, child, command| {
        let authority = &played.run.open(child).expect("open").authority;
        authority.decide(&Approvals::none(), &Operation::new("bash", Some(command))).decision
    };
    assert_eq!(decide(&played, &child, "git status"), Decision::Allow);
    assert_eq!(decide(&played, &child, "git push origin"), Decision::Deny, "the definition's no");
    assert_eq!(decide(&played, &child, "rm -r x"), Decision::Deny, "the skill's no");
}

#[test]
fn who_names_skills_to_delegate_to_can_delegate() {
    let tools = ["read", DELEGATE_TO_AGENT];
    let kinds = vec![definition("boss", &tools, Some(&["lead"])), definition("lead", &["read"], None)];
    let lists = Skill { sub_agents: Some(vec!["other".to_owned()]), ..skill("lists") };
    let beginning = started_with(kinds, vec![lists, skill("other")], 2, Budget::NONE);
    let mut played = PlayedRun::with(beginning);
    let child = played.try_spawn(&id("0"), &asked("lists")).expect("spawned");
    let grant = &played.run.open(&child).expect("open").contract.permissions;
    assert!(grant.covers(DELEGATE_TO_AGENT) && grant.can_spawn_children);
    let child = played.try_spawn(&id("0"), &asked("other")).expect("spawned");
    assert!(!played.run.open(&child).expect("open").contract.permissions.covers(DELEGATE_TO_AGENT));
}

#[test]
fn a_forked_skill_is_told_where_its_files_are() {
    let base = definition("lead", &["read"], None);
    let instructions = "Run ${CLAUDE_SKILL_DIR}/x.py on $1.".into();
    let with_files = Skill { instructions, dir: Some("/s/deep".to_owned()), ..skill("deep") };
    let prompt = with_files.definition(&base).prompt;
    assert!(prompt.contains("Run skill://deep/x.py on $1."), "{prompt}");
    assert!(prompt.contains("A `$` with a digit above stands for that word"), "{prompt}");
    assert!(prompt.contains("read with `read`, as `skill://deep/PATH`"), "{prompt}");
    assert!(!skill("plain").definition(&base).prompt.contains("skill://"));
}

#[test]
fn a_run_of_one_skill_has_that_child_once_and_no_other_without_a_reply() {
    let mut played = relay(vec![skill("deep"), skill("other")], "Deep", 2);
    let decided = played.run.spawn_run_skill(&class_of).expect("spawned");
    let EventBody::SubagentCreated(created) = &decided.1 else { panic!("created") };
    assert_eq!((created.skill.as_deref(), created.contract.step.required), (Some("deep"), true));
    let mut other = created.clone();
    other.contract.execution.skill = Some("other".to_owned());
    other.skill = Some("other".to_owned());
    other.contract_hash = other.contract.hash();
    let wrong = Event { agent: id("1"), at_ms: 2_000, body: other.into() };
    assert!(Run::begin(&played.events[0]).expect("begins").apply(&wrong).is_err(), "not the run's skill");
    played.put(decided);
    assert!(played.run.is_run_skill(&id("1")) && !played.run.is_run_skill(&id("2")));
    let again = played.run.spawn_run_skill(&class_of).expect("decided");
    let again = Event { agent: again.0, at_ms: 2_000, body: again.1 };
    assert!(played.run.apply(&again).is_err(), "once");
}

#[test]
fn a_contract_that_names_another_skill_than_its_event_is_refused() {
    let played = PlayedRun::with(beginning(vec![skill("deep"), skill("other")], 2));
    let mut changed = played;
    let child = changed.try_spawn(&id("0"), &asked("deep")).expect("spawned");
    let created = changed.events.iter().find(|event| event.agent == child).expect("created").clone();
    let EventBody::SubagentCreated(created) = created.body else { panic!("created") };
    for skill in [None, Some("other".to_owned()), Some("none".to_owned())] {
        let mut tampered = created.clone();
        tampered.skill = skill;
        let event = Event { agent: child.clone(), at_ms: 2_000, body: tampered.into() };
        assert!(Run::begin(&changed.events[0]).expect("begins").apply(&event).is_err());
    }
}

#[test]
fn a_run_of_one_skill_fails_as_its_child_did() {
    let mut played = relay(vec![skill("deep")], "deep", 2);
    let decided = played.run.spawn_run_skill(&class_of).expect("spawned");
    let child = decided.0.clone();
    played.put(decided);
    played.start(&child);
    assert!(played.call(&child) && played.reply(&child, false));
    let budget = played.run.fail(&child, failure(FailKind::Budget));
    let Ok(crate::lifecycle::Attempt::Over(decided)) = budget else { panic!("over") };
    played.put(decided);
    assert!(played.close(&child));
    let end = RunEnd::Done { report: "Failed: x".into(), turns_exhausted: false };
    let decided = played.run.end(end, None, played.now_ms()).expect("it can end");
    played.put(decided);
    let Some(Outcome::Failed { kind, code, .. }) = &played.run.outcome else { panic!("failed") };
    assert_eq!((*kind, *code), (FailKind::Budget, Code::BudgetExhausted));
}

#[test]
fn a_run_of_one_skill_keeps_to_the_depth() {
    let played = relay(vec![skill("deep")], "deep", 0);
    let refusal = played.run.spawn_run_skill(&class_of).expect_err("refused");
    assert_eq!(refusal.code, Code::MaxDepthExceeded);
    assert_eq!(refusal.reason, "maximum depth 0 reached: an agent at depth 0 cannot spawn");
}

#[test]
fn common_rules_stand_before_and_after_those_of_a_definition_and_are_put_there_for_its_agents_alone() {
    let rule = |pattern: &str| Rule { pattern: pattern.parse().expect(pattern), decision: Decision::Ask };
    let own = vec![rule("bash:own")];
    let found =
        |name: &str, tools: &[&str]| Definition { rules: own.clone(), ..definition(name, tools, None) };
    let untrusted = |name: &str| Skill { fork: false, trust: Trust::Untrusted, ..skill(name) };
    let forked = Skill { agent: Some("shell".to_owned()), trust: Trust::Trusted, ..skill("forked") };
    let catalogue = DiscoveredDefinitions {
        asks: vec![rule("bash:first")],
        definitions: vec![found("shell", &["bash"]), found("plain", &["read"])],
        skills: vec![untrusted("odd"), forked],
        out_of_reach: Vec::new(),
    };
    let built_in = [found("builtin", &["bash"])];
    let PreparedDefinitions { definitions, skills } =
        PreparedDefinitions::new(&built_in, &catalogue).expect("definitions");
    let patterns = |prepared: &PreparedDefinition| -> Vec<String> {
        prepared.layer().rules.iter().map(|rule| rule.pattern.to_string()).collect()
    };
    assert_eq!(patterns(&definitions["shell"]), ["bash:first", "bash:own", "skill:odd"]);
    assert_eq!(patterns(&definitions["plain"]), ["bash:own", "skill:odd"]);
    assert_eq!(patterns(&definitions["builtin"]), ["bash:own", "skill:odd"]);
    let forked = skills["forked"].prepared.as_ref().expect("a definition");
    assert_eq!(patterns(forked), ["bash:first", "bash:own", "skill:odd"]);
    let many = (0..=crate::skill::UNTRUSTED_MAX).map(|number| untrusted(&format!("odd-{number}"))).collect();
    let many = DiscoveredDefinitions { skills: many, ..DiscoveredDefinitions::default() };
    assert_eq!(many.consent_rules(), [rule("skill")], "so many are asked about together");
}
