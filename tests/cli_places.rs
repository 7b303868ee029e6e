//! Where a run works, what it gets from there, and what is passed to it: directories, keys, standard input, short names.

use std::fs;
use std::io::Write;
use std::process::{Command, Stdio};

use crate::support::{Done, Home, run_of};

const DONE: &str = "- reply: {text: done}\n";

fn git(home: &Home, args: &[&str]) {
    let mut git = Command::new("git");
    git.args(["-c", "user.name=A", "-c", "user.email=a@b", "-c", "init.defaultBranch=main"]).args(args);
    assert!(git.current_dir(home.project()).stdout(Stdio::null()).status().expect("git runs").success());
}

/// The command in another directory.
fn typed_in(home: &Home, dir: &std::path::Path, args: &[&str]) -> Done {
    let mut command = home.command(args);
    command.current_dir(dir);
    Done::of(command)
}

#[test]
fn a_run_below_the_top_of_a_repository_works_from_the_top() {
    let home = Home::new();
    home.write("src/main.rs", "fn main() {}\n");
    home.write("README.md", "read me\n");
    git(&home, &["init", "--quiet"]);
    git(&home, &["add", "--all"]);
    git(&home, &["commit", "--quiet", "--message=first"]);
    let script = "
- when: {turn: 1}
  reply: {tool_calls: [{name: read, input: {path: README.md}}, {name: write, input: {path: src/new.rs, content: x}}]}
- reply: {text: done}
";
    let script = home.write_own("script.yaml", script);
    let model = format!("scripted/{}", script.display());
    let src = home.project().join("src");
    let done = typed_in(&home, &src, &["run", "--json", "--model", &model, "look at main.rs"]).exits(0);
    let run = run_of(&done.result());
    let entry = home.posse(&["ps", "--json"]).exits(0).json();
    assert_eq!(entry["dir"], fs::canonicalize(home.project()).expect("a path").to_str().expect("UTF-8"));
    assert_eq!(entry["request"], "look at main.rs");
    assert!(done.stdout.contains("read me"), "the file above was read");
    let trace = typed_in(&home, &src, &["trace"]).exits(0).stdout;
    assert!(trace.contains("The user is in the directory `src` of the workspace"), "{trace}");
    assert_eq!(home.result_file(&run, "src/new.rs").as_deref(), Some("x"));
    // A named directory is taken as it is.
    typed_in(&home, &src, &["run", "--model", &model, "--dir", ".", "look"]).exits(0);
    let entry = home.posse(&["ps", "--json", "-n", "1"]).exits(0).json();
    assert!(entry["dir"].as_str().is_some_and(|dir| dir.ends_with("/src")), "{entry}");
}

#[test]
fn a_run_in_the_home_or_at_the_root_has_to_be_named() {
    let home = Home::new();
    let script = home.write("script.yaml", DONE);
    let model = format!("scripted/{}", script.display());
    let own = fs::canonicalize(home.project().parent().expect("a home")).expect("a path");
    for (dir, what) in [(own.as_path(), "your home directory"), ("/".as_ref(), "the root of the filesystem")]
    {
        let refused = typed_in(&home, dir, &["run", "--model", &model, "look"]).exits(2).stderr;
        assert!(refused.contains(what) && refused.contains("--dir"), "{refused}");
        assert!(!home.state_dir().exists(), "nothing was started");
    }
}

#[test]
fn keys_stay_out_of_workspaces_unless_they_are_named() {
    let home = Home::new();
    home.not_replayed("a recording has no copied files");
    let script = "
- when: {turn: 1}
  reply: {tool_calls: [{name: bash, input: {command: 'cat .ssh/id_ed25519 deploy/id_rsa .netrc plain.txt 2>&1; true'}}]}
- reply: {text: done}
";
    home.write("../script.yaml", script);
    for path in [".ssh/id_ed25519", "deploy/id_rsa", ".netrc"] {
        home.write(path, "CANARY\n");
    }
    home.write("plain.txt", "plain text\n");
    let args = ["run", "--json", "--model", "scripted/../script.yaml", "look"];
    let done = home.posse(&args).exits(0);
    assert!(done.stdout.contains("plain text") && !done.stdout.contains("CANARY"), "{}", done.stdout);
    for name in [".ssh/", "deploy/id_rsa", ".netrc"] {
        assert!(done.stdout.contains(name) || done.stderr.contains(name), "{name}: {}", done.stderr);
    }
    assert!(done.stdout.contains("they may hold keys"), "{}", done.stdout);
    home.write_settings("workspace: {copy: ['deploy/id_rsa']}\n");
    let done = home.posse(&args).exits(0);
    assert!(done.stdout.contains("CANARY"), "the named one is there: {}", done.stdout);
}

