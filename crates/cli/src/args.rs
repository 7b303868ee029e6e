//! The command line arguments. The doc comments are the help texts.

use std::ffi::OsString;
use std::io::Write;
use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{ColorChoice, FromArgMatches, Parser, Subcommand};

use posse::nearest;

use crate::Extras;
use crate::commands;
use crate::context::Context;
use crate::display::DisplayArgs;
use crate::exit::Exit;
use crate::help;
use crate::ids::RunArg;
use crate::output::fitting;
use crate::runtime;
use crate::server::ServerArgs;
use crate::term;

/// Exit codes and file paths, for the end of the help.
const AFTER_HELP: &str = "\
`posse` alone, on a terminal in a project, is a prompt: type a request, and the next one continues the run.

Runs and agents, in every verb:
  k3f       a run, by any unique prefix of its id
  @, @2     the newest run of this project, and the one before it
  last      the newest run of all projects
  k3f.2.1   an agent of a run; also `k3f 2.1`, `@.2.1`
  Verbs that only read, `wait` and `resume` take the newest run of this project if none is named.

Exit codes:
  0 completed   1 failed   2 usage or bad input, nothing was done   3 cancelled
  4 a key is missing or refused   5 a limit ended it: budget, timeout, turns
  6 a replay differs from the recorded run
  124 `wait --timeout` gave up; the run continues
  130, 143, 129 interrupted by Ctrl-C, SIGTERM, SIGHUP; the run can be resumed

Files:
  Runs are kept in $POSSE_HOME, else $XDG_STATE_HOME/posse, else ~/.local/state/posse.
  Settings are read from $XDG_CONFIG_HOME/posse/settings.yaml, else ~/.config/posse/settings.yaml,
  then from .posse/settings.yaml of the project, which may only narrow until you trust it, then from
  variables such as POSSE_MODEL and POSSE_AGENT__MAX_DEPTH, then from flags.";

/// Runs sub-agents under contract: durable, limited, resumable after any crash
#[derive(Debug, Parser)]
#[command(name = "posse", version, after_help = AFTER_HELP, max_term_width = 100)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) display: DisplayArgs,
    #[command(flatten)]
    pub(crate) server: ServerArgs,
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
}

/// One variant per verb. The arguments of each are in its own file.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Run(commands::run::RunArgs),
    Continue(commands::continue_run::ContinueArgs),
    Retry(commands::retry::RetryArgs),
    Plan(commands::plan::PlanArgs),
    #[command(visible_aliases = ["list", "ls"])]
    Ps(commands::ps::PsArgs),
    #[command(visible_alias = "status")]
    Show(commands::show::ShowArgs),
    #[command(visible_alias = "usage")]
    Stats(commands::stats::StatsArgs),
    #[command(visible_alias = "log")]
    Logs(commands::logs::LogsArgs),
    #[command(visible_alias = "transcript")]
    Trace(commands::trace::TraceArgs),
    Report(commands::report::ReportArgs),
    Diff(commands::diff::DiffArgs),
    Apply(commands::apply::ApplyArgs),
    Salvage(commands::salvage::SalvageArgs),
    Wait(commands::wait::WaitArgs),
    Attach(commands::attach::AttachArgs),
    Top(commands::top::TopArgs),
    Send(commands::send::SendArgs),
    #[command(visible_alias = "stop")]
    Cancel(commands::cancel::CancelArgs),
    Kill(commands::kill::KillArgs),
    Resume(commands::resume::ResumeArgs),
    Approve(commands::approve::ApproveArgs),
    #[command(visible_alias = "reject")]
    Deny(commands::deny::DenyArgs),
    Approvals(commands::approvals::ApprovalsArgs),
    Verify(commands::verify::VerifyArgs),
    Explain(commands::explain::ExplainArgs),
    Export(commands::export::ExportArgs),
    Agents(commands::agents::AgentsArgs),
    Skills(commands::skills::SkillsArgs),
    #[command(visible_aliases = ["remove", "delete"])]
    Rm(commands::rm::RmArgs),
    #[command(visible_aliases = ["prune", "clean"])]
    Gc(commands::gc::GcArgs),
    Models(commands::models::ModelsArgs),
    #[command(visible_alias = "config")]
    Settings(commands::settings::SettingsArgs),
    Trust(commands::trust::TrustArgs),
    Init(commands::init::InitArgs),
    Doctor(commands::doctor::DoctorArgs),
    Demo(commands::demo::DemoArgs),
    Serve(commands::serve::ServeArgs),
    Token(commands::token::TokenArgs),
    #[command(visible_alias = "completion")]
    Completions(commands::completions::CompletionsArgs),
    Man(commands::man::ManArgs),
    #[command(name = commands::background::VERB, hide = true)]
    Background(commands::background::BackgroundArgs),
}

/// Parses the arguments, the program's name first.
pub(crate) fn parse(args: Vec<OsString>) -> Result<Cli, clap::Error> {
    let matches = help::command().color(colour_of_help(&args)).try_get_matches_from(args)?;
    Cli::from_arg_matches(&matches)
}

