//! The demo needs nothing, shows what it promises, and can be inspected.

use crate::support::Home;

#[test]
fn the_demo_merges_repairs_refuses_and_says_what_to_type_next() {
    let home = Home::new();
    let done = home.posse(&["demo", "--fast"]).exits(0);
    let text = &done.stderr;
    for said in [
        ".1 not integrated (CHECKS_FAILED)",
        ".3 not integrated (OWNERSHIP_VIOLATION)",
        ".4 closed: completed",
        ".5 closed: completed",
        "NOTES.md        new",
        "greet.sh        changed",
    ] {
        assert!(text.contains(said), "no {said:?} in:\n{text}");
    }
    assert!(!text.contains("THANKS.md  "), "what was refused is not in the tree:\n{text}");
    assert!(done.stdout.contains("1. add the flag (task 1): failed, then repaired"), "{}", done.stdout);
    let folder = text.lines().find_map(|line| line.split_once(" of /")).expect("a folder").1;
    let greet = std::path::Path::new("/").join(folder.trim_end_matches(':')).join("greet.sh");
    let shouts = || std::fs::read_to_string(&greet).expect("the file").contains("--shout");
    assert!(!shouts(), "nothing is checked out by itself");
    let mut typed = 0;
    for line in text.lines().filter_map(|line| line.split_once(" # ")) {
        let (command, _) = line;
        let words: Vec<&str> = command.split_whitespace().skip(1).collect();
        home.posse(&words).exits(0);
        typed += 1;
    }
    assert!(typed >= 8, "{text}");
    assert!(shouts(), "`apply`, the last of them, brings it into the checkout");
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

#[test]
fn without_a_sandbox_the_demo_skips_its_checks_says_so_and_ends_well() {
    let home = Home::new();
    let done = home.without_namespaces(&["demo", "--fast"]).exits(0);
    assert!(done.stderr.contains("the demo's checks are skipped"), "{}", done.stderr);
    assert!(done.stdout.contains("4. write the release notes (task 4): integrated"), "{}", done.stdout);
}

#[test]
fn the_folder_of_a_demo_goes_with_its_run() {
    let home = Home::new();
    home.not_replayed("its runs are removed");
    let folders = || -> Vec<std::path::PathBuf> {
        let entries = std::fs::read_dir(home.state_dir().join("demos")).expect("folders").flatten();
        entries.map(|entry| entry.path()).collect()
    };
    let demo = || {
        home.posse(&["demo", "--fast"]).exits(0);
        home.posse(&["ps", "-q", "-n", "1"]).exits(0).stdout.trim().to_owned()
    };
    let outside = || std::fs::read_dir(home.project().parent().expect("a home")).expect("listed").count();
    let before = outside();
    let (first, second) = (demo(), demo());
    assert_eq!((folders().len(), outside() - before), (2, 1), "only the state directory was created");
    let used =
        home.posse(&["show", "--json", &first]).exits(0).json()["dir"].as_str().expect("a path").to_owned();
    let plan = home.posse(&["gc", "--dry-run"]).exits(0).stdout;
    assert!(!plan.contains("demos"), "they are in use: {plan}");
    home.posse(&["rm", "--yes", &first]).exits(0);
    assert!(!folders().iter().any(|folder| folder.to_str() == Some(&used)) && folders().len() == 1);
    let would = home.posse(&["gc", "--runs", "0", "--dry-run"]).exits(0).stdout;
    assert!(would.contains("would remove folder ") && folders().len() == 1, "{would}");
    let cleaned = home.posse(&["gc", "--runs", "0", "--yes"]).exits(0).stdout;
    assert!(cleaned.contains("removed folder ") && folders().is_empty(), "{cleaned}");
    home.posse(&["show", &second]).exits(2);
}
