//! Discovery in real directories: what is found, in which order, and what must never be found.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use super::*;

/// A directory without links in its path.
struct Tree {
    _keep: tempfile::TempDir,
    top: PathBuf,
}

impl Tree {
    fn new(files: &[(&str, &str)]) -> Self {
        let keep = tempfile::tempdir().expect("a directory");
        let top = keep.path().canonicalize().expect("a path");
        let tree = Self { _keep: keep, top };
        for (path, text) in files {
            tree.write(path, text);
        }
        tree
    }

    fn at(&self, path: &str) -> PathBuf {
        self.top.join(path)
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.at(path);
        fs::create_dir_all(path.parent().expect("a parent")).expect("directories");
        fs::write(path, text).expect("written");
    }

    fn link(&self, path: &str, target: impl AsRef<Path>) {
        let path = self.at(path);
        fs::create_dir_all(path.parent().expect("a parent")).expect("directories");
        symlink(target, path).expect("linked");
    }

    fn place(&self, dir: &str, holds: DefinitionType, within: Option<&str>) -> SearchDir {
        SearchDir { dir: self.at(dir), holds, within: within.map(|within| self.at(within)) }
    }

    /// The found paths, and the skipped paths with the reason.
    fn look(&self, places: &[SearchDir]) -> (Vec<String>, Vec<(String, SkipReason)>) {
        let shown = |path: &Path| path.strip_prefix(&self.top).unwrap_or(path).display().to_string();
        let found = discover(places, MAX_BYTES, |file| shown(&file.path));
        let passed = found.skipped.iter().map(|passed| (shown(&passed.path), passed.why.clone()));
        (found.found, passed.collect())
    }
}

const PROJECT: Option<&str> = Some("p");
/// Maximum size of a file in these tests.
const MAX_BYTES: u64 = 1_000;

#[test]
fn files_come_by_place_and_then_by_path() {
    let tree = Tree::new(&[
        ("a/zeta.md", ""),
        ("a/alpha.md", ""),
        ("a/team/beta.MD", ""),
        ("a/team/deeper/never.md", ""),
        ("a/README.md", ""),
        ("a/.hidden.md", ""),
        ("a/notes.txt", ""),
        ("b/gamma.md", ""),
    ]);
    let places = [("b", None), ("nowhere", None), ("a", None)]
        .map(|(dir, within)| tree.place(dir, DefinitionType::Agents, within));
    assert_eq!(
        tree.look(&places),
        (["b/gamma.md", "a/alpha.md", "a/team/beta.MD", "a/zeta.md"].map(String::from).to_vec(), vec![])
    );
}

#[test]
fn skills_are_folders_with_their_file_or_yaml() {
    let tree = Tree::new(&[
        ("s/pdf/SKILL.md", ""),
        ("s/pdf/scripts/run.sh", ""),
        ("s/empty/notes.md", ""),
        ("s/summarize.yaml", ""),
        ("s/review.yml", ""),
        ("s/loose.md", ""),
    ]);
    let found = tree.look(&[tree.place("s", DefinitionType::Skills, None)]);
    assert_eq!(
        found,
        (["s/pdf/SKILL.md", "s/review.yml", "s/summarize.yaml"].map(String::from).to_vec(), vec![])
    );
}

#[test]
fn the_content_and_the_form_are_given() {
    let tree = Tree::new(&[("p/a/x.md", "hello"), ("p/s/x/SKILL.md", "skill"), ("p/s/y.yml", "y: 1")]);
    let places = [
        tree.place("p/a", DefinitionType::Agents, PROJECT),
        tree.place("p/s", DefinitionType::Skills, PROJECT),
    ];
    let found = discover(&places, MAX_BYTES, |file| (file.place, file.form, file.content, file.real));
    assert_eq!(
        found.found,
        vec![
            (0, Form::Agent, b"hello".to_vec(), tree.at("p/a/x.md")),
            (1, Form::SkillFolder, b"skill".to_vec(), tree.at("p/s/x/SKILL.md")),
            (1, Form::YamlSkill, b"y: 1".to_vec(), tree.at("p/s/y.yml")),
        ]
    );
}

