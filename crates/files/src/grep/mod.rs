//! Searches the content of files.
//!
//! The candidates are first collected by a walk, ordered by path, then searched in chunks by a few threads. Results are
//! joined in the order of the chunks, so the result does not depend on the speed of a thread, and a search ends as soon
//! as the first chunks have enough results.

mod board;
mod clip;
mod sink;
mod stoppable;

use std::fs::File;
use std::io::{self, Read};
use std::num::NonZeroUsize;
use std::ops::ControlFlow;
use std::thread;

use globset::GlobSet;
use grep_matcher::LineTerminator;
use grep_regex::RegexMatcherBuilder;
use grep_searcher::{BinaryDetection, MmapChoice, Searcher, SearcherBuilder};

use self::board::Board;
use self::sink::{Collector, Outcome};
use self::stoppable::{Expression, StoppableMatcher};
use super::dir_handle::Links;
use super::ignored::IgnoreRules;
use super::read::size;
use super::walk::walk;
use super::{DirHandle, FileError, GLOB_PATTERN_MAX_BYTES, RelPath, Stop};

/// Maximum length of a regular expression.
pub const GREP_PATTERN_MAX_BYTES: usize = 4 * 1024;
/// Maximum number of results: lines, or files if only files are requested.
pub const GREP_RESULTS_MAX: usize = 2_000;
/// Maximum number of context lines around a match.
pub const GREP_CONTEXT_MAX_LINES: usize = 20;
/// Maximum length of a line in a result.
pub const GREP_LINE_MAX_BYTES: usize = 500;
/// Maximum size of all text in a result.
pub const GREP_OUTPUT_MAX_BYTES: usize = 64 * 1024;
/// Maximum size of a file that is searched.
pub const GREP_FILE_MAX_BYTES: u64 = 64 * 1024 * 1024;

/// The maximum size of a compiled expression, with the same again for its tables, and the maximum memory for one line.
/// A file with a longer line is skipped. In the worst case matching follows every state of the expression for every
/// byte: the product of both takes some seconds at most, and can be stopped (`stoppable`).
const REGEX_AND_LINE_MAX_BYTES: [(usize, usize); 4] = [
    (2 * 1024, 4 * 1024 * 1024),
    (16 * 1024, 4 * 1024 * 1024),
    (256 * 1024, 256 * 1024),
    (1024 * 1024, 64 * 1024),
];
/// How many files a thread takes at a time.
const CHUNK_FILES: usize = 64;
/// Maximum number of threads of one search. Few, because many agents search at once.
const THREADS_MAX: usize = 4;
/// With fewer chunks one thread is faster.
const PARALLEL_FROM_CHUNKS: usize = 4;

/// The form of a search result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum GrepOutput {
    /// The matching lines.
    #[default]
    Content,
    /// The files with a match.
    Files,
    /// The number of matches in each file.
    Count,
}

/// The parameters of a search.
#[derive(Debug, Clone, Default)]
pub struct GrepQuery {
    /// A regular expression, matched line by line.
    pub pattern: String,
    /// A file, or a directory to search recursively.
    pub path: RelPath,
    /// A filter for files: matches the name, or the path relative to `path` if it has a `/`.
    pub glob: Option<String>,
    /// Whether letter case is ignored.
    pub case_insensitive: bool,
    /// How many lines around each match are included.
    pub context: usize,
    /// The form of the result.
    pub output: GrepOutput,
    /// Maximum number of results.
    pub max_results: usize,
}

/// One line of a result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GrepLine {
    /// The line number, from 1.
    pub number: u64,
    /// The text, shortened to the part around the match if it is long.
    pub text: String,
    /// Whether the line matches. Otherwise it is context.
    pub matched: bool,
}

/// The results of one file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GrepFile {
    /// The path of the file in the workspace.
    pub path: RelPath,
    /// The number of matching lines. Always 1 with [`GrepOutput::Files`].
    pub matches: usize,
    /// The lines, if they were requested.
    pub lines: Vec<GrepLine>,
}

