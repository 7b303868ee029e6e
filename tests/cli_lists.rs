//! Lists and journals that are narrowed: `ps`, `logs`, `stats`, `models`, `man`.

use serde_json::Value;

use crate::support::{Home, run_of};

const SCRIPT: &str = "
- when: {definition: coder, turn: 1}
  reply: {tool_calls: [{name: task, input: {subagent_type: explore, description: look at it, prompt: one}}]}
- when: {definition: explore, turn: 1}
  reply: {tool_calls: [{name: list, input: {}}]}
- reply: {text: done}
";

fn finished(home: &Home) -> String {
    home.write("script.yaml", SCRIPT);
    run_of(&home.posse(&["run", "--json", "--model", "scripted/script.yaml", "look"]).exits(0).result())
}

#[test]
fn runs_are_listed_by_status_directory_and_form() {
    let home = Home::new();
    let done = finished(&home);
    home.write("bad.yaml", "- error: {status: 400, message: broken}\n");
    let failed = home.posse(&["run", "--json", "--model", "scripted/bad.yaml", "break"]).exits(1).result();
    let failed = run_of(&failed);
    let ids = |args: &[&str]| home.posse(&[&["ps", "-q"], args].concat()).exits(0).stdout;
    assert_eq!(ids(&[]), format!("{failed}\n{done}\n"));
    assert_eq!(ids(&["--status", "failed"]), format!("{failed}\n"));
    assert_eq!(ids(&["--status", "failed", "--status", "completed", "-n", "1"]), format!("{failed}\n"));
    assert_eq!(ids(&["--status", "running"]), "");
    assert_eq!(ids(&["--dir", "."]), format!("{failed}\n{done}\n"));
    assert_eq!(ids(&["--dir", "/"]), "");
    let line = home.posse(&["ps", "--format", "{run}: {status}, {agents} agents, {pid}", "-n", "2"]);
    assert_eq!(
        line.exits(0).stdout,
        format!("{failed}: failed, 1 agents, -\n{done}: completed, 2 agents, -\n")
    );
    let wrong = home.posse(&["ps", "--format", "{id}"]).exits(2).stderr;
    assert!(
        wrong.contains("there is no field `id`") && wrong.contains("the fields are run, status"),
        "{wrong}"
    );
    let tree = home.posse(&["ps", "--tree", "--status", "completed"]).exits(0).stdout;
    assert!(tree.ends_with("  └─ 1 explore: completed  look at it\n"), "{tree}");
    let entry = home.posse(&["ps", "--json", "-n", "1"]).exits(0).json();
    assert!(entry["wall_ms"].is_u64() && entry["usage"]["input_tokens"].is_u64(), "{entry}");
    for (args, named) in [
        (&["ps", "-n", "0"][..], "expected a whole number of at least 1"),
        (&["ps", "-n", "-3"], "expected a whole number of at least 1"),
        (&["ps", "--status", "done"], "completed"),
    ] {
        let refused = home.posse(args).exits(2).stderr;
        assert!(refused.contains(named) && !refused.contains("tip: to pass"), "{args:?}: {refused}");
    }
}

#[test]
fn events_are_cut_by_time_number_and_kind() {
    let home = Home::new();
    let run = finished(&home);
    let all = home.posse(&["logs", "--json"]).exits(0).json_lines();
    let some = |args: &[&str]| home.posse(&[&["logs", "--json"], args].concat()).exits(0).json_lines();
    assert_eq!(some(&["--tail", "3"]), all[all.len() - 3..]);
    assert_eq!(some(&["-n", "0"]), Vec::<Value>::new());
    assert_eq!(some(&["--since", "1h"]), all);
    assert_eq!(some(&["--since", "2100-01-01"]), Vec::<Value>::new());
    let of_kind =
        |kind: &str| -> Vec<Value> { all.iter().filter(|event| event["kind"] == kind).cloned().collect() };
    assert_eq!(some(&["--kind", "tool_finished"]), of_kind("agent.tool_finished"));
    assert_eq!(some(&["--kind", "agent.tool_finished", "--tail", "1"]).len(), 1);
    assert_eq!(some(&["--kind", "run.started", &run]), all[..1]);
    let wrong = home.posse(&["logs", "--kind", "tool_finnished"]).exits(2).stderr;
    assert!(wrong.contains("did you mean `tool_finished`?"), "{wrong}");
    // The kinds on the screen are those of the JSON.
    let screen = home.posse(&["logs"]).exits(0).stdout;
    for event in &all {
        assert!(screen.contains(event["kind"].as_str().expect("a kind")), "{event}");
    }
    let stats =
        |since: &str| home.posse(&["stats", "--json", "--since", since]).exits(0).json()["runs"].clone();
    assert_eq!((stats("1h"), stats("2100-01-01")), (1.into(), 0.into()));
}

