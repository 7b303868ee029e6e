//! Collects the notes of a scan about files that the snapshot omits or changes, for the user or the agent.

/// How many names a note or a list contains. The rest is only counted.
const MAX_NAMES: usize = 8;
/// How many omitted files are listed. The rest is only counted.
pub(crate) const MAX_LISTED: usize = 1000;

/// The first few names, and how many there were.
#[derive(Debug, Default)]
struct Names {
    first: Vec<String>,
    count: u64,
}

impl Names {
    fn add(&mut self, path: &[u8], max: usize) {
        self.count += 1;
        if self.first.len() < max {
            self.first.push(readable(path));
        }
    }

    fn extend(&mut self, other: Names, max: usize) {
        self.count += other.count;
        self.first.extend(other.first);
        self.first.sort_unstable();
        self.first.truncate(max);
    }

    fn note(&self, what: &str) -> Option<String> {
        let more = self.count.saturating_sub(self.first.len() as u64);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        (self.count > 0).then(|| format!("{what}: {}{more}", self.first.join(", ")))
    }
}

/// A path as text. Escapes control characters and bytes that are not UTF-8.
pub(crate) fn readable(path: &[u8]) -> String {
    let text = String::from_utf8_lossy(path);
    let is_shown = |c: char| !c.is_control() && posse_domain::printable::is_plain(c);
    text.chars().flat_map(|c| if is_shown(c) { vec![c] } else { c.escape_default().collect() }).collect()
}

/// Facts about a snapshot that the user, or the agent, should know.
#[derive(Debug, Default)]
pub(crate) struct Notes {
    git_like: Names,
    nested: Names,
    special: Names,
    submodules: Names,
    secrets: Names,
    identical: Names,
    lfs: bool,
}

impl Notes {
    /// Notes an entry that is, or could become, `.git`.
    pub(crate) fn git_like(&mut self, path: &[u8], name: &[u8]) {
        if name == b".git" {
            let dir = path.strip_suffix(b"/.git").unwrap_or(path);
            self.nested.add(dir, MAX_NAMES);
        } else {
            self.git_like.add(path, MAX_NAMES);
        }
    }

    /// Notes a socket, a pipe or a device.
    pub(crate) fn special(&mut self, path: &[u8]) {
        self.special.add(path, MAX_NAMES);
    }

    /// Notes a submodule of the user's repository.
    pub(crate) fn submodule(&mut self, path: &[u8]) {
        self.submodules.add(path, MAX_NAMES);
    }

    /// Notes a file or directory that usually holds keys.
    pub(crate) fn secret(&mut self, path: &[u8]) {
        self.secrets.add(path, MAX_NAMES);
    }

    /// Notes a file with the content of a copied one.
    pub(crate) fn identical(&mut self, path: &[u8]) {
        self.identical.add(path, MAX_NAMES);
    }

    /// Notes that some files are kept by LFS.
    pub(crate) fn lfs(&mut self) {
        self.lfs = true;
    }

    pub(crate) fn extend(&mut self, other: Notes) {
        self.git_like.extend(other.git_like, MAX_NAMES);
        self.nested.extend(other.nested, MAX_NAMES);
        self.special.extend(other.special, MAX_NAMES);
        self.submodules.extend(other.submodules, MAX_NAMES);
        self.secrets.extend(other.secrets, MAX_NAMES);
        self.identical.extend(other.identical, MAX_NAMES);
        self.lfs |= other.lfs;
    }

    /// One line per note.
    pub(crate) fn lines(&self) -> Vec<String> {
        let lfs = "files kept by git LFS are in the snapshot as the pointers that git stores, unless they were changed";
        [
            self.nested.note("nested repositories are kept as plain files, without their .git"),
            self.git_like.note("omitted, because some filesystems treat the name as .git"),
            self.special.note("omitted, because they are sockets, pipes or devices"),
            self.submodules
                .note("submodules are kept as the commits they are at; their files are not brought along"),
            self.secrets
                .note("not copied to workspaces, because they may hold keys (workspace.copy includes them)"),
            self.identical.note("omitted, because the content is that of a file named by workspace.copy"),
            self.lfs.then(|| lfs.to_owned()),
        ]
        .into_iter()
        .flatten()
        .collect()
    }
}

/// Files in a folder that no snapshot of it contains.
#[derive(Debug, Default)]
pub(crate) struct LeftOut {
    /// Not the agent's work: ignored, or copied in.
    ignored: Names,
    /// Possible work, with the reason why each file is omitted. A workspace that contains any is kept.
    work: Names,
}

impl LeftOut {
    /// A file or directory that is ignored, or was copied in.
    pub(crate) fn add(&mut self, path: &[u8]) {
        self.ignored.add(path, MAX_LISTED);
    }

    /// A file that may be work.
    pub(crate) fn work(&mut self, path: &[u8], why: &str) {
        self.work.add(&[path, b": ", why.as_bytes()].concat(), MAX_LISTED);
    }

    pub(crate) fn extend(&mut self, other: LeftOut) {
        self.ignored.extend(other.ignored, MAX_LISTED);
        self.work.extend(other.work, MAX_LISTED);
    }

    /// Prefixes the paths for a folder that is inside another one.
    pub(crate) fn beneath(mut self, folder: &str) -> Self {
        for path in self.ignored.first.iter_mut().chain(&mut self.work.first) {
            path.insert_str(0, folder);
        }
        self
    }

    /// A summary of possible work; `None` if there is no such file.
    pub(crate) fn unkept(&self) -> Option<String> {
        let first = self.work.first.iter().min()?;
        let more = self.work.count.saturating_sub(1);
        Some(if more > 0 { format!("{first} and {more} more") } else { first.clone() })
    }

    /// The first paths, possible work before the rest, and the total count.
    pub(crate) fn into_parts(mut self) -> (Vec<String>, u64) {
        self.work.first.sort_unstable();
        let mut first = self.work.first;
        first.extend(self.ignored.first);
        first.truncate(MAX_LISTED);
        (first, self.work.count + self.ignored.count)
    }
}
