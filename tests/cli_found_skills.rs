//! Discovered skills: listed, shown, checked, and named by users.

use serde_json::{Value, json};

use crate::support::{Home, run_of};

fn furnished() -> Home {
    let home = Home::new();
    home.write(
        ".agents/skills/changelog/SKILL.md",
        "---\nname: changelog\ndescription: Writes an entry of the changelog.\nargument-hint: VERSION\n---\n\
         Write the entry for $ARGUMENTS.\n",
    );
    home.write_own(
        ".claude/skills/review/SKILL.md",
        "---\nname: review\ndescription: Reviews code.\ncontext: fork\nagent: Explore\nallowed-tools: Read, Grep\n\
         max-iterations: 6\nmax-depth: 3\n---\nReview what you are given.\n",
    );
    home.write_own(
        ".claude/skills/hidden/SKILL.md",
        "---\nname: hidden\ndescription: Background knowledge.\nuser-invocable: false\n---\nKnow this.\n",
    );
    home.write_own(
        ".config/posse/skills/digest.yaml",
        "name: digest\ndescription: Makes it short.\nsystem_prompt: Make it short.\ntools: [read]\n",
    );
    home.write_own(
        ".agents/skills/changelog/SKILL.md",
        "---\nname: changelog\ndescription: Mine.\n---\nMine: $ARGUMENTS\n",
    );
    home.write(
        "script.yaml",
        "- when: {contains: 'Mine: 1.2'}\n  reply: {text: Mine was done.}\n- reply: {text: Plain.}\n",
    );
    home
}

#[test]
fn the_list_tells_what_there_is_and_where_from() {
    let home = furnished();
    insta::assert_snapshot!(home.posse(&["skills"]).exits(0).screen(&home, "--------"));
    let list = home.posse(&["skills", "--json"]).exits(0).json();
    let names: Vec<_> =
        list["skills"].as_array().expect("a list").iter().map(|skill| &skill["name"]).collect();
    assert_eq!(names, ["changelog", "digest", "changelog", "hidden", "review"]);
}

#[test]
fn one_is_shown_with_what_it_comes_to() {
    let home = furnished();
    insta::assert_snapshot!(
        "skills_show_forked",
        home.posse(&["skills", "show", "review"]).exits(0).screen(&home, "--------")
    );
    insta::assert_snapshot!(
        "skills_show_inline",
        home.posse(&["skills", "show", "/changelog"]).exits(0).screen(&home, "--------")
    );
    let unknown = home.posse(&["skills", "show", "reviw"]).exits(2);
    assert!(unknown.stderr.contains("did you mean `review`?"), "{unknown:?}");
}

#[test]
fn the_check_finds_what_is_wrong() {
    let home = furnished();
    home.posse(&["skills", "validate"]).exits(0);
    home.write(".posse/skills/folder/SKILL.md", "---\nname: another\ndescription: d\n---\nx\n");
    let done = home.posse(&["skills", "validate"]).exits(1);
    assert!(done.stdout.contains(".posse/skills/folder/SKILL.md:"), "{done:?}");
    home.posse(&["skills", "validate", ".agents/skills"]).exits(0);
    home.posse(&["skills", "validate", ".posse/skills/folder"]).exits(1);
}

#[test]
fn a_request_that_begins_with_a_skills_name_is_carried_out_by_it() {
    let home = furnished();
    let run = |args: &[&str]| {
        let mut all = vec!["run", "--json", "--model", "scripted/script.yaml"];
        all.extend_from_slice(args);
        home.posse(&all).exits(0)
    };
    for args in [&["/changelog 1.2"][..], &["/Changelog", "1.2"], &["--skill", "changelog", "1.2"]] {
        let done = run(args);
        assert_eq!(done.result()["text"], "Mine was done.", "{args:?}: {done:?}");
    }
    // A text that is not a skill's exact name is a plain request.
    for (request, near) in
        [("/tmp/changelog is broken", false), ("/changelo 1.2", true), ("/hidden it", false)]
    {
        let done = run(&[request]);
        assert_eq!(done.result()["text"], "Plain.", "{request}");
        assert_eq!(done.stderr.contains("did you mean `/changelog`?"), near, "{request}: {done:?}");
    }
    let started = home.posse(&["ps", "--json", "-n", "1"]).exits(0).json();
    assert_eq!(started["request"], "/hidden it", "the request stays as it was typed: {started}");
}

