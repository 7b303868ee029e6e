//! `bash`: runs a command in a sandbox.
//!
//! Why it is like this: `docs/decisions/tools-failed-command.md`.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use futures::future::BoxFuture;
use posse_domain::code::Code;
use posse_domain::contract::MODEL_COMMAND_TIMEOUT_MAX_MS;
use posse_domain::event::EffectClass;
use posse_domain::permission::{SPECIFIER_MAX_BYTES, still_protected};
use posse_domain::skill::Skill;
use posse_engine::ports::{
    CallContext, EffectTool, PreparedEffect, Tool, ToolFailure, ToolOutput, ToolResult,
};
use posse_sandbox::process::{CapturedOutput, OutputLimits};
use posse_sandbox::{
    BoxedCommand, CacheShown, CallEnd, EndReason, ExecPermit, Exit, REDIRECT_MAX_BYTES, RenamedDirs, SHELL,
    SandboxError, TimeLimits, WorkspaceView,
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use crate::ToolServices;
use crate::input::{Check, parse};
use crate::outputs::{OUTPUTS_SHOWN_AT, PREFIX, new_file, plain_name};
use crate::space::{Dirs, failure, path_named};
use crate::spec::{Parts, effect};

const NAME: &str = "bash";

/// Default timeout of a command.
const TIMEOUT_DEFAULT: Duration = Duration::from_mins(2);
const TIMEOUT_MAX: Duration = Duration::from_millis(MODEL_COMMAND_TIMEOUT_MAX_MS);
/// Maximum length of a command: Linux passes no longer argument.
const COMMAND_MAX_BYTES: usize = SPECIFIER_MAX_BYTES - 1;
const DESCRIPTION_MAX_BYTES: usize = 4 * 1024;
/// How much of an output's beginning and end the result shows.
const HEAD_MAX_BYTES: usize = 12 * 1024;
const TAIL_MAX_BYTES: usize = 20 * 1024;
/// Maximum size of an output that is kept in a file.
const SPILL_MAX_BYTES: u64 = 64 * 1024 * 1024;
/// What programs print when the kernel refuses a rename with `EXDEV`: the C library's words, Python's and Node's.
const REFUSED_RENAME_PRINTED: [&str; 3] = ["cross-device link", "[Errno 18]", "EXDEV"];
/// What a command that pushes contains.
const PUSH: &str = "git push";
/// The note about a command that pushes.
const NO_REMOTE: &str = "a workspace has no remote: the user publishes the result after applying it, and trying again does not help";
/// The signal that ends a command at once.
const KILL: i32 = 9;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Input {
    /// The command.
    command: String,
    /// How long it may take, in milliseconds. Default 120000, most 600000.
    timeout_ms: Option<u64>,
    /// What the command does, in five to ten words, for people who watch.
    description: Option<String>,
    /// Where it starts, relative to the workspace. Default: the workspace.
    workdir: Option<String>,
}

pub(crate) fn tool(hands: ToolServices) -> Tool {
    let text = include_str!("bash.md");
    let parts = Parts { name: NAME, class: EffectClass::Exec, text, specifier };
    effect::<Input>(&parts, Bash(hands))
}

/// The command as permission rules match it.
fn specifier(input: &Value) -> Option<String> {
    Some(input.get("command")?.as_str()?.trim().to_owned())
}

struct Bash(ToolServices);

impl EffectTool for Bash {
    fn prepare(
        &self,
        call: CallContext,
        input: Value,
    ) -> BoxFuture<'static, Result<PreparedEffect, ToolFailure>> {
        let hands = self.0.clone();
        Box::pin(async move {
            let unavailable = |error: &dyn std::fmt::Display| ToolFailure {
                code: Code::Unsupported,
                text: format!("No command was run: {error}."),
            };
            let view = hands.views.view(&call).await.map_err(|error| unavailable(&error))?;
            let wanted = wanted(&hands.dirs, &call, &view, input)?;
            let level = hands.sandbox.level().await.map_err(|error| unavailable(&error))?;
            let network = if call.network { "network" } else { "no-network" };
            let turn = hands.sandbox.acquire(&view.caches).await;
            let run = run(hands, call, view, wanted, turn);
            Ok(PreparedEffect {
                write: None,
                sandbox: Some(format!("{level} {network}")),
                run: Box::new(|| Box::pin(run)),
            })
        })
    }

    fn timeout(&self, input: &Value) -> Option<Duration> {
        Some(timeout(input.get("timeout_ms").and_then(Value::as_u64)))
    }
}