/// The result of a search.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GrepResult {
    /// The files with results, ordered by path.
    pub files: Vec<GrepFile>,
    /// Whether there are more results than returned.
    pub more: bool,
    /// How many files were searched, if the search was complete.
    pub searched: usize,
    /// How many files were skipped because they are not text.
    pub binary: usize,
    /// How many files were skipped because they were too large, had a line too long for the expression, or could not be
    /// read.
    pub unread: usize,
    /// How many files the read filter refused.
    pub refused: usize,
    /// Whether a limit of the walk was reached, so that part of the tree was not searched.
    pub cut: bool,
}

impl DirHandle {
    /// Searches files. Ignored files, links and files that are not text are skipped.
    pub fn grep(&self, query: &GrepQuery, stop: &Stop) -> Result<GrepResult, FileError> {
        let expression = Expression::compile(query)?;
        let filter = query.glob.as_deref().map(Filter::parse).transpose()?;
        let targets = self.targets(query, filter.as_ref(), stop)?;
        let tree = targets.tree.as_ref().unwrap_or(self);
        let search = Search { tree, targets: &targets, query, expression, stop };
        let mut found = search.run()?;
        found.cut = targets.cut;
        Ok(found)
    }

    /// The files to search. A file that the query names is searched even if it is ignored or a link.
    fn targets(&self, query: &GrepQuery, filter: Option<&Filter>, stop: &Stop) -> Result<Targets, FileError> {
        let tree = match self.descend(&query.path) {
            Err(FileError::NotDirectory { .. }) => {
                // Fails if it is not a regular file either.
                self.open_admitted(&query.path, Links::Inside)?;
                let files = vec![query.path.clone()];
                return Ok(Targets { tree: None, files, links: Links::Inside, cut: false });
            }
            opened => opened?,
        };
        let mut files = Vec::new();
        let walked = walk(&tree, IgnoreRules::above(self, &query.path), stop, |path| {
            if filter.is_none_or(|filter| filter.admits(&path)) {
                files.push(path);
            }
            ControlFlow::Continue(())
        })?;
        Ok(Targets { tree: Some(tree), files, links: Links::Refuse, cut: walked.cut })
    }
}

/// The files of one search, relative to `tree`, or to the workspace without one.
struct Targets {
    tree: Option<DirHandle>,
    files: Vec<RelPath>,
    links: Links,
    cut: bool,
}

/// Selects files. A pattern without `/` matches the name alone, as users know it from other tools.
struct Filter {
    matcher: GlobSet,
    by_name: bool,
}

impl Filter {
    fn parse(pattern: &str) -> Result<Self, FileError> {
        let bad =
            |problem: String| FileError::BadGlob { pattern: pattern.chars().take(80).collect(), problem };
        if pattern.len() > GLOB_PATTERN_MAX_BYTES {
            return Err(bad("it is too long".to_owned()));
        }
        let matcher = super::glob::compile(pattern).map_err(bad)?;
        Ok(Self { matcher, by_name: !pattern.contains('/') })
    }

    fn admits(&self, path: &RelPath) -> bool {
        match (self.by_name, path.name()) {
            (true, Some(name)) => self.matcher.is_match(name),
            _ => self.matcher.is_match(path.as_path()),
        }
    }
}

impl Expression {
    fn compile(query: &GrepQuery) -> Result<Self, FileError> {
        let bad = |problem: String| FileError::BadRegex { problem };
        if query.pattern.is_empty() {
            return Err(bad("it is empty".to_owned()));
        }
        if query.pattern.len() > GREP_PATTERN_MAX_BYTES {
            return Err(bad(format!("it is longer than {GREP_PATTERN_MAX_BYTES} bytes")));
        }
        let mut builder = RegexMatcherBuilder::new();
        builder.case_insensitive(query.case_insensitive).multi_line(true).crlf(true);
        let mut problem = String::new();
        for limits in REGEX_AND_LINE_MAX_BYTES {
            builder.size_limit(limits.0).dfa_size_limit(limits.0);
            match builder.build(&query.pattern) {
                Ok(matcher) => return Ok(Self::new(matcher, limits, query)),
                Err(error) => problem = error.to_string(),
            }
        }
        Err(bad(problem))
    }
}

