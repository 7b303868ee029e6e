//! `list`: lists the entries of a directory.

use futures::future::BoxFuture;
use posse_domain::event::EffectClass;
use posse_engine::ports::{CallContext, EffectTool, PreparedEffect, Tool, ToolFailure, ToolOutput};
use posse_files::{DirEntry, FileKind, Listing, RelPath};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;
use std::time::Duration;

use crate::answer::{Answer, count};
use crate::input::{Check, parse};
use crate::skill_files::{OF_SKILL, OfSkill, failure_in, of_skill};
use crate::space::{Dirs, LOOK_TIMEOUT, blocking, failure, inspect, optional_path, optional_path_specifier};
use crate::spec::{Parts, effect};

const NAME: &str = "list";

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Input {
    /// The directory, relative to the workspace, or `skill://NAME/DIR`. Default: the workspace itself.
    path: Option<String>,
}

pub(crate) fn tool(dirs: Dirs) -> Tool {
    let parts = Parts {
        name: NAME,
        class: EffectClass::Read,
        text: include_str!("list.md"),
        specifier: optional_path_specifier,
    };
    effect::<Input>(&parts, List(dirs))
}

struct List(Dirs);

impl EffectTool for List {
    fn prepare(
        &self,
        call: CallContext,
        input: Value,
    ) -> BoxFuture<'static, Result<PreparedEffect, ToolFailure>> {
        let dirs = self.0.clone();
        Box::pin(async move {
            let input: Input = parse(NAME, input)?;
            let (check, wanted) = (Check::of(NAME), input.path.as_deref());
            let (call, place) = if let Some(rest) = wanted.and_then(|path| path.strip_prefix(OF_SKILL)) {
                let (call, skill) = of_skill(check, &call, rest)?;
                (call, ListRoot::Skill(skill))
            } else {
                let path = optional_path(check, &call, wanted)?;
                (call, ListRoot::Workspace(path))
            };
            Ok(inspect(async move {
                let dir = call.workspace.clone();
                blocking(&dirs, &call, NAME, move |beneath, _| {
                    let listing = match &place {
                        ListRoot::Skill(OfSkill { path, project: Some(project), .. }) => {
                            beneath.list_of_project(path, &dir, project)
                        }
                        ListRoot::Skill(OfSkill { path, .. }) | ListRoot::Workspace(path) => {
                            beneath.list(path)
                        }
                    };
                    let said = |error| match &place {
                        ListRoot::Skill(skill) => failure_in(&skill.name, &error),
                        ListRoot::Workspace(_) => failure(&error),
                    };
                    Ok(answer(&place, &listing.map_err(said)?))
                })
                .await
            }))
        })
    }

    fn timeout(&self, _: &Value) -> Option<Duration> {
        Some(LOOK_TIMEOUT)
    }
}

/// The directory that is listed.
enum ListRoot {
    Workspace(RelPath),
    Skill(OfSkill),
}

/// The entries of a directory, with paths as other tools accept them.
fn answer(place: &ListRoot, listing: &Listing) -> ToolOutput {
    let (before, path, all) = match place {
        ListRoot::Workspace(path) => (String::new(), path, ": use `glob`"),
        ListRoot::Skill(OfSkill { name, path, .. }) => (format!("{OF_SKILL}{name}/"), path, ""),
    };
    let mut answer = Answer::default();
    let shown = listing.entries.iter();
    let shown = shown.take_while(|entry| answer.line(&format!("{before}{}", line(entry)))).count();
    let more = listing.more + listing.entries.len() - shown;
    let mut notes = vec![match (shown, more) {
        (0, 0) => format!("`{before}{path}` is empty"),
        (_, 0) => count(shown, "entry"),
        _ => format!("{}, and at least {more} more that are not shown{all}", count(shown, "entry")),
    }];
    if listing.ignored > 0 {
        notes.push(format!("{} left out by ignore files", listing.ignored));
    }
    answer.close(&notes)
}

fn line(entry: &DirEntry) -> String {
    let path = &entry.path;
    match (entry.kind, entry.bytes) {
        (FileKind::Directory, _) => format!("{path}/"),
        (FileKind::Regular, Some(bytes)) => format!("{path} ({bytes} bytes)"),
        (FileKind::Regular, None) => path.to_string(),
        (kind, _) => format!("{path} ({kind})"),
    }
}
