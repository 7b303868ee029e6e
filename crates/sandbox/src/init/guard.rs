//! Keeps the protected names of a workspace as they are.
//!
//! What exists is mounted over itself in the box, read-only. What does not exist cannot be mounted on, so it is looked
//! for when the call is over and nothing of it is alive: a protected name that has appeared is renamed, so that
//! nobody's program obeys it and nothing that was made is lost. Git's own directory is not left to that: prompts and
//! editors ask git about a folder all the time, and git runs what it finds there. An empty directory stands for it
//! while the call runs.
//!
//! In a workspace of an agent's own only what exists is protected, and git's directory is the agent's: whatever
//! appears there is refused before anybody obeys it, when the agent's work is integrated.
//!
//! Why it is like this: `docs/decisions/sandbox-protected-names.md`.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, FileType, FlockOperation, Mode, OFlags, RenameFlags};
use rustix::io::Errno;

use super::super::command::Isolation;
use super::super::spec::ProtectedChange;
use super::neighbours::Neighbours;
use super::reached;

/// Names that other programs look into by themselves.
const LOOKED_INTO: [&str; 1] = [".git"];
/// The mode of a directory that stands for one of them: nobody makes such a directory by chance.
const STANDS_FOR: u32 = 0o1500;
/// How often one is made anew that another call was just removing.
const STAND_TRIES: usize = 100;
/// How a refused name ends.
const REFUSED: &str = "refused";
/// How many refused things of one name are numbered. Beyond that somebody took the names on purpose.
const NUMBERED_MAX: u32 = 100;

/// The protected names of one call.
pub(super) struct Guard {
    names: Vec<(PathBuf, EntryBefore)>,
    /// The workspace. Every name is looked for from here.
    dir: OwnedFd,
    neighbours: Neighbours,
    /// What stands for a directory, locked shared by every call that needs it: the last one removes it.
    standing: Vec<(String, OwnedFd)>,
    isolation: Isolation,
}

/// Puts aside what has appeared under names that were missing, for an init that was lost.
pub(in super::super) fn close_for(workspace: &str, missing: &[String]) -> Vec<ProtectedChange> {
    let Ok(dir) = reached::open_dir(workspace) else { return Vec::new() };
    let names = missing.iter().map(|name| (PathBuf::from(name), EntryBefore::Nothing)).collect();
    let neighbours = Neighbours::join(&dir);
    Guard { names, dir, neighbours, standing: Vec::new(), isolation: Isolation::InPlace }.close()
}

/// What was there before the call.
enum EntryBefore {
    Nothing,
    /// What has this number.
    Something(u64),
    /// A link cannot be mounted on: it is put back if it was changed. It may be above the name.
    Link(PathBuf, PathBuf),
}

impl Guard {
    pub(super) fn new(workspace: &str, protected: &[String], isolation: Isolation) -> io::Result<Self> {
        let in_place = isolation == Isolation::InPlace;
        let dir = reached::open_dir(workspace)?;
        let neighbours = Neighbours::join(&dir);
        let mut names = Vec::with_capacity(protected.len());
        let mut standing = Vec::new();
        for name in protected {
            if !in_place && LOOKED_INTO.iter().any(|own| Path::new(name).starts_with(own)) {
                continue;
            }
            if LOOKED_INTO.contains(&name.as_str()) {
                standing.extend(cover_git(&dir, name)?.map(|stands| (name.clone(), stands)));
            }
            let before = match find(&dir, Path::new(name))? {
                EntryType::Nothing => EntryBefore::Nothing,
                EntryType::Something(_, number) => EntryBefore::Something(number),
                EntryType::Link(place, target) => EntryBefore::Link(place.path, target),
            };
            if in_place || matches!(before, EntryBefore::Something(_)) {
                names.push((PathBuf::from(name), before));
            }
        }
        Ok(Self { names, dir, neighbours, standing, isolation })
    }

    /// The workspace.
    pub(super) fn dir(&self) -> &OwnedFd {
        &self.dir
    }

    /// The names that are not there, relative to the workspace.
    pub(super) fn missing(&self) -> Vec<String> {
        let nothing = self.names.iter().filter(|(_, before)| matches!(before, EntryBefore::Nothing));
        nothing.map(|(name, _)| name.display().to_string()).collect()
    }

    /// What there is to mount over itself, relative to the workspace.
    pub(super) fn existing(&self) -> impl Iterator<Item = &Path> {
        let there = self.names.iter().filter(|(_, before)| matches!(before, EntryBefore::Something(_)));
        there.map(|(name, _)| name.as_path())
    }

