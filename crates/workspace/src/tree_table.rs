//! The directories of a tree by path, so that a commit that differs in few files needs few new trees.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::ObjectId;
use super::change::{Change, EntryType};
use super::object::{self, DIRECTORY_BITS, Mode, ObjectType, TreeEntry};
use super::objects::TreeFile;

/// An entry of a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TableItem {
    /// Shared: each snapshot copies the entries of the directories that it changes.
    pub(crate) name: Arc<[u8]>,
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

/// All directories of one tree. A table that differs in few files shares all other directories with this one.
#[derive(Debug, Clone)]
pub(crate) struct TreeTable {
    top: Arc<TableDirectory>,
    pub(crate) tree: ObjectId,
    /// Whether it has submodules, whose directories are not scanned.
    pub(crate) has_gitlinks: bool,
    /// The number of files, links and submodules.
    pub(crate) files: usize,
}

/// A directory of a tree.
#[derive(Debug, Default)]
struct TableDirectory {
    /// Sorted by name.
    items: Vec<TableItem>,
    /// The directories among the items, sorted by name.
    dirs: Vec<(Vec<u8>, Arc<TableDirectory>)>,
    /// The number of files, links and submodules in it and beneath it.
    files: usize,
}

impl TableDirectory {
    fn new(items: Vec<TableItem>, dirs: Vec<(Vec<u8>, Arc<Self>)>) -> Self {
        let entries = items.len().saturating_sub(dirs.len());
        let files = entries + dirs.iter().map(|(_, dir)| dir.files).sum::<usize>();
        Self { items, dirs, files }
    }

    fn item(&self, name: &[u8]) -> Option<&TableItem> {
        find_item(&self.items, name).ok().map(|at| &self.items[at])
    }

    fn dir(&self, name: &[u8]) -> Option<&Arc<Self>> {
        self.dirs.binary_search_by(|(dir, _)| dir.as_slice().cmp(name)).ok().map(|at| &self.dirs[at].1)
    }

    /// The directory after changes of paths beneath it, which begin at `from` and are sorted.
    fn with(&self, changes: &[&Change], from: usize) -> Self {
        let mut items = self.items.clone();
        let mut dirs: BTreeMap<&[u8], Arc<Self>> =
            self.dirs.iter().map(|(name, dir)| (name.as_slice(), dir.clone())).collect();
        let mut rest = changes;
        let mut inner: Vec<(&[u8], Self)> = Vec::new();
        while let Some(first) = rest.first() {
            let path = &first.path[from..];
            let Some(slash) = path.iter().position(|byte| *byte == b'/') else {
                set_entry(&mut items, path, first);
                if item_is_entry(&items, path) {
                    dirs.remove(path);
                }
                rest = &rest[1..];
                continue;
            };
            let name = &path[..slash];
            let beneath = &first.path[..=from + slash];
            let count = rest.iter().take_while(|change| change.path.starts_with(beneath)).count();
            let before = self.dir(name);
            let after = before
                .map_or(&Self::default(), |before| before.as_ref())
                .with(&rest[..count], from + slash + 1);
            inner.push((name, after));
            rest = &rest[count..];
        }
        for (name, dir) in inner {
            let at = find_item(&items, name);
            if dir.items.is_empty() {
                dirs.remove(name);
                if let Ok(at) = at
                    && items[at].kind == ItemKind::Directory
                {
                    items.remove(at);
                }
                continue;
            }
            let oid = encode(&dir.items).0;
            let item = TableItem { name: name.into(), kind: ItemKind::Directory, oid };
            match at {
                Ok(at) => items[at] = item,
                Err(at) => items.insert(at, item),
            }
            dirs.insert(name, Arc::new(dir));
        }
        Self::new(items, dirs.into_iter().map(|(name, dir)| (name.to_vec(), dir)).collect())
    }
}

/// The place of an entry among those of a directory, or where it would be.
pub(crate) fn find_item(items: &[TableItem], name: &[u8]) -> Result<usize, usize> {
    items.binary_search_by(|item| (*item.name).cmp(name))
}

fn item_is_entry(items: &[TableItem], name: &[u8]) -> bool {
    find_item(items, name).is_ok_and(|at| items[at].kind != ItemKind::Directory)
}

