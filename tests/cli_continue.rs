//! Runs that continue or retry earlier ones: `posse continue` and `posse retry`.

use std::fs;

use posse_testkit::mock::{Answer, MockReply, MockRequest};
use serde_json::json;

use crate::models_world::{MODELS, World};
use crate::support::{Home, run_of};

/// The root writes `a.txt`, and in a follow-up changes it.
const WRITER: &str = r#"
- when: {definition: coder, turn: 1, contains: "more of it"}
  reply: {tool_calls: [{name: bash, input: {command: "git status --short; echo two >> a.txt; echo new > b.txt"}}]}
- when: {definition: coder, turn: 1, contains: "not that"}
  reply: {tool_calls: [{name: bash, input: {command: "rm b.txt; echo three >> a.txt"}}]}
- when: {definition: coder, turn: 1}
  reply: {tool_calls: [{name: write, input: {path: a.txt, content: "one\n"}}]}
- when: {definition: coder}
  reply: {text: Done.}
"#;

const MODEL: [&str; 2] = ["--model", "scripted/../script.yaml"];

fn home(script: &str) -> Home {
    let home = Home::new();
    fs::write(home.project().with_file_name("script.yaml"), script).expect("a script");
    home.write("README.md", "# A project\n");
    home
}

/// Runs a verb with `--json`, and returns the id of the run that it started.
fn started(home: &Home, exit: i32, args: &[&str]) -> String {
    run_of(&home.posse(&[args, &["--json"]].concat()).exits(exit).result())
}

fn run(home: &Home, request: &str) -> String {
    started(home, 0, &["run", MODEL[0], MODEL[1], request])
}

fn text(home: &Home, path: &str) -> Option<String> {
    fs::read_to_string(home.project().join(path)).ok()
}

/// Removes the record of a run's files, without which Posse does not find them. The rest is not an ordinary user's to
/// remove.
fn forget_files(home: &Home, run: &str) {
    fs::remove_file(home.state_dir().join("runs").join(run).join("project.json")).expect("removed");
}

#[test]
fn a_follow_up_begins_with_the_files_of_the_run_and_their_changes_are_one() {
    let home = home(WRITER);
    let first = run(&home, "begin");
    let second = started(&home, 0, &["continue", &first, "more of it"]);
    let diff = home.posse(&["diff", "--stat", &second]).exits(0).stdout;
    assert!(diff.contains("a.txt | 2 ++") && diff.contains("b.txt | 1 +"), "{diff}");
    let journal = home.posse(&["logs", "--json", &second]).exits(0).json_lines();
    assert_eq!(journal[0]["detail"]["continues"]["agent"], json!(first));
    assert_eq!(journal[0]["detail"]["contract"]["parent"]["continues"], json!(first));
    let shown = home.posse(&["show", &second]).exits(0).stdout;
    assert!(shown.contains(&format!("\ncontinues {first}\n")), "{shown}");
    let (show, ps) = (home.posse(&["show", "--json", &second]), home.posse(&["ps", "--json", "-n1"]));
    for object in [show.exits(0).json(), ps.exits(0).json()] {
        assert_eq!((&object["continues"], object.get("retry")), (&json!(first), None), "{object}");
    }
    // Nothing was applied yet, so both changes arrive.
    home.posse(&["apply", &second]).exits(0);
    assert_eq!(text(&home, "a.txt").as_deref(), Some("one\ntwo\n"));
    assert_eq!(text(&home, "b.txt").as_deref(), Some("new\n"));
    home.posse(&["verify", &second]).exits(0);
}

#[test]
fn what_was_applied_and_edited_between_two_runs_of_a_chain_stays() {
    let home = home(WRITER);
    home.not_replayed("its chain of runs is replayed by the story before");
    let first = run(&home, "begin");
    home.posse(&["apply", &first]).exits(0);
    // The user's own line, above that of the run.
    home.write("a.txt", "mine\none\n");
    let second = started(&home, 0, &["continue", &first, "more of it"]);
    home.posse(&["apply", &second]).exits(0);
    assert_eq!(text(&home, "a.txt").as_deref(), Some("mine\none\ntwo\n"));
    let third = started(&home, 0, &["continue", &second, "not that"]);
    home.posse(&["apply", &third]).exits(0);
    assert_eq!(text(&home, "a.txt").as_deref(), Some("mine\none\ntwo\nthree\n"));
    assert_eq!(text(&home, "b.txt"), None, "what a later run undoes is undone");
    // A user who has undone everything gets everything.
    fs::remove_file(home.project().join("a.txt")).expect("removed");
    let again = started(&home, 0, &["continue", &third, "more of it"]);
    home.posse(&["apply", &again]).exits(0);
    assert_eq!(text(&home, "a.txt").as_deref(), Some("one\ntwo\nthree\ntwo\n"));
}

