//! Recorded runs, replayed without their model, here and elsewhere.

use std::fs;

use crate::replays::{Record, assert_replays, assert_same, replay};
use crate::support::{Done, Home, run_of};

/// A root that writes and asks two children, of which one writes too.
const TREE: &str = r#"
- when: {definition: coder, turn: 1}
  reply:
    text: I will write and ask.
    tool_calls:
      - {name: write, input: {path: notes.md, content: "one\n"}}
      - {name: task, input: {subagent_type: general, description: write, prompt: write}}
      - {name: task, input: {subagent_type: explore, description: look, prompt: look}}
- when: {definition: general, turn: 1}
  reply: {tool_calls: [{name: write, input: {path: more.md, content: "two\n"}}]}
- when: {definition: general}
  reply: {text: written}
- when: {definition: explore, turn: 1}
  reply: {tool_calls: [{name: grep, input: {pattern: canary}}, {name: list, input: {path: "."}}]}
- when: {definition: explore}
  reply: {text: looked}
- when: {turn: 2}
  reply: {tool_calls: [{name: read, input: {path: more.md}}]}
- reply: {text: all done}
"#;

/// A run that uses discovered definitions.
const FOUND: &str = r"
- when: {definition: coder, turn: 1}
  reply:
    tool_calls:
      - {name: skill, input: {name: ' /Used-Inline', arguments: unused-inline}}
      - {name: skill, input: {name: used-forked, arguments: it}}
      - {name: task, input: {subagent_type: used-agent, description: look, prompt: look}}
- when: {definition: coder}
  reply: {text: all done}
- reply: {text: done}
";

#[track_caller]
fn recorded(home: &Home, script: &str) -> String {
    home.write("script.yaml", script);
    let done = home.posse(&["run", "--json", "--model", "scripted/script.yaml", "do it"]).exits(0);
    run_of(&done.result())
}

#[test]
fn the_demo_is_repeated_event_by_event() {
    let home = Home::new();
    let done = home.posse(&["demo", "--fast"]).exits(0);
    let run = done.stderr.lines().find_map(|line| line.split_once(" completed: ")).expect("an end").0;
    assert_replays(&home, run.trim_start_matches("run "), 0);
}

#[test]
fn a_tree_that_writes_is_repeated_though_the_project_has_changed() {
    let home = Home::new();
    home.write("kept.txt", "a canary sings\n");
    home.write("ignored.log", "also there\n");
    home.write(".gitignore", "*.tmp\n");
    let run = recorded(&home, TREE);
    fs::remove_file(home.project().join("kept.txt")).expect("removed");
    home.write("script.yaml", "- reply: {text: another script}\n");
    assert_replays(&home, &run, 0);
    assert!(!home.project().join("notes.md").exists(), "nothing is written into the project");
}

#[test]
fn a_run_that_failed_and_one_whose_model_failed_are_repeated() {
    let home = Home::new();
    let script = "
- when: {definition: coder, turn: 1}
  reply: {tool_calls: [{name: task, input: {subagent_type: explore, description: look, prompt: look}}]}
- when: {definition: explore}
  error: {message: overloaded, status: 529}
- error: {message: gone}
";
    home.write("script.yaml", script);
    let done = home.posse(&["run", "--json", "--model", "scripted/script.yaml", "do it"]).exits(1);
    assert_replays(&home, &run_of(&done.result()), 1);
}

#[test]
fn messages_and_cancels_of_people_come_again() {
    const SCRIPT: &str = r"
- when: {definition: coder, turn: 1}
  reply: {tool_calls: [{name: task, input: {subagent_type: explore, description: look, prompt: look}}]}
- when: {definition: explore}
  reply: {text: found}
  latency_ms: 3600000
- when: {contains: look in b.rs}
  reply: {text: I was told to look in b.rs.}
- reply: {text: nobody told me anything}
";
    let home = Home::new();
    home.write("script.yaml", SCRIPT);
    let mut going = home.start(&["run", "--json", "--model", "scripted/script.yaml", "look"]);
    let run = run_of(&going.until_event(".1", "agent.model_called"));
    home.posse(&["send", &run, "look", "in", "b.rs"]).exits(0);
    going.until_event("", "agent.message_received");
    home.posse(&["cancel", &format!("{run}.1")]).exits(0);
    going.finish().exits(0);
    assert_replays(&home, &run, 0);
}

