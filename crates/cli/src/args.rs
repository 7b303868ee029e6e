//! The command line arguments. The doc comments are the help texts.

use std::io::Write;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::commands;
use crate::display::DisplayArgs;
use crate::exit::Exit;
use crate::term;

/// Exit codes and file paths, for the end of the help.
const AFTER_HELP: &str = "\
Exit codes:
  0 completed   1 failed   2 usage or bad input, nothing was done   3 cancelled
  4 a key is missing or refused   5 a limit ended it: budget, timeout, turns
  130, 143, 129 interrupted by Ctrl-C, SIGTERM, SIGHUP; the run can be resumed

Runs and agents:
  Any unique beginning of a run's id names the run; k3f.2.1 is an agent of run k3f...

Files:
  Runs are kept in $POSSE_HOME, else $XDG_STATE_HOME/posse, else ~/.local/state/posse.
  Settings are read from $XDG_CONFIG_HOME/posse/settings.yaml, else ~/.config/posse/settings.yaml,
  then from .posse/settings.yaml of the project, which may only narrow until you trust it, then from
  variables such as POSSE_MODEL and POSSE_AGENT__MAX_DEPTH, then from flags.";

/// Runs sub-agents under contract: durable, limited, resumable after any crash
#[derive(Debug, Parser)]
#[command(name = "posse", version, after_help = AFTER_HELP, max_term_width = 100, disable_help_subcommand = true)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) display: DisplayArgs,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// One variant per verb. The arguments of each are in its own file.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Run(commands::run::RunArgs),
    Continue(commands::continue_run::ContinueArgs),
    Retry(commands::retry::RetryArgs),
    Plan(commands::plan::PlanArgs),
    Ps(commands::ps::PsArgs),
    Show(commands::show::ShowArgs),
    Stats(commands::stats::StatsArgs),
    Logs(commands::logs::LogsArgs),
    Trace(commands::trace::TraceArgs),
    Report(commands::report::ReportArgs),
    Diff(commands::diff::DiffArgs),
    Apply(commands::apply::ApplyArgs),
    Salvage(commands::salvage::SalvageArgs),
    Wait(commands::wait::WaitArgs),
    Attach(commands::attach::AttachArgs),
    Send(commands::send::SendArgs),
    Cancel(commands::cancel::CancelArgs),
    Resume(commands::resume::ResumeArgs),
    Approve(commands::approve::ApproveArgs),
    Deny(commands::deny::DenyArgs),
    Verify(commands::verify::VerifyArgs),
    Explain(commands::explain::ExplainArgs),
    Export(commands::export::ExportArgs),
    Agents(commands::agents::AgentsArgs),
    Skills(commands::skills::SkillsArgs),
    Gc(commands::gc::GcArgs),
    Settings(commands::settings::SettingsArgs),
    Trust(commands::trust::TrustArgs),
    Init(commands::init::InitArgs),
    Doctor(commands::doctor::DoctorArgs),
    Demo(commands::demo::DemoArgs),
    Completions(commands::completions::CompletionsArgs),
    #[command(name = commands::background::VERB, hide = true)]
    Background(commands::background::BackgroundArgs),
}

/// Prints the output of clap: help and version on standard output, errors on standard error.
pub(crate) fn refuse(error: &clap::Error) -> ExitCode {
    if !error.use_stderr() {
        // A closed pipe needs no help text.
        drop(error.print());
        return Exit::DONE.into();
    }
    // An error quotes typed text, which may have been copied from anywhere.
    let text = error.render().to_string();
    drop(std::io::stderr().write_all(term::clean(&text).as_bytes()));
    Exit::USAGE.into()
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_arguments_hold_together() {
        Cli::command().debug_assert();
    }
}
