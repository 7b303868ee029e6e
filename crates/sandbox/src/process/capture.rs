//! Keeps the head and the tail of a program's output in memory, and all of it, up to a limit, in a file.

use std::collections::VecDeque;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;

/// How much of an output is kept, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutputLimits {
    /// Bytes kept from the beginning.
    pub head_bytes: usize,
    /// Bytes kept from the end.
    pub tail_bytes: usize,
    /// The file for an output that exceeds head and tail; `None` keeps no file.
    pub spill: Option<PathBuf>,
    /// Limit of the file.
    pub spill_bytes: u64,
}

/// The kept parts of an output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CapturedOutput {
    /// The beginning, or all of the output if it fits into head and tail.
    pub head: Vec<u8>,
    /// The end, if something between was omitted.
    pub tail: Vec<u8>,
    /// The size of the whole output.
    pub total: u64,
    /// The file with the whole output.
    pub spill: Option<Spill>,
}

impl CapturedOutput {
    /// How many bytes are neither in the head nor in the tail.
    pub fn left_out(&self) -> u64 {
        self.total - (self.head.len() + self.tail.len()) as u64
    }
}

/// A file with an output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spill {
    /// The path of the file.
    pub path: PathBuf,
    /// Its size: the whole output, unless that exceeds the limit.
    pub bytes: u64,
}

/// Captures an output in bounded memory.
#[derive(Debug)]
pub struct Capture {
    limits: OutputLimits,
    head: Vec<u8>,
    tail: VecDeque<u8>,
    total: u64,
    spill: SpillState,
}

#[derive(Debug)]
enum SpillState {
    /// Everything so far is in memory.
    NotYet,
    /// A file, and the bytes written to it.
    To(File, u64),
    /// No file is configured, or it could not be written.
    Not,
}

impl Capture {
    /// An empty capture with these limits.
    pub fn new(limits: OutputLimits) -> Self {
        Self { limits, head: Vec::new(), tail: VecDeque::new(), total: 0, spill: SpillState::NotYet }
    }

    /// Adds output. A failure to write the file loses the middle of the output, but never fails the call.
    pub fn take(&mut self, bytes: &[u8]) {
        let fits =
            self.total + bytes.len() as u64 <= (self.limits.head_bytes + self.limits.tail_bytes) as u64;
        if !fits && matches!(self.spill, SpillState::NotYet) {
            self.spill = self.begin_spill().unwrap_or(SpillState::Not);
        }
        self.keep(bytes);
        self.total += bytes.len() as u64;
        let head = bytes.len().min(self.limits.head_bytes - self.head.len());
        self.head.extend_from_slice(&bytes[..head]);
        let rest = &bytes[head..];
        let rest = &rest[rest.len().saturating_sub(self.limits.tail_bytes)..];
        let over = (self.tail.len() + rest.len()).saturating_sub(self.limits.tail_bytes);
        self.tail.drain(..over);
        self.tail.extend(rest);
    }

    fn begin_spill(&self) -> io::Result<SpillState> {
        let Some(path) = &self.limits.spill else { return Ok(SpillState::Not) };
        if let Some(dir) = path.parent() {
            fs::create_dir_all(dir)?;
        }
        let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)?;
        file.write_all(&self.head)?;
        let (first, second) = self.tail.as_slices();
        file.write_all(first)?;
        file.write_all(second)?;
        Ok(SpillState::To(file, self.total))
    }

    fn keep(&mut self, bytes: &[u8]) {
        let SpillState::To(file, written) = &mut self.spill else { return };
        let room = self.limits.spill_bytes.saturating_sub(*written);
        let part = &bytes[..bytes.len().min(usize::try_from(room).unwrap_or(usize::MAX))];
        match file.write_all(part) {
            Ok(()) => *written += part.len() as u64,
            Err(_) => self.spill = SpillState::Not,
        }
    }

    /// Ends the capture and returns the kept parts.
    pub fn finish(self) -> CapturedOutput {
        let Self { limits, mut head, tail, total, spill } = self;
        let mut tail = Vec::from(tail);
        if head.len() + tail.len() == usize::try_from(total).unwrap_or(usize::MAX) {
            head.append(&mut tail);
        }
        let spill = match (spill, limits.spill) {
            (SpillState::To(_, bytes), Some(path)) => Some(Spill { path, bytes }),
            _ => None,
        };
        CapturedOutput { head, tail, total, spill }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn limits(head: usize, tail: usize, spill: Option<PathBuf>, most: u64) -> OutputLimits {
        OutputLimits { head_bytes: head, tail_bytes: tail, spill, spill_bytes: most }
    }

    #[test]
    fn a_short_output_is_kept_whole_and_makes_no_file() {
        let dir = tempfile::tempdir().expect("a directory");
        let file = dir.path().join("deep/out");
        let mut capture = Capture::new(limits(4, 4, Some(file.clone()), 100));
        capture.take(b"abcd");
        capture.take(b"efgh");
        let captured = capture.finish();
        assert_eq!((captured.head.as_slice(), captured.tail.len(), captured.total), (&b"abcdefgh"[..], 0, 8));
        assert_eq!((captured.left_out(), captured.spill), (0, None));
        assert!(!file.exists());
    }

    #[test]
    fn a_file_that_cannot_be_written_costs_the_middle_only() {
        let dir = tempfile::tempdir().expect("a directory");
        fs::write(dir.path().join("file"), "").expect("written");
        let mut capture = Capture::new(limits(2, 2, Some(dir.path().join("file/out")), 100));
        capture.take(b"abcdefgh");
        let captured = capture.finish();
        assert_eq!((captured.head.as_slice(), captured.tail.as_slice()), (&b"ab"[..], &b"gh"[..]));
        assert_eq!((captured.left_out(), captured.spill), (4, None));
    }

    proptest! {
        #[test]
        fn head_tail_and_file_are_what_was_printed(
            chunks in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 0..20),
            head in 0_usize..30,
            tail in 0_usize..30,
            most in 0_u64..300,
        ) {
            let dir = tempfile::tempdir().expect("a directory");
            let file = dir.path().join("out");
            let mut capture = Capture::new(limits(head, tail, Some(file.clone()), most));
            let whole: Vec<u8> = chunks.concat();
            for chunk in &chunks {
                capture.take(chunk);
                prop_assert!(capture.head.len() <= head && capture.tail.len() <= tail);
            }
            let captured = capture.finish();
            prop_assert_eq!(captured.total, whole.len() as u64);
            if whole.len() <= head + tail {
                prop_assert_eq!(&captured.head, &whole);
                prop_assert!(captured.spill.is_none());
            } else {
                prop_assert_eq!(captured.head.as_slice(), &whole[..head]);
                prop_assert_eq!(captured.tail.as_slice(), &whole[whole.len() - tail..]);
                let written = fs::read(&file).expect("the file");
                let spill = captured.spill.expect("a file");
                prop_assert_eq!(spill.bytes, written.len() as u64);
                // The content in memory when the file began is in it, even if that exceeds the limit.
                let least = most.min(whole.len() as u64);
                prop_assert!(spill.bytes >= least && spill.bytes <= least.max((head + tail) as u64));
                prop_assert_eq!(&written[..], &whole[..written.len()]);
            }
        }
    }
}
