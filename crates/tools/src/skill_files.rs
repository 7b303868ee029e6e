//! Access to files of skills by the skill's name. They are read-only.

use std::path::PathBuf;
use std::sync::Arc;

use posse_domain::code::Code;
use posse_domain::nearest::some_of;
use posse_domain::skill::SKILL_NAME_MAX;
use posse_domain::text::shorten;
use posse_engine::ports::{CallContext, CallFiles, ToolFailure};
use posse_files::{FileError, PathProblem, RelPath};

use crate::input::Check;
use crate::space::{SHOWN_PATH_MAX_CHARS, failure};

pub(crate) use posse_domain::skill::SKILL_FILES as OF_SKILL;

/// A path in the folder of a skill.
pub(crate) struct OfSkill {
    pub(crate) name: String,
    /// The path relative to the folder.
    pub(crate) path: RelPath,
    /// The project of the skill. Files that git ignores there do not belong to the skill.
    pub(crate) project: Option<PathBuf>,
}

/// The call's context for the folder of a skill that the agent may use, and the path in it.
pub(crate) fn of_skill(
    check: Check,
    call: &CallContext,
    rest: &str,
) -> Result<(CallContext, OfSkill), ToolFailure> {
    let (name, file) = rest.split_once('/').unwrap_or((rest, ""));
    // Names of skills ignore case.
    let found = call.skills.get_key_value(name);
    let found = found.or_else(|| call.skills.get_key_value(&name.to_ascii_lowercase()));
    let Some((name, dir)) = found else {
        let name = shorten(name, SKILL_NAME_MAX);
        let known = match some_of(call.skills.keys()) {
            names if names.is_empty() => "there are none".to_owned(),
            names => format!("there are: {names}"),
        };
        let text = format!("There is no skill `{name}` with files that you may read; {known}.");
        return Err(ToolFailure { code: Code::UnknownSkill, text });
    };
    // Rules name the skill's files by the skill's name, not like files of the workspace.
    let rules = call.rules.beneath(&format!("{}/{name}", OF_SKILL.trim_end_matches('/')));
    let workspace = Arc::new(dir.path.clone());
    let call = CallContext { workspace, files: CallFiles::Folder, rules, ..call.clone() };
    let path = path_in(check, name, file)?;
    Ok((call, OfSkill { name: name.clone(), path, project: dir.project.clone() }))
}

/// Parses a path in the folder of a skill.
fn path_in(check: Check, skill: &str, file: &str) -> Result<RelPath, ToolFailure> {
    if file.is_empty() {
        return Ok(RelPath::root());
    }
    RelPath::parse(file).map_err(|problem| match problem {
        PathProblem::Absolute | PathProblem::Home | PathProblem::Outside => outside(skill, file),
        problem => check.field("path", problem.to_string()),
    })
}

fn outside(skill: &str, file: &str) -> ToolFailure {
    let file = shorten(file, SHOWN_PATH_MAX_CHARS);
    let text =
        format!("`{OF_SKILL}{skill}/{file}` is outside the folder of the skill, which nothing leaves.");
    ToolFailure { code: Code::PermissionDenied, text }
}

/// Converts an error about a file of a skill to a failure for the model, with advice.
pub(crate) fn failure_in(skill: &str, error: &FileError) -> ToolFailure {
    match error {
        FileError::NotFound { path } => ToolFailure::failed(format!(
            "`{OF_SKILL}{skill}/{path}` does not exist. Use `list` with `{OF_SKILL}{skill}` to find out what there is."
        )),
        FileError::Outside { path } => outside(skill, &path.text()),
        error => failure(error),
    }
}

/// Refuses a path of a skill where a path of the workspace is expected.
pub(crate) fn not_of_skill(field: &str, check: Check, text: &str) -> Result<(), ToolFailure> {
    if text.trim_start_matches("./").to_ascii_lowercase().starts_with(OF_SKILL) {
        let problem = format!("begins with `{OF_SKILL}`: only `read` and `list` take files of skills");
        return Err(check.field(field, problem));
    }
    Ok(())
}
