//! The help and version of the command.

use crate::support::Home;
use crate::tmux::Tmux;

#[test]
fn the_help_names_every_verb_and_the_exit_codes() {
    let home = Home::new();
    let help = home.posse(&["--help"]).exits(0).stdout;
    insta::assert_snapshot!(help);
    assert!(!help.contains("__background"));
}

#[test]
fn every_verb_has_its_help() {
    let home = Home::new();
    let page = |verb: &String| home.posse(&[verb, "-h"]).exits(0).stdout + "\n";
    let pages: String = home.verbs().iter().map(page).collect();
    insta::assert_snapshot!(pages);
}

#[test]
fn shells_get_a_script_that_asks_the_command() {
    let home = Home::new();
    for shell in ["bash", "fish", "zsh"] {
        let script = home.posse(&["completions", shell]).exits(0).stdout;
        assert!(
            script.contains("_POSSE_COMPLETE") && script.contains(env!("CARGO_BIN_EXE_posse")),
            "{script}"
        );
    }
    home.posse(&["completions", "tcsh"]).exits(2);
}

/// What fish offers for the last of these words. The other shells get the same words.
fn offered(home: &Home, words: &[&str]) -> Vec<String> {
    let from = |shell: &str| {
        let mut command = home.command(&[&["--", "posse"], words].concat());
        command.env("_POSSE_COMPLETE", shell).env("_CLAP_COMPLETE_INDEX", words.len().to_string());
        command.env("_CLAP_IFS", "\n");
        let done = crate::support::Done::of(command).exits(0);
        // fish and zsh also get a line about each word.
        let word = |line: &str| match shell {
            "fish" => line.split('\t').next().unwrap_or_default().to_owned(),
            "zsh" => line.replace("\\:", "\0").split(':').next().unwrap_or_default().replace('\0', ":"),
            _ => line.to_owned(),
        };
        done.stdout.lines().map(word).collect::<Vec<String>>()
    };
    let offered = from("fish");
    for shell in ["bash", "zsh"] {
        let others = from(shell);
        assert!(others.iter().all(|word| offered.contains(word)), "{shell}: {others:?}, fish: {offered:?}");
        assert_eq!(others.is_empty(), offered.is_empty(), "{shell}: {others:?}, fish: {offered:?}");
    }
    offered
}

/// A root that starts one sub-agent.
const ONE_CHILD: &str = "
- when: {definition: coder, turn: 1}
  reply: {tool_calls: [{name: task, input: {subagent_type: explore, description: one, prompt: one}}]}
- reply: {text: done}
";

#[test]
fn completions_know_verbs_runs_agents_skills_models_and_values() {
    let home = Home::new();
    home.write("script.yaml", ONE_CHILD);
    home.write(".posse/agents/mine.md", "---\nname: mine\ndescription: My own.\n---\nWork.\n");
    home.write(".posse/skills/tidy/SKILL.md", "---\nname: tidy\ndescription: Tidies up.\n---\nTidy.\n");
    let done = home.posse(&["run", "--json", "--model", "scripted/script.yaml", "look"]).exits(0);
    let run = crate::support::run_of(&done.result());
    let has = |words: &[&str], expected: &str| {
        let offered = offered(&home, words);
        assert!(offered.iter().any(|word| word == expected), "{words:?}: {expected} in {offered:?}");
    };
    for verb in home.verbs() {
        has(&[&verb[..1]], &verb);
    }
    assert!(!offered(&home, &[""]).iter().any(|verb| verb.contains("background")));
    for verb in ["show", "logs", "rm", "apply", "wait"] {
        has(&[verb, ""], &run);
        has(&[verb, ""], "@");
    }
    has(&["trace", &format!("{run}.")], &format!("{run}.1"));
    has(&["run", "--agent", "m"], "mine");
    has(&["agents", "show", "ex"], "explore");
    has(&["run", "--skill", ""], "tidy");
    has(&["run", "--model", "s"], "sonnet");
    has(&["run", "--on-ask", ""], "escalate");
    has(&["ps", "--status", "w"], "waiting");
    has(&["logs", "--kind", "run."], "run.started");
    home.set("ANTHROPIC_API_KEY", "sk-canary-0123456789");
    has(&["run", "--model", "anthropic/claude-s"], "anthropic/claude-sonnet-5-5");
}

#[test]
fn the_version_is_told() {
    let version = Home::new().posse(&["--version"]).exits(0);
    assert_eq!(version.stdout, format!("posse {}\n", env!("CARGO_PKG_VERSION")));
}

#[test]
fn without_a_verb_the_first_verbs_are_named() {
    let done = Home::new().posse(&[]).exits(2);
    assert!(done.stdout.is_empty() && done.stderr.contains("Usage: posse"), "{done:?}");
    for first in ["posse run \"", "posse demo", "posse ps", "posse help"] {
        assert!(done.stderr.contains(first), "{first}: {}", done.stderr);
    }
}

