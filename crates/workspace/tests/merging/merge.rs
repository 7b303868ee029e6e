//! Merges, conflicts, and changes that the gate refuses.

use posse_engine::ports::{Merge, RefusedCode};
use posse_workspace::{ObjectId, TreeMerge, merge};

use crate::plumbing::{Bare, EXECUTABLE, FILE, LINK, SUBMODULE, Tree, tree, with};

const LINES: &str = "1\n2\n3\n4\n5\n6\n7\n8\n";

fn start() -> Tree {
    tree(&[("a.txt", LINES), ("src/b.txt", LINES), ("src/deep/c.txt", LINES)])
}

fn merged(repo: &Bare, request: &TreeMerge) -> (ObjectId, ObjectId, u64) {
    match merge(&repo.git(), request).expect("merged") {
        Some(Merge::Merged { commit, tree, paths }) => (commit, tree, paths),
        other => panic!("not merged: {other:?}"),
    }
}

fn refused(repo: &Bare, request: &TreeMerge) -> (RefusedCode, Vec<String>) {
    match merge(&repo.git(), request).expect("answered") {
        Some(Merge::Refused { code, problems }) => (code, problems),
        other => panic!("not refused: {other:?}"),
    }
}

/// Asserts that the gate refuses the child's own change with this code.
fn refuses(change: impl FnOnce(&Tree) -> Tree, code: RefusedCode) {
    let repo = Bare::new();
    let base = start();
    let theirs = change(&base);
    let mut request = repo.request(&base, &base, &theirs);
    request.protected = vec![".git".to_owned(), ".gitmodules".to_owned(), ".github/workflows".to_owned()];
    let (found, problems) = refused(&repo, &request);
    assert_eq!(found, code, "{problems:?}");
    assert!(problems.iter().all(|problem| problem.contains(": ")), "{problems:?}");
}

/// Such a name that the project has may be changed and removed, but no new one may be added.
#[test]
fn a_new_name_that_would_steer_a_terminal_is_refused() {
    for name in
        ["a\u{1b}]0;x\u{7}b", "r\rr", "n\nl", "t\tt", "rtl\u{202e}txt.exe", "c1\u{9b}31m", "d/\u{2066}x"]
    {
        refuses(|base| with(base, name, FILE, "x"), RefusedCode::Name);
        let repo = Bare::new();
        let base = with(&start(), name, FILE, "x");
        for theirs in [with(&base, name, FILE, "y"), start()] {
            merged(&repo, &repo.request(&base, &base, &theirs));
        }
    }
    let repo = Bare::new();
    let theirs = with(&start(), "\u{1f468}\u{200d}\u{1f467} \u{e4}.png", FILE, "x");
    merged(&repo, &repo.request(&start(), &start(), &theirs));
}

#[test]
fn both_sides_changes_come_together_in_a_commit_of_both() {
    let repo = Bare::new();
    let base = start();
    let ours = with(&base, "a.txt", FILE, &LINES.replace('1', "one"));
    let theirs = with(&with(&base, "a.txt", EXECUTABLE, &LINES.replace('8', "eight")), "new", FILE, "n");
    let request = repo.request(&base, &ours, &theirs);
    let (commit, tree, paths) = merged(&repo, &request);
    assert_eq!(paths, 2);
    assert_eq!(
        repo.plain(&["show", "-s", "--format=%T %P", &commit.to_string()], b"").trim(),
        format!("{tree} {} {}", request.ours, request.theirs)
    );
    let text = repo.plain(&["cat-file", "blob", &format!("{commit}:a.txt")], b"");
    assert_eq!(text, LINES.replace('1', "one").replace('8', "eight"));
    repo.plain(&["fsck", "--strict", "--no-dangling"], b"");
}

