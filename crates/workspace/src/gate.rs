//! The gate: refuses changes that no child may make, whatever its contract says. Called before each merge.
//!
//! The gate reads only trees, never a child's files or configuration. It checks twice: the child's own change, and what
//! the merge would change in the parent, because rename detection can move a change to a path the child never touched.
//!
//! Why it is like this: `docs/decisions/workspace-protected-names.md`.

use std::collections::{BTreeMap, HashSet};

use posse_domain::printable::is_plain;
use posse_engine::ports::RefusedCode;

use super::change::{Change, EntryType, shown, unreadable};
use super::forbidden::{holds, hostile, is_git, is_gitmodules, protected};
use super::update::contents;
use super::{Git, ObjectId, RepositoryError};

/// Limit of problems that are listed one by one.
const PROBLEMS_MAX: usize = 20;
/// Limit of links that one link may lead through.
const LINKS_MAX: usize = 40;
/// Longest target of a symbolic link, as on Linux.
const TARGET_MAX_BYTES: usize = 4096;

/// One violation in a change. The derived order is by severity.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Problem {
    pub(super) code: RefusedCode,
    pub(super) path: Vec<u8>,
    pub(super) why: String,
}

impl Problem {
    /// The text that users read.
    pub(super) fn text(&self) -> String {
        format!("{}: {}", shown(&self.path), self.why)
    }
}

/// Whether a name is safe to print in lists, diffs and prompts, also by other programs.
fn is_printable(path: &str) -> bool {
    path.chars().all(|c| is_plain(c) && !c.is_control())
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct GateRefusal {
    pub(super) code: RefusedCode,
    pub(super) problems: Vec<String>,
}

/// What a child may change.
#[derive(Debug, Clone, Copy)]
pub(super) struct Terms<'a> {
    /// Literal paths or `dir/**`. Empty means everything.
    pub(super) owns: &'a [String],
    /// Names that agents may not write.
    pub(super) protected: &'a [String],
    /// Those of them, or paths beneath them, that the user allowed.
    pub(super) opened: &'a [String],
}

impl Terms<'_> {
    /// Checks changes that lead from the tree `before` to the tree `after`.
    pub(super) fn check(
        &self,
        git: &Git,
        changes: &[Change],
        before: &ObjectId,
        after: &ObjectId,
    ) -> Result<Option<GateRefusal>, RepositoryError> {
        Ok(summed(self.problems(git, changes, before, after)?))
    }

    /// The same as single problems.
    pub(super) fn problems(
        &self,
        git: &Git,
        changes: &[Change],
        before: &ObjectId,
        after: &ObjectId,
    ) -> Result<Vec<Problem>, RepositoryError> {
        let mut found: Vec<Problem> = changes.iter().flat_map(|change| self.problems_of(change)).collect();
        // A link may lead through another, so a change of one requires a check of all.
        if changes.iter().any(|change| change.touches(EntryType::Link)) {
            found.extend(leaving(git, changes, before, after)?);
        }
        Ok(found)
    }

    fn problems_of(&self, change: &Change) -> impl Iterator<Item = Problem> {
        let text = String::from_utf8_lossy(&change.path);
        let problem =
            |code, why: &str| Some(Problem { code, path: change.path.clone(), why: why.to_owned() });
        let odd = |side: &super::change::Side| matches!(side.kind, EntryType::Odd(_));
        let opened = |name: &str| self.opened.iter().any(|open| open == name || holds(open, &change.path));
        let hostile = hostile(&change.path);
        let closed = protected(&text, self.protected).filter(|name| !opened(name));
        let gitmodules = text.split('/').any(is_gitmodules) && !opened(".gitmodules");
        [
            hostile.and_then(|why| problem(RefusedCode::DotGit, why)),
            (change.touches(EntryType::Submodule) || gitmodules)
                .then(|| problem(RefusedCode::Submodule, "agents do not add or change submodules"))
                .flatten(),
            change.new.as_ref().filter(|side| odd(side)).and_then(|_| {
                problem(RefusedCode::Mode, "not a file, an executable file or a symbolic link")
            }),
            // The project may keep or remove a name that it had before.
            change.new.as_ref().filter(|_| change.old.is_none() && !is_printable(&text)).and_then(|_| {
                problem(RefusedCode::Name, "its name has characters that a terminal obeys or does not show")
            }),
            closed.and_then(|name| {
                problem(
                    RefusedCode::Protected,
                    &format!("`{name}` is protected; only the user can allow changes to it"),
                )
            }),
            (!self.owns.is_empty() && !self.owns.iter().any(|pattern| holds(pattern, &change.path)))
                .then(|| problem(RefusedCode::Ownership, "not owned by the child"))
                .flatten(),
        ]
        .into_iter()
        .flatten()
    }
}

/// The most severe problems, as a bounded list.
fn summed(mut found: Vec<Problem>) -> Option<GateRefusal> {
    found.sort();
    let code = found.first()?.code;
    let more = found.len().saturating_sub(PROBLEMS_MAX);
    let mut problems: Vec<String> = found.iter().take(PROBLEMS_MAX).map(Problem::text).collect();
    if more > 0 {
        problems.push(format!("and {more} more"));
    }
    Some(GateRefusal { code, problems })
}