    /// Puts aside what has appeared, once nobody is left who could make more; the names, relative to the workspace.
    pub(super) fn close(self) -> Vec<ProtectedChange> {
        let mut refused = Vec::new();
        if self.isolation == Isolation::Own {
            return refused;
        }
        for (name, before) in &self.names {
            // What cannot be looked at is being changed by another call in the workspace, which has its own guard.
            let aside = match before {
                // Only beside another call: alone, whoever replaced it is a person at work.
                EntryBefore::Something(_) if self.neighbours.alone => None,
                EntryBefore::Something(number) => match find(&self.dir, name) {
                    Ok(EntryType::Something(_, now)) if now == *number => None,
                    found => found.ok().and_then(EntryType::put_aside),
                },
                EntryBefore::Nothing => find(&self.dir, name).ok().and_then(EntryType::put_aside),
                EntryBefore::Link(link, target) => self.put_back(link, target),
            };
            refused.extend(aside);
        }
        for (name, stands) in &self.standing {
            let alone = rustix::fs::flock(stands, FlockOperation::NonBlockingLockExclusive).is_ok();
            if alone && is_under(&self.dir, name, stands) {
                // One that is not empty is not ours any more.
                let _ = rustix::fs::unlinkat(&self.dir, name, AtFlags::REMOVEDIR);
            }
        }
        refused
    }

    /// Puts a link back that was changed, and aside what is there now.
    fn put_back(&self, link: &Path, target: &Path) -> Option<ProtectedChange> {
        let found = find(&self.dir, link).ok()?;
        if matches!(&found, EntryType::Link(place, now) if place.path == link && now == target) {
            return None;
        }
        let refused = found.put_aside();
        // The directory above it may be gone as well: then nothing is left that anybody could obey.
        if let (Ok((dir, None)), Some(name)) = (enter(&self.dir, link.parent()), link.file_name()) {
            let _ = rustix::fs::symlinkat(target, &dir, name);
        }
        refused
    }
}

/// What is under a name. Links are never followed: they are made by programs, and lead anywhere.
enum EntryType {
    Nothing,
    Something(GuardedEntry, u64),
    /// A link, under the name or above it, and what it says.
    Link(GuardedEntry, PathBuf),
}

/// An entry of a directory.
struct GuardedEntry {
    dir: OwnedFd,
    /// Relative to the workspace.
    path: PathBuf,
}

impl EntryType {
    /// Renames what was found; its name, if it was there to be renamed.
    fn put_aside(self) -> Option<ProtectedChange> {
        match self {
            EntryType::Nothing => None,
            EntryType::Something(place, _) | EntryType::Link(place, _) => Some(ProtectedChange {
                name: place.path.display().to_string(),
                now: place.put_aside().map(|name| place.path.with_file_name(name).display().to_string()),
            }),
        }
    }
}

impl GuardedEntry {
    /// The new name; none if it could not be renamed.
    fn put_aside(&self) -> Option<String> {
        let name = self.path.file_name().and_then(OsStr::to_str)?;
        let numbered = (1..NUMBERED_MAX).map(|number| match number {
            1 => format!("{name}.{REFUSED}"),
            number => format!("{name}.{REFUSED}-{number}"),
        });
        let unforeseen = fs::read_to_string("/proc/sys/kernel/random/uuid").into_iter();
        let unforeseen = unforeseen.map(|number| format!("{name}.{REFUSED}-{}", number.trim()));
        let mut opened = false;
        for aside in numbered.chain(unforeseen) {
            let mut renamed = rename(&self.dir, name, &aside);
            if renamed == Err(Errno::ACCESS) && !std::mem::replace(&mut opened, true) {
                open_up(&self.dir);
                renamed = rename(&self.dir, name, &aside);
            }
            match renamed {
                Ok(()) => return Some(aside),
                Err(Errno::EXIST) => {}
                Err(_) => return None,
            }
        }
        None
    }
}

/// Renames an entry, and replaces nothing.
fn rename(dir: &OwnedFd, from: &str, to: &str) -> rustix::io::Result<()> {
    match rustix::fs::renameat_with(dir, from, dir, to, RenameFlags::NOREPLACE) {
        // Not every filesystem can promise it.
        Err(Errno::INVAL) => match rustix::fs::statat(dir, to, AtFlags::SYMLINK_NOFOLLOW) {
            Err(Errno::NOENT) => rustix::fs::renameat(dir, from, dir, to),
            Ok(_) => Err(Errno::EXIST),
            Err(error) => Err(error),
        },
        renamed => renamed,
    }
}

