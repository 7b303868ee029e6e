//! Accesses the workspace of a call: paths, file errors, permission rules and blocking work.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use posse_domain::code::Code;
use posse_domain::permission::PathRules;
use posse_domain::text::shorten;
use posse_engine::ports::{CallContext, PreparedEffect, ToolFailure, ToolResult, WORKSPACE_SHOWN_AT};
use posse_files::{
    DirHandle, FileError, FileKind, PathProblem, ReadFilter, RelPath, Stop, WorkspaceDirs, spelled,
};
use serde_json::Value;

use crate::input::Check;
use crate::skill_files::not_of_skill;

/// Timeout of a call that only reads. A disk that does not respond must not block an agent for ever.
pub(crate) const LOOK_TIMEOUT: Duration = Duration::from_mins(1);

/// Maximum length of a path that an answer repeats.
pub(crate) const SHOWN_PATH_MAX_CHARS: usize = 200;

/// Parses the field `path` of the input.
pub(crate) fn path(check: Check, call: &CallContext, text: &str) -> Result<RelPath, ToolFailure> {
    path_named("path", check, call, text)
}

/// Parses a path of the input in another field.
pub(crate) fn path_named(
    field: &str,
    check: Check,
    call: &CallContext,
    text: &str,
) -> Result<RelPath, ToolFailure> {
    not_of_skill(field, check, beneath(call, text))?;
    RelPath::parse(beneath(call, text)).map_err(|problem| refusal(field, check, call, text, problem))
}

/// A path without the mount point of the workspace, because compilers print absolute paths.
fn beneath<'a>(call: &CallContext, text: &'a str) -> &'a str {
    if !call.files.is_isolated() {
        return text;
    }
    match text.strip_prefix(WORKSPACE_SHOWN_AT) {
        Some("" | "/") => ".",
        // Compares whole path components, so that a directory with the same prefix does not match.
        Some(rest) => rest.strip_prefix('/').unwrap_or(text),
        None => text,
    }
}

/// Parses an optional path. Without one it is the workspace itself.
pub(crate) fn optional_path(
    check: Check,
    call: &CallContext,
    text: Option<&str>,
) -> Result<RelPath, ToolFailure> {
    match text {
        // Models that must fill every field send an empty text.
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

/// The relative path that the model should have given instead of an absolute one.
fn inside(workspace: &Path, text: &str) -> Option<RelPath> {
    // Compares whole path components, so that a directory with the same prefix does not match.
    let inside = Path::new(text).strip_prefix(workspace).ok()?;
    RelPath::parse(inside.to_str()?).ok()
}

fn outside(shown: &str) -> ToolFailure {
    let text = format!(
        "`{shown}` is outside the workspace. Paths are relative to the workspace and cannot leave it."
    );
    ToolFailure { code: Code::PermissionDenied, text }
}

/// Converts a file error to a failure for the model, with advice.
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

/// The tools whose answers show the content of a file.
const SHOW_CONTENT: [&str; 3] = ["read", "grep", "edit"];

/// The rules of a call as a filter of what its tool may read. None if they allow everything.
pub(crate) fn read_filter(call: &CallContext, tool: &'static str) -> Option<Arc<dyn ReadFilter>> {
    let rules = call.rules.clone();
    (!rules.allow_everything()).then(|| Arc::new(RuleFilter { rules, tool }) as Arc<dyn ReadFilter>)
}

/// Applies the rules to the paths that one tool reaches.
#[derive(Debug)]
struct RuleFilter {
    rules: PathRules,
    tool: &'static str,
}

impl RuleFilter {
    fn ask(&self, tool: &str, path: &RelPath) -> Result<(), String> {
        let path = path.text();
        match self.rules.refusal(tool, &path) {
            Some(verdict) => Err(format!("`{tool}:{}` is not allowed ({verdict})", self.rules.named(&path))),
            None => Ok(()),
        }
    }
}

impl ReadFilter for RuleFilter {
    fn enter(&self, dir: &RelPath) -> Result<(), String> {
        self.ask(self.tool, dir)
    }

    fn open(&self, file: &RelPath) -> Result<(), String> {
        self.ask(self.tool, file)?;
        // A tool that shows a file's content reads it, so the rules for `read` apply too.
        if self.tool != "read" && SHOW_CONTENT.contains(&self.tool) { self.ask("read", file) } else { Ok(()) }
    }
}

/// Opens the workspaces of calls.
pub(crate) type Dirs = Arc<dyn WorkspaceDirs>;

/// Runs file access of a tool on a blocking thread. If the call is dropped, the work is asked to stop.
pub(crate) async fn blocking<T: Send + 'static>(
    dirs: &Dirs,
    call: &CallContext,
    tool: &'static str,
    work: impl FnOnce(&DirHandle, &Stop) -> Result<T, ToolFailure> + Send + 'static,
) -> Result<T, ToolFailure> {
    let (dirs, workspace) = (dirs.clone(), call.workspace.clone());
    let filter = read_filter(call, tool);
    let stop = Stop::new();
    let _asks_to_stop = StopOnDrop(stop.clone());
    let done = tokio::task::spawn_blocking(move || {
        let beneath = dirs.open(&workspace).map_err(|error| failure(&error))?;
        work(&beneath.with_read_filter(filter), &stop)
    });
    done.await.unwrap_or_else(|_| Err(ToolFailure::failed("The tool broke down. This is a defect of Posse.")))
}

struct StopOnDrop(Stop);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.stop();
    }
}

/// Prepares a call that only reads.
pub(crate) fn inspect(run: impl Future<Output = ToolResult> + Send + 'static) -> PreparedEffect {
    PreparedEffect { write: None, sandbox: None, run: Box::new(|| Box::pin(run)) }
}

/// The specifier for permission rules: the normalised path of the input.
pub(crate) fn path_specifier(input: &Value) -> Option<String> {
    Some(spelled(input.get("path")?.as_str()?))
}

/// Like [`path_specifier`], for an optional path.
pub(crate) fn optional_path_specifier(input: &Value) -> Option<String> {
    match input.get("path") {
        None | Some(Value::Null) => Some(spelled("")),
        Some(path) => path.as_str().map(spelled),
    }
}