#[test]
fn no_number_of_untrusted_skills_makes_the_persons_own_ask() {
    let home = Home::new();
    let text = |name: &str| format!("---\nname: {name}\ndescription: d\n---\nDo {name}.\n");
    for number in 0..258 {
        let name = format!("a-{number:03}");
        home.write(&format!(".claude/skills/{name}/SKILL.md"), &text(&name));
    }
    home.write_own(".claude/skills/pdf/SKILL.md", &text("pdf"));
    let script = "
- when: {turn: 1}
  reply: {tool_calls: [{name: skill, input: {name: pdf}}]}
- when: {turn: 2}
  reply: {tool_calls: [{name: skill, input: {name: a-000}}]}
- reply: {text: Done.}
";
    home.write("script.yaml", script);
    let done = home.posse(&["run", "--json", "--model", "scripted/script.yaml", "Go."]).exits(0);
    assert!(done.stderr.contains("2 skills of this project omitted"), "{}", done.stderr);
    let logs = home.posse(&["logs", "--json", &run_of(&done.result())]).exits(0).json_lines();
    let given = |text: &str| {
        let finished = logs.iter().filter(|event| event["kind"] == "agent.tool_finished");
        finished.map(Value::to_string).any(|event| event.contains(text))
    };
    assert!(given("Do pdf."), "{logs:?}");
    assert!(!given("Do a-000."), "what nobody trusted still asks");
}

#[test]
fn an_unknown_skill_is_a_mistake_with_the_nearest_name() {
    let home = furnished();
    let run = |args: &[&str]| home.posse(&[&["run", "--model", "scripted/script.yaml"], args].concat());
    let done = run(&["--skill", "reviw", "x"]).exits(2);
    assert!(done.stderr.contains("unknown skill `reviw` (did you mean `review`?)"), "{done:?}");
    run(&["--skill", "review", "--plan", "plan.yaml"]).exits(2);
}

#[test]
fn a_root_skill_says_how_deep_its_run_may_go() {
    let home = furnished();
    let depth = |args: &[&str]| {
        let done =
            home.posse(&[&["run", "--json", "--model", "scripted/script.yaml"], args].concat()).exits(0);
        let events = home.posse(&["logs", "--json", &run_of(&done.result())]).exits(0).json_lines();
        events[0]["detail"]["contract"]["context"]["max_depth"].clone()
    };
    home.write_own(
        ".claude/skills/deep/SKILL.md",
        "---\nname: deep\ndescription: d\nmax-depth: 3\n---\nGo deep.\n",
    );
    assert_eq!(depth(&["Plain."]), json!(2));
    assert_eq!(depth(&["/deep"]), json!(3));
    assert_eq!(depth(&["--max-depth", "1", "/deep"]), json!(1), "the run's own word goes before");
}

#[test]
fn a_root_skill_that_wants_to_go_deeper_than_the_ceiling_is_told() {
    let home = furnished();
    home.write_own(
        ".claude/skills/deep/SKILL.md",
        "---\nname: deep\ndescription: d\nmax-depth: 9\n---\nGo deep.\n",
    );
    let told = |args: &[&str]| {
        let done = home.posse(&[&["run", "--model", "scripted/script.yaml"], args].concat()).exits(0);
        done.stderr.lines().filter(|line| line.contains("max_orchestration_depth")).collect::<String>()
    };
    assert_eq!(
        told(&["/deep"]),
        "note: max-depth of the skill `deep` 9 is more than agent.max_orchestration_depth allows: 3 is used"
    );
    assert_eq!(told(&["--max-depth", "1", "/deep"]), "");
}

