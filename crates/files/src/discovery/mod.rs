//! Finds and reads the files of definitions and skills, and a project's instructions for agents.
//!
//! The caller decides where to search and what the files mean. This module makes the search safe and fast: everything
//! is bounded, only regular files are read, one bad file never hides another, and nothing in a project leads out of it.
//! A project that could turn a link to a private key into a prompt would have that key sent to a model.

mod candidates;
mod ignored;
mod nearest;
mod reach;

use std::convert::Infallible;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use thiserror::Error;

use crate::parallel;
use candidates::{Candidate, candidates};
pub use ignored::IgnoredFolders;
pub use nearest::{Instructions, nearest_file};
use reach::{OpenFile, SearchScope};

/// Maximum number of files that are read in one search directory.
pub const PLACE_MAX_FILES: usize = 2_000;
/// Maximum number of entries of one directory that are examined.
pub const DIR_MAX_ENTRIES: usize = 10_000;
/// How many files a thread opens before it reads the first, so that a cold disk gets many requests at once.
const AHEAD: usize = 32;
/// Maximum number of bytes of all search directories together.
pub const TOTAL_MAX_BYTES: u64 = 64 * 1024 * 1024;

/// The type of files in a search directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DefinitionType {
    /// Definitions: `*.md`, also one level of folders down.
    Agents,
    /// Skills: `<name>/SKILL.md`, and `*.yaml` or `*.yml`.
    Skills,
}

/// A directory to search.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SearchDir {
    /// The absolute path of the directory. It need not exist.
    pub dir: PathBuf,
    /// The type of files that it contains.
    pub holds: DefinitionType,
    /// The project that the directory belongs to, an absolute path without links: nothing there may lead out of it, or
    /// to files that git ignores in it. None for a directory of the user, where links may lead anywhere.
    pub within: Option<PathBuf>,
}

/// The format of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// A definition in Markdown.
    Agent,
    /// The `SKILL.md` of a skill's folder.
    SkillFolder,
    /// A skill in YAML.
    YamlSkill,
}

/// A file that was found and read.
#[derive(Debug)]
pub struct FoundFile {
    /// The index of its search directory.
    pub place: usize,
    /// The path under which it was found.
    pub path: PathBuf,
    /// The real path, if links led there. Files that belong to it are beside that path.
    pub real: PathBuf,
    /// The format of the file.
    pub form: Form,
    /// The bytes of the file.
    pub content: Vec<u8>,
}

/// A file or directory that is not used.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{}: {why}", .path.display())]
pub struct SkippedPath {
    /// The index of its search directory.
    pub place: usize,
    /// The path under which it was found.
    pub path: PathBuf,
    /// The reason for skipping it.
    pub why: SkipReason,
}

/// Why a file is not used.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum SkipReason {
    /// A link leads out of the project.
    #[error("it leads out of the project, so it is not read; put a copy in its place")]
    LeadsOut,
    /// A link leads to a file that git ignores.
    #[error("it leads to a file that git ignores, so it is not read; put a copy in its place")]
    Ignored,
    /// A link makes another folder a skill, whose files could then be read.
    #[error(
        "it leads to a folder outside the project's folders of skills, so it is not read; put a copy in its place"
    )]
    NoSkill,
    /// A link has no target.
    #[error("it is a link without a target; remove it, or restore its target")]
    LeadsNowhere,
    /// It is a directory, a pipe or another special file.
    #[error("it is not a regular file, so it is not read")]
    NotRegular,
    /// It is larger than this limit.
    #[error("it has more than the {0} bytes accepted; shorten it, or move parts into other files")]
    TooLarge(u64),
    /// All files together exceed the limit.
    #[error("all files together have more than the {TOTAL_MAX_BYTES} bytes accepted; remove some")]
    TotalTooLarge,
    /// The search directory has too many files.
    #[error("it holds more than the {PLACE_MAX_FILES} files accepted, the rest is not read; remove some")]
    TooMany,
    /// The system's error.
    #[error("it cannot be read: {0}")]
    Unreadable(String),
}

/// The result of a search.
#[derive(Debug)]
pub struct Discovery<T> {
    /// The converted files, ordered by search directory, then by path.
    pub found: Vec<T>,
    /// The skipped files, in the same order.
    pub skipped: Vec<SkippedPath>,
}

