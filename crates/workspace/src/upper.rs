//! Computes the tree of an overlay from its upper layer alone: what is not in it is as in the commit below.
//!
//! A deleted entry of the lower layers is a whiteout, which is a device in the upper layer. A directory that replaced
//! one of the lower layers is marked as opaque, and one that was renamed names the directory it was. Everything else in
//! the upper layer is new or changed.
//!
//! Why it is like this: `docs/decisions/workspace-overlays.md`.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::os::fd::OwnedFd;
use std::path::Path;

use posse_sandbox::HolderMode;
use rustix::fs::{FileType, XattrFlags, fgetxattr, setxattr};
use rustix::io::Errno;

use super::bases::BaseState;
use super::change::{Change, EntryType};
use super::content::NewTree;
use super::ignored::MAX_PATTERNS_BYTES;
use super::manifest::{Entry, Manifest};
use super::object::Mode;
use super::scan::{EarlierScan, KnownFile};
use super::tree_table::{ItemKind, TableItem, TreeTable, encode, find_item};
use super::walk::is_whiteout;
use super::{Git, ObjectId, RepositoryError, disk, names};

/// The prefix of the directory in which an update stages new content. It is no work.
pub(super) const STAGING_PREFIX: &str = ".posse-update-";
/// The file beside an upper layer with the name of that directory.
pub(super) const STAGING_RECORD: &str = "update.staging";
/// The staging directory of an interrupted update. A machine crash can leave an empty record, which names nothing: the
/// path of an empty name would be the workspace itself.
pub(super) fn staging_of(home: &Path) -> Result<Option<Vec<u8>>, RepositoryError> {
    let name = disk::read_if_there(&home.join(STAGING_RECORD))?;
    Ok(name.filter(|name| name.starts_with(STAGING_PREFIX.as_bytes()) && !name.contains(&b'/')))
}

/// Longest path in an attribute.
const ATTRIBUTE_MAX_BYTES: usize = 4096;

/// An entry of a directory in an upper layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum UpperEntry {
    Whiteout,
    Directory,
    /// A file, a link, or something that no tree contains.
    Other,
}

/// A directory of an upper layer.
#[derive(Debug)]
pub(crate) struct UpperDir {
    /// With a slash at its end; empty at the top.
    path: Vec<u8>,
    /// The directory of the lower layers that is merged with it.
    lower: Option<Vec<u8>>,
    entries: Vec<(Vec<u8>, UpperEntry)>,
}

impl UpperDir {
    pub(crate) fn new(path: &[u8], lower: Option<Vec<u8>>, names: &[(Vec<u8>, FileType)]) -> Self {
        let entry = |(name, kind): &(Vec<u8>, FileType)| {
            let entry = match kind {
                kind if is_whiteout(*kind) => UpperEntry::Whiteout,
                FileType::Directory => UpperEntry::Directory,
                _ => UpperEntry::Other,
            };
            (name.clone(), entry)
        };
        Self { path: path.to_vec(), lower, entries: names.iter().map(entry).collect() }
    }
}

/// The layers below an upper layer, and the files of the commit that the workspace is at.
pub(crate) struct UpperView<'a> {
    /// The laid out files, if there are any.
    pub(crate) state: Option<&'a BaseState>,
    /// The repository with their content.
    pub(crate) git: Option<&'a Git>,
    /// How the overlay is mounted, which decides the names of the kernel's attributes.
    pub(crate) mode: HolderMode,
    pub(crate) table: &'a TreeTable,
    /// Files of the lower layers that are in the tree and not on disk: outside of a sparse checkout.
    pub(crate) absent: &'a HashSet<Vec<u8>>,
    /// The files that the upper layer had at the last snapshot.
    pub(crate) seen: Option<&'a Manifest>,
    /// The newest scan of the upper layer: a file with the same stat is unchanged. `None` if stats prove nothing.
    pub(crate) stats: Option<&'a Manifest>,
    /// Paths of the lower layers that were deleted at the last scan: files, and directories with a slash at their end.
    pub(crate) deleted: &'a HashSet<Vec<u8>>,
    /// The staging directory of an interrupted update.
    pub(crate) staging: Option<Vec<u8>>,
    /// How the present commit differs from that of the last scan.
    pub(crate) moved: BTreeMap<Vec<u8>, Option<(Mode, ObjectId)>>,
}

