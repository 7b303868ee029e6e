//! Reports the isolation of the sandbox on this machine.

use posse::WorkspaceKind;
use posse::api::CheckStatus as Status;
use posse::sandbox::{CacheShown, HolderMode, Level, Machine, Offer, Sandbox, Unavailable};
use posse::workspace::try_overlays;

use super::state::writable;
use super::{MachineFinding, MachineRemedy, hint, passed, short};
use crate::Setup;
use crate::environment::Environment;
use crate::settings::Settings;

pub(super) fn sandbox(level: Result<&Level, &Unavailable>) -> MachineFinding {
    match level {
        Ok(level) if level.unkept().is_empty() => passed("sandbox", level.to_string()),
        Ok(level) => {
            let promises = level.unkept().iter().map(ToString::to_string).collect();
            short("sandbox", Status::Note, level.to_string(), MachineRemedy::UnkeptPromises(promises))
        }
        Err(unavailable) => short(
            "sandbox",
            Status::Missing,
            format!("none, so `bash` is refused: {}", unavailable.missing),
            hint(format!(
                "{}; or `sandbox: {{level: landlock}}` in the settings, with fewer promises",
                unavailable.remedy
            )),
        ),
    }
}

pub(super) fn layers(machine: &Machine) -> Vec<MachineFinding> {
    let namespaces = match &machine.user_namespaces {
        Offer::Yes => passed("namespaces", "user namespaces are allowed"),
        Offer::No(why) => short(
            "namespaces",
            Status::Note,
            format!("user namespaces are not allowed: {why}"),
            hint("the line `sandbox` shows whether they work anyway"),
        ),
    };
    let landlock = match machine.landlock {
        Some(version) => passed("landlock", format!("version {version}")),
        None => short(
            "landlock",
            Status::Note,
            "not supported by the kernel; namespaces isolate without it",
            hint("start a kernel with CONFIG_SECURITY_LANDLOCK and `lsm=landlock,...`"),
        ),
    };
    let seccomp = if machine.seccomp {
        passed("seccomp", "system calls are filtered")
    } else {
        let remedy = hint("start a kernel with CONFIG_SECCOMP_FILTER");
        short("seccomp", Status::Missing, "the kernel cannot filter system calls", remedy)
    };
    let absent: Vec<&str> =
        ["pids", "memory"].into_iter().filter(|name| !machine.cgroups.contains(name)).collect();
    let cgroups = if absent.is_empty() {
        passed("cgroups", "limit the processes and the memory of each call")
    } else {
        short(
            "cgroups",
            Status::Note,
            format!(
                "no {}: limits hold for each process, not for a call as a whole, nor for memory that processes share",
                absent.join(" and no ")
            ),
            MachineRemedy::DelegateCgroups,
        )
    };
    vec![namespaces, landlock, seccomp, cgroups]
}

/// The paths of `sandbox.read` that do not exist; `None` if all exist.
pub(super) fn reads(settings: &Settings, environment: &Environment) -> Option<MachineFinding> {
    let missing = settings.sandbox.missing_reads(environment.home.as_deref());
    (!missing.is_empty()).then(|| {
        let value = format!("these paths do not exist: {}", missing.join(", "));
        short("sandbox.read", Status::Note, value, hint("correct them in the settings, or remove them"))
    })
}

/// Whether commands can change a project's caches without changing the user's; `None` if that cannot be tried.
pub(super) async fn caches(setup: &Setup, sandboxes: &Sandbox, available: bool) -> Option<MachineFinding> {
    let state = setup.state_dir().ok().filter(|_| available)?;
    // If the directory does not exist yet, its parent is on the same filesystem.
    let dir = state.ancestors().find(|above| above.exists()).filter(|dir| writable(dir))?;
    Some(cache(&sandboxes.cache_in(dir).await.ok()?))
}

/// What workspaces consist of on this machine; `None` if that cannot be tried.
pub(super) fn workspaces(
    setup: &Setup,
    sandboxes: &Sandbox,
    available: bool,
    kind: WorkspaceKind,
) -> Option<MachineFinding> {
    let name = "workspaces";
    if kind == WorkspaceKind::Copies {
        return Some(passed(name, "copies of all files, as workspace.kind says"));
    }
    if !available {
        let value = "copies of all files, because overlays need the sandbox, which is missing";
        return Some(short(name, Status::Note, value, hint("the line `sandbox` says what to do")));
    }
    let state = setup.state_dir().ok()?;
    let dir = state.ancestors().find(|above| above.exists()).filter(|dir| writable(dir))?;
    Some(match try_overlays(sandboxes, dir) {
        Ok(HolderMode::Root) => passed(name, "overlays: a workspace takes as much as its agent changes"),
        Ok(HolderMode::UserNamespace) => passed(
            name,
            "overlays: a workspace takes as much as its agent changes; `git mv` of a directory fails in it, `mv` works",
        ),
        Err(why) => short(
            name,
            Status::Note,
            format!("copies of all files, because no overlay can be mounted: {why}"),
            MachineRemedy::MoveStateDirForOverlays,
        ),
    })
}

fn cache(shown: &CacheShown) -> MachineFinding {
    let name = "caches";
    match shown {
        CacheShown::Overlay => {
            passed(name, "overlays: commands change copies of their own, never the project's")
        }
        CacheShown::ReadOnly(why) => short(
            name,
            Status::Note,
            format!("commands can read but not change `node_modules`, `target` and the like: {why}"),
            MachineRemedy::MoveStateDirForOverlays,
        ),
        CacheShown::Absent(why) => short(
            name,
            Status::Note,
            format!("commands do not see `node_modules`, `target` and the like: {why}"),
            MachineRemedy::MoveStateDirForOverlays,
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn caches_that_cannot_be_changed_have_a_remedy() {
        assert_eq!(cache(&CacheShown::Overlay).status, Status::Ok);
        for shown in [CacheShown::ReadOnly("why".to_owned()), CacheShown::Absent("why".to_owned())] {
            let finding = cache(&shown);
            assert!(finding.status == Status::Note && finding.value.ends_with(": why"));
            assert!(finding.remedy.is_some());
        }
    }

    #[test]
    fn what_is_missing_has_a_remedy() {
        let bare = Machine {
            user_namespaces: Offer::No("user.max_user_namespaces is 0".to_owned()),
            landlock: None,
            seccomp: false,
            cgroups: Vec::new(),
            kernel: "6.1".to_owned(),
            root: false,
        };
        let findings = layers(&bare);
        let has_remedy = |finding: &MachineFinding| finding.status != Status::Ok && finding.remedy.is_some();
        assert!(findings.iter().all(has_remedy), "{findings:?}");
        let half = Machine { cgroups: vec!["pids"], ..bare };
        assert!(layers(&half)[3].value.starts_with("no memory:"));
    }
}