fn timeout(asked_ms: Option<u64>) -> Duration {
    asked_ms.map_or(TIMEOUT_DEFAULT, Duration::from_millis).min(TIMEOUT_MAX)
}

/// A validated request: the command and its start directory.
struct CommandRequest {
    command: String,
    workdir: PathBuf,
}

fn wanted(
    dirs: &Dirs,
    call: &CallContext,
    view: &WorkspaceView,
    input: Value,
) -> Result<CommandRequest, ToolFailure> {
    let check = Check::of(NAME);
    let Input { command, timeout_ms, description, workdir } = parse(NAME, input)?;
    let command = check.text("command", command, COMMAND_MAX_BYTES)?;
    if command.contains('\0') {
        return Err(check.field("command", "contains a NUL byte, which no program can be given"));
    }
    if timeout_ms == Some(0) {
        return Err(check.field("timeout_ms", "is 0: give the command some time, or leave it out"));
    }
    check.size("description", description.as_deref().unwrap_or_default(), DESCRIPTION_MAX_BYTES)?;
    let workdir = match workdir.as_deref() {
        None | Some("") => call.workspace.to_path_buf(),
        Some(text) => {
            // Also accepts an absolute path, as `pwd` prints it, and the workspace's real path.
            let tops = [view.shown_as(call), &call.workspace];
            let beneath = tops.into_iter().find_map(|top| Path::new(text).strip_prefix(top).ok());
            let beneath = beneath.and_then(Path::to_str);
            let text = beneath.map_or(text, |beneath| if beneath.is_empty() { "." } else { beneath });
            let workdir = path_named("workdir", check, call, text)?;
            dirs.open(&call.workspace)
                .and_then(|workspace| workspace.check_dir(&workdir))
                .map_err(|error| failure(&error))?;
            call.workspace.join(workdir.as_path())
        }
    };
    Ok(CommandRequest { command, workdir })
}

async fn run(
    hands: ToolServices,
    call: CallContext,
    view: WorkspaceView,
    wanted: CommandRequest,
    turn: ExecPermit,
) -> ToolResult {
    let records = hands.records.as_deref();
    let spill = records.map(|records| new_file(records, &call.agent, &call.call_id));
    let record = records.map(|records| {
        let name = format!("{}-{}", call.agent, plain_name(&call.call_id));
        records.process_record(&call.agent.run(), &name)
    });
    let outputs = records.map(|records| records.output_dir(&call.agent)).filter(|dir| dir.is_dir());
    let is_push = wanted.command.contains(PUSH);
    let at: Vec<PathBuf> = view.caches.iter().map(|cache| cache.at.clone()).collect();
    let about = AboutWorkspace { caches: at, renamed_dirs: view.renamed_dirs(), is_push };
    let argv = with_skills(&call, wanted.command);
    let command = view.command(argv, &call);
    let command = BoxedCommand {
        workdir: wanted.workdir,
        protected: still_protected(&call.approvals).map(str::to_owned).collect(),
        network: call.network,
        shown: outputs
            .map(|dir| (dir, PathBuf::from(OUTPUTS_SHOWN_AT)))
            .into_iter()
            .chain(command.shown)
            .collect(),
        record,
        output: OutputLimits {
            head_bytes: HEAD_MAX_BYTES,
            tail_bytes: TAIL_MAX_BYTES,
            spill,
            spill_bytes: SPILL_MAX_BYTES,
        },
        ..command
    };
    let mut running = hands.sandbox.start(turn, command).map_err(|error| no_result(&error))?;
    let limits = TimeLimits { time: call.limit, idle: call.idle };
    let (ended, cut) = running.run_to_end(&call.stop, limits).await;
    let ended = ended.map_err(|error| no_result(&error))?;
    if let (Some(records), Some(spill)) = (records, &ended.output.spill) {
        let name = spill.path.file_name().unwrap_or_default().to_string_lossy();
        records
            .keep_output(&call.agent, &name)
            .await
            .map_err(|error| ToolFailure::failed(error.to_string()))?;
    }
    answer(&ended, &about, cut, limits)
}

