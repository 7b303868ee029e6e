//! Finding the files of definitions and skills, and a project's instructions for agents.
//!
//! Where to look is for the caller to say, and so is what the files mean. Here is what makes looking harmless and quick:
//! everything is bounded, only regular files are read, one bad file never hides another, and nothing in a project leads
//! out of it. A project that could make a link to a private key into a prompt would have that key sent to a model.

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
use reach::{OpenFile, Reach};

/// Most files of one place that are read.
pub const PLACE_MAX_FILES: usize = 2_000;
/// Most entries of one directory that are looked at.
pub const DIR_MAX_ENTRIES: usize = 10_000;
/// How many files a thread opens before it reads the first of them, so that a cold disk is asked for many at once.
const AHEAD: usize = 32;
/// Most bytes of all places together.
pub const TOTAL_MAX_BYTES: u64 = 64 * 1024 * 1024;

/// What a place holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Holds {
    /// Definitions: `*.md`, in one level of folders too.
    Agents,
    /// Skills: `<name>/SKILL.md`, and `*.yaml` or `*.yml`.
    Skills,
}

/// A directory to look in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SearchDir {
    /// The directory, an absolute path. It need not exist.
    pub dir: PathBuf,
    /// What it holds.
    pub holds: Holds,
    /// The project that it belongs to, an absolute path without links: nothing there may lead out of it, or to what git
    /// ignores in it. None is a place of the person's own, where links go wherever they go.
    pub within: Option<PathBuf>,
}

/// How a file is written.
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
    /// Its place, as a position in the list of places.
    pub place: usize,
    /// Where it is.
    pub path: PathBuf,
    /// Where it really is, if links led there: what belongs to it is beside that.
    pub real: PathBuf,
    /// How it is written.
    pub form: Form,
    /// What it says.
    pub content: Vec<u8>,
}

/// A file or directory that is not used.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{}: {why}", .path.display())]
pub struct PassedOver {
    /// Its place, as a position in the list of places.
    pub place: usize,
    /// Where it is.
    pub path: PathBuf,
    /// Why.
    pub why: SkipReason,
}

/// Why a file is not used.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum SkipReason {
    /// A link leads somewhere else.
    #[error("it leads out of the project, so it is not read; put a copy in its place")]
    LeadsOut,
    /// A link leads to something that is no part of the project.
    #[error("it leads to a file that git ignores, so it is not read; put a copy in its place")]
    Ignored,
    /// A link makes another folder a skill, whose files could then be read.
    #[error(
        "it leads to a folder outside the project's folders of skills, so it is not read; put a copy in its place"
    )]
    NoSkill,
    /// A link leads to nothing.
    #[error("it is a link that leads nowhere; remove it, or put back what it led to")]
    LeadsNowhere,
    /// It is a directory, a pipe or the like.
    #[error("it is no regular file, so it is not read")]
    NotRegular,
    /// It is larger than this.
    #[error("it has more than the {0} bytes accepted; shorten it, or move parts into other files")]
    TooLarge(u64),
    /// All that was found together is too large.
    #[error("all files together have more than the {TOTAL_MAX_BYTES} bytes accepted; remove some")]
    TotalTooLarge,
    /// There are too many files.
    #[error("it holds more than the {PLACE_MAX_FILES} files accepted, the rest is not read; remove some")]
    TooMany,
    /// The system said no.
    #[error("it cannot be read: {0}")]
    Unreadable(String),
}

/// What came of looking.
#[derive(Debug)]
pub struct Discovery<T> {
    /// What was made of each file, by place, then by path.
    pub found: Vec<T>,
    /// What is not used, in the same order.
    pub passed_over: Vec<PassedOver>,
}

/// Looks in all places, and makes something of each file that is there and has at most `max_bytes`. Files are read and
/// taken by several threads.
pub fn discover<T: Send>(
    places: &[SearchDir],
    max_bytes: u64,
    take: impl Fn(FoundFile) -> T + Sync,
) -> Discovery<T> {
    let mut passed_over = Vec::new();
    let mut reaches: Vec<(Option<&Path>, Reach)> = Vec::new();
    let mut all: Vec<(usize, Candidate)> = Vec::new();
    for (number, place) in places.iter().enumerate() {
        let within = place.within.as_deref();
        let reach = match reaches.iter().position(|(known, _)| *known == within) {
            Some(known) => known,
            None => match Reach::new(within) {
                Ok(reach) => {
                    reaches.push((within, reach));
                    reaches.len() - 1
                }
                Err(why) => {
                    passed_over.push(PassedOver { place: number, path: place.dir.clone(), why });
                    continue;
                }
            },
        };
        let found = candidates(place, &reaches[reach].1, |path, why| {
            passed_over.push(PassedOver { place: number, path, why });
        });
        all.extend(found.into_iter().map(|candidate| (reach, Candidate { place: number, ..candidate })));
    }
    let total = AtomicU64::new(0);
    let read = parallel::map_chunks(all.len(), AHEAD, |chunk| {
        let chunk = &all[chunk];
        let open =
            |(reach, candidate): &(usize, Candidate)| open(&reaches[*reach].1, candidate, places, max_bytes);
        // All are open before the first is read.
        let opened: Vec<_> = chunk.iter().map(open).collect();
        let files = opened.into_iter().zip(chunk).map(|(opened, (_, candidate))| {
            let read = opened.and_then(|opened| {
                opened.map(|opened| read(opened, candidate, max_bytes, &total)).transpose()
            });
            read.map(|file| file.map(&take)).map_err(|why| PassedOver {
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
            Err(refused) => passed_over.push(refused),
        }
    }
    passed_over.sort_by(|one, other| (one.place, &one.path).cmp(&(other.place, &other.path)));
    Discovery { found, passed_over }
}

/// Reads one file that a person named, of at most `max_bytes`.
pub fn read_file(path: &Path, max_bytes: u64) -> Result<Vec<u8>, SkipReason> {
    match Reach::Anywhere.open_file(path)? {
        Some(opened) => opened.read(max_bytes),
        None => Err(SkipReason::Unreadable("there is no such file".to_owned())),
    }
}

/// Opens a file, and lets the disk begin with it; none if it is gone, or if a folder turns out to be no skill.
fn open(
    reach: &Reach,
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

/// Whether the folder of this file may be a skill of a place: one of a project stays in the folders for skills, because
/// everything in a skill's folder can be read by its name.
fn may_be_skill(file: &Path, place: &SearchDir, places: &[SearchDir]) -> bool {
    let is_in = |other: &SearchDir| {
        let folder = file.parent().and_then(|folder| folder.strip_prefix(&other.dir).ok());
        folder.is_some_and(|folder| !folder.as_os_str().is_empty())
    };
    let alike = |other: &&SearchDir| other.holds == Holds::Skills && other.within == place.within;
    place.within.is_none() || places.iter().filter(alike).any(is_in)
}

#[cfg(test)]
mod tests;