/// Takes the new side of a change over into the directory of its path.
fn set_entry(items: &mut Vec<TableItem>, name: &[u8], change: &Change) {
    let new = change.new.and_then(|side| Some((mode_of(side.kind)?, side.oid)));
    match (find_item(items, name), new) {
        (at, Some((mode, oid))) => {
            let item = TableItem { name: name.into(), kind: ItemKind::Entry(mode), oid };
            match at {
                Ok(at) => items[at] = item,
                Err(at) => items.insert(at, item),
            }
        }
        // A directory that is there now is the new state of a removed file.
        (Ok(at), None) if items[at].kind != ItemKind::Directory => drop(items.remove(at)),
        _ => {}
    }
}

/// A directory whose files are being read.
#[derive(Default)]
struct OpenDirectory {
    /// With a slash at its end; empty at the top.
    path: Vec<u8>,
    items: Vec<TableItem>,
    dirs: Vec<(Vec<u8>, Arc<TableDirectory>)>,
}

impl OpenDirectory {
    /// Completes the directory, and returns its id.
    fn close(mut self) -> (Vec<u8>, Arc<TableDirectory>, ObjectId) {
        self.items.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        self.dirs.sort_unstable_by(|(a, _), (b, _)| a.cmp(b));
        let (oid, _) = encode(&self.items);
        (self.path, Arc::new(TableDirectory::new(self.items, self.dirs)), oid)
    }
}

impl TreeTable {
    /// The table of a whole tree. The files are sorted by path.
    pub(crate) fn of(files: &[TreeFile]) -> Self {
        let mut open = vec![OpenDirectory::default()];
        for file in files {
            while open.len() > 1 && open.last().is_some_and(|dir| !file.path.starts_with(&dir.path)) {
                close_innermost(&mut open);
            }
            let mut from = open.last().map_or(0, |dir| dir.path.len());
            while let Some(slash) = file.path[from..].iter().position(|byte| *byte == b'/') {
                from += slash + 1;
                open.push(OpenDirectory { path: file.path[..from].to_vec(), ..OpenDirectory::default() });
            }
            let item =
                TableItem { name: file.path[from..].into(), kind: ItemKind::Entry(file.mode), oid: file.oid };
            if let Some(dir) = open.last_mut() {
                dir.items.push(item);
            }
        }
        while open.len() > 1 {
            close_innermost(&mut open);
        }
        let (_, top, tree) = open.pop().unwrap_or_default().close();
        let has_gitlinks = files.iter().any(|file| file.mode == Mode::Gitlink);
        Self { files: top.files, top, tree, has_gitlinks }
    }

    /// The directory at a path, which ends in a slash or is empty.
    fn directory(&self, path: &[u8]) -> Option<&TableDirectory> {
        let mut names = path.split(|byte| *byte == b'/');
        // What follows the last slash.
        names.next_back();
        names.try_fold(&*self.top, |dir, name| dir.dir(name).map(|dir| &**dir))
    }

    /// The entries of a directory, sorted by name; empty if it does not exist.
    pub(crate) fn items(&self, dir: &[u8]) -> &[TableItem] {
        self.directory(dir).map_or(&[], |dir| &dir.items)
    }

    pub(crate) fn has_dir(&self, dir: &[u8]) -> bool {
        self.directory(dir).is_some()
    }

    /// The tree objects of all directories.
    pub(crate) fn trees(&self) -> impl Iterator<Item = (ObjectId, Vec<u8>)> {
        let mut waiting = vec![&*self.top];
        std::iter::from_fn(move || {
            let dir = waiting.pop()?;
            waiting.extend(dir.dirs.iter().map(|(_, dir)| &**dir));
            Some(encode(&dir.items))
        })
    }

    /// The entry at a path.
    pub(crate) fn get(&self, path: &[u8]) -> Option<&TableItem> {
        let name_at = path.iter().rposition(|byte| *byte == b'/').map_or(0, |slash| slash + 1);
        self.directory(&path[..name_at])?.item(&path[name_at..])
    }

