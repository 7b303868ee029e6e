//! The system prompt by contract: its terms, the rules that bind the agent, and whether it may spawn.

use posse_domain::permission::Rules;
use serde_json::{Value, json};

use super::*;
use posse_definitions::builtin;

fn definition(name: &str) -> Definition {
    builtin().into_iter().find(|definition| definition.name == name).expect(name)
}

/// A child's contract with other values at these JSON pointers.
fn contract(changes: &[(&str, Value)]) -> Contract {
    let mut value = json!({
        "version": 1,
        "context": {"depth": 1, "max_depth": 2, "parent_task_id": "k3f9ab2c", "root_task_id": "k3f9ab2c"},
        "parent": {
            "run_id": "k3f9ab2c", "agent_id": "k3f9ab2c", "message_id": "m7", "step_idx": 0,
            "task_prompt": "the request", "goal_summary": "the request", "continues": null, "repairs": null
        },
        "step": {
            "title": "port auth", "description": "Port the module.", "success_criteria": [], "owns": [],
            "required": false
        },
        "permissions": {
            "allowed_tools": ["read", "grep"], "rules": [], "can_spawn_children": false,
            "max_delegation_depth": 0, "may_share_history": false, "on_ask": "deny"
        },
        "execution": {
            "definition": "explore", "skill": null, "model": "scripted/x", "temperature": null, "top_p": null,
            "max_turns": 15, "turn_timeout_ms": null, "attempt_timeout_ms": 600_000, "idle_timeout_ms": 120_000,
            "max_retries": 1, "max_retries_per_tool": 3, "close_on_completion": true, "share_history": false,
            "extra_context": null
        },
        "budget": {"tokens": null, "usd": null, "agents": null, "wall_ms": null},
        "outputs": {"report_format": "markdown", "report_path_pattern": "x", "result_schema": null}
    });
    for (pointer, change) in changes {
        *value.pointer_mut(pointer).expect(pointer) = change.clone();
    }
    Contract::from_json(&value.to_string()).expect("contract")
}

fn prompt(changes: &[(&str, Value)]) -> String {
    system_prompt(&definition("explore"), &contract(changes), None, &[])
}

#[track_caller]
fn has(text: &str, part: &str) {
    assert!(text.contains(part), "{part:?} is not in:\n{text}");
}

#[test]
fn a_child_reads_its_whole_contract() {
    let text = prompt(&[]);
    let (own, terms) = text.split_once("\n\n# Your contract\n\n").expect("two parts");
    assert_eq!(own, definition("explore").prompt.trim());
    assert_eq!(
        terms,
        "You are a sub-agent (Codebase Explorer) at depth 1. Agent `0` gave you the work and reads your report; you \
         know nothing of its conversation but what it wrote to you. Nobody can answer questions while you work.\n\
         \n\
         - Tools: `grep`, `read`. Calls to any other are refused.\n\
         - Sub-agents: you cannot spawn any. What you were given you do yourself.\n\
         - Files: every path is relative to the workspace, and nothing outside it can be reached.\n\
         - Turns: at most 15. A turn is one reply of yours with its tool calls. The last one has no tools and is \
         kept for your report, so be done with the work before it.\n\
         - Time: 10 minutes of work. Waiting for sub-agents does not count.\n\
         - Report: a reply without tool calls ends your work, and its text is your report. Write it in Markdown for \
         a reader who has seen nothing of your work.\n"
    );
}

#[test]
fn siblings_with_the_same_terms_have_the_same_text() {
    let second = prompt(&[
        ("/parent/run_id", json!("zzzzzzzz")),
        ("/parent/agent_id", json!("zzzzzzzz")),
        ("/context/parent_task_id", json!("zzzzzzzz")),
        ("/context/root_task_id", json!("zzzzzzzz")),
        ("/parent/step_idx", json!(7)),
        ("/parent/message_id", json!("m9")),
        ("/step/title", json!("another")),
        ("/step/description", json!("Something else.")),
        ("/execution/extra_context", json!("more")),
    ]);
    assert_eq!(prompt(&[]), second, "also in another run");
}

