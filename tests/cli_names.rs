//! One way to name runs and agents in every verb.

use crate::support::{Done, Home, run_of};

const SCRIPT: &str = "
- when: {definition: coder, turn: 1}
  reply: {tool_calls: [{name: task, input: {subagent_type: general, description: one, prompt: one}}]}
- when: {definition: general, turn: 1}
  reply: {tool_calls: [{name: write, input: {path: made.txt, content: made}}]}
- when: {definition: general}
  reply: {text: the child is done}
- reply: {text: the root is done}
";

fn run(home: &Home, dir: &str) -> String {
    let model = format!("scripted/{}", home.project().join("script.yaml").display());
    run_of(&home.posse(&["run", "--json", "--model", &model, "--dir", dir, "look"]).exits(0).result())
}

/// The command, typed in another directory.
fn typed_in(home: &Home, dir: &str, args: &[&str]) -> Done {
    let mut command = home.command(args);
    command.current_dir(home.project().join(dir));
    Done::of(command)
}

#[test]
fn every_verb_takes_every_form_of_a_name() {
    let home = Home::new();
    home.write("script.yaml", SCRIPT);
    let (older, run) = (run(&home, "."), run(&home, "."));
    let child = format!("{run}.1");
    // Reading verbs: the same run, by its id, as the newest of the project, and by default.
    for verb in ["show", "logs", "trace", "report", "diff", "salvage", "verify", "wait"] {
        let whole = home.posse(&[verb, &run]).exits(0).stdout;
        for args in [&[verb][..], &[verb, "@"], &[verb, &run[..6]], &[verb, "last"]] {
            assert_eq!(home.posse(args).exits(0).stdout, whole, "{args:?}");
        }
    }
    assert!(home.posse(&["show", "@2"]).exits(0).stdout.contains(&older));
    // An agent, by all forms.
    for verb in ["show", "logs", "trace", "report", "diff", "salvage", "wait"] {
        let whole = home.posse(&[verb, &child]).exits(0).stdout;
        // All changes of the run are those of the child.
        let is_other = whole != home.posse(&[verb, &run]).exits(0).stdout;
        assert_eq!(is_other, !["diff", "salvage"].contains(&verb), "{verb}");
        for args in [&[verb, &run, "1"][..], &[verb, "@.1"], &[verb, "@", "1"], &[verb, &run, &child]] {
            assert_eq!(home.posse(args).exits(0).stdout, whole, "{args:?}");
        }
    }
    let of_child = home.posse(&["show", "@.1", "--json"]).exits(0).json();
    assert_eq!(of_child["agents"].as_array().map(Vec::len), Some(1), "{of_child}");
    assert_eq!(of_child["agents"][0]["id"], child.as_str());
    let explained = home.posse(&["explain", &child, "write:x"]).exits(0).stdout;
    for args in [&["explain", "@", "1", "write:x"][..], &["explain", "@.1", "write:x"]] {
        assert_eq!(home.posse(args).exits(0).stdout, explained, "{args:?}");
    }
    home.posse(&["explain", "write:x"]).exits(0);
}

#[test]
fn a_verb_that_changes_something_needs_a_name() {
    let home = Home::new();
    home.write("script.yaml", SCRIPT);
    run(&home, ".");
    for verb in ["cancel", "kill", "rm", "apply"] {
        let refused = home.posse(&[verb]).exits(2).stderr;
        assert!(refused.contains("<RUN>"), "{verb}: {refused}");
    }
    home.posse(&["apply", "@"]).exits(0);
    assert!(home.project().join("made.txt").exists());
}

#[test]
fn the_newest_run_is_that_of_the_project() {
    let home = Home::new();
    home.write("script.yaml", SCRIPT);
    for dir in ["one/.git/objects", "one/.git/refs", "one/sub", "two"] {
        std::fs::create_dir_all(home.project().join(dir)).expect("a folder");
    }
    std::fs::write(home.project().join("one/.git/HEAD"), "ref: refs/heads/main\n").expect("a file");
    let of_two = run(&home, "two");
    let none = typed_in(&home, "one", &["show"]).exits(2).stderr;
    assert!(none.contains("there are no runs in ") && none.contains(&of_two), "{none}");
    let of_one = run(&home, "one");
    let newest = run(&home, "two");
    for dir in ["one", "one/sub"] {
        assert!(typed_in(&home, dir, &["show"]).exits(0).stdout.contains(&of_one), "{dir}");
    }
    assert!(typed_in(&home, "two", &["show", "@2"]).exits(0).stdout.contains(&of_two));
    assert!(typed_in(&home, "one", &["show", "last"]).exits(0).stdout.contains(&newest));
    let only = typed_in(&home, "one", &["show", "@3"]).exits(2).stderr;
    assert!(only.contains("there is only 1 run in "), "{only}");
    assert_eq!(typed_in(&home, "one", &["ps", "-q", "--dir", "sub"]).exits(0).stdout, format!("{of_one}\n"));
    // What is near in this project is named before what is near elsewhere.
    let unknown = typed_in(&home, "one", &["show", "zzzz"]).exits(2).stderr;
    assert!(unknown.contains(&format!("the only run of this project is {of_one}")), "{unknown}");
    let mut near = of_one.clone();
    near.replace_range(7..8, if of_one.ends_with('0') { "1" } else { "0" });
    let unknown = typed_in(&home, "one", &["show", &near]).exits(2).stderr;
    assert!(unknown.contains(&format!("did you mean {of_one}?")), "{unknown}");
}

#[test]
fn an_agent_that_does_not_exist_is_answered_with_those_that_do() {
    let home = Home::new();
    home.write("script.yaml", SCRIPT);
    let run = run(&home, ".");
    for args in
        [&["trace", "@.99"][..], &["report", &run, "99"], &["logs", "--agent", "7"], &["show", "@", "1.1"]]
    {
        let refused = home.posse(args).exits(2).stderr;
        assert!(refused.contains(&format!("run {run} has 1; `posse show {run}`")), "{args:?}: {refused}");
    }
    let refused = home.posse(&["logs", &run, "--agent", "zz"]).exits(2).stderr;
    assert!(refused.contains("an agent of a run is named by its numbers"), "{refused}");
    let refused = home.posse(&["trace", "@.1", "1"]).exits(2).stderr;
    assert!(refused.contains("`@.1` is already the name of an agent"), "{refused}");
    let refused = home.posse(&["verify", "@.1"]).exits(2).stderr;
    assert!(refused.contains("that is an agent; its run is `@`"), "{refused}");
}
