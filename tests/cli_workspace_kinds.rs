//! Workspaces as overlays and as copies: what an agent notices of the difference.

use posse_testkit::workspace_kind;
use serde_json::{Value, json};

use crate::replays::Record;
use crate::support::{Done, Home, ORDINARY_USER, run_of};

/// The beginning of what a result says about a directory that could not be renamed.
const HINT: &str = "a directory that was there at the start cannot be renamed in this workspace";
/// Commands, and whether each fails in an overlay in which directories of the project cannot be renamed.
const COMMANDS: [(&str, bool); 5] = [
    ("git mv one two", true),
    ("python3 -c 'import os; os.rename(\"one\", \"three\")'", true),
    ("echo 'Invalid cross-device link'; git add -A 2>&1", false),
    ("mv one four && git add -A && git mv four five && ls", false),
    ("echo 'EXDEV: cross-device link not permitted, rename'; exit 1", true),
];

fn outputs(home: &Home) -> Vec<String> {
    outputs_of(home, &COMMANDS.map(|(command, _)| command))
}

/// The results of commands, of a root agent that runs one in each turn.
fn outputs_of(home: &Home, commands: &[&str]) -> Vec<String> {
    let mut rules: Vec<Value> = Vec::new();
    for (turn, command) in commands.iter().enumerate() {
        let call = json!({"name": "bash", "input": {"command": command}});
        rules.push(json!({"when": {"turn": turn + 1}, "reply": {"text": "next", "tool_calls": [call]}}));
    }
    rules.push(json!({"when": {}, "reply": {"text": "all done"}}));
    // JSON is YAML.
    home.write("../script.yaml", &Value::from(rules).to_string());
    let done: Done = home.posse(&["run", "--json", "--model", "scripted/../script.yaml", "do it"]).exits(0);
    let finished = done.json_lines().into_iter().filter(|event| event["kind"] == "agent.tool_finished");
    finished.map(|event| event["detail"]["output"].as_str().expect("an output").to_owned()).collect()
}

