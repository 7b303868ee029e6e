//! Reaching the workspace of a call.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use posse_domain::code::Code;
use posse_domain::permission::PathRules;
use posse_engine::ports::{CallContext, PreparedEffect, ToolFailure, ToolResult, WORKSPACE_SHOWN_AT};
use posse_files::{DirHandle, FileError, FileKind, Gate, PathProblem, RelPath, Stop, spelled};
use serde_json::Value;

use crate::input::{Check, shorten};
use crate::skill_files::not_of_skill;

/// How long a call that only looks may take. A disk that does not answer must not hold an agent for ever.
pub(crate) const LOOK_TIMEOUT: Duration = Duration::from_mins(1);

/// Longest part of a path that is repeated in an answer.
pub(crate) const SHOWN_PATH_MAX_CHARS: usize = 200;

/// Reads a path of the input.
pub(crate) fn path(check: Check, call: &CallContext, text: &str) -> Result<RelPath, ToolFailure> {
    path_named("path", check, call, text)
}

/// Reads a path of the input that has another name there.
pub(crate) fn path_named(
    field: &str,
    check: Check,
    call: &CallContext,
    text: &str,
) -> Result<RelPath, ToolFailure> {
    not_of_skill(field, check, beneath(call, text))?;
    RelPath::parse(beneath(call, text)).map_err(|problem| refusal(field, check, call, text, problem))
}

/// A path without the name that programs know the workspace by: compilers print whole paths.
fn beneath<'a>(call: &CallContext, text: &'a str) -> &'a str {
    if !call.isolated {
        return text;
    }
    match text.strip_prefix(WORKSPACE_SHOWN_AT) {
        Some("" | "/") => ".",
        // By whole names, so that a directory whose name merely begins alike is not meant.
        Some(rest) => rest.strip_prefix('/').unwrap_or(text),
        None => text,
    }
}

/// Reads a path that may be left out, which means the workspace itself.
pub(crate) fn optional_path(
    check: Check,
    call: &CallContext,
    text: Option<&str>,
) -> Result<RelPath, ToolFailure> {
    match text {
        // Models that must say something for every field say this.
        None | Some("") => Ok(RelPath::root()),
        Some(text) => path(check, call, text),
    }
}

fn refusal(field: &str, check: Check, call: &CallContext, text: &str, problem: PathProblem) -> ToolFailure {
    let shown = shorten(text, SHOWN_PATH_MAX_CHARS);
    match problem {
        PathProblem::Empty => check.field(field, "is empty: give a path relative to the workspace"),
        PathProblem::Absolute => match inside(&call.workspace, text) {
            Some(inside) => check.field(field, format!("must be relative to the workspace: `{inside}`")),
            None => outside(&shown),
        },
        PathProblem::Home | PathProblem::Outside => outside(&shown),
        PathProblem::Nul | PathProblem::TooLong => check.field(field, problem.to_string()),
    }
}

/// What an absolute path would be if it were given as it should.
fn inside(workspace: &Path, text: &str) -> Option<RelPath> {
    // By whole names, so that a directory whose name merely begins alike is not meant.
    let inside = Path::new(text).strip_prefix(workspace).ok()?;
    RelPath::parse(inside.to_str()?).ok()
}

fn outside(shown: &str) -> ToolFailure {
    let text = format!(
        "`{shown}` is outside the workspace. Paths are relative to the workspace and cannot leave it."
    );
    ToolFailure { code: Code::PermissionDenied, text }
}

