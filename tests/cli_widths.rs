//! What the verbs that read print on a terminal of 60, 80 and 120 columns: no line is longer, so that the terminal breaks
//! none within a word.

use std::fmt::Write;

use crate::cli_terminal::{on_a_real_terminal, on_terminal};
use crate::support::{Home, run_of};

const WIDTHS: [u16; 3] = [60, 80, 120];

/// A tree in which something completed, failed and was refused, with texts that are longer than a narrow terminal.
const SCRIPT: &str = r#"
facts: {price: {input: 3, output: 15}}
rules:
- when: {definition: coder, turn: 1}
  reply:
    text: I split this.
    tool_calls:
      - {name: task, input: {subagent_type: explore, description: find every place that reads the old format of the file, prompt: find}}
      - {name: task, input: {subagent_type: general, description: change each of them to the new format of the file, prompt: change}}
    usage: {input_tokens: 1200, output_tokens: 80}
- when: {definition: explore, turn: 1}
  reply:
    tool_calls: [{name: write, input: {path: a-file-with-a-long-name.txt, content: no}}]
    usage: {input_tokens: 300, output_tokens: 20}
- when: {definition: explore}
  reply: {text: "The old format is read in two places, and one of them is a test of the other one.", usage: {input_tokens: 400, output_tokens: 30}}
- when: {definition: general}
  error: {status: 400, message: "the request has a field that this model does not know, and nothing of it was done"}
- reply:
    text: "The first part was found. The second part failed, because the model did not take the request, so that nothing was changed."
    usage: {input_tokens: 1500, output_tokens: 40}
"#;

fn looked_at() -> (Home, String) {
    let home = Home::new();
    home.write("script.yaml", SCRIPT);
    let request = "Find every place that reads the old format of the file, and change it to the new one";
    let done = home.posse(&["run", "--json", "--model", "scripted/script.yaml", request]);
    let run = run_of(&done.exits(0).result());
    (home, run)
}

/// The output on terminals of all widths, each after its width.
#[track_caller]
fn pages(home: &Home, run: &str, args: &[&str]) -> String {
    let mut pages = String::new();
    for columns in WIDTHS {
        let (written, code) =
            on_terminal(on_a_real_terminal(home, &[&["--color=never"], args].concat()), columns, 24);
        assert_eq!(code, Some(0), "{args:?}: {written}");
        let text = written.replace('\r', "");
        for line in text.lines() {
            let length = line.chars().count();
            assert!(length <= usize::from(columns), "{args:?} at {columns} columns: {length}: {line}");
        }
        let _ = writeln!(pages, "-- {columns} columns\n{text}");
    }
    home.redact(&pages, run)
}

/// The words of the heading of a table at each width.
fn heads<'a>(pages: &'a str, first: &str) -> Vec<Vec<&'a str>> {
    let heads = pages.lines().filter(|line| line.starts_with(first));
    heads.map(|line| line.split_whitespace().collect()).collect()
}

#[test]
fn a_report_and_the_help_are_broken_between_words() {
    let (home, run) = looked_at();
    // How the last line is broken depends on the length of the state directory's path, which it names.
    let report = pages(&home, &run, &["report", &run]);
    let of_any_home = |page: &str| page.split("the reports of its sub-agents").next().map(str::to_owned);
    let report = report.split("-- ").filter_map(of_any_home).collect::<Vec<_>>().join("-- ");
    insta::assert_snapshot!("report_at_every_width", report);
    insta::assert_snapshot!("help_at_every_width", pages(&home, &run, &["help"]));
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

#[test]
fn the_other_verbs_that_read_fit_every_terminal() {
    let (home, run) = looked_at();
    for args in [
        &["report", &run][..],
        &["logs", &run],
        &["logs", "--refused", &run],
        &["salvage", &run],
        &["settings"],
        &["models"],
        &["models", "--all"],
        &["approvals"],
        &["help"],
        &["help", "run"],
        &["wait", &run],
        &["agents"],
    ] {
        pages(&home, &run, args);
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
