//! `read`: reads a text file, some lines of it, or an image.

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use futures::future::BoxFuture;
use posse_domain::code::Code;
use posse_domain::event::EffectClass;
use posse_domain::hash::Hash;
use posse_domain::message::Image;
use posse_domain::text::shorten;
use posse_engine::ports::{
    CallContext, EffectTool, PreparedEffect, RunRecords, Tool, ToolFailure, ToolOutput, ToolResult,
};
use posse_files::{FileError, RelPath, is_binary, line_range};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::answer::{Answer, count};
use crate::input::{Check, parse};
use crate::outputs::{self, OUTPUTS_SHOWN_AT, PREFIX};
use crate::picture::{PICTURE_MAX_BYTES, PICTURE_MAX_SIDE, Picture};
use crate::skill_files::{OF_SKILL, failure_in, of_skill};
use crate::space::{Dirs, LOOK_TIMEOUT, blocking, failure, inspect, path, path_specifier, read_filter};
use crate::spec::{Parts, effect};

const NAME: &str = "read";

/// Maximum number of lines in one answer.
const LINES_MAX: usize = 2_000;
/// Maximum length of a shown line.
const LINE_MAX_CHARS: usize = 2_000;
/// Maximum size of a file that is read on the caller's thread, if it is in the page cache. Such a read takes about as
/// long as handing it to another thread.
const INLINE_MAX_BYTES: usize = 64 * 1024;

/// File extensions of images.
const PICTURES: [&str; 10] = ["png", "jpg", "jpeg", "gif", "webp", "bmp", "ico", "tif", "tiff", "avif"];

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Input {
    /// The file, relative to the workspace, or `skill://NAME/PATH`.
    path: String,
    /// The first line to show; the first line of a file is 1. Default 1.
    offset: Option<usize>,
    /// How many lines to show. Default and most: 2000.
    limit: Option<usize>,
}

/// The tool, which also reads kept outputs if there are records.
pub(crate) fn tool(dirs: Dirs, records: Option<Arc<dyn RunRecords>>) -> Tool {
    let parts = Parts {
        name: NAME,
        class: EffectClass::Read,
        text: include_str!("read.md"),
        specifier: path_specifier,
    };
    effect::<Input>(&parts, Read { dirs, records })
}

struct Read {
    dirs: Dirs,
    records: Option<Arc<dyn RunRecords>>,
}

/// A validated request: the file and the lines.
struct ReadRequest {
    path: RelPath,
    first: usize,
    lines: usize,
    whose: FileOwner,
}

/// What a file belongs to.
enum FileOwner {
    /// The workspace. The agent may change a file after it has seen it.
    Workspace,
    /// A skill. Files that git ignores in its project are not read.
    Skill { name: String, project: Option<PathBuf> },
}

impl FileOwner {
    fn failure(&self, error: &FileError) -> ToolFailure {
        match self {
            Self::Workspace => failure(error),
            Self::Skill { name, .. } => failure_in(name, error),
        }
    }
}

