//! A call in a sandbox: the request of a caller, and its conversion to the specification for an init.

use std::io;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use posse_engine::ports::WORKSPACE_SHOWN_AT;
use serde::{Deserialize, Serialize};

use super::spec::{CacheSpec, CallSpec, ExtraDescriptors, Limits, Mode};
use super::view::View;
use super::{DiskLimit, OverlayMount, SandboxError};
use crate::process::OutputLimits;

/// Where programs see the objects that the git repository of an isolated workspace borrows.
pub const OBJECTS_SHOWN_AT: &str = "/run/posse/objects";
/// How git finds these objects where nothing can be mounted.
const OBJECTS_VARIABLE: &str = "GIT_ALTERNATE_OBJECT_DIRECTORIES";
/// The default limit of kept output, in bytes.
const OUTPUT_BYTES: usize = 16 * 1024;

/// A directory that is not in the workspace but is mounted there: a cache, or installed packages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cache {
    /// The original directory. No program can change it.
    pub lower: PathBuf,
    /// The mount point, relative to the workspace.
    pub at: PathBuf,
    /// A layer with earlier changes, which is visible and which no program can change.
    pub below: Option<PathBuf>,
    /// The layer for the programs' changes, created by `posse_workspace::lay_out`. `None` mounts the directory
    /// read-only.
    pub layer: Option<PathBuf>,
}

/// How a [`Cache`] was mounted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CacheShown {
    /// Writable; the changes are kept in its layer.
    Overlay,
    /// Read-only, for this reason.
    ReadOnly(String),
    /// Not mounted, for this reason.
    Absent(String),
}

/// A program to run in a sandbox, with everything it may see and use.
#[derive(Debug, Clone)]
pub struct BoxedCommand {
    /// The program and its arguments.
    pub argv: Vec<String>,
    /// The only directory on disk that the program can change, unless it is read-only.
    pub workspace: PathBuf,
    /// The mount with the files of the workspace; `None` if they are in the directory itself.
    pub mount: Option<Arc<OverlayMount>>,
    /// Where programs see the workspace. Without namespaces they see it at its real path.
    pub shown_as: PathBuf,
    /// The working directory, beneath the workspace.
    pub workdir: PathBuf,
    /// Names in the workspace that the program cannot change if they exist, relative to it.
    pub protected: Vec<String>,
    /// The layer for changes to the workspace, with the structure of a [`Cache`]'s. `None` lets programs change the
    /// workspace itself. Where the kernel supports no overlay, the call is refused.
    pub changes: Option<PathBuf>,
    /// Directories that are mounted in the workspace. Ignored without namespaces.
    pub caches: Vec<Cache>,
    /// The disk limit of its run. A call that exceeds it is ended.
    pub disk_limit: Option<Arc<DiskLimit>>,
    /// Whether it shares the machine's network.
    pub network: bool,
    /// Further files and directories that it can read: the path on the machine, and the path in the sandbox.
    pub shown: Vec<(PathBuf, PathBuf)>,
    /// The file in which its init records its processes for [`end_recorded`](super::end_recorded).
    pub record: Option<PathBuf>,
    /// Whether it can only read the workspace. A cache with a layer stays writable.
    pub read_only: bool,
    /// The content of its standard input; `None` means empty.
    pub input: Option<Vec<u8>>,
    /// How much of its output is kept.
    pub output: OutputLimits,
    /// How much of its standard error is kept, if that is captured separately.
    pub errors: Option<OutputLimits>,
}

impl BoxedCommand {
    /// A program that starts in an isolated workspace, mounted at [`WORKSPACE_SHOWN_AT`], without network.
    pub fn isolated(argv: Vec<String>, workspace: impl Into<PathBuf>) -> Self {
        let shown_as = PathBuf::from(WORKSPACE_SHOWN_AT);
        Self { shown_as, read_only: false, ..Self::in_folder(argv, workspace) }
    }

    /// A program that starts in a folder at its real path, read-only and without network.
    pub fn in_folder(argv: Vec<String>, folder: impl Into<PathBuf>) -> Self {
        let folder = folder.into();
        Self {
            argv,
            shown_as: folder.clone(),
            workdir: folder.clone(),
            workspace: folder,
            mount: None,
            protected: Vec::new(),
            changes: None,
            caches: Vec::new(),
            disk_limit: None,
            network: false,
            shown: Vec::new(),
            record: None,
            read_only: true,
            input: None,
            errors: None,
            output: OutputLimits {
                head_bytes: OUTPUT_BYTES,
                tail_bytes: OUTPUT_BYTES,
                spill: None,
                spill_bytes: 0,
            },
        }
    }

