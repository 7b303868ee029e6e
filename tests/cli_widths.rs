//! What the verbs print on a terminal of 60, 80 and 120 columns: no line is longer, so that the terminal breaks none within
//! a word. Every verb has a snapshot of its output at each width, or a reason why it has none.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::os::unix::process::CommandExt;

use posse_testkit::workspace_kind;

use crate::cli_asking::Terminal;
use crate::cli_terminal::{on_a_real_terminal, on_terminal};
use crate::support::{Home, run_of};

const WIDTHS: [u16; 3] = [60, 80, 120];

/// A tree in which something completed, failed and was refused, with texts that are longer than a narrow terminal. Each
/// agent takes more than a second, so that its time has as many digits whenever it is measured, and they work one after the
/// other, so that events are in the same order.
const SCRIPT: &str = r#"
facts: {price: {input: 3, output: 15}}
rules:
- when: {definition: coder, turn: 1}
  reply:
    text: I look first.
    tool_calls:
      - {name: task, input: {subagent_type: explore, description: find every place that reads the old format of the file, prompt: find}}
    usage: {input_tokens: 1200, output_tokens: 80}
- when: {definition: coder, turn: 2}
  reply:
    text: Now the change.
    tool_calls:
      - {name: task, input: {subagent_type: general, description: change each of them to the new format of the file, prompt: change}}
    usage: {input_tokens: 1300, output_tokens: 60}
- when: {definition: explore, turn: 1}
  reply:
    tool_calls: [{name: write, input: {path: a-file-with-a-long-name.txt, content: no}}]
    usage: {input_tokens: 300, output_tokens: 20}
  latency_ms: 1100
- when: {definition: explore}
  reply: {text: "The old format is read in two places, and one of them is a test of the other one.", usage: {input_tokens: 400, output_tokens: 30}}
- when: {definition: general}
  error: {status: 400, message: "the request has a field that this model does not know, and nothing of it was done"}
  latency_ms: 1100
- reply:
    text: "The first part was found. The second part failed, because the model did not take the request, so that nothing was changed."
    usage: {input_tokens: 1500, output_tokens: 40}
"#;
const REQUEST: &str = "Find every place that reads the old format of the file, and change it to the new one";

const PLAN: &str = "goal: Bring every place that reads the file to its new format.
steps:
  - {title: find the places that read the old format, description: Find them., agent: explore}
  - title: change the places that were found to the new format
    description: Change them.
    owns: [src/reader.rs]
    depends_on: [find the places that read the old format]
    success_criteria: [{command: cargo test --quiet --package reader}]
";

const SKILL: &str = "---
name: changelog
description: Writes the changelog of a release from the commits since the last one, in the words of a user.
---
Read the commits since the last tag, and write what a user can notice.
";

fn looked_at() -> (Home, String) {
    let home = Home::with_short_path();
    home.write("script.yaml", SCRIPT);
    home.write("plan.yaml", PLAN);
    home.write_own(".config/posse/skills/changelog/SKILL.md", SKILL);
    let done = home.posse(&["run", "--json", "--model", "scripted/script.yaml", REQUEST]);
    let run = run_of(&done.exits(0).result());
    (home, run)
}

/// Asserts that no line is longer than the terminal, unless it is one word.
#[track_caller]
fn assert_fits(args: &[&str], text: &str, columns: u16) {
    for line in text.lines() {
        let length = line.chars().count();
        let is_one_word = !line.trim().contains(' ');
        assert!(
            length <= usize::from(columns) || is_one_word,
            "{args:?} at {columns} columns: {length}: {line}\nin:\n{text}"
        );
    }
}

/// The output on terminals of all widths, each after its width.
#[track_caller]
fn pages_with_code(home: &Home, run: &str, args: &[&str], code: i32) -> String {
    let mut pages = String::new();
    for columns in WIDTHS {
        let command = on_a_real_terminal(home, &[&["--color=never"], args].concat());
        let (written, ended) = on_terminal(command, columns, 24);
        assert_eq!(ended, Some(code), "{args:?}: {written}");
        let text = written.replace('\r', "");
        assert_fits(args, &text, columns);
        let _ = writeln!(pages, "-- {columns} columns\n{text}");
    }
    redact(home, &pages, run)
}