#[test]
fn nothing_in_a_project_leads_out_of_it() {
    let tree =
        Tree::new(&[("home/.ssh/id_rsa", "secret"), ("home/skills/own/SKILL.md", ""), ("p/a/good.md", "")]);
    tree.link("p/a/absolute.md", tree.at("home/.ssh/id_rsa"));
    tree.link("p/a/relative.md", "../../home/.ssh/id_rsa");
    tree.link("p/a/chain.md", "relative.md");
    tree.link("p/s/own", tree.at("home/skills/own"));
    tree.link("p/linked", tree.at("home/skills"));
    let places = [
        tree.place("p/a", DefinitionType::Agents, PROJECT),
        tree.place("p/s", DefinitionType::Skills, PROJECT),
        tree.place("p/linked", DefinitionType::Skills, PROJECT),
    ];
    let (found, passed) = tree.look(&places);
    assert_eq!(found, ["p/a/good.md"]);
    let out = ["p/a/absolute.md", "p/a/chain.md", "p/a/relative.md", "p/s/own/SKILL.md", "p/linked"];
    assert_eq!(passed, out.map(|path| (path.to_owned(), SkipReason::LeadsOut)));
}

#[test]
fn links_within_a_project_are_followed_unless_git_ignores_what_they_lead_to() {
    let tree = Tree::new(&[
        ("p/.gitignore", ".env\nprivate/\n"),
        ("p/.env", "KEY=1"),
        ("p/private/notes.md", ""),
        ("p/.git/config", "token"),
        ("p/shared/one.md", "one"),
        ("p/t/skill/SKILL.md", "skill"),
    ]);
    tree.link("p/a/one.md", "../shared/one.md");
    tree.link("p/a/env.md", "../.env");
    tree.link("p/a/notes.md", tree.at("p/private/notes.md"));
    tree.link("p/a/token.md", "../.git/config");
    tree.link("p/s/skill", "../t/skill");
    let places = [
        tree.place("p/a", DefinitionType::Agents, PROJECT),
        tree.place("p/s", DefinitionType::Skills, PROJECT),
        tree.place("p/t", DefinitionType::Skills, PROJECT),
    ];
    let (found, passed) = tree.look(&places);
    assert_eq!(found, ["p/a/one.md", "p/s/skill/SKILL.md", "p/t/skill/SKILL.md"]);
    let ignored = ["p/a/env.md", "p/a/notes.md", "p/a/token.md"];
    assert_eq!(passed, ignored.map(|path| (path.to_owned(), SkipReason::Ignored)));
    let real = discover(&places, MAX_BYTES, |file| file.real).found;
    let skill = tree.at("p/t/skill/SKILL.md");
    assert_eq!(real, [tree.at("p/shared/one.md"), skill.clone(), skill]);
}

#[test]
fn no_link_makes_another_folder_of_a_project_a_skill() {
    let tree = Tree::new(&[
        ("p/SKILL.md", ""),
        ("p/src/SKILL.md", ""),
        ("p/s/SKILL.md", ""),
        ("p/s/good/SKILL.md", ""),
        ("p/t/other/deep/SKILL.md", ""),
        ("p/lib/more/SKILL.md", ""),
    ]);
    tree.link("p/s/root", "../");
    tree.link("p/s/place", ".");
    tree.link("p/s/src", "../src");
    tree.link("p/s/file/SKILL.md", "../../SKILL.md");
    tree.link("p/s/deep", "../t/other/deep");
    tree.link("p/linked", "lib");
    let places = ["p/s", "p/t", "p/linked"].map(|dir| tree.place(dir, DefinitionType::Skills, PROJECT));
    let (found, passed) = tree.look(&places);
    assert_eq!(found, ["p/s/deep/SKILL.md", "p/s/good/SKILL.md"]);
    let refused = ["p/s/file", "p/s/place", "p/s/root", "p/s/src", "p/linked/more"];
    assert_eq!(passed, refused.map(|path| (format!("{path}/SKILL.md"), SkipReason::NoSkill)));
}

#[test]
fn another_programs_ignore_file_does_not_let_in_what_git_ignores() {
    let tree = Tree::new(&[("p/.gitignore", ".env\n"), ("p/.ignore", "!.env\n"), ("p/.env", "KEY=1")]);
    tree.link("p/a/env.md", "../.env");
    let (found, passed) = tree.look(&[tree.place("p/a", DefinitionType::Agents, PROJECT)]);
    assert_eq!(found, [""; 0]);
    assert_eq!(passed, [("p/a/env.md".to_owned(), SkipReason::Ignored)]);
}

