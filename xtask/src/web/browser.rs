//! `cargo xtask web test`: runs the stories of `web/browser` in a real browser, against the real binary with scripted
//! models; `cargo xtask web screenshots` makes the pictures of the documents in the same way.
//!
//! The browser is the one of the system, so that nothing is downloaded from a browser's vendor.

use std::path::PathBuf;
use std::process::Command;

use crate::command::{Profile, Program, build, root, run as run_command};
use crate::{Failure, Outcome, packages};

/// Where the bundler puts what Node runs.
const BUILT: &str = "web/node_modules/.browser";
/// Where the pictures belong.
const PICTURES: &str = "docs";

/// Runs the stories, or those whose names match one of these patterns.
pub(crate) fn run(only: &[String]) -> Outcome {
    super::prepare()?;
    stories(packages::ready_for_the_browser()?, only)
}

/// The stories as a part of a stage of ci. A machine without a browser must still be able to work.
pub(super) fn short() -> Outcome {
    match packages::ready_for_the_browser() {
        Ok(browser) => stories(browser, &[]),
        Err(missing) => {
            println!("web: the stories in a browser are skipped: {missing}");
            Ok(())
        }
    }
}

/// Writes the pictures of the page anew.
pub(crate) fn screenshots() -> Outcome {
    super::prepare()?;
    let mut node = node("screenshots.js", packages::ready_for_the_browser()?, &[])?;
    run_command(node.arg(root().join(PICTURES)))
}

fn stories(browser: PathBuf, only: &[String]) -> Outcome {
    run_command(&mut node("stories.js", browser, only)?)
}

/// Node with one of the two scripts. Of the stories, it runs those whose names match one of these patterns.
fn node(script: &str, browser: PathBuf, only: &[String]) -> Result<Command, Failure> {
    run_command(&mut super::npm(&["run", "build:browser"]))?;
    let binary = build(&Program::Binary("posse"), Profile::Dev)?;
    let mut command = Command::new("node");
    command.args(["--test-force-exit", "--test-reporter=spec"]);
    command.args(only.iter().map(|name| format!("--test-name-pattern={name}")));
    command.arg(root().join(BUILT).join(script));
    command.env("POSSE_BINARY", binary).env("CHROMIUM", browser);
    Ok(command)
}
