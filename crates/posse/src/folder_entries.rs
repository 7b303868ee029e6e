//! The names in a folder of a project, for front ends that complete what a user types.

use std::path::Path;

use posse_files::{DirHandle, FileKind, RelPath};

/// An entry of a folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FolderEntry {
    /// Its name, without the folder.
    pub name: String,
    /// Whether it is a folder.
    pub is_folder: bool,
}

/// The files and folders in a folder of a project, by name, without links, git's own folder, and what `.gitignore` excludes. Nothing
/// outside of the project is read, and no program is started. A folder that cannot be read has no entries; of a large one,
/// some are omitted.
pub fn folder_entries(project: &Path, folder: &str) -> Vec<FolderEntry> {
    let path = if folder.is_empty() { Ok(RelPath::root()) } else { RelPath::parse(folder) };
    let listing = path.ok().and_then(|path| DirHandle::open(project).ok()?.list(&path).ok());
    let entries = listing.map(|listing| listing.entries).unwrap_or_default().into_iter();
    let entry = |entry: posse_files::DirEntry| {
        let is_folder = entry.kind == FileKind::Directory;
        let name = entry.path.name()?.to_str()?.to_owned();
        (is_folder || entry.kind == FileKind::Regular).then_some(FolderEntry { name, is_folder })
    };
    entries.filter_map(entry).collect()
}
