//! `posse doctor`.

mod hooks;
mod models;

use std::ffi::OsStr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use posse::GIT_PATH;
use posse::sandbox::{CacheShown, Level, Machine, Offer, Sandbox, Unavailable};
use serde::Serialize;

use crate::context::Context;
use crate::error::CliError;
use crate::exit::Exit;
use crate::output::Output;
use crate::runtime;
use crate::settings::Settings;
use crate::settings::project::ProjectFile;
use posse_setup::Environment;

/// The oldest git that merges in the way workspaces need.
const GIT_NEEDED: (u32, u32) = (2, 45);

/// Variables that hold the keys of search providers. Only whether they are set is looked at.
const SEARCH_KEYS: [&str; 2] = ["BRAVE_API_KEY", "TAVILY_API_KEY"];

/// Say what this machine offers, what the sandbox is made of here, and what to do about what is missing
///
/// Exits with 1 if something is missing that commands of agents need.
#[derive(Debug, clap::Args)]
pub(crate) struct DoctorArgs {
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// How a thing stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Status {
    /// It is as it should be.
    Ok,
    /// Posse works without it, with less.
    Note,
    /// Something will be refused.
    Missing,
}

/// One thing that was looked at.
#[derive(Debug, Serialize)]
struct Row {
    name: &'static str,
    status: Status,
    value: String,
    /// What a person can do about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    remedy: Option<String>,
}

impl Row {
    fn ok(name: &'static str, value: impl Into<String>) -> Self {
        Self { name, status: Status::Ok, value: value.into(), remedy: None }
    }

    fn short(
        name: &'static str,
        status: Status,
        value: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        Self { name, status, value: value.into(), remedy: Some(remedy.into()) }
    }
}

/// Everything, as `--json` gives it.
#[derive(Debug, Serialize)]
struct Report {
    /// Whether nothing is missing that is needed.
    ok: bool,
    posse: &'static str,
    kernel: String,
    root: bool,
    /// What the sandbox is made of; none if there is no sandbox.
    sandbox: Option<String>,
    checks: Vec<Row>,
}

/// Looks at the machine.
pub(crate) fn doctor(args: &DoctorArgs, context: &Context) -> Result<Exit, CliError> {
    let report = runtime::looking(async { Ok(Report::of(context).await) })?;
    let mut output = Output::new();
    if args.json {
        output.json(&report)?;
    } else {
        output.paragraph(&report.text())?;
    }
    output.flush()?;
    Ok(if report.ok { Exit::DONE } else { Exit::FAILED })
}

impl Report {
    async fn of(context: &Context) -> Self {
        let machine = Machine::probe();
        // Settings that cannot be read have a line of their own below; the box is looked at without them.
        let resolved = Settings::own(&context.environment).unwrap_or_default();
        let options = context.sandbox(&resolved).unwrap_or_default();
        let sandboxes = Sandbox::new(options);
        let level = sandboxes.level().await;
        let environment = &context.environment;
        let mut checks = vec![sandbox(level.as_ref())];
        checks.extend(layers(&machine));
        checks.extend(caches(context, &sandboxes, level.is_ok()).await);
        checks.push(bash(environment));
        checks.push(git(version_of_git().as_deref()));
        checks.push(Row::ok("sqlite", posse::sqlite_version()));
        checks.push(state(context));
        checks.push(settings(context));
        checks.extend(project_settings(context));
        checks.push(hooks::hooks(context));
        checks.push(models::providers(&resolved, environment));
        checks.push(models::prices(&resolved, environment));
        checks.push(search(environment));
        Self {
            ok: checks.iter().all(|row| row.status != Status::Missing),
            posse: env!("CARGO_PKG_VERSION"),
            kernel: machine.kernel,
            root: machine.root,
            sandbox: level.ok().map(|level| level.to_string()),
            checks,
        }
    }

