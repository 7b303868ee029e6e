//! Skills that users call, and what limits the use of any skill: its files, rules about it, and trust.

use std::process::Command;

use serde_json::{Value, json};

use crate::support::{Done, Home, run_of};

/// The folder of a user's own skills, beneath their home.
const OWN: &str = ".claude/skills";

/// A skill with two files.
const PDF: &str = "---\nname: pdf\ndescription: Fills forms.\n---\nRun ${CLAUDE_SKILL_DIR}/fill.sh.\n";

fn furnished() -> Home {
    let home = Home::new();
    home.write_own(&format!("{OWN}/pdf/SKILL.md"), PDF);
    home.write_own(&format!("{OWN}/pdf/fill.sh"), "echo filled-by-pdf\n");
    home.write_own(&format!("{OWN}/pdf/r.md"), "the notes of pdf\n");
    home
}

/// A script whose first reply makes these calls at once.
fn calls(home: &Home, calls: &[(&str, Value)]) {
    let calls: Vec<Value> = calls.iter().map(|(name, input)| json!({"name": name, "input": input})).collect();
    let script = json!([
        {"when": {"turn": 1}, "reply": {"tool_calls": calls}},
        {"reply": {"text": "done"}},
    ]);
    home.write("script.yaml", &script.to_string());
}

#[track_caller]
fn run(home: &Home, args: &[&str]) -> Done {
    home.posse(&[&["run", "--json", "--model", "scripted/script.yaml"], args].concat())
}

/// The result of each call of a run, in order: whether it succeeded, and the text for the model.
#[track_caller]
fn results(done: &Done) -> Vec<(bool, String)> {
    let finished = |event: &Value| event["kind"] == "agent.tool_finished";
    let mut events: Vec<Value> = done.json_lines().into_iter().filter(finished).collect();
    events.sort_by_key(|event| event["detail"]["call_id"].to_string());
    let result = |event: Value| {
        let detail = &event["detail"];
        (detail["ok"] == true, detail["output"].as_str().unwrap_or_default().to_owned())
    };
    events.into_iter().map(result).collect()
}

/// The instructions of a run's root.
fn told(home: &Home, done: &Done) -> String {
    let events = home.posse(&["logs", "--json", &run_of(&done.result())]).exits(0).json_lines();
    let started = events.into_iter().find(|event| event["kind"] == "run.started").expect("a beginning");
    started["detail"]["contract"]["step"]["description"].as_str().expect("a text").to_owned()
}

#[test]
fn a_skill_that_a_person_calls_brings_its_name_and_its_files() {
    let home = furnished();
    calls(
        &home,
        &[
            ("read", json!({"path": "skill://pdf/r.md"})),
            ("bash", json!({"command": "sh $POSSE_SKILL_PDF/fill.sh"})),
        ],
    );
    for args in [&["/pdf fill it"][..], &["--skill", "pdf", "fill it"]] {
        let done = run(&home, args).exits(0);
        let told = told(&home, &done);
        assert!(told.starts_with("# Skill: pdf\n"), "{told}");
        assert!(told.contains("as `skill://pdf/PATH`") && told.contains("fill it"), "{told}");
        assert!(told.contains("Run $POSSE_SKILL_PDF/fill.sh."), "{told}");
        let machine = home.project().canonicalize().expect("a path");
        let machine = machine.parent().expect("a folder").display().to_string();
        assert!(!told.contains(&machine), "no path of the machine: {told}");
        let results = results(&done);
        assert!(results[0].1.contains("the notes of pdf"), "{results:?}");
        assert!(results[1].1.contains("filled-by-pdf"), "{results:?}");
    }
}

#[test]
fn a_called_skill_is_readable_where_no_model_could_have_asked_for_it() {
    let home = furnished();
    home.write_own(
        &format!("{OWN}/hid/SKILL.md"),
        "---\nname: hid\ndescription: d\ndisable-model-invocation: true\n---\nSee r.md.\n",
    );
    home.write_own(&format!("{OWN}/hid/r.md"), "the notes of hid\n");
    calls(&home, &[("read", json!({"path": "skill://hid/r.md"}))]);
    let read = results(&run(&home, &["/hid x"]).exits(0));
    assert!(read[0].1.contains("the notes of hid"), "{read:?}");
    let read = results(&run(&home, &["/pdf x"]).exits(0));
    assert!(!read[0].0, "it was another one that was called: {read:?}");
    // A definition without the tool for skills.
    calls(&home, &[("read", json!({"path": "skill://pdf/r.md"}))]);
    let read = results(&run(&home, &["--agent", "planner", "--skill", "pdf", "x"]).exits(0));
    assert!(read[0].1.contains("the notes of pdf"), "{read:?}");
}

