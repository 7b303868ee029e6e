//! Directories that a workspace does not have and its programs find in it all the same: caches, and what was
//! installed.
//!
//! They are ignored by git, so no snapshot holds them, and copying them would cost more than all the rest. The sandbox
//! shows the person's to an agent's programs, and keeps what these change in a layer of the agent's own. A mount needs
//! a directory to stand on: an empty one may be left in the workspace, which no snapshot sees either.

use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};

use super::WorkspaceError;
use posse_files::trees;
use posse_sandbox::Cache;

/// The names of such directories, unless somebody says otherwise. Directories that hold a project's products, such as
/// `build` and `dist`, are not among them: a person may expect to find there what an agent made.
pub const CACHE_NAMES: [&str; 13] = [
    "node_modules",
    "bower_components",
    "target",
    ".venv",
    "venv",
    ".tox",
    ".nox",
    "vendor/bundle",
    ".gradle",
    ".stack-work",
    "dist-newstyle",
    "_build",
    ".zig-cache",
];

/// How many directories deep they are looked for: as far as the members of a project with several packages are.
const DEPTH_MAX: usize = 4;
/// Most directories that are looked into.
const LOOKED_INTO_MAX: usize = 4_000;
/// Most directories that are shown: each is a mount of every command.
const CACHES_MAX: usize = 64;
/// What is in a layer: the changes, and what the kernel needs beside them.
const PARTS: [&str; 2] = ["upper", "work"];
/// How many characters of a hash name a layer.
const LAYER_NAME_CHARS: usize = 16;

/// The directories beneath a person's folder that have one of the names and that git ignores, relative to the folder
/// and in the order of their paths. `ignored` says whether git ignores a directory, with nothing in it tracked. Links
/// are not followed, and no directory that is ignored is looked into.
pub fn caches(folder: &Path, names: &[&str], ignored: &dyn Fn(&Path) -> bool) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut level = vec![PathBuf::new()];
    let mut looked_into = 0;
    for _ in 0..=DEPTH_MAX {
        let mut next = Vec::new();
        for dir in level {
            looked_into += 1;
            if looked_into > LOOKED_INTO_MAX {
                break;
            }
            let here = |name: &&&str| is_dir(folder, &dir, name);
            let here: Vec<PathBuf> =
                names.iter().filter(here).map(|name| dir.join(name)).filter(|path| ignored(path)).collect();
            next.extend(below(folder, &dir, &here).into_iter().filter(|path| !ignored(path)));
            found.extend(here);
        }
        level = next;
    }
    // The nearest first: those are the ones that matter most.
    found.truncate(CACHES_MAX);
    found.sort();
    found
}

/// Whether a name of one or more parts is a directory, without a link on the way.
fn is_dir(folder: &Path, dir: &Path, name: &str) -> bool {
    let mut path = folder.join(dir);
    let plain = |part: &str| !matches!(part, "" | "." | "..");
    name.split('/').all(|part| {
        path.push(part);
        plain(part) && fs::symlink_metadata(&path).is_ok_and(|metadata| metadata.is_dir())
    })
}

/// The directories in a directory, but for those already found and git's own.
fn below(folder: &Path, dir: &Path, found: &[PathBuf]) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder.join(dir)).into_iter().flatten().flatten();
    let dirs = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    let paths = dirs.filter(|entry| entry.file_name() != ".git").map(|entry| dir.join(entry.file_name()));
    let mut paths: Vec<PathBuf> = paths.filter(|path| !found.contains(path)).collect();
    paths.sort();
    paths
}

/// Makes the layers of an agent for directories of a folder, or finds those that it has: what its programs changed
/// there is kept from one call to the next. `layers` is a directory beneath the agent's state, which programs do not
/// see.
pub fn lay_out(folder: &Path, caches: &[PathBuf], layers: &Path) -> Result<Vec<Cache>, WorkspaceError> {
    let laid_out = |at: &PathBuf| {
        let lower = folder.join(at);
        let layer = layers.join(name_of(at));
        make_layer(&lower, &layer)
            .map_err(|error| WorkspaceError::io("making the layer of a cache", &layer, &error))?;
        Ok(Cache { lower, at: at.clone(), below: None, layer: Some(layer) })
    };
    caches.iter().map(laid_out).collect()
}

/// The same caches for a call whose changes nobody keeps: with the changes that are in their layers now, and new layers
/// over them.
pub(super) fn lay_over(caches: &[Cache], layers: &Path) -> io::Result<Vec<Cache>> {
    let over = |cache: &Cache| {
        let below = cache.layer.clone();
        let layer = layers.join(name_of(&cache.at));
        make_layer(below.as_ref().map_or(&cache.lower, |below| below), &layer)?;
        Ok(Cache { below, layer: cache.layer.as_ref().map(|_| layer), ..cache.clone() })
    };
    caches.iter().map(over).collect()
}