/// Redacts what differs from one time to the next, dates too.
fn redact(home: &Home, text: &str, run: &str) -> String {
    let shape =
        |word: &str| word.chars().map(|c| if c.is_ascii_digit() { '9' } else { c }).collect::<String>();
    let word =
        |word: &str| if shape(word) == "9999-99-99" { "[DATE]----".to_owned() } else { word.to_owned() };
    let redacted = home.redact(text, run);
    let lines = redacted.lines().map(|line| line.split(' ').map(word).collect::<Vec<_>>().join(" "));
    lines.collect::<Vec<_>>().join("\n")
}

/// A table in which columns are as wide as times that differ: without the widths of its columns, and without what fits into
/// a cell that is cut.
fn without_column_widths(pages: &str) -> String {
    let cells = |line: &str| {
        let cells = line.split("  ").map(str::trim).filter(|cell| !cell.is_empty());
        let cells = cells.map(|cell| if cell.ends_with('…') { "…" } else { cell });
        cells.collect::<Vec<_>>().join("  ")
    };
    pages.lines().map(cells).collect::<Vec<_>>().join("\n")
}

#[track_caller]
fn pages(home: &Home, run: &str, args: &[&str]) -> String {
    pages_with_code(home, run, args, 0)
}

/// The words of the heading of a table at each width.
fn heads<'a>(pages: &'a str, first: &str) -> Vec<Vec<&'a str>> {
    let heads = pages.lines().filter(|line| line.starts_with(first));
    heads.map(|line| line.split_whitespace().collect()).collect()
}

#[test]
fn a_list_of_runs_fits_every_terminal() {
    let (home, run) = looked_at();
    let pages_of = |args: &[&str]| pages(&home, &run, args);
    let page = pages_of(&["ps"]);
    let heads = heads(&page, "RUN ");
    assert!(!heads[0].contains(&"DIR") && heads[0].ends_with(&["REQUEST"]), "{heads:?}");
    let all = ["RUN", "STATUS", "AGENTS", "TIME", "COST", "STARTED", "DIR", "REQUEST"];
    assert_eq!(heads[2], all);
    pages_of(&["ps", "--tree"]);
}

#[test]
fn a_run_fits_every_terminal() {
    let (home, run) = looked_at();
    let page = pages(&home, &run, &["show", &run]);
    let heads = heads(&page, "AGENT ");
    assert_eq!((heads[0][0], heads[0].last()), ("AGENT", Some(&"TITLE")), "{heads:?}");
    assert!(
        heads[0].contains(&"STATE") && heads[0].contains(&"USD") && !heads[0].contains(&"CALLS"),
        "{heads:?}"
    );
    assert_eq!(heads[2].len(), 10, "{heads:?}");
    // What has no room in its row is whole beneath it.
    assert_eq!(
        page.replace("\n   ", "").matches("nothing of it was done (MODEL_ERROR)]").count(),
        3,
        "{page}"
    );
}

#[test]
fn figures_fit_every_terminal() {
    let (home, run) = looked_at();
    let page = pages(&home, &run, &["stats", &run]);
    let heads = heads(&page, "SUBTREE ");
    assert!(heads[0].contains(&"USD") && !heads[0].contains(&"CACHED"), "{heads:?}");
    assert_eq!(heads[2].len(), 9, "{heads:?}");
    pages(&home, &run, &["stats"]);
}

/// What of an output is compared.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Comparison {
    /// All of it.
    Whole,
    /// All of it but the widths of columns.
    Cells,
    /// Only that no line is longer than the terminal: the rest depends on the machine or on the moment.
    Widths,
}
use Comparison::{Cells, Whole, Widths};

/// The verbs that only read, as they are typed after the run of [`SCRIPT`]; `RUN` is its id.
const READING: &[(&str, i32, Comparison)] = &[
    ("ps", 0, Cells),
    ("ps --tree", 0, Cells),
    ("show RUN", 0, Whole),
    ("stats", 0, Cells),
    ("stats RUN", 0, Cells),
    ("logs RUN", 0, Whole),
    ("logs --refused RUN", 0, Whole),
    ("trace RUN", 0, Widths),
    ("trace RUN.2", 0, Widths),
    ("report RUN", 0, Whole),
    ("report RUN.1", 0, Whole),
    ("diff RUN", 0, Whole),
    ("salvage RUN", 0, Whole),
    ("wait RUN", 0, Whole),
    ("attach --plain RUN", 0, Whole),
    ("resume --plain RUN", 0, Whole),
    ("verify RUN", 0, Whole),
    ("verify --all", 0, Whole),
    ("explain RUN.1 write:a-file-with-a-long-name.txt", 0, Whole),
    ("explain RUN.2 bash:make", 0, Widths),
    ("send RUN more", 1, Whole),
    ("cancel RUN", 1, Whole),
    ("kill RUN.2", 1, Whole),
    ("approve", 1, Whole),
    ("deny", 1, Whole),
    ("approvals", 0, Whole),
    ("approvals revoke --all --yes", 0, Whole),
    ("agents", 0, Whole),
    ("agents show explore", 0, Widths),
    ("agents validate", 0, Whole),
    ("skills", 0, Whole),
    ("skills show changelog", 0, Whole),
    ("skills validate", 0, Whole),
    ("plan check plan.yaml", 0, Whole),
    ("models", 0, Widths),
    ("models --all", 0, Widths),
    ("settings", 0, Whole),
    ("trust --list", 0, Whole),
    ("token", 2, Whole),
    ("token ls", 0, Cells),
    ("token revoke none", 1, Whole),
    ("gc --dry-run", 0, Widths),
    ("doctor", 0, Widths),
    ("help", 0, Whole),
    ("help run", 0, Whole),
    ("help doctor", 0, Whole),
    ("show RUN.9", 2, Whole),
    ("shwo", 2, Whole),
    ("run", 2, Whole),
];

