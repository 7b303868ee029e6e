//! Recovery of a change from a crash at each possible point.

use super::*;

/// The names in `dir`, including temporary files that were left behind.
fn left_behind(bench: &Bench) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(bench.ws("dir"))
        .map(|dir| dir.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect())
        .unwrap_or_default();
    names.sort();
    names
}

/// A change of `dir/a.txt` from `old` to `new`, or its creation, by `write` or by `edit`.
struct Case {
    tool: &'static str,
    input: Value,
    before: Option<&'static str>,
    done: &'static str,
}

fn cases() -> Vec<Case> {
    let write = json!({"path": "dir/a.txt", "content": "new\n"});
    let edit = json!({"path": "dir/a.txt", "old_text": "old", "new_text": "new"});
    vec![
        Case {
            tool: "write",
            input: write.clone(),
            before: None,
            done: "Created `dir/a.txt`: 1 line, 4 bytes.",
        },
        Case {
            tool: "write",
            input: write,
            before: Some("old\n"),
            done: "Replaced `dir/a.txt`: 1 line, 4 bytes.",
        },
        Case { tool: "edit", input: edit, before: Some("old\n"), done: "Edited `dir/a.txt`." },
    ]
}

impl Case {
    /// The workspace before the change, and the change's intent.
    fn intended(&self) -> (Bench, WriteIntent) {
        let bench = Bench::new();
        if let Some(before) = self.before {
            bench.file("dir/a.txt", before);
            bench.ok("read", json!({"path": "dir/a.txt"}));
        }
        let intent = bench.prepare(self.tool, self.input.clone()).unwrap().write.unwrap();
        let expected = WriteIntent {
            path: "dir/a.txt".into(),
            before: self.before.map(|text| Hash::of(text.as_bytes())),
            after: Hash::of(b"new\n"),
        };
        assert_eq!(intent, expected);
        (bench, intent)
    }
}

#[test]
fn before_it_began_it_is_applied() {
    for case in cases() {
        let (mut bench, intent) = case.intended();
        bench.forget();
        let RecoveredEffect::Apply(prepared) = bench.recover(case.tool, case.input.clone(), intent.clone())
        else {
            panic!("{} should be applied", case.tool);
        };
        assert_eq!(prepared.write, Some(intent));
        bench.run(prepared).unwrap();
        assert_eq!(bench.content("dir/a.txt"), "new\n");
        assert_eq!(bench.call.seen.seen("dir/a.txt"), Some(Hash::of(b"new\n")));
    }
}

#[test]
fn with_half_of_it_written_it_is_applied_and_the_half_removed() {
    for case in cases() {
        let (mut bench, intent) = case.intended();
        bench.forget();
        let hash = Hash::of(b"a.txt").to_string();
        bench.file(&format!("dir/.posse-{}-0000000000000001.tmp", &hash[..16]), "ne");
        let RecoveredEffect::Apply(prepared) = bench.recover(case.tool, case.input.clone(), intent) else {
            panic!("{} should be applied", case.tool);
        };
        bench.run(prepared).unwrap();
        assert_eq!(left_behind(&bench), ["a.txt"]);
        assert_eq!(bench.content("dir/a.txt"), "new\n");
    }
}

#[test]
fn after_it_happened_it_is_done_and_not_repeated() {
    for case in cases() {
        let (mut bench, intent) = case.intended();
        let prepared = bench.prepare(case.tool, case.input.clone()).unwrap();
        bench.run(prepared).unwrap();
        bench.forget();
        let modified = fs::metadata(bench.ws("dir/a.txt")).unwrap().modified().unwrap();
        let RecoveredEffect::Done(output) = bench.recover(case.tool, case.input.clone(), intent) else {
            panic!("{} should be done", case.tool);
        };
        assert_eq!(output.text, case.done);
        assert_eq!(fs::metadata(bench.ws("dir/a.txt")).unwrap().modified().unwrap(), modified);
        assert_eq!(bench.call.seen.seen("dir/a.txt"), Some(Hash::of(b"new\n")), "it may go on writing");
    }
}

#[test]
fn anything_else_is_unknown_and_left_alone() {
    for case in cases() {
        let (mut bench, intent) = case.intended();
        bench.forget();
        bench.file("dir/a.txt", "theirs\n");
        assert!(matches!(
            bench.recover(case.tool, case.input.clone(), intent.clone()),
            RecoveredEffect::Unknown
        ));
        assert_eq!(bench.content("dir/a.txt"), "theirs\n");
        // An intent that does not match the input.
        let other = WriteIntent { path: "dir/b.txt".into(), ..intent.clone() };
        assert!(matches!(bench.recover(case.tool, case.input.clone(), other), RecoveredEffect::Unknown));
        let other = WriteIntent { after: Hash::ZERO, before: Some(Hash::of(b"theirs\n")), ..intent.clone() };
        assert!(matches!(bench.recover(case.tool, case.input.clone(), other), RecoveredEffect::Unknown));
        assert!(matches!(
            bench.recover(case.tool, json!({"path": 1}), intent.clone()),
            RecoveredEffect::Unknown
        ));
        fs::remove_dir_all(bench.ws("")).unwrap();
        assert!(matches!(bench.recover(case.tool, case.input, intent), RecoveredEffect::Unknown));
    }
}

#[test]
fn a_recovered_change_still_checks_before_it_writes() {
    for case in cases() {
        let (bench, intent) = case.intended();
        let RecoveredEffect::Apply(prepared) = bench.recover(case.tool, case.input.clone(), intent) else {
            panic!("{} should be applied", case.tool);
        };
        bench.file("dir/a.txt", "theirs\n");
        assert!(bench.run(prepared).is_err());
        assert_eq!(bench.content("dir/a.txt"), "theirs\n");
        assert_eq!(left_behind(&bench), ["a.txt"]);
    }
}

#[test]
fn what_is_no_write_has_no_recovery() {
    let bench = Bench::new();
    let intent = WriteIntent { path: "a".into(), before: None, after: Hash::ZERO };
    assert!(matches!(bench.recover("read", json!({"path": "a"}), intent), RecoveredEffect::Unknown));
}
