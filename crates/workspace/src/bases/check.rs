//! Compares the files of a state with its manifest: by their stat at the first use in a process, by their content in the
//! background and on request.

use std::convert::Infallible;
use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use posse_files::parallel;
use rustix::fs::{AtFlags, FlockOperation, Mode as Permissions, OFlags, flock, readlinkat, statat};
use rustix::io::Errno;

use super::super::content::open_beneath;
use super::super::gc::{entries_of, names_in};
use super::super::manifest::{Entry, Manifest, PathStats, Stat};
use super::super::object::{self, Mode, ObjectType};
use super::super::project::Project;
use super::super::refs::check_id;
use super::super::sync::UNKNOWN_BOOT;
use super::super::{LocalFiles, ObjectId, RepositoryError, RunSpace, disk, notes, scan};
use super::find::ProjectStates;
use super::{BaseState, FILES, MADE, MANIFEST, SHAPE, SPOILED, StateMark, shape};

/// The file in the directory of a state whose time is that of the last comparison of contents.
pub(super) const CHECKED: &str = "checked";
/// What the file has after a comparison that found nothing. Without it, a comparison has begun.
const DONE: &[u8] = b"done";
/// How long a comparison that has begun counts: its process may have ended.
const CLAIM_LASTS: Duration = Duration::from_mins(10);
/// How long a comparison of contents counts. It reads the whole project, so it is not made for every run.
const CHECK_LASTS: Duration = Duration::from_hours(24);
/// The priority of the thread that reads contents: no agent waits for it.
const NICENESS: i32 = 19;

/// The first entry of a state that is not as it was laid out, by its stat, as readable text.
pub(super) fn changed_entry(dir: &Path) -> Option<String> {
    let (Some(manifest), Some(shape)) =
        (Manifest::load(&dir.join(MANIFEST)), PathStats::load(&dir.join(SHAPE)))
    else {
        return Some("the list of its files is damaged".to_owned());
    };
    shape::changed(dir, &shape).or_else(|| changed_file(&dir.join(FILES), &manifest))
}

/// The same for the files of the manifest.
fn changed_file(files: &Path, manifest: &Manifest) -> Option<String> {
    let Ok(root) = scan::open_root(files) else { return Some("its top directory".to_owned()) };
    // Beneath the handle of its directory, a file is found in one step.
    let groups: Vec<&[Entry]> =
        manifest.entries.chunk_by(|one, next| directory_of(&one.path) == directory_of(&next.path)).collect();
    let Ok(changed) =
        parallel::map(groups.len(), |at| Ok::<_, Infallible>(changed_in_group(&root, groups[at])));
    let first = changed.into_iter().flatten().next();
    first.map(|entry| notes::readable(&entry.path))
}

/// The first changed file among those of one directory.
fn changed_in_group<'a>(root: &OwnedFd, group: &'a [Entry]) -> Option<&'a Entry> {
    let first = group.iter().find(|entry| entry.stat.is_some())?;
    let dir = directory_of(&first.path);
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW;
    let opened =
        if dir.is_empty() { None } else { Some(open_beneath(root, dir, flags, Permissions::empty())) };
    let Ok(opened) = opened.transpose() else { return Some(first) };
    let dir_handle = opened.as_ref().unwrap_or(root);
    group.iter().find(|entry| {
        let Some(stat) = entry.stat else { return false };
        let name = &entry.path[dir.len()..];
        let now = statat(dir_handle, name.strip_prefix(b"/").unwrap_or(name), AtFlags::SYMLINK_NOFOLLOW);
        now.map_or(true, |now| Stat::of(&now) != stat)
    })
}

/// The directory part of a path, without the last slash.
fn directory_of(path: &[u8]) -> &[u8] {
    path.iter().rposition(|byte| *byte == b'/').map_or(&path[..0], |at| &path[..at])
}

/// The first entry of a state that was changed, or whose content is not that of its commit, as readable text. Reads all
/// files. An error says nothing about the files.
fn difference(dir: &Path) -> io::Result<Option<String>> {
    if let Some(changed) = changed_entry(dir) {
        return Ok(Some(format!("{changed} was changed after Posse laid it out")));
    }
    let manifest = Manifest::load(&dir.join(MANIFEST)).ok_or(ErrorKind::NotFound)?;
    let root = scan::open_root(&dir.join(FILES)).map_err(io::Error::other)?;
    for entry in manifest.entries.iter().filter(|entry| entry.stat.is_some()) {
        if content_of(&root, entry)? != Some(entry.oid) {
            return Ok(Some(format!("{} has another content", notes::readable(&entry.path))));
        }
    }
    Ok(None)
}