    /// The specification for an init.
    pub(super) fn spec(&self, view: &View, mode: Mode, limits: Limits) -> Result<CallSpec, SandboxError> {
        // Resolved once: the checked path is the mounted one, or the call is refused.
        let real = canonical(&self.workspace);
        view.admits(self, &real)?;
        let shown_as = match mode {
            Mode::Namespaces => &self.shown_as,
            Mode::Landlock => &self.workspace,
        };
        // Mount points are created part by part, and no part may be `..`.
        let leads_up = shown_as.components().any(|part| part == Component::ParentDir);
        let shown_as = if leads_up { &real } else { shown_as };
        let workdir = [&self.workspace, &real, shown_as]
            .into_iter()
            .find_map(|top| self.workdir.strip_prefix(top).ok())
            .map(|beneath| shown_as.join(beneath));
        let hidden = self.hidden(view, mode, shown_as);
        if mode == Mode::Landlock {
            can_hide(&hidden, &real)?;
            self.is_directory()?;
        }
        Ok(CallSpec {
            mode,
            argv: self.argv.clone(),
            env: self.environment(view, mode),
            workspace: text(&real)?,
            shown_as: text(shown_as)?,
            workdir: text(workdir.as_ref().unwrap_or(&self.workdir))?,
            network: self.network,
            read: view.read.clone(),
            as_others: view.as_others.clone(),
            links: view.links.clone(),
            hidden,
            scratch: view.scratch.clone(),
            shown: self
                .shown
                .iter()
                .map(|(source, target)| Ok((text(&canonical(source))?, text(target)?)))
                .collect::<Result<_, SandboxError>>()?,
            protected: self.protected.clone(),
            changes: self.changes.as_deref().map(|layer| text(&canonical(layer))).transpose()?,
            caches: self.caches.iter().map(Cache::spec).collect::<Result<_, _>>()?,
            limits,
            record: self.record.as_deref().map(text).transpose()?,
            read_only: self.read_only,
            further: ExtraDescriptors {
                input: self.input.is_some(),
                errors: self.errors.is_some(),
                workspace: self.mount.is_some(),
            },
        })
    }

    /// Nothing can be mounted without namespaces.
    fn is_directory(&self) -> Result<(), SandboxError> {
        if self.mount.is_none() {
            return Ok(());
        }
        Err(SandboxError::Workspace(format!(
            "commands do not run in {}, because its files are an overlay, which needs namespaces",
            self.workspace.display()
        )))
    }

    fn environment(&self, view: &View, mode: Mode) -> Vec<(String, String)> {
        let mut environment = view.environment.clone();
        if mode == Mode::Landlock {
            let objects = self.shown.iter().filter(|(_, target)| target == Path::new(OBJECTS_SHOWN_AT));
            environment.extend(
                objects.filter_map(|(source, _)| {
                    Some((OBJECTS_VARIABLE.to_owned(), source.to_str()?.to_owned()))
                }),
            );
        }
        environment
    }

    /// The hidden paths, under every name that they would have in the sandbox.
    fn hidden(&self, view: &View, mode: Mode, shown_as: &Path) -> Vec<String> {
        let mut shown = vec![(canonical(&self.workspace), shown_as.to_owned())];
        shown.push((self.workspace.clone(), shown_as.to_owned()));
        for cache in &self.caches {
            let at = shown_as.join(&cache.at);
            shown.extend([(canonical(&cache.lower), at.clone()), (cache.lower.clone(), at)]);
        }
        for (source, target) in &self.shown {
            shown.extend([(canonical(source), target.clone()), (source.clone(), target.clone())]);
        }
        let mut all = Vec::new();
        for hidden in &view.hidden {
            let hidden = Path::new(hidden);
            let beneath = |(source, target): &(PathBuf, PathBuf)| {
                hidden.strip_prefix(source).ok().map(|rest| target.join(rest))
            };
            all.extend(shown.iter().filter_map(beneath));
            // A new root does not have the machine's files at the workspace's path or above it.
            let is_covered = hidden.starts_with(shown_as) || shown_as.starts_with(hidden);
            if mode == Mode::Landlock || !is_covered {
                all.push(hidden.to_owned());
            }
        }
        all.sort();
        all.dedup();
        all.into_iter().filter_map(|path| path.into_os_string().into_string().ok()).collect()
    }
}

impl Cache {
    fn spec(&self) -> Result<CacheSpec, SandboxError> {
        // No link below the cache's parent is followed: programs may have created it.
        let parts = if self.lower.ends_with(&self.at) { self.at.iter().count() } else { 1 };
        let lower = match self.lower.ancestors().nth(parts) {
            Some(top) => {
                let beneath = self.lower.strip_prefix(top).unwrap_or(Path::new(""));
                canonical(top).join(beneath)
            }
            None => self.lower.clone(),
        };
        Ok(CacheSpec {
            lower: text(&lower)?,
            at: text(&self.at)?,
            below: self.below.as_deref().map(|layer| text(&canonical(layer))).transpose()?,
            layer: self.layer.as_deref().map(|layer| text(&canonical(layer))).transpose()?,
        })
    }
}

/// Landlock allows changes to all of a workspace or to none, so a hidden path must not be inside it.
fn can_hide(hidden: &[String], workspace: &Path) -> Result<(), SandboxError> {
    let inside = hidden.iter().find(|hidden| Path::new(hidden).starts_with(workspace));
    inside.map_or(Ok(()), |hidden| {
        Err(SandboxError::Workspace(format!(
            "commands do not run in {}, because {hidden} in it is hidden from them, which needs namespaces",
            workspace.display()
        )))
    })
}

/// An init follows no link, so the caller resolves the user's links.
pub(super) fn canonical(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_owned())
}

fn text(path: &Path) -> Result<String, SandboxError> {
    path.to_str().map(str::to_owned).ok_or_else(|| {
        let problem = format!("the path {} is not UTF-8 text", path.display());
        SandboxError::Call(io::Error::new(io::ErrorKind::InvalidInput, problem))
    })
}
