//! Checks from outside the sandbox what has happened.

use std::collections::BTreeMap;
use std::fs::{self, File, Metadata};
use std::io::{Read, Seek};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process::Command;

use super::case::Case;

/// Protected names in every workspace, with their contents.
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

/// Directories of the machine where no file of a command may appear.
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

/// Files of the machine that must stay unchanged.
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

/// Everything outside the state directory, including the user's folder, which no run changes except for its branch.
pub(crate) struct Snapshot(BTreeMap<PathBuf, String>);

/// The state directories, from the top, also of users who keep them inside the folder.
const STATES: [&str; 2] = ["home/state", "ws/deep"];
/// What a published result adds to the user's repository.
const DELIVERED: [&str; 2] = ["ws/.git/objects", "ws/.git/refs/heads/posse"];

impl Snapshot {
    pub(crate) fn of(top: &Path) -> Self {
        let not_looked_at: Vec<PathBuf> =
            STATES.iter().chain(&DELIVERED).map(|name| top.join(name)).collect();
        let mut all = BTreeMap::new();
        walk(top, &mut |path, metadata| {
            if !not_looked_at.iter().any(|place| path.starts_with(place)) {
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

    /// The differences in `now`.
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
        // Times reveal a change that was undone; another hard link changes only the time of the inode.
        let times = (metadata.mtime(), metadata.mtime_nsec(), metadata.nlink());
        // A sparse file is not read completely: its times are enough.
        let sparse = metadata.blocks() * 512 < metadata.size() / 2;
        let read = || fs::read(path).map_or_else(|error| error.to_string(), |bytes| hash(&bytes));
        format!("{} {times:?}", if sparse { metadata.size().to_string() } else { read() })
    } else {
        String::new()
    };
    format!("{mode:o} {owner} {content}")
}

fn hash(bytes: &[u8]) -> String {
    format!("{}:{}", blake3::hash(bytes).to_hex(), bytes.len())
}

/// Visits a directory and everything beneath it; follows no link.
pub(crate) fn walk(path: &Path, visit: &mut dyn FnMut(&Path, &Metadata)) {
    let Ok(metadata) = fs::symlink_metadata(path) else { return };
    visit(path, &metadata);
    if metadata.is_dir() {
        for entry in fs::read_dir(path).into_iter().flatten().flatten() {
            walk(&entry.path(), visit);
        }
    }
}

/// What a run's result contains that it must not.
pub(crate) fn result(repository: &Path, base: &str, commit: &str, canary: &str) -> Vec<String> {
    let mut problems = Vec::new();
    for line in
        git(repository, &["diff-tree", "-r", "--raw", "--no-renames", "--no-abbrev", base, commit]).lines()
    {
        let (head, path) = line.split_once('\t').expect("a tab");
        let parts: Vec<String> = path.split('/').map(str::to_lowercase).collect();
        let kept =
            PRESENT.iter().map(|(name, _)| *name).chain(ABSENT).chain([".git", ".claude", "deep/er/state"]);
        for name in kept.filter(|name| path == *name || path.starts_with(&format!("{name}/"))) {
            problems.push(format!("the protected name {name} is different in the result: {line}"));
        }
        if parts.iter().any(|part| part == ".git") || path.contains('\u{0}') {
            problems.push(format!("the result has a way to `.git`: {line}"));
        }
        let words: Vec<&str> = head.split(' ').collect();
        if words[1] == "160000" {
            problems.push(format!("the result has a submodule: {line}"));
        }
        if words[1] == "120000" {
            let target = git(repository, &["cat-file", "blob", words[3]]);
            if target.starts_with('/') || (target.starts_with("..") && parts.len() == 1) {
                problems.push(format!("the result has a link to {target}: {line}"));
            }
        }
    }
    let objects = git_bytes(repository, &["cat-file", "--batch-all-objects", "--batch", "--buffer"]);
    if holds(&objects, canary.as_bytes()) {
        problems.push("a secret is in an object of the repository".to_owned());
    }
    problems.extend(git(repository, &["fsck", "--strict", "--no-dangling"]).lines().map(str::to_owned));
    problems
}

fn git(repository: &Path, args: &[&str]) -> String {
    String::from_utf8_lossy(&git_bytes(repository, args)).into_owned()
}

fn git_bytes(repository: &Path, args: &[&str]) -> Vec<u8> {
    let output = Command::new("git").arg("--git-dir").arg(repository).args(args).output().expect("git runs");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "git {args:?}: {errors}");
    output.stdout
}

/// What a state directory may contain beside the agents' files, as prefixes of paths.
const OWN: [&str; 38] = [
    "posse.db",
    "writers.",
    "owners/",
    "blobs/",
    "wake",
    "log",
    "runs/*/project.json",
    "runs/*/manifest",
    "runs/*/sandboxes/",
    "runs/*/output/",
    "runs/*/workspaces/*/*/manifest",
    "runs/*/workspaces/*/*/last-call",
    "runs/*/workspaces/*/*/synced",
    "runs/*/workspaces/*/*/made",
    "runs/*/workspaces/*/*/deleted",
    "runs/*/workspaces/*/*/lock",
    "runs/*/workspaces/*/*/work.",
    "projects/*/bases.lock",
    "projects/*/ref-locks/",
    "projects/*/bases/*/*/made",
    "projects/*/bases/*/*/checked",
    "projects/*/bases/*/*/shape",
    "projects/*/bases/*/*/manifest",
    "projects/*/bases/*/*/git/.git/",
    "projects/*/manifest",
    "projects/*/lock",
    "projects/*/lent.lock",
    "projects/*/lent-files/*/pack/pack-",
    "projects/*/lent-large/*/pack/pack-",
    "projects/*/folder",
    "projects/*/repo.git/HEAD",
    "projects/*/repo.git/config",
    "projects/*/repo.git/objects/pack/pack-",
    "projects/*/repo.git/objects/??/",
    "projects/*/repo.git/refs/posse/",
    "projects/*/repo.git/info/attributes",
    "runs/*/reports/",
    "runs/*/objects/*/*/pack/pack-",
];
/// The agents' files, whose content is not checked.
const THEIRS: [&str; 4] = [
    "runs/*/workspaces/*/*/files",
    "runs/*/workspaces/*/*/upper",
    "runs/*/workspaces/*/*/layers",
    "projects/*/bases/*/*/files",
];

/// Files in a state directory that neither Posse nor an agent may have put there.
pub(crate) fn state(state: &Path, tag: &str) -> Vec<String> {
    let mut found = Vec::new();
    walk(state, &mut |path, metadata| {
        let name = path.strip_prefix(state).expect("beneath").to_string_lossy().into_owned();
        if metadata.is_dir() || THEIRS.iter().any(|place| begins(&name, place)) {
            return;
        }
        if !OWN.iter().any(|place| begins(&name, place)) || name.contains(tag) {
            found.push(format!("{name} has appeared in the state directory"));
        }
    });
    found
}

/// Whether a path begins with a pattern, part by part; the last part of the pattern may be a prefix.
fn begins(path: &str, pattern: &str) -> bool {
    let mut parts = path.split('/');
    let fits = |wanted: &str, part: &str| match wanted {
        "*" => true,
        "??" => part.len() == 2,
        wanted => part.starts_with(wanted),
    };
    pattern.split('/').all(|wanted| parts.next().is_some_and(|part| fits(wanted, part)))
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

/// Files beneath a directory that contain the canary.
pub(crate) fn leaks(dir: &Path, canary: &str) -> Vec<String> {
    let mut found = Vec::new();
    walk(dir, &mut |path, metadata| {
        let kind = metadata.file_type();
        // A sparse file is not read completely: its content is at the beginning.
        let regular = kind.is_file() && !kind.is_fifo();
        let read = || {
            let file = File::open(path)?;
            let opened = file.metadata()?;
            let mut bytes = Vec::new();
            // A parent directory may be a link by now. Then another file would be read, which may contain the canary.
            if (opened.dev(), opened.ino()) == (metadata.dev(), metadata.ino()) {
                file.take(256 << 20).read_to_end(&mut bytes)?;
            }
            std::io::Result::Ok(bytes)
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

/// Whether the programs of a case exist.
pub(crate) fn can(case: &Case) -> bool {
    let dirs = ["/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"];
    case.needs.iter().all(|program| dirs.iter().any(|dir| Path::new(dir).join(program).exists()))
}

pub(crate) fn holds(text: &[u8], part: &[u8]) -> bool {
    // Files of many megabytes are searched, by unoptimised code.
    memchr::memmem::find(text, part).is_some()
}

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