/// What a result may have to say about the workspace.
struct AboutWorkspace {
    /// The directories that are mounted in it.
    caches: Vec<PathBuf>,
    renamed_dirs: RenamedDirs,
    /// Whether the command was to push, which needs a remote.
    is_push: bool,
}

/// The arguments of the shell, with variables for the folders of skills.
fn with_skills(call: &CallContext, command: String) -> Vec<String> {
    let dirs = call.skills.iter();
    let set: Vec<String> =
        dirs.map(|(name, dir)| format!("{}={}", Skill::variable(name), dir.path.display())).collect();
    let env = (!set.is_empty()).then(|| "env".to_owned());
    let shell = SHELL.iter().map(ToString::to_string);
    env.into_iter().chain(set).chain(shell).chain([command]).collect()
}

fn no_result(error: &SandboxError) -> ToolFailure {
    let code = match error {
        SandboxError::Unavailable(_) | SandboxError::Workspace(_) => Code::Unsupported,
        SandboxError::NoProgram(_)
        | SandboxError::Call(_)
        | SandboxError::Lost
        | SandboxError::BroughtDown => Code::ToolError,
    };
    ToolFailure { code, text: format!("The command has no result: {error}.") }
}

/// A command that exited has a result, whatever its exit code: the model judges it.
fn answer(ended: &CallEnd, about: &AboutWorkspace, cut: Option<EndReason>, limits: TimeLimits) -> ToolResult {
    let mut text = shown(&ended.output);
    let succeeded = cut.is_none() && ended.exit == Exit::Code(0);
    // Where most renames succeed, a few words of the output prove nothing.
    let is_likely = !succeeded && about.renamed_dirs == RenamedDirs::None;
    let tells = if is_likely { tells_of_a_refused_rename } else { tells_of_an_earlier_refused_rename };
    let refused_rename = refused_rename(about.renamed_dirs).filter(|_| tells(&text));
    let (how, failed) = match (cut, ended.exit) {
        (Some(EndReason::TimeLimit), _) => (
            format!(
                "the command took longer than {} ms and was ended with all its processes",
                limits.time.as_millis()
            ),
            Some(Code::Timeout),
        ),
        (Some(EndReason::Silent), _) => (
            format!(
                "the command printed nothing for {} ms and was ended with all its processes; have it print its progress",
                limits.idle.as_millis()
            ),
            Some(Code::Timeout),
        ),
        (Some(EndReason::Stopped), _) => {
            ("the command was ended because the agent is to end".to_owned(), Some(Code::Cancelled))
        }
        (None, Exit::Signal(KILL)) if ended.over_disk_limit.is_some() => {
            ("the command was ended with all its processes".to_owned(), Some(Code::ToolError))
        }
        (None, Exit::Code(code)) => (format!("exit code {code}"), None),
        (None, Exit::Signal(signal)) => (format!("ended by signal {signal}{}", name_of(signal)), None),
    };
    let mut notes = vec![how];
    if ended.out_of_memory {
        notes.push("its memory limit was reached, and the kernel ended a process of it".to_owned());
    }
    notes.extend(ended.over_disk_limit.map(over_disk_limit));
    let caches = about.caches.iter().zip(&ended.caches);
    notes.extend(caches.filter_map(|(at, shown)| lacking(at, shown)));
    notes.extend(refused_rename);
    notes.extend((about.is_push && !succeeded).then(|| NO_REMOTE.to_owned()));
    // Writing to a string cannot fail.
    let _ = write!(text, "[{}]", notes.join("; "));
    match failed {
        None => Ok(ToolOutput::text(text)),
        Some(code) => Err(ToolFailure { code, text }),
    }
}

/// What to do about a directory that the kernel refuses to rename in a workspace.
fn refused_rename(renamed: RenamedDirs) -> Option<String> {
    let which = match renamed {
        RenamedDirs::All => return None,
        RenamedDirs::ShortPaths => {
            format!(
                "a directory that was there at the start cannot be moved to another directory in this workspace if its path \
                 is longer than {REDIRECT_MAX_BYTES} bytes"
            )
        }
        RenamedDirs::None => {
            "a directory that was there at the start cannot be renamed in this workspace".to_owned()
        }
    };
    Some(format!("{which} (`EXDEV`): use `mv`, which copies it, and then `git add -A`"))
}