#[test]
fn a_resumed_run_still_reads_the_files_of_the_skill_that_was_called() {
    let home = furnished();
    let script = |latency_ms: u32| {
        json!([
            {"when": {"turn": 1}, "latency_ms": latency_ms,
             "reply": {"tool_calls": [{"name": "read", "input": {"path": "skill://pdf/r.md"}}]}},
            {"reply": {"text": "done"}},
        ])
        .to_string()
    };
    home.write("script.yaml", &script(3_600_000));
    let mut going =
        home.start(&["run", "--json", "--agent", "planner", "--model", "scripted/script.yaml", "/pdf x"]);
    let id = run_of(&going.until_event("", "agent.model_called"));
    going.kill();
    home.write("script.yaml", &script(0));
    let read = results(&home.posse(&["resume", "--json", &id]).exits(0));
    assert!(read[0].1.contains("the notes of pdf"), "{read:?}");
}

#[test]
fn a_bundle_tells_of_skills_what_was_told_and_opens_nothing() {
    let home = furnished();
    home.write_own(
        &format!("{OWN}/deep/SKILL.md"),
        "---\nname: deep\ndescription: d\ncontext: fork\n---\nSee ${CLAUDE_SKILL_DIR}/r.md.\n",
    );
    calls(&home, &[("skill", json!({"name": "pdf", "arguments": "x"}))]);
    for args in [&["go"][..], &["--skill", "deep", "go"], &["/pdf go"]] {
        let recorded = run_of(&run(&home, args).exits(0).result());
        let receiver = Home::new();
        let bundle = receiver.project().join("b.posse");
        home.posse(&["export", &recorded, "-o", bundle.to_str().expect("UTF-8")]).exits(0);
        let done = receiver.posse(&["run", "--json", "--model", "replay/b.posse"]);
        assert!(!done.stdout.contains("REPLAY_DIFFERS"), "{args:?}: {done:?}");
        done.exits(0);
    }
    // The run must not read the reader's own file at that path.
    calls(&home, &[("read", json!({"path": "skill://pdf/r.md"}))]);
    let recorded = run_of(&run(&home, &["go"]).exits(0).result());
    let bundle = home.project().join("b.posse");
    home.posse(&["export", &recorded, "-o", bundle.to_str().expect("UTF-8")]).exits(0);
    let done = home.posse(&["run", "--json", "--model", "replay/b.posse"]);
    let read = results(&done);
    assert!(!read[0].0 && !read[0].1.contains("the notes"), "{read:?}");
}

#[test]
fn a_rule_that_denies_a_skill_binds_every_way_to_it() {
    let home = furnished();
    home.write_own(
        &format!("{OWN}/deep/SKILL.md"),
        "---\nname: deep\ndescription: Digs.\ncontext: fork\n---\nDig.\n",
    );
    let ways = [
        ("skill", json!({"name": "pdf"})),
        ("read", json!({"path": "skill://pdf/SKILL.md"})),
        ("list", json!({"path": "skill://PDF"})),
        ("delegate_to_agent", json!({"skill_name": "pdf", "task": "go"})),
    ];
    calls(&home, &ways);
    let done = run(&home, &["--deny", "skill:pdf", "go"]).exits(0);
    let results_of = results(&done);
    assert_eq!(results_of.len(), ways.len(), "{results_of:?}");
    for (ok, text) in results_of {
        assert!(!ok && text.contains("`skill:pdf` is not allowed"), "{text}");
    }
}

#[test]
fn a_person_cannot_call_what_a_rule_denies() {
    let home = furnished();
    home.write_own(
        &format!("{OWN}/deep/SKILL.md"),
        "---\nname: deep\ndescription: d\ncontext: fork\n---\nDig.\n",
    );
    calls(&home, &[]);
    for args in [
        &["--deny", "skill:pdf", "/pdf x"][..],
        &["--deny", "skill:pdf", "--skill", "pdf", "x"],
        &["--deny", "skill", "--skill", "deep", "x"],
        &["--agent", "planner", "--deny", "skill:deep", "--skill", "deep", "x"],
    ] {
        let done = run(&home, args).exits(2);
        assert!(done.stderr.contains("is denied by the rule `skill"), "{args:?}: {done:?}");
    }
}

