//! What reaches a terminal: a live tree, and no escape sequence of a model or a tool.

use std::fs::{File, OpenOptions};
use std::io::Read;
use std::os::fd::OwnedFd;
use std::process::{Command, Stdio};

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

use crate::support::{Home, run_of};

/// Runs a command on a terminal of this size, and returns its output there and its exit code.
pub(crate) fn on_terminal(mut command: Command, columns: u16, rows: u16) -> (String, Option<i32>) {
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

/// The last frame and what follows: every frame replaces the one before.
fn last_frame(written: &str) -> String {
    let frame = written.rsplit("\u{1b}[?2026h").next().expect("a drawing");
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

pub(crate) fn on_a_real_terminal(home: &Home, args: &[&str]) -> Command {
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
        let whole = ", $0.00, 1 agent, 1 turn, 1000 tokens in, 100 out\n";
        // It is broken between words.
        assert!(screen.replace('\n', " ").contains(whole.trim_end()), "{columns}: {screen}");
    }
}

#[test]
fn a_dumb_terminal_and_the_flag_plain_get_only_lines() {
    for (flags, term) in [(&[] as &[&str], "dumb"), (&["--plain", "--color=never"], "xterm")] {
        let home = Home::new();
        let mut command = home.command(&[flags, &["demo", "--fast"]].concat());
        command.env("TERM", term);
        let (written, _) = on_terminal(command, 100, 30);
        assert!(!written.contains('\u{1b}') && written.contains(".1 started"), "{written}");
    }
}

#[test]
fn without_colour_the_tree_is_still_live() {
    for (flags, name, value) in
        [(&[] as &[&str], "NO_COLOR", "1"), (&[], "CLICOLOR", "0"), (&["--color", "never"], "X", "")]
    {
        let home = Home::new();
        let mut command = on_a_real_terminal(&home, &[flags, &["demo", "--fast"]].concat());
        command.env(name, value);
        let (written, _) = on_terminal(command, 100, 30);
        let sequences: Vec<&str> = written.split('\u{1b}').skip(1).collect();
        assert!(sequences.iter().any(|rest| rest.starts_with("[J")), "it is drawn: {written}");
        let is_colour = |rest: &&&str| {
            rest.trim_start_matches(|c: char| "[;".contains(c) || c.is_ascii_digit()).starts_with('m')
        };
        assert_eq!(sequences.iter().find(is_colour), None, "{name}");
    }
}

#[test]
fn quiet_prints_only_the_result_and_verbose_prints_turns() {
    let home = Home::new();
    home.write("script.yaml", SCRIPT);
    let run = |flag: &str| home.posse(&["run", flag, "--model", "scripted/script.yaml", "Find it"]).exits(0);
    let quiet = run("--quiet");
    assert!(quiet.stdout.starts_with("Done."), "{quiet:?}");
    assert!(!quiet.stderr.contains("run ") && !quiet.stderr.contains("posse "), "no advice: {quiet:?}");
    home.write("failing.yaml", "- error: {status: 400, message: broken}\n");
    let failed = home.posse(&["run", "--quiet", "--model", "scripted/failing.yaml", "x"]).exits(1);
    assert!(failed.stderr.starts_with("run ") && failed.stderr.contains("broken"), "{failed:?}");
    let verbose = run("--verbose").stderr;
    assert!(verbose.contains(" ↳ I split this.") && verbose.contains("turn 1"), "{verbose}");
}

#[test]
fn without_a_terminal_the_text_of_children_and_their_reports_are_lines() {
    let home = Home::new();
    home.write("script.yaml", SCRIPT);
    let done = home.posse(&["run", "--model", "scripted/script.yaml", "Find it"]).exits(0);
    let run = done.stderr[..8].to_owned();
    let streamed =
        ["Done.", "Nothing is left to do."].map(|text| done.stderr.find(&format!("{run}.1 ↳ {text}\n")));
    let panel = done.stderr.find(&format!("╭─ Subagent Result ({run}.1) ─"));
    assert!(streamed[0].is_some() && streamed[0] < streamed[1] && streamed[1] < panel, "{}", done.stderr);
    assert!(done.stderr.contains("│ Done.\n│\n│ Nothing is left to do.\n╰──"), "{}", done.stderr);
    let coloured = home.posse(&["run", "--color=always", "--model", "scripted/script.yaml", "Find it"]);
    assert!(coloured.stderr.contains(".1 ↳ \u{1b}[32mDone.\u{1b}[0m\n"), "{}", coloured.stderr);
}

#[test]
fn a_user_who_looks_elsewhere_is_notified_on_request() {
    let home = Home::new();
    home.write("script.yaml", SCRIPT);
    for flag in [true, false] {
        let mut args = vec!["run", "--model", "scripted/script.yaml", "Find it"];
        args.extend(flag.then_some("--notify"));
        let (written, _) = on_terminal(on_a_real_terminal(&home, &args), 90, 30);
        let run = &home.posse(&["ps", "--json"]).json_lines()[0]["run"];
        let notice =
            format!("\u{1b}]777;notify;Posse;run {} completed\u{1b}\\\u{7}", run.as_str().expect("an id"));
        assert_eq!(written.contains(&notice), flag, "{written:?}");
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
        &["attach", &run],
        &["attach", "--json", &run],
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
    // The cursor, line wrap and synchronized updates.
    let modes = ["[?25l", "[?25h", "[?7l", "[?7h", "[?2026h", "[?2026l"];
    let body = rest.strip_prefix('[').unwrap_or_default();
    let end = body.trim_start_matches(|c: char| c.is_ascii_digit() || c == ';');
    let is_erasing = rest.starts_with("[J") || rest.starts_with("[K");
    modes.iter().any(|mode| rest.starts_with(mode)) || is_erasing || end.starts_with(['m', 'F'])
}

/// Sequences and characters that steer, change or deceive a terminal or its user.
const CORPUS: [&str; 44] = [
    "\u{1b}[2J",
    "\u{1b}[3J",
    "\u{1b}[H",
    "\u{1b}[5;35m",
    "\u{1b}[10A",
    "\u{1b}[6n",
    "\u{1b}[c",
    "\u{1b}[?1049h",
    "\u{1b}[?1000h",
    "\u{1b}[?2004h",
    "\u{1b}[?25m",
    "\u{1b}[8;1;1t",
    "\u{1b}[1;2r",
    "\u{1b}[4h",
    "\u{1b}[!p",
    "\u{1b}[99999999999999999999X",
    "\u{1b}[",
    "\u{1b}",
    "\u{1b}c",
    "\u{1b}7",
    "\u{1b}#8",
    "\u{1b}(0",
    "\u{1b}]0;title\u{7}",
    "\u{1b}]8;;http://evil.example\u{1b}\\link\u{1b}]8;;\u{1b}\\",
    "\u{1b}]52;c;ZXZpbA==\u{7}",
    "\u{1b}]9;notice\u{7}",
    "\u{1b}]777;notify;a;b\u{1b}\\",
    "\u{1b}]1337;File=name=x:AAAA\u{7}",
    "\u{1b}]never ended",
    "\u{1b}Pq#0;2;0;0;0~-\u{1b}\\",
    "\u{1b}_Ga=T;AAAA\u{1b}\\",
    "\u{1b}^private\u{1b}\\",
    "\u{1b}Xstring\u{1b}\\",
    "\u{9b}2J",
    "\u{9d}0;title\u{9c}",
    "\u{90}q\u{9c}",
    "\u{7}\u{8}\u{8}\u{b}\u{c}\u{e}\u{f}\u{7f}",
    "real\rfake",
    "\u{202e}txt.exe\u{202c}",
    "\u{2066}isolated\u{2069}\u{200e}\u{200f}",
    "\u{200b}\u{2060}\u{feff}\u{61c}",
    "\u{e0041}\u{e007f}",
    "a\u{2028}b\u{2029}c\u{85}d",
    "\n\n  [o]nce / [d]eny [Enter = deny]: o\n$ rm -rf x\n",
];

/// What a terminal shows of the text of a command: nothing but the command's own sequences.
#[track_caller]
fn check_harmless(what: &str, written: &str) {
    let foreign = written.split('\u{1b}').skip(1).find(|rest| !is_own_sequence(rest));
    assert_eq!(foreign, None, "{what}: {written:?}");
    assert_eq!(steering(&written.replace('\u{1b}', "")), "", "{what}: {written:?}");
    assert!(!written.contains("\u{1b}[5;35m"), "{what}: {written:?}");
    let line_starts = |text: &str| written.lines().any(|line| line.starts_with(text));
    assert!(!line_starts("$ rm") || what == "report", "a fake prompt of {what}: {written:?}");
}

/// A YAML string.
fn quoted(text: &str) -> String {
    let escape = |c: char| match c {
        '"' | '\\' => format!("\\{c}"),
        c if c.is_ascii_graphic() || c == ' ' => c.to_string(),
        c => format!("\\U{:08x}", u32::from(c)),
    };
    format!("\"{}\"", text.chars().map(escape).collect::<String>())
}

/// The corpus reaches the terminal through texts of models, tools, files, their names, errors and requests.
#[test]
fn nothing_of_a_corpus_of_sequences_reaches_the_terminal() {
    let home = Home::new();
    let all = CORPUS.join("|");
    let name: String = CORPUS.concat().replace(['/', '\n'], "").chars().take(60).collect();
    home.write("hostile.txt", &all);
    home.write(&name, "x");
    let text = quoted(&all);
    let short = quoted(&name);
    let script = format!(
        r#"
- when: {{definition: coder, turn: 1}}
  reply:
    text: {text}
    tool_calls:
      - {{name: read, input: {{path: hostile.txt}}}}
      - {{name: list, input: {{path: .}}}}
      - {{name: bash, input: {{command: 'for f in *; do echo more >> "$f"; done; cat hostile.txt; cat hostile.txt >&2; exit 3'}}}}
      - {{name: read, input: {{path: {text}}}}}
      - {{name: write, input: {{path: {short}, content: {text}}}}}
      - {{name: {text}, input: {{x: {text}}}}}
      - {{name: task, input: {{subagent_type: explore, description: {short}, prompt: one}}}}
      - {{name: task, input: {{subagent_type: {short}, description: {short}, prompt: {text}}}}}
      - {{name: task, input: {{subagent_type: explore, description: fails, prompt: fail}}}}
- when: {{definition: explore, contains: fail}}
  error: {{status: 400, message: {text}}}
- reply: {{text: {text}}}
"#
    );
    home.write("../script.yaml", &script);
    let model = "scripted/../script.yaml";
    for (what, flags) in [("the tree", &[] as &[&str]), ("lines", &["--plain", "--verbose"])] {
        let args = [&["run", "--model", model], flags, &[all.as_str()]].concat();
        let (written, code) = on_terminal(on_a_real_terminal(&home, &args), 80, 24);
        assert_eq!(code, Some(0), "{written:?}");
        // The report of the run is the model's own text, on lines of its own.
        check_harmless("report", &written);
        assert!(written.contains("txt.exe"), "{what} shows the rest of the text: {written:?}");
    }
    let run = home.posse(&["ps", "--json"]).json_lines()[0]["run"].as_str().expect("an id").to_owned();
    let (child, failed) = (format!("{run}.1"), format!("{run}.2"));
    for args in [
        &["ps"] as &[&str],
        &["show", &run],
        &["logs", &run],
        &["trace", &run],
        &["trace", &child],
        &["trace", &failed],
        &["diff", &run],
        &["diff", "--stat", &run],
        &["report", &run],
        &["report", &child],
        &["wait", &run],
        &["attach", &run],
        &["attach", "--plain", &run],
        &["stats", &run],
        &["explain", &run, &format!("read:{all}")],
        &["resume", &run],
        &["apply", &run],
    ] {
        let (written, _) = on_terminal(on_a_real_terminal(&home, args), 80, 24);
        let is_text =
            matches!(args[0], "report" | "wait" | "attach" | "resume" | "trace" | "diff" | "explain");
        check_harmless(if is_text { "report" } else { args[0] }, &written);
        assert!(!written.is_empty(), "{args:?}");
    }
}

/// The characters of a text that a terminal would act on.
fn steering(text: &str) -> String {
    let bidi =
        |c: char| matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    text.chars().filter(|c| (c.is_control() && !matches!(c, '\n' | '\t' | '\r')) || bidi(*c)).collect()
}