impl UpperView<'_> {
    /// The directory of the lower layers that is merged with a directory of the upper one.
    pub(crate) fn lower_of(&self, dir: &OwnedFd, at: Option<&[u8]>) -> Result<Option<Vec<u8>>, Errno> {
        if at == Some(b"") {
            return Ok(Some(Vec::new()));
        }
        if attribute(self.mode, dir, "opaque")?.is_some_and(|value| value == b"y") {
            return Ok(None);
        }
        let Some(to) = attribute(self.mode, dir, "redirect")?.filter(|to| !to.is_empty()) else {
            return Ok(at.map(<[u8]>::to_vec));
        };
        let mut lower = if let Some(from_top) = to.strip_prefix(b"/") {
            from_top.to_vec()
        } else {
            let above = at.map(|at| parent_of(at.strip_suffix(b"/").unwrap_or(at)));
            let Some(above) = above else { return Ok(None) };
            [above, &to].concat()
        };
        lower.push(b'/');
        Ok(Some(lower))
    }

    /// The text of the ignore file in a directory of the lower layers.
    pub(crate) fn patterns_in(&self, lower: &[u8]) -> Result<Option<Vec<u8>>, RepositoryError> {
        let path = [lower, b".gitignore"].concat();
        let Some(item) = self.table.get(&path) else { return Ok(None) };
        if let Some(state) = self.state {
            return state.read(&path, MAX_PATTERNS_BYTES);
        }
        match (item.kind, self.git) {
            (ItemKind::Entry(Mode::File | Mode::Executable), Some(git)) => {
                git.run(&["cat-file", "blob", &item.oid.to_string()]).map(Some)
            }
            _ => Ok(None),
        }
    }

    /// The known files among the entries of a directory, sorted.
    pub(crate) fn known_in(&self, dir: &[u8], names: &[(Vec<u8>, FileType)]) -> Vec<KnownFile> {
        let mut known: Vec<KnownFile> =
            names.iter().filter_map(|(name, _)| self.known([dir, name].concat())).collect();
        known.sort_unstable_by(|a, b| a.path.cmp(&b.path));
        known
    }

    pub(crate) fn known(&self, path: Vec<u8>) -> Option<KnownFile> {
        let tracked = self.tracked(&path);
        let entry = self.stats.and_then(|stats| stats.get(&path));
        let (mode, oid) = tracked.or_else(|| entry.map(|entry| (entry.mode, entry.oid)))?;
        let seen = entry
            .and_then(|entry| entry.stat.map(|stat| EarlierScan { stat, oid: entry.oid, raw: entry.raw }));
        Some(KnownFile { path, mode, oid, tracked: tracked.is_some(), skipped: false, indexed: None, seen })
    }

    /// The entry of a path in the commit that the workspace is at.
    fn tracked(&self, path: &[u8]) -> Option<(Mode, ObjectId)> {
        if let Some(moved) = self.moved.get(path) {
            return *moved;
        }
        if let Some(entry) = self.seen.and_then(|seen| seen.get(path)) {
            return Some((entry.mode, entry.oid));
        }
        match self.table.get(path)? {
            TableItem { kind: ItemKind::Entry(mode), oid, .. } if !self.is_deleted(path) => {
                Some((*mode, *oid))
            }
            _ => None,
        }
    }

    fn is_deleted(&self, path: &[u8]) -> bool {
        let ends = path.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| at + 1);
        !self.deleted.is_empty()
            && (self.deleted.contains(path)
                || ends.into_iter().any(|end| self.deleted.contains(&path[..end])))
    }

    /// Whether the commit that the workspace is at has a file beneath a directory, whose path ends in a slash.
    pub(crate) fn has_tracked_beneath(&self, dir: &[u8]) -> bool {
        let is_beneath = |path: &[u8]| path.starts_with(dir);
        let moved = self.moved.range(dir.to_vec()..).take_while(|(path, _)| is_beneath(path));
        if moved.into_iter().any(|(_, to)| to.is_some()) {
            return true;
        }
        let stays = |path: &[u8]| !matches!(self.moved.get(path), Some(None));
        let seen = self.seen.is_some_and(|seen| {
            let from = seen.entries.partition_point(|entry| entry.path.as_slice() < dir);
            let beneath = seen.entries[from..].iter().take_while(|entry| is_beneath(&entry.path));
            beneath.into_iter().any(|entry| stays(&entry.path))
        });
        seen || self.table.any_beneath(dir, &mut |path| !self.is_deleted(path) && stays(path))
    }
}

