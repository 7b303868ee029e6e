//! Looks at what has happened, from outside the box.

use std::collections::BTreeMap;
use std::fs::{self, File, Metadata};
use std::hash::{DefaultHasher, Hasher};
use std::io::{Read, Seek};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use super::case::Case;

/// Protected names that are in every workspace, with what is in them.
pub(crate) const PRESENT: [(&str, &str); 8] = [
    (".git/HEAD", "ref: refs/heads/main\n"),
    (".git/config", "[core]\n\trepositoryformatversion = 0\n"),
    (".git/hooks/pre-commit.sample", "#!/bin/sh\n"),
    (".git/refs/heads/.keep", ""),
    (".git/objects/.keep", ""),
    (".vscode/settings.json", "{}\n"),
    (".mcp.json", "{}\n"),
    (".github/workflows/ci.yml", "on: push\n"),
];

/// Protected names that are in no workspace, before and after.
const ABSENT: [&str; 26] = [
    ".envrc",
    ".bashrc",
    ".bash_profile",
    ".profile",
    ".zshrc",
    ".gitmodules",
    ".gitconfig",
    ".git-credentials",
    ".cargo/config.toml",
    ".cargo/config",
    ".config/git",
    ".config/posse",
    ".config/fish",
    ".gitea/workflows",
    ".forgejo/workflows",
    ".github/actions",
    ".husky",
    ".idea",
    ".devcontainer",
    ".exrc",
    ".npmrc",
    ".posse",
    ".cursor",
    "Jenkinsfile",
    ".gitlab-ci.yml",
    ".ssh",
];

/// Places of the machine where nothing of a command may appear.
const PLACES: [&str; 17] = [
    "/",
    "/tmp",
    "/var/tmp",
    "/dev",
    "/dev/shm",
    "/run",
    "/etc",
    "/etc/cron.d",
    "/etc/profile.d",
    "/usr",
    "/usr/bin",
    "/usr/local/bin",
    "/usr/lib",
    "/opt",
    "/boot",
    "/root",
    "/var/spool/cron",
];

/// Files of the machine that stay as they are.
const SYSTEM: [&str; 10] = [
    "/etc/passwd",
    "/etc/hosts",
    "/etc/resolv.conf",
    "/etc/shadow",
    "/etc/ld.so.preload",
    "/proc/sys/kernel/core_pattern",
    "/proc/sys/kernel/hostname",
    "/proc/sys/kernel/modprobe",
    "/proc/sys/vm/overcommit_memory",
    "/proc/sys/fs/suid_dumpable",
];

/// Everything outside the workspace and the state directory, and the workspace's protected names.
pub(crate) struct Snapshot(BTreeMap<PathBuf, String>);

impl Snapshot {
    pub(crate) fn of(top: &Path) -> Self {
        let (workspace, state) = (top.join("ws"), top.join("home/state"));
        let kept =
            [".git", ".vscode", ".mcp.json", ".github/workflows", ".claude"].map(|name| workspace.join(name));
        let mut all = BTreeMap::new();
        walk(top, &mut |path, metadata| {
            let theirs = path.starts_with(&state)
                || (path.starts_with(&workspace) && !kept.iter().any(|name| path.starts_with(name)));
            if !theirs {
                all.insert(path.to_owned(), look(path, metadata));
            }
        });
        for file in SYSTEM {
            all.insert(
                PathBuf::from(file),
                fs::read(file).map_or_else(|e| e.to_string(), |bytes| hash(&bytes)),
            );
        }
        Self(all)
    }

    /// What is different in `now`.
    pub(crate) fn changes(&self, now: &Self) -> Vec<String> {
        let mut changes = Vec::new();
        for (path, was) in &self.0 {
            match now.0.get(path) {
                Some(is) if is == was => {}
                Some(is) => changes.push(format!("{} was {was} and is {is}", path.display())),
                None => changes.push(format!("{} is gone", path.display())),
            }
        }
        let new = now.0.keys().filter(|path| !self.0.contains_key(*path));
        changes.extend(new.map(|path| format!("{} is new", path.display())));
        changes
    }
}

