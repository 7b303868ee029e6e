//! What reaches a terminal: a live tree, and no escape sequence of a model or a tool.

use std::fs::{File, OpenOptions};
use std::io::Read;
use std::os::fd::OwnedFd;
use std::process::{Command, Stdio};

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

use crate::support::{Home, run_of};

/// Runs a command on a terminal of this size, and returns its output there and its exit code.
fn on_terminal(mut command: Command, columns: u16, rows: u16) -> (String, Option<i32>) {
    let terminal = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a terminal");
    grantpt(&terminal).expect("granted");
    unlockpt(&terminal).expect("unlocked");
    let size = Winsize { ws_col: columns, ws_row: rows, ws_xpixel: 0, ws_ypixel: 0 };
    tcsetwinsize(&terminal, size).expect("a size");
    let name = ptsname(&terminal, Vec::new()).expect("a name").into_string().expect("UTF-8");
    let other = OpenOptions::new().read(true).write(true).open(name).expect("the other side");
    let (out, error) = (other.try_clone().expect("a copy"), other);
    let mut child = command.stdout(Stdio::from(out)).stderr(Stdio::from(error)).spawn().expect("it starts");
    // Only the command's own copies keep the terminal open.
    drop(command);
    let text = read_all(terminal);
    (text, child.wait().expect("it ends").code())
}

fn read_all(terminal: OwnedFd) -> String {
    let mut terminal = File::from(terminal);
    let mut bytes = Vec::new();
    let mut part = [0; 4096];
    // The last reader gets the end of the other side as an error.
    while let Ok(count @ 1..) = terminal.read(&mut part) {
        bytes.extend_from_slice(&part[..count]);
    }
    String::from_utf8(bytes).expect("UTF-8")
}

/// The screen at the end: every frame replaces the one before.
fn last_frame(written: &str) -> String {
    let frame = written.rsplit("\u{1b}[J").next().expect("a drawing");
    let mut text = String::new();
    let mut rest = frame.chars();
    while let Some(c) = rest.next() {
        if c == '\u{1b}' {
            for skipped in rest.by_ref().skip(1) {
                if skipped.is_ascii_alphabetic() {
                    break;
                }
            }
        } else if c != '\r' {
            text.push(c);
        }
    }
    text
}

fn on_a_real_terminal(home: &Home, args: &[&str]) -> Command {
    let mut command = home.command(args);
    command.env("TERM", "xterm-256color");
    command
}

const SCRIPT: &str = r#"
- when: {definition: coder, turn: 1}
  reply:
    text: I split this.
    tool_calls:
      - {name: task, input: {subagent_type: explore, description: find it, prompt: find}}
      - {name: task, input: {subagent_type: general, description: change it, prompt: change}}
      - {name: task, input: {subagent_type: planner, description: plan it, prompt: plan, model: none/such}}
    usage: {input_tokens: 1200, output_tokens: 80}
  latency_ms: 100
- when: {definition: general}
  error: {status: 529, message: overloaded}
  times: 1
- reply: {text: "Done.\n\nNothing is left to do.", usage: {input_tokens: 700, output_tokens: 20}}
  latency_ms: 200
"#;

#[test]
fn a_run_on_a_terminal_is_a_tree_that_is_left_standing() {
    let home = Home::new();
    home.write("script.yaml", SCRIPT);
    let run = ["run", "--model", "scripted/script.yaml", "Find it and change it"];
    let (written, code) = on_terminal(on_a_real_terminal(&home, &run), 90, 30);
    assert_eq!(code, Some(0), "{written}");
    assert!(written.matches("\u{1b}[J").count() > 2, "it is drawn more than once");
    let run = home.posse(&["ps", "--json"]).json()["run"].as_str().expect("an id").to_owned();
    insta::assert_snapshot!(home.redact(&last_frame(&written), &run));
}

#[test]
fn the_closing_line_is_whole_however_narrow_the_terminal_is() {
    for columns in [30, 60, 80] {
        let home = Home::new();
        home.write("script.yaml", "- reply: {text: done, usage: {input_tokens: 1000, output_tokens: 100}}\n");
        let command = on_a_real_terminal(&home, &["run", "--model", "scripted/script.yaml", "x"]);
        let (written, code) = on_terminal(command, columns, 24);
        assert_eq!(code, Some(0), "{written}");
        let screen = last_frame(&written);
        let whole = ", price unknown, 1 agent, 1 turn, 1000 tokens in, 100 out\n";
        assert!(screen.contains(whole), "{columns}: {screen}");
    }
}

