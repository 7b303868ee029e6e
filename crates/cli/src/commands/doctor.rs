//! `posse doctor`.

use posse::api::{CheckStatus as Status, MachineCheck, MachineReport};
use posse_setup::doctor::{MachineRemedy, MachineWords, inspect};

use crate::context::Context;
use crate::error::CliError;
use crate::exit::Exit;
use crate::output::{Output, output_width};
use crate::runtime;
use crate::server;
use crate::view::width::hanging;

/// Width of the columns before a finding; remedies begin beneath it.
const INDENT: usize = 26;

/// Check this machine: sandbox, tools, model providers
///
/// Prints a fix for everything that is missing. Exits with 1 if commands of agents cannot run.
#[derive(Debug, clap::Args)]
pub(crate) struct DoctorArgs {
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Checks the machine.
pub(crate) fn doctor(args: &DoctorArgs, context: &Context) -> Result<Exit, CliError> {
    let report = match context.server() {
        None => runtime::looking(async { Ok(inspect(context, &Words).await) })?,
        Some(server) => server::fetch(server, "/api/v1/doctor", &[])?,
    };
    let mut output = Output::new();
    if args.json {
        output.json(&report)?;
    } else {
        output.paragraph(&page(&report, output_width()))?;
    }
    output.flush()?;
    Ok(if report.ok { Exit::DONE } else { Exit::FAILED })
}

/// The remedies in terms of this command line.
struct Words;

impl MachineWords for Words {
    fn remedy(&self, remedy: &MachineRemedy) -> String {
        let text = match remedy {
            MachineRemedy::Hint(text) => text,
            MachineRemedy::ListSettings => {
                "`posse settings` lists all settings; unset the variable if it is not meant for Posse"
            }
            MachineRemedy::SetStateDir => "set POSSE_HOME",
            MachineRemedy::SetOwnStateDir => "set POSSE_HOME to a directory of your own",
            MachineRemedy::MakeStateDirWritable => "change its owner to you, or set POSSE_HOME",
            MachineRemedy::FixStateDir => "fix it, or set POSSE_HOME",
            MachineRemedy::MoveStateDirForOverlays => {
                "keep the state directory (POSSE_HOME) on a filesystem that supports overlays, such as ext4, xfs or \
                 btrfs"
            }
            MachineRemedy::DelegateCgroups => {
                "start posse in a scope of its own: `systemd-run --user --scope -p Delegate=yes posse ...`"
            }
            MachineRemedy::UnkeptPromises(promises) => {
                return format!("not all promises hold without namespaces:\n{}", listed(promises));
            }
            MachineRemedy::TrustProject => {
                "`posse trust` shows its other settings, and applies them if you trust the file"
            }
            MachineRemedy::SetKey => {
                "set a key, or use a local model (ollama/<model>); `posse demo` and scripted models need no key"
            }
        };
        text.to_owned()
    }

    fn default_model(&self, model: &str) -> String {
        format!("without --model: {model}")
    }
}

fn listed(promises: &[String]) -> String {
    let lines: Vec<String> = promises.iter().map(|promise| format!("{:<INDENT$}- {promise}", "")).collect();
    lines.join("\n")
}

fn page(report: &MachineReport, width: Option<usize>) -> String {
    let user = if report.root { "as root" } else { "as an ordinary user" };
    let mut lines = vec![format!("posse {} on Linux {}, {user}", report.posse, report.kernel), String::new()];
    for MachineCheck { name, status, value, remedy } in &report.checks {
        let mark = match status {
            Status::Ok => "ok",
            Status::Note => "note",
            Status::Missing => "MISSING",
        };
        let start = format!("{mark:<8} {name:<16} ");
        lines.push(match width {
            Some(width) => hanging(&start, value, width).trim_end().to_owned(),
            None => format!("{start}{value}"),
        });
        lines.extend(remedy.as_ref().map(|remedy| format!("{:<INDENT$}{remedy}", "")));
    }
    lines.push(String::new());
    lines.push(if report.ok {
        "Commands of agents run in the sandbox.".to_owned()
    } else {
        "Something is missing: see above. Posse refuses what needs it; everything else works.".to_owned()
    });
    lines.join("\n")
}