/// Verbs without a snapshot of their own here, each with the reason.
const ELSEWHERE: &[(&str, &str)] = &[
    ("top", "a full-screen view, with snapshots beside it in `crates/cli/src/top`"),
    ("demo", "a live view like that of every run, in `cli_live.rs`; its steps run at the same time"),
    ("serve", "prints one line with a random port and runs until it is stopped"),
    ("completions", "a script for a shell"),
    ("man", "a page for `man`, which breaks its lines"),
    ("plan schema", "JSON"),
    ("token new", "prints one random word, which no line can break"),
];

/// Longest name of a snapshot, in characters.
const NAME_MAX_CHARS: usize = 48;

/// The name of the snapshot of a command.
fn snapshot_of(command: &str) -> String {
    let command = command.replace(" --model scripted/script.yaml", "").replace(" --on-ask escalate", "");
    let command = command.replace("--", "");
    let name = command.chars().filter(|c| *c != '"').map(|c| if c.is_ascii_alphanumeric() { c } else { '_' });
    format!("width_{}", name.take(NAME_MAX_CHARS).collect::<String>())
}

#[test]
fn the_verbs_that_read_fit_every_terminal() {
    let (home, run) = looked_at();
    home.posse(&["token", "new", "a-page-on-a-phone", "--right", "read", "--right", "answer"]).exits(0);
    for (command, code, compared) in READING {
        let typed = command.replace("RUN", &run);
        let args: Vec<&str> = typed.split(' ').collect();
        let pages = pages_with_code(&home, &run, &args, *code);
        // Variables of the tests are settings too.
        let is_set = *command == "settings" && workspace_kind::given().is_some();
        match compared {
            Whole if is_set => {}
            Whole => insta::assert_snapshot!(snapshot_of(command), pages),
            Cells => insta::assert_snapshot!(snapshot_of(command), without_column_widths(&pages)),
            Widths => {}
        }
    }
}

/// Verbs that change something, in the order of one story for each width.
struct Story {
    home: Home,
    columns: u16,
    /// The runs, in the order in which they were started.
    runs: Vec<String>,
    /// The commands so far, each with its output.
    pages: Vec<(&'static str, String)>,
}

impl Story {
    fn new(columns: u16, script: &str) -> Self {
        let home = Home::with_short_path();
        home.not_replayed("what it prints is compared, and other stories replay the same");
        home.write("script.yaml", script);
        let plan = serde_json::to_string(PLAN).expect("JSON");
        home.write("planner.yaml", &format!("- reply: {{text: {plan}}}\n"));
        Self { home, columns, runs: Vec::new(), pages: Vec::new() }
    }

    /// Types a command, and answers the questions that it asks.
    #[track_caller]
    fn types(&mut self, command: &'static str, code: i32, dialog: &[(&str, &str)]) {
        let run = self.runs.last().cloned().unwrap_or_default();
        let typed = command.replace("RUN", &run);
        // A request is one argument.
        let (typed, request) = typed.split_once('"').map_or((&*typed, None), |(verb, request)| {
            (verb.trim_end(), Some(request.trim_end_matches('"')))
        });
        let args: Vec<&str> = typed.split(' ').chain(request).collect();
        let mut command_line = on_a_real_terminal(&self.home, &[&["--color=never"], &args[..]].concat());
        if command == "init" {
            // It names the program as it was called.
            command_line.arg0("posse");
        }
        let mut terminal = Terminal::with_columns(command_line, self.columns);
        for (shown, answer) in dialog {
            terminal.until(shown);
            terminal.types(answer);
        }
        let (written, ended) = terminal.ends();
        assert_eq!(ended, Some(code), "{args:?}: {written}");
        let text = written.replace('\r', "");
        assert_fits(&args, &text, self.columns);
        self.pages.push((command, text));
        let listed = self.home.posse(&["ps", "--all", "--json"]).json_lines();
        for run in listed.iter().rev().map(run_of) {
            if !self.runs.contains(&run) {
                self.runs.push(run);
            }
        }
    }

