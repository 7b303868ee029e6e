//! Questions to a user at a terminal.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::process::{Child, Command, Stdio};

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};
use serde_json::{Value, json};

use crate::cli_permissions::check_explained;
use crate::support::Home;

/// A command on its own terminal, with a user at the keyboard.
pub(crate) struct Terminal {
    child: Child,
    screen: File,
    written: String,
    seen: usize,
}

impl Terminal {
    pub(crate) fn open(command: Command) -> Self {
        // A terminal without a size, on which no line is broken.
        Self::with_columns(command, 0)
    }

    pub(crate) fn with_columns(mut command: Command, columns: u16) -> Self {
        let terminal = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a terminal");
        grantpt(&terminal).expect("granted");
        unlockpt(&terminal).expect("unlocked");
        if columns > 0 {
            let size = Winsize { ws_col: columns, ws_row: 24, ws_xpixel: 0, ws_ypixel: 0 };
            tcsetwinsize(&terminal, size).expect("a size");
        }
        let name = ptsname(&terminal, Vec::new()).expect("a name").into_string().expect("UTF-8");
        let other = OpenOptions::new().read(true).write(true).open(name).expect("the other side");
        let copy = || Stdio::from(other.try_clone().expect("a copy"));
        let child = command.stdin(copy()).stdout(copy()).stderr(copy()).spawn().expect("it starts");
        Self { child, screen: File::from(terminal), written: String::new(), seen: 0 }
    }

    /// Reads until this text appears, after the last text that was waited for; returns the text in between.
    #[track_caller]
    pub(crate) fn until(&mut self, text: &str) -> String {
        loop {
            if let Some(at) = self.written[self.seen..].find(text) {
                let from = self.seen;
                self.seen += at + text.len();
                return self.written[from..self.seen].to_owned();
            }
            assert!(self.read(), "it ended before `{text}`:\n{}", self.written);
        }
    }

    /// Reads what comes next; returns whether there was anything.
    fn read(&mut self) -> bool {
        let mut part = [0; 4096];
        // The last reader gets the end of the other side as an error.
        match self.screen.read(&mut part) {
            Ok(count @ 1..) => {
                self.written.push_str(&String::from_utf8_lossy(&part[..count]));
                true
            }
            _ => false,
        }
    }

    pub(crate) fn types(&mut self, line: &str) {
        self.screen.write_all(line.as_bytes()).expect("typed");
    }

    pub(crate) fn ends(mut self) -> (String, Option<i32>) {
        while self.read() {}
        let code = self.child.wait().expect("it ends").code();
        (self.written.clone(), code)
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
        // The process that executes the run ends with the one that was started.
        while self.read() {}
    }
}

fn home(calls: &[Value]) -> Home {
    let home = Home::new();
    let turn = |(turn, call): (usize, &Value)| json!({"when": {"turn": turn + 1}, "reply": {"text": "next", "tool_calls": [call]}});
    let mut rules: Vec<Value> = calls.iter().enumerate().map(turn).collect();
    rules.push(json!({"when": {}, "reply": {"text": "all done"}}));
    // YAML accepts no raw control characters, and JSON leaves some.
    let escape = |c: char| if c.is_ascii() { c.to_string() } else { format!("\\u{:04x}", u32::from(c)) };
    home.write("../script.yaml", &Value::from(rules).to_string().chars().map(escape).collect::<String>());
    home
}

fn write(path: &str) -> Value {
    json!({"name": "write", "input": {"path": path, "content": "x"}})
}

fn bash(command: &str) -> Value {
    json!({"name": "bash", "input": {"command": command}})
}

fn run(home: &Home, flags: &[&str]) -> Terminal {
    let args = [&["run", "--model", "scripted/../script.yaml"], flags, &["do it"]].concat();
    let mut command = home.command(&args);
    command.env("TERM", "xterm-256color");
    Terminal::open(command)
}

const ENTER: &str = "[Enter = deny]: ";

fn last_run(home: &Home) -> String {
    home.posse(&["ps", "--json"]).json_lines()[0]["run"].as_str().expect("an id").to_owned()
}

#[test]
fn a_person_at_the_terminal_says_once_no_or_something_else() {
    let home = home(&[write("yes.txt"), write("no.txt"), write("why.txt")]);
    let mut terminal = run(&home, &["--ask", "write"]);
    let asked = terminal.until(ENTER);
    assert!(
        asked.contains("write:yes.txt") && asked.contains("approval required by rule `write` (run)"),
        "{asked}"
    );
    assert!(asked.contains("[o]nce / [d]eny") && !asked.contains("[a]lways"), "{asked}");
    terminal.types("what?\n");
    terminal.until(ENTER);
    terminal.types("o\n");
    assert!(terminal.until(ENTER).contains("write:no.txt"));
    terminal.types("\n");
    assert!(terminal.until(ENTER).contains("write:why.txt"));
    terminal.types("d not on a Friday\n");
    let (written, code) = terminal.ends();
    assert_eq!(code, Some(0), "{written}");
    assert!(written.contains("all done"), "{written}");
    let run = last_run(&home);
    let made = |name: &str| home.made(&run, name);
    assert_eq!((made("yes.txt"), made("no.txt"), made("why.txt")), (true, false, false));
    let trace = home.posse(&["trace", &run]).exits(0);
    assert!(trace.stdout.contains("the user denied `write:why.txt`: not on a Friday"), "{}", trace.stdout);
    assert_eq!(check_explained(&home, &run), 3);
}

