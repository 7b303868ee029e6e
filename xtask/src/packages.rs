//! Installs programs that the tests need beyond Rust and git.

use std::env;
use std::ffi::{OsStr, OsString};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use crate::command::run as run_command;
use crate::{Failure, Outcome};

/// A program, and its package.
struct Program {
    name: &'static str,
    package: &'static str,
}

/// `strace` shows which programs a hostile project fails to run, `tmux` what the live view leaves on a screen.
const NEEDED: &[Program] =
    &[Program { name: "strace", package: "strace" }, Program { name: "tmux", package: "tmux" }];
/// `npm` installs what builds the page, and `node` runs it.
const NEEDED_FOR_THE_PAGE: &[Program] =
    &[Program { name: "node", package: "nodejs" }, Program { name: "npm", package: "npm" }];
/// `chromium` shows the page to the stories, and `script` gives a command a terminal.
const NEEDED_FOR_THE_BROWSER: &[Program] =
    &[Program { name: "chromium", package: "chromium" }, Program { name: "script", package: "bsdutils" }];
/// `-n`: no user is present to type a password.
const SUDO: [&str; 2] = ["sudo", "-n"];

pub(crate) fn ready() -> Outcome {
    ready_with(NEEDED, "the tests need")
}

pub(crate) fn ready_for_the_page() -> Outcome {
    ready_with(NEEDED_FOR_THE_PAGE, "building the page needs")
}

/// Makes the browser of the system ready, and returns where it is.
pub(crate) fn ready_for_the_browser() -> Result<PathBuf, Failure> {
    ready_with(NEEDED_FOR_THE_BROWSER, "the stories of the page need")?;
    find(&own_path(), "chromium")
        .ok_or_else(|| Failure::new("chromium was installed, and is not on the path"))
}

fn own_path() -> OsString {
    #[expect(clippy::disallowed_methods, reason = "PATH is where programs are looked for")]
    env::var_os("PATH").unwrap_or_default()
}

fn ready_with(needed: &[Program], purpose: &str) -> Outcome {
    let path = own_path();
    // The owner of `/proc/self` is the current user.
    let is_root = std::fs::metadata("/proc/self").is_ok_and(|own| own.uid() == 0);
    install(needed, purpose, &path, is_root, run_command)
}

/// Installs what is missing on this path, by commands that `run` executes.
fn install(
    needed: &[Program],
    purpose: &str,
    path: &OsStr,
    is_root: bool,
    mut run: impl FnMut(&mut Command) -> Outcome,
) -> Outcome {
    let missing: Vec<&Program> = needed.iter().filter(|program| find(path, program.name).is_none()).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let may_install = is_root
        || find(path, SUDO[0]).is_some_and(|sudo| run(Command::new(sudo).args([SUDO[1], "true"])).is_ok());
    let Some(apt) = find(path, "apt-get").filter(|_| may_install) else {
        return Err(by_hand(purpose, &missing, "it cannot be installed from here"));
    };
    let mut apt_get = |args: &[&str]| {
        let mut command = if is_root { Command::new(&apt) } else { Command::new(SUDO[0]) };
        if !is_root {
            command.arg(SUDO[1]).arg(&apt);
        }
        run(command.args(args).stdin(Stdio::null()))
    };
    let packages: Vec<&str> = missing.iter().map(|program| program.package).collect();
    let options = ["install", "--yes", "--quiet", "--no-install-recommends"];
    apt_get(&["update", "--quiet"])
        .and_then(|()| apt_get(&[&options, &packages[..]].concat()))
        .map_err(|failure| by_hand(purpose, &missing, &failure.to_string()))
}

/// What a user has to do, and why.
fn by_hand(purpose: &str, missing: &[&Program], why: &str) -> Failure {
    let list = |part: fn(&Program) -> &'static str| -> String {
        missing.iter().map(|program| part(program)).collect::<Vec<_>>().join(" ")
    };
    Failure::new(format!(
        "{purpose} {}, which is missing ({why}); install it with the tool of your system, such as \
         `sudo apt-get install {}`",
        list(|program| program.name),
        list(|program| program.package),
    ))
}

fn find(path: &OsStr, program: &str) -> Option<PathBuf> {
    env::split_paths(path).map(|dir| dir.join(program)).find(|file| {
        file.metadata().is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
    })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// The commands on a machine with only these programs, and the result. Commands that contain `fails` fail.
    fn on_machine(programs: &[&str], is_root: bool, fails: &str) -> (Vec<String>, Result<(), String>) {
        let dir = tempfile::tempdir().expect("a directory");
        for name in programs {
            fs::write(dir.path().join(name), "").expect("a program");
            fs::set_permissions(dir.path().join(name), fs::Permissions::from_mode(0o755)).expect("its mode");
        }
        let mut ran = Vec::new();
        let ended = install(NEEDED, "the tests need", dir.path().as_os_str(), is_root, |command| {
            let words = std::iter::once(command.get_program()).chain(command.get_args());
            let names = words.map(|word| PathBuf::from(word).file_name().unwrap_or(word).to_owned());
            let line: Vec<String> = names.map(|name| name.to_string_lossy().into_owned()).collect();
            ran.push(line.join(" "));
            let failed = !fails.is_empty() && line.join(" ").contains(fails);
            if failed { Err(Failure::new("it failed")) } else { Ok(()) }
        });
        (ran, ended.map_err(|failure| failure.to_string()))
    }

    const INSTALL: &str = "apt-get install --yes --quiet --no-install-recommends strace tmux";

    #[test]
    fn what_is_missing_is_installed_by_whoever_may() {
        assert_eq!(on_machine(&["strace", "tmux"], false, ""), (vec![], Ok(())), "nothing is missing");
        assert_eq!(
            on_machine(&["apt-get"], true, ""),
            (vec!["apt-get update --quiet".to_owned(), INSTALL.to_owned()], Ok(()))
        );
        let sudo = |line: &str| format!("sudo -n {line}");
        assert_eq!(
            on_machine(&["apt-get", "sudo"], false, ""),
            (vec![sudo("true"), sudo("apt-get update --quiet"), sudo(INSTALL)], Ok(()))
        );
    }

    #[test]
    fn where_nothing_can_be_installed_a_person_is_told_what_to_install() {
        for (programs, is_root, fails) in [
            (&["sudo"][..], true, ""),
            (&["apt-get"][..], false, ""),
            (&["apt-get", "sudo"][..], false, "true"),
            (&["apt-get"][..], true, "update"),
            (&["apt-get"][..], true, "install"),
        ] {
            let (_, ended) = on_machine(programs, is_root, fails);
            let told = ended.expect_err("nothing was installed");
            assert!(
                told.contains("need strace tmux") && told.contains("apt-get install strace tmux"),
                "{told}"
            );
        }
    }
}
