//! Lists everything that git ignores in a directory.

use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

use super::dir_handle::Links;
use super::walk::entries;
use super::{DirHandle, FileKind, RelPath};

/// Maximum number of entries that are examined.
const LOOKED_AT_MAX: usize = 20_000;

impl DirHandle {
    /// The paths that git ignores in a directory of this project. Of an ignored directory only its own path is listed.
    /// None if `dir` itself is ignored, cannot be read, or has too many entries. The path must be free of links.
    pub fn left_out(&self, dir: &Path) -> Option<Vec<PathBuf>> {
        let mut dirs = vec![dir.to_owned()];
        let mut all = Vec::new();
        let mut looked_at = 0;
        while let Some(dir) = dirs.pop() {
            let rules = self.git_rules(&dir)?;
            let at = dir.iter().fold(RelPath::root(), |at, name| at.join(name));
            let open = self.open_at(&at, OFlags::RDONLY | OFlags::DIRECTORY, Links::Refuse).ok()?;
            let found = entries(self, &at, &open).ok().filter(|found| !found.cut)?;
            looked_at += found.entries.len();
            if looked_at > LOOKED_AT_MAX {
                return None;
            }
            for entry in found.entries {
                let is_dir = entry.kind == FileKind::Directory;
                let path = dir.join(&entry.name);
                if rules.ignores(&entry.name, is_dir) {
                    all.push(path);
                } else if is_dir {
                    dirs.push(path);
                }
            }
        }
        Some(all)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn all_that_git_ignores_in_a_directory_is_found_by_its_topmost_name() {
        let top = tempfile::tempdir().expect("a directory");
        for (file, text) in [
            (".gitignore", ".env\n/skills/x/cache/\n"),
            (".env", ""),
            ("skills/x/.env", ""),
            ("skills/x/a.md", ""),
            ("skills/x/cache/deep/b", ""),
            ("skills/x/deep/.gitignore", "*.key\n"),
            ("skills/x/deep/c.key", ""),
            ("skills/x/deep/d.md", ""),
            ("skills/x/.git/config", ""),
        ] {
            let path = top.path().join(file);
            fs::create_dir_all(path.parent().expect("a folder")).expect("made");
            fs::write(path, text).expect("written");
        }
        let project = DirHandle::open(top.path()).expect("opened");
        let mut found = project.left_out(Path::new("skills/x")).expect("few enough");
        found.sort();
        let expected = ["skills/x/.env", "skills/x/.git", "skills/x/cache", "skills/x/deep/c.key"];
        assert_eq!(found, expected.map(PathBuf::from));
        assert_eq!(project.left_out(Path::new("skills/x/cache")), None, "it is ignored itself");
        assert_eq!(project.left_out(Path::new("skills/none")), None);
    }
}
