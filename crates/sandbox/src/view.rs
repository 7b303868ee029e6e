//! Computes what programs in a sandbox see of the machine.
//!
//! Why it is like this: `docs/decisions/sandbox-visible-files.md`.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Component, Path, PathBuf};

use super::command::canonical;
use super::{BoxedCommand, SandboxError, SandboxOptions};

/// Directories of the machine's root with programs and their dependencies. Everything else is absent.
const ROOT: [&str; 12] = [
    "usr",
    "bin",
    "sbin",
    "lib",
    "lib32",
    "lib64",
    "libx32",
    "opt",
    "nix",
    "gnu",
    "etc",
    "run/current-system",
];

/// Directories of the root that contain no projects.
const SYSTEM: [&str; 10] = ["proc", "sys", "dev", "etc", "usr", "bin", "sbin", "lib", "lib64", "boot"];

/// Directories that programs expect to be writable.
const SCRATCH: [&str; 4] = ["/tmp", "/var/tmp", "/run", SHARED_MEMORY];
const SHARED_MEMORY: &str = "/dev/shm";

/// Toolchains beneath a home directory. None of these contains secrets: credentials are beside them, not in them.
const TOOLCHAINS: [&str; 37] = [
    ".cargo/bin",
    ".cargo/env",
    ".cargo/git",
    ".cargo/registry",
    ".rustup",
    ".pyenv",
    ".nvm",
    ".volta",
    ".fnm",
    ".asdf",
    ".rbenv",
    ".jenv",
    ".goenv",
    ".bun/bin",
    ".deno/bin",
    ".ghcup",
    ".cabal/bin",
    ".stack/programs",
    ".elan",
    ".opam",
    ".juliaup",
    ".julia/packages",
    ".sdkman/candidates",
    ".m2/repository",
    ".gradle/wrapper",
    ".local/bin",
    ".local/lib",
    ".local/pipx",
    ".local/share/uv/python",
    ".local/share/uv/tools",
    ".local/share/pipx",
    ".local/share/mise",
    ".local/share/pnpm",
    ".local/share/fnm",
    "go/bin",
    "go/pkg/mod",
    "miniconda3",
];

/// The environment variables that programs get. Everything else stays outside, above all keys.
pub const PASSED_VARIABLES: [&str; 22] = [
    "PATH",
    "LANG",
    "LANGUAGE",
    "TZ",
    "USER",
    "LOGNAME",
    "CARGO_HOME",
    "RUSTUP_HOME",
    "RUSTUP_TOOLCHAIN",
    "GOPATH",
    "GOROOT",
    "GOTOOLCHAIN",
    "JAVA_HOME",
    "PYENV_ROOT",
    "PYENV_VERSION",
    "NVM_DIR",
    "VOLTA_HOME",
    "FNM_DIR",
    "ASDF_DIR",
    "RBENV_ROOT",
    "SDKMAN_DIR",
    "GHCUP_INSTALL_BASE_PREFIX",
];

/// Settings that keep programs from prompting a user.
const NO_PROMPTS: [(&str, &str); 17] = [
    ("TERM", "dumb"),
    ("NO_COLOR", "1"),
    ("PAGER", "cat"),
    ("GIT_PAGER", "cat"),
    ("MANPAGER", "cat"),
    ("SYSTEMD_PAGER", "cat"),
    ("EDITOR", "false"),
    ("VISUAL", "false"),
    ("GIT_EDITOR", "false"),
    ("GIT_SEQUENCE_EDITOR", "false"),
    ("GIT_TERMINAL_PROMPT", "0"),
    ("GIT_ASKPASS", "false"),
    ("SSH_ASKPASS", "false"),
    ("SUDO_ASKPASS", "/bin/false"),
    ("DEBIAN_FRONTEND", "noninteractive"),
    ("PIP_NO_INPUT", "1"),
    ("npm_config_yes", "true"),
];

/// The default search path for programs.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
/// The home directory of a user who has none.
const NO_HOME: &str = "/home/posse";
/// Limit of inspected entries of a system directory.
const LOOKED_AT_MAX: usize = 50_000;
/// Limit of files in one directory that are hidden one by one.
const HIDDEN_MAX: usize = 100;

/// The part of a user's environment that programs get.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Environment(Vec<(String, String)>);

impl Environment {
    /// Selects the listed variables, those of the locale, and those that a user named.
    pub fn from_variables(variables: impl IntoIterator<Item = (String, String)>, named: &[String]) -> Self {
        let passes = |name: &str| {
            PASSED_VARIABLES.contains(&name) || name.starts_with("LC_") || named.iter().any(|n| n == name)
        };
        Self(variables.into_iter().filter(|(name, _)| passes(name)).collect())
    }