#[test]
fn a_child_that_changed_nothing_is_the_same() {
    let repo = Bare::new();
    let base = start();
    let ours = with(&base, "a.txt", FILE, "x");
    let mut request = repo.request(&base, &ours, &base);
    assert_eq!(merge(&repo.git(), &request).expect("answered"), None);
    request.theirs = request.base;
    assert_eq!(merge(&repo.git(), &request).expect("answered"), None);
}

#[test]
fn what_the_parent_has_already_is_merged_without_a_change() {
    let repo = Bare::new();
    let base = start();
    let both = with(&base, "a.txt", FILE, "x");
    let (_, _, paths) = merged(&repo, &repo.request(&base, &both, &both));
    assert_eq!(paths, 0);
}

#[test]
fn a_conflict_names_its_files_and_moves_nothing() {
    let repo = Bare::new();
    let mut base = start();
    base.insert("odd\nname".to_owned(), (FILE, LINES.as_bytes().to_vec()));
    let ours = with(&with(&base, "a.txt", FILE, "ours"), "odd\nname", FILE, "ours");
    let mut theirs = with(&base, "a.txt", FILE, "theirs");
    theirs.remove("odd\nname");
    let request = repo.request(&base, &ours, &theirs);
    let refs = repo.plain(&["for-each-ref"], b"");
    let answer = merge(&repo.git(), &request).expect("answered");
    assert_eq!(answer, Some(Merge::Conflict { files: vec!["a.txt".to_owned(), "odd\\nname".to_owned()] }));
    assert_eq!(repo.plain(&["for-each-ref"], b""), refs);
}

#[test]
fn a_missing_object_is_an_error_and_not_a_conflict() {
    let repo = Bare::new();
    let base = start();
    let mut request = repo.request(&base, &base, &with(&base, "x", FILE, "x"));
    request.ours = ObjectId::from_bytes([7; 20]);
    assert!(merge(&repo.git(), &request).is_err());
}

#[test]
fn a_change_beyond_what_the_child_owns_is_refused() {
    let repo = Bare::new();
    let base = start();
    for (path, owns, allowed) in [
        ("src/b.txt", vec!["src/**"], true),
        ("src/new/x", vec!["src/**"], true),
        ("a.txt", vec!["a.txt"], true),
        ("a.txt", vec![], true),
        ("a.txt", vec!["src/**"], false),
        ("src2/x", vec!["src/**"], false),
        ("a.txt2", vec!["a.txt"], false),
        ("A.txt", vec!["a.txt"], false),
    ] {
        let theirs = with(&base, path, FILE, "changed");
        let mut request = repo.request(&base, &base, &theirs);
        request.owns = owns.into_iter().map(str::to_owned).collect();
        if allowed {
            merged(&repo, &request);
        } else {
            let (code, problems) = refused(&repo, &request);
            assert_eq!((code, code.name()), (RefusedCode::Ownership, "OWNERSHIP_VIOLATION"));
            assert_eq!(problems, [format!("{path}: not owned by the child")]);
        }
    }
}

#[test]
fn a_deletion_or_a_move_out_of_what_is_owned_is_refused() {
    let repo = Bare::new();
    let base = start();
    let mut moved = base.clone();
    let content = moved.remove("a.txt").expect("there");
    moved.insert("src/a.txt".to_owned(), content);
    let mut request = repo.request(&base, &base, &moved);
    request.owns = vec!["src/**".to_owned()];
    assert_eq!(refused(&repo, &request).1, ["a.txt: not owned by the child"]);
}

#[test]
fn a_rename_by_the_parent_does_not_carry_a_change_beyond_what_is_owned() {
    let repo = Bare::new();
    let base = start();
    let mut ours = base.clone();
    let content = ours.remove("src/b.txt").expect("there");
    ours.insert("elsewhere/b.txt".to_owned(), content);
    let theirs = with(&base, "src/b.txt", FILE, &LINES.replace('8', "eight"));
    let mut request = repo.request(&base, &ours, &theirs);
    merged(&repo, &request);
    request.owns = vec!["src/**".to_owned()];
    let (code, problems) = refused(&repo, &request);
    assert_eq!(code, RefusedCode::Ownership);
    assert_eq!(problems, ["elsewhere/b.txt: not owned by the child"]);
}

