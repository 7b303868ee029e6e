//! `posse demo`: scripted models execute a plan, to show what Posse does without a key and without set-up.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::{Arc, LazyLock};

use posse::ports::{
    Admission, CallSize, Model, ModelFacts, ModelFailure, ModelReply, ModelRequest, StreamSink,
};
use posse::sandbox::Sandbox;
use posse::scripted::ScriptedModel;
use posse::workspace::{Git, RepositoryError};
use posse::{Criterion, Plan, RunId};

use posse_setup::discovery::DiscoveryResult;
use posse_setup::draft::PlanInput;
use posse_setup::plan::file::Judge;
use posse_setup::settings::Settings;
use posse_setup::working_dir::working_dir;
use posse_setup::{PreparedRun, RunDirectory, RunDraft};

use crate::context::Context;
use crate::drive::drive_and_print;
use crate::error::CliError;
use crate::exit::Exit;
use crate::output::{note, print_noted};
use crate::questions::QuestionPrompter;
use crate::runtime;
use crate::signals::Signals;
use crate::view::View;

const SCRIPT: &str = include_str!("../../demo/script.yaml");
const PLAN: &str = include_str!("../../demo/plan.yaml");
/// The small project that the demo works on.
const PROJECT: [(&str, &str); 4] = [
    ("greet.sh", include_str!("../../demo/project/greet.sh")),
    ("test.sh", include_str!("../../demo/project/test.sh")),
    ("README.md", include_str!("../../demo/project/README.md")),
    ("docs/usage.md", include_str!("../../demo/project/docs/usage.md")),
];

/// The names of the demo's models. A user's own script is always named by its absolute path, so these names are
/// unambiguous, also when a demo is resumed.
const MODEL: &str = "scripted/demo";
const FAST_MODEL: &str = "scripted/demo-fast";
/// How much faster `--fast` is.
const SPEED_UP: u64 = 10;

/// Watch an example run; needs no API key
///
/// A plan of four steps for a small repository that is created for it. Two steps write at the same time; one reports
/// that it is done, fails its check and is repaired; one changes a file that it does not own and is refused; the last
/// one starts from the work of the others. The run is kept like any other, and nothing is checked out.
#[derive(Debug, clap::Args)]
pub(crate) struct DemoArgs {
    /// Ten times faster
    #[arg(long)]
    fast: bool,
}

/// Executes the demo run.
pub(crate) fn demo(args: &DemoArgs, context: &Context) -> Result<Exit, CliError> {
    let models = posse_setup::models::usual(context)?;
    let folder = project(context)?;
    let model = if args.fast { FAST_MODEL } else { MODEL };
    let plan = plan(context, &models)?;
    let draft = RunDraft {
        plan: Some(PlanInput::Checked(Box::new(plan))),
        own_model: Some(model.to_owned()),
        ..RunDraft::default()
    };
    let dir = working_dir(Some(folder.clone()), &context.environment.cwd)?;
    let directory = RunDirectory::bare(dir, models);
    let prepared = runtime::looking(async { Ok(draft.prepare(&directory, context).await) })?;
    let PreparedRun { request, .. } = print_noted(prepared)?;
    runtime::driving(async {
        let mut signals = Signals::listen()?;
        let posse = context.open(directory.models, &Settings::own(&context.environment)?)?;
        let handle = match signals.unless_one_comes(Box::pin(posse.start_request(request, false))).await {
            Ok(started) => started?,
            Err(ask) => return Ok(ask.exit()),
        };
        let exit = drive_and_print(
            &posse,
            &handle,
            0,
            &mut signals,
            View::new(false, context),
            QuestionPrompter::without_terminal(),
        )
        .await?;
        if exit == Exit::DONE {
            note(&farewell(handle.id(), &folder, &context.program));
        }
        Ok(exit)
    })
}

/// The demo's plan. Without a sandbox, the checks are dropped, and a note explains that.
fn plan(context: &Context, models: &posse::ModelRegistry) -> Result<Plan, CliError> {
    let judge = Judge::new(None, None, &DiscoveryResult::default(), context)?;
    let mut plan = judge.judge(PLAN, &context.environment.cwd, models).map_err(|problems| {
        CliError::failed(format!("the demo's plan: {problems:?}"))
            .hint("this is a bug in Posse; please report it")
    })?;
    let settings = Settings::own(&context.environment)?;
    let sandbox = Sandbox::new(context.sandbox(&settings)?);
    if let Err(error) = runtime::looking(async { Ok(sandbox.level().await) })? {
        note(&format!(
            "note: commands cannot be run in a sandbox here ({error}), so the demo's checks are skipped, and the step \
             that they would fail passes; `{} doctor` shows what to do",
            context.program
        ));
        for step in &mut plan.steps {
            step.success_criteria.retain(|criterion| matches!(criterion, Criterion::Words(_)));
        }
    }
    Ok(plan)
}

/// The demo's models, by name.
pub(crate) fn models() -> Vec<(String, Arc<dyn Model>)> {
    let usual = DemoModel(LazyLock::new(|| script(MODEL, SCRIPT)));
    let fast = DemoModel(LazyLock::new(|| script(FAST_MODEL, &sped_up(SCRIPT))));
    vec![(MODEL.to_owned(), Arc::new(usual)), (FAST_MODEL.to_owned(), Arc::new(fast))]
}

