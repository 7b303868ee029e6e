//! Ending and removing runs: `kill`, `rm`, `wait --timeout`, `gc` with a question.

use crate::cli_asking::Terminal;
use crate::support::{Home, RunningCommand, run_of};

/// A run whose command ignores a polite end.
fn stubborn(home: &Home) -> (RunningCommand, String) {
    home.not_replayed("a command is killed in the middle");
    home.write(
        "script.yaml",
        "- when: {turn: 1}\n  reply: {tool_calls: [{name: bash, input: {command: \"trap '' TERM INT; sleep 3600 & wait\"}}]}\n- reply: {text: done}\n",
    );
    let mut going = home.start(&["run", "--json", "--model", "scripted/script.yaml", "wait"]);
    let run = run_of(&going.until_event("", "agent.tool_intended"));
    (going, run)
}

#[test]
fn kill_stops_calls_at_once_and_cancels_the_run() {
    let home = Home::new();
    let (going, run) = stubborn(&home);
    let waited = home.posse(&["wait", &run, "--timeout", "1s"]).exits(124);
    assert!(waited.stderr.contains("has not ended after 1s; it continues"), "{}", waited.stderr);
    let refused = home.posse(&["rm", "--yes", &run]).exits(1).stderr;
    assert!(refused.contains(&run), "{refused}");
    home.posse(&["kill", &run, "--reason", "stuck"]).exits(0);
    going.finish().exits(3);
    home.posse(&["wait", "@"]).exits(3);
    let cancelled = home.posse(&["logs", "--json", "--kind", "cancel_requested"]).exits(0).json();
    assert_eq!(
        (&cancelled["detail"]["kill"], &cancelled["detail"]["reason"]),
        (&true.into(), &"stuck".into())
    );
}

fn ended(home: &Home) -> String {
    home.write("script.yaml", "- reply: {text: done}\n");
    run_of(&home.posse(&["run", "--json", "--model", "scripted/script.yaml", "look"]).exits(0).result())
}

#[test]
fn rm_removes_the_named_runs_after_a_yes() {
    let home = Home::new();
    home.not_replayed("its runs are removed");
    let (first, second, third) = (ended(&home), ended(&home), ended(&home));
    let listed = || home.posse(&["ps", "-q"]).exits(0).stdout;
    let refused = home.posse(&["rm", &first]).exits(2).stderr;
    assert!(refused.contains("nothing was removed") && refused.contains("--yes"), "{refused}");
    let mut terminal = Terminal::open(home.command(&["rm", &first]));
    assert!(terminal.until("remove 1 run for good? [y/N] ").contains(&first));
    terminal.types("n\n");
    assert_eq!(terminal.ends().1, Some(1));
    assert_eq!(listed(), format!("{third}\n{second}\n{first}\n"));
    // All names are resolved before one run goes: `@2` is the second newest of before.
    home.posse(&["rm", "--yes", "@", "@2", &second]).exits(0);
    assert_eq!(listed(), format!("{first}\n"));
    let gone = home.posse(&["show", &second]).exits(2).stderr;
    assert!(gone.contains("removed"), "{gone}");
    let mut terminal = Terminal::open(home.command(&["rm", "@"]));
    terminal.until("[y/N] ");
    terminal.types("y\n");
    let (written, code) = terminal.ends();
    assert!(code == Some(0) && written.contains("removed 1 run"), "{written}");
    assert_eq!(listed(), "");
}

#[test]
fn gc_shows_what_goes_counts_the_rest_and_asks() {
    let home = Home::new();
    home.not_replayed("its runs are removed");
    let runs = [ended(&home), ended(&home), ended(&home)];
    let refused = home.posse(&["gc", "--runs", "0"]).exits(2).stderr;
    assert!(refused.contains("would remove") && refused.contains("nothing was removed"), "{refused}");
    let mut terminal = Terminal::open(home.command(&["gc", "--runs", "0"]));
    let shown = terminal.until("? [y/N] ");
    assert!(runs.iter().all(|run| shown.contains(run)), "{shown}");
    terminal.types("y\n");
    assert_eq!(terminal.ends().1, Some(0));
    assert_eq!(home.posse(&["ps", "-q"]).exits(0).stdout, "");
}