    /// The names and values of the variables.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }
}

/// What all calls of a sandbox share.
#[derive(Debug)]
pub(super) struct View {
    /// The home directory, by each of its names.
    homes: Vec<PathBuf>,
    pub(super) environment: Vec<(String, String)>,
    /// The readable paths, with their mount points.
    pub(super) read: Vec<(String, String)>,
    /// The system's paths: a tool sees no more of them than any user would, also when Posse runs as root.
    pub(super) as_others: Vec<String>,
    pub(super) links: Vec<(String, String)>,
    pub(super) hidden: Vec<String>,
    pub(super) scratch: Vec<String>,
}

impl View {
    pub(super) fn of(options: &SandboxOptions) -> Self {
        let registered = registered_home();
        let home = options.home.clone().filter(|home| home.is_absolute() && home.parent().is_some());
        let home = home.or_else(|| registered.clone()).unwrap_or_else(|| PathBuf::from(NO_HOME));
        // Under each of its names: from a variable, from the system, and with links resolved.
        let mut homes = vec![home.clone()];
        homes.extend(registered);
        homes.extend(homes.clone().iter().filter_map(|home| home.canonicalize().ok()));
        let (mut read, mut links) = (Vec::new(), Vec::new());
        for name in ROOT {
            let path = Path::new("/").join(name);
            match (fs::symlink_metadata(&path), fs::read_link(&path)) {
                (Ok(_), Ok(target)) => links.push((path, target)),
                (Ok(_), Err(_)) => read.push(path),
                (Err(_), _) => {}
            }
        }
        let as_others = texts(read.clone());
        // The resolver configuration is often behind a link.
        read.extend(fs::canonicalize("/etc/resolv.conf").ok().filter(|path| path.starts_with("/run")));
        read.extend(TOOLCHAINS.iter().map(|name| home.join(name)).filter(|path| path.exists()));
        read.extend(options.read.iter().cloned());
        let mut hidden = options.hidden.clone();
        hidden.extend(options.hidden.iter().filter_map(|path| path.canonicalize().ok()));
        hidden.dedup();
        if rustix::process::geteuid().is_root() {
            hidden.extend(not_for_everybody(Path::new("/etc")));
            for dir in ["/opt", "/usr/local", "/srv"] {
                hidden.extend(gathered(Path::new(dir), not_for_everybody(Path::new(dir))));
            }
        }
        let mut scratch: Vec<PathBuf> = SCRATCH.iter().map(PathBuf::from).collect();
        scratch.push(home.clone());
        Self {
            environment: environment(&options.environment, &home),
            read: read_as(read, &links, &homes),
            as_others,
            links: links.into_iter().filter_map(|(link, to)| Some((text(link)?, text(to)?))).collect(),
            hidden: texts(hidden),
            scratch: texts(scratch),
            homes,
        }
    }

    /// Refuses a call that would make hidden files visible again. `real` is the workspace without links.
    pub(super) fn admits(&self, command: &BoxedCommand, real: &Path) -> Result<(), SandboxError> {
        let workspace = command.workspace.as_path();
        let refused = |why: &str| {
            let text = format!(
                "commands do not run in {}, because it {why}: work in a directory of its own",
                workspace.display()
            );
            Err(SandboxError::Workspace(text))
        };
        if [workspace, real].iter().any(|path| path.parent().is_none()) {
            return refused("is the root of the machine");
        }
        if self.holds_home(workspace, real) {
            return refused("holds the home directory, with its keys and passwords");
        }
        let shown_as = command.shown_as.as_path();
        // Shared memory is a directory for anyone's files, but a project there would be hidden behind an empty one.
        let is_elsewhere = |path: &Path| shown_as != workspace && path.starts_with(SHARED_MEMORY);
        if [workspace, real].into_iter().any(|path| is_of_the_system(path) && !is_elsewhere(path)) {
            return refused("is part of the system");
        }
        if shown_as == workspace {
            let lies_in = |hidden: &String| [workspace, real].iter().any(|path| path.starts_with(hidden));
            if self.hidden.iter().any(lies_in) {
                return refused("lies in what is hidden from them, and is not shown elsewhere");
            }
        } else if !is_plain(shown_as) || is_of_the_system(shown_as) {
            return refused("cannot be shown where it is to be");
        }
        if command.caches.iter().any(|cache| self.holds_home(&cache.lower, &canonical(&cache.lower))) {
            return refused("would have a directory in it that holds the home directory");
        }
        Ok(())
    }

