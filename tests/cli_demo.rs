//! The demo needs nothing, shows what it promises, and can be looked into.

use crate::support::Home;

#[test]
fn the_demo_splits_retries_refuses_and_says_what_to_type_next() {
    let home = Home::new();
    let done = home.posse(&["demo", "--fast"]).exits(0);
    let text = &done.stderr;
    for said in [" created lead at depth 2", "refused explore (MAX_DEPTH_EXCEEDED)", "attempt 2: overloaded"]
    {
        assert!(text.contains(said), "no {said:?} in:\n{text}");
    }
    assert!(done.stdout.starts_with("greet.py has a flag --shout now"), "{}", done.stdout);
    let mut typed = 0;
    for line in text.lines().filter_map(|line| line.split_once(" # ")) {
        let (command, _) = line;
        let words: Vec<String> =
            command.split_whitespace().skip(1).map(|word| word.replace('\'', "")).collect();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        home.posse(&words).exits(0);
        typed += 1;
    }
    assert!(typed >= 4, "{text}");
    let changed = text.lines().last().and_then(|line| line.split_once(": ")).expect("a file").1;
    assert!(std::fs::read_to_string(changed).expect("the file").contains("--shout"));
}

#[test]
fn a_demo_that_was_killed_can_be_resumed() {
    let home = Home::new();
    let mut command = home.command(&["demo"]);
    let mut child = command.stderr(std::process::Stdio::piped()).spawn().expect("it starts");
    let mut lines = std::io::BufRead::lines(std::io::BufReader::new(child.stderr.take().expect("stderr")));
    let created =
        lines.find(|line| line.as_ref().is_ok_and(|line| line.contains(".1 started"))).expect("a child");
    child.kill().expect("killed");
    child.wait().expect("ended");
    let run = created.expect("a line")[..8].to_owned();
    home.posse(&["resume", &run]).exits(0);
}
