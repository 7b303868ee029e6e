//! The directories of a tree by path, so that a commit that differs in few files needs few new trees.

use std::collections::{BTreeSet, HashMap};

use super::ObjectId;
use super::change::{Change, EntryType};
use super::object::{self, DIRECTORY_BITS, Mode, ObjectType, TreeEntry};
use super::objects::TreeFile;

/// An entry of a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TableItem {
    pub(crate) name: Vec<u8>,
    pub(crate) kind: ItemKind,
    pub(crate) oid: ObjectId,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ItemKind {
    Directory,
    Entry(Mode),
}

impl ItemKind {
    pub(crate) const fn bits(self) -> u32 {
        match self {
            Self::Directory => DIRECTORY_BITS,
            Self::Entry(mode) => mode.bits(),
        }
    }
}

/// All directories of one tree.
#[derive(Debug, Clone)]
pub(crate) struct TreeTable {
    /// By path, with a slash at its end; empty at the top. Items are sorted by name.
    dirs: HashMap<Vec<u8>, Vec<TableItem>>,
    pub(crate) tree: ObjectId,
    /// Whether it has submodules, whose directories are not scanned.
    pub(crate) has_gitlinks: bool,
    /// The number of files, links and submodules.
    pub(crate) files: usize,
}

impl TreeTable {
    /// The table of a whole tree. The files are sorted by path.
    pub(crate) fn of(files: &[TreeFile]) -> Self {
        let mut table =
            Self { dirs: HashMap::new(), tree: ObjectId::ZERO, has_gitlinks: false, files: files.len() };
        let mut open: Vec<(Vec<u8>, Vec<TableItem>)> = vec![(Vec::new(), Vec::new())];
        for file in files {
            while open.len() > 1 && open.last().is_some_and(|(dir, _)| !file.path.starts_with(dir)) {
                table.close(&mut open);
            }
            let mut from = open.last().map_or(0, |(dir, _)| dir.len());
            while let Some(slash) = file.path[from..].iter().position(|byte| *byte == b'/') {
                from += slash + 1;
                open.push((file.path[..from].to_vec(), Vec::new()));
            }
            table.has_gitlinks |= file.mode == Mode::Gitlink;
            let item = TableItem {
                name: file.path[from..].to_vec(),
                kind: ItemKind::Entry(file.mode),
                oid: file.oid,
            };
            if let Some((_, items)) = open.last_mut() {
                items.push(item);
            }
        }
        while !open.is_empty() {
            table.close(&mut open);
        }
        table
    }

    /// Completes the innermost open directory.
    fn close(&mut self, open: &mut Vec<(Vec<u8>, Vec<TableItem>)>) {
        let Some((path, mut items)) = open.pop() else { return };
        items.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        let (oid, _) = encode(&items);
        match open.last_mut() {
            Some((above, siblings)) => {
                let name = path[above.len()..path.len() - 1].to_vec();
                siblings.push(TableItem { name, kind: ItemKind::Directory, oid });
            }
            None => self.tree = oid,
        }
        self.dirs.insert(path, items);
    }

    /// The entries of a directory, sorted by name; empty if it does not exist.
    pub(crate) fn items(&self, dir: &[u8]) -> &[TableItem] {
        self.dirs.get(dir).map_or(&[], Vec::as_slice)
    }

    pub(crate) fn has_dir(&self, dir: &[u8]) -> bool {
        self.dirs.contains_key(dir)
    }

    /// The tree objects of all directories.
    pub(crate) fn trees(&self) -> impl Iterator<Item = (ObjectId, Vec<u8>)> {
        self.dirs.values().map(|items| encode(items))
    }

    /// The entry at a path.
    pub(crate) fn get(&self, path: &[u8]) -> Option<&TableItem> {
        let name_at = path.iter().rposition(|byte| *byte == b'/').map_or(0, |slash| slash + 1);
        let items = self.items(&path[..name_at]);
        items.binary_search_by(|item| item.name.as_slice().cmp(&path[name_at..])).ok().map(|at| &items[at])
    }

    /// Whether a condition holds for any file beneath a directory, whose path ends in a slash.
    pub(crate) fn any_beneath(&self, dir: &[u8], condition: &mut dyn FnMut(&[u8]) -> bool) -> bool {
        let mut waiting = vec![dir.to_vec()];
        while let Some(dir) = waiting.pop() {
            for item in self.items(&dir) {
                let mut path = [dir.as_slice(), &item.name].concat();
                match item.kind {
                    ItemKind::Directory => {
                        path.push(b'/');
                        waiting.push(path);
                    }
                    ItemKind::Entry(_) if condition(&path) => return true,
                    ItemKind::Entry(_) => {}
                }
            }
        }
        false
    }

    /// The table of a tree that differs in these paths.
    pub(crate) fn with(&self, changes: &[Change]) -> Self {
        let mut table = self.clone();
        let mut touched = BTreeSet::new();
        for change in changes {
            let name_at = change.path.iter().rposition(|byte| *byte == b'/').map_or(0, |slash| slash + 1);
            let (dir, name) = (change.path[..name_at].to_vec(), &change.path[name_at..]);
            let items = table.dirs.entry(dir.clone()).or_default();
            let mode = change.new.and_then(|side| Some((mode_of(side.kind)?, side.oid)));
            let at = items.binary_search_by(|item| item.name.as_slice().cmp(name));
            match (at, mode) {
                (Ok(at), Some((mode, oid))) => {
                    table.files += usize::from(items[at].kind == ItemKind::Directory);
                    items[at] = TableItem { name: name.to_vec(), kind: ItemKind::Entry(mode), oid };
                }
                (Err(at), Some((mode, oid))) => {
                    items.insert(at, TableItem { name: name.to_vec(), kind: ItemKind::Entry(mode), oid });
                    table.files += 1;
                }
                // A directory that is there now is the new state of a removed file.
                (Ok(at), None) if items[at].kind != ItemKind::Directory => {
                    items.remove(at);
                    table.files = table.files.saturating_sub(1);
                }
                _ => {}
            }
            table.has_gitlinks |= mode.is_some_and(|(mode, _)| mode == Mode::Gitlink);
            touched.insert(dir);
        }
        table.rehash(touched.into_iter().collect());
        table
    }