impl EffectTool for Read {
    fn prepare(
        &self,
        call: CallContext,
        input: Value,
    ) -> BoxFuture<'static, Result<PreparedEffect, ToolFailure>> {
        let (dirs, records) = (self.dirs.clone(), self.records.clone());
        Box::pin(async move {
            let check = Check::of(NAME);
            let Input { path: text, offset, limit } = parse(NAME, input)?;
            let first = check.at_least_one("offset", offset)?.unwrap_or(1);
            let lines = check.at_least_one("limit", limit)?.unwrap_or(LINES_MAX).min(LINES_MAX);
            if let Some(name) = text.strip_prefix(PREFIX) {
                let file = match &records {
                    Some(records) => outputs::find(&**records, &call.agent, name).await,
                    None => Ok(None),
                };
                let file = file.map_err(|error| ToolFailure::failed(error.to_string()))?;
                let file = file.ok_or_else(|| no_such_output(name))?;
                return Ok(inspect(read_output(file, name.to_owned(), first, lines)));
            }
            if let Some(rest) = text.strip_prefix(OF_SKILL) {
                let (call, skill) = of_skill(check, &call, rest)?;
                if skill.path.is_root() {
                    let problem = format!(
                        "names no file of the skill: write `{OF_SKILL}{}/PATH`; `list` shows what there is",
                        skill.name
                    );
                    return Err(check.field("path", problem));
                }
                let whose = FileOwner::Skill { name: skill.name, project: skill.project };
                return Ok(inspect(read_file(
                    dirs,
                    call,
                    ReadRequest { path: skill.path, first, lines, whose },
                )));
            }
            let wanted =
                ReadRequest { path: path(check, &call, &text)?, first, lines, whose: FileOwner::Workspace };
            Ok(inspect(read_file(dirs, call, wanted)))
        })
    }

    fn timeout(&self, _: &Value) -> Option<Duration> {
        Some(LOOK_TIMEOUT)
    }
}

/// Some lines of a kept output.
async fn read_output(file: PathBuf, name: String, first: usize, count: usize) -> ToolResult {
    let read = tokio::task::spawn_blocking(move || outputs::lines(&file, first, count, LINE_MAX_CHARS));
    let read = read.await.map_err(|error| ToolFailure::failed(error.to_string()))?;
    let read =
        read.map_err(|error| ToolFailure::failed(format!("`{PREFIX}{name}` cannot be read: {error}.")))?;
    if read.shown.is_empty() {
        let problem =
            format!("is {first}, but `{PREFIX}{name}` has only {}", self::count(read.total, "line"));
        return Err(Check::of(NAME).field("offset", problem));
    }
    let mut answer = Answer::default();
    let numbered = (first..).zip(&read.shown);
    let shown = numbered.take_while(|(number, line)| answer.line(&format!("{number}\t{line}"))).count();
    let mut notes = vec![position(first, shown, read.total)];
    if read.cut {
        let kept = format!("{OUTPUTS_SHOWN_AT}/{name}");
        notes.push(format!("lines are cut: `cut -c 2001-4000 {kept}` in a command shows more of one"));
    }
    Ok(answer.close(&notes))
}

fn no_such_output(name: &str) -> ToolFailure {
    let name = shorten(name, 80);
    ToolFailure::failed(format!(
        "There is no output `{PREFIX}{name}` of yours. An answer that was cut says its name."
    ))
}

async fn read_file(dirs: Dirs, call: CallContext, wanted: ReadRequest) -> ToolResult {
    // Git's ignore rules have to be read, which may wait for a disk.
    if !matches!(wanted.whose, FileOwner::Skill { project: Some(_), .. })
        && let Some(bytes) = read_from_memory(&dirs, &call, &wanted)?
    {
        return answer(&call, &wanted, &bytes);
    }
    let context = call.clone();
    blocking(&dirs, &call, NAME, move |beneath, _| {
        let bytes = match &wanted.whose {
            FileOwner::Skill { project: Some(project), .. } => {
                beneath.read_of_project(&wanted.path, &context.workspace, project)
            }
            FileOwner::Workspace | FileOwner::Skill { .. } => beneath.read(&wanted.path),
        };
        let bytes = bytes.map_err(|error| wanted.whose.failure(&error))?;
        answer(&context, &wanted, &bytes)
    })
    .await
}

/// Reads a small file without blocking. None if that is not possible.
fn read_from_memory(
    dirs: &Dirs,
    call: &CallContext,
    wanted: &ReadRequest,
) -> Result<Option<Vec<u8>>, ToolFailure> {
    let beneath = dirs.open_cached(&call.workspace).map_err(|error| failure(&error))?;
    let filtered = beneath.map(|beneath| beneath.with_read_filter(read_filter(call, NAME)));
    let bytes = filtered.map(|beneath| beneath.read_cached(&wanted.path, INLINE_MAX_BYTES)).transpose();
    Ok(bytes.map_err(|error| wanted.whose.failure(&error))?.flatten())
}