/// When the parser's own texts, help and errors, are coloured: as `--color` says, wherever it is typed. The parser prints
/// some of them before it has read the flag.
fn colour_of_help(args: &[OsString]) -> ColorChoice {
    let mut words = args.iter().filter_map(|arg| arg.to_str()).take_while(|arg| *arg != "--");
    let mut choice = ColorChoice::Auto;
    while let Some(word) = words.next() {
        let when = if word == "--color" { words.next() } else { word.strip_prefix("--color=") };
        choice = match when {
            Some("always") => ColorChoice::Always,
            Some("never") => ColorChoice::Never,
            _ => choice,
        };
    }
    choice
}

/// Says what can be typed, where there is no terminal for a prompt.
pub(crate) fn refuse_nothing() -> Exit {
    drop(std::io::stderr().write_all(help::hint_for_nothing().as_bytes()));
    Exit::USAGE
}

/// Prints the output of clap: help and version on standard output, errors on standard error.
pub(crate) fn refuse(error: &clap::Error, args: &[OsString]) -> ExitCode {
    if !error.use_stderr() {
        // A closed pipe needs no help text.
        drop(error.print());
        return Exit::DONE.into();
    }
    if error.kind() == ErrorKind::InvalidSubcommand
        && let Some(ContextValue::String(typed)) = error.get(ContextKind::InvalidSubcommand)
        && HELP_FLAGS.contains(&typed.as_str())
    {
        // `posse help --help`
        drop(help::command().color(colour_of_help(args)).print_long_help());
        return Exit::DONE.into();
    }
    // An error quotes typed text, which may have been copied from anywhere.
    let text = in_our_words(error).unwrap_or_else(|| without_wrong_tips(&error.render().to_string()));
    drop(std::io::stderr().write_all(fitting(&term::clean(&text)).as_bytes()));
    Exit::USAGE.into()
}

/// The flags that ask for help, which the verb `help` takes for the name of a verb.
const HELP_FLAGS: [&str; 2] = ["--help", "-h"];
/// The name of the argument with the request of a run.
const REQUEST: &str = "<REQUEST>...";
/// The names of the argument with a run, or with several.
const RUN: [&str; 3] = ["<RUN>", "<RUN>...", "<RUNS>..."];

/// The newest run of this project, as a suggestion; whatever goes wrong, there is none.
fn newest_run() -> Option<String> {
    let context = Context::new("posse".to_owned(), Extras::default(), DisplayArgs::default(), None).ok()?;
    let posse = context.open_read_only().ok()?;
    runtime::looking(RunArg::newest().find(&posse, &context)).ok().map(|run| run.to_string())
}

/// The errors that the parser explains less well than the command can.
fn in_our_words(error: &clap::Error) -> Option<String> {
    match error.kind() {
        ErrorKind::InvalidSubcommand => {
            let typed = error.get(ContextKind::InvalidSubcommand)?;
            let near = match error.get(ContextKind::SuggestedSubcommand) {
                Some(ContextValue::String(near)) => Some(near.as_str()),
                Some(ContextValue::Strings(near)) => near.first().map(String::as_str),
                _ => None,
            };
            let command = help::command();
            let verbs = command.get_subcommands().filter(|verb| !verb.is_hide_set());
            let names = verbs.map(clap::Command::get_name);
            let typed = typed.to_string();
            let near = near.or_else(|| nearest(&typed, names));
            let meant = near.map(|near| format!("did you mean `{near}`? ")).unwrap_or_default();
            Some(format!("error: there is no verb `{typed}`\nhint: {meant}`posse help` lists the verbs\n"))
        }
        ErrorKind::MissingRequiredArgument => {
            let missing = match error.get(ContextKind::InvalidArg)? {
                ContextValue::Strings(missing) => missing.clone(),
                other => vec![other.to_string()],
            };
            match &missing[..] {
                [one] if one == REQUEST => Some(
                    "error: the request is missing: describe what to do\nhint: for example, posse run \"fix the failing \
                     test\"\n"
                        .to_owned(),
                ),
                [one] if RUN.contains(&one.as_str()) => {
                    let newest = newest_run().map(|run| {
                        format!("the newest run of this project is {run} (`@` names it); ")
                    });
                    let newest = newest.unwrap_or_default();
                    Some(format!("error: RUN is missing: name a run\nhint: {newest}`posse ps` lists the runs\n"))
                }
                _ => None,
            }
        }
        _ => None,
    }
}

/// The text without the advice to pass a flag after `--`: it is a mistake, and no value.
fn without_wrong_tips(text: &str) -> String {
    let is_wrong = |line: &&str| line.trim_start().starts_with("tip: to pass '");
    let mut shown = String::with_capacity(text.len());
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        if is_wrong(&line) {
            // The empty line after it.
            lines.next_if(|line| line.is_empty());
            continue;
        }
        shown.push_str(line);
        shown.push('\n');
    }
    shown
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