/// Whether the output of a failed command says that the kernel refused to rename a directory.
fn tells_of_a_refused_rename(output: &str) -> bool {
    // Go begins the same words with a small letter, and another C library leaves out the first.
    let output = output.replace("Cross-device", "cross-device");
    REFUSED_RENAME_PRINTED.iter().any(|words| output.contains(words))
}

/// The same where that is less likely, as for a command that succeeded, of which an earlier part may have failed. What it
/// prints may be about anything, so only whole messages of programs count.
fn tells_of_an_earlier_refused_rename(output: &str) -> bool {
    output.lines().any(|line| line.ends_with(": Invalid cross-device link"))
}

fn over_disk_limit(max_bytes: u64) -> String {
    format!(
        "the files of this run take more than {} MB on disk, which is all it has (`workspace.max_run_mb`): remove what is \
         not needed, or tell a person to raise it",
        max_bytes >> 20
    )
}

/// The note about a cache directory that is not fully usable.
fn lacking(at: &Path, shown: &CacheShown) -> Option<String> {
    let at = at.display();
    match shown {
        CacheShown::Overlay => None,
        CacheShown::ReadOnly(why) => Some(format!("`{at}` could only be read: {why}")),
        CacheShown::Absent(why) => Some(format!("the project's `{at}` was not there: {why}")),
    }
}

/// The output, with a note where a part is omitted.
fn shown(output: &CapturedOutput) -> String {
    let mut text = readable(&output.head, false);
    if output.left_out() > 0 {
        end_line(&mut text);
        let left_out = output.left_out();
        let _ = write!(text, "[{left_out} bytes left out");
        match &output.spill {
            Some(spill) => {
                let name = spill.path.file_name().unwrap_or_default().to_string_lossy();
                let _ = write!(
                    text,
                    "; read lines of it with `read` and the path `{PREFIX}{name}`, or use {OUTPUTS_SHOWN_AT}/{name} in \
                     a command"
                );
                if spill.bytes < output.total {
                    let _ =
                        write!(text, "; only the first {} of {} bytes were kept", spill.bytes, output.total);
                }
            }
            None => text.push_str("; they were not kept"),
        }
        text.push_str("]\n");
        text.push_str(&readable(&output.tail, true));
    }
    end_line(&mut text);
    text
}

fn end_line(text: &mut String) {
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
}

/// Text from arbitrary bytes that may begin or end within a character.
fn readable(bytes: &[u8], cut_before: bool) -> String {
    let continues = |byte: &u8| byte & 0b1100_0000 == 0b1000_0000;
    // Skips the rest of a character that was cut.
    let skip = if cut_before { bytes.iter().take(3).take_while(|byte| continues(byte)).count() } else { 0 };
    String::from_utf8_lossy(&bytes[skip..]).into_owned()
}

