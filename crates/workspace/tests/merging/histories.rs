//! Random histories: the host merges exactly like git.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use posse_engine::ports::Merge;
use posse_workspace::{ObjectId, merge};

use crate::plumbing::{Bare, Dice, EXECUTABLE, FILE, LINK, Tree, ask, listing, request};
use crate::project::{Project, set_executable, write};

const HISTORIES: usize = if option_env!("POSSE_CAMPAIGNS").is_some() { 500 } else { 150 };
const CHILDREN: usize = 2;
const ON_DISK: usize = 40;
const THREADS: usize = 2;
const NAMES: [&str; 9] =
    ["a", "b.txt", "dir/c", "dir/d.bin", "dir/sub/e", "f g", "ü", "dir2/h", "dir2/sub/i"];

#[test]
fn random_histories_merge_as_git_merges_them() {
    let histories: Vec<History> = (0..HISTORIES).map(History::new).collect();
    let trees: Vec<(Option<usize>, &Tree)> = histories.iter().flat_map(History::trees).collect();
    let (host, git) = (Bare::new(), Bare::new());
    let made = host.commits(&trees);
    assert_eq!(git.commits(&trees), made, "both start from the same");
    let refs = host.plain(&["for-each-ref"], b"");

    let next = AtomicUsize::new(0);
    let (merges, conflicts) = (AtomicUsize::new(0), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    let Some(commits) = made.chunks(CHILDREN + 2).nth(number) else { break };
                    let (clean, conflicting) = compare(number, &host, &git, commits);
                    merges.fetch_add(clean, Ordering::Relaxed);
                    conflicts.fetch_add(conflicting, Ordering::Relaxed);
                }
            });
        }
    });
    let (merges, conflicts) = (merges.into_inner(), conflicts.into_inner());
    assert!(merges > HISTORIES / 2 && conflicts > HISTORIES / 20, "{merges} merges, {conflicts} conflicts");
    assert_eq!(host.plain(&["for-each-ref"], b""), refs, "merging moves nothing");
}

#[test]
fn forty_histories_on_disk_end_as_merged_or_as_before() {
    let (mut clean, mut conflicting) = (0, 0);
    for number in 0..ON_DISK {
        let history = History::new(number + HISTORIES);
        let project = Project::repository(&[("always", "there\n")]);
        become_tree(&project.dir(), &Tree::new(), &history.base);
        let run = project.run("r1");
        let (agent, dir, base) = run.child(1);
        become_tree(&dir, &history.base, &history.children[0]);
        become_tree(&run.root, &history.base, &history.ours);
        let before = listing(&run.root);
        match run.integrate(&agent, base) {
            Some(Merge::Merged { commit, .. }) => {
                let expected = project.state().with_file_name("expected");
                std::fs::create_dir(&expected).expect("made");
                run.space.checkout(&commit, &expected, false).expect("written");
                let mut found = listing(&run.root);
                found.retain(|path, _| !path.starts_with(".git"));
                assert_eq!(found, listing(&expected), "history {number}");
                clean += 1;
            }
            Some(Merge::Conflict { .. }) => {
                assert_eq!(listing(&run.root), before, "history {number}: byte for byte as before");
                conflicting += 1;
            }
            None => {}
            Some(refused @ Merge::Refused { .. }) => panic!("history {number}: {refused:?}"),
        }
    }
    assert!(clean > ON_DISK / 3 && conflicting > 0, "{clean} merged, {conflicting} in conflict");
}

/// Changes a directory from one tree to another.
fn become_tree(dir: &Path, from: &Tree, to: &Tree) {
    for path in from.keys().filter(|path| !to.contains_key(*path)) {
        std::fs::remove_file(dir.join(path)).expect("removed");
        // Empty directories are removed, as git does.
        for above in Path::new(path).ancestors().skip(1).filter(|above| *above != Path::new("")) {
            drop(std::fs::remove_dir(dir.join(above)));
        }
    }
    for (path, (mode, content)) in to {
        if *mode == LINK {
            drop(std::fs::remove_file(dir.join(path)));
            symlink(OsStr::from_bytes(content), dir.join(path)).expect("made");
        } else {
            write(dir, path, content);
            if *mode == EXECUTABLE {
                set_executable(dir, path);
            }
        }
    }
}

/// One parent and its children, which all start from the same files.
struct History {
    number: usize,
    base: Tree,
    ours: Tree,
    children: Vec<Tree>,
}

impl History {
    fn new(number: usize) -> Self {
        let mut dice = Dice::new(number as u64 + 1);
        let mut base = Tree::new();
        for name in NAMES.iter().take(4 + dice.below(5)) {
            base.insert((*name).to_owned(), (FILE, content(&mut dice)));
        }
        let ours = edited(&base, &mut dice);
        let children = (0..CHILDREN).map(|_| edited(&base, &mut dice)).collect();
        Self { number, base, ours, children }
    }