#[test]
fn the_same_units_of_time_hold_everywhere() {
    let home = Home::new();
    finished(&home);
    for time in ["30m", "30min", "2h", "7d", "1h30m", "90s"] {
        home.posse(&["gc", "--dry-run", "--runs", time]).exits(0);
        home.posse(&["logs", "--since", time]).exits(0);
        home.posse(&["stats", "--since", time]).exits(0);
        home.posse(&["wait", "--timeout", time]).exits(0);
        home.posse(&["run", "--model", "scripted/script.yaml", "--max-time", time, "look"]).exits(0);
    }
    home.not_replayed("only the flags are of interest");
}

#[test]
fn models_are_listed_with_their_keys_and_prices() {
    let home = Home::new();
    home.write_settings("model_aliases: {quick: openai/gpt-6-luna}\n");
    let list = home.posse(&["models", "--json"]).exits(0).json();
    let provider = |list: &Value, name: &str| -> Value {
        let all = list["providers"].as_array().expect("a list");
        all.iter().find(|provider| provider["name"] == name).expect("a provider").clone()
    };
    let anthropic = provider(&list, "anthropic");
    assert_eq!((&anthropic["usable"], &anthropic["key"]), (&Value::from(false), &Value::Null));
    home.set("ANTHROPIC_API_KEY", "sk-canary-0123456789");
    let done = home.posse(&["models"]).exits(0);
    assert!(
        done.stdout.contains("ANTHROPIC_API_KEY") && !done.stdout.contains("sk-canary"),
        "{}",
        done.stdout
    );
    assert!(done.stdout.contains("anthropic/claude-sonnet-5-5") && !done.stdout.contains("openai/gpt-6-sol"));
    for line in
        ["sonnet                anthropic/claude-sonnet-5-5", "quick                 openai/gpt-6-luna"]
    {
        assert!(done.stdout.contains(line), "{line}: {}", done.stdout);
    }
    let one = home.posse(&["models", "haiku"]).exits(0).stdout;
    assert!(one.contains("anthropic/claude-haiku-5-5") && !one.contains("sonnet"), "{one}");
    home.posse(&["models", "no-such-model"]).exits(2);
}

#[test]
fn there_is_a_manual_page_for_every_verb() {
    let home = Home::new();
    let page = home.posse(&["man"]).exits(0).stdout;
    assert!(page.contains(".TH POSSE 1") && page.contains("Runs sub\\-agents under contract"), "{page}");
    let dir = home.project().join("man1");
    home.posse(&["man", "--dir", dir.to_str().expect("UTF-8")]).exits(0);
    for verb in home.verbs() {
        let page = std::fs::read_to_string(dir.join(format!("posse-{verb}.1"))).expect(&verb);
        let title = format!(".TH POSSE-{} 1", verb.to_uppercase());
        assert!(
            page.contains(&title) && page.contains(concat!("\"posse ", env!("CARGO_PKG_VERSION"), "\"")),
            "{page}"
        );
        assert!(page.contains(".SH EXAMPLES\n.nf\n") && page.contains("\n.fi\n"), "{verb}: {page}");
        assert!(page.contains("Print lines instead of a live tree, also on a terminal"), "{verb}: {page}");
        assert_eq!(page.matches(".ds Aq").count(), 2, "{page}");
        assert!(!page.contains("EXTRA") && !page.contains("help(1)"), "{verb}: {page}");
    }
    for title in [".SH \"EXIT CODES\"", ".SH FILES", ".SH \"RUNS AND AGENTS\""] {
        assert!(page.contains(title), "{title}: {page}");
    }
    assert!(!page.contains("posse\\-help(1)") && page.contains("posse\\-run(1)"), "{page}");
    for words in [&["man", "plan check"][..], &["man", "plan", "check"]] {
        let page = home.posse(words).exits(0).stdout;
        assert!(page.contains(".TH POSSE-PLAN-CHECK 1"), "{page}");
    }
    home.posse(&["man", "plan", "frobnicate"]).exits(2);
    assert!(dir.join("posse-plan-check.1").exists() && !dir.join("posse-__background.1").exists());
    home.posse(&["man", "frobnicate"]).exits(2);
}