#[test]
fn an_untrusted_skill_that_a_person_calls_asks_before_each_use() {
    let home = Home::new();
    home.write(".claude/skills/evil/SKILL.md", "---\nname: evil\ndescription: d\n---\nWrite x.\n");
    calls(&home, &[("write", json!({"path": "x", "content": "x"}))]);
    let done = run(&home, &["/evil hi"]).exits(0);
    assert!(done.stderr.contains("`evil` of this project must ask before every tool call"), "{done:?}");
    let refused = results(&done);
    assert!(!refused[0].0 && refused[0].1.contains("needs approval"), "{refused:?}");
    let allowed = results(&run(&home, &["--allow", "write:x", "/evil hi"]).exits(0));
    assert!(allowed[0].0, "{allowed:?}");
    home.posse(&["trust", "--yes"]).exits(0);
    let trusted = results(&run(&home, &["/evil hi"]).exits(0));
    assert!(trusted[0].0, "{trusted:?}");
}

#[test]
fn rules_about_files_of_a_skill_are_about_its_name_and_the_path_in_its_folder() {
    let home = Home::new();
    home.write(".claude/skills/evil/SKILL.md", "---\nname: evil\ndescription: d\n---\nSee r.md.\n");
    home.write(".claude/skills/evil/r.md", "the notes of evil\n");
    calls(
        &home,
        &[("read", json!({"path": "skill://evil/r.md"})), ("list", json!({"path": "skill://evil"}))],
    );
    let allow = ["--allow", "read:skill://evil/r.md", "--allow", "list:skill://evil/**", "/evil hi"];
    for (ok, text) in results(&run(&home, &allow).exits(0)) {
        assert!(ok && (text.contains("the notes of evil") || text.contains("r.md")), "{text}");
    }
    home.write_own(".claude/skills/mine/SKILL.md", "---\nname: mine\ndescription: d\n---\nSee r.md.\n");
    home.write_own(".claude/skills/mine/r.md", "my notes\n");
    std::os::unix::fs::symlink("r.md", home.write_own(".claude/skills/mine/x", "").with_file_name("link.md"))
        .expect("a link");
    calls(
        &home,
        &["mine/r.md", "MINE/r.md", "mine/link.md"]
            .map(|path| ("read", json!({"path": format!("skill://{path}")}))),
    );
    for (ok, text) in results(&run(&home, &["--deny", "read:skill://mine/r.md", "go"]).exits(0)) {
        assert!(!ok && text.contains("read:skill:/mine/r.md"), "{text}");
    }
    for (ok, text) in results(&run(&home, &["--deny", "read:r.md", "go"]).exits(0)) {
        assert!(ok, "that is a file of the workspace: {text}");
    }
}

#[test]
fn a_rule_means_a_skill_however_its_name_is_written() {
    let home = Home::new();
    home.write_own(".claude/skills/mine/SKILL.md", "---\nname: mine\ndescription: d\n---\nDo.\n");
    calls(&home, &[("skill", json!({"name": "mine"}))]);
    for rule in ["skill:MINE", "skill:/mine"] {
        let denied = results(&run(&home, &["--deny", rule, "go"]).exits(0));
        assert!(!denied[0].0, "{rule}: {denied:?}");
        run(&home, &["--deny", rule, "/mine x"]).exits(2);
    }
}

#[test]
fn files_of_a_skill_that_is_asked_about_are_asked_about_too() {
    let home = Home::new();
    home.write(".claude/skills/evil/SKILL.md", "---\nname: evil\ndescription: d\n---\nSee r.md.\n");
    home.write(".claude/skills/evil/r.md", "the notes of evil\n");
    let ways = [
        ("read", json!({"path": "skill://evil/SKILL.md"})),
        ("list", json!({"path": "skill://evil"})),
        ("delegate_to_agent", json!({"skill_name": "evil", "task": "go"})),
    ];
    calls(&home, &ways);
    for (ok, text) in results(&run(&home, &["go"]).exits(0)) {
        assert!(!ok && text.contains("`skill:evil` needs approval"), "{text}");
    }
    calls(&home, &ways[..2]);
    let allowed = results(&run(&home, &["--allow", "skill:evil", "go"]).exits(0));
    assert!(allowed[0].0 && allowed[1].0, "{allowed:?}");
}