#[test]
fn a_renamed_directory_of_the_parent_does_not_take_new_files_along() {
    let repo = Bare::new();
    let base = start();
    let mut ours = base.clone();
    for name in ["b.txt", "deep/c.txt"] {
        let content = ours.remove(&format!("src/{name}")).expect("there");
        ours.insert(format!("lib/{name}"), content);
    }
    let theirs = with(&base, "src/new.txt", FILE, "new");
    let (commit, ..) = merged(&repo, &repo.request(&base, &ours, &theirs));
    assert!(repo.files(&commit).contains_key("src/new.txt"));
}

#[test]
fn a_protected_name_is_refused_unless_a_person_opened_it() {
    let repo = Bare::new();
    let base = start();
    let theirs = with(&base, "sub/.github/workflows/ci.yml", FILE, "on: push");
    let mut request = repo.request(&base, &base, &theirs);
    request.protected = vec![".github/workflows".to_owned()];
    assert_eq!(refused(&repo, &request).0, RefusedCode::Protected);
    for (opened, enough) in [
        (".github/workflows", true),
        ("sub/.github/workflows/**", true),
        ("sub/.github/workflows/ci.yml", true),
        (".npmrc", false),
        (".github/workflows/**", false),
    ] {
        request.opened = vec![opened.to_owned()];
        let answer = merge(&repo.git(), &request).expect("answered");
        assert_eq!(matches!(answer, Some(Merge::Merged { .. })), enough, "{opened}");
    }
    refuses(|base| with(base, ".GitHub/Workflows/x", FILE, "x"), RefusedCode::Protected);
}

#[test]
fn links_that_leave_the_tree_are_refused_and_others_are_not() {
    for target in ["/etc/passwd", "../x", "src/../../x", "src/deep/../../../x", ".git/hooks", ""] {
        refuses(|base| with(base, "link", LINK, target), RefusedCode::Symlink);
    }
    let repo = Bare::new();
    let base = start();
    for target in ["a.txt", "src/deep", "src/../a.txt", "missing"] {
        merged(&repo, &repo.request(&base, &base, &with(&base, "link", LINK, target)));
    }
}

#[test]
fn a_link_that_makes_another_one_leave_is_refused_but_a_persons_own_is_kept() {
    let repo = Bare::new();
    let base = with(&with(&start(), "p/l", LINK, "d/../../a.txt"), "own", LINK, "/home/person");
    merged(&repo, &repo.request(&base, &base, &with(&base, "fine", LINK, "a.txt")));
    let theirs = with(&base, "p/d", LINK, ".");
    let (code, problems) = refused(&repo, &repo.request(&base, &base, &theirs));
    assert_eq!(code, RefusedCode::Symlink);
    assert_eq!(problems, ["p/l: a symbolic link that leaves the tree"]);
}

#[test]
fn two_halves_of_an_escape_are_refused_when_they_meet() {
    let repo = Bare::new();
    let base = start();
    let ours = with(&base, "p/d", LINK, ".");
    let theirs = with(&base, "p/l", LINK, "d/../../a.txt");
    let (code, _) = refused(&repo, &repo.request(&base, &ours, &theirs));
    assert_eq!(code, RefusedCode::Symlink, "each alone stays in the tree");
}