/// How a commit differs from another one, by path.
pub(crate) fn moved(changes: &[Change]) -> BTreeMap<Vec<u8>, Option<(Mode, ObjectId)>> {
    let mode = |kind: EntryType| match kind {
        EntryType::File => Some(Mode::File),
        EntryType::Executable => Some(Mode::Executable),
        EntryType::Link => Some(Mode::Symlink),
        EntryType::Submodule => Some(Mode::Gitlink),
        EntryType::Odd(_) => None,
    };
    let new = |change: &Change| change.new.and_then(|side| Some((mode(side.kind)?, side.oid)));
    changes.iter().map(|change| (change.path.clone(), new(change))).collect()
}

/// The directory part of a path, with a slash at its end.
fn parent_of(path: &[u8]) -> &[u8] {
    path.iter().rposition(|byte| *byte == b'/').map_or(b"", |slash| &path[..=slash])
}

/// One of the attributes that the kernel sets on directories of an upper layer. A program in the overlay cannot set
/// them: those of root need privileges, and in an overlay of a user namespace the kernel stores them under another name.
fn attribute(mode: HolderMode, dir: &OwnedFd, name: &str) -> Result<Option<Vec<u8>>, Errno> {
    let mut buffer = vec![0; ATTRIBUTE_MAX_BYTES];
    match fgetxattr(dir, format!("{}{name}", prefix(mode)), &mut buffer[..]) {
        Ok(length) => {
            buffer.truncate(length);
            Ok(Some(buffer))
        }
        Err(Errno::NODATA | Errno::NOTSUP) => Ok(None),
        Err(errno) => Err(errno),
    }
}

const fn prefix(mode: HolderMode) -> &'static str {
    match mode {
        HolderMode::Root => "trusted.overlay.",
        HolderMode::UserNamespace => "user.overlay.",
    }
}

/// Copies the kernel's attributes of a directory of an upper layer.
pub(super) fn copy_attributes(mode: HolderMode, from: &Path, to: &Path) -> std::io::Result<()> {
    let dir = OwnedFd::from(std::fs::File::open(from)?);
    for name in ["opaque", "redirect"] {
        if let Some(value) = attribute(mode, &dir, name)? {
            setxattr(to, format!("{}{name}", prefix(mode)), &value, XattrFlags::empty())?;
        }
    }
    Ok(())
}

/// The tree of an overlay, and the paths of the lower layers that it lacks.
pub(crate) struct MergedTree {
    pub(crate) tree: ObjectId,
    /// The trees that are not those of the lower layers.
    pub(crate) trees: Vec<NewTree>,
    /// Files, and directories with a slash at their end.
    pub(crate) deleted: HashSet<Vec<u8>>,
    /// Files of the lower layers in whose place is something that was not found: an ignored file, or a pipe.
    pub(crate) replaced: Vec<Vec<u8>>,
}

