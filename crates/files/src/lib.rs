//! Opens, reads, writes and searches files of a workspace, without ever leaving it.
//!
//! The problem that shaped this crate: keep a path inside a directory while another process moves entries around in it.
//! Checking a path and then opening it cannot work, because a directory can become a symbolic link between the two. So
//! nothing here is checked by path. [`DirHandle`] holds the workspace as an open directory, the kernel resolves every
//! name (`openat2` with `RESOLVE_BENEATH`), and an opened file is used through its descriptor. A link that leaves the
//! workspace fails at the moment it would be followed.
//!
//! - Reading follows links that stay inside. Writing follows none: permission rules and intents name the path that is
//!   written, and a link would make them refer to another file.
//! - A [`ReadFilter`] decides which files may be seen at all. It checks the file that was opened, not only the given
//!   path.
//! - Walking ([`DirHandle::glob`], [`DirHandle::grep`]) follows no link below its start.
//! - Paths are normalised as text ([`RelPath`]) before the kernel sees them, so that a permission rule and the kernel
//!   judge the same path.
//!
//! Everything blocks. An async caller runs it on a thread and can end it through [`Stop`].

mod dir_handle;
pub mod discovery;
mod error;
mod glob;
mod grep;
mod ignored;
mod kind;
mod left_out;
mod lines;
mod list;
pub mod parallel;
mod path;
mod read;
mod read_filter;
mod stop;
pub mod trees;
mod walk;
mod workspace_dirs;
mod write;

#[cfg(test)]
mod tests;

pub use dir_handle::{DirHandle, can_open_beneath};
pub use error::FileError;
pub use glob::{GLOB_PATTERN_MAX_BYTES, GLOB_RESULTS_MAX, GlobPattern, GlobResult};
pub use grep::{
    GREP_CONTEXT_MAX_LINES, GREP_FILE_MAX_BYTES, GREP_LINE_MAX_BYTES, GREP_OUTPUT_MAX_BYTES,
    GREP_PATTERN_MAX_BYTES, GREP_RESULTS_MAX, GrepFile, GrepLine, GrepOutput, GrepQuery, GrepResult,
};
pub(crate) use ignored::GitRules;
pub use kind::FileKind;
pub use lines::{LineRange, line_range};
pub use list::{DirEntry, LIST_MAX_ENTRIES, Listing};
pub use path::{PATH_MAX_BYTES, PathProblem, RelPath, spelled};
pub use read::{READ_MAX_BYTES, is_binary};
pub use read_filter::ReadFilter;
pub use stop::Stop;
pub use walk::{DIR_MAX_ENTRIES, WALK_MAX_DEPTH, WALK_MAX_FILES};
pub use workspace_dirs::{PlainDirs, WorkspaceDirs};
pub use write::{ExpectedFile, WRITE_MAX_BYTES};
