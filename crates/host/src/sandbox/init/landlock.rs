//! Landlock, a second layer: should a mount be other than it was meant to be, this still holds.

use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use landlock::{
    ABI, Access, AccessFs, CompatLevel, Compatible, PathBeneath, Ruleset, RulesetAttr, RulesetCreated,
    RulesetCreatedAttr, Scope,
};

use super::super::spec::CallSpec;
use super::mounts::Built;
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

/// What can be read and run, and what can be changed too: each was reached without following a link.
pub(super) struct Reach {
    read: Vec<OwnedFd>,
    write: Vec<OwnedFd>,
}

impl Reach {
    /// In a root of our own everything visible can be read.
    pub(super) fn in_namespaces(spec: &CallSpec, built: &Built) -> io::Result<Self> {
        let own = (!spec.read_only).then_some(&built.workspace);
        let layered = built.caches.overlays.iter().filter(|_| spec.read_only);
        let write = built.scratch.iter().chain(own).chain(layered);
        let write = write.map(OwnedFd::try_clone).collect::<Result<_, _>>()?;
        Ok(Self { read: vec![reached::open_dir("/")?], write })
    }

    /// In the machine's root only what would be shown in ours.
    pub(super) fn alone(spec: &CallSpec, workspace: &OwnedFd, scratch: &Path) -> io::Result<Self> {
        // A rule for what is not there, or what a link has come to be on the way to, would allow nothing that is meant.
        let sources =
            spec.read.iter().chain(&spec.shown).filter_map(|(source, _)| reached::open(source).ok());
        let mut read: Vec<OwnedFd> = sources.collect();
        let mut write = vec![reached::open_dir(scratch)?];
        if spec.read_only { &mut read } else { &mut write }.push(workspace.try_clone()?);
        Ok(Self { read, write })
    }
}

/// Nothing but what the reach names can be read or changed, but for harmless devices; signals and abstract sockets do
/// not leave. A kernel without Landlock is not an error here: the namespaces are the box.
pub(super) fn apply(reach: Reach) -> Result<(), String> {
    if abi().is_none() {
        return Ok(());
    }
    let rules = || -> Result<(), Box<dyn std::error::Error>> {
        let mut ruleset = Ruleset::default()
            .set_compatibility(CompatLevel::BestEffort)
            .handle_access(AccessFs::from_all(KNOWN))?
            .scope(Scope::from_all(KNOWN))?
            .create()?;
        for reached in reach.read {
            let access = AccessFs::from_read(KNOWN) | AccessFs::Execute;
            ruleset = ruleset.add_rule(PathBeneath::new(reached, access))?;
        }
        for reached in reach.write {
            ruleset = ruleset.add_rule(PathBeneath::new(reached, AccessFs::from_all(KNOWN)))?;
        }
        // Nothing there is written: a program that made itself less likely to be ended when memory runs out would have
        // its init ended instead.
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
        // A rule for what is not there would allow nothing.
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(ruleset),
        Err(error) => Err(error.into()),
    }
}
