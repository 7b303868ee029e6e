//! Computes what trust in a project's file covers: the file and further files. For a skill these are all files in its
//! folder, for settings the scripts that their commands run. A change of any of them requires a new confirmation.
//!
//! The files are read as hostile input: no link is followed, only regular files are opened, nothing blocks, and there
//! are limits.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use posse_domain::hash::Hash;

/// Limit of files that trust in one file covers: a user could not have read more.
const FILES_MAX: usize = 2_000;
/// Limit of their size: they are read before each run.
const BYTES_MAX: u64 = 64 * 1024 * 1024;
/// The bits of a mode that change what a file does.
const MODE: u32 = 0o7111;
/// The file that is hashed separately.
const SKILL_FILE: &str = "SKILL.md";
/// Limit of names that a user is shown.
const NAMED_MAX: usize = 20;

/// What trust in a file covers.
#[derive(Debug)]
pub(crate) struct TrustScope {
    /// The hash of all covered files.
    pub(crate) hash: Hash,
    /// The further files, by the names that a user knows.
    pub(crate) further: Vec<String>,
}

/// The further files, each with its type, mode and hash of its content.
#[derive(Default)]
struct NeighbourFiles {
    files: BTreeMap<PathBuf, Vec<u8>>,
    bytes: u64,
}

/// What trust in a skill's file with this folder covers, or why it cannot be trusted.
pub(crate) fn of_skill(content: &[u8], folder: &Path) -> Result<TrustScope, String> {
    let mut beside = NeighbourFiles::default();
    let mut left = vec![folder.to_owned()];
    while let Some(dir) = left.pop() {
        let entries = std::fs::read_dir(&dir).map_err(|error| format!("{}: {error}", dir.display()))?;
        for entry in entries {
            let path = entry.map_err(|error| format!("{}: {error}", dir.display()))?.path();
            if path == folder.join(SKILL_FILE) {
                continue;
            }
            let shown = path.strip_prefix(folder).unwrap_or(&path).to_owned();
            if beside.add(&path, shown)? {
                left.push(path);
            }
        }
    }
    Ok(beside.covered(content))
}

/// What trust in a settings file covers: the scripts of the project that its commands name.
pub(crate) fn of_settings(
    content: &[u8],
    scripts: &BTreeSet<PathBuf>,
    root: &Path,
) -> Result<TrustScope, String> {
    let mut beside = NeighbourFiles::default();
    for script in scripts {
        let shown = script.strip_prefix(root).unwrap_or(script).to_owned();
        beside.add(script, shown)?;
    }
    Ok(beside.covered(content))
}

impl NeighbourFiles {
    /// Adds the entry at a path and returns whether it is a directory.
    fn add(&mut self, path: &Path, shown: PathBuf) -> Result<bool, String> {
        let wrong = |problem: String| format!("{}: {problem}", shown.display());
        if self.files.len() >= FILES_MAX {
            return Err(format!("more than {FILES_MAX} files would be trusted with it"));
        }
        let meta = path.symlink_metadata().map_err(|error| wrong(error.to_string()))?;
        let kind = meta.file_type();
        let mut held = format!("{:o} ", meta.mode() & MODE).into_bytes();
        if kind.is_symlink() {
            held.extend(b"link ");
            held.extend(
                std::fs::read_link(path).map_err(|error| wrong(error.to_string()))?.as_os_str().as_bytes(),
            );
        } else if kind.is_dir() {
            held.extend(b"dir");
        } else if kind.is_file() {
            held.extend(b"file ");
            held.extend(self.read(path).map_err(wrong)?.as_bytes());
        } else {
            held.extend(b"other");
        }
        self.files.insert(shown, held);
        Ok(kind.is_dir())
    }

    /// The hash of a regular file.
    fn read(&mut self, path: &Path) -> Result<Hash, String> {
        let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
        let flags = i32::try_from(flags.bits()).unwrap_or(0);
        let file =
            File::options().read(true).custom_flags(flags).open(path).map_err(|error| error.to_string())?;
        if !file.metadata().is_ok_and(|meta| meta.is_file()) {
            return Err("it is no longer a file".to_owned());
        }
        let mut bytes = Vec::new();
        let most = BYTES_MAX.saturating_sub(self.bytes);
        file.take(most + 1).read_to_end(&mut bytes).map_err(|error| error.to_string())?;
        self.bytes += bytes.len() as u64;
        if self.bytes > BYTES_MAX {
            return Err(format!("more than {} MiB would be trusted with it", BYTES_MAX / (1024 * 1024)));
        }
        Ok(Hash::of(&bytes))
    }

    fn covered(self, content: &[u8]) -> TrustScope {
        if self.files.is_empty() {
            return TrustScope { hash: Hash::of(content), further: Vec::new() };
        }
        let mut parts: Vec<&[u8]> = vec![content];
        for (path, held) in &self.files {
            parts.extend([path.as_os_str().as_bytes(), held]);
        }
        let further = self.files.keys().map(|path| path.display().to_string()).collect();
        TrustScope { hash: Hash::of_parts(parts), further }
    }
}

