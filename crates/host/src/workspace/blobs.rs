//! Contents of objects, read through one process however many they are.

use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;

use super::change::unreadable;
use super::{Git, Oid, WorkspaceError};

/// Reads these blobs and hands each over as it comes, with its place in the list. One that is missing is an error.
pub(super) fn blobs(
    git: &Git,
    oids: &[Oid],
    mut each: impl FnMut(usize, Vec<u8>) -> Result<(), WorkspaceError>,
) -> Result<(), WorkspaceError> {
    if oids.is_empty() {
        return Ok(());
    }
    let failed = |error: &std::io::Error| WorkspaceError::io("reading objects of", git.git_dir(), error);
    let mut command = git.command(&["cat-file", "--batch"]);
    let mut child =
        command.stdin(Stdio::piped()).stderr(Stdio::null()).spawn().map_err(|error| failed(&error))?;
    let (stdin, stdout) = (child.stdin.take(), child.stdout.take());
    let read = std::thread::scope(|scope| {
        let asking = scope.spawn(move || {
            let Some(mut stdin) = stdin else { return };
            let asked = oids.iter().fold(String::new(), |mut asked, oid| {
                // Writing to a string does not fail.
                let _ = writeln!(asked, "{oid}");
                asked
            });
            // A git that ended early closed its end; what it did not answer says so.
            drop(stdin.write_all(asked.as_bytes()));
        });
        let mut answers = BufReader::new(stdout.ok_or_else(|| unreadable("cat-file"))?);
        let read = oids.iter().enumerate().try_for_each(|(at, oid)| each(at, blob(&mut answers, oid)?));
        // The writer must not wait for a reader that gave up.
        drop(answers);
        drop(asking.join());
        read
    });
    let ended = child.wait();
    read?;
    ended.map(drop).map_err(|error| failed(&error))
}

fn blob(answers: &mut impl BufRead, oid: &Oid) -> Result<Vec<u8>, WorkspaceError> {
    let failed = |error: std::io::Error| {
        WorkspaceError::Damaged(format!("object {oid} could not be read: {error}; `git fsck` says more"))
    };
    let mut head = String::new();
    answers.read_line(&mut head).map_err(failed)?;
    let mut words = head.split_whitespace();
    let (Some(_), Some("blob"), Some(Ok(size))) =
        (words.next(), words.next(), words.next().map(str::parse::<usize>))
    else {
        let head = head.trim();
        return Err(WorkspaceError::Damaged(format!(
            "object {oid} is not a readable blob ({head}); `git fsck` says more"
        )));
    };
    let mut content = vec![0; size];
    answers.read_exact(&mut content).map_err(failed)?;
    // A line feed closes each content.
    answers.read_exact(&mut [0]).map_err(failed)?;
    Ok(content)
}
