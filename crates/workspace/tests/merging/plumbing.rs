//! Bare repositories with commits from tables, created by a single git process.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use posse_workspace::{Git, ObjectId, TreeMerge};
use tempfile::TempDir;

/// A tree: paths with their mode and content.
pub(crate) type Tree = BTreeMap<String, (u32, Vec<u8>)>;

pub(crate) const FILE: u32 = 0o100_644;
pub(crate) const EXECUTABLE: u32 = 0o100_755;
pub(crate) const LINK: u32 = 0o120_000;
pub(crate) const SUBMODULE: u32 = 0o160_000;

/// A tree of plain files.
pub(crate) fn tree(files: &[(&str, &str)]) -> Tree {
    let file = |(path, content): &(&str, &str)| ((*path).to_owned(), (FILE, content.as_bytes().to_vec()));
    files.iter().map(file).collect()
}

/// The same tree with one path changed.
pub(crate) fn with(tree: &Tree, path: &str, mode: u32, content: &str) -> Tree {
    let mut tree = tree.clone();
    tree.insert(path.to_owned(), (mode, content.as_bytes().to_vec()));
    tree
}

/// A bare repository.
pub(crate) struct Bare {
    dir: TempDir,
}

impl Bare {
    pub(crate) fn new() -> Self {
        let bare = Self { dir: tempfile::tempdir().expect("a directory") };
        bare.plain(&["init", "-q", "--bare", "."], b"");
        bare
    }

    pub(crate) fn path(&self) -> &Path {
        self.dir.path()
    }

    /// Git as the host runs it.
    pub(crate) fn git(&self) -> Git {
        Git::at(Path::new("git"), self.path())
    }

    /// Plain git, without the host's precautions.
    pub(crate) fn plain(&self, args: &[&str], input: &[u8]) -> String {
        plain(self.path(), args, input)
    }

    /// Commits trees. The number beside each is the index of its parent.
    pub(crate) fn commits(&self, trees: &[(Option<usize>, &Tree)]) -> Vec<ObjectId> {
        let mut stream = Vec::new();
        for (number, (parent, tree)) in trees.iter().enumerate() {
            write!(stream, "commit refs/heads/c\nmark :{}\n", number + 1).expect("written");
            stream.extend_from_slice(b"committer T <t@example.com> 1700000000 +0000\ndata 1\nx\n");
            match parent {
                Some(parent) => writeln!(stream, "from :{}", parent + 1).expect("written"),
                None => writeln!(stream, "from {}", ObjectId::ZERO).expect("written"),
            }
            stream.extend_from_slice(b"deleteall\n");
            for (path, (mode, content)) in *tree {
                let path = path.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
                if *mode == SUBMODULE {
                    let commit = String::from_utf8_lossy(content);
                    writeln!(stream, "M {mode:o} {commit} \"{path}\"").expect("written");
                } else {
                    writeln!(stream, "M {mode:o} inline \"{path}\"\ndata {}", content.len())
                        .expect("written");
                    stream.extend_from_slice(content);
                    stream.push(b'\n');
                }
            }
        }
        let marks = self.path().join("marks");
        let export = format!("--export-marks={}", marks.display());
        self.plain(&["fast-import", "--quiet", "--force", &export], &stream);
        let marks = std::fs::read_to_string(marks).expect("marks");
        let mut named: Vec<(usize, ObjectId)> = marks.lines().map(mark).collect();
        named.sort_unstable();
        named.into_iter().map(|(_, oid)| oid).collect()
    }

    /// A merge of the third tree into the second, both based on the first.
    pub(crate) fn request(&self, base: &Tree, ours: &Tree, theirs: &Tree) -> TreeMerge {
        let made = self.commits(&[(None, base), (Some(0), ours), (Some(0), theirs)]);
        request(made[1], made[0], made[2])
    }