    fn text(&self) -> String {
        let user = if self.root { "as root" } else { "as an ordinary user" };
        let mut lines = vec![format!("posse {} on Linux {}, {user}", self.posse, self.kernel), String::new()];
        for Row { name, status, value, remedy } in &self.checks {
            let mark = match status {
                Status::Ok => "ok",
                Status::Note => "note",
                Status::Missing => "MISSING",
            };
            lines.push(format!("{mark:<8} {name:<16} {value}"));
            lines.extend(remedy.as_ref().map(|remedy| format!("{:<26}{remedy}", "")));
        }
        lines.push(String::new());
        lines.push(if self.ok {
            "Commands of agents run in the sandbox.".to_owned()
        } else {
            "Something is missing: see above. What needs it is refused, the rest works.".to_owned()
        });
        lines.join("\n")
    }
}

fn sandbox(level: Result<&Level, &Unavailable>) -> Row {
    match level {
        Ok(level) if level.unkept().is_empty() => Row::ok("sandbox", level.to_string()),
        Ok(level) => {
            let remedy = format!("not all promises hold without namespaces:\n{}", listed(level.unkept()));
            Row::short("sandbox", Status::Note, level.to_string(), remedy)
        }
        Err(unavailable) => Row::short(
            "sandbox",
            Status::Missing,
            format!("none, so `bash` is refused: {}", unavailable.missing),
            format!(
                "{}; or `sandbox: {{level: landlock}}` in the settings, with fewer promises",
                unavailable.remedy
            ),
        ),
    }
}

fn listed(promises: &[&str]) -> String {
    let lines: Vec<String> = promises.iter().map(|promise| format!("{:<26}- {promise}", "")).collect();
    lines.join("\n")
}

fn layers(machine: &Machine) -> Vec<Row> {
    let namespaces = match &machine.user_namespaces {
        Offer::Yes => Row::ok("namespaces", "user namespaces are allowed"),
        Offer::No(why) => Row::short(
            "namespaces",
            Status::Note,
            format!("user namespaces are not allowed: {why}"),
            "the line `sandbox` says whether they work all the same",
        ),
    };
    let landlock = match machine.landlock {
        Some(version) => Row::ok("landlock", format!("version {version}")),
        None => Row::short(
            "landlock",
            Status::Note,
            "the kernel has none; the namespaces hold without it",
            "start a kernel with CONFIG_SECURITY_LANDLOCK and `lsm=landlock,...`",
        ),
    };
    let seccomp = if machine.seccomp {
        Row::ok("seccomp", "system calls are filtered")
    } else {
        let remedy = "start a kernel with CONFIG_SECCOMP_FILTER";
        Row::short("seccomp", Status::Missing, "the kernel cannot filter system calls", remedy)
    };
    let absent: Vec<&str> =
        ["pids", "memory"].into_iter().filter(|name| !machine.cgroups.contains(name)).collect();
    let cgroups = if absent.is_empty() {
        Row::ok("cgroups", "processes and memory of a call are limited as a whole")
    } else {
        Row::short(
            "cgroups",
            Status::Note,
            format!(
                "no {}: limits hold for each process, not for a call as a whole, nor for memory that processes share",
                absent.join(" and no ")
            ),
            "start posse in a scope of its own: `systemd-run --user --scope -p Delegate=yes posse ...`",
        )
    };
    vec![namespaces, landlock, seccomp, cgroups]
}

/// Whether commands can change the caches of a project without changing the person's; none if that cannot be tried.
async fn caches(context: &Context, sandboxes: &Sandbox, available: bool) -> Option<Row> {
    let state = context.state_dir().ok().filter(|_| available)?;
    // Where it is not made yet, the directory above it is on the same filesystem.
    let dir = state.ancestors().find(|above| above.exists()).filter(|dir| writable(dir))?;
    Some(cache(&sandboxes.cache_in(dir).await.ok()?))
}

