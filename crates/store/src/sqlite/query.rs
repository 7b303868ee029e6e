//! What readers ask the database. Each question is one statement or one transaction, so that it sees one moment.

use std::path::Path;
use std::sync::Arc;

use posse_domain::event::Stored;
use posse_domain::hash::Hash;
use posse_engine::ports::{
    AgentRow, AgentTerms, Head, Mail, Pulse, READ_MAX_EVENTS, RemovedRun, RunEntry, RunKey, RunRow,
    StoreError, TenantId,
};
use rusqlite::{Connection, OptionalExtension, Row, Transaction, TransactionBehavior};

use super::blobs;
use super::context::Context;
use super::error::{corrupt, from_sqlite};
use super::lease::Lease;
use super::schema::{place, row_id, row_ids};

/// A question's error: SQLite's, or a value that nobody wrote there.
pub(super) enum Broken {
    Sqlite(rusqlite::Error),
    Value(String),
    Store(StoreError),
}

impl From<rusqlite::Error> for Broken {
    fn from(error: rusqlite::Error) -> Self {
        Broken::Sqlite(error)
    }
}

impl From<StoreError> for Broken {
    fn from(error: StoreError) -> Self {
        Broken::Store(error)
    }
}

impl Broken {
    pub(super) fn at(self, path: &Path) -> StoreError {
        match self {
            Broken::Sqlite(error) => from_sqlite(path, &error),
            Broken::Value(problem) => corrupt(path, problem),
            Broken::Store(error) => error,
        }
    }
}

type Answer<T> = Result<T, Broken>;

fn bad<T>(what: impl std::fmt::Display) -> Answer<T> {
    Err(Broken::Value(format!("{what} cannot be read")))
}

/// The number of a run.
fn run_no(connection: &Connection, key: &RunKey) -> Answer<i64> {
    let mut find = connection.prepare_cached("SELECT no FROM runs WHERE tenant = ?1 AND run = ?2")?;
    match find.query_row((key.tenant.as_str(), key.run.as_str()), |row| row.get(0)).optional()? {
        Some(no) => Ok(no),
        None => Err(StoreError::UnknownRun(key.run.clone()).into()),
    }
}

/// Events after `after`.
pub(super) fn read(connection: &Connection, key: &RunKey, after: u64, limit: u32) -> Answer<Vec<Stored>> {
    let no = run_no(connection, key)?;
    let (_, last) = row_ids(no);
    let Some(first) = row_id(no, after) else { return Ok(Vec::new()) };
    let mut select = connection.prepare_cached(
        "SELECT id, agent, kind, at_ms, version, payload, hash FROM events \
         WHERE id > ?1 AND id <= ?2 AND tenant = ?3 ORDER BY id LIMIT ?4",
    )?;
    let mut rows = select.query((first, last, key.tenant.as_str(), limit.min(READ_MAX_EVENTS)))?;
    let mut events: Vec<Stored> = Vec::new();
    let mut kinds: Vec<Arc<str>> = Vec::new();
    while let Some(row) = rows.next()? {
        let expected = after + events.len() as u64 + 1;
        let event = event(row, &mut kinds)?;
        if event.seq != expected {
            return Err(Broken::Value(format!("event {expected} of run {} is missing", key.run)));
        }
        events.push(event);
    }
    Ok(events)
}

fn event(row: &Row<'_>, kinds: &mut Vec<Arc<str>>) -> Answer<Stored> {
    let seq = place(row.get(0)?);
    let Some(agent) = text(row, 1)?.parse().ok() else { return bad(format!("the agent of event {seq}")) };
    let Some(hash) = hash(row, 6)? else { return bad(format!("the hash of event {seq}")) };
    let kind = intern(kinds, text(row, 2)?);
    Ok(Stored { seq, agent, kind, at_ms: row.get(3)?, version: row.get(4)?, payload: row.get(5)?, hash })
}

/// There are few kinds and many events: each kind is one allocation.
fn intern(kinds: &mut Vec<Arc<str>>, kind: &str) -> Arc<str> {
    if let Some(known) = kinds.iter().find(|known| ***known == *kind) {
        return known.clone();
    }
    let kind: Arc<str> = kind.into();
    kinds.push(kind.clone());
    kind
}

fn text<'r>(row: &'r Row<'_>, column: usize) -> rusqlite::Result<&'r str> {
    Ok(row.get_ref(column)?.as_str()?)
}

fn hash(row: &Row<'_>, column: usize) -> rusqlite::Result<Option<Hash>> {
    Ok(Hash::from_bytes(row.get_ref(column)?.as_blob()?))
}