impl MergedTree {
    /// Merges the files that were found in an upper layer, which are sorted by path, with the lower layers.
    pub(crate) fn of(view: &UpperView<'_>, dirs: &[UpperDir], found: &[Entry]) -> Self {
        let mut merging = LayerMerge {
            view,
            dirs: dirs.iter().map(|dir| (dir.path.as_slice(), dir)).collect(),
            found: HashMap::new(),
            trees: Vec::new(),
            deleted: HashSet::new(),
            replaced: Vec::new(),
        };
        for entry in found {
            merging.found.entry(parent_of(&entry.path)).or_default().push(entry);
        }
        let top = merging.items(b"");
        let (tree, content) = encode(&top);
        let LayerMerge { mut trees, deleted, replaced, .. } = merging;
        trees.push((tree, content));
        Self { tree, trees, deleted, replaced }
    }
}

struct LayerMerge<'a> {
    view: &'a UpperView<'a>,
    dirs: HashMap<&'a [u8], &'a UpperDir>,
    found: HashMap<&'a [u8], Vec<&'a Entry>>,
    trees: Vec<NewTree>,
    deleted: HashSet<Vec<u8>>,
    replaced: Vec<Vec<u8>>,
}

impl<'a> LayerMerge<'a> {
    /// The entries of a directory of the overlay. As deep as a scan goes, which is limited.
    fn items(&mut self, path: &[u8]) -> Vec<TableItem> {
        let Some(dir) = self.dirs.get(path).copied() else { return Vec::new() };
        let view: &'a UpperView<'a> = self.view;
        let lower: Cow<'a, [TableItem]> = match &dir.lower {
            Some(lower) if lower == path => view.table.items(lower).into(),
            Some(lower) => {
                // It hides the directory of the lower layers at its place.
                self.deleted.insert(path.to_vec());
                self.laid_out(lower).into()
            }
            None => {
                self.deleted.insert(path.to_vec());
                self.survivors(path).into()
            }
        };
        // What the upper layer has in the place of entries of the lower ones, and in addition to them.
        let mut changed: BTreeMap<&[u8], Option<TableItem>> = BTreeMap::new();
        for (name, entry) in &dir.entries {
            if names::could_be_dot_git(name) || (path.is_empty() && self.view.staging.as_ref() == Some(name))
            {
                continue;
            }
            let mut inner = [path, name].concat();
            let before = find_item(&lower, name).ok().map(|at| lower[at].clone());
            let was_dir = before.as_ref().map(|before| before.kind == ItemKind::Directory);
            let kept = match entry {
                UpperEntry::Other => {
                    if was_dir == Some(true) {
                        self.deleted.insert([&inner[..], b"/"].concat());
                    }
                    None
                }
                UpperEntry::Whiteout => {
                    inner.extend((was_dir == Some(true)).then_some(b'/'));
                    self.deleted.insert(inner.clone());
                    self.survivor(before, &inner)
                }
                UpperEntry::Directory => {
                    if was_dir == Some(false) {
                        self.deleted.insert(inner.clone());
                    }
                    inner.push(b'/');
                    let items = self.items(&inner);
                    if items.is_empty() {
                        before.filter(|before| before.kind == ItemKind::Entry(Mode::Gitlink))
                    } else {
                        Some(self.directory(name, &items))
                    }
                }
            };
            changed.insert(name, kept);
        }
        for entry in self.found.get(path).into_iter().flatten() {
            let name = &entry.path[path.len()..];
            let item = TableItem { name: name.into(), kind: ItemKind::Entry(entry.mode), oid: entry.oid };
            changed.insert(name, Some(item));
        }
        for (name, _) in dir.entries.iter().filter(|(_, entry)| *entry == UpperEntry::Other) {
            let is_file = |at: usize| lower[at].kind != ItemKind::Directory;
            if changed.get(name.as_slice()) == Some(&None) && find_item(&lower, name).is_ok_and(is_file) {
                self.replaced.push([path, name].concat());
            }
        }
        merged(&lower, changed)
    }

    /// The entries of a directory of the lower layers that are on disk, which a rename of the directory moves.
    fn laid_out(&mut self, lower: &[u8]) -> Vec<TableItem> {
        let items = self.view.table.items(lower).to_vec();
        if self.view.absent.is_empty() && !self.view.table.has_gitlinks {
            return items;
        }
        let moved = |item: TableItem| {
            let path = [lower, &item.name].concat();
            match item.kind {
                ItemKind::Entry(Mode::Gitlink) => None,
                ItemKind::Entry(_) => (!self.view.absent.contains(&path)).then_some(item),
                ItemKind::Directory => {
                    let items = self.laid_out(&[&path[..], b"/"].concat());
                    (!items.is_empty()).then(|| self.directory(&item.name, &items))
                }
            }
        };
        items.into_iter().filter_map(moved).collect()
    }

    fn directory(&mut self, name: &[u8], items: &[TableItem]) -> TableItem {
        let (oid, content) = encode(items);
        self.trees.push((oid, content));
        TableItem { name: name.into(), kind: ItemKind::Directory, oid }
    }

    /// What stays of a deleted entry: it is in the tree without being on disk, so nothing on disk can delete it.
    fn survivor(&mut self, deleted: Option<TableItem>, path: &[u8]) -> Option<TableItem> {
        let deleted = deleted?;
        match deleted.kind {
            ItemKind::Entry(Mode::Gitlink) => Some(deleted),
            ItemKind::Entry(_) => self.view.absent.contains(path).then_some(deleted),
            ItemKind::Directory => {
                let items = self.survivors(path);
                (!items.is_empty()).then(|| self.directory(&deleted.name, &items))
            }
        }
    }

    /// The same for everything in a deleted directory of the lower layers, whose path ends in a slash.
    fn survivors(&mut self, dir: &[u8]) -> Vec<TableItem> {
        if self.view.absent.is_empty() && !self.view.table.has_gitlinks {
            return Vec::new();
        }
        let items = self.view.table.items(dir).to_vec();
        let survivor = |item: TableItem| {
            let mut path = [dir, &item.name].concat();
            path.extend((item.kind == ItemKind::Directory).then_some(b'/'));
            self.survivor(Some(item), &path)
        };
        items.into_iter().filter_map(survivor).collect()
    }
}