#[test]
fn what_is_set_is_said() {
    let text = prompt(&[
        (
            "/permissions/rules",
            json!([
                {"pattern": "read:.env", "decision": "deny"}, {"pattern": "grep", "decision": "allow"}
            ]),
        ),
        ("/step/owns", json!(["src/auth/**", "README.md"])),
        ("/step/success_criteria", json!(["it prints its version", {"command": "make", "timeout_ms": null}])),
        ("/budget", json!({"tokens": 400_000, "usd": 1.5, "agents": 4, "wall_ms": 90_000})),
        ("/execution/turn_timeout_ms", json!(1500)),
        ("/outputs/result_schema", json!({"type": "object"})),
    ]);
    has(&text, "- Refused whenever you try: `read:.env`.\n");
    has(&text, "You own `src/auth/**`, `README.md`: change nothing else");
    has(&text, "\n## What counts as done\n\n1. it prints its version\n- the host runs `make` on your work");
    has(&text, "below you: 400000 tokens; $1.50; 4 agents, yourself included; 90 seconds from your start");
    has(&text, "- Time: 10 minutes of work, 1500 milliseconds for one turn.");
    has(&text, "- Result: a reply without tool calls ends your work");
    has(&text, "\n## Schema of your result\n\n```json\n{\n  \"type\": \"object\"\n}\n```\n");
}

/// A list of rules: `-` denies, `?` asks, `+` allows.
fn rules(written: &[&str]) -> Value {
    let rule = |text: &&str| {
        let decision = match text.as_bytes()[0] {
            b'-' => "deny",
            b'?' => "ask",
            _ => "allow",
        };
        json!({"pattern": text[1..], "decision": decision})
    };
    written.iter().map(rule).collect()
}

#[test]
fn what_is_refused_is_what_later_rules_leave_of_it() {
    let cases: [(&[&str], &[&str], Option<&str>); 14] = [
        (&[], &[], None),
        (&["?bash:git push*", "+bash"], &[], None),
        (&["-bash"], &[], Some("Refused whenever you try: `bash`.")),
        (
            &["-bash", "+bash:git diff", "+bash:git diff *"],
            &[],
            Some("`bash` only as: `git diff`, `git diff *`."),
        ),
        (&[], &["-bash", "+bash:ls *"], Some("`bash` only as: `ls *`.")),
        (&["-bash", "?bash:git push*"], &[], Some("`bash` only as: `git push*`.")),
        (&["-bash", "+bash"], &[], None),
        (&["-bash:rm *", "+bash:ls *"], &[], Some("Refused whenever you try: `bash:rm *`.")),
        (
            &["-bash", "+bash:git *", "-bash:git push*"],
            &[],
            Some("Refused whenever you try: `bash:git push*`. `bash` only as: `git *`."),
        ),
        (&["-bash", "+bash:git *", "-bash"], &[], Some("Refused whenever you try: `bash`.")),
        (
            &["-write:src/**", "+write:src/gen/*"],
            &[],
            Some("Refused whenever you try: `write:src/**` (but not `write:src/gen/*`)."),
        ),
        (&["-*", "+read"], &[], Some("Refused whenever you try: `*` (but not `read`).")),
        (&["-read", "+read:*"], &[], Some("`read` only as: `*`.")),
        // Two lists apply together.
        (&["-bash", "+bash:git *"], &["-bash"], Some("Refused whenever you try: `bash`.")),
    ];
    for (own, contracted, expected) in cases {
        let mut definition = definition("explore");
        definition.rules = serde_json::from_value(rules(own)).expect("rules");
        let tools = ("/permissions/allowed_tools", json!(["bash", "read", "write"]));
        let contract = contract(&[("/permissions/rules", rules(contracted)), tools]);
        assert_eq!(
            refused::refused(&definition, &contract, &[]).as_deref(),
            expected,
            "{own:?} {contracted:?}"
        );
    }
}

/// Rules of the definition, of the contract and of others, and the text for the agent.
type Case = (
    &'static [&'static str],
    &'static [&'static str],
    &'static [&'static [&'static str]],
    Option<&'static str>,
);