#[test]
fn a_persons_answers_come_again() {
    const SCRIPT: &str = r#"
- when: {turn: 1}
  reply: {tool_calls: [{name: list, input: {path: "."}}]}
- reply: {text: done}
"#;
    let home = Home::new();
    home.write("script.yaml", SCRIPT);
    let args = [
        "run",
        "--json",
        "--on-ask",
        "escalate",
        "--ask",
        "list",
        "--model",
        "scripted/script.yaml",
        "do it",
    ];
    let mut going = home.start(&args);
    let run = run_of(&going.until_event("", "agent.input_requested"));
    home.posse(&["approve", "--yes", &run]).exits(0);
    going.finish().exits(0);
    assert_replays(&home, &run, 0);
}

#[test]
fn a_run_that_was_killed_and_resumed_is_repeated_as_if_it_had_not_been() {
    let home = Home::new();
    let slow = "
- when: {definition: coder, turn: 1}
  reply: {tool_calls: [{name: task, input: {subagent_type: explore, description: look, prompt: look}}]}
- when: {definition: explore}
  reply: {text: found}
  latency_ms: 3600000
- reply: {text: done}
";
    home.write("script.yaml", slow);
    let mut going = home.start(&["run", "--json", "--model", "scripted/script.yaml", "look"]);
    let run = run_of(&going.until_event(".1", "agent.model_called"));
    going.kill();
    home.write("script.yaml", &slow.replace("3600000", "0"));
    home.posse(&["resume", "--json", &run]).exits(0);
    let (again, done) = replay(&home, &run, 0);
    assert_eq!(done.result()["text"], "done");
    let (recorded, again) = (Record::of(&home, &run), Record::of(&home, &again));
    let calls = |record: &Record| record.of_kind("agent.model_called").count();
    assert_eq!((calls(&recorded), calls(&again)), (4, 3), "the call that was cut off is not made");
    assert_same(&recorded, &again);
}

/// Every other story relies on it.
#[test]
fn a_run_that_is_not_the_same_again_fails_its_story() {
    const SCRIPT: &str = r"
- when: {turn: 1}
  reply: {tool_calls: [{name: bash, input: {command: echo $RANDOM$RANDOM$RANDOM}}]}
- reply: {text: done}
";
    let home = Home::new();
    let run = recorded(&home, SCRIPT);
    let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| drop(home)));
    let said = *ended.expect_err("it fails").downcast::<String>().expect("a text");
    assert!(said.starts_with("replays differ") && said.contains(&format!("run {run}: event ")), "{said}");
    assert!(said.contains("(agent.tool_finished).output:\n- "), "{said}");
}

#[test]
fn a_bundle_replays_in_another_home_with_its_source_gone() {
    let expected;
    let bundle;
    let elsewhere = Home::new();
    {
        let home = Home::new();
        home.write("kept.txt", "a canary sings\n");
        home.write("deep/down/link-target.txt", "x\n");
        std::os::unix::fs::symlink("deep/down/link-target.txt", home.project().join("link")).expect("a link");
        let run = recorded(&home, TREE);
        expected = Record::of(&home, &run);
        let done = home.posse(&["export", &run, "--json"]).exits(0).json();
        assert_eq!((&done["version"], &done["secrets"]), (&1.into(), &0.into()), "{done}");
        assert_eq!(done["files"], 4, "script, two files and a link");
        bundle = elsewhere.project().join("bug.posse");
        fs::copy(home.project().join(format!("{run}.posse")), &bundle).expect("copied");
    }
    let done = elsewhere.posse(&["run", "--json", "--model", "replay/bug.posse"]).exits(0);
    let again = run_of(&done.result());
    assert_same(&expected, &Record::of(&elsewhere, &again));
    assert_eq!(elsewhere.result_file(&again, "more.md").as_deref(), Some("two\n"));
    let background = elsewhere.posse(&["run", "-d", "--model", "replay/bug.posse"]).exits(0);
    elsewhere.posse(&["wait", background.stdout.trim()]).exits(0);
}