/// Searches all directories, and converts each file of at most `max_bytes` with a function. Several threads read and
/// convert files.
pub fn discover<T: Send>(
    places: &[SearchDir],
    max_bytes: u64,
    take: impl Fn(FoundFile) -> T + Sync,
) -> Discovery<T> {
    let mut skipped = Vec::new();
    let mut reaches: Vec<(Option<&Path>, SearchScope)> = Vec::new();
    let mut all: Vec<(usize, Candidate)> = Vec::new();
    for (number, place) in places.iter().enumerate() {
        let within = place.within.as_deref();
        let reach = match reaches.iter().position(|(known, _)| *known == within) {
            Some(known) => known,
            None => match SearchScope::new(within) {
                Ok(reach) => {
                    reaches.push((within, reach));
                    reaches.len() - 1
                }
                Err(why) => {
                    skipped.push(SkippedPath { place: number, path: place.dir.clone(), why });
                    continue;
                }
            },
        };
        let found = candidates(place, &reaches[reach].1, |path, why| {
            skipped.push(SkippedPath { place: number, path, why });
        });
        all.extend(found.into_iter().map(|candidate| (reach, Candidate { place: number, ..candidate })));
    }
    let total = AtomicU64::new(0);
    let read = parallel::map_chunks(all.len(), AHEAD, |chunk| {
        let chunk = &all[chunk];
        let open =
            |(reach, candidate): &(usize, Candidate)| open(&reaches[*reach].1, candidate, places, max_bytes);
        // All files of the chunk are opened before the first is read.
        let opened: Vec<_> = chunk.iter().map(open).collect();
        let files = opened.into_iter().zip(chunk).map(|(opened, (_, candidate))| {
            let read = opened.and_then(|opened| {
                opened.map(|opened| read(opened, candidate, max_bytes, &total)).transpose()
            });
            read.map(|file| file.map(&take)).map_err(|why| SkippedPath {
                place: candidate.place,
                path: candidate.path.clone(),
                why,
            })
        });
        Ok::<_, Infallible>(files.collect())
    });
    let mut found = Vec::with_capacity(all.len());
    for file in read.unwrap_or_else(|never| match never {}) {
        match file {
            Ok(Some(file)) => found.push(file),
            Ok(None) => {}
            Err(refused) => skipped.push(refused),
        }
    }
    skipped.sort_by(|one, other| (one.place, &one.path).cmp(&(other.place, &other.path)));
    Discovery { found, skipped }
}

/// Reads one file that a user named, of at most `max_bytes`.
pub fn read_file(path: &Path, max_bytes: u64) -> Result<Vec<u8>, SkipReason> {
    match SearchScope::Anywhere.open_file(path)? {
        Some(opened) => opened.read(max_bytes),
        None => Err(SkipReason::Unreadable("there is no such file".to_owned())),
    }
}

/// Opens a file, and asks the disk to read ahead. None if the file is gone, or if its folder is not a skill.
fn open(
    reach: &SearchScope,
    candidate: &Candidate,
    places: &[SearchDir],
    max_bytes: u64,
) -> Result<Option<OpenFile>, SkipReason> {
    let Some(opened) = reach.open_file(&candidate.path)? else { return Ok(None) };
    if candidate.form == Form::SkillFolder
        && let Some(real) = &opened.real
        && !may_be_skill(real, &places[candidate.place], places)
    {
        return Err(SkipReason::NoSkill);
    }
    opened.expect(max_bytes);
    Ok(Some(opened))
}

fn read(
    opened: OpenFile,
    candidate: &Candidate,
    max_bytes: u64,
    total: &AtomicU64,
) -> Result<FoundFile, SkipReason> {
    let real = opened.real.clone().unwrap_or_else(|| candidate.path.clone());
    let content = opened.read(max_bytes)?;
    let length = content.len() as u64;
    if total.fetch_add(length, Ordering::Relaxed).saturating_add(length) > TOTAL_MAX_BYTES {
        return Err(SkipReason::TotalTooLarge);
    }
    Ok(FoundFile {
        place: candidate.place,
        path: candidate.path.clone(),
        real,
        form: candidate.form,
        content,
    })
}

/// Whether the folder of this file may be a skill of its search directory. A project's skill must be inside the folders
/// for skills, because every file in a skill's folder can be read under the skill's name.
fn may_be_skill(file: &Path, place: &SearchDir, places: &[SearchDir]) -> bool {
    let is_in = |other: &SearchDir| {
        let folder = file.parent().and_then(|folder| folder.strip_prefix(&other.dir).ok());
        folder.is_some_and(|folder| !folder.as_os_str().is_empty())
    };
    let alike = |other: &&SearchDir| other.holds == DefinitionType::Skills && other.within == place.within;
    place.within.is_none() || places.iter().filter(alike).any(is_in)
}

#[cfg(test)]
mod tests;