    fn holds_home(&self, dir: &Path, real: &Path) -> bool {
        holds(&self.homes, dir) || holds(&self.homes, real)
    }
}

fn holds(homes: &[PathBuf], dir: &Path) -> bool {
    homes.iter().any(|home| home.starts_with(dir))
}

/// The readable paths without links, with their mount points. A link target that contains the home directory is not
/// shown.
fn read_as(read: Vec<PathBuf>, links: &[(PathBuf, PathBuf)], homes: &[PathBuf]) -> Vec<(String, String)> {
    let shown = read.into_iter().filter_map(|path| {
        let source = canonical(&path);
        let is_astray = source != path && holds(homes, &source);
        // A path behind a link of the root is mounted at the link's target.
        let behind = links.iter().any(|(link, _)| path.starts_with(link));
        let target = if behind { source.clone() } else { path };
        Some((text(source)?, text(target)?)).filter(|_| !is_astray)
    });
    shown.collect()
}

fn is_of_the_system(path: &Path) -> bool {
    SYSTEM.iter().any(|root| path.starts_with(Path::new("/").join(root)))
}

/// Whether it is an absolute path of plain names, and not the root.
fn is_plain(path: &Path) -> bool {
    let mut parts = path.components();
    parts.next() == Some(Component::RootDir)
        && path.parent().is_some()
        && parts.all(|part| matches!(part, Component::Normal(_)))
}

fn environment(given: &Environment, home: &Path) -> Vec<(String, String)> {
    let mut all: Vec<(String, String)> =
        NO_PROMPTS.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    all.push(("HOME".to_owned(), home.display().to_string()));
    all.push(("TMPDIR".to_owned(), "/tmp".to_owned()));
    all.push(("SHELL".to_owned(), "/bin/bash".to_owned()));
    let given = given.0.iter().filter(|(name, _)| !all.iter().any(|(own, _)| own == name)).cloned();
    let given: Vec<_> = given.collect();
    all.extend(given);
    match all.iter_mut().find(|(name, _)| name == "PATH") {
        // A relative entry would depend on the working directory.
        Some((_, path)) => {
            let absolute: Vec<&str> = path.split(':').filter(|entry| entry.starts_with('/')).collect();
            *path = if absolute.is_empty() { PATH.to_owned() } else { absolute.join(":") };
        }
        None => all.push(("PATH".to_owned(), PATH.to_owned())),
    }
    all
}

/// Files that only their owner may read. A tool sees no more of the system than any user would, also when Posse runs as
/// root.
fn not_for_everybody(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut left = vec![dir.to_owned()];
    let mut looked_at = 0;
    while let Some(dir) = left.pop() {
        for entry in fs::read_dir(&dir).into_iter().flatten().flatten() {
            looked_at += 1;
            let Ok(metadata) = entry.metadata() else { continue };
            let mode = metadata.permissions().mode();
            if metadata.is_dir() {
                if mode & 0o005 == 0o005 { left.push(entry.path()) } else { found.push(entry.path()) }
            } else if metadata.is_file() && mode & 0o004 == 0 {
                found.push(entry.path());
            }
            if looked_at > LOOKED_AT_MAX {
                // Too many entries to inspect, so the whole directory is hidden.
                found.push(dir.clone());
                return found;
            }
        }
    }
    found
}

/// Many hidden files need many mounts. Then their parent directories are hidden instead, up to those directly below
/// `dir`.
pub(super) fn gathered(dir: &Path, hidden: Vec<PathBuf>) -> Vec<PathBuf> {
    if hidden.len() <= HIDDEN_MAX {
        return hidden;
    }
    let below = |path: &PathBuf| path.strip_prefix(dir).ok()?.iter().next().map(|name| dir.join(name));
    let mut tops: Vec<PathBuf> = hidden.iter().filter_map(below).collect();
    tops.sort();
    tops.dedup();
    tops
}

/// The user's home directory according to the system.
fn registered_home() -> Option<PathBuf> {
    let own = rustix::process::geteuid().as_raw().to_string();
    let users = fs::read_to_string("/etc/passwd").ok()?;
    let line = users.lines().find(|line| line.split(':').nth(2) == Some(own.as_str()))?;
    let home = PathBuf::from(line.split(':').nth(5)?);
    // Users without a home have the root directory, or one that does not exist.
    (home.parent().is_some() && home.is_dir()).then_some(home)
}

fn text(path: PathBuf) -> Option<String> {
    path.into_os_string().into_string().ok()
}

