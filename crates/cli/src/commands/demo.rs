//! `posse demo`: a run with scripted models, to see what Posse does without a key and without set-up.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use posse::RunId;
use posse::ports::Model;
use posse::scripted::Scripted;

use crate::asking::Asking;
use crate::carry::carry_and_tell;
use crate::context::Context;
use crate::error::CliError;
use crate::exit::Exit;
use crate::launch::{self, Launch, Wanted};
use crate::output::note;
use crate::runtime;
use crate::signals::Signals;
use crate::view::View;

const SCRIPT: &str = include_str!("../../demo/script.yaml");
const AGENTS: &str = include_str!("../../demo/agents.json");
/// The small project that the demo works on.
const WORKSPACE: [(&str, &str); 3] = [
    ("greet.py", include_str!("../../demo/workspace/greet.py")),
    ("README.md", include_str!("../../demo/workspace/README.md")),
    ("docs/usage.md", include_str!("../../demo/workspace/docs/usage.md")),
];

/// The names of the demo's models. A script of a person's own is always named by its whole path, so these can
/// mean nothing else, also when a demo is resumed.
const MODEL: &str = "scripted/demo";
const FAST_MODEL: &str = "scripted/demo-fast";
/// How much quicker `--fast` is.
const SPEED_UP: u64 = 10;
/// What the demo is asked.
const REQUEST: &str = "Give greet.py a flag --shout, and say what is left to document.";

/// See a run at work: no key, no set-up
///
/// A scripted coder splits a small request over several children: one works in the background, one is refused
/// because the tree may grow no deeper, one fails and is tried again. The run is kept like any other.
#[derive(Debug, clap::Args)]
pub(crate) struct DemoArgs {
    /// Ten times quicker
    #[arg(long)]
    fast: bool,
}

/// Shows a run.
pub(crate) fn demo(args: &DemoArgs, context: &Context) -> Result<Exit, CliError> {
    let models = launch::models(context);
    let folder = workspace()?;
    let model = if args.fast { FAST_MODEL } else { MODEL };
    let wanted = Wanted {
        request: REQUEST.to_owned(),
        agents: Some(AGENTS.to_owned()),
        dir: Some(folder.clone()),
        max_depth: Some(2),
        own_model: Some(model),
        ..Wanted::default()
    };
    let launch = Launch::new(wanted, context, &models)?;
    runtime::carrying(async {
        let mut signals = Signals::listen()?;
        let posse = context.open(models)?;
        let handle = posse.start(launch.into_new_run()).await?;
        let exit =
            carry_and_tell(&posse, &handle, 0, &mut signals, View::new(false, context), Asking::nobody())
                .await?;
        if exit == Exit::DONE {
            note(&farewell(handle.id(), &folder, &context.program));
        }
        Ok(exit)
    })
}

/// The demo's models, by name.
pub(crate) fn models() -> Vec<(&'static str, Arc<dyn Model>)> {
    let texts = [(MODEL, SCRIPT.to_owned()), (FAST_MODEL, sped_up(SCRIPT))];
    let read = texts.into_iter().filter_map(|(name, text)| {
        // The script is part of the program, and a test reads it.
        let script = Scripted::from_yaml(&text, name).ok()?;
        Some((name, Arc::new(script) as Arc<dyn Model>))
    });
    read.collect()
}

/// The script with every latency divided.
fn sped_up(script: &str) -> String {
    let line = |line: &str| match line.trim().strip_prefix("latency_ms: ").map(str::parse::<u64>) {
        Some(Ok(ms)) => format!("  latency_ms: {}\n", ms / SPEED_UP),
        _ => format!("{line}\n"),
    };
    script.lines().map(line).collect()
}

/// Makes the project in a folder of its own. It stays, so that the change can be looked at.
fn workspace() -> Result<PathBuf, CliError> {
    let failed = |error: std::io::Error| {
        CliError::failed(format!("the demo's folder cannot be made: {error}"))
            .hint("set TMPDIR to a directory that can be written")
    };
    let folder = tempfile::Builder::new().prefix("posse-demo-").tempdir().map_err(failed)?.keep();
    for (name, text) in WORKSPACE {
        let path = folder.join(name);
        if let Some(parent) = path.parent() {
            std::fs::create_dir_all(parent).map_err(failed)?;
        }
        std::fs::write(&path, text).map_err(failed)?;
    }
    Ok(folder)
}

fn farewell(run: &RunId, folder: &Path, program: &str) -> String {
    let lines = [
        (format!("show {run}"), "every agent with its turns, tokens and time"),
        (format!("logs {run}"), "every event, in order"),
        (format!("trace {run}.4"), "one agent's conversation: the one that was tried again"),
        (format!("trace {run}.3.1"), "the one that was refused a child of its own"),
        (format!("explain {run}.1 'write:greet.py'"), "why an explorer may not write"),
        (format!("verify {run}"), "that nobody has touched the journal"),
    ];
    let mut text = String::from("\nLook into it:\n");
    for (command, about) in lines {
        let typed = format!("{program} {command}");
        let _ = writeln!(text, "  {typed:42}  # {about}");
    }
    let _ = write!(text, "The file that was changed: {}", folder.join("greet.py").display());
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

    #[test]
    fn the_definitions_can_be_read() {
        let tools: Vec<&str> = posse::builtin_tools().iter().map(|tool| tool.name).collect();
        assert_eq!(posse::parse_agents(AGENTS, "agents.json", &tools).expect("definitions").len(), 1);
    }
}