#[test]
fn submodules_are_neither_added_nor_changed_nor_removed() {
    let (one, two) = ("1".repeat(40), "2".repeat(40));
    refuses(|base| with(base, "sub", SUBMODULE, &one), RefusedCode::Submodule);
    for name in [".gitmodules", "x/.gitmodules", ".GITMODULES", "gitmod~1", ".gitmodules "] {
        refuses(|base| with(base, name, FILE, "[submodule \"x\"]"), RefusedCode::Submodule);
    }
    let repo = Bare::new();
    let base = with(&start(), "sub", SUBMODULE, &one);
    merged(&repo, &repo.request(&base, &base, &with(&base, "x", FILE, "beside one")));
    let changed = with(&base, "sub", SUBMODULE, &two);
    assert_eq!(refused(&repo, &repo.request(&base, &base, &changed)).0, RefusedCode::Submodule);
    assert_eq!(refused(&repo, &repo.request(&base, &base, &start())).0, RefusedCode::Submodule);
}

#[test]
fn whatever_could_become_git_is_refused() {
    for name in [".GIT/config", ".git ", "a/.git./x", "git~1", ".git::$INDEX_ALLOCATION/x", ".g\u{200c}it/x"]
    {
        refuses(|base| with(base, name, FILE, "x"), RefusedCode::DotGit);
    }
}

/// Trees that git itself would not create.
#[test]
fn hostile_trees_are_refused() {
    let repo = Bare::new();
    let base = start();
    let made = repo.commits(&[(None, &base)]);
    let blob = repo.plain(&["hash-object", "-w", "--stdin"], b"evil");
    let blob: ObjectId = blob.trim().parse().expect("a name");
    for (mode, name) in [
        ("100644", "../escape"),
        ("100644", ".."),
        ("100644", "."),
        ("100644", ".git"),
        ("100644", "a/../../b"),
        ("100644", "/etc/x"),
        ("100644", "a\\..\\..\\b"),
        ("160000", "sub"),
    ] {
        let mut content = format!("{mode} {name}\0").into_bytes();
        content.extend_from_slice(blob.as_bytes());
        let tree = repo.plain(&["hash-object", "-t", "tree", "-w", "--literally", "--stdin"], &content);
        let theirs =
            repo.plain(&["commit-tree", tree.trim(), "-m", "x"], b"").trim().parse().expect("a name");
        let request = crate::plumbing::request(made[0], made[0], theirs);
        let answer = merge(&repo.git(), &request);
        assert!(!matches!(answer, Ok(Some(Merge::Merged { .. }) | None)), "{name}: {answer:?}");
    }
}

#[test]
fn a_message_cannot_add_to_the_commit() {
    let repo = Bare::new();
    let base = start();
    let mut request = repo.request(&base, &base, &with(&base, "x", FILE, "x"));
    request.message = "posse: merge of \0x\n\nparent 0000\n\n\n".to_owned();
    let (commit, ..) = merged(&repo, &request);
    let parents = repo.plain(&["show", "-s", "--format=%P", &commit.to_string()], b"");
    assert_eq!(parents.split_whitespace().count(), 2);
    repo.plain(&["fsck", "--strict", "--no-dangling"], b"");
}

#[test]
fn nothing_in_a_message_steers_whoever_shows_it() {
    let repo = Bare::new();
    let base = start();
    for (title, shown) in [
        ("\u{1b}[2Jred\u{1b}[0m", "red"),
        ("\u{1b}]0;title\u{7}text", "text"),
        ("\u{9b}31mtext", "text"),
        ("a\u{8}\u{8}b", "ab"),
        ("safe\u{202e}live", "safelive"),
        ("zero\u{200b}width", "zerowidth"),
        ("a\u{2066}b\u{2069}", "ab"),
        ("tag\u{e0041}ged", "tagged"),
        ("nul\0byte", "nul byte"),
        ("bell\u{7}", "bell"),
        ("\u{feff}mark", "mark"),
        ("over\rwritten", "over written"),
    ] {
        let mut request = repo.request(&base, &base, &with(&base, "x", FILE, title));
        request.message = format!("posse: {title} (r1.1)\n");
        let (commit, ..) = merged(&repo, &request);
        let said = repo.plain(&["show", "-s", "--format=%s", &commit.to_string()], b"");
        assert_eq!(said.trim_end(), format!("posse: {shown} (r1.1)"), "{title:?}");
    }
}
