//! Lists the files of a search directory that may be definitions or skills, by their names alone.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Dir, FileType};

use super::reach::SearchScope;
use super::{DIR_MAX_ENTRIES, DefinitionType, Form, PLACE_MAX_FILES, SearchDir, SkipReason};

/// The file that makes a folder a skill.
const SKILL_FILE: &str = "SKILL.md";
/// Files that users often keep beside definitions, in any case. They are not definitions.
const NO_DEFINITIONS: [&str; 6] =
    ["readme.md", "agents.md", "claude.md", "changelog.md", "contributing.md", "license.md"];

/// A file to read.
#[derive(Debug)]
pub(super) struct Candidate {
    pub(super) place: usize,
    pub(super) path: PathBuf,
    pub(super) form: Form,
}

struct Entry {
    name: OsString,
    kind: FileType,
}

/// The files of a search directory, sorted by path. Unreadable entries are reported to `pass_over`.
pub(super) fn candidates(
    place: &SearchDir,
    reach: &SearchScope,
    mut pass_over: impl FnMut(PathBuf, SkipReason),
) -> Vec<Candidate> {
    let mut found = Vec::new();
    for entry in entries(&place.dir, reach, &mut pass_over) {
        let path = place.dir.join(&entry.name);
        match (place.holds, form(place.holds, &entry.name)) {
            (_, Some(form)) if entry.kind != FileType::Directory => found.push((path, form)),
            (DefinitionType::Agents, _) if entry.kind == FileType::Directory => {
                let inside = entries(&path, reach, &mut pass_over);
                let inside = inside.iter().filter(|inside| inside.kind != FileType::Directory);
                let inside =
                    inside.filter_map(|inside| Some((&inside.name, form(place.holds, &inside.name)?)));
                found.extend(inside.map(|(name, form)| (path.join(name), form)));
            }
            // A link may lead to a folder. If it does not, it has no such file.
            (DefinitionType::Skills, _) if may_be_folder(entry.kind) => {
                found.push((path.join(SKILL_FILE), Form::SkillFolder));
            }
            _ => {}
        }
    }
    found.sort_by(|one, other| one.0.cmp(&other.0));
    if found.len() > PLACE_MAX_FILES {
        found.truncate(PLACE_MAX_FILES);
        pass_over(place.dir.clone(), SkipReason::TooMany);
    }
    found.into_iter().map(|(path, form)| Candidate { place: 0, path, form }).collect()
}

fn may_be_folder(kind: FileType) -> bool {
    matches!(kind, FileType::Directory | FileType::Symlink | FileType::Unknown)
}

/// The format of a file by its name, if it belongs to the search directory.
fn form(holds: DefinitionType, name: &OsStr) -> Option<Form> {
    let extension = Path::new(name).extension()?.to_ascii_lowercase();
    match (holds, extension.as_bytes()) {
        (DefinitionType::Agents, b"md")
            if !NO_DEFINITIONS.iter().any(|known| name.eq_ignore_ascii_case(known)) =>
        {
            Some(Form::Agent)
        }
        (DefinitionType::Skills, b"yaml" | b"yml") => Some(Form::YamlSkill),
        _ => None,
    }
}

/// The entries of a directory without hidden names. A missing directory has none.
fn entries(dir: &Path, reach: &SearchScope, pass_over: &mut impl FnMut(PathBuf, SkipReason)) -> Vec<Entry> {
    let opened = match reach.open_dir(dir) {
        Ok(Some(opened)) => opened,
        Ok(None) => return Vec::new(),
        Err(why) => {
            pass_over(dir.to_owned(), why);
            return Vec::new();
        }
    };
    let read = Dir::new(opened).map_err(|errno| SkipReason::Unreadable(errno.to_string()));
    let mut entries = Vec::new();
    let mut problem = read.as_ref().err().cloned();
    for entry in read.into_iter().flatten() {
        match entry {
            Err(errno) => problem = Some(SkipReason::Unreadable(errno.to_string())),
            Ok(_) if entries.len() == DIR_MAX_ENTRIES => problem = Some(SkipReason::TooMany),
            Ok(entry) => {
                let name = OsStr::from_bytes(entry.file_name().to_bytes());
                if !name.as_bytes().starts_with(b".") {
                    entries.push(Entry { name: name.to_owned(), kind: entry.file_type() });
                }
                continue;
            }
        }
        break;
    }
    if let Some(why) = problem {
        pass_over(dir.to_owned(), why);
    }
    entries
}
