//! Compares and merges trees in this process. Only directories that differ are read.
//!
//! A merge is done here if no file was deleted on either side and no path was changed on both: then it needs neither
//! renames to be found nor contents to be merged, and the result is the one that git would have. Git does every other
//! merge.
//!
//! Why it is like this: `docs/decisions/workspace-plain-merges.md`.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

use super::ObjectId;
use super::change::{Change, EntryType, Side};
use super::content::NewTree;
use super::object::{self, DIRECTORY_BITS, ObjectType, TreeEntry};
use super::objects::KnownTree;
use super::stored_objects::{StoredEntry, StoredObjects, StoredTree};

/// Every path that differs between two trees, sorted; `None` if git should be asked.
pub(super) fn changes(stored: &StoredObjects, from: &ObjectId, to: &ObjectId) -> Option<Vec<Change>> {
    let (from, to) = (stored.tree_of(from)?, stored.tree_of(to)?);
    let mut found = Vec::new();
    // Not recursive, because a project's author decides how deep the paths are.
    let mut waiting = vec![(Vec::new(), Some(from), Some(to))];
    while let Some((dir, old, new)) = waiting.pop() {
        if old == new {
            continue;
        }
        let entries =
            |tree: Option<ObjectId>| tree.map_or(Some(KnownTree::default()), |tree| stored.tree(&tree));
        let (old, new) = (entries(old)?, entries(new)?);
        for (old, new) in differing(&old, &new) {
            let Some(name) = old.or(new).map(|entry| entry.name) else { continue };
            let path = [dir.as_slice(), name].concat();
            let is_dir = |entry: Option<StoredEntry<'_>>| {
                entry.filter(StoredEntry::is_directory).map(|entry| entry.oid)
            };
            let side = |entry: Option<StoredEntry<'_>>| {
                let entry = entry.filter(|entry| !entry.is_directory())?;
                Some(Side { kind: EntryType::of_mode(entry.bits), oid: entry.oid })
            };
            let (old_dir, new_dir) = (is_dir(old), is_dir(new));
            let (old, new) = (side(old), side(new));
            if old_dir.is_some() || new_dir.is_some() {
                waiting.push(([path.as_slice(), b"/"].concat(), old_dir, new_dir));
            }
            if old.is_some() || new.is_some() {
                found.push(Change { path, old, new });
            }
        }
    }
    found.sort_unstable_by(|a, b| a.path.cmp(&b.path));
    Some(found)
}

/// The same name in two directories.
type Pair<'a> = (Option<StoredEntry<'a>>, Option<StoredEntry<'a>>);

/// The entries of two directories that differ, by name.
fn differing<'a>(old: &'a StoredTree, new: &'a StoredTree) -> Vec<Pair<'a>> {
    let mut differ: Vec<Pair<'a>> = Vec::new();
    let (mut old, mut new) = (old.entries().peekable(), new.entries().peekable());
    loop {
        let order = match (old.peek(), new.peek()) {
            (Some(old), Some(new)) => old.order(new),
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (None, None) => break,
        };
        let pair = match order {
            Ordering::Less => (old.next(), None),
            Ordering::Greater => (None, new.next()),
            Ordering::Equal => (old.next(), new.next()),
        };
        if pair.0 != pair.1 {
            differ.push(pair);
        }
    }
    // A file and a directory of the same name have different places in git's order.
    let name_of = |(old, new): &Pair<'a>| old.or(*new).map(|entry| entry.name);
    differ.sort_by_key(name_of);
    let mut paired: Vec<Pair<'a>> = Vec::with_capacity(differ.len());
    for pair in differ {
        match paired.last_mut().filter(|last| name_of(last) == name_of(&pair)) {
            Some(last) => *last = (last.0.or(pair.0), last.1.or(pair.1)),
            None => paired.push(pair),
        }
    }
    paired
}

/// A merge without git.
pub(super) struct PlainMerge {
    pub(super) tree: ObjectId,
    /// The trees that are not those of our side.
    pub(super) trees: Vec<NewTree>,
    /// What the merge changes on our side.
    pub(super) brought: Vec<Change>,
}