fn script(name: &str, text: &str) -> ScriptedModel {
    ScriptedModel::from_yaml(text, name).expect("the script is part of the program, and a test reads it")
}

/// A scripted model that is parsed when it is first used: every command has the demo's models, and only the demo uses them.
struct DemoModel(LazyLock<ScriptedModel>);

impl Model for DemoModel {
    fn facts(&self) -> ModelFacts {
        self.0.facts()
    }

    fn provider(&self) -> Arc<str> {
        self.0.provider()
    }

    fn admit(&self, size: CallSize) -> Admission {
        self.0.admit(size)
    }

    fn call(
        &self,
        request: ModelRequest,
        sink: Arc<dyn StreamSink>,
    ) -> Pin<Box<dyn Future<Output = Result<ModelReply, ModelFailure>> + Send>> {
        self.0.call(request, sink)
    }
}

/// The script with every latency divided.
fn sped_up(script: &str) -> String {
    let line = |line: &str| match line.trim().strip_prefix("latency_ms: ").map(str::parse::<u64>) {
        Some(Ok(ms)) => format!("  latency_ms: {}\n", ms / SPEED_UP),
        _ => format!("{line}\n"),
    };
    script.lines().map(line).collect()
}

/// Creates the project, a repository in a new folder of the state directory. It is kept as long as the run, so that the
/// result can be read.
fn project(context: &Context) -> Result<PathBuf, CliError> {
    let failed =
        |error: std::io::Error| CliError::failed(format!("the demo's folder cannot be made: {error}"));
    let folder = context.open_for_commands()?.demo_folder().map_err(failed)?;
    for (name, text) in PROJECT {
        let path = folder.join(name);
        if let Some(parent) = path.parent() {
            std::fs::create_dir_all(parent).map_err(failed)?;
        }
        std::fs::write(&path, text).map_err(failed)?;
    }
    commit(&folder)
        .map_err(|error| CliError::failed(format!("the demo's repository cannot be made: {error}")))?;
    Ok(folder)
}

fn git(folder: &Path) -> Git {
    Git::at(Path::new("git"), &folder.join(".git")).with_work_tree(folder)
}

fn commit(folder: &Path) -> Result<(), RepositoryError> {
    let git = git(folder);
    git.run(&["init", "--quiet", "--initial-branch=main"])?;
    git.run(&["add", "--all"])?;
    let author = ["-c", "user.name=Demo", "-c", "user.email=demo@localhost"];
    let commit = ["commit", "--quiet", "--message=A greeting"];
    git.run(&[&author[..], &commit[..]].concat())?;
    Ok(())
}

/// The content of the branch, file by file.
fn merged_tree(run: &RunId, folder: &Path) -> Result<String, RepositoryError> {
    let (git, branch) = (git(folder), format!("posse/{run}"));
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    let status = text(git.run(&["diff", "--name-status", "--no-renames", "main", &branch])?);
    let changed: BTreeMap<&str, &str> =
        status.lines().filter_map(|line| line.split_once('\t')).map(|(how, name)| (name, how)).collect();
    let files = text(git.run(&["ls-tree", "-r", "--name-only", &branch])?);
    let mut tree = format!("\nThe merged tree, on branch {branch} of {}:\n", folder.display());
    for name in files.lines() {
        let how = match changed.get(name) {
            Some(&"A") => "  new",
            Some(_) => "  changed",
            None => "",
        };
        let line = format!("  {name:14}{how}");
        let _ = writeln!(tree, "{}", line.trim_end());
    }
    Ok(tree)
}

fn farewell(run: &RunId, folder: &Path, program: &str) -> String {
    let lines = [
        (format!("diff {run}"), "the changes of the run"),
        (format!("diff {run} 3"), "the refused change, which is kept"),
        (format!("report {run} 1"), "the first step, and its check"),
        (format!("report {run} 4"), "the repair"),
        (format!("show {run}"), "every agent and its cost"),
        (format!("logs {run}"), "every event, in order"),
        (format!("verify {run}"), "whether the journal is intact"),
        (format!("apply {run}"), "apply it to the demo's folder"),
    ];
    let mut text = merged_tree(run, folder).unwrap_or_else(|error| format!("\nThe merged tree: {error}\n"));
    text.push_str("\nLook into it:\n");
    for (command, about) in lines {
        let typed = format!("{program} {command}");
        let _ = writeln!(text, "  {typed:24}  # {about}");
    }
    let _ = write!(text, "\n`{program} rm {run}` removes the run and its folder.");
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scripts_can_be_read_and_differ_only_in_speed() {
        assert_eq!(models().len(), 2);
        let latency = |script: &str| -> u64 {
            let lines = script.lines().filter_map(|line| line.trim().strip_prefix("latency_ms: "));
            lines.map(|ms| ms.parse::<u64>().expect("a number")).sum()
        };
        assert!(latency(SCRIPT) > 5_000);
        assert_eq!(latency(&sped_up(SCRIPT)), latency(SCRIPT) / SPEED_UP);
        assert_eq!(sped_up(SCRIPT).lines().count(), SCRIPT.lines().count());
    }
}
