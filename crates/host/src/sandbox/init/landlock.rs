//! Landlock, a second layer: should a mount be other than it was meant to be, this still holds.

use std::borrow::Cow;

use landlock::{
    ABI, Access, AccessFs, CompatLevel, Compatible, PathBeneath, PathFd, PathFdError, Ruleset, RulesetAttr,
    RulesetCreated, RulesetCreatedAttr, Scope,
};

use super::super::spec::CallSpec;

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

/// What can be read and run, and what can be changed too.
pub(super) struct Reach<'a> {
    pub(super) read: Vec<&'a str>,
    pub(super) write: Vec<Cow<'a, str>>,
}

impl<'a> Reach<'a> {
    /// In a root of our own everything visible can be read.
    pub(super) fn in_namespaces(spec: &'a CallSpec) -> Self {
        let mut write: Vec<Cow<'a, str>> = spec.scratch.iter().map(Into::into).collect();
        if spec.read_only {
            let layered = spec.caches.iter().filter(|cache| cache.layer.is_some());
            write.extend(layered.map(|cache| format!("{}/{}", spec.shown_as, cache.at).into()));
        } else {
            write.push((&spec.shown_as).into());
        }
        Self { read: vec!["/"], write }
    }

    /// In the machine's root only what would be shown in ours.
    pub(super) fn alone(spec: &'a CallSpec, scratch: &'a str) -> Self {
        let shown = spec.shown.iter().map(|(source, _)| source);
        let own = spec.read_only.then_some(&spec.workspace);
        let read = spec.read.iter().chain(shown).chain(own).map(String::as_str).collect();
        let changed = (!spec.read_only).then_some(spec.workspace.as_str());
        Self { read, write: changed.into_iter().chain([scratch]).map(Into::into).collect() }
    }
}

/// Nothing but what the reach names can be read or changed, but for harmless devices; signals and abstract sockets do
/// not leave. A kernel without Landlock is not an error here: the namespaces are the box.
pub(super) fn apply(reach: &Reach<'_>) -> Result<(), String> {
    if abi().is_none() {
        return Ok(());
    }
    let rules = || -> Result<(), Box<dyn std::error::Error>> {
        let mut ruleset = Ruleset::default()
            .set_compatibility(CompatLevel::BestEffort)
            .handle_access(AccessFs::from_all(KNOWN))?
            .scope(Scope::from_all(KNOWN))?
            .create()?;
        for path in &reach.read {
            ruleset = allow(ruleset, path, AccessFs::from_read(KNOWN) | AccessFs::Execute)?;
        }
        for path in &reach.write {
            ruleset = allow(ruleset, path, AccessFs::from_all(KNOWN))?;
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
    match PathFd::new(path) {
        Ok(opened) => Ok(ruleset.add_rule(PathBeneath::new(opened, access))?),
        // A rule for what is not there would allow nothing.
        Err(PathFdError::OpenCall { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => {
            Ok(ruleset)
        }
        Err(error) => Err(error.into()),
    }
}
