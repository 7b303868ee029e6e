//! The help and version of the command.

use crate::support::Home;

#[test]
fn the_help_names_every_verb_and_the_exit_codes() {
    let home = Home::new();
    let help = home.posse(&["--help"]).exits(0).stdout;
    insta::assert_snapshot!(help);
    assert!(!help.contains("__background"));
}

#[test]
fn every_verb_has_its_help() {
    let home = Home::new();
    let page = |verb: &String| home.posse(&[verb, "-h"]).exits(0).stdout + "\n";
    let pages: String = home.verbs().iter().map(page).collect();
    insta::assert_snapshot!(pages);
}

#[test]
fn shells_can_complete_every_verb() {
    let home = Home::new();
    let verbs = home.verbs();
    for shell in ["bash", "fish", "zsh"] {
        let script = home.posse(&["completions", shell]).exits(0).stdout;
        assert!(verbs.iter().all(|verb| script.contains(verb)), "{shell}");
    }
    home.posse(&["completions", "tcsh"]).exits(2);
}

#[test]
fn the_version_is_told() {
    let version = Home::new().posse(&["--version"]).exits(0);
    assert_eq!(version.stdout, format!("posse {}\n", env!("CARGO_PKG_VERSION")));
}

#[test]
fn without_a_verb_the_first_verbs_are_named() {
    let done = Home::new().posse(&[]).exits(2);
    assert!(done.stdout.is_empty() && done.stderr.contains("Usage: posse"), "{done:?}");
    for first in ["posse run \"", "posse demo", "posse ps", "posse help"] {
        assert!(done.stderr.contains(first), "{first}: {}", done.stderr);
    }
}

#[test]
fn help_is_a_verb_and_names_what_people_type() {
    let home = Home::new();
    let whole = home.posse(&["help"]).exits(0).stdout;
    assert_eq!(whole, home.posse(&["--help"]).exits(0).stdout);
    assert_eq!(home.posse(&["help", "run"]).exits(0).stdout, home.posse(&["run", "--help"]).exits(0).stdout);
    let check = home.posse(&["help", "plan", "check"]).exits(0).stdout;
    assert!(check.contains("Examples:\n  posse plan check plan.yaml"), "{check}");
    for verb in home.verbs() {
        let help = home.posse(&[&verb, "--help"]).exits(0).stdout;
        assert!(help.contains("Examples:\n  posse "), "{verb}: {help}");
    }
    home.write("script.yaml", "- reply: {text: done}\n");
    home.posse(&["run", "--model", "scripted/script.yaml", "look"]).exits(0);
    for (typed, verb) in [("list", "ps"), ("ls", "ps"), ("status", "show"), ("log", "logs")] {
        assert_eq!(
            home.posse(&[typed, "--json"]).exits(0).stdout,
            home.posse(&[verb, "--json"]).exits(0).stdout
        );
    }
    home.posse(&["stop", "@"]).exits(1);
    home.posse(&["remove", "@", "--yes"]).exits(0);
}