/// Links that leave the tree `after`: changed ones, and those that leave it because of another change.
fn leaving(
    git: &Git,
    changes: &[Change],
    before: &ObjectId,
    after: &ObjectId,
) -> Result<Vec<Problem>, RepositoryError> {
    let then = Links::of(git, before)?;
    let now = Links::of(git, after)?;
    let touched: HashSet<&[u8]> = changes.iter().map(|change| change.path.as_slice()).collect();
    let mut found = Vec::new();
    for path in now.0.keys() {
        let Some(why) = now.leaves(path) else { continue };
        // The user may keep a link that left the tree before.
        if touched.contains(path.as_slice()) || then.leaves(path).is_none() {
            found.push(Problem { code: RefusedCode::Symlink, path: path.clone(), why: why.to_owned() });
        }
    }
    Ok(found)
}

/// The symbolic links of a tree, with their targets.
struct Links(BTreeMap<Vec<u8>, Vec<u8>>);

impl Links {
    fn of(git: &Git, tree: &ObjectId) -> Result<Self, RepositoryError> {
        let listed = git.run(&["ls-tree", "-r", "-z", &tree.to_string()])?;
        let mut paths = Vec::new();
        for entry in listed.split(|byte| *byte == 0).filter(|entry| entry.starts_with(b"120000 ")) {
            let (head, path) = split_tab(entry).ok_or_else(|| unreadable("ls-tree"))?;
            let oid = head.rsplit(|byte| *byte == b' ').next().and_then(|oid| std::str::from_utf8(oid).ok());
            let oid = oid.and_then(|oid| oid.parse().ok()).ok_or_else(|| unreadable("ls-tree"))?;
            paths.push((path.to_vec(), oid));
        }
        let oids: Vec<ObjectId> = paths.iter().map(|(_, oid)| *oid).collect();
        let mut links = BTreeMap::new();
        contents(git, &oids, |at, target| {
            links.insert(std::mem::take(&mut paths[at].0), target);
            Ok(())
        })?;
        Ok(Self(links))
    }

    /// Why a link leaves the tree, if it does. A path that is not a link counts as a directory.
    fn leaves(&self, link: &[u8]) -> Option<&'static str> {
        let mut at: Vec<&[u8]> = link.split(|byte| *byte == b'/').collect();
        at.pop();
        let mut rest: Vec<&[u8]> = Vec::new();
        let mut followed = 0;
        let mut next = Some(self.0.get(link)?.as_slice());
        loop {
            if let Some(target) = next.take() {
                followed += 1;
                if target.is_empty() || target.len() > TARGET_MAX_BYTES || target.contains(&0) {
                    return Some("a symbolic link that leads nowhere");
                }
                if target.starts_with(b"/") {
                    return Some("a symbolic link to an absolute path");
                }
                if followed > LINKS_MAX {
                    return Some("a symbolic link that leads through too many others");
                }
                rest.extend(target.rsplit(|byte| *byte == b'/'));
            }
            let part = rest.pop()?;
            match part {
                b"" | b"." => {}
                b".." => {
                    if at.pop().is_none() {
                        return Some("a symbolic link that leaves the tree");
                    }
                }
                name if is_git(&String::from_utf8_lossy(name)) => {
                    return Some("a symbolic link that leads into `.git`");
                }
                name => {
                    at.push(name);
                    next = self.0.get(&at.join(&b'/')).map(Vec::as_slice);
                    if next.is_some() {
                        at.pop();
                    }
                }
            }
        }
    }
}

/// Splits at the first tab.
pub(super) fn split_tab(entry: &[u8]) -> Option<(&[u8], &[u8])> {
    let tab = entry.iter().position(|byte| *byte == b'\t')?;
    Some((&entry[..tab], &entry[tab + 1..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn links(of: &[(&str, &str)]) -> Links {
        Links(
            of.iter().map(|(link, target)| (link.as_bytes().to_vec(), target.as_bytes().to_vec())).collect(),
        )
    }

    #[test]
    fn a_link_stays_in_the_tree_or_not() {
        for (target, stays) in [
            ("x", true),
            ("../x", true),
            ("./../b/../x", true),
            ("../..", false),
            ("../../x", false),
            ("/etc/passwd", false),
            ("", false),
            ("../.git/hooks", false),
            ("../.GIT", false),
            ("missing/x", true),
            ("missing/../../../x", false),
        ] {
            assert_eq!(links(&[("a/link", target)]).leaves(b"a/link").is_none(), stays, "{target}");
        }
    }

    #[test]
    fn a_link_is_followed_through_others() {
        let through = links(&[("p/d", "."), ("p/l", "d/../../x"), ("q/d", "../r/s"), ("q/l", "d/../../x")]);
        assert!(through.leaves(b"p/d").is_none());
        assert!(through.leaves(b"p/l").is_some(), "p/d is p, so it goes two up from p");
        assert!(through.leaves(b"q/l").is_none(), "q/d is r/s, so it goes two up from there");
        let round = links(&[("a", "b"), ("b", "a"), ("c", "c/c")]);
        for link in ["a", "b", "c"] {
            assert!(round.leaves(link.as_bytes()).is_some(), "{link}");
        }
    }

    #[test]
    fn problems_are_bounded_and_the_gravest_gives_the_code() {
        let problem = |code, path: &str| Problem { code, path: path.into(), why: "no".to_owned() };
        let mut found: Vec<_> = (0..30).map(|n| problem(RefusedCode::Ownership, &n.to_string())).collect();
        found.push(problem(RefusedCode::DotGit, "x"));
        let refused = summed(found).expect("refused");
        assert_eq!(refused.code, RefusedCode::DotGit);
        assert_eq!((refused.problems.len(), refused.problems[20].as_str()), (21, "and 11 more"));
        assert_eq!(summed(Vec::new()), None);
    }
}
