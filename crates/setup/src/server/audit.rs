//! The log of what the clients of a server decided: `audit.jsonl` in the state directory.
//!
//! A decision has an entry before it takes effect, and a second one with what became of it: a server that was killed in
//! between leaves the first. Each entry names the token. A decision without an entry is not made.

use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use serde::{Deserialize, Serialize};

use crate::error::SetupError;

const FILE: &str = "audit.jsonl";
/// Where the log is put when it is full. The one before it is removed.
const OLD_FILE: &str = "audit.1.jsonl";
/// The log is put aside when it is longer.
const LOG_MAX_BYTES: u64 = 64 * 1024 * 1024;
/// How much of the end of the log is read.
const READ_MAX_BYTES: u64 = 8 * 1024 * 1024;
/// Longest detail of an entry.
const DETAIL_MAX_BYTES: usize = 1_024;

/// One entry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditEntry {
    /// The number of the decision, which both of its entries have.
    pub id: String,
    /// When, in milliseconds since 1970.
    pub at_ms: i64,
    /// The name of the token.
    pub token: String,
    /// The tenant of the token.
    pub tenant: String,
    /// The operation, such as `answerQuestion`.
    pub operation: String,
    /// The run that it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<String>,
    /// What was decided, such as `decision=deny`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub detail: String,
    /// What became of it: the status of the response, and the code of a problem. `None` before it takes effect.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<String>,
}

/// The log of a state directory.
#[derive(Debug)]
pub struct AuditLog {
    path: PathBuf,
    old: PathBuf,
    file: Mutex<Option<File>>,
}

impl AuditLog {
    /// The log of a state directory.
    pub fn new(state_dir: &Path) -> Self {
        Self { path: state_dir.join(FILE), old: state_dir.join(OLD_FILE), file: Mutex::default() }
    }

    /// Adds an entry. One about a decision that is to take effect is durable when this returns; what became of it is not
    /// waited for, and only a machine that loses its power loses that.
    pub fn add(&self, entry: &AuditEntry) -> Result<(), SetupError> {
        let failed = |error: std::io::Error| {
            SetupError::failed(format!("{} cannot be written: {error}", self.path.display()))
        };
        let mut entry = entry.clone();
        if entry.detail.len() > DETAIL_MAX_BYTES {
            let end = (0..=DETAIL_MAX_BYTES).rev().find(|at| entry.detail.is_char_boundary(*at));
            entry.detail.truncate(end.unwrap_or(0));
        }
        let mut line = serde_json::to_vec(&entry).map_err(|error| failed(error.into()))?;
        line.push(b'\n');
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        if file.as_ref().is_some_and(|file| file.metadata().is_ok_and(|about| about.len() > LOG_MAX_BYTES)) {
            fs::rename(&self.path, &self.old).map_err(failed)?;
            *file = None;
        }
        let open = match file.take() {
            Some(open) => open,
            None => opened(&self.path).map_err(failed)?,
        };
        // One write: another process that appends does not come in between.
        let synced = || if entry.outcome.is_none() { open.sync_data() } else { Ok(()) };
        (&open).write_all(&line).and_then(|()| synced()).map_err(failed)?;
        *file = Some(open);
        Ok(())
    }

    /// The newest entries, newest first, of this tenant or of all.
    pub fn newest(&self, tenant: Option<&str>, limit: usize) -> Result<Vec<AuditEntry>, SetupError> {
        let mut found = Vec::new();
        for path in [&self.path, &self.old] {
            let failed = |error: std::io::Error| {
                SetupError::failed(format!("{} cannot be read: {error}", path.display()))
            };
            let text = match end_of(path) {
                Ok(text) => text,
                Err(error) if error.kind() == ErrorKind::NotFound => continue,
                Err(error) => return Err(failed(error)),
            };
            // A line that was cut off by a crash is no entry.
            let entries = text.lines().rev().filter_map(|line| serde_json::from_str::<AuditEntry>(line).ok());
            let wanted = entries.filter(|entry| tenant.is_none_or(|tenant| entry.tenant == tenant));
            found.extend(wanted.take(limit - found.len()));
            if found.len() >= limit {
                break;
            }
        }
        Ok(found)
    }
}

/// Opens a log to add entries. A line that a crash has cut off is ended, so that it spoils no other.
fn opened(path: &Path) -> std::io::Result<File> {
    let mut file = OpenOptions::new().create(true).read(true).append(true).mode(0o600).open(path)?;
    if file.metadata()?.len() > 0 {
        let mut last = [0];
        file.seek(SeekFrom::End(-1))?;
        file.read_exact(&mut last)?;
        if last != *b"\n" {
            file.write_all(b"\n")?;
        }
    }
    Ok(file)
}

/// The end of a file.
fn end_of(path: &Path) -> std::io::Result<String> {
    let mut file = File::open(path)?;
    let skipped = file.metadata()?.len().saturating_sub(READ_MAX_BYTES);
    file.seek(SeekFrom::Start(skipped))?;
    let mut bytes = Vec::new();
    file.take(READ_MAX_BYTES).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn entry(id: &str, tenant: &str, detail: &str) -> AuditEntry {
        AuditEntry {
            id: id.to_owned(),
            at_ms: 1,
            token: "ci".to_owned(),
            tenant: tenant.to_owned(),
            operation: "cancel".to_owned(),
            run: None,
            detail: detail.to_owned(),
            outcome: None,
        }
    }

    #[test]
    fn entries_are_read_newest_first_and_a_tenant_sees_its_own() {
        let dir = tempfile::tempdir().expect("a directory");
        let log = AuditLog::new(dir.path());
        assert!(log.newest(None, 9).expect("nothing yet").is_empty());
        let umlauts = "ä".repeat(DETAIL_MAX_BYTES);
        for (id, tenant, detail) in [("1", "a", "x\ny"), ("2", "b", ""), ("3", "a", &umlauts)] {
            log.add(&entry(id, tenant, detail)).expect("added");
        }
        // What a crash leaves is no entry, and hides none.
        let path = dir.path().join(FILE);
        OpenOptions::new().append(true).open(&path).expect("a file").write_all(b"{\"id\":").expect("written");
        let ids = |tenant, limit| -> Vec<String> {
            let found = log.newest(tenant, limit).expect("entries");
            assert!(found.iter().all(|entry| entry.detail.len() <= DETAIL_MAX_BYTES));
            found.into_iter().map(|entry| entry.id).collect()
        };
        assert_eq!(ids(None, 9), ["3", "2", "1"]);
        assert_eq!(ids(Some("a"), 9), ["3", "1"]);
        assert_eq!(ids(None, 2), ["3", "2"]);
        AuditLog::new(dir.path()).add(&entry("4", "b", "")).expect("added");
        assert_eq!(ids(None, 2), ["4", "3"]);
        assert_eq!(fs::metadata(&path).expect("a file").permissions().mode() & 0o777, 0o600);
    }
}