#[test]
fn without_colour_or_on_a_dumb_terminal_there_are_only_lines() {
    for (name, value) in [("NO_COLOR", "1"), ("TERM", "dumb")] {
        let home = Home::new();
        let mut command = on_a_real_terminal(&home, &["demo", "--fast"]);
        command.env(name, value);
        let (written, _) = on_terminal(command, 100, 30);
        assert!(!written.contains('\u{1b}') && written.contains(".1 started"), "{written}");
    }
}

/// A text that would set the clipboard, colour the screen, hide itself and reverse its direction.
const HOSTILE: &str =
    "\u{1b}]52;c;ZXZpbA==\u{7}\u{1b}[31mred\u{1b}[0m \u{9b}2J\u{202e}txt.exe\u{202c} end\u{8}\u{8}";

#[test]
fn nothing_a_model_says_steers_the_terminal() {
    let home = Home::new();
    // YAML accepts no raw control characters.
    let escape = |c: char| {
        if c.is_ascii_graphic() || c == ' ' { c.to_string() } else { format!("\\u{:04x}", c as u32) }
    };
    let text = format!("\"{}\"", HOSTILE.chars().map(escape).collect::<String>());
    let script = format!(
        r"
- when: {{definition: coder, turn: 1}}
  reply:
    text: {text}
    tool_calls:
      - {{name: task, input: {{subagent_type: explore, description: {text}, prompt: {text}}}}}
      - {{name: {text}, input: {{path: {text}}}}}
      - {{name: read, input: {{path: {text}}}}}
- reply: {{text: {text}}}
"
    );
    home.write("script.yaml", &script);
    let command = on_a_real_terminal(&home, &["run", "--model", "scripted/script.yaml", HOSTILE]);
    let (written, code) = on_terminal(command, 80, 24);
    assert_eq!(code, Some(0), "{written:?}");
    // The live view's own sequences: moves, erasing, colours. Nothing else begins with ESC.
    let foreign = written.split('\u{1b}').skip(1).find(|rest| !is_own_sequence(rest));
    assert_eq!(foreign, None, "{written:?}");
    assert_eq!(steering(&written.replace('\u{1b}', "")), "", "{written:?}");

    let run = home.posse(&["ps", "--json"]).json()["run"].as_str().expect("an id").to_owned();
    let agent = format!("{run}.1");
    for args in [
        &["ps"] as &[&str],
        &["ps", "--json"],
        &["show", &run],
        &["show", "--json", &run],
        &["report", &run],
        &["report", &agent],
        &["stats"],
        &["logs", &run],
        &["logs", "--json", &run],
        &["trace", &run],
        &["trace", "--json", &run],
        &["trace", &agent],
        &["wait", &run],
        &["wait", "--json", &run],
        &["explain", &run, &format!("read:{HOSTILE}")],
        &["resume", &run],
        &["show", HOSTILE],
    ] {
        let done = home.posse(args);
        assert_eq!(steering(&done.stdout), "", "{args:?}: {}", done.stdout);
        assert_eq!(steering(&done.stderr), "", "{args:?}: {}", done.stderr);
    }
    let logged = home.posse(&["logs", "--json", &run]).json_lines();
    assert_eq!(logged[0]["detail"]["request"], HOSTILE, "JSON keeps it, escaped");
    assert_eq!(run_of(&logged[0]), run);
}

fn is_own_sequence(rest: &str) -> bool {
    let body = rest.strip_prefix('[').unwrap_or_default();
    let end = body.trim_start_matches(|c: char| c.is_ascii_digit() || c == ';');
    end.starts_with(['m', 'J', 'K', 'F', 'A', 'E'])
}

/// The characters of a text that a terminal would act on.
fn steering(text: &str) -> String {
    let bidi =
        |c: char| matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    text.chars().filter(|c| (c.is_control() && !matches!(c, '\n' | '\t' | '\r')) || bidi(*c)).collect()
}