/// The entries of a directory after changes of some of them. Sorted by name, as the entries are.
fn merged(lower: &[TableItem], changed: BTreeMap<&[u8], Option<TableItem>>) -> Vec<TableItem> {
    let mut items = Vec::with_capacity(lower.len() + changed.len());
    let mut rest = lower;
    for (name, item) in changed {
        let (before, from) = rest.split_at(rest.partition_point(|other| *other.name < *name));
        items.extend_from_slice(before);
        items.extend(item);
        let is_replaced = from.first().is_some_and(|first| *first.name == *name);
        rest = &from[usize::from(is_replaced)..];
    }
    items.extend_from_slice(rest);
    items
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::super::content;
    use super::super::objects::TreeFile;
    use super::*;

    /// Files by path, with a byte that stands for their content.
    type Files = BTreeMap<String, u8>;

    /// Names whose order among files differs from that among paths: a directory `a` sorts as `a/`, after `a-b` and `a.b`.
    const NAMES: [&str; 6] = ["a", "a-b", "a.b", "a0", "b", "B"];

    /// One node of an upper layer.
    #[derive(Debug, Clone)]
    enum Node {
        Whiteout,
        File(u8),
        /// A pipe, or a file that git ignores: it hides what is below and is in no tree.
        Odd,
        Directory(LowerPlace, BTreeMap<&'static str, Node>),
    }

    /// What a directory of an upper layer is merged with.
    #[derive(Debug, Clone)]
    enum LowerPlace {
        SamePlace,
        Nothing,
        /// It is a renamed directory.
        Another(String),
    }

    fn name() -> impl Strategy<Value = &'static str> {
        prop::sample::select(NAMES.to_vec())
    }

    /// Paths of files of which none is a directory of another one.
    fn files() -> impl Strategy<Value = Files> {
        let path = prop::collection::vec(name(), 1..4);
        prop::collection::vec((path, 1..200_u8), 0..16).prop_map(|drawn| {
            let mut files = Files::new();
            for (path, byte) in drawn {
                put(&mut files, &path.join("/"), byte);
            }
            files
        })
    }

    fn put(files: &mut Files, path: &str, byte: u8) {
        let is_above = |above: &str, path: &str| path.starts_with(&format!("{above}/"));
        files.retain(|other, _| !is_above(other, path) && !is_above(path, other));
        files.insert(path.to_owned(), byte);
    }

    fn over() -> impl Strategy<Value = LowerPlace> {
        let another =
            prop::collection::vec(name(), 1..3).prop_map(|path| LowerPlace::Another(path.join("/")));
        prop_oneof![6 => Just(LowerPlace::SamePlace), 1 => Just(LowerPlace::Nothing), 2 => another]
    }

    fn upper() -> impl Strategy<Value = BTreeMap<&'static str, Node>> {
        let leaf = prop_oneof![
            2 => Just(Node::Whiteout),
            3 => (200..=255_u8).prop_map(Node::File),
            1 => Just(Node::Odd),
        ];
        let node = leaf.prop_recursive(3, 24, 5, |inner| {
            let entries = prop::collection::btree_map(name(), inner, 0..5);
            (over(), entries).prop_map(|(over, entries)| Node::Directory(over, entries))
        });
        prop::collection::btree_map(name(), node, 0..6)
    }

    /// The files beneath a directory, which has no slash at its end.
    fn beneath(files: &Files, dir: &str) -> Files {
        let inner = files.iter().filter_map(|(path, byte)| {
            let path = path.strip_prefix(dir)?.strip_prefix('/')?;
            Some((path.to_owned(), *byte))
        });
        inner.collect()
    }

    /// What a mounted overlay shows, one path at a time: the files of `under`, and over them those of an upper directory.
    fn shown(lower: &Files, under: Files, entries: &BTreeMap<&'static str, Node>) -> Files {
        let mut shown = under;
        for (name, node) in entries {
            let under = beneath(&shown, name);
            shown.retain(|path, _| path != name && !path.starts_with(&format!("{name}/")));
            let inner = match node {
                Node::Whiteout | Node::Odd => continue,
                Node::File(byte) => {
                    shown.insert((*name).to_owned(), *byte);
                    continue;
                }
                Node::Directory(LowerPlace::SamePlace, inner) => self::shown(lower, under, inner),
                Node::Directory(LowerPlace::Nothing, inner) => self::shown(lower, Files::new(), inner),
                Node::Directory(LowerPlace::Another(dir), inner) => {
                    self::shown(lower, beneath(lower, dir), inner)
                }
            };
            shown.extend(inner.into_iter().map(|(path, byte)| (format!("{name}/{path}"), byte)));
        }
        shown
    }

    /// The files of the lower layers that an upper directory hides, at the place where they are. `place` is that of the
    /// directory, with a slash at its end.
    fn hidden(
        lower: &Files,
        place: &str,
        entries: &BTreeMap<&'static str, Node>,
        found: &mut BTreeSet<String>,
    ) {
        for (name, node) in entries {
            let path = format!("{place}{name}");
            let is_gone = match node {
                Node::Directory(LowerPlace::SamePlace, _) => false,
                // It was renamed there and back.
                Node::Directory(LowerPlace::Another(dir), _) => *dir != path,
                _ => true,
            };
            let gone = lower.keys().filter(|file| **file == path || file.starts_with(&format!("{path}/")));
            found.extend(gone.filter(|file| is_gone || **file == path).cloned());
            if let Node::Directory(_, inner) = node {
                hidden(lower, &format!("{path}/"), inner, found);
            }
        }
    }

    /// An upper layer as a scan finds it.
    #[derive(Default)]
    struct UpperScan {
        dirs: Vec<UpperDir>,
        found: Vec<Entry>,
    }

    impl UpperScan {
        fn add(&mut self, path: &str, lower: Option<&str>, entries: &BTreeMap<&'static str, Node>) {
            let names: Vec<(Vec<u8>, FileType)> = entries
                .iter()
                .map(|(name, node)| {
                    let kind = match node {
                        Node::Whiteout => FileType::CharacterDevice,
                        Node::File(_) => FileType::RegularFile,
                        Node::Odd => FileType::Fifo,
                        Node::Directory(..) => FileType::Directory,
                    };
                    (name.as_bytes().to_vec(), kind)
                })
                .collect();
            let merged_with = lower.map(|lower| lower.as_bytes().to_vec());
            self.dirs.push(UpperDir::new(path.as_bytes(), merged_with, &names));
            for (name, node) in entries {
                let inner = format!("{path}{name}");
                match node {
                    Node::Whiteout | Node::Odd => {}
                    Node::File(byte) => self.found.push(entry(&inner, *byte)),
                    Node::Directory(over, entries) => {
                        let below = match over {
                            LowerPlace::SamePlace => lower.map(|lower| format!("{lower}{name}/")),
                            LowerPlace::Nothing => None,
                            LowerPlace::Another(dir) => Some(format!("{dir}/")),
                        };
                        self.add(&format!("{inner}/"), below.as_deref(), entries);
                    }
                }
            }
        }
    }

    fn entry(path: &str, byte: u8) -> Entry {
        let oid = ObjectId::from_bytes([byte; 20]);
        Entry { path: path.as_bytes().to_vec(), mode: Mode::File, oid, stat: None, raw: true }
    }

    fn table_of(files: &Files) -> TreeTable {
        let file = |entry: Entry| TreeFile { path: entry.path, mode: entry.mode, oid: entry.oid };
        TreeTable::of(&files.iter().map(|(path, byte)| file(entry(path, *byte))).collect::<Vec<_>>())
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn a_merged_tree_is_that_of_what_the_overlay_shows(lower in files(), upper in upper()) {
            let (table, nothing) = (table_of(&lower), HashSet::new());
            let view = |deleted| UpperView {
                state: None,
                git: None,
                mode: HolderMode::Root,
                table: &table,
                absent: &nothing,
                seen: None,
                stats: None,
                deleted,
                staging: None,
                moved: BTreeMap::new(),
            };
            let mut scanned = UpperScan::default();
            scanned.add("", Some(""), &upper);
            scanned.found.sort_unstable_by(|a, b| a.path.cmp(&b.path));
            let merged = MergedTree::of(&view(&nothing), &scanned.dirs, &scanned.found);

            let shown = shown(&lower, lower.clone(), &upper);
            let entries: Vec<Entry> = shown.iter().map(|(path, byte)| entry(path, *byte)).collect();
            let trees = content::trees(&entries);
            prop_assert_eq!(Some(merged.tree), trees.last().map(|(tree, _)| *tree), "{:?}", shown);
            // Every tree of the result is one of the lower layers or a new one.
            let known: HashSet<ObjectId> =
                table.trees().map(|(tree, _)| tree).chain(merged.trees.iter().map(|(tree, _)| *tree)).collect();
            prop_assert!(trees.iter().all(|(tree, _)| known.contains(tree)), "{:?}", shown);

            // The next scan tracks a file of the lower layers if it is still at its place, and only then. One that
            // another file replaced is known from the scan of that file.
            let mut gone = BTreeSet::new();
            hidden(&lower, "", &upper, &mut gone);
            let deleted: HashSet<Vec<u8>> = merged.deleted.into_iter().chain(merged.replaced).collect();
            let view = view(&deleted);
            for path in lower.keys() {
                let replaced = scanned.found.binary_search_by(|entry| entry.path.as_slice().cmp(path.as_bytes()));
                if replaced.is_err() {
                    let is_tracked = view.tracked(path.as_bytes()).is_some();
                    prop_assert_eq!(is_tracked, !gone.contains(path), "{}", path);
                }
            }
        }
    }
}