    /// Waits until the newest run has an event of this kind.
    fn waits_for(&self, kind: &str) {
        let run = self.runs.last().expect("a run");
        self.home.start(&["logs", "-f", "--json", run]).until_event("", kind);
    }

    /// The pages with the names of runs that are the same every time.
    fn told(self) -> Vec<(&'static str, String)> {
        let Self { home, columns, runs, pages } = self;
        let told = |text: String| {
            let text = runs
                .iter()
                .enumerate()
                .fold(text, |text, (n, run)| text.replace(run, &format!("RUN{n}----")));
            format!("-- {columns} columns\n{}\n", redact(&home, &text, "no run"))
        };
        let told = |(command, text): (&'static str, String)| {
            let page = told(text);
            let is_table = command.starts_with("ps");
            (command, if is_table { without_column_widths(&page) + "\n" } else { page })
        };
        pages.into_iter().map(told).collect()
    }
}

/// Commands of stories that print random names and sizes.
const VARYING: [&str; 2] = ["export", "gc"];

/// Compares what one story prints at each width.
fn compare(stories: Vec<Vec<(&'static str, String)>>) {
    let mut stories = stories.into_iter();
    let mut whole = stories.next().expect("a story");
    for story in stories {
        for ((command, pages), (same, page)) in whole.iter_mut().zip(story) {
            assert_eq!(*command, same);
            pages.push_str(&page);
        }
    }
    for (at, (command, pages)) in whole.iter().enumerate() {
        assert!(!whole[..at].iter().any(|(before, _)| before == command), "{command} is typed twice");
        if !VARYING.iter().any(|verb| command.starts_with(verb)) {
            insta::assert_snapshot!(snapshot_of(command), pages);
        }
    }
}

const WRITES: &str = r#"
- when: {turn: 1, contains: "again"}
  reply: {text: "It was right the first time, so there is nothing to change in the notes about the file."}
  latency_ms: 1100
- when: {turn: 1}
  reply: {tool_calls: [{name: write, input: {path: notes-about-the-format.txt, content: "one\ntwo\n"}}]}
  latency_ms: 1100
- reply: {text: "The notes are in notes-about-the-format.txt, and nothing else in this project was changed by it."}
"#;

/// The commands of the story of a run that changes files.
const CHANGING: &[&str] = &[
    "run --plain --ask write --model scripted/script.yaml \"Write notes about the old and the new format of the file\"",
    "plan --plain --model scripted/planner.yaml -o made.yaml \"Bring every place that reads the file to its new format\"",
    "diff --name-status @2",
    "apply @2",
    "apply --undo @2",
    "salvage @2 --restore back",
    "continue --plain @2 \"look at it again\"",
    "export @ -o run.posse",
    "init",
    "trust",
    "gc",
    "rm @",
];

#[test]
fn the_verbs_that_change_files_fit_every_terminal() {
    compare(
        WIDTHS
            .map(|columns| {
                let mut story = Story::new(columns, WRITES);
                for command in CHANGING {
                    let dialog: &[(&str, &str)] = match command.split(' ').next() {
                        Some("run") => &[("[Enter = deny]:", "o\n")],
                        Some("trust" | "gc" | "rm") => &[("[y/N] ", "y\n")],
                        _ => &[],
                    };
                    if *command == "gc" {
                        story.home.write_settings("gc: {workspaces: 0}\n");
                    }
                    story.types(command, 0, dialog);
                }
                story.told()
            })
            .into(),
    );
}

const STUCK: &str = r#"
- when: {turn: 1}
  reply: {tool_calls: [{name: write, input: {path: notes-about-the-format.txt, content: "one\ntwo\n"}}]}
- reply: {text: "The notes were not written, because the user did not allow the agent to write them at that time."}
  latency_ms: 1100
"#;

/// The commands of the story of runs that wait for an answer.
const STEERING: &[&str] = &[
    "run -d --ask write --on-ask escalate --model scripted/script.yaml \"Write notes about the old and the new format of the file\"",
    "ps --status waiting",
    "approvals --quiet",
    "approve --quiet",
    "send RUN \"look at the tests of the reader too, and at those of the writer\"",
    "deny RUN --reason not-now",
    "wait @",
    "run -d --ask write --on-ask escalate --model scripted/script.yaml \"Write the notes once more\"",
    "cancel @",
    "retry --plain @",
    "run -d --ask write --on-ask escalate --model scripted/script.yaml \"Write the notes a third time\"",
    "kill @",
];

#[test]
fn the_verbs_that_steer_a_run_fit_every_terminal() {
    compare(
        WIDTHS
            .map(|columns| {
                let mut story = Story::new(columns, STUCK);
                for command in STEERING {
                    let (code, dialog): (i32, &[(&str, &str)]) = match command.split(' ').next() {
                        Some("approve") => (1, &[("[y/N] ", "\n")]),
                        Some("deny") => (0, &[("[y/N] ", "y\n")]),
                        _ => (0, &[]),
                    };
                    story.types(command, code, dialog);
                    if command.starts_with("run ") {
                        story.waits_for("agent.input_requested");
                    }
                }
                story.told()
            })
            .into(),
    );
}

#[test]
fn every_verb_has_a_snapshot_at_every_width() {
    let verbs = Home::new().verbs_and_subverbs();
    let reading = READING.iter().map(|(command, _, _)| *command);
    let typed: Vec<&str> = reading.chain(CHANGING.iter().copied()).chain(STEERING.iter().copied()).collect();
    // `plan check plan.yaml` is a command of `plan check`, not of `plan`.
    let verb_of = |command: &str| {
        let words: Vec<&str> = command.split(' ').collect();
        let two = words.get(..2).map(|two| two.join(" ")).filter(|two| verbs.contains(two));
        two.unwrap_or_else(|| words[0].to_owned())
    };
    let looked_at: BTreeSet<String> = typed.into_iter().map(verb_of).collect();
    for verb in &verbs {
        let is_elsewhere = ELSEWHERE.iter().any(|(name, _)| name == verb);
        assert!(
            looked_at.contains(verb) != is_elsewhere,
            "`posse {verb}` is typed here: {}, and listed as compared elsewhere: {is_elsewhere}",
            looked_at.contains(verb)
        );
    }
    for (verb, _) in ELSEWHERE {
        assert!(verbs.iter().any(|known| known == verb), "there is no verb `{verb}`");
    }
}

#[test]
fn states_are_coloured_on_a_terminal_and_only_there() {
    let (home, run) = looked_at();
    for args in [&["ps"][..], &["show", &run]] {
        let (coloured, _) = on_terminal(on_a_real_terminal(&home, args), 100, 24);
        assert!(coloured.contains("\u{1b}[38;5;10mcompleted\u{1b}[0m"), "{coloured:?}");
        let mut command = on_a_real_terminal(&home, args);
        command.env("NO_COLOR", "1");
        let (plain, _) = on_terminal(command, 100, 24);
        assert!(!plain.contains('\u{1b}'), "{plain:?}");
        assert!(!home.posse(args).exits(0).stdout.contains('\u{1b}'));
    }
}

#[test]
fn times_are_in_the_zone_of_the_user() {
    let (home, run) = looked_at();
    let utc = home.posse(&["show", "--json", &run]).exits(0).json()["created_at"]
        .as_str()
        .expect("a time")
        .to_owned();
    // Nowhere on earth is it this time, so that no other zone is printed by chance.
    home.set("TZ", "XYZ-13:30");
    let at: jiff::Timestamp = utc.parse().expect("a time");
    let local = at.to_zoned(jiff::tz::TimeZone::fixed(jiff::tz::offset(13))).datetime();
    let hour = local
        .checked_add(jiff::Span::new().minutes(30))
        .expect("a time")
        .strftime("%Y-%m-%d %H:%M")
        .to_string();
    let hour = &hour[..15];
    let page = home.posse(&["show", &run]).exits(0).stdout;
    assert!(page.contains(hour), "{hour}: {page}");
    for args in [&["logs", &run][..], &["trace", &run], &["logs", "--refused", &run]] {
        let page = home.posse(args).exits(0).stdout;
        assert!(
            page.contains(&format!(" {}", &hour[11..])) || page.contains(&format!("\n{}", &hour[11..])),
            "{args:?}, {hour}: {page}"
        );
    }
}
