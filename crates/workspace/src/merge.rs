//! Merges a child's work into its parent's, in the bare repository, for the merge queue.
//!
//! A merge has three commits: the child's snapshot (base), the child's changes (theirs) and the parent's files now
//! (ours). Only objects are written here. No ref moves and no file changes, so a refusal, a conflict or a crash leaves
//! the parent byte for byte unchanged.

use std::collections::BTreeSet;

use posse_engine::ports::Merge;

use super::change::{changes, shown, unreadable};
use super::gate::{Terms, split_tab};
use super::object::ObjectType;
use super::quarantine::Quarantine;
use super::{Git, ObjectId, RepositoryError, tree_diff};

/// Limit of conflicting files that are named.
const CONFLICTS_MAX: usize = 200;

/// One merge in the repository, with the terms that the gate checks.
#[derive(Debug, Clone)]
pub struct TreeMerge {
    /// The commit of the parent's files.
    pub ours: ObjectId,
    /// The commit that the child started from.
    pub base: ObjectId,
    /// The commit of the child's files.
    pub theirs: ObjectId,
    /// What the child may change: literal paths or `dir/**`. Empty means everything.
    pub owns: Vec<String>,
    /// Names that agents may not write, at any depth.
    pub protected: Vec<String>,
    /// Those of them, or paths beneath them (literal or `dir/**`), that the user allowed.
    pub opened: Vec<String>,
    /// The message of the merge commit.
    pub message: String,
}

/// Checks the gate and merges in the bare repository of `git`; `None` if the child changed nothing. The written objects
/// are durable when this returns.
pub fn merge(git: &Git, request: &TreeMerge) -> Result<Option<Merge>, RepositoryError> {
    let TreeMerge { ours, base, theirs, .. } = request;
    if theirs == base {
        return Ok(None);
    }
    let terms = Terms { owns: &request.owns, protected: &request.protected, opened: &request.opened };
    let own = changes(git, base, theirs)?;
    if own.is_empty() {
        return Ok(None);
    }
    if let Some(refused) = terms.check(git, &own, base, theirs)? {
        return Ok(Some(Merge::Refused { code: refused.code, problems: refused.problems }));
    }
    // A null byte would end the message early.
    let message = request.message.replace('\0', " ");
    if let Some(stored) = git.stored_objects()
        && let Some(plain) = tree_diff::merge(&stored, base, ours, &own)
    {
        // Without links, the gate reads no tree.
        if let Some(refused) = terms.check(git, &plain.brought, ours, ours)? {
            return Ok(Some(Merge::Refused { code: refused.code, problems: refused.problems }));
        }
        let pack = git.new_pack();
        for (oid, content) in &plain.trees {
            pack.add(ObjectType::Tree, *oid, content)?;
        }
        let commit = super::add_commit(&pack, &plain.tree, &[*ours, *theirs], message.trim_end())?;
        pack.finish()?;
        plain.trees.into_iter().for_each(|(oid, content)| stored.keep_tree(&oid, content));
        return Ok(Some(Merge::Merged { commit, tree: plain.tree, paths: plain.brought.len() as u64 }));
    }
    let quarantine = Quarantine::new(git)?;
    let tree = match merge_trees(quarantine.git(), ours, base, theirs)? {
        Ok(tree) => tree,
        Err(files) => return Ok(Some(Merge::Conflict { files })),
    };
    let brought = changes(quarantine.git(), ours, &tree)?;
    if let Some(refused) = terms.check(quarantine.git(), &brought, ours, &tree)? {
        return Ok(Some(Merge::Refused { code: refused.code, problems: refused.problems }));
    }
    let pack = git.new_pack();
    quarantine.pour_into(&pack)?;
    let commit = super::add_commit(&pack, &tree, &[*ours, *theirs], message.trim_end())?;
    pack.finish()?;
    Ok(Some(Merge::Merged { commit, tree, paths: brought.len() as u64 }))
}

/// The merged tree, or the conflicting files.
fn merge_trees(
    git: &Git,
    ours: &ObjectId,
    base: &ObjectId,
    theirs: &ObjectId,
) -> Result<Result<ObjectId, Vec<String>>, RepositoryError> {
    let (ours, theirs) = (ours.to_string(), theirs.to_string());
    let base = format!("--merge-base={base}");
    let args = ["merge-tree", "--write-tree", "-z", &base, &ours, &theirs];
    let answer = git.ask(&args, &[])?;
    match answer.code {
        Some(0) => {
            let tree = answer.stdout.split(|byte| *byte == 0).next().and_then(oid);
            tree.map(Ok).ok_or_else(|| unreadable("merge-tree"))
        }
        Some(1) => conflicts(&answer.stdout).map(Err).ok_or_else(|| unreadable("merge-tree")),
        code => Err(RepositoryError::Git { command: "merge-tree".to_owned(), code, stderr: answer.stderr }),
    }
}

/// Parses the files in conflict from the output of git: the tree, then `mode oid stage<tab>path` for each side of each
/// file, an empty field, then messages, each as a number of paths, the paths, its kind and its text.
fn conflicts(answer: &[u8]) -> Option<Vec<String>> {
    let mut fields = answer.split(|byte| *byte == 0);
    oid(fields.next()?)?;
    let mut files = BTreeSet::new();
    for entry in fields.by_ref() {
        if entry.is_empty() {
            break;
        }
        files.insert(split_tab(entry)?.1);
    }
    while files.is_empty() {
        // Some conflicts leave no file behind. Then the messages name the paths.
        let count: usize = std::str::from_utf8(fields.next()?).ok()?.parse().ok()?;
        let named: Vec<&[u8]> = fields.by_ref().take(count).collect();
        let (kind, _text) = (fields.next()?, fields.next()?);
        if kind.starts_with(b"CONFLICT") {
            files.extend(named);
        }
    }
    let more = files.len().saturating_sub(CONFLICTS_MAX);
    let mut files: Vec<String> = files.into_iter().take(CONFLICTS_MAX).map(shown).collect();
    if more > 0 {
        files.push(format!("and {more} more"));
    }
    Some(files)
}

fn oid(text: &[u8]) -> Option<ObjectId> {
    std::str::from_utf8(text).ok()?.trim_end().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_files_of_a_conflict_are_read() {
        let (tree, blob) = ("1".repeat(40), "2".repeat(40));
        let staged = format!(
            "{tree}\0100644 {blob} 1\tb\0100644 {blob} 2\tb\0100644 {blob} 3\ta\n\0\x001\0b\0CONFLICT (contents)\0text\n\0"
        );
        assert_eq!(conflicts(staged.as_bytes()).expect("readable"), ["a\\n", "b"]);
        let told = format!("{tree}\0\x001\0x\0Auto-merging\0t\x002\0d\0e\0CONFLICT (directory rename)\0t\0");
        assert_eq!(conflicts(told.as_bytes()).expect("readable"), ["d", "e"]);
        assert_eq!(conflicts(b"nonsense"), None);
        assert_eq!(
            conflicts(format!("{tree}\0").as_bytes()),
            None,
            "a conflict that names nothing is not one"
        );
    }
}