/// Says a file error to a model, with what to do about it.
pub(crate) fn failure(error: &FileError) -> ToolFailure {
    let code = match error {
        FileError::Outside { .. } | FileError::Protected { .. } | FileError::Refused { .. } => {
            Code::PermissionDenied
        }
        FileError::BadGlob { .. } | FileError::BadRegex { .. } => Code::InvalidInput,
        FileError::Stopped => Code::Cancelled,
        _ => Code::ToolError,
    };
    let advice = match error {
        FileError::NotFound { .. } => " Use `glob` or `list` to find out what there is.",
        FileError::NotRegular { kind: FileKind::Directory, .. } => " Use `list` to see what is in it.",
        FileError::TooLarge { .. } => " Use `grep` to find the part you need.",
        FileError::Link { .. } => " Use the path that it leads to.",
        FileError::Changed { .. } => " Nothing was written. Read it again before you change it.",
        FileError::BadRegex { .. } => " Escape characters that are meant literally with `\\`.",
        _ => "",
    };
    ToolFailure { code, text: format!("{}.{advice}", capital(&error.to_string())) }
}

fn capital(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map(|first| first.to_uppercase().collect::<String>() + chars.as_str()).unwrap_or_default()
}

/// The tools whose answers tell what is in a file.
const SHOW_CONTENT: [&str; 3] = ["read", "grep", "edit"];

/// The rules of a call, as file work asks for them; none where they allow everything.
pub(crate) fn gate(call: &CallContext, tool: &'static str) -> Option<Arc<dyn Gate>> {
    let rules = call.rules.clone();
    (!rules.allow_everything()).then(|| Arc::new(ToolGate { rules, tool }) as Arc<dyn Gate>)
}

/// What the rules say of the paths that one tool comes upon.
#[derive(Debug)]
struct ToolGate {
    rules: PathRules,
    tool: &'static str,
}

impl ToolGate {
    fn ask(&self, tool: &str, path: &RelPath) -> Result<(), String> {
        let path = path.text();
        match self.rules.refusal(tool, &path) {
            Some(verdict) => Err(format!("`{tool}:{}` is not allowed ({verdict})", self.rules.named(&path))),
            None => Ok(()),
        }
    }
}

impl Gate for ToolGate {
    fn enter(&self, dir: &RelPath) -> Result<(), String> {
        self.ask(self.tool, dir)
    }

    fn open(&self, file: &RelPath) -> Result<(), String> {
        self.ask(self.tool, file)?;
        // Whatever the tool is called: who shows what is in a file reads it.
        if self.tool != "read" && SHOW_CONTENT.contains(&self.tool) { self.ask("read", file) } else { Ok(()) }
    }
}

/// Does file work for a tool on a thread that may block. If nobody waits for it any more, it is asked to stop.
pub(crate) async fn blocking<T: Send + 'static>(
    call: &CallContext,
    tool: &'static str,
    work: impl FnOnce(&DirHandle, &Stop) -> Result<T, ToolFailure> + Send + 'static,
) -> Result<T, ToolFailure> {
    let workspace = call.workspace.clone();
    let gate = gate(call, tool);
    let stop = Stop::new();
    let _asks_to_stop = StopOnDrop(stop.clone());
    let done = tokio::task::spawn_blocking(move || {
        let beneath = DirHandle::open(&workspace).map_err(|error| failure(&error))?;
        work(&beneath.guarded(gate), &stop)
    });
    done.await.unwrap_or_else(|_| Err(ToolFailure::failed("The tool broke down. This is a defect of Posse.")))
}

struct StopOnDrop(Stop);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.stop();
    }
}

/// A call that only looks, ready to run.
pub(crate) fn inspect(run: impl Future<Output = ToolResult> + Send + 'static) -> PreparedEffect {
    PreparedEffect { write: None, sandbox: None, run: Box::new(|| Box::pin(run)) }
}

/// What a permission rule is asked about: the input's path in its one spelling.
pub(crate) fn path_specifier(input: &Value) -> Option<String> {
    Some(spelled(input.get("path")?.as_str()?))
}

/// The same where the path may be left out.
pub(crate) fn optional_path_specifier(input: &Value) -> Option<String> {
    match input.get("path") {
        None | Some(Value::Null) => Some(spelled("")),
        Some(path) => path.as_str().map(spelled),
    }
}