fn searcher(query: &GrepQuery, line_max_bytes: usize) -> Searcher {
    let context = match query.output {
        GrepOutput::Content => query.context.min(GREP_CONTEXT_MAX_LINES),
        GrepOutput::Files | GrepOutput::Count => 0,
    };
    SearcherBuilder::new()
        .line_terminator(LineTerminator::crlf())
        .line_number(true)
        .before_context(context)
        .after_context(context)
        .binary_detection(BinaryDetection::quit(0))
        .heap_limit(Some(line_max_bytes))
        // With a memory map, another process that truncates the file would crash this one.
        .memory_map(MmapChoice::never())
        .build()
}

/// A file whose reads fail once no caller waits for the search. It is read in small pieces.
struct StoppableReader<'a> {
    file: &'a File,
    stop: &'a Stop,
}

impl Read for StoppableReader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.stop.check().map_err(io::Error::other)?;
        self.file.read(buffer)
    }
}

/// The data that the threads of one search share.
struct Search<'a> {
    tree: &'a DirHandle,
    targets: &'a Targets,
    query: &'a GrepQuery,
    expression: Expression,
    stop: &'a Stop,
}

impl Search<'_> {
    fn run(&self) -> Result<GrepResult, FileError> {
        let chunks: Vec<&[RelPath]> = self.targets.files.chunks(CHUNK_FILES).collect();
        let board = Board::new(chunks.len(), self.limit());
        let helpers = if chunks.len() < PARALLEL_FROM_CHUNKS { 0 } else { threads() - 1 };
        thread::scope(|scope| {
            for _ in 0..helpers {
                // If no thread can be spawned, the search only takes longer.
                let _ = thread::Builder::new().spawn_scoped(scope, || self.work(&chunks, &board));
            }
            self.work(&chunks, &board);
        });
        self.stop.check()?;
        board.gather()
    }

    fn limit(&self) -> usize {
        self.query.max_results.clamp(1, GREP_RESULTS_MAX)
    }

    fn work(&self, chunks: &[&[RelPath]], board: &Board) {
        let mut searcher = searcher(self.query, self.expression.line_max_bytes);
        let matcher = StoppableMatcher::new(&self.expression, self.stop);
        while let Some(index) = board.take() {
            board.put(index, self.search_chunk(&mut searcher, &matcher, chunks[index]));
        }
    }

    fn search_chunk(
        &self,
        searcher: &mut Searcher,
        matcher: &StoppableMatcher<'_>,
        files: &[RelPath],
    ) -> Result<GrepResult, FileError> {
        let mut part = GrepResult::default();
        for path in files {
            self.stop.check()?;
            part.searched += 1;
            match self.search_file(searcher, matcher, path)? {
                Outcome::Found(file, more) => {
                    part.files.push(file);
                    part.more |= more;
                }
                Outcome::Nothing => {}
                Outcome::Binary => part.binary += 1,
                Outcome::Unread => part.unread += 1,
                Outcome::Refused => {
                    part.searched -= 1;
                    part.refused += 1;
                }
            }
        }
        Ok(part)
    }

    fn search_file(
        &self,
        searcher: &mut Searcher,
        matcher: &StoppableMatcher<'_>,
        path: &RelPath,
    ) -> Result<Outcome, FileError> {
        let tree = self.tree;
        let (file, stat) = match tree.open_admitted(path, self.targets.links) {
            Ok(opened) => opened,
            Err(FileError::Refused { .. }) => return Ok(Outcome::Refused),
            // The file has vanished or changed its type since the walk.
            Err(error) if error.is_absence() => return Ok(Outcome::Unread),
            Err(error) => return Err(error),
        };
        if size(stat.st_size) > GREP_FILE_MAX_BYTES {
            return Ok(Outcome::Unread);
        }
        let mut collector = Collector::new(tree.shown(path), matcher, self.query.output, self.limit());
        match searcher.search_reader(
            matcher,
            StoppableReader { file: &file, stop: self.stop },
            &mut collector,
        ) {
            Ok(()) => Ok(collector.outcome()),
            Err(_) => Ok(Outcome::Unread),
        }
    }
}

fn threads() -> usize {
    thread::available_parallelism().map_or(1, NonZeroUsize::get).min(THREADS_MAX)
}