#[test]
fn help_is_a_verb_and_names_what_people_type() {
    let home = Home::new();
    let whole = home.posse(&["help"]).exits(0).stdout;
    assert_eq!(whole, home.posse(&["--help"]).exits(0).stdout);
    assert_eq!(home.posse(&["help", "run"]).exits(0).stdout, home.posse(&["run", "--help"]).exits(0).stdout);
    let check = home.posse(&["help", "plan", "check"]).exits(0).stdout;
    assert!(check.contains("Examples:\n  posse plan check plan.yaml"), "{check}");
    for verb in home.verbs() {
        let help = home.posse(&[&verb, "--help"]).exits(0).stdout;
        assert!(help.contains("Examples:\n  posse "), "{verb}: {help}");
    }
    home.write("script.yaml", "- reply: {text: done}\n");
    home.posse(&["run", "--model", "scripted/script.yaml", "look"]).exits(0);
    for (typed, verb) in [("list", "ps"), ("ls", "ps"), ("status", "show"), ("log", "logs")] {
        let flag: &[&str] = if verb == "ps" { &["-q"] } else { &[] };
        let printed = |verb| home.posse(&[&[verb], flag].concat()).exits(0).stdout;
        assert_eq!(printed(typed), printed(verb), "{typed}");
    }
    home.posse(&["stop", "@"]).exits(1);
    home.posse(&["remove", "@", "--yes"]).exits(0);
}

#[test]
fn a_real_bash_completes_the_agents_of_the_newest_run() {
    let home = Home::new();
    home.write("script.yaml", ONE_CHILD);
    home.posse(&["run", "--model", "scripted/script.yaml", "look"]).exits(0);
    let tmux = Tmux::open(&home, 80, 24);
    tmux.enters("source <(posse completions bash); clear");
    tmux.until_prompt();
    // bash breaks words at an `@`.
    for (typed, completed) in [
        ("posse diff @.", "$ posse diff @.1"),
        ("posse logs @ --agent ", "$ posse logs @ --agent 1"),
        ("posse trace @.1 --js", "$ posse trace @.1 --json"),
        ("posse run --model replay/@ --js", "$ posse run --model replay/@ --json"),
    ] {
        tmux.types(&["-l", typed]);
        tmux.until(typed.trim_end());
        tmux.types(&["Tab"]);
        tmux.until_it(completed, |screen| screen.ends_with(completed));
        tmux.types(&["C-u"]);
        tmux.until_prompt();
    }
}

#[test]
fn completions_fit_the_verb_and_the_words_before() {
    let home = Home::new();
    home.write("script.yaml", ONE_CHILD);
    home.write(".posse/skills/tidy/SKILL.md", "---\nname: tidy\ndescription: Tidies up.\n---\nTidy.\n");
    let ended = crate::support::run_of(
        &home.posse(&["run", "--json", "--model", "scripted/script.yaml", "look"]).exits(0).result(),
    );
    home.write("asks.yaml", "- reply: {tool_calls: [{name: list, input: {path: '.'}}]}\n");
    let model = ["--model", "scripted/asks.yaml"];
    let asking = ["run", "--json", "--ask", "list", "--on-ask", "escalate", model[0], model[1], "look"];
    let mut going = home.start(&asking);
    let waiting = crate::support::run_of(&going.until_event("", "agent.input_requested"));
    let offers = |words: &[&str]| offered(&home, words);
    let has = |words: &[&str], expected: &str| {
        let offered = offers(words);
        assert!(offered.iter().any(|word| word == expected), "{words:?}: {expected} in {offered:?}");
    };
    for verb in ["approve", "deny", "cancel", "kill", "send"] {
        let offered = offers(&[verb, ""]);
        assert!(offered.contains(&waiting) && !offered.contains(&ended), "{verb}: {offered:?}");
    }
    for words in [&["diff", &ended, ""][..], &["report", "@2", ""], &["logs", &ended, "--agent", ""]] {
        has(words, "1");
    }
    has(&["continue", "@2."], "@2.1");
    has(&["show", &format!("{}.", &ended[..7])], &format!("{}.1", &ended[..7]));
    has(&["logs", "--kind", "tool_"], "tool_finished");
    has(&["logs", "--kind", "agent.tool_"], "agent.tool_finished");
    has(&["run", "--model", "replay/"], &format!("replay/{ended}"));
    has(&["run", "--model", "anthropic/"], "anthropic/claude-sonnet-5-5");
    has(&["ps", "--format", "{run} {st"], "{run} {status}");
    has(&["run", "/t"], "/tidy");
    home.posse(&["approve", "--yes", "--always", &waiting]).exits(1);
    home.posse(&["cancel", &waiting]).exits(0);
    going.finish().exits(3);
    let offered = offers(&["approve", ""]);
    assert!(!offered.contains(&waiting) && !offered.contains(&ended) && !offered.contains(&"@".to_owned()));
    home.write("../state/approvals.json", &approvals_of(&home));
    has(&["approvals", "revoke", ""], "bash:npm test");
}

/// A stored answer of "always".
fn approvals_of(home: &Home) -> String {
    let dir = home.project().canonicalize().expect("a path");
    format!(r#"{{"version": 1, "directories": {{"{}": ["bash:npm test"]}}}}"#, dir.display())
}
