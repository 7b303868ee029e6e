//! Lets programs read directories of a project that are outside their workspace.

use std::path::Path;

use super::view::gathered;
use super::{RequiredIsolation, SandboxOptions};
use posse_files::DirHandle;

impl SandboxOptions {
    /// Lets programs read a directory of a project, except for ignored files, which are not part of the project. If
    /// these cannot be hidden, nothing is shown.
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