/// Paths that are not UTF-8 are dropped: they are not shown, and hidden ones are system files.
fn texts(paths: Vec<PathBuf>) -> Vec<String> {
    paths.into_iter().filter_map(text).collect()
}

#[cfg(test)]
mod tests {
    use super::super::Cache;
    use super::*;

    fn pairs(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn only_listed_variables_pass() {
        let given = pairs(&[
            ("PATH", "/bin:.:rel:/usr/bin"),
            ("LC_ALL", "C"),
            ("ANTHROPIC_API_KEY", "sk"),
            ("AWS_SECRET_ACCESS_KEY", "x"),
            ("LD_PRELOAD", "/evil.so"),
            ("BASH_ENV", "/evil"),
            ("GIT_DIR", "/x"),
            ("PAGER", "less"),
            ("MINE", "yes"),
        ]);
        let environment =
            environment(&Environment::from_variables(given, &["MINE".to_owned()]), Path::new("/h"));
        let get =
            |name: &str| environment.iter().find(|(own, _)| own == name).map(|(_, value)| value.as_str());
        assert_eq!(get("PATH"), Some("/bin:/usr/bin"));
        assert_eq!((get("LC_ALL"), get("MINE"), get("HOME")), (Some("C"), Some("yes"), Some("/h")));
        assert_eq!(get("PAGER"), Some("cat"), "a person's pager would wait for somebody");
        for hidden in ["ANTHROPIC_API_KEY", "AWS_SECRET_ACCESS_KEY", "LD_PRELOAD", "BASH_ENV", "GIT_DIR"] {
            assert_eq!(get(hidden), None, "{hidden}");
        }
    }

    fn view(hidden: &str) -> View {
        let hidden = vec![PathBuf::from(hidden)];
        View::of(&SandboxOptions {
            home: Some(PathBuf::from("/home/me")),
            hidden,
            ..SandboxOptions::default()
        })
    }

    #[test]
    fn a_workspace_that_holds_secrets_is_refused() {
        let view = view("/var/state");
        let admits =
            |path: &str| view.admits(&BoxedCommand::in_folder(Vec::new(), path), Path::new(path)).is_ok();
        for refused in
            ["/", "/home", "/home/me", "/etc/x", "/proc/1", "/dev/shm/x", "/var/state", "/var/state/runs/r"]
        {
            assert!(!admits(refused), "{refused}");
        }
        for fine in ["/home/me/project", "/home/meyer", "/srv/project", "/tmp/x", "/var", "/var/states"] {
            assert!(admits(fine), "{fine}");
        }
    }

    #[test]
    fn a_workspace_beneath_what_is_hidden_can_be_shown_elsewhere_but_not_anywhere() {
        let view = view("/home/me/state");
        let own = BoxedCommand::isolated(Vec::new(), "/home/me/state/runs/r/files");
        assert!(view.admits(&own, &own.workspace).is_ok());
        let in_memory =
            BoxedCommand { workspace: PathBuf::from("/dev/shm/state/runs/r/files"), ..own.clone() };
        assert!(view.admits(&in_memory, &in_memory.workspace).is_ok());
        for place in ["/", "relative", "/etc/x", "/proc", "/usr/bin", "/a/../etc", "/dev/shm/x"] {
            let elsewhere = BoxedCommand { shown_as: PathBuf::from(place), ..own.clone() };
            assert!(view.admits(&elsewhere, &elsewhere.workspace).is_err(), "{place}");
        }
        let cache =
            Cache { lower: PathBuf::from("/home"), at: PathBuf::from("target"), below: None, layer: None };
        let holding = BoxedCommand { caches: vec![cache], ..own };
        assert!(view.admits(&holding, &holding.workspace).is_err());
    }

    #[test]
    fn what_is_not_for_everybody_is_found() {
        let top = tempfile::tempdir().expect("a directory");
        let put = |name: &str, mode: u32| {
            let path = top.path().join(name);
            fs::create_dir_all(path.parent().expect("a parent")).expect("made");
            fs::write(&path, "x").expect("written");
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("set");
            path
        };
        put("passwd", 0o644);
        put("deep/open", 0o444);
        let mut secret = vec![put("shadow", 0o640), put("deep/key", 0o600), top.path().join("private")];
        put("private/anything", 0o644);
        fs::set_permissions(top.path().join("private"), fs::Permissions::from_mode(0o700)).expect("set");
        let mut found = not_for_everybody(top.path());
        found.sort();
        secret.sort();
        assert_eq!(found, secret);
    }
}
