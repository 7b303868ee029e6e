//! One file for each verb: its arguments, with doc comments that are its help, and one function.

pub(crate) mod agents;
mod answer;
pub(crate) mod apply;
pub(crate) mod approvals;
pub(crate) mod approve;
pub(crate) mod attach;
pub(crate) mod background;
pub(crate) mod cancel;
pub(crate) mod completions;
pub(crate) mod continue_run;
pub(crate) mod definition_list;
pub(crate) mod definition_page;
pub(crate) mod demo;
pub(crate) mod deny;
pub(crate) mod diff;
pub(crate) mod doctor;
pub(crate) mod explain;
pub(crate) mod export;
pub(crate) mod gc;
pub(crate) mod init;
pub(crate) mod kill;
pub(crate) mod logs;
pub(crate) mod man;
pub(crate) mod models;
pub(crate) mod plan;
pub(crate) mod ps;
pub(crate) mod report;
pub(crate) mod resume;
pub(crate) mod retry;
pub(crate) mod rm;
pub(crate) mod run;
pub(crate) mod salvage;
pub(crate) mod send;
pub(crate) mod serve;
pub(crate) mod settings;
pub(crate) mod show;
pub(crate) mod skills;
pub(crate) mod stats;
pub(crate) mod token;
pub(crate) mod top;
pub(crate) mod trace;
pub(crate) mod trust;
pub(crate) mod verify;
pub(crate) mod wait;

use crate::args::Command;
use crate::context::Context;
use crate::error::CliError;
use crate::exit::Exit;

/// Executes a verb.
pub(crate) fn dispatch(command: Command, context: &Context) -> Result<Exit, CliError> {
    match command {
        Command::Run(args) => run::run(args, context),
        Command::Continue(args) => continue_run::continue_run(args, context),
        Command::Retry(args) => retry::retry(args, context),
        Command::Plan(args) => plan::plan(args, context),
        Command::Ps(args) => ps::ps(&args, context),
        Command::Show(args) => show::show(&args, context),
        Command::Stats(args) => stats::stats(&args, context),
        Command::Logs(args) => logs::logs(&args, context),
        Command::Trace(args) => trace::trace(&args, context),
        Command::Report(args) => report::report(&args, context),
        Command::Diff(args) => diff::diff(&args, context),
        Command::Apply(args) => apply::apply(&args, context),
        Command::Salvage(args) => salvage::salvage(&args, context),
        Command::Attach(args) => attach::attach(&args, context),
        Command::Top(args) => top::top(&args, context),
        Command::Wait(args) => wait::wait(&args, context),
        Command::Send(args) => send::send(&args, context),
        Command::Cancel(args) => cancel::cancel(&args, context),
        Command::Kill(args) => kill::kill(&args, context),
        Command::Resume(args) => resume::resume(&args, context),
        Command::Approve(args) => approve::approve(&args, context),
        Command::Deny(args) => deny::deny(&args, context),
        Command::Approvals(args) => approvals::approvals(&args, context),
        Command::Verify(args) => verify::verify(&args, context),
        Command::Explain(args) => explain::explain(&args, context),
        Command::Export(args) => export::export(&args, context),
        Command::Agents(args) => agents::agents(&args, context),
        Command::Skills(args) => skills::skills(&args, context),
        Command::Rm(args) => rm::rm(&args, context),
        Command::Gc(args) => gc::gc(&args, context),
        Command::Models(args) => models::models(&args, context),
        Command::Settings(args) => settings::settings(&args, context),
        Command::Trust(args) => trust::trust(&args, context),
        Command::Init(args) => init::init(&args, context),
        Command::Doctor(args) => doctor::doctor(&args, context),
        Command::Demo(args) => demo::demo(&args, context),
        Command::Serve(args) => serve::serve(&args, context),
        Command::Token(args) => token::token(&args, context),
        Command::Completions(args) => completions::completions(&args, context),
        Command::Man(args) => man::man(&args, context),
        Command::Background(args) => background::background(&args, context),
    }
}