fn cache(shown: &CacheShown) -> Row {
    let name = "caches";
    let remedy = "Linux 5.11 or newer gives overlays in user namespaces; keep the state directory (POSSE_HOME) on a \
                  filesystem that can carry them, such as ext4, xfs or btrfs";
    match shown {
        CacheShown::Overlay => Row::ok(name, "overlays: commands change theirs, and never the project's"),
        CacheShown::ReadOnly(why) => Row::short(
            name,
            Status::Note,
            format!("`node_modules`, `target` and the like are read-only for commands: {why}"),
            remedy,
        ),
        CacheShown::Absent(why) => Row::short(
            name,
            Status::Note,
            format!("`node_modules`, `target` and the like are not there for commands: {why}"),
            remedy,
        ),
    }
}

fn bash(environment: &Environment) -> Row {
    let path = environment.variables.iter().find(|(name, _)| name == "PATH").map(|(_, path)| path.as_str());
    let found = path.unwrap_or("/usr/bin:/bin").split(':').map(|dir| Path::new(dir).join("bash"));
    let runs =
        |path: &PathBuf| path.metadata().is_ok_and(|metadata| metadata.permissions().mode() & 0o111 != 0);
    match found.into_iter().find(runs) {
        Some(path) => Row::ok("bash", path.display().to_string()),
        None => Row::short("bash", Status::Missing, "there is none in PATH", "install bash"),
    }
}

/// The version of the git that workspaces use.
fn version_of_git() -> Option<String> {
    let mut command = Command::new(OsStr::new("git"));
    let output = command.arg("--version").env("PATH", GIT_PATH).stdin(Stdio::null()).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    Some(text.trim().strip_prefix("git version ")?.to_owned())
}

fn git(version: Option<&str>) -> Row {
    let Some(version) = version else {
        let value = format!("there is none in {GIT_PATH}, and isolated workspaces need it");
        return Row::short("git", Status::Missing, value, git_wanted());
    };
    let mut parts = version.split(['.', ' ', '-']).map(|part| part.parse::<u32>().unwrap_or(0));
    let found = (parts.next().unwrap_or(0), parts.next().unwrap_or(0));
    if found >= GIT_NEEDED {
        return Row::ok("git", version);
    }
    let value = format!("{version} is too old for isolated workspaces");
    Row::short("git", Status::Missing, value, git_wanted())
}

fn git_wanted() -> String {
    let (major, minor) = GIT_NEEDED;
    format!("install git {major}.{minor} or newer")
}

fn state(context: &Context) -> Row {
    let name = "state directory";
    match context.state_dir() {
        Err(error) => Row::short(name, Status::Missing, error.message(), "set POSSE_HOME"),
        Ok(dir) if !dir.exists() && can_be_made(dir) => {
            Row::ok(name, format!("{} (made by the first run)", dir.display()))
        }
        Ok(dir) if !dir.exists() => {
            let value = format!("{} cannot be made", dir.display());
            Row::short(name, Status::Missing, value, "set POSSE_HOME to a directory of your own")
        }
        Ok(dir) => match context.open_read_only().map(drop) {
            Ok(()) if writable(dir) => Row::ok(name, dir.display().to_string()),
            Ok(()) => {
                let value = format!("{} cannot be written", dir.display());
                Row::short(name, Status::Missing, value, "give it to yourself, or set POSSE_HOME")
            }
            Err(error) => Row::short(name, Status::Missing, error.to_string(), "fix it, or set POSSE_HOME"),
        },
    }
}

/// Whether the nearest directory above it that exists is one in which something can be made.
fn can_be_made(dir: &Path) -> bool {
    dir.ancestors().find(|above| above.exists()).is_some_and(|above| {
        // The kernel's own directories let root write and make nothing.
        above.is_dir() && writable(above) && !above.starts_with("/proc") && !above.starts_with("/sys")
    })
}

fn writable(dir: &Path) -> bool {
    rustix::fs::access(dir, rustix::fs::Access::WRITE_OK | rustix::fs::Access::EXEC_OK).is_ok()
}

