//! Reads standard input: the request itself, or context beside it.

use std::io::Read;
use std::time::Duration;

use posse::REQUEST_MAX_BYTES;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::FileType;

use crate::error::CliError;
use crate::output::note;

/// Largest context that is read from standard input.
const CONTEXT_MAX_BYTES: usize = 1024 * 1024;
/// How long standard input may be silent before a note says that it is read.
const SILENCE: Duration = Duration::from_secs(2);

/// The request, for `-`.
pub(crate) fn request() -> Result<String, CliError> {
    // One byte more, so that the caller can refuse what is too long.
    let bytes = read(REQUEST_MAX_BYTES)?;
    String::from_utf8(bytes).map_err(|_| CliError::usage("standard input is not UTF-8 text"))
}

/// The text on standard input beside a request; `None` without such text. Only a pipe or a file is read: a terminal has no
/// text, and a program that starts this one may have left another kind of input open.
pub(crate) fn context(request: &[String]) -> Result<Option<String>, CliError> {
    let stdin = std::io::stdin();
    let is_request = matches!(request, [] | [_]) && request.first().is_none_or(|word| word == "-");
    let kind = rustix::fs::fstat(&stdin).map(|stat| FileType::from_raw_mode(stat.st_mode));
    if is_request || !matches!(kind, Ok(FileType::Fifo | FileType::RegularFile)) {
        return Ok(None);
    }
    let mut watched = [PollFd::new(&stdin, PollFlags::IN)];
    let patience = Timespec { tv_sec: SILENCE.as_secs().cast_signed(), tv_nsec: 0 };
    if poll(&mut watched, Some(&patience)).is_ok_and(|ready| ready == 0) {
        note("reading standard input as context; start with `< /dev/null` if there is none");
    }
    let bytes = read(CONTEXT_MAX_BYTES)?;
    if bytes.len() > CONTEXT_MAX_BYTES {
        return Err(CliError::usage(format!(
            "standard input has more than the {CONTEXT_MAX_BYTES} bytes accepted as context"
        ))
        .hint("write it to a file of the project and name the file in the request"));
    }
    let text = String::from_utf8(bytes).map_err(|_| {
        CliError::usage("standard input is not UTF-8 text").hint("only text can be context for a request")
    })?;
    Ok(Some(text).filter(|text| !text.trim().is_empty()))
}

/// Reads at most this many bytes and one more.
fn read(most: usize) -> Result<Vec<u8>, CliError> {
    let mut bytes = Vec::new();
    let read = std::io::stdin().lock().take(most as u64 + 1).read_to_end(&mut bytes);
    read.map_err(|error| CliError::usage(format!("standard input cannot be read: {error}")))?;
    Ok(bytes)
}