#[test]
fn commands_can_read_the_files_of_the_persons_skills_and_not_their_settings() {
    let home = furnished();
    home.write_settings("model: scripted/script.yaml\n");
    for folder in [".config/posse/skills/own", ".claude/skills/other"] {
        let name = folder.rsplit('/').next().expect("a name");
        home.write_own(
            &format!("{folder}/SKILL.md"),
            &format!("---\nname: {name}\ndescription: d\n---\nRun it.\n"),
        );
        home.write_own(&format!("{folder}/say.sh"), &format!("echo said-by-{name}\n"));
    }
    let call = "for f in ~/.config/posse/skills/own ~/.claude/skills/other; do bash $f/say.sh; done; \
                cat ~/.config/posse/settings.yaml ~/.config/posse/skills/digest.yaml && echo LEAKED; true";
    home.write(
        "script.yaml",
        &format!(
            "- when: {{turn: 1}}\n  reply: {{tool_calls: [{{name: bash, input: {{command: {}}}}}]}}\n- reply: {{text: Done.}}\n",
            json!(call)
        ),
    );
    let settings = home.project().join("script.yaml");
    let model = format!("scripted/{}", settings.display());
    let done = home.posse(&["run", "--json", "--model", &model, "Run them."]).exits(0);
    let events = home.posse(&["logs", "--json", &run_of(&done.result())]).exits(0).json_lines();
    let finished =
        events.iter().find(|event| event["kind"] == "agent.tool_finished").expect("a result").to_string();
    assert!(finished.contains("said-by-own") && finished.contains("said-by-other"), "{finished}");
    assert!(!finished.contains("LEAKED"), "{finished}");
}

#[test]
fn commands_of_a_run_in_a_part_of_a_project_read_its_skills_but_not_what_git_ignores_there() {
    let home = Home::new();
    let git = std::process::Command::new("git").args(["init", "-q"]).current_dir(home.project()).status();
    assert!(git.expect("git runs").success());
    home.write(".gitignore", ".env\n/.claude/skills/deploy/cache/\n/.posse/skills/\n");
    for folder in [".claude/skills/deploy", ".posse/skills/local"] {
        let name = folder.rsplit('/').next().expect("a name");
        let text = format!("---\nname: {name}\ndescription: d\n---\nRun it.\n");
        home.write(&format!("{folder}/SKILL.md"), &text);
        home.write(&format!("{folder}/say.sh"), &format!("echo said-by-{name}\n"));
    }
    home.write(".claude/skills/deploy/.env", "KEY=CANARY\n");
    home.write(".claude/skills/deploy/cache/token", "CANARY\n");
    let part = home.write("part/a.txt", "a\n").parent().expect("a folder").to_owned();
    let top = home.project().canonicalize().expect("a path");
    let call = format!(
        "cd {}; bash .claude/skills/deploy/say.sh; cat .claude/skills/deploy/.env \
         .claude/skills/deploy/cache/token .posse/skills/local/say.sh; true",
        top.display()
    );
    let script = json!([
        {"when": {"turn": 1}, "reply": {"tool_calls": [{"name": "bash", "input": {"command": call}}]}},
        {"reply": {"text": "Done."}},
    ]);
    home.write("../script.yaml", &script.to_string());
    let part = part.to_str().expect("UTF-8");
    let args = ["run", "--json", "--dir", part, "--model", "scripted/../script.yaml", "Run it."];
    let done = home.posse(&args).exits(0);
    let finished = done.json_lines().into_iter().find(|event| event["kind"] == "agent.tool_finished");
    let finished = finished.expect("a result").to_string();
    assert!(finished.contains("said-by-deploy"), "{finished}");
    assert!(!finished.contains("CANARY"), "{finished}");
    assert!(
        !finished.contains("said-by-local"),
        "a folder that git ignores is none of the project: {finished}"
    );
}