fn number(row: &Row<'_>, column: usize) -> rusqlite::Result<u64> {
    Ok(u64::try_from(row.get::<_, i64>(column)?).unwrap_or_default())
}

/// The end of a journal.
pub(super) fn head(connection: &Connection, key: &RunKey) -> Answer<Head> {
    let mut find = connection.prepare_cached(
        "SELECT h.seq, h.hash FROM runs AS r JOIN heads AS h ON h.run_no = r.no \
         WHERE r.tenant = ?1 AND r.run = ?2",
    )?;
    let found = find
        .query_row((key.tenant.as_str(), key.run.as_str()), |row| Ok((number(row, 0)?, hash(row, 1)?)))
        .optional()?;
    match found {
        Some((seq, Some(hash))) => Ok(Head { seq, hash }),
        Some((_, None)) => bad(format!("the head of run {}", key.run)),
        None => Err(StoreError::UnknownRun(key.run.clone()).into()),
    }
}

/// Where a run stands, for those who watch it; none if it does not exist yet.
pub(super) fn pulse(connection: &Connection, key: &RunKey) -> rusqlite::Result<Option<Pulse>> {
    let mut find = connection.prepare_cached(
        "SELECT h.seq, h.posts FROM runs AS r JOIN heads AS h ON h.run_no = r.no \
         WHERE r.tenant = ?1 AND r.run = ?2",
    )?;
    find.query_row((key.tenant.as_str(), key.run.as_str()), |row| {
        Ok(Pulse { head: number(row, 0)?, posts: number(row, 1)? })
    })
    .optional()
}

/// Commands that wait.
pub(super) fn mail(connection: &Connection, key: &RunKey) -> Answer<Vec<Mail>> {
    let no = run_no(connection, key)?;
    let mut select = connection
        .prepare_cached("SELECT id, command FROM mailbox WHERE run_no = ?1 AND tenant = ?2 ORDER BY id")?;
    let mut rows = select.query((no, key.tenant.as_str()))?;
    let mut mail = Vec::new();
    while let Some(row) = rows.next()? {
        let id = number(row, 0)?;
        let Ok(command) = serde_json::from_str(text(row, 1)?) else {
            return bad(format!("command {id} for run {}", key.run));
        };
        mail.push(Mail { id, command });
    }
    Ok(mail)
}

/// A blob's content, checked against its name.
pub(super) fn blob(
    connection: &Connection,
    context: &Context,
    tenant: &TenantId,
    hash: &Hash,
) -> Answer<Vec<u8>> {
    let mut find = connection.prepare_cached("SELECT content FROM blobs WHERE tenant = ?1 AND hash = ?2")?;
    let found: Option<Option<Vec<u8>>> =
        find.query_row((tenant.as_str(), hash.as_bytes()), |row| row.get(0)).optional()?;
    match found {
        None => Err(StoreError::UnknownBlob(*hash).into()),
        Some(None) => Ok(blobs::read_file(&context.paths.blobs, tenant, hash)?),
        Some(Some(bytes)) => Ok(blobs::verified(&context.paths.database, bytes, hash)?),
    }
}

/// The columns of a list of runs.
const RUN_COLUMNS: &str = "SELECT r.run, r.status, r.title, r.definition, r.model, r.dir, r.session_id, \
     r.created_at_ms, r.ended_at_ms, h.seq, h.hash, h.epoch, h.owner, h.owner_pid, h.boot, h.lease_until_ms, \
     (SELECT count(*) FROM agents AS a WHERE a.run_no = r.no AND a.tenant = r.tenant) \
     FROM runs AS r JOIN heads AS h ON h.run_no = r.no WHERE r.tenant = ?1";

/// Runs whose id starts with `prefix`, newest first.
pub(super) fn runs(
    connection: &Connection,
    context: &Context,
    tenant: &TenantId,
    prefix: &str,
    limit: u32,
) -> Answer<Vec<RunEntry>> {
    // Without a prefix the newest are at the end of the table; with one the index on the id is the shorter way.
    // Ids are digits and small letters, which all come before `~`.
    let narrow = if prefix.is_empty() { "AND ?2 = ''" } else { "AND r.run >= ?2 AND r.run < ?2 || '~'" };
    let sql = format!("{RUN_COLUMNS} {narrow} ORDER BY r.no DESC LIMIT ?3");
    let mut select = connection.prepare_cached(&sql)?;
    let mut rows = select.query((tenant.as_str(), prefix, limit))?;
    let mut entries = Vec::new();
    while let Some(row) = rows.next()? {
        entries.push(run_entry(row, context)?);
    }
    Ok(entries)
}

