//! One call, as a caller asks for it, and how it is told to an init.

use std::io;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::spec::{CacheSpec, CallSpec, ExtraStreams, Limits, Mode};
use super::view::View;
use super::{DiskLimit, SandboxError};
use crate::process::OutputLimits;

/// Where programs see an isolated workspace, wherever it is on the machine: so the same commands print the same.
pub const WORKSPACE_SHOWN_AT: &str = "/workspace";
/// Where they see the objects that the git repository of an isolated workspace borrows.
pub const OBJECTS_SHOWN_AT: &str = "/run/posse/objects";
/// How git is told of objects where nothing can be shown elsewhere than it is.
const OBJECTS_VARIABLE: &str = "GIT_ALTERNATE_OBJECT_DIRECTORIES";
/// Most characters of an output that is kept if nobody says.
const OUTPUT_BYTES: usize = 16 * 1024;

/// Whose the workspace of a call is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Isolation {
    /// A person's: whatever appears in it under a protected name is put aside when the call is over, and `.git` is
    /// protected as well.
    #[default]
    InPlace,
    /// The agent's own. Protected names that are there cannot be changed; what appears is refused when the agent's
    /// work is integrated. Its `.git` is its own.
    Own,
}

/// A directory that is not in the workspace, and that programs find there: a cache, or what was installed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cache {
    /// The directory. No program can change it.
    pub lower: PathBuf,
    /// Where it appears, relative to the workspace.
    pub at: PathBuf,
    /// A layer with earlier changes to it, which appear as well and which no program can change.
    pub below: Option<PathBuf>,
    /// What holds the changes that programs make to it, laid out by `posse_workspace::lay_out`; none
    /// lets them make no changes.
    pub layer: Option<PathBuf>,
}

/// How a [`Cache`] appears.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CacheShown {
    /// Programs can change it; the changes are kept in its layer.
    Overlay,
    /// Programs can read it; this is why they cannot change it.
    ReadOnly(String),
    /// It does not; this is why.
    Absent(String),
}

/// One call.
#[derive(Debug, Clone)]
pub struct BoxedCommand {
    /// The program, and its arguments.
    pub argv: Vec<String>,
    /// The only place on disk that it can change, if it can.
    pub workspace: PathBuf,
    /// Where programs see the workspace. Without namespaces they see it where it is.
    pub shown_as: PathBuf,
    /// Where it starts, beneath the workspace.
    pub workdir: PathBuf,
    /// Whose the workspace is.
    pub isolation: Isolation,
    /// Names in the workspace that it cannot change, relative to it, whether they exist or not.
    pub protected: Vec<String>,
    /// What holds the changes that programs make to the workspace, laid out as that of a [`Cache`]; none lets them
    /// change the workspace itself. There is no box where the kernel gives no overlay.
    pub changes: Option<PathBuf>,
    /// Directories that appear in the workspace. Without namespaces none does.
    pub caches: Vec<Cache>,
    /// What the files of its run may take on disk: a call that writes more is ended.
    pub disk_limit: Option<Arc<DiskLimit>>,
    /// Whether it shares the machine's network.
    pub network: bool,
    /// Further files and directories that it can read, and where it finds them.
    pub shown: Vec<(PathBuf, PathBuf)>,
    /// Where its init writes down that it is alive, so that [`end_recorded`](super::end_recorded) finds it.
    pub record: Option<PathBuf>,
    /// Whether it can only look at the workspace. A cache with a layer can be changed all the same.
    pub read_only: bool,
    /// What it reads on its standard input; none is nothing.
    pub input: Option<Vec<u8>>,
    /// What is kept of what it prints.
    pub output: OutputLimits,
    /// What is kept of its standard error, if that is kept apart.
    pub errors: Option<OutputLimits>,
}

impl BoxedCommand {
    /// A program that starts in a person's folder and sees it where it is, without network.
    pub fn in_place(argv: Vec<String>, workspace: impl Into<PathBuf>) -> Self {
        let workspace = workspace.into();
        Self {
            argv,
            shown_as: workspace.clone(),
            workdir: workspace.clone(),
            workspace,
            isolation: Isolation::InPlace,
            protected: Vec::new(),
            changes: None,
            caches: Vec::new(),
            disk_limit: None,
            network: false,
            shown: Vec::new(),
            record: None,
            read_only: false,
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

    /// A program that starts in an isolated workspace and sees it at [`WORKSPACE_SHOWN_AT`], without network.
    pub fn isolated(argv: Vec<String>, workspace: impl Into<PathBuf>) -> Self {
        Self {
            isolation: Isolation::Own,
            shown_as: PathBuf::from(WORKSPACE_SHOWN_AT),
            ..Self::in_place(argv, workspace)
        }
    }

    /// What an init is told.
    pub(super) fn spec(&self, view: &View, mode: Mode, limits: Limits) -> Result<CallSpec, SandboxError> {
        // Resolved once: what is looked at here is what the box is made of, or there is no box.
        let real = canonical(&self.workspace);
        view.admits(self, &real)?;
        let shown_as = match mode {
            Mode::Namespaces => &self.shown_as,
            Mode::Landlock => &self.workspace,
        };
        // Mounts are made part by part, and no part leads up.
        let leads_up = shown_as.components().any(|part| part == Component::ParentDir);
        let shown_as = if leads_up { &real } else { shown_as };
        let workdir = [&self.workspace, &real, shown_as]
            .into_iter()
            .find_map(|top| self.workdir.strip_prefix(top).ok())
            .map(|beneath| shown_as.join(beneath));
        let hidden = self.hidden(view, mode, shown_as);
        if mode == Mode::Landlock {
            can_hide(&hidden, &real)?;
        }
        Ok(CallSpec {
            mode,
            argv: self.argv.clone(),
            env: self.environment(view, mode),
            workspace: text(&real)?,
            shown_as: text(shown_as)?,
            workdir: text(workdir.as_ref().unwrap_or(&self.workdir))?,
            isolation: self.isolation,
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
            further: ExtraStreams { input: self.input.is_some(), errors: self.errors.is_some() },
        })
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

    /// What is hidden, by every path that it would have in the box.
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
            // What a root of its own has at the workspace's path, or above it, is not what the machine has there.
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
        // No link is followed from where it is looked for: programs may have made it.
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

/// Landlock lets all of a workspace be changed or none: what is hidden must not lie in it.
fn can_hide(hidden: &[String], workspace: &Path) -> Result<(), SandboxError> {
    let inside = hidden.iter().find(|hidden| Path::new(hidden).starts_with(workspace));
    inside.map_or(Ok(()), |hidden| {
        Err(SandboxError::Workspace(format!(
            "commands do not run in {}, because {hidden} in it is hidden from them, which needs namespaces",
            workspace.display()
        )))
    })
}

/// An init follows no link: whoever asks for a call resolves those that a person made.
pub(super) fn canonical(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_owned())
}

fn text(path: &Path) -> Result<String, SandboxError> {
    path.to_str().map(str::to_owned).ok_or_else(|| {
        let problem = format!("the path {} is not UTF-8 text", path.display());
        SandboxError::Call(io::Error::new(io::ErrorKind::InvalidInput, problem))
    })
}