#[test]
fn an_agent_is_told_what_every_rule_that_binds_it_leaves_of_the_tools_that_it_has() {
    let list = |written: &[&str]| -> Rules { serde_json::from_value(rules(written)).expect("rules") };
    let cases: [Case; 9] = [
        // A run's `--deny`, and a rule of an ancestor.
        (&[], &[], &[&["-bash:git push*"]], Some("Refused whenever you try: `bash:git push*`.")),
        (
            &["-bash:rm *"],
            &[],
            &[&["-bash:rm *"], &["-bash:rm *"]],
            Some("Refused whenever you try: `bash:rm *`."),
        ),
        // Rules about tools that the agent does not have.
        (&["-webfetch"], &["-task", "+task:explore"], &[&["-edit:x"]], None),
        (&["-webfetch", "-bash:rm *"], &[], &[], Some("Refused whenever you try: `bash:rm *`.")),
        (&["-*", "+webfetch"], &[], &[], Some("Refused whenever you try: `*` (but not `webfetch`).")),
        // A definition and a skill both narrow one tool: only their intersection remains.
        (
            &["-bash", "+bash:git *"],
            &["-bash", "+bash:git diff *", "+bash:ls"],
            &[],
            Some("`bash` only as: `git diff *`."),
        ),
        (&["-bash", "+bash:ls"], &["-bash", "+bash:ls"], &[], Some("`bash` only as: `ls`.")),
        (
            &["-bash", "+bash:git *"],
            &["-bash", "+bash:* --help"],
            &[],
            Some("`bash` only as what fits each of these lists: `git *`; and `* --help`."),
        ),
        (
            &["-bash", "+bash:git *"],
            &[],
            &[&["-bash", "+bash:git log*"]],
            Some("`bash` only as: `git log*`."),
        ),
    ];
    for (own, contracted, others, expected) in cases {
        let mut definition = definition("explore");
        definition.rules = serde_json::from_value(rules(own)).expect("rules");
        let tools = ("/permissions/allowed_tools", json!(["bash", "read"]));
        let contract = contract(&[("/permissions/rules", rules(contracted)), tools]);
        let others: Vec<Rules> = others.iter().map(|written| list(written)).collect();
        let told = refused::refused(&definition, &contract, &others);
        assert_eq!(told.as_deref(), expected, "{own:?} {contracted:?} {others:?}");
    }
}

#[test]
fn the_agent_of_a_step_is_told_what_the_step_is_for() {
    let step = [
        ("/parent/message_id", Value::Null),
        ("/parent/goal_summary", json!("Auth is ported.")),
        ("/parent/task_prompt", json!("Port it all.")),
        ("/step/title", json!("port auth")),
    ];
    let told = first_message(&contract(&step));
    for part in [
        "# port auth\n\nPort the module.",
        "The goal of the plan: Auth is ported.",
        "The request of the person: Port it all.",
    ] {
        has(&told, part);
    }
    let same = [
        ("/parent/message_id", Value::Null),
        ("/parent/goal_summary", json!("Port it all.")),
        ("/parent/task_prompt", json!("Port it all.")),
    ];
    assert!(!first_message(&contract(&same)).contains("The request"), "said once");
}

#[test]
fn who_asks_about_everything_is_told() {
    let mut definition = definition("explore");
    definition.trust = posse_domain::definition::Trust::Untrusted;
    let told = |changes: &[(&str, Value)]| system_prompt(&definition, &contract(changes), None, &[]);
    let asks = "- Every call that was not allowed before asks a person first.";
    has(&told(&[]), &format!("{asks} Nobody can be asked for you: it is refused.\n"));
    has(&told(&[("/permissions/on_ask", json!("escalate"))]), &format!("{asks}\n"));
    let root = [
        ("/context/parent_task_id", Value::Null),
        ("/context/root_task_id", Value::Null),
        ("/context/depth", json!(0)),
    ];
    has(&told(&root), &format!("{asks}\n"));
}

#[test]
fn spawning_follows_from_grant_and_depth() {
    let spawning = |levels: u32, max_depth: u32, tools: Value| {
        prompt(&[
            ("/permissions/can_spawn_children", json!(true)),
            ("/permissions/max_delegation_depth", json!(levels)),
            ("/permissions/allowed_tools", tools),
            ("/context/max_depth", json!(max_depth)),
        ])
    };
    has(&spawning(1, 2, json!(["task"])), "you may spawn them with `task`; they cannot spawn in turn");
    has(&spawning(5, 3, json!(["task"])), "the tree may grow 2 levels below you");
    for text in
        [spawning(0, 2, json!(["task"])), spawning(1, 1, json!(["task"])), spawning(1, 2, json!(["read"]))]
    {
        has(&text, "you cannot spawn any");
    }
}

#[test]
fn a_tool_that_rules_refuse_is_no_way_to_spawn() {
    let contract = contract(&[
        ("/permissions/can_spawn_children", json!(true)),
        ("/permissions/max_delegation_depth", json!(1)),
        ("/permissions/allowed_tools", json!(["task", "skill"])),
    ]);
    let list = |written: &[&str]| -> Rules { serde_json::from_value(rules(written)).expect("rules") };
    let said = |denied: &[&str]| spawning(&definition("explore"), &contract, &[list(denied)]);
    has(&said(&[]), "you may spawn them with `task` and `skill`;");
    has(&said(&["-skill", "-task:planner"]), "you may spawn them with `task`;");
    has(&said(&["-skill", "-task", "+task:explore"]), "you may spawn them with `task`;");
    has(&said(&["-skill", "-task"]), "you cannot spawn any");
}