    fn trees(&self) -> impl Iterator<Item = (Option<usize>, &Tree)> {
        let first = self.number * (CHILDREN + 2);
        let later = std::iter::once(&self.ours).chain(&self.children).map(move |tree| (Some(first), tree));
        std::iter::once((None, &self.base)).chain(later)
    }
}

/// Merges the children in order, by the host and by git alone.
fn compare(number: usize, host: &Bare, git: &Bare, commits: &[ObjectId]) -> (usize, usize) {
    let base = commits[0];
    let mut ours = commits[1];
    let mut ours_by_git = ours.to_string();
    let (mut merged, mut conflicting) = (0, 0);
    for child in &commits[2..] {
        let expected = plain_merge(git, &ours_by_git, &base, child);
        match merge(&host.git(), &request(ours, base, *child)).expect("answered") {
            None => assert_eq!(expected.0, 0, "history {number}"),
            Some(Merge::Merged { commit, tree, .. }) => {
                assert_eq!(
                    (expected.0, expected.1.as_str()),
                    (0, tree.to_string().as_str()),
                    "history {number}"
                );
                (ours, ours_by_git) = (commit, expected.1);
                merged += 1;
            }
            Some(Merge::Conflict { files }) => {
                assert_eq!((expected.0, expected.2), (1, files), "history {number}");
                conflicting += 1;
            }
            Some(Merge::Refused { problems, .. }) => panic!("history {number}: {problems:?}"),
        }
    }
    (merged, conflicting)
}

/// The result of the same merge by git in a separate repository: exit code, tree, conflicting files.
fn plain_merge(git: &Bare, ours: &str, base: &ObjectId, theirs: &ObjectId) -> (i32, String, Vec<String>) {
    let base = format!("--merge-base={base}");
    let theirs = theirs.to_string();
    let args =
        ["-c", "merge.directoryRenames=false", "-c", "core.quotePath=false", "merge-tree", "--write-tree"];
    let args: Vec<&str> =
        args.into_iter().chain(["--name-only", "--no-messages", &base, ours, &theirs]).collect();
    let (code, said) = ask(git.path(), &args, b"");
    let mut lines = said.lines().map(str::to_owned);
    let tree = lines.next().expect("a tree");
    let mut files: Vec<String> = lines.filter(|line| !line.is_empty()).collect();
    files.sort();
    (code, tree, files)
}

/// Random content of a file: distinct lines, or sometimes binary data.
fn content(dice: &mut Dice) -> Vec<u8> {
    if dice.below(6) == 0 {
        return (0..40).map(|_| u8::try_from(dice.below(256)).expect("a byte")).chain([0]).collect();
    }
    let from = dice.below(1000);
    (from..from + 12).flat_map(|line| format!("line {line}\n").into_bytes()).collect()
}

/// The same files after a few edits.
fn edited(tree: &Tree, dice: &mut Dice) -> Tree {
    let mut tree = tree.clone();
    for _ in 0..dice.below(4) {
        let names: Vec<String> = tree.keys().cloned().collect();
        let Some(name) = (!names.is_empty()).then(|| dice.pick(&names).clone()) else { break };
        match dice.below(8) {
            0 => {
                let name = format!("new{}", dice.below(3));
                tree.insert(name, (FILE, content(dice)));
            }
            1 => {
                tree.remove(&name);
            }
            2 => {
                let to = format!("moved/{}", dice.below(4));
                if let Some(file) = tree.remove(&name) {
                    tree.insert(to, file);
                }
            }
            3 => {
                tree.entry(name).and_modify(|file| {
                    if file.0 == FILE {
                        file.0 = EXECUTABLE;
                    }
                });
            }
            4 => {
                tree.insert(format!("link{}", dice.below(2)), (LINK, b"a".to_vec()));
            }
            5 => {
                tree.entry(name).and_modify(|file| {
                    if file.0 != LINK {
                        file.1 = content(dice);
                    }
                });
            }
            _ => {
                let line = dice.below(12);
                tree.entry(name).and_modify(|file| {
                    if file.0 != LINK {
                        edit_line(&mut file.1, line, dice);
                    }
                });
            }
        }
    }
    tree
}

fn edit_line(content: &mut Vec<u8>, line: usize, dice: &mut Dice) {
    let mut lines: Vec<Vec<u8>> =
        content.split_inclusive(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect();
    if let Some(line) = lines.get_mut(line) {
        *line = format!("edited {}\n", dice.below(1000)).into_bytes();
    }
    *content = lines.concat();
}