/// Lets the owner of a directory, which this process is, change it again: a program may have taken that away.
fn open_up(dir: &OwnedFd) {
    let path = format!("/proc/self/fd/{}", dir.as_raw_fd());
    if let Ok(metadata) = fs::metadata(&path) {
        let _ = fs::set_permissions(&path, fs::Permissions::from_mode(metadata.mode() & 0o7777 | 0o700));
    }
}

/// Looks for a name beneath a directory.
fn find(dir: &OwnedFd, name: &Path) -> io::Result<EntryType> {
    let (dir, left) = enter(dir, name.parent())?;
    // Where it did not get through, the part that stopped it is looked at instead.
    let path = match left {
        None => name.to_owned(),
        Some(stopped) => stopped,
    };
    let Some(last) = path.file_name() else { return Ok(EntryType::Nothing) };
    let looked = match rustix::fs::statat(&dir, last, AtFlags::SYMLINK_NOFOLLOW) {
        Err(Errno::ACCESS) => {
            open_up(&dir);
            rustix::fs::statat(&dir, last, AtFlags::SYMLINK_NOFOLLOW)
        }
        looked => looked,
    };
    match looked.map(|stat| (FileType::from_raw_mode(stat.st_mode), stat.st_ino)) {
        Ok((FileType::Symlink, _)) => {
            let target = rustix::fs::readlinkat(&dir, last, Vec::new())?.into_bytes();
            let target = PathBuf::from(std::ffi::OsString::from_vec(target));
            Ok(EntryType::Link(GuardedEntry { dir, path }, target))
        }
        // Something that is no directory has nothing beneath it.
        Ok(_) if path != name => Ok(EntryType::Nothing),
        Ok((_, number)) => Ok(EntryType::Something(GuardedEntry { dir, path }, number)),
        Err(Errno::NOENT) => Ok(EntryType::Nothing),
        Err(error) => Err(error.into()),
    }
}

/// Goes down a path without following links: the directory reached, and the part that is no directory, if one is not.
fn enter(dir: &OwnedFd, path: Option<&Path>) -> io::Result<(OwnedFd, Option<PathBuf>)> {
    let mut dir = dir.try_clone()?;
    let mut gone = PathBuf::new();
    for part in path.into_iter().flatten() {
        gone.push(part);
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mut next = rustix::fs::openat(&dir, part, flags, Mode::empty());
        if matches!(next, Err(Errno::ACCESS)) {
            open_up(&dir);
            next = rustix::fs::openat(&dir, part, flags, Mode::empty());
        }
        match next {
            Ok(next) => dir = next,
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => return Ok((dir, Some(gone))),
            Err(error) => return Err(error.into()),
        }
    }
    Ok((dir, None))
}

/// Makes a directory where there is nothing, or shares the one that stands there already. Where this process may not,
/// there is none.
fn cover_git(dir: &OwnedFd, name: &str) -> io::Result<Option<OwnedFd>> {
    for _ in 0..STAND_TRIES {
        match rustix::fs::mkdirat(dir, name, Mode::from_raw_mode(STANDS_FOR)) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(Errno::ACCESS | Errno::PERM | Errno::ROFS) => return Ok(None),
            Err(error) => return Err(error.into()),
        }
        // A link is not followed, and a pipe that came to be there is not waited for.
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let stands = match rustix::fs::openat(dir, name, flags, Mode::empty()) {
            Ok(stands) => stands,
            Err(Errno::NOENT) => continue,
            Err(_) => return Ok(None),
        };
        if rustix::fs::fstat(&stands)?.st_mode & 0o7777 != STANDS_FOR {
            return Ok(None);
        }
        if rustix::fs::flock(&stands, FlockOperation::NonBlockingLockShared).is_err() {
            continue;
        }
        // Whoever removes it holds its lock alone: if it is still there now, it stays.
        if is_under(dir, name, &stands) {
            return Ok(Some(stands));
        }
    }
    Ok(None)
}