    /// The files in a commit's tree.
    pub(crate) fn files(&self, commit: &ObjectId) -> BTreeMap<String, String> {
        let listed = self.plain(&["ls-tree", "-r", "-z", &commit.to_string()], b"");
        let entry = |entry: &str| {
            let (head, path) = entry.split_once('\t').expect("an entry");
            (path.to_owned(), head.to_owned())
        };
        listed.split_terminator('\0').map(entry).collect()
    }
}

fn mark(line: &str) -> (usize, ObjectId) {
    let (number, oid) = line.trim_start_matches(':').split_once(' ').expect("a mark");
    (number.parse().expect("a number"), oid.parse().expect("a name"))
}

/// A merge without restrictions.
pub(crate) fn request(ours: ObjectId, base: ObjectId, theirs: ObjectId) -> TreeMerge {
    let none = Vec::new;
    TreeMerge { ours, base, theirs, owns: none(), protected: none(), opened: none(), message: "m".to_owned() }
}

/// Runs plain git without this machine's configuration.
pub(crate) fn plain(dir: &Path, args: &[&str], input: &[u8]) -> String {
    let (code, stdout) = ask(dir, args, input);
    assert_eq!(code, 0, "git {args:?}");
    stdout
}

/// Like [`plain`], but returns the exit code.
pub(crate) fn ask(dir: &Path, args: &[&str], input: &[u8]) -> (i32, String) {
    let mut command = Command::new("git");
    command.env_clear().env("PATH", "/usr/local/bin:/usr/bin:/bin").env("HOME", "/nonexistent");
    command.env("GIT_CONFIG_NOSYSTEM", "1").env("GIT_CONFIG_GLOBAL", "/dev/null");
    for who in ["AUTHOR", "COMMITTER"] {
        command.env(format!("GIT_{who}_NAME"), "T").env(format!("GIT_{who}_EMAIL"), "t@example.com");
        command.env(format!("GIT_{who}_DATE"), "1700000000 +0000");
    }
    command.current_dir(dir).args(["-c", "protocol.file.allow=always", "-c", "init.defaultBranch=main"]);
    command.args(args).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().expect("git");
    let mut stdin = child.stdin.take().expect("its input");
    let output = std::thread::scope(|scope| {
        scope.spawn(move || drop(stdin.write_all(input)));
        child.wait_with_output().expect("git ends")
    });
    (output.status.code().unwrap_or(-1), String::from_utf8_lossy(&output.stdout).into_owned())
}

/// A deterministic random number generator.
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// A number below `limit`.
    pub(crate) fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from((self.0 >> 11) % limit as u64).expect("small")
    }

    pub(crate) fn pick<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        &of[self.below(of.len())]
    }
}
/// Everything beneath a directory: type, executable bit, content.
pub(crate) fn listing(dir: &Path) -> BTreeMap<PathBuf, (u32, Vec<u8>)> {
    let mut found = BTreeMap::new();
    list_into(dir, dir, &mut found);
    found
}

fn list_into(top: &Path, dir: &Path, found: &mut BTreeMap<PathBuf, (u32, Vec<u8>)>) {
    use std::os::unix::ffi::OsStrExt;
    use std::os::unix::fs::PermissionsExt;
    for entry in std::fs::read_dir(dir).expect("listed") {
        let path = entry.expect("an entry").path();
        let inner = path.strip_prefix(top).expect("beneath").to_owned();
        let meta = path.symlink_metadata().expect("looked at");
        if meta.is_dir() {
            found.insert(inner, (0o040_000, Vec::new()));
            list_into(top, &path, found);
        } else if meta.is_symlink() {
            let target = std::fs::read_link(&path).expect("read");
            found.insert(inner, (LINK, target.as_os_str().as_bytes().to_vec()));
        } else if meta.is_file() {
            let mode = if meta.permissions().mode() & 0o100 == 0 { FILE } else { EXECUTABLE };
            found.insert(inner, (mode, std::fs::read(&path).expect("read")));
        } else {
            found.insert(inner, (0, Vec::new()));
        }
    }
}