    /// Whether a condition holds for any file beneath a directory, whose path ends in a slash.
    pub(crate) fn any_beneath(&self, dir: &[u8], condition: &mut dyn FnMut(&[u8]) -> bool) -> bool {
        let mut waiting: Vec<(Vec<u8>, &TableDirectory)> =
            self.directory(dir).map(|found| (dir.to_vec(), found)).into_iter().collect();
        while let Some((path, dir)) = waiting.pop() {
            let is_file = |item: &&TableItem| item.kind != ItemKind::Directory;
            if dir.items.iter().filter(is_file).any(|item| condition(&[&path, &*item.name].concat())) {
                return true;
            }
            waiting
                .extend(dir.dirs.iter().map(|(name, dir)| ([&path, name.as_slice(), b"/"].concat(), &**dir)));
        }
        false
    }

    /// The table of a tree that differs in these paths. Costs their directories, and not the tree.
    pub(crate) fn with(&self, changes: &[Change]) -> Self {
        let mut sorted: Vec<&Change> = changes.iter().collect();
        sorted.sort_unstable_by(|a, b| a.path.cmp(&b.path));
        let top = Arc::new(self.top.with(&sorted, 0));
        let is_gitlink = |change: &Change| change.new.is_some_and(|side| side.kind == EntryType::Submodule);
        let has_gitlinks = self.has_gitlinks || changes.iter().any(is_gitlink);
        Self { tree: encode(&top.items).0, files: top.files, top, has_gitlinks }
    }
}

/// Completes the innermost open directory, which is not the top.
fn close_innermost(open: &mut Vec<OpenDirectory>) {
    let Some(closed) = open.pop() else { return };
    let (path, dir, oid) = closed.close();
    if let Some(above) = open.last_mut() {
        let name = path[above.path.len()..path.len() - 1].to_vec();
        above.items.push(TableItem { name: name.as_slice().into(), kind: ItemKind::Directory, oid });
        above.dirs.push((name, dir));
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
    use proptest::prelude::*;
    use std::collections::BTreeSet;

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

    /// Paths of files of which none is a directory of another one.
    fn tree() -> impl Strategy<Value = BTreeMap<String, u8>> {
        let path = prop::collection::vec(prop::sample::select(vec!["a", "a-", "a.b", "b", "c"]), 1..4);
        prop::collection::vec((path, 1..4_u8), 0..12).prop_map(|drawn| {
            let mut files: BTreeMap<String, u8> = BTreeMap::new();
            for (path, byte) in drawn {
                let path = path.join("/");
                let clashes = |other: &String| {
                    other.starts_with(&format!("{path}/")) || path.starts_with(&format!("{other}/"))
                };
                files.retain(|other, _| !clashes(other));
                files.insert(path, byte);
            }
            files
        })
    }

    proptest! {
        #[test]
        fn a_table_follows_any_change(before in tree(), after in tree()) {
            let table = |tree: &BTreeMap<String, u8>| {
                let all: Vec<(&str, u8)> = tree.iter().map(|(path, byte)| (path.as_str(), *byte)).collect();
                TreeTable::of(&files(&all))
            };
            let paths: BTreeSet<&String> = before.keys().chain(after.keys()).collect();
            let sides = paths.into_iter().map(|path| (path, before.get(path).copied(), after.get(path).copied()));
            let changes: Vec<Change> = sides
                .filter(|(_, old, new)| old != new)
                .map(|(path, old, new)| change(path, old, new))
                .collect();
            let (changed, expected) = (table(&before).with(&changes), table(&after));
            prop_assert_eq!((changed.tree, changed.files), (expected.tree, expected.files));
            prop_assert_eq!(format!("{:?}", changed.top), format!("{:?}", expected.top));
        }
    }

    #[test]
    fn unchanged_directories_are_shared() {
        let before = TreeTable::of(&files(&[("a/b/c", 1), ("d/e", 2), ("d/f/g", 3)]));
        let after = before.with(&[change("d/e", Some(2), Some(4))]);
        let dir = |table: &TreeTable, path: &[u8]| std::ptr::from_ref(table.directory(path).expect("there"));
        assert_eq!(dir(&before, b"a/"), dir(&after, b"a/"));
        assert_eq!(dir(&before, b"d/f/"), dir(&after, b"d/f/"));
        assert_ne!(dir(&before, b"d/"), dir(&after, b"d/"));
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