fn run_entry(row: &Row<'_>, context: &Context) -> Answer<RunEntry> {
    let Ok(run) = text(row, 0)?.parse() else { return bad("the id of a run") };
    let Some(hash) = hash(row, 10)? else { return bad(format!("the head of run {run}")) };
    let epoch = number(row, 11)?;
    let lease = Lease::from_row(row, 12)?.filter(|lease| lease.holds(&context.paths, &context.clock));
    Ok(RunEntry {
        run,
        row: RunRow {
            status: row.get(1)?,
            title: row.get(2)?,
            definition: row.get(3)?,
            model: row.get(4)?,
            dir: row.get(5)?,
            session_id: row.get(6)?,
            created_at_ms: row.get(7)?,
            ended_at_ms: row.get(8)?,
        },
        agents: number(row, 16)?,
        head: Head { seq: number(row, 9)?, hash },
        holder: lease.map(|lease| lease.into_holder(epoch)),
    })
}

/// Runs that were removed and whose id starts with `prefix`, the last removed first.
pub(super) fn removed(
    connection: &Connection,
    tenant: &TenantId,
    prefix: &str,
    limit: u32,
) -> Answer<Vec<RemovedRun>> {
    let mut select = connection.prepare_cached(
        "SELECT run, head_seq, head_hash FROM removed_runs \
         WHERE tenant = ?1 AND substr(run, 1, length(?2)) = ?2 ORDER BY removed_at_ms DESC, run_no DESC LIMIT ?3",
    )?;
    let mut rows = select.query((tenant.as_str(), prefix, limit))?;
    let mut removed = Vec::new();
    while let Some(row) = rows.next()? {
        let Ok(run) = text(row, 0)?.parse() else { return bad("the id of a run that was removed") };
        let Some(hash) = hash(row, 2)? else {
            return bad(format!("the head of run {run}, which was removed"));
        };
        removed.push(RemovedRun { run, head: Head { seq: number(row, 1)?, hash } });
    }
    Ok(removed)
}

/// The agents of a run in the order of their creation.
pub(super) fn agents(connection: &Connection, key: &RunKey) -> Answer<Vec<AgentRow>> {
    let no = run_no(connection, key)?;
    let mut select = connection.prepare_cached(
        "SELECT a.agent, a.state, a.final_status, a.close_reason, a.result, a.error, a.usage_json, \
         a.subtree_usage_json, a.completed_at_ms, t.parent, t.parent_message_id, t.depth, t.definition, \
         t.contract_json, t.permissions_json, t.created_at_ms \
         FROM agents AS a JOIN agent_terms AS t ON t.id = a.terms \
         WHERE a.run_no = ?1 AND a.tenant = ?2 ORDER BY t.id",
    )?;
    let mut rows = select.query((no, key.tenant.as_str()))?;
    let mut agents = Vec::new();
    while let Some(row) = rows.next()? {
        agents.push(agent(row)?);
    }
    Ok(agents)
}

fn agent(row: &Row<'_>) -> Answer<AgentRow> {
    let Ok(id) = text(row, 0)?.parse() else { return bad("the id of an agent") };
    let parent = match row.get::<_, Option<String>>(9)?.map(|parent| parent.parse()) {
        None => None,
        Some(Ok(parent)) => Some(parent),
        Some(Err(_)) => return bad(format!("the parent of agent {id}")),
    };
    Ok(AgentRow {
        id,
        terms: Some(AgentTerms {
            parent,
            parent_message_id: row.get(10)?,
            depth: row.get(11)?,
            definition: row.get(12)?,
            contract_json: row.get(13)?,
            permissions_json: row.get(14)?,
            created_at_ms: row.get(15)?,
        }),
        state: row.get(1)?,
        final_status: row.get(2)?,
        close_reason: row.get(3)?,
        result: row.get(4)?,
        error: row.get(5)?,
        usage_json: row.get(6)?,
        subtree_usage_json: row.get(7)?,
        completed_at_ms: row.get(8)?,
    })
}

/// Runs several questions on one moment of the database.
pub(super) fn at_one_moment<T>(
    connection: &Connection,
    ask: impl FnOnce(&Connection) -> Answer<T>,
) -> Answer<T> {
    let moment = Transaction::new_unchecked(connection, TransactionBehavior::Deferred)?;
    let answer = ask(&moment)?;
    moment.finish()?;
    Ok(answer)
}