/// Shows the lines, and records the content that the agent has seen.
fn answer(call: &CallContext, wanted: &ReadRequest, bytes: &[u8]) -> ToolResult {
    let output = match (is_binary(bytes), Picture::of(bytes)) {
        (false, _) => lines(wanted, bytes)?,
        (true, Some(picture)) => shown(&wanted.path, picture, bytes)?,
        (true, None) => return Err(not_text(&wanted.path, bytes.len())),
    };
    if matches!(wanted.whose, FileOwner::Workspace) {
        call.seen.note(&wanted.path.text(), Hash::of(bytes));
    }
    Ok(output)
}

/// An image with its description in words.
fn shown(path: &RelPath, picture: Picture, bytes: &[u8]) -> ToolResult {
    let Picture { media_type, width, height } = picture;
    let what = format!(
        "`{path}` is a picture: {}, {width} x {height}, {} bytes.",
        picture.media_type(),
        bytes.len()
    );
    if bytes.len() > PICTURE_MAX_BYTES {
        let problem = format!(
            "{what} Only pictures of at most {PICTURE_MAX_BYTES} bytes can be shown: make it smaller."
        );
        return Err(unsupported(problem));
    }
    if width.max(height) > PICTURE_MAX_SIDE {
        let problem = format!(
            "{what} Only pictures of at most {PICTURE_MAX_SIDE} pixels a side can be shown: make it smaller."
        );
        return Err(unsupported(problem));
    }
    let image = Image { media_type, base64: BASE64.encode(bytes).into() };
    Ok(ToolOutput { images: vec![image], ..ToolOutput::text(what) })
}

fn unsupported(text: String) -> ToolFailure {
    ToolFailure { code: Code::Unsupported, text }
}

fn not_text(path: &RelPath, bytes: usize) -> ToolFailure {
    let name = path.text().to_ascii_lowercase();
    let ending = name.rsplit_once('.').map_or("", |(_, ending)| ending);
    if PICTURES.contains(&ending) {
        return unsupported(format!(
            "`{path}` ({bytes} bytes) is no picture that can be shown: only whole PNG, JPEG, GIF and WebP files are."
        ));
    }
    ToolFailure::failed(format!("`{path}` is a binary file ({bytes} bytes). Only text can be read."))
}

fn lines(wanted: &ReadRequest, bytes: &[u8]) -> ToolResult {
    let range = line_range(bytes, wanted.first, wanted.lines);
    if range.total == 0 {
        return Ok(ToolOutput::text(format!("`{}` is empty.", wanted.path)));
    }
    if range.lines.is_empty() {
        let problem =
            format!("is {}, but `{}` has only {}", wanted.first, wanted.path, count(range.total, "line"));
        return Err(Check::of(NAME).field("offset", problem));
    }
    let mut answer = Answer::default();
    let mut shown = 0;
    for line in &range.lines {
        let text = String::from_utf8_lossy(line);
        if !answer.line(&format!("{}\t{}", wanted.first + shown, shorten(&text, LINE_MAX_CHARS))) {
            break;
        }
        shown += 1;
    }
    let mut notes = vec![position(wanted.first, shown, range.total)];
    if bytes.windows(2).any(|pair| pair == b"\r\n") {
        notes.push("lines end with CRLF".to_owned());
    }
    if str::from_utf8(bytes).is_err() {
        notes.push("not all of it is UTF-8: other bytes are shown as \u{fffd}".to_owned());
    }
    Ok(answer.close(&notes))
}

/// States which lines are shown and how to continue.
fn position(first: usize, shown: usize, total: usize) -> String {
    let last = first + shown - 1;
    match (first, last == total) {
        (1, true) => format!("end of file, {}", count(total, "line")),
        (_, true) => format!("end of file, lines {first} to {last} of {total}"),
        (_, false) => format!("lines {first} to {last} of {total}; go on with offset {}", last + 1),
    }
}