/// The id of the content of a file that is laid out; `None` if there is no such file.
fn content_of(root: &OwnedFd, entry: &Entry) -> io::Result<Option<ObjectId>> {
    let is_gone = |errno: Errno| {
        matches!(errno, Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::INVAL | Errno::XDEV | Errno::NXIO)
    };
    if entry.mode == Mode::Symlink {
        return match readlinkat(root, entry.path.as_slice(), Vec::new()) {
            Ok(target) => Ok(Some(object::name(ObjectType::Blob, target.as_bytes()))),
            Err(errno) if is_gone(errno) => Ok(None),
            Err(errno) => Err(errno.into()),
        };
    }
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let file = match open_beneath(root, &entry.path, flags, Permissions::empty()) {
        Ok(file) => File::from(file),
        Err(errno) if is_gone(errno) => return Ok(None),
        Err(errno) => return Err(errno.into()),
    };
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Ok(None);
    }
    match object::name_of_reader(&mut &file, metadata.size()) {
        // It changes while it is read.
        Err(error) if error.kind() == ErrorKind::Interrupted => Ok(None),
        named => named.map(Some),
    }
}

/// Whether the contents of a state were compared lately, or are being compared.
fn is_checked(checked: &Path) -> bool {
    let Ok(text) = fs::read(checked) else { return false };
    let lasts = if text == DONE { CHECK_LASTS } else { CLAIM_LASTS };
    let age = checked.metadata().and_then(|checked| checked.modified()).map(|checked| checked.elapsed());
    age.is_ok_and(|age| age.is_ok_and(|age| age < lasts))
}

/// Compares the contents of a state that another process has made, in the background, unless that was done lately.
pub(super) fn begin(space: &RunSpace, state: &Arc<BaseState>) {
    let checked = state.dir.join(CHECKED);
    // The claim comes first, so that other processes do not read the same files.
    if is_checked(&checked) || fs::write(&checked, b"").is_err() {
        return;
    }
    let (space, state) = (space.clone(), state.clone());
    let work = move || {
        // Without it the check only disturbs others a little more.
        let _ = rustix::process::setpriority_process(None, NICENESS);
        match difference(&state.dir) {
            Ok(None) => drop(fs::write(state.dir.join(CHECKED), DONE)),
            Ok(Some(problem)) => set_aside(&space, &state, &problem),
            // The claim ends, and another process tries again.
            Err(_) => {}
        }
        space.spaces.options.hit("workspace.base_check.ended");
    };
    // Without a thread, the next process that uses the state tries again.
    if std::thread::Builder::new().name("posse-base-check".to_owned()).spawn(work).is_err() {
        drop(fs::remove_file(&checked));
    }
}

/// Sets a state aside whose content differs. The next workspace of the project has a note about it.
fn set_aside(space: &RunSpace, state: &BaseState, problem: &str) {
    let aside = ProjectStates::of(space).and_then(|states| {
        let opened = File::open(&state.dir).map_err(disk::failed("opening", &state.dir))?;
        states.set_aside(&state.dir, &opened)
    });
    let then = match aside {
        Ok(_) => "Posse lays them out again".to_owned(),
        Err(error) => format!("Posse could not set them aside ({error})"),
    };
    space.spaces.bases.add_note(
        space.project.dir(),
        format!(
            "the shared files of commit {} differ from it: {problem}; {then}, and agents that started before may have \
             read the wrong content",
            state.commit
        ),
    );
}

impl LocalFiles {
    /// Compares the contents of the states of a run's project, or of all projects, with their commits. Returns those that
    /// differ, each with the first file that does; they are set aside, so that no later workspace uses them.
    pub fn check_bases(&self, run: Option<&str>) -> Result<Vec<String>, RepositoryError> {
        let boot = self.options.boot();
        let keys = match run {
            Some(run) => self.record(run)?.map(|record| record.project).into_iter().collect(),
            None => names_in(&self.state.join("projects"))?,
        };
        let mut problems = Vec::new();
        for key in keys {
            problems.extend(check_contents(&Project::with_key(&self.state, &key), boot.as_deref())?);
        }
        Ok(problems)
    }
}