/// Whether a directory is still what is under a name.
fn is_under(dir: &OwnedFd, name: &str, held: &OwnedFd) -> bool {
    reached::open_subdir(dir, name.as_ref()).is_ok_and(|now| reached::is_same(now, held).unwrap_or(false))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What was put aside, by its old names.
    fn close(guard: Guard) -> Vec<String> {
        guard.close().into_iter().map(|refused| refused.name).collect()
    }

    fn in_place(dir: &str, protected: &[String]) -> io::Result<Guard> {
        Guard::new(dir, protected, Isolation::InPlace)
    }

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn what_has_appeared_is_put_aside_and_kept() {
        let top = tempfile::tempdir().expect("a directory");
        let at = |name: &str| top.path().join(name);
        fs::write(at(".mcp.json"), "mine").expect("written");
        fs::write(at(".envrc.refused"), "older").expect("written");
        let dir = top.path().to_str().expect("text");
        let guard = in_place(dir, &names(&[".git", ".mcp.json", ".envrc", ".github/workflows", ".vscode"]))
            .expect("a guard");
        assert_eq!(
            guard.existing().map(Path::to_owned).collect::<Vec<_>>(),
            [Path::new(".git"), Path::new(".mcp.json")]
        );
        fs::write(at(".envrc"), "evil").expect("written");
        fs::create_dir_all(at(".github/workflows")).expect("made");
        fs::write(at(".github/README.md"), "fine").expect("written");
        assert_eq!(close(guard), [".envrc", ".github/workflows"]);
        assert_eq!(fs::read_to_string(at(".envrc.refused-2")).expect("kept"), "evil");
        assert_eq!(fs::read_to_string(at(".envrc.refused")).expect("kept"), "older");
        assert!(at(".github/workflows.refused").is_dir() && at(".github/README.md").is_file());
        assert_eq!(fs::read_to_string(at(".mcp.json")).expect("kept"), "mine");
        for gone in [".git", ".envrc", ".github/workflows", ".vscode"] {
            assert!(fs::symlink_metadata(at(gone)).is_err(), "{gone}");
        }
    }

    #[test]
    fn a_link_above_a_name_is_put_aside_and_what_it_leads_to_stays() {
        let top = tempfile::tempdir().expect("a directory");
        let at = |name: &str| top.path().join(name);
        fs::create_dir_all(at("ws")).expect("made");
        fs::create_dir_all(at("out/git")).expect("made");
        fs::write(at("out/posse"), "mine").expect("written");
        let dir = at("ws");
        let guard = in_place(dir.to_str().expect("text"), &names(&[".config/git", ".config/posse"]));
        std::os::unix::fs::symlink("../out", at("ws/.config")).expect("made");
        assert_eq!(close(guard.expect("a guard")), [".config"]);
        assert!(at("out/git").is_dir() && at("out/posse").is_file());
        assert_eq!(fs::read_link(at("ws/.config.refused")).expect("kept"), Path::new("../out"));
        assert!(fs::symlink_metadata(at("ws/.config")).is_err());
    }

    #[test]
    fn a_link_that_was_above_a_name_is_put_back() {
        let top = tempfile::tempdir().expect("a directory");
        let at = |name: &str| top.path().join(name);
        std::os::unix::fs::symlink("elsewhere", at(".cargo")).expect("made");
        let dir = top.path().to_str().expect("text");
        let guard = in_place(dir, &names(&[".cargo/config", ".cargo/config.toml"])).expect("a guard");
        fs::remove_file(at(".cargo")).expect("removed");
        fs::create_dir(at(".cargo")).expect("made");
        fs::write(at(".cargo/config.toml"), "evil").expect("written");
        assert_eq!(close(guard), [".cargo"]);
        assert_eq!(fs::read_link(at(".cargo")).expect("a link"), Path::new("elsewhere"));
        assert!(at(".cargo.refused/config.toml").is_file());
    }

    #[test]
    fn no_name_is_kept_by_taking_all_others_or_by_closing_a_directory() {
        let top = tempfile::tempdir().expect("a directory");
        let at = |name: &str| top.path().join(name);
        let dir = top.path().to_str().expect("text");
        let guard = in_place(dir, &names(&[".envrc", ".github/workflows"])).expect("a guard");
        fs::write(at(".envrc.refused"), "").expect("written");
        (2..NUMBERED_MAX).for_each(|number| {
            fs::write(at(&format!(".envrc.refused-{number}")), "").expect("written");
        });
        fs::write(at(".envrc"), "evil").expect("written");
        fs::create_dir_all(at(".github/workflows")).expect("made");
        // As root nothing is closed; the stories tell this as an ordinary user too.
        fs::set_permissions(at(".github"), fs::Permissions::from_mode(0o000)).expect("set");
        fs::set_permissions(top.path(), fs::Permissions::from_mode(0o555)).expect("set");
        assert_eq!(close(guard), [".envrc", ".github/workflows"]);
        fs::set_permissions(top.path(), fs::Permissions::from_mode(0o755)).expect("set");
        fs::set_permissions(at(".github"), fs::Permissions::from_mode(0o755)).expect("set");
        assert!(!at(".envrc").exists() && !at(".github/workflows").exists());
    }

    /// One call makes a name while another begins; when it is put aside, the other cannot make it again.
    #[test]
    fn two_calls_at_once_cannot_keep_a_name() {
        let top = tempfile::tempdir().expect("a directory");
        let dir = top.path().to_str().expect("text");
        let at = |name: &str| top.path().join(name);
        fs::write(at(".mcp.json"), "mine").expect("written");
        let protected = names(&[".envrc", ".mcp.json"]);
        let first = in_place(dir, &protected).expect("a guard");
        fs::write(at(".envrc"), "evil").expect("written");
        let second = in_place(dir, &protected).expect("a guard");
        assert_eq!(close(first), [".envrc"]);
        fs::write(at(".envrc"), "evil again").expect("written");
        assert_eq!(close(second), [".envrc"]);
        assert!(!at(".envrc").exists() && at(".envrc.refused-2").exists());
        assert_eq!(fs::read_to_string(at(".mcp.json")).expect("kept"), "mine");
        // Alone, a person may replace what is theirs meanwhile.
        let third = in_place(dir, &protected).expect("a guard");
        fs::write(at("new"), "mine too").expect("written");
        fs::rename(at("new"), at(".mcp.json")).expect("replaced");
        assert_eq!(close(third), Vec::<String>::new());
    }

    #[test]
    fn a_link_is_put_back() {
        let top = tempfile::tempdir().expect("a directory");
        let link = top.path().join(".claude");
        std::os::unix::fs::symlink("shared", &link).expect("made");
        let dir = top.path().to_str().expect("text");
        let guard = in_place(dir, &names(&[".claude"])).expect("a guard");
        fs::remove_file(&link).expect("removed");
        fs::create_dir(&link).expect("made");
        assert_eq!(close(guard), [".claude"]);
        assert_eq!(fs::read_link(&link).expect("a link"), Path::new("shared"));
    }

    #[test]
    fn what_stands_for_git_goes_with_the_last_call_and_a_repository_stays() {
        let top = tempfile::tempdir().expect("a directory");
        let dir = top.path().to_str().expect("text");
        let git = top.path().join(".git");
        let first = in_place(dir, &names(&[".git"])).expect("a guard");
        let second = in_place(dir, &names(&[".git"])).expect("a guard");
        assert!(close(first).is_empty());
        assert!(git.is_dir(), "another call still needs it");
        assert!(close(second).is_empty());
        assert!(!git.exists());
        fs::create_dir(&git).expect("made");
        assert!(close(in_place(dir, &names(&[".git"])).expect("a guard")).is_empty());
        assert!(git.is_dir());
    }

    #[test]
    fn in_an_agents_own_workspace_git_is_its_own_and_what_appears_stays() {
        let top = tempfile::tempdir().expect("a directory");
        let at = |name: &str| top.path().join(name);
        fs::create_dir(at(".git")).expect("made");
        fs::write(at(".mcp.json"), "mine").expect("written");
        std::os::unix::fs::symlink("shared", at(".claude")).expect("made");
        let dir = top.path().to_str().expect("text");
        let protected = names(&[".git", ".git/hooks", ".mcp.json", ".envrc", ".claude"]);
        let guard = Guard::new(dir, &protected, Isolation::Own).expect("a guard");
        assert_eq!(guard.existing().collect::<Vec<_>>(), [Path::new(".mcp.json")]);
        assert!(guard.missing().is_empty(), "nobody has to look again");
        fs::write(at(".envrc"), "new").expect("written");
        fs::remove_file(at(".claude")).expect("removed");
        assert_eq!(close(guard), Vec::<String>::new());
        assert!(at(".envrc").exists() && !at(".claude").exists());
        fs::remove_dir(at(".git")).expect("still empty");
        drop(Guard::new(dir, &protected, Isolation::Own).expect("a guard"));
        assert!(!at(".git").exists(), "nothing stands for it");
    }
}