fn project(kind: &str) -> Home {
    let home = Home::new();
    home.write("one/file", "content\n");
    home.set(workspace_kind::VARIABLE, kind);
    home
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

#[test]
fn shared_files_that_were_changed_are_laid_out_again_and_the_run_says_so() {
    let home = project("auto");
    let script = json!([
        {"when": {"turn": 1}, "reply": {"text": "look", "tool_calls": [{"name": "bash", "input": {"command": "ls one"}}]}},
        {"when": {}, "reply": {"text": "all done"}},
    ]);
    home.write("../script.yaml", &script.to_string());
    let run = ["run", "--model", "scripted/../script.yaml", "do it"];
    home.posse(&run).exits(0);
    let bases = |dir: std::path::PathBuf| -> Vec<std::path::PathBuf> {
        std::fs::read_dir(dir).into_iter().flatten().map(|entry| entry.expect("an entry").path()).collect()
    };
    let projects = bases(home.state_dir().join("projects"));
    let boots = projects.into_iter().flat_map(|project| bases(project.join("bases")));
    let states: Vec<_> = boots.flat_map(&bases).filter(|state| state.join("made").exists()).collect();
    let [state] = &states[..] else {
        assert!(states.is_empty(), "{states:?}");
        println!("left out: this system has no overlays");
        return;
    };
    home.not_replayed("another program changes the shared files of the second run only");
    std::fs::write(state.join("files/one/planted"), "by another program").expect("written");
    let second = home.posse(&run).exits(0);
    assert!(second.stderr.contains("note: workspace of "), "{}", second.stderr);
    assert!(second.stderr.contains("were changed after Posse laid them out (one)"), "{}", second.stderr);
    let trace = home.posse(&["trace", "--json", "@"]).exits(0);
    assert!(!trace.stdout.contains("planted"), "{}", trace.stdout);
    let third = home.posse(&run).exits(0);
    assert!(!third.stderr.contains("note: workspace of "), "{}", third.stderr);
}

/// A run with a large project says once why its workspaces are copies; one with a small project, or with copies that were
/// requested, has nothing to say.
#[test]
fn a_run_whose_workspaces_have_to_be_copies_says_why() {
    let script = json!([
        {"when": {"agent": "*.1", "turn": 1}, "reply": {"tool_calls": [{"name": "write", "input": {"path": "a", "content": "a"}}]}},
        {"when": {"turn": 1}, "reply": {"tool_calls": [
            {"name": "task", "input": {"subagent_type": "general", "description": "a", "prompt": "a", "owns": ["a"]}},
            {"name": "write", "input": {"path": "b", "content": "b"}},
        ]}},
        {"when": {}, "reply": {"text": "all done"}},
    ]);
    let said = |kind: &str, files: usize| {
        let home = project(kind);
        home.not_replayed("its note is about the machine, and other stories replay the same");
        home.write_settings("sandbox: {level: landlock}\n");
        for number in 0..files {
            home.write(&format!("many/{number}"), "");
        }
        home.write("../script.yaml", &script.to_string());
        home.without_namespaces(&["run", "--model", "scripted/../script.yaml", "do it"]).exits(0).stderr
    };
    let note = "a copy of all 1101 files, because no overlay can be mounted: ";
    let large = said("auto", 1_100);
    assert_eq!(large.matches(note).count(), 1, "{large}");
    for (kind, files) in [("copies", 1_100), ("auto", 10)] {
        let said = said(kind, files);
        assert!(!said.contains("no overlay can be mounted"), "{kind}, {files} files: {said}");
    }
}

/// Kernels before 5.2 cannot mount in this way, and those before 5.6 cannot open a file safely.
#[test]
fn an_older_kernel_has_copies_and_one_that_is_too_old_is_named() {
    let home = project("auto");
    home.not_replayed("it runs as on another kernel");
    let script = json!([
        {"when": {"turn": 1}, "reply": {"tool_calls": [{"name": "write", "input": {"path": "a", "content": "a"}}]}},
        {"when": {}, "reply": {"text": "all done"}},
    ]);
    home.write("../script.yaml", &script.to_string());
    let run = ["run", "--model", "scripted/../script.yaml", "do it"];
    let copied = home.without_calls("fsopen,fsmount,move_mount,open_tree,mount_setattr", &run).exits(0);
    assert!(copied.stdout.contains("all done"), "{copied:?}");
    assert!(home.posse(&["diff", "--stat", "@"]).exits(0).stdout.contains("1 file changed"));
    let refused = home.without_calls("openat2", &run).exits(1);
    assert!(refused.stderr.contains("needs Linux 5.6 or newer"), "{refused:?}");
}

#[test]
fn a_command_of_an_ordinary_user_that_could_not_rename_a_directory_says_what_to_do() {
    let home = project("auto");
    if is_root() {
        home.give_to(ORDINARY_USER);
    }
    let outputs = outputs(&home);
    for (output, (command, fails)) in outputs.iter().zip(COMMANDS) {
        assert_eq!(output.contains(HINT), fails, "{command}: {output}");
        assert_eq!(output.contains("[exit code 0]"), !fails, "{command}: {output}");
    }
    assert!(outputs[0].ends_with("use `mv`, which copies it, and then `git add -A`]"), "{}", outputs[0]);
    assert!(outputs[3].contains("five"), "{}", outputs[3]);
}

#[test]
fn nothing_is_said_about_directories_where_they_can_be_renamed() {
    // Root's overlays, and everybody's copies.
    let kinds = if is_root() { &["auto", "copies"][..] } else { &["copies"] };
    for kind in kinds {
        let outputs = outputs(&project(kind));
        assert!(outputs[0].starts_with("[exit code 0]"), "{kind}: {outputs:#?}");
        assert!(outputs[4].ends_with("[exit code 1]"), "{kind}: {outputs:#?}");
        assert!(!outputs.iter().any(|output| output.contains(HINT)), "{kind}: {outputs:#?}");
    }
}

/// The kernel records the old path of a directory that root renames, up to a length.
#[test]
fn a_directory_of_root_with_a_long_path_is_renamed_by_mv_and_the_result_says_so() {
    if !is_root() {
        return;
    }
    let home = project("auto");
    let long = ["a-directory-with-a-name-of-some-length"; 8].join("/");
    home.write(&format!("{long}/file"), "content\n");
    let rename = format!("git mv {long} one/moved");
    let moved = format!("mv {long} one/moved && git add -A && cat one/moved/file");
    let outputs = outputs_of(&home, &[&rename, &moved]);
    assert!(
        outputs[0].contains(
            "cannot be moved to another directory in this workspace if its path is longer than 256 bytes"
        ),
        "{outputs:#?}"
    );
    assert!(outputs[1].starts_with("content\n[exit code 0]"), "{outputs:#?}");
}

/// Two writers whose work is merged, one with a check; one whose work conflicts with its parent's; one that fails, whose
/// work is salvaged.
const SCRIPT: &str = r##"
- when: {definition: coder, turn: 1}
  reply:
    tool_calls:
      - {name: task, input: {subagent_type: general, description: left, prompt: "left", owns: ["left/**", "gone/**"]}}
      - name: task
        input:
          subagent_type: general
          description: right
          prompt: "right"
          owns: ["right/**"]
          success_criteria: [{command: "test -x right/run && test -e left/a && echo noise > left/noise"}]
- when: {agent: "*.1", turn: 1}
  reply:
    tool_calls:
      - name: bash
        input:
          command: |-
            echo more >> left/a && rm -r gone && mkdir -p left/new/deep && mv left/b left/new/b
            ln -s ../a left/new/link && chmod 755 left/c && echo x > left/note.log && git status --short && ls -A
- when: {agent: "*.2", turn: 1}
  reply:
    tool_calls:
      - {name: write, input: {path: right/run, content: "#!/bin/sh\n"}}
      - {name: bash, input: {command: "chmod 755 right/run; mkdir right/empty; git add -A; git commit -qm mine; git log --format=%s"}}
- when: {definition: coder, turn: 2}
  reply:
    tool_calls:
      - {name: task, input: {subagent_type: general, description: conflict, prompt: "conflict", run_in_background: true}}
- when: {agent: "*.3", turn: 1}
  reply: {tool_calls: [{name: write, input: {path: c.txt, content: "the child's\n"}}]}
- when: {agent: "*.3"}
  reply: {text: I wrote it.}
  latency_ms: 2000
- when: {definition: coder, turn: 3}
  reply: {tool_calls: [{name: write, input: {path: c.txt, content: "the parent's\n"}}]}
- when: {definition: coder, turn: 4}
  reply:
    tool_calls:
      # Without `owns` it begins when no other child writes.
      - {name: task, input: {subagent_type: general, description: fail, prompt: "fail"}}
- when: {agent: "*.4", turn: 1}
  reply:
    tool_calls:
      - {name: write, input: {path: lost/work, content: "work\n"}}
      - {name: write, input: {path: lost/note.log, content: "noise\n"}}
- when: {agent: "*.4"}
  error: {status: 400, message: no more}
- when: {definition: general}
  reply: {text: "# Done\n"}
- when: {definition: coder}
  reply: {text: All is done.}
"##;

/// What a run left: its events, its result, and what was kept of its agents.
struct KindOutcome {
    record: Record,
    /// Its diff, those of its children, and what is salvaged.
    printed: Vec<String>,
}

fn left_by(kind: &str) -> KindOutcome {
    let home = Home::new();
    home.not_replayed("its kind of workspaces is compared, and other stories are replayed");
    home.set(workspace_kind::VARIABLE, kind);
    for name in ["left/a", "left/b", "left/c", "gone/x", "gone/y/z", "right/r"] {
        home.write(name, &format!("{name}\n"));
    }
    home.write(".gitignore", "*.log\n");
    home.write("../script.yaml", SCRIPT);
    let done = home.posse(&["run", "--json", "--model", "scripted/../script.yaml", "do it"]).exits(0);
    let run = run_of(&done.result());
    let diff = |child: Option<&str>| {
        let args: Vec<&str> = ["diff", run.as_str()].into_iter().chain(child).collect();
        home.posse(&args).exits(0).stdout
    };
    let mut printed = [None, Some("1"), Some("2"), Some("3"), Some("4")].map(diff).to_vec();
    let salvaged = home.posse(&["salvage", "--json", &run]).exits(0).json_lines().into_iter().map(|line| {
        let (agent, has_git) = (line["agent"].to_string().replace(&run, ""), !line["git"].is_null());
        format!("{agent} {} {} {} {has_git}", line["attempt"], line["files"], line["left_out"])
    });
    // In the order in which the agents ended.
    let mut salvaged: Vec<String> = salvaged.collect();
    salvaged.sort();
    printed.extend(salvaged);
    KindOutcome { record: Record::of(&home, &run), printed }
}

#[test]
fn a_run_has_the_same_events_the_same_tree_and_the_same_diff_over_overlays_and_over_copies() {
    let (overlays, copies) = std::thread::scope(|scope| {
        let copies = scope.spawn(|| left_by("copies"));
        (left_by("auto"), copies.join().expect("no panic"))
    });
    let codes: Vec<&str> = overlays
        .record
        .of_kind("agent.integration_failed")
        .filter_map(|event| event["detail"]["code"].as_str())
        .collect();
    assert_eq!(codes, ["INTEGRATION_CONFLICT"], "the script does what it is for");
    for kind in ["agent.checks_passed", "agent.integration_passed", "agent.subagent_failed"] {
        assert!(overlays.record.of_kind(kind).next().is_some(), "{kind}");
    }
    assert_eq!(overlays.printed, copies.printed);
    assert!(overlays.printed[0].contains("left/new/link"), "{}", overlays.printed[0]);
    if let Some(difference) = overlays.record.difference(&copies.record) {
        panic!("the events differ (- overlays, + copies): {difference}");
    }
}

/// The files of a commit that all workspaces of the project share.
fn shared_file(home: &Home, path: &str) -> std::path::PathBuf {
    let projects = home.state_dir().join("projects");
    let below = |dir: std::path::PathBuf| {
        let mut entries = std::fs::read_dir(dir).expect("listed").flatten();
        entries.next().expect("an entry").path()
    };
    let boot = below(below(projects).join("bases"));
    below(boot).join("files").join(path)
}

#[test]
fn verify_finds_shared_files_that_another_program_changed_and_the_next_run_does_not_use_them() {
    let home = project("auto");
    home.write(
        "../script.yaml",
        "- when: {turn: 1}\n  reply: {tool_calls: [{name: bash, input: {command: cat one/file}}]}\n- reply: {text: done}\n",
    );
    let run = ["run", "--json", "--model", "scripted/../script.yaml", "x"];
    let id = run_of(&home.posse(&run).exits(0).json_lines()[0]);
    let verified = home.posse(&["verify", &id]).exits(0);
    assert!(verified.stdout.starts_with(&format!("run {id} is intact")), "{}", verified.stdout);
    std::fs::write(shared_file(&home, "one/file"), "changed\n").expect("written");
    for args in [["verify", &id], ["verify", "--all"]] {
        // The second call finds that the first one has set the files aside.
        let code = i32::from(args[1] == id);
        let verified = home.posse(&args).exits(code);
        let problem = "one/file was changed after Posse laid it out; the next run lays them out again";
        let found = verified.stdout.contains(problem);
        assert_eq!(found, code == 1, "{}", verified.stdout);
    }
    let again = home.posse(&run).exits(0);
    assert!(again.stdout.contains("content") && !again.stdout.contains("changed\\n"), "{}", again.stdout);
}