impl TrustScope {
    /// One line that names the further files; `None` without further files.
    pub(crate) fn line(&self) -> Option<String> {
        let named = self.further.iter().take(NAMED_MAX).cloned().collect::<Vec<_>>().join(", ");
        let more = self.further.len().saturating_sub(NAMED_MAX);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        (!self.further.is_empty()).then(|| format!("with the files {named}{more}"))
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    /// A skill folder with a script, a folder and a link.
    fn folder() -> tempfile::TempDir {
        let dir = tempfile::tempdir().expect("a directory");
        std::fs::create_dir(dir.path().join("sub")).expect("made");
        for (name, text) in
            [("SKILL.md", "text"), ("run.sh", "echo"), ("sub/notes.md", "n"), ("sub/other.md", "o")]
        {
            std::fs::write(dir.path().join(name), text).expect("written");
        }
        symlink("run.sh", dir.path().join("link")).expect("a link");
        dir
    }

    #[test]
    fn a_change_of_anything_in_a_skills_folder_is_another_content() {
        type Change = (&'static str, fn(&Path));
        let changes: [Change; 12] = [
            ("a script", |dir| std::fs::write(dir.join("run.sh"), "evil").expect("written")),
            ("a file in a folder", |dir| std::fs::write(dir.join("sub/notes.md"), "x").expect("written")),
            ("a new file", |dir| std::fs::write(dir.join("new"), "").expect("written")),
            ("a new file in a folder", |dir| std::fs::write(dir.join("sub/new"), "").expect("written")),
            ("a hidden file", |dir| std::fs::write(dir.join(".env"), "").expect("written")),
            ("a removed file", |dir| std::fs::remove_file(dir.join("sub/other.md")).expect("removed")),
            ("another name", |dir| std::fs::rename(dir.join("run.sh"), dir.join("go.sh")).expect("moved")),
            ("a file that can be run", |dir| {
                let mode = std::fs::Permissions::from_mode(0o755);
                std::fs::set_permissions(dir.join("run.sh"), mode).expect("set");
            }),
            ("a link elsewhere", |dir| {
                std::fs::remove_file(dir.join("link")).expect("removed");
                symlink("/etc/passwd", dir.join("link")).expect("a link");
            }),
            ("a link in a file's place", |dir| {
                std::fs::remove_file(dir.join("run.sh")).expect("removed");
                symlink("sub/notes.md", dir.join("run.sh")).expect("a link");
            }),
            ("an empty folder", |dir| std::fs::create_dir(dir.join("empty")).expect("made")),
            ("contents that change places", |dir| {
                std::fs::write(dir.join("sub/notes.md"), "o").expect("written");
                std::fs::write(dir.join("sub/other.md"), "n").expect("written");
            }),
        ];
        for (name, change) in changes {
            let dir = folder();
            let before = of_skill(b"text", dir.path()).expect("covered").hash;
            assert_eq!(of_skill(b"text", dir.path()).expect("covered").hash, before, "the same twice");
            change(dir.path());
            assert_ne!(of_skill(b"text", dir.path()).expect("covered").hash, before, "{name}");
        }
    }

    #[test]
    fn a_skill_that_is_one_file_is_that_file() {
        let dir = tempfile::tempdir().expect("a directory");
        std::fs::write(dir.path().join(SKILL_FILE), "text").expect("written");
        let covered = of_skill(b"text", dir.path()).expect("covered");
        assert_eq!(covered.hash, Hash::of(b"text"), "what was trusted before stays trusted");
        assert_eq!(covered.line(), None);
        assert_eq!(
            of_skill(b"text", folder().path()).expect("covered").line().expect("a line"),
            "with the files link, run.sh, sub, sub/notes.md, sub/other.md"
        );
    }

    #[test]
    fn what_is_too_much_or_blocks_is_no_reason_to_wait() {
        let dir = tempfile::tempdir().expect("a directory");
        for number in 0..=FILES_MAX {
            std::fs::write(dir.path().join(number.to_string()), "").expect("written");
        }
        assert!(of_skill(b"text", dir.path()).expect_err("too many").contains("more than 2000 files"));
        let dir = tempfile::tempdir().expect("a directory");
        rustix::fs::mkfifoat(rustix::fs::CWD, dir.path().join("fifo"), 0o644.into()).expect("a fifo");
        symlink("/dev/zero", dir.path().join("zero")).expect("a link");
        assert_eq!(of_skill(b"text", dir.path()).expect("covered").further, ["fifo", "zero"]);
        let sparse = File::create(dir.path().join("large")).expect("a file");
        sparse.set_len(BYTES_MAX + 1).expect("long");
        assert!(of_skill(b"text", dir.path()).expect_err("too large").contains("64 MiB"));
    }

    #[test]
    fn settings_count_with_the_scripts_that_their_commands_name() {
        let dir = tempfile::tempdir().expect("a directory");
        let script = dir.path().join("check.sh");
        std::fs::write(&script, "true").expect("written");
        let of = || of_settings(b"s", &BTreeSet::from([script.clone()]), dir.path()).expect("covered");
        let before = of();
        assert_eq!(before.line().as_deref(), Some("with the files check.sh"));
        std::fs::write(&script, "curl evil").expect("written");
        assert_ne!(of().hash, before.hash);
        assert_eq!(of_settings(b"s", &BTreeSet::new(), dir.path()).expect("covered").hash, Hash::of(b"s"));
    }
}