#[test]
fn keys_are_not_in_a_bundle_and_it_replays_without_them() {
    const KEY: &str = "canary-0a1b2c3d4e5f";
    const TOKEN: &str = "ghp_A1b2C3d4E5f6G7h8I9j0K1l2M3n4O5p6Q7r8";
    let home = Home::new();
    home.write("config.txt", &format!("canary key = {KEY}\ntoken = {TOKEN}\n"));
    let run = recorded(&home, TREE);
    let mut command = home.command(&["export", &run, "-o", "out.posse"]);
    command.env("SOME_API_KEY", KEY);
    let done = Done::of(command).exits(0);
    assert!(done.stderr.contains("replaced by a mark: "), "{}", done.stderr);
    assert!(done.stderr.contains("file config.txt: a GitHub token, a key of yours"), "{}", done.stderr);
    let unpacked = unpacked(&home, "out.posse");
    assert!(unpacked.contains("canary key = [secret left out**]"), "the rest is there");
    assert!(!unpacked.contains(KEY) && !unpacked.contains(TOKEN), "{unpacked}");
    let done = home.posse(&["run", "--json", "--model", "replay/out.posse"]).exits(0);
    assert!(done.stderr.contains("secrets were removed from this bundle"), "{}", done.stderr);
    assert_eq!(done.result()["text"], "all done");
}

/// The unpacked text of a bundle.
fn unpacked(home: &Home, bundle: &str) -> String {
    let packed = fs::File::open(home.project().join(bundle)).expect("a bundle");
    let mut unpacked = std::process::Command::new("gzip");
    let unpacked = unpacked.arg("-dc").stdin(packed).output().expect("gzip runs").stdout;
    String::from_utf8(unpacked).expect("text")
}

#[test]
fn texts_of_the_machine_that_a_run_did_not_use_are_not_in_its_bundle() {
    let home = Home::new();
    for name in ["used", "unused"] {
        let agent = format!(
            "---\nname: {name}-agent\ndescription: An agent.\ntools: Read\n---\nThe {name} canary.\n"
        );
        home.write_own(&format!(".claude/agents/{name}-agent.md"), &agent);
        for (skill, form) in [("inline", ""), ("forked", "context: fork\n")] {
            let text =
                format!("---\nname: {name}-{skill}\ndescription: A skill.\n{form}---\nThe {name} canary.\n");
            home.write_own(&format!(".claude/skills/{name}-{skill}/SKILL.md"), &text);
        }
    }
    let run = recorded(&home, FOUND);
    let done = home.posse(&["export", &run, "-o", "out.posse"]).exits(0);
    let told = "omitted: the texts of 1 agent and 2 skills of this machine that the run did not use";
    assert!(done.stderr.contains(told), "{}", done.stderr);
    let unpacked = unpacked(&home, "out.posse");
    assert!(unpacked.contains("The used canary.") && !unpacked.contains("The unused canary."), "{unpacked}");
    let done = home.posse(&["run", "--json", "--model", "replay/out.posse"]).exits(0);
    assert!(!done.stderr.contains("left out of this bundle"), "no secret was: {}", done.stderr);
    assert_eq!(done.result()["text"], "all done");
}

#[test]
fn a_skill_that_a_run_was_refused_is_not_in_its_bundle() {
    let home = Home::new();
    home.write_own(
        ".claude/skills/mine/SKILL.md",
        "---\nname: mine\ndescription: d\n---\nThe refused canary.\n",
    );
    home.write(
        "script.yaml",
        "- when: {turn: 1}\n  reply: {tool_calls: [{name: skill, input: {name: mine}}]}\n- reply: {text: done}\n",
    );
    let args = ["run", "--json", "--model", "scripted/script.yaml", "--ask", "skill:mine", "do it"];
    let run = run_of(&home.posse(&args).exits(0).result());
    home.posse(&["export", &run, "-o", "out.posse"]).exits(0);
    assert!(!unpacked(&home, "out.posse").contains("The refused canary."));
}

#[test]
fn one_of_a_thing_is_told_as_one() {
    let home = Home::new();
    home.write("token.txt", "glpat-A1b2C3d4E5f6G7h8I9j0\n");
    let run = recorded(&home, "- reply: {text: done}\n");
    let done = home.posse(&["export", &run]).exits(0);
    assert!(done.stderr.contains("replaced by a mark: 1 secret."), "{}", done.stderr);
    assert!(done.stderr.contains("2 files it began with"), "script and token: {}", done.stderr);
    assert!(done.stderr.contains("file token.txt: a GitLab token"), "{}", done.stderr);
}