#[test]
fn a_persons_links_go_wherever_they_go() {
    let tree = Tree::new(&[("dotfiles/one.md", ""), ("dotfiles/skill/SKILL.md", "")]);
    tree.link("u/a/one.md", tree.at("dotfiles/one.md"));
    tree.link("u/a/gone.md", tree.at("dotfiles/nothing.md"));
    tree.link("u/s/skill", "../../dotfiles/skill");
    tree.link("u/s/file", "../../dotfiles/one.md");
    let places =
        [tree.place("u/a", DefinitionType::Agents, None), tree.place("u/s", DefinitionType::Skills, None)];
    let (found, passed) = tree.look(&places);
    assert_eq!(found, ["u/a/one.md", "u/s/skill/SKILL.md"]);
    assert_eq!(passed.len(), 1, "{passed:?}");
    assert_eq!(passed[0].0, "u/a/gone.md");
}

#[test]
fn one_bad_file_hides_no_other() {
    let tree = Tree::new(&[("a/one.md", "1"), ("a/two.md", "2")]);
    rustix::fs::mknodat(
        rustix::fs::CWD,
        tree.at("a/pipe.md"),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RWXU,
        0,
    )
    .expect("a pipe");
    let listener = std::os::unix::net::UnixListener::bind(tree.at("a/socket.md")).expect("a socket");
    let most = usize::try_from(MAX_BYTES).expect("fits");
    tree.write("a/giant.md", &"x".repeat(most + 1));
    tree.write("a/large.md", &"x".repeat(most));
    tree.link("a/zero.md", "/dev/zero");
    let (found, passed) = tree.look(&[tree.place("a", DefinitionType::Agents, None)]);
    assert_eq!(found, ["a/large.md", "a/one.md", "a/two.md"]);
    let expected = [
        ("a/giant.md", SkipReason::TooLarge(MAX_BYTES)),
        ("a/pipe.md", SkipReason::NotRegular),
        ("a/socket.md", SkipReason::NotRegular),
        ("a/zero.md", SkipReason::NotRegular),
    ];
    assert_eq!(passed, expected.map(|(path, why)| (path.to_owned(), why)));
    drop(listener);
}

#[test]
fn too_many_files_are_cut_and_told() {
    let tree = Tree::new(&[]);
    fs::create_dir(tree.at("a")).expect("a directory");
    for number in 0..=PLACE_MAX_FILES {
        fs::write(tree.at(&format!("a/{number:05}.md")), "").expect("written");
    }
    let (found, passed) = tree.look(&[tree.place("a", DefinitionType::Agents, None)]);
    assert_eq!(found.len(), PLACE_MAX_FILES);
    assert!(found.is_sorted(), "however many are open at once");
    assert_eq!(passed, [("a".to_owned(), SkipReason::TooMany)]);
}

#[test]
fn the_nearest_instructions_count_up_to_the_root() {
    let tree = Tree::new(&[("AGENTS.md", "outside"), ("p/AGENTS.md", "root"), ("p/a/AGENTS.md", "a")]);
    fs::create_dir_all(tree.at("p/a/b")).expect("directories");
    fs::create_dir_all(tree.at("p/c")).expect("directories");
    fs::create_dir_all(tree.at("q")).expect("directories");
    let nearest = |dir: &str, root: &str| {
        let found = nearest_file(&tree.at(dir), &tree.at(root), "AGENTS.md", 100);
        found.map(|found| found.map(|found| found.text)).map_err(|passed| passed.why)
    };
    assert_eq!(nearest("p/a/b", "p"), Ok(Some("a".to_owned())));
    assert_eq!(nearest("p/c", "p"), Ok(Some("root".to_owned())));
    assert_eq!(nearest("q", "q"), Ok(None));
    tree.link("p/c/AGENTS.md", tree.at("AGENTS.md"));
    assert_eq!(nearest("p/c", "p"), Err(SkipReason::LeadsOut));
    tree.write("p/a/b/AGENTS.md", &"x".repeat(101));
    assert_eq!(nearest("p/a/b", "p"), Ok(Some("x".repeat(100))), "its beginning counts");
}