fn look(path: &Path, metadata: &Metadata) -> String {
    let (mode, owner, kind) = (metadata.mode(), metadata.uid(), metadata.file_type());
    let content = if kind.is_symlink() {
        format!("{:?}", fs::read_link(path))
    } else if kind.is_file() {
        // Times tell of a change that was undone; another hard link changes the time of the inode alone.
        let times = (metadata.mtime(), metadata.mtime_nsec(), metadata.nlink());
        format!("{} {times:?}", fs::read(path).map_or_else(|error| error.to_string(), |bytes| hash(&bytes)))
    } else {
        String::new()
    };
    format!("{mode:o} {owner} {content}")
}

fn hash(bytes: &[u8]) -> String {
    let mut hasher = DefaultHasher::new();
    hasher.write(bytes);
    format!("{:x}:{}", hasher.finish(), bytes.len())
}

/// Visits everything beneath a directory, and it; follows no link.
pub(crate) fn walk(path: &Path, visit: &mut dyn FnMut(&Path, &Metadata)) {
    let Ok(metadata) = fs::symlink_metadata(path) else { return };
    visit(path, &metadata);
    if metadata.is_dir() {
        for entry in fs::read_dir(path).into_iter().flatten().flatten() {
            walk(&entry.path(), visit);
        }
    }
}

/// Protected names that have appeared.
pub(crate) fn protected(workspace: &Path) -> Vec<String> {
    let there = ABSENT.iter().filter(|name| fs::symlink_metadata(workspace.join(name)).is_ok());
    there.map(|name| format!("the protected name {name} has appeared")).collect()
}

/// Files on the machine with the tag in their name.
pub(crate) fn scattered(tag: &str) -> Vec<String> {
    let mut found = Vec::new();
    for place in PLACES {
        for entry in fs::read_dir(place).into_iter().flatten().flatten() {
            if entry.file_name().to_string_lossy().contains(tag) {
                found.push(format!("{} has appeared", entry.path().display()));
            }
        }
    }
    found
}

/// Files beneath a directory that hold the canary.
pub(crate) fn leaks(dir: &Path, canary: &str) -> Vec<String> {
    let mut found = Vec::new();
    walk(dir, &mut |path, metadata| {
        let kind = metadata.file_type();
        // A file with holes is not read whole: what was written to it is at its beginning.
        let regular = kind.is_file() && !kind.is_fifo();
        let read = || {
            File::open(path).map(|file| file.take(256 << 20)).and_then(|mut file| {
                let mut bytes = Vec::new();
                file.read_to_end(&mut bytes).map(|_| bytes)
            })
        };
        let sparse = metadata.blocks() * 512 < metadata.size() / 2;
        if regular && !sparse && read().is_ok_and(|bytes| holds(&bytes, canary.as_bytes())) {
            found.push(format!("a secret is in {}", path.display()));
        }
    });
    found
}

/// Processes of the machine with this in their environment or command line.
pub(crate) fn alive(tag: &str) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if !name.bytes().all(|byte| byte.is_ascii_digit()) {
            continue;
        }
        let has =
            |file: &str| fs::read(entry.path().join(file)).is_ok_and(|text| holds(&text, tag.as_bytes()));
        if has("environ") || has("cmdline") {
            let what = fs::read_to_string(entry.path().join("comm")).unwrap_or_default();
            found.push(format!("{name} {}", what.trim()));
        }
    }
    found
}

/// Whether a case's programs are there.
pub(crate) fn can(case: &Case) -> bool {
    let dirs = ["/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"];
    case.needs.iter().all(|program| dirs.iter().any(|dir| Path::new(dir).join(program).exists()))
}

pub(crate) fn holds(text: &[u8], part: &[u8]) -> bool {
    // The library's search of text is fast also where this code is not optimised; what is sought is plain.
    String::from_utf8_lossy(text).contains(&*String::from_utf8_lossy(part))
}

/// All of a file.
pub(crate) fn whole(mut file: File) -> Vec<u8> {
    let mut bytes = Vec::new();
    file.rewind().and_then(|()| file.read_to_end(&mut bytes)).expect("it can be read");
    bytes
}

/// The end of a text.
pub(crate) fn tail(text: &str) -> &str {
    let mut from = text.len().saturating_sub(2_000);
    while !text.is_char_boundary(from) {
        from += 1;
    }
    &text[from..]
}