#[test]
fn the_earlier_run_can_be_removed() {
    let home = home(WRITER);
    home.not_replayed("the recorded run has been removed");
    let first = run(&home, "begin");
    let second = started(&home, 0, &["continue", &first, "more of it"]);
    forget_files(&home, &first);
    home.posse(&["diff", &second]).exits(0);
    let third = started(&home, 0, &["continue", &second, "not that"]);
    assert_eq!(home.result_file(&third, "a.txt").as_deref(), Some("one\ntwo\nthree\n"));
    // Its files are gone, which is said before anything starts.
    let refused = home.posse(&["continue", &first, "more of it"]).exits(2);
    assert!(
        refused.stderr.contains("are no longer kept, so that it cannot be continued"),
        "{}",
        refused.stderr
    );
}

/// Two children write a file each; one fails its check at first.
const CHILDREN: &str = r#"
- when: {definition: coder, turn: 1}
  reply:
    tool_calls:
      - {name: task, input: {subagent_type: general, description: left, prompt: "write left", owns: [left.txt]}}
      - {name: task, input: {subagent_type: general, description: right, prompt: "write right", owns: [right.txt]}}
- when: {definition: general, depth: 0, turn: 1, contains: "again"}
  reply: {tool_calls: [{name: bash, input: {command: "ls; echo more >> left.txt"}}]}
- when: {definition: general, turn: 1, contains: "write left"}
  reply: {tool_calls: [{name: write, input: {path: left.txt, content: "left\n"}}]}
- when: {definition: general, turn: 1, contains: "write right"}
  reply: {tool_calls: [{name: write, input: {path: right.txt, content: "right\n"}}]}
- reply: {text: Done.}
"#;

#[test]
fn a_child_is_continued_with_its_own_files_by_its_own_definition() {
    let home = home(CHILDREN);
    let run = run(&home, "both");
    let child = format!("{run}.1");
    let next = started(&home, 0, &["continue", &child, "write it again"]);
    let journal = home.posse(&["logs", "--json", &next]).exits(0).json_lines();
    assert_eq!(journal[0]["detail"]["definition"], "general");
    let files = |path: &str| home.result_file(&next, path);
    assert_eq!(files("left.txt").as_deref(), Some("left\nmore\n"));
    assert_eq!(files("right.txt"), None, "a child has not seen its sibling's work");
}

/// A child changes the first line of a file and fails its check; the root changes another file.
const REFUSED_CHILD: &str = r#"
- when: {definition: coder, turn: 1}
  reply:
    tool_calls:
      - {name: task, input: {subagent_type: general, description: first line, prompt: "change it",
         success_criteria: [{command: "false"}]}}
- when: {definition: coder, turn: 2}
  reply: {tool_calls: [{name: write, input: {path: other.txt, content: "other\n"}}]}
- when: {definition: general, depth: 0, turn: 1}
  reply: {tool_calls: [{name: write, input: {path: third.txt, content: "third\n"}}]}
- when: {definition: general, turn: 1}
  reply: {tool_calls: [{name: bash, input: {command: "sed -i 1s/.*/changed/ lines.txt"}}]}
- reply: {text: Done.}
"#;

#[test]
fn the_refused_work_of_a_child_is_applied_with_its_follow_up_beside_the_users_own() {
    let home = home(REFUSED_CHILD);
    home.not_replayed("its files are those of a folder that the user changes meanwhile");
    home.write("lines.txt", "1\n2\n3\n4\n5\n6\n7\n8\n9\n");
    let first = run(&home, "go");
    home.posse(&["apply", &first]).exits(0);
    assert_eq!(text(&home, "lines.txt").as_deref(), Some("1\n2\n3\n4\n5\n6\n7\n8\n9\n"));
    home.write("lines.txt", "1\n2\n3\n4\n5\n6\n7\n8\nmine\n");
    let next = started(&home, 0, &["continue", &format!("{first}.1"), "keep it"]);
    home.posse(&["apply", &next]).exits(0);
    assert_eq!(text(&home, "lines.txt").as_deref(), Some("changed\n2\n3\n4\n5\n6\n7\n8\nmine\n"));
    assert_eq!(text(&home, "third.txt").as_deref(), Some("third\n"));
}

#[test]
fn a_run_that_has_not_ended_is_not_continued_and_a_completed_one_is_not_retried() {
    let home = home("- reply: {text: Done.}\n");
    let run = run(&home, "go");
    let refused = home.posse(&["retry", &run]).exits(2);
    assert!(refused.stderr.contains(&format!("run {run} completed, so there is nothing to retry")));
    assert!(refused.stderr.contains(&format!("posse continue {run} MESSAGE")), "{}", refused.stderr);
    let waiting = self::home("- latency_ms: 3600000\n  reply: {text: Done.}\n");
    waiting.not_replayed("it is cancelled while its model has not replied");
    let mut going = waiting.start(&["run", "--json", MODEL[0], MODEL[1], "go"]);
    let run = run_of(&going.until_event("", "agent.model_called"));
    let refused = waiting.posse(&["continue", &run, "and now?"]).exits(1);
    assert!(refused.stderr.contains("has not ended"), "{}", refused.stderr);
    waiting.posse(&["cancel", &run]).exits(0);
    going.finish();
}

const PLAN: &str = r"
goal: three files
steps:
  - {title: one, description: write one, owns: [one.txt]}
  - {title: two, description: write two, owns: [two.txt], depends_on: [one],
     success_criteria: [{command: test -e allowed}]}
  - {title: three, description: write three, owns: [three.txt], depends_on: [two]}