fn check_contents(project: &Project, boot: Option<&str>) -> Result<Vec<String>, RepositoryError> {
    let current = boot.filter(|boot| check_id(boot).is_ok()).unwrap_or(UNKNOWN_BOOT);
    let mut problems = Vec::new();
    for dir in entries_of(&project.dir().join("bases").join(current))? {
        let Some(mark) = StateMark::read(&dir) else { continue };
        let Ok(held) = File::open(&dir) else { continue };
        // A cleaning that removes it now has an exclusive lock.
        if flock(&held, FlockOperation::NonBlockingLockShared).is_err() {
            continue;
        }
        let shared = format!("the shared files of commit {} in {}", mark.commit, dir.display());
        match difference(&dir) {
            Ok(None) => {}
            Err(error) => problems.push(format!("{shared} could not be read: {error}")),
            Ok(Some(problem)) => {
                let then = match fs::rename(dir.join(MADE), dir.join(SPOILED)) {
                    // It was removed or set aside meanwhile.
                    Err(error) if error.kind() == ErrorKind::NotFound => continue,
                    Err(error) => format!("Posse could not set them aside: {error}"),
                    Ok(()) => "the next run lays them out again".to_owned(),
                };
                problems.push(format!("{shared} differ from it: {problem}; {then}"));
            }
        }
    }
    Ok(problems)
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::sync_channel;

    use super::*;
    use crate::WorkspaceOptions;

    /// A state on disk of a folder with two files and a link, and the directory that has all of it.
    fn laid_out() -> (tempfile::TempDir, ObjectId, std::path::PathBuf) {
        let dir = tempfile::tempdir().expect("a directory");
        let folder = dir.path().join("folder");
        fs::create_dir(&folder).expect("made");
        fs::write(folder.join("a"), "one").expect("written");
        fs::write(folder.join("b"), "two").expect("written");
        fs::create_dir(folder.join("sub")).expect("made");
        fs::write(folder.join("sub/c"), "three").expect("written");
        std::os::unix::fs::symlink("a", folder.join("link")).expect("linked");
        let files = LocalFiles::new(&dir.path().join("state"), WorkspaceOptions::default());
        let commit = files.begin("run", &folder).expect("begun").snapshot.commit;
        let state = files.open("run").expect("opened").base_state(&commit, None).expect("laid out");
        let place = state.dir.clone();
        (dir, commit, place)
    }

    /// Changes a file of a state so that its stat shows nothing: the manifest then has another content for it.
    fn spoil(state: &Path, path: &[u8]) {
        let mut manifest = Manifest::load(&state.join(MANIFEST)).expect("a manifest");
        let entry = manifest.entries.iter_mut().find(|entry| entry.path == path).expect("an entry");
        entry.oid = ObjectId::from_bytes([7; 20]);
        manifest.save(&state.join(MANIFEST)).expect("saved");
    }

    #[test]
    fn the_first_file_that_differs_in_its_content_is_named() {
        let (_dir, _, state) = laid_out();
        assert_eq!(difference(&state).expect("read"), None);
        for path in ["link", "b"] {
            spoil(&state, path.as_bytes());
            assert_eq!(changed_entry(&state), None, "its stat shows nothing");
            let found = difference(&state).expect("read");
            assert_eq!(found, Some(format!("{path} has another content")));
        }
    }

    #[test]
    fn what_no_manifest_lists_is_compared_too() {
        use std::os::unix::fs::PermissionsExt;
        type ChangeOfState = fn(&Path);
        let changes: [(&str, ChangeOfState); 8] = [
            ("its top directory", |state| fs::write(state.join("files/added"), "x").expect("written")),
            ("its top directory", |state| fs::remove_file(state.join("files/a")).expect("removed")),
            ("sub", |state| fs::create_dir(state.join("files/sub/empty")).expect("made")),
            ("sub", |state| {
                let mode = fs::Permissions::from_mode(0o777);
                fs::set_permissions(state.join("files/sub"), mode).expect("set");
            }),
            ("git/.git/config", |state| {
                fs::write(state.join("git/.git/config"), "[core]\n").expect("written");
            }),
            ("git/.git", |state| fs::write(state.join("git/.git/hook"), "").expect("written")),
            ("b", |state| fs::write(state.join("files/b"), "longer").expect("written")),
            ("the list of its files is damaged", |state| {
                fs::remove_file(state.join(SHAPE)).expect("removed");
            }),
        ];
        for (found, tamper) in changes {
            let (dir, commit, state) = laid_out();
            assert_eq!(changed_entry(&state), None);
            tamper(&state);
            assert_eq!(changed_entry(&state).as_deref(), Some(found));
            let files = LocalFiles::new(&dir.path().join("state"), WorkspaceOptions::default());
            let space = files.open("run").expect("opened");
            let anew = space.base_state(&commit, None).expect("laid out anew");
            assert_eq!(difference(&anew.dir).expect("read"), None);
            let notes = files.bases.take_notes(space.project.dir());
            assert!(notes.len() == 1 && notes[0].contains(found), "{notes:?}");
        }
    }

    #[test]
    fn a_path_that_is_longer_than_the_kernel_takes_is_recorded() {
        let dir = tempfile::tempdir().expect("a directory");
        let folder = dir.path().join("folder");
        let deep = vec!["a-directory-with-a-long-name"; 138].join("/");
        assert!(deep.len() < 4_096 && dir.path().join("state").join(&deep).as_os_str().len() > 4_000);
        let root = rustix::fs::open(dir.path(), OFlags::PATH, Permissions::empty()).expect("opened");
        fs::create_dir(&folder).expect("made");
        let mut at = rustix::fs::openat(&root, "folder", OFlags::PATH, Permissions::empty()).expect("opened");
        for name in deep.split('/') {
            rustix::fs::mkdirat(&at, name, Permissions::from_raw_mode(0o755)).expect("made");
            at = rustix::fs::openat(&at, name, OFlags::PATH, Permissions::empty()).expect("opened");
        }
        let flags = OFlags::WRONLY | OFlags::CREATE;
        rustix::fs::openat(&at, "file", flags, Permissions::from_raw_mode(0o644)).expect("made");
        let files = LocalFiles::new(&dir.path().join("state"), WorkspaceOptions::default());
        let commit = files.begin("run", &folder).expect("begun").snapshot.commit;
        let state = files.open("run").expect("opened").base_state(&commit, None).expect("laid out");
        assert_eq!(changed_entry(&state.dir), None);
    }

    #[test]
    fn a_whiteout_that_was_removed_from_a_layer_is_found() {
        let (dir, commit, _) = laid_out();
        let files = LocalFiles::new(&dir.path().join("state"), WorkspaceOptions::default());
        let begun = files.open("run").expect("opened");
        let folder = dir.path().join("folder");
        fs::remove_file(folder.join("sub/c")).expect("removed");
        let next = files.begin("next", &folder).expect("begun").snapshot.commit;
        let space = files.open("next").expect("opened");
        let state = space.base_state(&next, Some(&commit)).expect("laid out").dir.clone();
        drop(begun);
        assert_eq!(changed_entry(&state), None);
        fs::remove_file(state.join("files/sub")).expect("the directory is gone, so its whiteout is");
        assert_eq!(changed_entry(&state).as_deref(), Some("sub"));
    }

    #[test]
    fn another_process_finds_changed_content_in_the_background() {
        let (dir, commit, state) = laid_out();
        spoil(&state, b"a");
        let (ended, has_ended) = sync_channel(8);
        let faults = move |point: &'static str| {
            if point == "workspace.base_check.ended" {
                ended.send(()).expect("the test waits");
            }
        };
        let options = WorkspaceOptions { faults: Some(Arc::new(faults)), ..WorkspaceOptions::default() };
        let files = LocalFiles::new(&dir.path().join("state"), options);
        let space = files.open("run").expect("opened");
        let used = space.find_state(&commit).expect("found").expect("it was as laid out");
        has_ended.recv().expect("the check ends");
        assert!(
            !state.join(MADE).exists() && used.files()[0].join("a").exists(),
            "it is kept for who uses it"
        );
        let notes = files.bases.take_notes(space.project.dir());
        assert!(notes.len() == 1 && notes[0].contains("a has another content"), "{notes:?}");
        drop(used);
        let anew = space.base_state(&commit, None).expect("laid out anew");
        assert_eq!(difference(&anew.dir).expect("read"), None);
    }

    #[test]
    fn a_state_over_one_that_was_set_aside_is_not_used_any_more() {
        let (dir, commit, state) = laid_out();
        let files = LocalFiles::new(&dir.path().join("state"), WorkspaceOptions::default());
        let space = files.open("run").expect("opened");
        let below = space.find_state(&commit).expect("found").expect("there");
        let pack = space.new_pack();
        let tree = files.record("run").expect("read").expect("there").tree.parse().expect("a tree");
        let next = crate::add_commit(&pack, &tree, &[commit], "the next one").expect("added");
        pack.finish().expect("written");
        let above = space.base_state(&next, Some(&commit)).expect("laid out");
        assert_eq!((above.depth, below.depth), (1, 0));
        drop((above, below));
        assert!(space.find_state(&next).expect("found").is_some());
        fs::rename(state.join(MADE), state.join(SPOILED)).expect("set aside");
        assert!(space.find_state(&next).expect("found").is_none());
    }

    #[test]
    fn content_is_compared_once_a_day() {
        let (dir, _, state) = laid_out();
        let checked = state.join(CHECKED);
        let age = |by: Duration| {
            let then = std::time::SystemTime::now() - by;
            File::options().write(true).open(&checked).expect("opened").set_modified(then).expect("set");
        };
        assert!(!is_checked(&checked));
        for (text, lasts) in [(&b""[..], CLAIM_LASTS), (DONE, CHECK_LASTS)] {
            fs::write(&checked, text).expect("written");
            assert!(is_checked(&checked));
            age(lasts);
            assert!(!is_checked(&checked));
        }
        drop(dir);
    }
}
