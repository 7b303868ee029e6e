//! Random paths through a workspace full of traps.

use proptest::prelude::*;

use super::*;

/// A scene with links of every kind, and names that combine to paths out of it.
fn trapped() -> Scene {
    let scene = Scene::new();
    scene.file("a/a/secret.txt", "ours\n").file("secret.txt", "ours\n").file("a/ws/secret.txt", "ours\n");
    scene.link("..", "up").link("../..", "a/up").link("../../ws-evil", "a/evil").link("../ws-evil", "evil");
    scene
        .link("/", "top")
        .link(scene.evil(""), "abs")
        .link("a", "in")
        .link("..", "a/a/back")
        .link(".", "here");
    scene.link(scene.evil("secret.txt"), "a/link").link("a/link", "link");
    scene
}

fn part() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec![
        "..",
        "..",
        ".",
        "",
        "a",
        "in",
        "here",
        "up",
        "back",
        "evil",
        "abs",
        "link",
        "ws",
        "ws-evil",
        "secret.txt",
        "top",
        "tmp",
        "SECRET-dir",
        "~",
    ])
}

fn path_text() -> impl Strategy<Value = String> {
    (any::<bool>(), prop::collection::vec(part(), 1..9))
        .prop_map(|(absolute, parts)| format!("{}{}", if absolute { "/" } else { "" }, parts.join("/")))
}

#[test]
fn no_path_leads_outside() {
    let scene = trapped();
    let stop = Stop::new();
    let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig::with_cases(3_000));
    runner
        .run(&path_text(), |text| {
            let Ok(path) = RelPath::parse(&text) else { return Ok(()) };
            if let Ok(bytes) = scene.beneath.read(&path) {
                prop_assert_eq!(bytes, b"ours\n");
            }
            if let Ok(listing) = scene.beneath.list(&path) {
                prop_assert!(listing.entries.iter().all(|entry| !entry.path.text().ends_with(SECRET)));
            }
            let query = GrepQuery { pattern: SECRET.into(), path: path.clone(), ..Default::default() };
            if let Ok(found) = scene.beneath.grep(&query, &stop) {
                prop_assert!(found.files.is_empty());
            }
            // Writes the same content again: it must not reach the outside, and changes nothing inside.
            let _ = scene.beneath.replace(&path, b"ours\n", hash("ours\n"), &stop);
            let _ = scene.beneath.replace(&path, b"ours\n", hash("SECRET\n"), &stop);
            Ok(())
        })
        .unwrap();
    assert_eq!(fs::read_to_string(scene.evil("secret.txt")).unwrap(), "SECRET\n");
    assert_eq!(fs::read_dir(scene.evil("")).unwrap().count(), 2);
}

proptest! {
    #[test]
    fn a_parsed_path_has_no_dots_and_parses_to_itself(text in "[a~./\\PC]{0,24}") {
        if let Ok(path) = RelPath::parse(&text) {
            prop_assert!(path.names().all(|name| name != ".." && name != "." && !name.is_empty()));
            prop_assert!(!path.as_path().is_absolute());
            prop_assert_eq!(spelled(&text), path.text());
            if !path.text().starts_with('~') {
                prop_assert_eq!(RelPath::parse(&path.text()), Ok(path));
            }
        } else if !text.is_empty() && !text.starts_with('~') {
            let spelling = spelled(&text);
            prop_assert!(spelling.starts_with('/') || spelling.starts_with(".."), "{}", spelling);
        }
    }

    #[test]
    fn no_pattern_panics(text in "\\PC{0,24}", name in "[a-z./*]{0,12}") {
        if let Ok(pattern) = GlobPattern::parse(&RelPath::root(), &text) {
            prop_assert!(pattern.base().names().all(|name| name != ".."));
        }
        let _ = GlobPattern::parse(&RelPath::root(), &name);
    }
}