/// Adds the changes that lead from `base` to their side to our tree; `None` if git should merge.
pub(super) fn merge(
    stored: &StoredObjects,
    base: &ObjectId,
    ours: &ObjectId,
    theirs: &[Change],
) -> Option<PlainMerge> {
    let our_changes = changes(stored, base, ours)?;
    let is_plain = |change: &Change| {
        change.new.is_some_and(|side| matches!(side.kind, EntryType::File | EntryType::Executable))
            && change.old.is_none_or(|side| matches!(side.kind, EntryType::File | EntryType::Executable))
    };
    if !theirs.iter().all(is_plain) || our_changes.iter().any(|change| change.new.is_none()) {
        return None;
    }
    let ours_by_path: BTreeMap<&[u8], &Change> =
        our_changes.iter().map(|change| (change.path.as_slice(), change)).collect();
    let mut brought = Vec::new();
    for change in theirs {
        match ours_by_path.get(change.path.as_slice()) {
            Some(our_change) if our_change.new == change.new => {}
            Some(_) => return None,
            None => brought.push(change.clone()),
        }
    }
    if is_file_over_directory(&our_changes, theirs) {
        return None;
    }
    let ours = stored.tree_of(ours)?;
    let mut trees = Vec::new();
    let changed: Vec<(&[u8], Side)> =
        brought.iter().filter_map(|change| Some((change.path.as_slice(), change.new?))).collect();
    let tree = with_files(stored, Some(ours), &changed, &mut trees)?;
    Some(PlainMerge { tree, trees, brought })
}

/// Whether a new file of one side has the path of a directory of the other.
fn is_file_over_directory(ours: &[Change], theirs: &[Change]) -> bool {
    let files = |changes: &[Change]| -> BTreeSet<Vec<u8>> {
        changes.iter().filter(|change| change.old.is_none()).map(|change| change.path.clone()).collect()
    };
    let lies_beneath = |changes: &[Change], files: &BTreeSet<Vec<u8>>| {
        changes.iter().any(|change| {
            let slashes = change.path.iter().enumerate().filter(|(_, byte)| **byte == b'/');
            slashes.into_iter().any(|(at, _)| files.contains(&change.path[..at]))
        })
    };
    lies_beneath(ours, &files(theirs)) || lies_beneath(theirs, &files(ours))
}

/// The id of a tree with these files added or replaced, whose paths are sorted. As deep as the paths, which a scan
/// limits.
fn with_files(
    stored: &StoredObjects,
    tree: Option<ObjectId>,
    files: &[(&[u8], Side)],
    trees: &mut Vec<NewTree>,
) -> Option<ObjectId> {
    if files.is_empty() {
        return tree;
    }
    let tree = tree.map_or(Some(KnownTree::default()), |tree| stored.tree(&tree))?;
    let mut changed: BTreeMap<&[u8], (u32, ObjectId)> = BTreeMap::new();
    let mut rest = files;
    while let Some((path, side)) = rest.first() {
        let Some(slash) = path.iter().position(|byte| *byte == b'/') else {
            changed.insert(path, (bits_of(side.kind)?, side.oid));
            rest = &rest[1..];
            continue;
        };
        let dir = &path[..=slash];
        let count = rest.iter().take_while(|(path, _)| path.starts_with(dir)).count();
        // A file on our side where theirs has a directory is no plain merge.
        let below = match tree.get(&path[..slash]) {
            Some(entry) if !entry.is_directory() => return None,
            entry => entry.map(|entry| entry.oid),
        };
        let inner: Vec<(&[u8], Side)> =
            rest[..count].iter().map(|(path, side)| (&path[slash + 1..], *side)).collect();
        let oid = with_files(stored, below, &inner, trees)?;
        changed.insert(&path[..slash], (DIRECTORY_BITS, oid));
        rest = &rest[count..];
    }
    let kept = tree.entries().filter(|entry| !changed.contains_key(entry.name));
    let kept = kept.map(|StoredEntry { name, bits, oid }| TreeEntry { name, bits, oid });
    let added = changed.iter().map(|(name, (bits, oid))| TreeEntry { name, bits: *bits, oid: *oid });
    let mut entries: Vec<TreeEntry<'_>> = kept.chain(added).collect();
    let content = object::encode_tree(&mut entries);
    let oid = object::name(ObjectType::Tree, &content);
    trees.push((oid, content));
    Some(oid)
}

const fn bits_of(kind: EntryType) -> Option<u32> {
    match kind {
        EntryType::File => Some(0o100_644),
        EntryType::Executable => Some(0o100_755),
        EntryType::Link | EntryType::Submodule | EntryType::Odd(_) => None,
    }
}
