//! One transaction of the writer: a group of requests, each executed whole or not at all, all durable with one sync.

use std::collections::HashMap;

use posse_domain::hash::Hash;
use posse_engine::ports::{Epoch, Pulse, RunKey, StoreError};
use rusqlite::types::ValueRef;
use rusqlite::{OptionalExtension, Row};

use super::context::Context;
use super::error::concerns_one_commit;
use super::lease::OwnLifeLock;
use super::request::{Answer, Reply, Request, hold_back, not_reached};
use super::seal::HEADS;
use super::statements::Statements;

/// Why a request failed, and what else fails with it.
#[derive(Debug)]
pub(super) enum RefusedScope {
    /// Only this request fails.
    Request(StoreError),
    /// The whole transaction fails.
    Group(rusqlite::Error),
}

impl From<StoreError> for RefusedScope {
    fn from(error: StoreError) -> Self {
        RefusedScope::Request(error)
    }
}

impl From<rusqlite::Error> for RefusedScope {
    fn from(error: rusqlite::Error) -> Self {
        if concerns_one_commit(&error) {
            RefusedScope::Request(StoreError::Failed(format!(
                "the commit does not fit the database: {error}"
            )))
        } else {
            RefusedScope::Group(error)
        }
    }
}

/// The head of a run within the transaction. It is read once for all requests of the run, and written once.
#[derive(Debug, Clone, Copy)]
pub(super) struct RunHead {
    pub(super) run_no: i64,
    pub(super) seq: u64,
    pub(super) hash: Hash,
    pub(super) posts: u64,
    pub(super) epoch: Epoch,
    /// Whether this process holds the lease.
    pub(super) is_mine: bool,
    pub(super) lease_until_ms: i64,
    /// Whether the row must be written.
    pub(super) moved: bool,
}

pub(super) struct Group<'w, 'c> {
    pub(super) sql: &'w mut Statements<'c>,
    pub(super) context: &'w Context,
    pub(super) life_lock: &'w mut OwnLifeLock,
    /// The end of every lease that this group gives or renews.
    pub(super) lease_until_ms: i64,
    pub(super) heads: HashMap<RunKey, RunHead>,
    pub(super) granted_claim: bool,
}

impl Group<'_, '_> {
    /// Executes one request. The reply is sent later. An error ends the group.
    pub(super) fn execute(&mut self, request: Request) -> (Reply, rusqlite::Result<()>) {
        match request {
            Request::Commit(commit, answer) => reply(answer, self.commit(&commit)),
            Request::Claim(key, answer) => reply(answer, self.claim(&key)),
            Request::Heartbeat(key, epoch, answer) => reply(answer, self.heartbeat(&key, epoch)),
            Request::Release(key, epoch, answer) => reply(answer, self.release(&key, epoch)),
            Request::Post(key, command, answer) => reply(answer, self.post(&key, &command)),
            Request::Remove(key, answer) => reply(answer, self.remove(&key)),
        }
    }

    /// Executes a write of several parts. If it fails half-way, its parts are undone.
    pub(super) fn whole<T>(
        &mut self,
        write: impl FnOnce(&mut Self) -> Result<T, RefusedScope>,
    ) -> Result<T, RefusedScope> {
        self.sql.savepoint.execute([])?;
        let written = write(self);
        if let Err(RefusedScope::Request(_)) = written {
            self.sql.undo.execute([])?;
        }
        if !matches!(written, Err(RefusedScope::Group(_))) {
            self.sql.keep.execute([])?;
        }
        written
    }

    /// Writes the changed heads.
    pub(super) fn write_heads(&mut self) -> rusqlite::Result<()> {
        for (key, head) in self.heads.iter().filter(|(_, head)| head.moved) {
            self.sql.move_head.execute((
                head.run_no,
                key.tenant.as_str(),
                stored(head.seq),
                head.hash.as_bytes(),
                stored(head.posts),
                head.lease_until_ms,
            ))?;
            // The seal covers the row as it is now, because another process may own its lease columns.
            let seal = self.sql.head_row.query_row([head.run_no], |row| HEADS.of(row))?;
            self.sql.seal_head.execute((seal.as_bytes(), head.run_no))?;
        }
        Ok(())
    }

    /// The pulses for watchers, which are sent when the group is durable.
    pub(super) fn pulses(&self) -> impl Iterator<Item = (&RunKey, Pulse)> {
        let moved = self.heads.iter().filter(|(_, head)| head.moved);
        moved.map(|(key, head)| (key, Pulse { head: head.seq, messages: head.posts }))
    }

    /// The head of a run that must exist.
    pub(super) fn head(&mut self, key: &RunKey) -> Result<RunHead, RefusedScope> {
        match self.find_head(key)? {
            Some(head) => Ok(head),
            None => Err(StoreError::UnknownRun(key.run.clone()).into()),
        }
    }

    pub(super) fn find_head(&mut self, key: &RunKey) -> Result<Option<RunHead>, RefusedScope> {
        if let Some(head) = self.heads.get(key) {
            return Ok(Some(*head));
        }
        let holder_id = self.context.holder_id.as_str();
        let found = self
            .sql
            .find_head
            .query_row((key.tenant.as_str(), key.run.as_str()), |row| Ok(read_head(row, holder_id)))
            .optional()?;
        let Some(head) = found else { return Ok(None) };
        let damaged = || StoreError::Damaged {
            run: key.run.clone(),
            problem: "its head is not what was written".to_owned(),
        };
        let head = head?.ok_or_else(damaged)?;
        self.heads.insert(key.clone(), head);
        Ok(Some(head))
    }

    /// Moves the head of a run. The row is written at the end of the group.
    pub(super) fn move_head(&mut self, key: &RunKey, head: RunHead) {
        let head = RunHead { moved: true, ..head };
        match self.heads.get_mut(key) {
            Some(known) => *known = head,
            None => drop(self.heads.insert(key.clone(), head)),
        }
    }
}

fn reply<T: 'static>(answer: Answer<T>, outcome: Result<T, RefusedScope>) -> (Reply, rusqlite::Result<()>) {
    match outcome {
        Ok(done) => (hold_back(answer, Ok(done)), Ok(())),
        Err(RefusedScope::Request(error)) => (hold_back(answer, Err(error)), Ok(())),
        Err(RefusedScope::Group(error)) => (hold_back(answer, Err(not_reached())), Err(error)),
    }
}

/// Reads a head. `None` if it is damaged: a new seal over it would hide the damage.
fn read_head(row: &Row<'_>, holder_id: &str) -> rusqlite::Result<Option<RunHead>> {
    if !HEADS.is_whole(row)? {
        return Ok(None);
    }
    let is_mine = matches!(row.get_ref(6)?, ValueRef::Text(name) if name == holder_id.as_bytes());
    let hash = Hash::from_bytes(row.get_ref(3)?.as_blob().unwrap_or_default());
    let number =
        |column| Ok::<_, rusqlite::Error>(u64::try_from(row.get::<_, i64>(column)?).unwrap_or_default());
    let (run_no, lease_until_ms) = (row.get(0)?, row.get(9)?);
    let (seq, posts, epoch) = (number(2)?, number(4)?, number(5)?);
    Ok(hash.map(|hash| RunHead { run_no, seq, hash, posts, epoch, is_mine, lease_until_ms, moved: false }))
}

/// A number as SQLite stores it. Numbers of events, commands and epochs stay far below the limit.
pub(super) fn stored(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