/// The command with this text on standard input.
fn with_input(home: &Home, args: &[&str], input: &[u8]) -> Done {
    let mut command = home.command(args);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("it starts");
    let mut stdin = child.stdin.take().expect("standard input");
    // A command that refuses its arguments does not read.
    drop(stdin.write_all(input));
    drop(stdin);
    let output = child.wait_with_output().expect("it ends");
    Done {
        code: output.status.code(),
        stdout: String::from_utf8(output.stdout).expect("UTF-8"),
        stderr: String::from_utf8(output.stderr).expect("UTF-8"),
    }
}

#[test]
fn text_on_standard_input_is_context_for_the_request() {
    let home = Home::new();
    home.write("script.yaml", DONE);
    let args = ["run", "--model", "scripted/script.yaml", "explain this"];
    with_input(&home, &args, b"error[E0308]: mismatched types\n").exits(0);
    let trace = home.posse(&["trace"]).exits(0).stdout;
    assert!(trace.contains("error[E0308]: mismatched types"), "{trace}");
    assert_eq!(home.posse(&["ps", "--json"]).exits(0).json()["request"], "explain this");
    // Without text nothing is added.
    with_input(&home, &args, b"").exits(0);
    assert!(!home.posse(&["trace"]).exits(0).stdout.contains("The user passed"));
    let large = vec![b'x'; 1024 * 1024 + 1];
    for (input, named) in [(&large[..], "more than the 1048576 bytes"), (b"\xff", "not UTF-8 text")] {
        let refused = with_input(&home, &args, input).exits(2).stderr;
        assert!(refused.contains(named), "{refused}");
    }
}

#[test]
fn short_names_of_models_are_those_of_the_settings_and_the_usual_ones() {
    let home = Home::new();
    home.write("script.yaml", DONE);
    home.write_settings("model_aliases: {quick: openai/gpt-6-luna}\n");
    for (name, provider) in [("sonnet", "ANTHROPIC_API_KEY"), ("quick", "OPENAI_API_KEY")] {
        let refused = home.posse(&["run", "--model", name, "x"]).exits(4).stderr;
        assert!(refused.contains(provider), "{name}: {refused}");
    }
    // An agent file with a short name uses the run's model without a key, and its own with one.
    home.write_own(
        ".config/posse/agents/mine.md",
        "---\nname: mine\ndescription: Mine.\nmodel: sonnet\n---\nWork.\n",
    );
    let shown = home.posse(&["agents", "show", "mine"]).exits(0).stdout;
    assert!(!shown.contains("anthropic/claude-sonnet-5-5"), "{shown}");
    home.set("ANTHROPIC_API_KEY", "sk-canary-0123456789");
    let shown = home.posse(&["agents", "show", "mine"]).exits(0).stdout;
    assert!(shown.contains("anthropic/claude-sonnet-5-5"), "{shown}");
}

#[test]
fn a_negative_number_is_answered_with_what_is_expected() {
    let home = Home::new();
    for (flag, expected) in [
        ("--max-turns", "a whole number of at least 1"),
        ("--max-usd", "dollars such as"),
        ("--parallel", "a whole number of at least 1"),
        ("--max-depth", "whole number"),
    ] {
        let refused = home.posse(&["run", flag, "-1", "x"]).exits(2).stderr;
        assert!(refused.contains(expected) && !refused.contains("tip: to pass"), "{flag}: {refused}");
    }
}

#[test]
fn a_trace_shows_the_instructions_and_terms_of_an_agent() {
    let home = Home::new();
    home.write("../script.yaml", DONE);
    home.write("AGENTS.md", "Always answer in rhyme.\n");
    let plan = "
goal: look
steps:
  - {title: one, description: Look., agent: general, owns: ['src/**'], success_criteria: [it was looked at]}
";
    home.write("../plan.yaml", plan);
    // The report ignores the criterion, so the step fails; the trace shows why.
    home.posse(&["run", "--model", "scripted/../script.yaml", "--plan", "../plan.yaml"]).exits(1);
    let root = home.posse(&["trace"]).exits(0).stdout;
    assert!(root.contains("    AGENTS.md:\n    Always answer in rhyme.\n"), "{root}");
    let child = home.posse(&["trace", "@.1"]).exits(0).stdout;
    assert!(child.contains("owns: src/**\ndone when: it was looked at\n"), "{child}");
}

#[test]
fn a_model_without_a_provider_is_answered_with_what_was_probably_meant() {
    let home = Home::new();
    home.write("first.yaml", DONE);
    for (model, example) in
        [("first.yaml", "`scripted/first.yaml`"), ("", "`anthropic/"), ("mine", "`ollama/mine`")]
    {
        let refused = home.posse(&["run", "--model", model, "x"]).exits(2).stderr;
        assert!(refused.contains(&format!("for example {example}")), "{model}: {refused}");
    }
}