";

const STEPS: &str = r#"
- when: {definition: general, turn: 1, contains: "write one"}
  reply: {tool_calls: [{name: write, input: {path: one.txt, content: "1\n"}}]}
- when: {definition: general, turn: 1, contains: "write two"}
  reply: {tool_calls: [{name: bash, input: {command: "ls; echo 2 > two.txt"}}]}
- when: {definition: general, turn: 1, contains: "write three"}
  reply: {tool_calls: [{name: write, input: {path: three.txt, content: "3\n"}}]}
- reply: {text: Done.}
"#;

#[test]
fn a_retried_plan_executes_only_the_steps_that_are_not_integrated() {
    let home = home(STEPS);
    home.write("plan.yaml", PLAN);
    let failed = started(&home, 1, &["run", MODEL[0], MODEL[1], "--plan", "plan.yaml"]);
    assert_eq!(home.result_file(&failed, "one.txt").as_deref(), Some("1\n"));
    // The check still fails: the new run ends like the first, without its first step.
    let again = started(&home, 1, &["retry", &failed]);
    let shown = home.posse(&["show", &again]).exits(0).stdout;
    assert!(shown.contains(&format!("\nretries {failed}\n")), "{shown}");
    let ps = home.posse(&["ps", "--json", "-n1"]).exits(0).json();
    assert_eq!((&ps["continues"], &ps["retry"]), (&json!(failed), &json!(true)), "{ps}");
    let titles = |run: &str| {
        let shown = home.posse(&["logs", "--json", run]).exits(0).json_lines();
        let created = shown.into_iter().filter(|event| event["kind"] == "agent.subagent_created");
        let title = |event: serde_json::Value| {
            event["detail"]["contract"]["step"]["title"].as_str().map(str::to_owned)
        };
        created.filter_map(title).collect::<Vec<_>>()
    };
    assert_eq!(titles(&again), ["two", "three"]);
    assert_eq!(home.result_file(&again, "one.txt").as_deref(), Some("1\n"));
    let step = started(&home, 1, &["retry", &format!("{failed}.2")]);
    assert_eq!(titles(&step), ["two"]);
}

/// A model that reads a file, and then reports.
fn talkative(asked: &MockRequest) -> Answer {
    match asked.turn() {
        1 => MockReply::text("The canary sings at dawn.").call("read", &json!({"path": "hello.txt"})),
        _ => MockReply::text("I have read it."),
    }
    .into()
}

#[test]
fn the_model_gets_the_whole_conversation_again_and_a_retry_says_why_it_stopped() {
    for (wire_format, model) in MODELS {
        let world = World::new(model, "", talkative);
        let first = run_of(&world.run(&["--json", "Find out about the file."]).exits(0).result());
        let before = world.mock.requests().len();
        let second =
            world.home.posse(&["continue", "--json", &first, "What did you find?"]).exits(0).result();
        let log = world.mock.requests();
        let sent = String::from_utf8_lossy(&log[before].body).into_owned();
        let order = [
            "Find out about the file.",
            "The canary sings at dawn.",
            "hello from the file",
            "I have read it.",
            "What did you find?",
        ];
        let places: Vec<Option<usize>> = order.iter().map(|text| sent.find(text)).collect();
        assert!(places.iter().all(Option::is_some) && places.is_sorted(), "{wire_format:?}: {places:?}");
        // A limit ends the next one; its retry has another limit, and the same conversation.
        let second = run_of(&second);
        let cut = world
            .home
            .posse(&["continue", "--json", "--max-turns", "1", &second, "Once more."])
            .exits(5)
            .result();
        let before = world.mock.requests().len();
        world.home.posse(&["retry", "--json", "--max-turns", "9", &run_of(&cut)]).exits(0);
        let sent = String::from_utf8_lossy(&world.mock.requests()[before].body).into_owned();
        for text in ["Once more.", "was stopped before it was complete (it reached its turn limit)"] {
            assert!(sent.contains(text), "{wire_format:?}: {text}");
        }
    }
}

#[test]
fn a_follow_up_that_is_killed_is_resumed_with_the_conversation() {
    let (_, model) = MODELS[0];
    let world = World::new(model, "", talkative);
    world.home.not_replayed("the moment of the kill is another one each time");
    let first = run_of(&world.run(&["--json", "Find out about the file."]).exits(0).result());
    let mut going = world.home.start(&["continue", "--json", &first, "What did you find?"]);
    let second = run_of(&going.until_event("", "agent.model_called"));
    going.kill();
    // The earlier run is not needed any more.
    forget_files(&world.home, &first);
    world.home.posse(&["resume", &second]).exits(0);
    let log = world.mock.requests();
    let sent = String::from_utf8_lossy(&log.last().expect("a request").body).into_owned();
    for text in ["Find out about the file.", "The canary sings at dawn.", "What did you find?"] {
        assert!(sent.contains(text), "{text}");
    }
    world.home.posse(&["verify", &second]).exits(0);
}
