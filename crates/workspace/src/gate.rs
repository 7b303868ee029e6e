//! What a child's change may not do, whatever its contract says.
//!
//! The gate looks at trees, never at a child's files or at anything a child can configure. It is asked twice: about
//! the child's own change, and about what the merge would change in the parent, because rename detection can carry
//! a change to a path the child never touched.
//!
//! Why it is like this: `docs/decisions/workspace-protected-names.md`.

use std::collections::{BTreeMap, HashSet};

use posse_domain::printable::is_plain;

use super::change::{Change, EntryType, shown, unreadable};
use super::forbidden::{holds, hostile, is_git, is_gitmodules, protected};
use super::update::contents;
use super::{Git, Oid, WorkspaceError};

/// Most problems that are told one by one.
const PROBLEMS_MAX: usize = 20;
/// Most links that one link may lead through.
const LINKS_MAX: usize = 40;
/// Longest target of a symbolic link, as on Linux.
const TARGET_MAX_BYTES: usize = 4096;

/// Why a change is refused; the gravest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum RefusedCode {
    /// A path that could become `.git` somewhere, or lead out of the tree.
    DotGit,
    /// A new or changed submodule.
    Submodule,
    /// A symbolic link that leaves the tree or leads into `.git`.
    Symlink,
    /// An entry of a kind that git does not write.
    Mode,
    /// A new name with characters that steer a terminal or turn the direction of text.
    Name,
    /// A protected name that nobody opened.
    Protected,
    /// A path that the child does not own.
    Ownership,
}

impl RefusedCode {
    /// Its name in events and reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::DotGit => "GIT_PATH",
            Self::Submodule => "SUBMODULE",
            Self::Symlink => "SYMLINK_ESCAPE",
            Self::Mode => "ENTRY_KIND",
            Self::Name => "UNPRINTABLE_NAME",
            Self::Protected => "PROTECTED_PATH",
            Self::Ownership => "OWNERSHIP_VIOLATION",
        }
    }
}

/// One thing that is wrong with a change. They are in the order of their gravity.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Problem {
    pub(super) code: RefusedCode,
    pub(super) path: Vec<u8>,
    pub(super) why: String,
}

impl Problem {
    /// As people read it.
    pub(super) fn text(&self) -> String {
        format!("{}: {}", shown(&self.path), self.why)
    }
}

/// Whether a name can be printed anywhere as it is: in lists, diffs and prompts of other programs too.
fn is_printable(path: &str) -> bool {
    path.chars().all(|c| is_plain(c) && !c.is_control())
}

/// What the gate found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct GateRefusal {
    pub(super) code: RefusedCode,
    pub(super) problems: Vec<String>,
}

/// What a child may change.
#[derive(Debug, Clone, Copy)]
pub(super) struct Terms<'a> {
    /// Literal paths or `dir/**`; empty: everything.
    pub(super) owns: &'a [String],
    /// Names that agents do not write.
    pub(super) protected: &'a [String],
    /// Those of them, or paths beneath them, that a person opened.
    pub(super) opened: &'a [String],
}

impl Terms<'_> {
    /// What is wrong with these changes, which lead from the tree `before` to the tree `after`.
    pub(super) fn check(
        &self,
        git: &Git,
        changes: &[Change],
        before: &Oid,
        after: &Oid,
    ) -> Result<Option<GateRefusal>, WorkspaceError> {
        Ok(summed(self.problems(git, changes, before, after)?))
    }

    /// The same, one by one.
    pub(super) fn problems(
        &self,
        git: &Git,
        changes: &[Change],
        before: &Oid,
        after: &Oid,
    ) -> Result<Vec<Problem>, WorkspaceError> {
        let mut found: Vec<Problem> = changes.iter().flat_map(|change| self.problems_of(change)).collect();
        // A link may lead through another, so any change of one asks for a look at all.
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
            // A name that the project had before may stay, and may go.
            change.new.as_ref().filter(|_| change.old.is_none() && !is_printable(&text)).and_then(|_| {
                problem(RefusedCode::Name, "its name has characters that a terminal obeys or does not show")
            }),
            closed.and_then(|name| {
                problem(RefusedCode::Protected, &format!("`{name}` is protected; a person can open it"))
            }),
            (!self.owns.is_empty() && !self.owns.iter().any(|pattern| holds(pattern, &change.path)))
                .then(|| problem(RefusedCode::Ownership, "not owned by the child"))
                .flatten(),
        ]
        .into_iter()
        .flatten()
    }
}

/// The gravest problems, a bounded list.
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

/// The links that leave the tree `after`: those that were changed, and those that a change made leave it.
fn leaving(git: &Git, changes: &[Change], before: &Oid, after: &Oid) -> Result<Vec<Problem>, WorkspaceError> {
    let then = Links::of(git, before)?;
    let now = Links::of(git, after)?;
    let touched: HashSet<&[u8]> = changes.iter().map(|change| change.path.as_slice()).collect();
    let mut found = Vec::new();
    for path in now.0.keys() {
        let Some(why) = now.leaves(path) else { continue };
        // One that the person has is theirs to keep.
        if touched.contains(path.as_slice()) || then.leaves(path).is_none() {
            found.push(Problem { code: RefusedCode::Symlink, path: path.clone(), why: why.to_owned() });
        }
    }
    Ok(found)
}

/// The symbolic links of a tree, and where they point.
struct Links(BTreeMap<Vec<u8>, Vec<u8>>);

impl Links {
    fn of(git: &Git, tree: &Oid) -> Result<Self, WorkspaceError> {
        let listed = git.run(&["ls-tree", "-r", "-z", &tree.to_string()])?;
        let mut paths = Vec::new();
        for entry in listed.split(|byte| *byte == 0).filter(|entry| entry.starts_with(b"120000 ")) {
            let (head, path) = split_tab(entry).ok_or_else(|| unreadable("ls-tree"))?;
            let oid = head.rsplit(|byte| *byte == b' ').next().and_then(|oid| std::str::from_utf8(oid).ok());
            let oid = oid.and_then(|oid| oid.parse().ok()).ok_or_else(|| unreadable("ls-tree"))?;
            paths.push((path.to_vec(), oid));
        }
        let oids: Vec<Oid> = paths.iter().map(|(_, oid)| *oid).collect();
        let mut links = BTreeMap::new();
        contents(git, &oids, |at, target| {
            links.insert(std::mem::take(&mut paths[at].0), target);
            Ok(())
        })?;
        Ok(Self(links))
    }

    /// Why a link leaves the tree, if it does. What is not a link in the tree counts as a directory.
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

/// What is before and after the first tab.
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