fn settings(context: &Context) -> Row {
    let (name, environment) = ("settings", &context.environment);
    let file = environment.settings_file.as_ref();
    let shown = file.map_or_else(|| "the file".to_owned(), |file| file.display().to_string());
    match Settings::own(environment).and_then(|own| own.check(context)) {
        Err(error) => Row::short(name, Status::Missing, error.message(), "fix or remove the file"),
        Ok(()) if file.is_some_and(|file| file.exists()) => Row::ok(name, shown),
        Ok(()) => Row::ok(name, format!("defaults ({shown} is not there)")),
    }
}

/// What is here of a project's settings, if anything.
fn project_settings(context: &Context) -> Vec<Row> {
    let name = "project";
    let row = |file: &ProjectFile| match file.said.clone().map(|said| said.check(context)) {
        Err(error) | Ok(Err(error)) if file.is_trusted() => {
            Row::short(name, Status::Missing, error.message(), "fix or remove the file")
        }
        Err(error) => Row::short(name, Status::Note, error.message(), "its settings are ignored"),
        Ok(Err(error)) => Row::short(name, Status::Note, error.message(), "that part of it does nothing"),
        Ok(Ok(())) if file.is_trusted() => Row::ok(name, format!("{} (trusted)", file.path.display())),
        Ok(Ok(())) => Row::short(
            name,
            Status::Note,
            format!("{} may only narrow", file.path.display()),
            "`posse trust` shows what else it says, and lets it count",
        ),
    };
    match ProjectFile::find(context, &context.environment.cwd) {
        Err(error) => vec![Row::short(name, Status::Missing, error.message(), "fix or remove the file")],
        Ok(files) => files.iter().map(row).collect(),
    }
}

/// Names only: a value would end up in somebody's bug report.
fn present<'a>(environment: &Environment, names: &[&'a str]) -> (Vec<&'a str>, Vec<&'a str>) {
    let set = |name: &&str| environment.variables.iter().any(|(own, value)| own == name && !value.is_empty());
    names.iter().copied().partition(set)
}

fn search(environment: &Environment) -> Row {
    let (present, _) = present(environment, &SEARCH_KEYS);
    let configured = Settings::own(environment).is_ok_and(|settings| settings.search.is_set());
    match (configured, present.as_slice()) {
        (true, []) => Row::ok("web search", "configured"),
        (true, keys) => Row::ok("web search", format!("configured; set: {}", keys.join(", "))),
        (false, _) => Row::short(
            "web search",
            Status::Note,
            "no provider, so `websearch` says so",
            "settings: `search: {provider: searxng, url: ...}`, or brave or tavily with a key",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_old_git_is_not_enough() {
        for (version, status) in [
            ("2.47.3", Status::Ok),
            ("2.45.0-rc1", Status::Ok),
            ("3.0", Status::Ok),
            ("2.39.5 (Apple Git-154)", Status::Missing),
            ("nonsense", Status::Missing),
        ] {
            assert_eq!(git(Some(version)).status, status, "{version}");
        }
        assert_eq!(git(None).status, Status::Missing);
    }

    #[test]
    fn caches_that_cannot_be_changed_have_a_remedy() {
        assert_eq!(cache(&CacheShown::Overlay).status, Status::Ok);
        for shown in [CacheShown::ReadOnly("why".to_owned()), CacheShown::Absent("why".to_owned())] {
            let row = cache(&shown);
            assert!(row.status == Status::Note && row.value.ends_with(": why") && row.remedy.is_some());
        }
    }

    #[test]
    fn a_state_directory_that_cannot_be_made_is_told_from_one_that_can() {
        let top = tempfile::tempdir().expect("a directory");
        assert!(can_be_made(&top.path().join("a/b")));
        assert!(!can_be_made(Path::new("/dev/null/x")) && !can_be_made(Path::new("/proc/x")));
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
        let rows = layers(&bare);
        assert!(rows.iter().all(|row| row.status != Status::Ok && row.remedy.is_some()), "{rows:?}");
        let half = Machine { cgroups: vec!["pids"], ..bare };
        assert!(layers(&half)[3].value.starts_with("no memory:"));
    }
}
