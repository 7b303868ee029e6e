//! Merging a child's work into its parent's line, in the bare repository.
//!
//! A merge is three objects deep: the child's snapshot (base), what the child made of it (theirs) and where the
//! parent stands now (ours). Nothing but objects is written here: no ref moves and no file of anybody changes, so a
//! refusal, a conflict or a crash leaves the parent byte for byte as it was.

use std::collections::BTreeSet;

use super::change::{changes, shown, unreadable};
use super::gate::{RefusedCode, Terms, split_tab};
use super::pack::PackWriter;
use super::quarantine::Quarantine;
use super::{Git, Oid, WorkspaceError};

/// Most conflicting files that are named.
const CONFLICTS_MAX: usize = 200;

/// What is to be merged, and on what terms.
#[derive(Debug, Clone)]
pub struct MergeRequest {
    /// The commit the parent stands at.
    pub ours: Oid,
    /// The commit the child started from.
    pub base: Oid,
    /// The commit of what the child made.
    pub theirs: Oid,
    /// What the child may change: literal paths or `dir/**`; empty: everything.
    pub owns: Vec<String>,
    /// Names that agents do not write, at any depth.
    pub protected: Vec<String>,
    /// Which of those, or which paths beneath them (literal or `dir/**`), a person opened.
    pub opened: Vec<String>,
    /// The message of the merge commit.
    pub message: String,
}

/// What came of a merge.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Merge {
    /// The child changed nothing.
    Same,
    /// Merged: a commit with both sides as its parents.
    Merged {
        /// The merge commit.
        commit: Oid,
        /// Its tree.
        tree: Oid,
        /// How many paths it changes in the parent.
        paths: usize,
    },
    /// Both sides changed the same.
    Conflict {
        /// The files, in the order of their names.
        files: Vec<String>,
    },
    /// The gate said no.
    Refused {
        /// The gravest reason.
        code: RefusedCode,
        /// `path: why`, a bounded list.
        problems: Vec<String>,
    },
}

/// Gates and merges in the bare repository of `git`. What it wrote is durable when it returns.
pub fn merge(git: &Git, request: &MergeRequest) -> Result<Merge, WorkspaceError> {
    let MergeRequest { ours, base, theirs, .. } = request;
    if theirs == base {
        return Ok(Merge::Same);
    }
    let terms = Terms { owns: &request.owns, protected: &request.protected, opened: &request.opened };
    let own = changes(git, base, theirs)?;
    if own.is_empty() {
        return Ok(Merge::Same);
    }
    if let Some(refused) = terms.check(git, &own, base, theirs)? {
        return Ok(Merge::Refused { code: refused.code, problems: refused.problems });
    }
    let quarantine = Quarantine::new(git)?;
    let tree = match merge_trees(quarantine.git(), ours, base, theirs)? {
        Ok(tree) => tree,
        Err(files) => return Ok(Merge::Conflict { files }),
    };
    let brought = changes(quarantine.git(), ours, &tree)?;
    if let Some(refused) = terms.check(quarantine.git(), &brought, ours, &tree)? {
        return Ok(Merge::Refused { code: refused.code, problems: refused.problems });
    }
    let pack = PackWriter::new(git.git_dir());
    quarantine.pour_into(&pack)?;
    // A message cannot hold what would end it early.
    let message = request.message.replace('\0', " ");
    let commit = super::add_commit(&pack, &tree, &[*ours, *theirs], message.trim_end())?;
    pack.finish()?;
    Ok(Merge::Merged { commit, tree, paths: brought.len() })
}

/// The merged tree, or the files in conflict.
fn merge_trees(
    git: &Git,
    ours: &Oid,
    base: &Oid,
    theirs: &Oid,
) -> Result<Result<Oid, Vec<String>>, WorkspaceError> {
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
        code => Err(WorkspaceError::Git { command: "merge-tree".to_owned(), code, stderr: answer.stderr }),
    }
}

/// The files that a conflict names: the tree, then `mode oid stage<tab>path` for each side of each file, an empty
/// field, then messages, each as a number of paths, the paths, its kind and its text.
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
        // Some conflicts leave no file behind; then the messages name the paths.
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

fn oid(text: &[u8]) -> Option<Oid> {
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