    /// Computes the ids of changed directories and of all above them, the deepest first.
    fn rehash(&mut self, mut changed: Vec<Vec<u8>>) {
        let depth = |dir: &[u8]| dir.split(|byte| *byte == b'/').count();
        while !changed.is_empty() {
            changed.sort_by_key(|dir| depth(dir));
            changed.dedup();
            let Some(dir) = changed.pop() else { return };
            let is_empty = self.items(&dir).is_empty();
            let (oid, _) = encode(self.items(&dir));
            if dir.is_empty() {
                self.tree = oid;
                continue;
            }
            let above =
                dir[..dir.len() - 1].iter().rposition(|byte| *byte == b'/').map_or(0, |slash| slash + 1);
            let (parent, name) = (dir[..above].to_vec(), dir[above..dir.len() - 1].to_vec());
            if is_empty {
                self.dirs.remove(&dir);
            }
            let items = self.dirs.entry(parent.clone()).or_default();
            match items.binary_search_by(|item| item.name.cmp(&name)) {
                Ok(at) if is_empty => {
                    if items[at].kind == ItemKind::Directory {
                        items.remove(at);
                    }
                }
                Ok(at) => items[at] = TableItem { name, kind: ItemKind::Directory, oid },
                Err(_) if is_empty => {}
                Err(at) => items.insert(at, TableItem { name, kind: ItemKind::Directory, oid }),
            }
            changed.push(parent);
        }
    }
}

/// The mode of a tree entry; `None` for one that git never writes.
fn mode_of(kind: EntryType) -> Option<Mode> {
    match kind {
        EntryType::File => Some(Mode::File),
        EntryType::Executable => Some(Mode::Executable),
        EntryType::Link => Some(Mode::Symlink),
        EntryType::Submodule => Some(Mode::Gitlink),
        EntryType::Odd(_) => None,
    }
}

/// The tree object of a directory.
pub(crate) fn encode(items: &[TableItem]) -> (ObjectId, Vec<u8>) {
    let mut entries: Vec<TreeEntry<'_>> = items
        .iter()
        .map(|item| TreeEntry { name: &item.name, bits: item.kind.bits(), oid: item.oid })
        .collect();
    let content = object::encode_tree(&mut entries);
    (object::name(ObjectType::Tree, &content), content)
}

#[cfg(test)]
mod tests {
    use super::super::change::Side;
    use super::super::content;
    use super::super::manifest::Entry;
    use super::*;

    fn oid(byte: u8) -> ObjectId {
        ObjectId::from_bytes([byte; 20])
    }

    fn files(paths: &[(&str, u8)]) -> Vec<TreeFile> {
        let mut files: Vec<TreeFile> = paths
            .iter()
            .map(|(path, byte)| TreeFile {
                path: path.as_bytes().to_vec(),
                mode: Mode::File,
                oid: oid(*byte),
            })
            .collect();
        files.sort_unstable_by(|a, b| a.path.cmp(&b.path));
        files
    }

    /// The id that the other implementation computes from all entries.
    fn tree_of(files: &[TreeFile]) -> ObjectId {
        let entries: Vec<Entry> = files
            .iter()
            .map(|file| Entry {
                path: file.path.clone(),
                mode: file.mode,
                oid: file.oid,
                stat: None,
                raw: true,
            })
            .collect();
        content::trees(&entries).last().map_or(ObjectId::ZERO, |(oid, _)| *oid)
    }

    fn change(path: &str, old: Option<u8>, new: Option<u8>) -> Change {
        let side = |byte: u8| Side { kind: EntryType::File, oid: oid(byte) };
        Change { path: path.as_bytes().to_vec(), old: old.map(side), new: new.map(side) }
    }

    #[test]
    fn a_table_has_the_tree_of_its_files() {
        for all in [&[][..], &[("a", 1)], &[("a-b", 1), ("a/x", 2), ("a.c", 3), ("a/y/z", 4), ("b/c/d/e", 5)]]
        {
            let files = files(all);
            let table = TreeTable::of(&files);
            assert_eq!(table.tree, tree_of(&files));
            for file in &files {
                assert_eq!(table.get(&file.path).map(|item| item.oid), Some(file.oid));
            }
        }
    }

    #[test]
    fn a_changed_table_is_that_of_the_changed_files() {
        let before = files(&[("a", 1), ("d/e/f", 2), ("d/g", 3), ("h/i", 4)]);
        let changes = [
            change("a", Some(1), None),
            change("a/b/c", None, Some(5)),
            change("d/e/f", Some(2), None),
            change("h", None, Some(6)),
            change("h/i", Some(4), None),
            change("d/g", Some(3), Some(7)),
        ];
        let after = files(&[("a/b/c", 5), ("d/g", 7), ("h", 6)]);
        let table = TreeTable::of(&before).with(&changes);
        assert_eq!(table.tree, tree_of(&after));
        assert_eq!(table.files, 3);
        assert!(!table.has_dir(b"d/e/") && !table.has_dir(b"h/") && table.has_dir(b"a/b/"));
    }
}