#[test]
fn an_existing_file_is_replaced_only_by_force_and_nothing_is_left_beside_it() {
    let home = Home::new();
    let run = recorded(&home, "- reply: {text: done}\n");
    let path = home.write("out.posse", "mine");
    let done = home.posse(&["export", &run, "-o", "out.posse"]).exits(1);
    assert!(done.stderr.contains("the file exists already"), "{}", done.stderr);
    assert!(done.stderr.contains("`--force` replaces it"), "{}", done.stderr);
    let done = home.posse(&["export", &run, "-o", "nowhere/out.posse"]).exits(1);
    assert!(done.stderr.contains("nowhere does not exist"), "{}", done.stderr);
    assert!(
        done.stderr.contains("no file was written") && !done.stderr.contains("--force"),
        "{}",
        done.stderr
    );
    assert_eq!(fs::read_to_string(&path).expect("the file"), "mine");
    home.posse(&["export", &run, "-o", "out.posse", "--force"]).exits(0);
    home.posse(&["run", "--model", "replay/out.posse"]).exits(0);
    let names = fs::read_dir(home.project()).expect("a folder").flatten();
    let names = names.map(|entry| entry.file_name().into_string().expect("UTF-8"));
    let unfinished: Vec<String> = names.filter(|name| name.contains("unfinished")).collect();
    assert_eq!(unfinished, Vec::<String>::new());
    home.posse(&["export", &run, "-o", "out.zip"]).exits(2);
}

#[test]
fn what_cannot_be_replayed_says_why() {
    let home = Home::new();
    let run = recorded(&home, "- reply: {text: done}\n");
    let model = format!("replay/{run}");
    let refused = |args: &[&str], said: &str| {
        let done = home.posse(args).exits(2);
        assert!(done.stderr.contains(said), "no {said:?} in {}", done.stderr);
    };
    refused(&["run", "--model", &model, "something", "else"], "had another request");
    refused(
        &["run", "--model", &model, "--max-turns", "3"],
        "--max-turns: a replay takes its terms and files",
    );
    refused(&["run", "--model", "replay/zzzzzzzz"], "there is no run `zzzzzzzz`");
    refused(&["run", "--model", "replay/"], "write `replay/<run>`");
    refused(&["run", "--model", "replay/none.posse"], "none.posse: no such file");
    home.write("broken.posse", "not a bundle");
    refused(&["run", "--model", "replay/broken.posse"], "broken.posse is damaged at line 1: ");
    home.posse(&["run", "--model", &model, "do", "it"]).exits(0);
}

/// The recorded script is part of the run's base; its current content is not used. But the journal is compared.
#[test]
fn a_request_that_differs_is_shown() {
    let home = Home::new();
    home.write("kept.txt", "as it was\n");
    let script = r"
- when: {turn: 1}
  reply: {tool_calls: [{name: read, input: {path: kept.txt}}]}
- reply: {text: done}
";
    home.write("script.yaml", script);
    let args = ["run", "--json", "--agent", "explore", "--model", "scripted/script.yaml", "do it"];
    let run = run_of(&home.posse(&args).exits(0).result());
    assert_replays(&home, &run, 0);
    home.write("kept.txt", "as it is\n");
    let done = home.posse(&["run", "--model", &format!("replay/{run}")]).exits(6);
    for said in [
        "note: run ".to_owned() + &run + " has no files of its own: ",
        format!(
            "the replay is not the recorded run {run}: turn 2 of agent 0 (explore) asks for something else"
        ),
        "message 3 of the conversation differs: the result of `read` (- recorded, + now):".to_owned(),
        "as it was".to_owned(),
        "as it is".to_owned(),
    ] {
        assert!(done.stderr.contains(&said), "no {said:?} in {}", done.stderr);
    }
    let replay = home.posse(&["ps", "--json", "-n", "1"]).exits(0).json()["run"].clone();
    home.posse(&["wait", replay.as_str().expect("an id")]).exits(6);
}