#[test]
fn a_root_answers_to_a_person() {
    let root = [
        ("/context", json!({"depth": 0, "max_depth": 2, "parent_task_id": null, "root_task_id": null})),
        ("/execution/max_turns", json!(null)),
        ("/execution/attempt_timeout_ms", json!(null)),
    ];
    let text = system_prompt(&definition("coder"), &contract(&root), Some("  Use tabs.\n"), &[]);
    has(&text, "You are the root agent of this run (Coder). A person gave you the work");
    has(&text, "- Turns: not limited.");
    assert!(!text.contains("- Time:"));
    assert!(text.ends_with("\n\n# Instructions of the project (AGENTS.md)\n\nUse tabs.\n"), "{text}");
}

#[test]
fn odd_terms_have_plain_words_too() {
    has(&prompt(&[("/permissions/allowed_tools", json!([]))]), "- Tools: none.");
    has(&prompt(&[("/execution/max_turns", json!(1))]), "- Turns: this one only.");
    has(&prompt(&[("/execution/share_history", json!(true))]), "you begin with its conversation");
    has(&prompt(&[("/parent/continues", json!("k3f9ab2c.1"))]), "the conversation that you are to continue");
}

#[test]
fn long_project_instructions_are_cut_with_a_mark() {
    let long = "ü".repeat(AGENTS_MD_MAX_BYTES);
    let text = system_prompt(&definition("explore"), &contract(&[]), Some(&long), &[]);
    assert!(text.len() < AGENTS_MD_MAX_BYTES + 8 * 1024);
    has(&text, "[the rest of AGENTS.md is left out: it is too long]");
    assert_eq!(project_instructions(Some(" \n")), "");
}

#[test]
fn the_first_message_is_the_prompt_and_its_context() {
    assert_eq!(first_message(&contract(&[])), "Port the module.");
    let with_context = contract(&[("/execution/extra_context", json!("It is in src."))]);
    assert_eq!(first_message(&with_context), "Port the module.\n\n## Context\n\nIt is in src.");
}

#[test]
fn a_new_attempt_is_told_why_the_last_one_ended() {
    let note = retry_note("the model answered 529: overloaded.\n", false);
    has(&note, "The attempt before it ended: the model answered 529: overloaded. Its conversation is gone");
    assert!(!note.contains('\n'));
    assert!(retry_note(&"x".repeat(100_000), true).len() < 3_000);
    has(&note, "you begin with the same files as it did");
    has(&retry_note("x", true), "files that it changed are still changed");
}

#[test]
fn a_duration_is_said_in_its_largest_exact_unit() {
    for (ms, said) in [
        (0, "0 seconds"),
        (1, "1 millisecond"),
        (1_500, "1500 milliseconds"),
        (1_000, "1 second"),
        (90_000, "90 seconds"),
        (60_000, "1 minute"),
        (5_400_000, "90 minutes"),
    ] {
        assert_eq!(duration(ms), said);
    }
}

#[test]
fn who_takes_over_a_conversation_reads_what_it_is_and_may_do_before_its_assignment() {
    let shares = ("/execution/share_history", json!(true));
    let told = handover(&definition("explore"), &contract(std::slice::from_ref(&shares)));
    let explore = definition("explore");
    let parts = [
        "Everything above is the conversation",
        explore.prompt.trim(),
        "# Your contract",
        "you begin with its conversation",
        "are refused, also to those that are offered to you.",
        "# Your assignment\n\nPort the module.",
    ];
    let places: Vec<usize> = parts.iter().map(|part| told.find(part).expect(part)).collect();
    assert!(places.is_sorted(), "{told}");
    assert!(!told.contains("Agents that you may spawn"), "{told}");
    let spawning = [
        shares,
        ("/permissions/can_spawn_children", json!(true)),
        ("/permissions/max_delegation_depth", json!(1)),
        ("/permissions/allowed_tools", json!(["task", "read"])),
    ];
    let told = handover(&definition("coder"), &contract(&spawning));
    has(&told, "Agents that you may spawn: `general`");
    let usual = system_prompt(&definition("coder"), &contract(&spawning[1..]), None, &[]);
    assert!(!usual.contains("Agents that you may spawn"), "its own `task` lists them");
}