#[test]
fn a_skill_that_a_person_let_in_is_readable_from_then_on() {
    let home = Home::new();
    home.write(".claude/skills/evil/SKILL.md", "---\nname: evil\ndescription: d\n---\nSee r.md.\n");
    home.write(".claude/skills/evil/r.md", "the notes of evil\n");
    let script = json!([
        {"when": {"turn": 1}, "reply": {"tool_calls": [{"name": "skill", "input": {"name": "evil"}}]}},
        {"when": {"turn": 2}, "reply": {"tool_calls": [{"name": "read", "input": {"path": "skill://evil/r.md"}}]}},
        {"reply": {"text": "done"}},
    ]);
    home.write("script.yaml", &script.to_string());
    let args = ["run", "--json", "--on-ask", "escalate", "--model", "scripted/script.yaml", "go"];
    let mut going = home.start(&args);
    let asked = going.until_event("", "agent.input_requested");
    assert_eq!(asked["detail"]["operation"], "skill:evil", "{asked:#}");
    home.posse(&["approve", "--yes", &run_of(&asked)]).exits(0);
    let read = results(&going.finish().exits(0));
    assert!(read.last().is_some_and(|(ok, text)| *ok && text.contains("the notes of evil")), "{read:?}");
}

#[test]
fn a_folder_of_a_skill_that_git_ignores_is_read_once_the_skill_is_trusted() {
    let home = Home::new();
    let init = Command::new("git").args(["init", "-q"]).current_dir(home.project()).status();
    assert!(init.expect("git runs").success());
    home.write(".gitignore", ".claude/\n");
    home.write(
        ".claude/skills/s9/SKILL.md",
        "---\nname: s9\ndescription: d\n---\nRun ${CLAUDE_SKILL_DIR}/say.sh.\n",
    );
    home.write(".claude/skills/s9/say.sh", "echo said-by-s9\n");
    home.write(".claude/skills/s9/r.md", "the notes of s9\n");
    let top = home.project().canonicalize().expect("a path");
    let command = format!("sh {}/.claude/skills/s9/say.sh; true", top.display());
    let ways = [
        ("skill", json!({"name": "s9"})),
        ("read", json!({"path": "skill://s9/r.md"})),
        ("bash", json!({"command": command})),
    ];
    calls(&home, &ways);
    let run_it = || results(&run(&home, &["--allow", "skill:s9", "go"]).exits(0));
    let untrusted = run_it();
    assert!(untrusted[0].0 && !untrusted[0].1.contains("PATH"), "nothing is told of files: {untrusted:?}");
    assert!(!untrusted[1].0, "{untrusted:?}");
    assert!(!untrusted[2].1.contains("said-by-s9"), "{untrusted:?}");
    let shown = home.posse(&["skills", "show", "s9"]).exits(0).stdout;
    assert!(shown.contains("none: git ignores its folder; `posse trust` has it read"), "{shown}");
    home.posse(&["trust", "--yes"]).exits(0);
    let trusted = run_it();
    assert!(trusted[0].1.contains("Run $POSSE_SKILL_S9/say.sh."), "{trusted:?}");
    assert!(trusted[1].1.contains("the notes of s9"), "{trusted:?}");
    assert!(trusted[2].1.contains("said-by-s9"), "{trusted:?}");
    let shown = home.posse(&["skills", "show", "s9"]).exits(0).stdout;
    assert!(shown.contains("(git ignores it; it is read because you trust the skill)"), "{shown}");
}

#[test]
fn a_forked_skill_for_an_agent_that_does_not_exist_is_a_mistake() {
    let home = Home::new();
    home.write_own(
        &format!("{OWN}/fork/SKILL.md"),
        "---\nname: fork\ndescription: d\ncontext: fork\nagent: explor\n---\nDig.\n",
    );
    calls(&home, &[]);
    for args in [&["--skill", "fork", "x"][..], &["/fork x"]] {
        let done = run(&home, args).exits(2);
        assert!(
            done.stderr.contains("`fork` cannot be used") && done.stderr.contains("`explore`"),
            "{done:?}"
        );
    }
    let shown = home.posse(&["skills", "show", "fork"]).exits(0).stdout;
    assert!(shown.contains("its agent `explor` does not exist, so it cannot be used"), "{shown}");
    assert!(shown.contains("used by:      no agent"), "{shown}");
}
