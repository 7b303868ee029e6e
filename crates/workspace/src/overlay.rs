//! Finds ignored directories (caches, installed packages) and creates the layers with which the sandbox overlays them
//! into workspaces.
//!
//! Git ignores these directories, so no snapshot contains them, and copying them would cost more than all the rest. The
//! sandbox mounts the user's directories for an agent's programs and keeps their changes in the agent's own layer. A
//! mount point may remain in the workspace as an empty directory, which no snapshot contains either.

use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};

use super::RepositoryError;
use posse_files::trees;
use posse_sandbox::Cache;

/// The names of such directories, unless settings name others. Directories with a project's products, such as `build`
/// and `dist`, are not included: a user may expect an agent's output there.
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

/// How many directories deep the search goes: as far as members of a multi-package project.
const DEPTH_MAX: usize = 4;
/// Limit of directories that the search reads.
const READ_DIRS_MAX: usize = 4_000;
/// Limit of directories that are mounted: each is a mount in every command.
const CACHES_MAX: usize = 64;
/// The subdirectories of a layer: the changes, and the kernel's work directory.
const PARTS: [&str; 2] = ["upper", "work"];
/// How many characters of a hash name a layer.
const LAYER_NAME_CHARS: usize = 16;

/// The directories beneath a user's folder that have one of the names and that git ignores, relative to the folder and
/// sorted. `ignored` says whether git ignores a directory with no tracked file in it. Links are not followed, and
/// ignored directories are not searched.
pub fn caches(folder: &Path, names: &[&str], ignored: &dyn Fn(&Path) -> bool) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut level = vec![PathBuf::new()];
    let mut read_dirs = 0;
    for _ in 0..=DEPTH_MAX {
        let mut next = Vec::new();
        for dir in level {
            read_dirs += 1;
            if read_dirs > READ_DIRS_MAX {
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
    // The nearest first, because these matter most.
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

/// The subdirectories of a directory, except those already found and `.git`.
fn below(folder: &Path, dir: &Path, found: &[PathBuf]) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder.join(dir)).into_iter().flatten().flatten();
    let dirs = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    let paths = dirs.filter(|entry| entry.file_name() != ".git").map(|entry| dir.join(entry.file_name()));
    let mut paths: Vec<PathBuf> = paths.filter(|path| !found.contains(path)).collect();
    paths.sort();
    paths
}

/// Creates the layers of an agent for directories of a folder, or reuses existing ones: changes by its programs persist
/// from one call to the next. `layers` is a directory in the agent's state, which programs do not see.
pub fn lay_out(folder: &Path, caches: &[PathBuf], layers: &Path) -> Result<Vec<Cache>, RepositoryError> {
    let laid_out = |at: &PathBuf| {
        let lower = folder.join(at);
        let layer = layers.join(name_of(at));
        make_layer(&lower, &layer)
            .map_err(|error| RepositoryError::io("making the layer of a cache", &layer, &error))?;
        Ok(Cache { lower, at: at.clone(), below: None, layer: Some(layer) })
    };
    caches.iter().map(laid_out).collect()
}

/// The same caches for a call whose changes are discarded: the current layers become read-only, with new layers over
/// them.
pub(super) fn lay_over(caches: &[Cache], layers: &Path) -> io::Result<Vec<Cache>> {
    let over = |cache: &Cache| {
        let below = cache.layer.clone();
        let layer = layers.join(name_of(&cache.at));
        make_layer(below.as_ref().map_or(&cache.lower, |below| below), &layer)?;
        Ok(Cache { below, layer: cache.layer.as_ref().map(|_| layer), ..cache.clone() })
    };
    caches.iter().map(over).collect()
}

/// Removes the layers of an agent, whatever permissions its programs and the kernel set in them. No process of the
/// agent may be alive.
pub fn remove_layers(layers: &Path) -> Result<(), RepositoryError> {
    trees::remove(layers)
        .map_err(|error| RepositoryError::io("removing the layers of caches", layers, &error))
}

fn name_of(at: &Path) -> String {
    let hash = blake3::hash(at.as_os_str().as_encoded_bytes()).to_hex();
    hash.chars().take(LAYER_NAME_CHARS).collect()
}

/// Creates a layer for changes to a directory.
pub(super) fn make_layer(lower: &Path, layer: &Path) -> io::Result<()> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(layer)?;
    for part in PARTS {
        let path = layer.join(part);
        match fs::create_dir(&path) {
            Ok(()) => {
                // Programs see the mode of the upper directory.
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

    /// Root ignores permissions. The sandbox tests check this as an ordinary user too.
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