#[test]
fn nothing_in_a_command_hides_from_the_person_or_steers_the_terminal() {
    let command =
        "echo safe\u{1b}[2J\u{1b}]52;c;ZXZpbA==\u{7} \u{202e}txt\u{202c}\u{9b}31m\u{200b}\r\n\trm -rf x";
    let home = home(&[bash(command)]);
    let mut terminal = run(&home, &["--ask", "bash"]);
    let asked = terminal.until(ENTER);
    for shown in
        [r"\u{1b}[2J", r"\u{1b}]52;c;", r"\u{7}", r"\u{202e}txt\u{202c}\u{9b}31m\u{200b}\r\n", r"\trm -rf x"]
    {
        assert!(asked.contains(shown), "{shown}: {asked:?}");
    }
    assert!(!asked.contains("\u{1b}[2J") && !asked.contains("\u{1b}]"), "{asked:?}");
    assert!(!asked.contains(['\u{202e}', '\u{9b}', '\u{7}', '\u{200b}']), "{asked:?}");
    terminal.types("d\n");
    assert_eq!(terminal.ends().1, Some(0));
}

#[test]
fn always_keeps_what_the_prompt_says_and_is_not_asked_again() {
    let home =
        home(&[bash("git push origin ma*n"), bash("git push origin ma*n"), bash("git push origin main")]);
    let mut terminal = run(&home, &[]);
    let asked = terminal.until(ENTER);
    assert!(asked.contains(r#""always" allows exactly `bash:git push origin ma\*n`"#), "{asked}");
    terminal.types("a\n");
    let next = terminal.until(ENTER);
    assert!(next.contains("bash:git push origin main"), "the star was no wildcard: {next}");
    terminal.types("d\n");
    assert_eq!(terminal.ends().1, Some(0));
    assert_eq!(check_explained(&home, &last_run(&home)), 2);
    let mut terminal = run(&home, &[]);
    let asked = terminal.until(ENTER);
    assert!(asked.contains("bash:git push origin main") && !asked.contains("ma*n asks"), "{asked}");
    terminal.types("d\n");
    assert_eq!(terminal.ends().1, Some(0));
}

#[test]
fn an_answer_from_elsewhere_takes_the_question_away() {
    let home = home(&[write("asked.txt")]);
    let mut terminal = run(&home, &["--ask", "write"]);
    terminal.until(ENTER);
    home.posse(&["approve", "--yes"]).exits(0);
    terminal.until("answered in another terminal");
    let (written, code) = terminal.ends();
    assert_eq!(code, Some(0), "{written}");
    assert!(home.made(&last_run(&home), "asked.txt"));
}

#[test]
fn a_resume_at_the_terminal_asks_what_is_still_open() {
    for plain in [false, true] {
        resume_asks(plain);
    }
}

fn resume_asks(plain: bool) {
    let home = home(&[write("asked.txt")]);
    let mut terminal = run(&home, &["--ask", "write"]);
    terminal.until(ENTER);
    drop(terminal);
    let run = last_run(&home);
    let mut command = home.command(&["resume", &run]);
    command.env("TERM", if plain { "dumb" } else { "xterm-256color" });
    let mut terminal = Terminal::open(command);
    assert!(terminal.until(ENTER).contains("write:asked.txt"));
    terminal.types("o\n");
    assert_eq!(terminal.ends().1, Some(0));
    assert!(home.made(&run, "asked.txt"));
    let events = home.posse(&["logs", "--json", &run]).json_lines();
    assert_eq!(events.iter().filter(|event| event["kind"] == "agent.input_requested").count(), 1);
}

#[test]
fn an_attached_terminal_is_asked_what_was_open_before() {
    for term in ["xterm-256color", "dumb"] {
        let home = home(&[write("asked.txt")]);
        let flags = ["--json", "--on-ask", "escalate", "--ask", "write"];
        let args = [&["run", "--model", "scripted/../script.yaml"], &flags[..], &["do it"]].concat();
        let mut going = home.start(&args);
        going.until_event("", "agent.input_requested");
        let mut command = home.command(&["attach"]);
        command.env("TERM", term);
        let mut terminal = Terminal::open(command);
        assert!(terminal.until(ENTER).contains("write:asked.txt"), "{term}");
        terminal.types("o\n");
        assert_eq!(terminal.ends().1, Some(0));
        going.finish().exits(0);
        assert!(home.made(&last_run(&home), "asked.txt"));
    }
}

#[test]
fn nobody_is_asked_in_the_background_or_by_a_program() {
    let home = home(&[write("asked.txt")]);
    for flags in [&["--json"] as &[&str], &["-d"]] {
        let terminal = run(&home, &[&["--ask", "write"], flags].concat());
        let (written, code) = terminal.ends();
        assert_eq!(code, Some(0), "{written}");
        assert!(!written.contains("[d]eny"), "{written}");
        let run = last_run(&home);
        home.posse(&["wait", &run]).exits(0);
        assert!(!home.made(&run, "asked.txt"));
    }
}
