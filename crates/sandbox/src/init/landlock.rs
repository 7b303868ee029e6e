//! Applies Landlock as a second layer, in case a mount is not as intended.

use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use landlock::{
    ABI, Access, AccessFs, CompatLevel, Compatible, PathBeneath, Ruleset, RulesetAttr, RulesetCreated,
    RulesetCreatedAttr, Scope,
};

use super::super::spec::CallSpec;
use super::mounts::SandboxRoot;
use super::reached;

/// The newest version that the rules below were written for.
const KNOWN: ABI = ABI::V7;

/// The version of Landlock that this kernel has.
#[expect(unsafe_code, reason = "asking for the version has no safe form")]
pub(in super::super) fn abi() -> Option<u8> {
    const VERSION: libc::c_long = 1;
    // SAFETY: with this flag the kernel reads no memory and answers with a number.
    let version = unsafe {
        libc::syscall(libc::SYS_landlock_create_ruleset, std::ptr::null::<libc::c_void>(), 0_usize, VERSION)
    };
    u8::try_from(version).ok().filter(|version| *version > 0)
}

/// The paths that can be read and executed, and those that can be changed too. Each was opened without following a
/// link.
pub(super) struct ReachablePaths {
    /// Directories that can only be listed.
    list: Vec<OwnedFd>,
    read: Vec<OwnedFd>,
    write: Vec<OwnedFd>,
}

impl ReachablePaths {
    /// In a new root, everything visible can be read.
    pub(super) fn in_namespaces(spec: &CallSpec, built: &SandboxRoot) -> io::Result<Self> {
        let own = (!spec.read_only).then_some(&built.workspace);
        let layered = built.caches.overlays.iter().filter(|_| spec.read_only);
        let write = built.scratch.iter().chain(own).chain(layered);
        let write = write.map(OwnedFd::try_clone).collect::<Result<_, _>>()?;
        Ok(Self { list: Vec::new(), read: vec![reached::open_dir("/")?], write })
    }

    /// In the machine's root, only what a new root would show.
    pub(super) fn alone(spec: &CallSpec, workspace: &OwnedFd, scratch: &Path) -> io::Result<Self> {
        let mut reach = Self { list: Vec::new(), read: Vec::new(), write: vec![reached::open_dir(scratch)?] };
        for (source, _) in &spec.read {
            reach.read_but(source, &spec.hidden);
        }
        // These may be inside hidden paths: the caller shows them all the same.
        reach.read.extend(spec.shown.iter().filter_map(|(source, _)| reached::open(source).ok()));
        if spec.read_only { &mut reach.read } else { &mut reach.write }.push(workspace.try_clone()?);
        Ok(reach)
    }

    /// Allows reading everything of a source that is not hidden. A rule covers everything beneath a directory, so a
    /// directory with a hidden entry gets one rule per entry: new entries in it cannot be read.
    fn read_but(&mut self, source: &str, hidden: &[String]) {
        let mut left = vec![PathBuf::from(source)];
        while let Some(path) = left.pop() {
            if hidden.iter().any(|hidden| path.starts_with(hidden)) {
                continue;
            }
            // A rule for a missing path, or for one behind a new link, would allow nothing useful.
            let Ok(opened) = reached::open(&path) else { continue };
            if hidden.iter().any(|hidden| Path::new(hidden).starts_with(&path)) {
                self.list.push(opened);
                left.extend(fs::read_dir(&path).into_iter().flatten().flatten().map(|entry| entry.path()));
            } else {
                self.read.push(opened);
            }
        }
    }
}

/// Restricts reads and changes to `reach` and harmless devices, and keeps signals and abstract sockets inside. A kernel
/// without Landlock is not an error here: the namespaces are the sandbox.
pub(super) fn apply(reach: ReachablePaths) -> Result<(), String> {
    if abi().is_none() {
        return Ok(());
    }
    let rules = || -> Result<(), Box<dyn std::error::Error>> {
        let mut ruleset = Ruleset::default()
            .set_compatibility(CompatLevel::BestEffort)
            .handle_access(AccessFs::from_all(KNOWN))?
            .scope(Scope::from_all(KNOWN))?
            .create()?;
        for reached in reach.list {
            ruleset = ruleset.add_rule(PathBeneath::new(reached, AccessFs::ReadDir))?;
        }
        for reached in reach.read {
            let access = AccessFs::from_read(KNOWN) | AccessFs::Execute;
            ruleset = ruleset.add_rule(PathBeneath::new(reached, access))?;
        }
        for reached in reach.write {
            ruleset = ruleset.add_rule(PathBeneath::new(reached, AccessFs::from_all(KNOWN)))?;
        }
        // Read-only: a program that lowered its own OOM score would get its init killed instead.
        ruleset = allow(ruleset, "/proc", AccessFs::from_read(KNOWN))?;
        for device in ["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"] {
            let device_access = AccessFs::ReadFile | AccessFs::WriteFile | AccessFs::IoctlDev;
            ruleset = allow(ruleset, device, device_access)?;
        }
        ruleset.restrict_self()?;
        Ok(())
    };
    rules().map_err(|error| error.to_string())
}

fn allow(
    ruleset: RulesetCreated,
    path: &str,
    access: landlock::BitFlags<AccessFs>,
) -> Result<RulesetCreated, Box<dyn std::error::Error>> {
    match reached::open(path) {
        Ok(opened) => Ok(ruleset.add_rule(PathBeneath::new(opened, access))?),
        // A rule for a missing path would allow nothing.
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(ruleset),
        Err(error) => Err(error.into()),
    }
}