/// Removes the layers of an agent, whatever its programs and the kernel made of the permissions in them. Nothing of the
/// agent may be alive.
pub fn remove_layers(layers: &Path) -> Result<(), WorkspaceError> {
    trees::remove(layers).map_err(|error| WorkspaceError::io("removing the layers of caches", layers, &error))
}

fn name_of(at: &Path) -> String {
    let hash = blake3::hash(at.as_os_str().as_encoded_bytes()).to_hex();
    hash.chars().take(LAYER_NAME_CHARS).collect()
}

/// Makes what holds changes to a directory.
pub(super) fn make_layer(lower: &Path, layer: &Path) -> io::Result<()> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(layer)?;
    for part in PARTS {
        let path = layer.join(part);
        match fs::create_dir(&path) {
            Ok(()) => {
                // The upper one's mode is the mode that programs see.
                let mode = fs::metadata(lower)?.permissions().mode() & 0o777 | 0o700;
                fs::set_permissions(&path, fs::Permissions::from_mode(mode))?;
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(dirs: &[&str]) -> tempfile::TempDir {
        let top = tempfile::tempdir().expect("a directory");
        for dir in dirs {
            fs::create_dir_all(top.path().join(dir)).expect("made");
        }
        top
    }

    #[test]
    fn ignored_directories_of_the_names_are_found_and_not_looked_into() {
        let top = tree(&[
            "node_modules/a/node_modules",
            "packages/one/node_modules",
            "src/target",
            "target/debug",
            "vendor/bundle/gems",
            "ignored/target",
            "a/b/c/d/target",
            "a/b/c/d/e/target",
            ".git/target",
            "dist",
        ]);
        std::os::unix::fs::symlink("packages", top.path().join("linked")).expect("made");
        std::os::unix::fs::symlink("target", top.path().join(".venv")).expect("made");
        fs::write(top.path().join("venv"), "a file").expect("written");
        // `src/target` is a part of the project that happens to have the name.
        let ignored = |path: &Path| {
            path != Path::new("src/target")
                && path.iter().any(|part| {
                    ["node_modules", "target", "bundle", "ignored", ".venv", "venv"]
                        .contains(&part.to_str().expect("text"))
                })
        };
        let found = caches(top.path(), &CACHE_NAMES, &ignored);
        let expected =
            ["a/b/c/d/target", "node_modules", "packages/one/node_modules", "target", "vendor/bundle"];
        assert_eq!(found, expected.map(PathBuf::from));
        assert_eq!(caches(top.path(), &["../x", "", "packages/.."], &|_| true), Vec::<PathBuf>::new());
    }

    #[test]
    fn there_are_never_more_than_can_be_mounted_and_the_nearest_are_kept() {
        let names: Vec<String> = (0..CACHES_MAX + 5).map(|number| format!("p{number:03}/target")).collect();
        let top = tree(&names.iter().map(String::as_str).chain(["target"]).collect::<Vec<_>>());
        let found = caches(top.path(), &["target"], &|path| path.ends_with("target"));
        assert_eq!((found.len(), found.last()), (CACHES_MAX, Some(&PathBuf::from("target"))));
    }

    #[test]
    fn a_layer_is_made_once_and_kept() {
        let top = tree(&["folder/target", "folder/a/target", "state"]);
        let (folder, state) = (top.path().join("folder"), top.path().join("state/layers"));
        fs::set_permissions(folder.join("target"), fs::Permissions::from_mode(0o750)).expect("set");
        let at = ["target", "a/target"].map(PathBuf::from);
        let first = lay_out(&folder, &at, &state).expect("laid out");
        let layer = first[0].layer.clone().expect("a layer");
        assert!(layer.starts_with(&state) && first[0].layer != first[1].layer);
        assert_eq!(fs::metadata(layer.join("upper")).expect("there").permissions().mode() & 0o777, 0o750);
        fs::write(layer.join("upper/kept"), "").expect("written");
        assert_eq!(lay_out(&folder, &at, &state).expect("again"), first);
        assert!(layer.join("upper/kept").exists());
    }

    /// As root nothing is closed; the tests of the sandbox tell this as an ordinary user too.
    #[test]
    fn layers_go_whatever_their_permissions_and_links_in_them_lead_nowhere() {
        let top = tree(&["layers/a/upper/closed/deep", "layers/a/work/work", "kept"]);
        fs::write(top.path().join("kept/file"), "").expect("written");
        std::os::unix::fs::symlink("../../../kept", top.path().join("layers/a/upper/link")).expect("made");
        for closed in ["layers/a/upper/closed", "layers/a/work/work"] {
            fs::set_permissions(top.path().join(closed), fs::Permissions::from_mode(0o000)).expect("set");
        }
        let layers = top.path().join("layers");
        remove_layers(&layers).expect("removed");
        assert!(!layers.exists() && top.path().join("kept/file").exists());
        remove_layers(&layers).expect("nothing is left to do");
    }
}
