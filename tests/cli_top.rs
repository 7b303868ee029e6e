//! `posse top` in a real terminal multiplexer.

use crate::support::{Home, run_of};
use crate::tmux::Tmux;

const SCRIPT: &str = r#"
- when: {definition: coder, contains: Ask}
  reply: {tool_calls: [{name: write, input: {path: made.txt, content: x}}]}
  times: 1
- when: {definition: coder, turn: 1}
  reply:
    text: I split this.
    tool_calls: [{name: task, input: {subagent_type: explore, description: find it, prompt: find}}]
- reply: {text: "Done.\n\nNothing is left to do."}
"#;
const KEYS: &str = "? keys";

fn home() -> (Home, String) {
    let home = Home::new();
    home.write("script.yaml", SCRIPT);
    let done = home.posse(&["run", "--json", "--model", "scripted/script.yaml", "Find it"]).exits(0);
    let run = run_of(&done.result());
    (home, run)
}

/// The terminal is as it was before.
#[track_caller]
fn is_given_back(tmux: &Tmux<'_>) {
    assert_eq!(tmux.value("#{alternate_on} #{cursor_flag} #{mouse_any_flag}"), "0 1 0");
    tmux.enters("echo typed-and-seen");
    tmux.until_it("its echo and its output", |screen| screen.matches("typed-and-seen").count() == 2);
}

#[test]
fn runs_are_listed_opened_and_left_and_the_terminal_is_given_back() {
    let (home, run) = home();
    let tmux = Tmux::open(&home, 80, 24);
    tmux.enters("posse top");
    let screen = tmux.until_it("the list", |screen| screen.contains(&run) && screen.contains(KEYS));
    assert!(screen.starts_with("1 Runs 2 Tree 3 Timeline"), "{screen}");
    assert_eq!(tmux.value("#{alternate_on} #{cursor_flag}"), "1 0");
    tmux.types(&["Enter"]);
    tmux.until("└─ ✓ 1 explore: find it");
    tmux.types(&["Down", "Enter"]);
    tmux.until("agent 1 explore");
    // A click on the tab `Journal`, as the terminal reports it.
    tmux.types(&["-l", "\u{1b}[<0;62;1M"]);
    tmux.until("run.completed");
    tmux.types(&["?"]);
    tmux.until("any key closes this help");
    tmux.types(&["q"]);
    tmux.until_prompt();
    assert_eq!(tmux.value("#{history_size}"), "0");
    is_given_back(&tmux);
}

#[test]
fn the_runs_of_a_server_are_shown_as_those_of_this_machine() {
    let (home, run) = home();
    let mut server = home.start(&["serve", "--listen", "127.0.0.1:0"]);
    let url = server.line().expect("a URL");
    let tmux = Tmux::open(&home, 80, 24);
    tmux.enters(&format!("POSSE_HOME=/no/such/directory posse top --server '{}'", url.trim()));
    tmux.until_it("the list", |screen| screen.contains(&run) && screen.contains(KEYS));
    tmux.types(&["Enter"]);
    tmux.until("└─ ✓ 1 explore: find it");
    tmux.types(&["Down", "Enter"]);
    tmux.until("agent 1 explore");
    tmux.types(&["q"]);
    tmux.until_prompt();
    is_given_back(&tmux);
}

#[test]
fn a_suspended_top_gives_the_terminal_back_and_takes_it_again() {
    let (home, run) = home();
    let tmux = Tmux::open(&home, 80, 24);
    tmux.enters(&format!("posse top {run}"));
    tmux.until("└─ ✓ 1 explore");
    tmux.types(&["C-z"]);
    tmux.until("Stopped");
    is_given_back(&tmux);
    tmux.enters("fg");
    tmux.until("└─ ✓ 1 explore");
    assert_eq!(tmux.value("#{alternate_on}"), "1");
    tmux.run(&["resize-window", "-x", "60", "-y", "20"]);
    tmux.until_it("the tree at its new size", |screen| screen.lines().count() == 20);
    tmux.types(&["C-c"]);
    tmux.until_prompt();
    tmux.enters("echo code=$?");
    tmux.until("code=130");
}

#[test]
fn a_terminated_top_gives_the_terminal_back() {
    let (home, run) = home();
    let tmux = Tmux::open(&home, 80, 24);
    tmux.enters("posse top");
    tmux.until_it("the list", |screen| screen.contains(&run) && screen.contains(KEYS));
    let pid = tmux.value("#{pane_pid}");
    let children = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).expect("children");
    let top = children.split_whitespace().last().and_then(|pid| pid.parse().ok());
    let top = top.and_then(rustix::process::Pid::from_raw).expect("a process");
    rustix::process::kill_process(top, rustix::process::Signal::TERM).expect("terminated");
    tmux.until_prompt();
    is_given_back(&tmux);
}

#[test]
fn a_question_of_another_process_is_answered_in_the_inbox() {
    let home = Home::new();
    home.write("script.yaml", SCRIPT);
    let tmux = Tmux::open(&home, 80, 24);
    let mut going = home.start(&[
        "run",
        "--json",
        "--ask",
        "write",
        "--on-ask",
        "escalate",
        "--model",
        "scripted/script.yaml",
        "Ask me",
    ]);
    let run = run_of(&going.until_event("", "agent.input_requested"));
    tmux.enters("posse top");
    tmux.until("8 Inbox (1)");
    tmux.types(&["8"]);
    tmux.until("asks for permission:");
    tmux.types(&["o"]);
    tmux.until("allow once: write:made.txt? y yes · any other key no");
    tmux.types(&["y"]);
    tmux.until(&format!("answered {run}"));
    going.until_event("", "run.completed");
    tmux.types(&["1"]);
    tmux.until("completed");
    tmux.types(&["q"]);
    tmux.until_prompt();
    assert!(home.made(&run, "made.txt"));
}

#[test]
fn without_a_terminal_the_alternative_is_named() {
    let (home, _) = home();
    let refused = home.posse(&["top"]).exits(2);
    assert!(
        refused.stderr.contains("needs a terminal") && refused.stderr.contains("`posse ps`"),
        "{}",
        refused.stderr
    );
}
