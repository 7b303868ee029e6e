//! Directories of a project that programs may read though their workspace is another one.

use std::path::Path;

use super::view::gathered;
use super::{RequiredIsolation, SandboxOptions};
use posse_files::DirHandle;

impl SandboxOptions {
    /// Lets programs read a directory of a project, but for what git ignores there: that is no part of the project. Where
    /// the one cannot be had without the other, nothing is shown.
    pub fn show_of_project(&mut self, dir: &Path, project: &Path) {
        let left_out = || DirHandle::open(project).ok()?.left_out(dir.strip_prefix(project).ok()?);
        let Some(left_out) = left_out() else { return };
        // Without namespaces nothing can be covered.
        if !left_out.is_empty() && self.required == RequiredIsolation::Landlock {
            return;
        }
        let left_out = left_out.into_iter().map(|path| project.join(path)).collect();
        self.hidden.extend(gathered(dir, left_out));
        self.read.push(dir.to_owned());
    }
}