fn name_of(signal: i32) -> &'static str {
    match signal {
        2 => " (interrupt)",
        6 => " (abort)",
        9 => " (kill)",
        11 => " (segmentation fault)",
        13 => " (broken pipe)",
        15 => " (terminate)",
        25 => " (file size limit)",
        31 => " (refused system call)",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::sync::Arc;

    use posse_domain::contract::ExecutionContext;
    use posse_domain::hash::Hash;
    use posse_domain::permission::{Approvals, PathRules};
    use posse_engine::ports::{CallFiles, SeenFiles, StopSignal};
    use serde_json::json;

    use super::*;

    #[derive(Debug)]
    struct NoView;

    impl SeenFiles for NoView {
        fn seen(&self, _: &str) -> Option<Hash> {
            None
        }

        fn note(&self, _: &str, _: Hash) {}
    }

    fn call(workspace: &Path) -> CallContext {
        CallContext {
            agent: "k3f9ab2c".parse().expect("an id"),
            context: Arc::new(ExecutionContext::default()),
            call_id: "c1".into(),
            workspace: Arc::new(workspace.to_owned()),
            files: CallFiles::Folder,
            seen: Arc::new(NoView),
            rules: PathRules::default(),
            approvals: Approvals::none(),
            network: false,
            limit: Duration::from_mins(1),
            idle: Duration::MAX,
            stop: StopSignal::never(),
            skills: Arc::default(),
        }
    }

    #[test]
    fn a_directory_is_understood_as_programs_see_it_and_as_it_is() {
        let top = tempfile::tempdir().expect("a directory");
        fs::create_dir_all(top.path().join("sub/workspace")).expect("made");
        let call = call(top.path());
        let own = WorkspaceView::default();
        let in_folder = WorkspaceView { in_folder: true, ..WorkspaceView::default() };
        let dirs: Dirs = Arc::new(posse_files::PlainDirs);
        let at = |view: &WorkspaceView, workdir: &str| {
            wanted(&dirs, &call, view, json!({"command": "true", "workdir": workdir}))
                .map(|wanted| wanted.workdir)
        };
        let real = |name: &str| top.path().join(name).display().to_string();
        for workdir in ["sub", "/workspace/sub", &real("sub")] {
            assert_eq!(at(&own, workdir).expect(workdir), top.path().join("sub"));
        }
        for workdir in ["", ".", "/workspace", "/workspace/", &real("")] {
            let found = at(&own, workdir).expect(workdir);
            assert_eq!(found.canonicalize().expect("there"), top.path().canonicalize().expect("there"));
        }
        for workdir in ["/workspaces/sub", "/workspace/../sub", "/workspace/none", "/etc", "../x"] {
            assert!(at(&own, workdir).is_err(), "{workdir}");
        }
        assert!(at(&in_folder, "/workspace/sub").is_err(), "in the folder it is another directory");
    }

    #[test]
    fn a_command_sees_a_workspace_at_its_fixed_path_and_a_folder_where_it_is_without_changing_it() {
        let call = call(Path::new("/state/files"));
        let objects = Some(PathBuf::from("/state/objects"));
        let own = WorkspaceView { objects, ..WorkspaceView::default() };
        let command = own.command(Vec::new(), &call);
        assert_eq!((command.read_only, command.shown_as.as_path()), (false, Path::new("/workspace")));
        let shown = (PathBuf::from("/state/objects"), PathBuf::from("/run/posse/objects"));
        assert_eq!(command.shown, [shown]);
        let in_folder = WorkspaceView { in_folder: true, ..WorkspaceView::default() };
        let command = in_folder.command(Vec::new(), &call);
        assert_eq!((command.read_only, command.shown_as), (true, PathBuf::from("/state/files")));
    }

    #[test]
    fn a_cache_that_is_less_than_it_could_be_is_told() {
        let at = Path::new("target");
        assert_eq!(lacking(at, &CacheShown::Overlay), None);
        let read_only = lacking(at, &CacheShown::ReadOnly("why".to_owned())).expect("a note");
        assert_eq!(read_only, "`target` could only be read: why");
        let absent = lacking(at, &CacheShown::Absent("why".to_owned())).expect("a note");
        assert_eq!(absent, "the project's `target` was not there: why");
    }

    #[test]
    fn a_refused_rename_is_recognised_in_the_words_of_several_languages() {
        for printed in [
            "fatal: renaming 'one' failed: Invalid cross-device link",
            "OSError: [Errno 18] Invalid cross-device link: 'one' -> 'two'",
            "Error: EXDEV: cross-device link not permitted, rename 'one' -> 'two'",
            "rename one two: invalid cross-device link",
            "mv: can't rename 'one': Cross-device link",
        ] {
            assert!(tells_of_a_refused_rename(printed), "{printed}");
        }
        for printed in ["", "fatal: bad source, source=one", "[Errno 2] No such file or directory"] {
            assert!(!tells_of_a_refused_rename(printed), "{printed}");
        }
        let earlier = "fatal: renaming 'one' failed: Invalid cross-device link\nthree\n";
        assert!(tells_of_an_earlier_refused_rename(earlier));
        for printed in ["errno.md:18 EXDEV", "grep: the words Invalid cross-device link are in notes.md"] {
            assert!(!tells_of_an_earlier_refused_rename(printed), "{printed}");
        }
    }
}
