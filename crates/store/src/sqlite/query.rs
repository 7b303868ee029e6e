//! The queries of readers. Each is one statement or one transaction, so that it sees one consistent state.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use posse_domain::budget::Figures;
use posse_domain::event::{FinalStatus, StoredEvent};
use posse_domain::hash::Hash;
use posse_domain::id::{AgentId, RunId};
use posse_domain::lifecycle::{AgentState, CloseReason, RunStatus};
use posse_engine::ports::{
    AgentRow, AgentTerms, Head, Mail, Pulse, READ_MAX_EVENTS, RemovedRun, RunEntry, RunKey, RunRow,
    RunSpending, StoreError, StorePart, TenantId,
};
use rusqlite::types::ValueRef;
use rusqlite::{Connection, OptionalExtension, Row, Transaction, TransactionBehavior};

use super::blobs;
use super::columns::{FailureColumn, optional, required};
use super::context::Context;
use super::error::{corrupt, from_sqlite};
use super::events_in_force;
use super::lease::Lease;
use super::schema::{position, row_id, row_ids};
use super::seal::MAILBOX;

/// The problem of a run without its row in `heads`.
pub(super) const NO_HEAD: &str = "it has no head";
/// The problem of a row whose seal does not match.
pub(super) const NOT_AS_WRITTEN: &str = "is not what was written";

/// A query's error: SQLite's, or a value that no store wrote.
pub(super) enum QueryError {
    Sqlite(rusqlite::Error),
    Value(String),
    Run(RunId, String),
    Store(StoreError),
}

impl From<rusqlite::Error> for QueryError {
    fn from(error: rusqlite::Error) -> Self {
        QueryError::Sqlite(error)
    }
}

impl From<StoreError> for QueryError {
    fn from(error: StoreError) -> Self {
        QueryError::Store(error)
    }
}

impl QueryError {
    pub(super) fn at(self, path: &Path) -> StoreError {
        match self {
            QueryError::Sqlite(error) => from_sqlite(path, &error),
            QueryError::Value(problem) => corrupt(StorePart::Journal, path, problem),
            QueryError::Run(run, problem) => StoreError::Damaged { run, problem },
            QueryError::Store(error) => error,
        }
    }
}

impl QueryError {
    /// Converts the error to damage of this run, if it is about a value that no store wrote.
    fn of_run(self, run: &RunId) -> Self {
        match self {
            QueryError::Value(problem) => QueryError::Run(run.clone(), problem),
            QueryError::Sqlite(error) if is_about_value(&error) => {
                QueryError::Run(run.clone(), error.to_string())
            }
            other => other,
        }
    }
}

/// Whether SQLite returned a value of a type or range that no store writes.
fn is_about_value(error: &rusqlite::Error) -> bool {
    matches!(
        error,
        rusqlite::Error::FromSqlConversionFailure(..)
            | rusqlite::Error::IntegralValueOutOfRange(..)
            | rusqlite::Error::InvalidColumnType(..)
            | rusqlite::Error::Utf8Error(..)
    )
}

type Answer<T> = Result<T, QueryError>;

fn bad<T>(what: impl std::fmt::Display) -> Answer<T> {
    Err(QueryError::Value(format!("{what} cannot be read")))
}

pub(super) fn run_no(connection: &Connection, key: &RunKey) -> Answer<i64> {
    let mut find = connection.prepare_cached("SELECT no FROM runs WHERE tenant = ?1 AND run = ?2")?;
    match find.query_row((key.tenant.as_str(), key.run.as_str()), |row| row.get(0)).optional()? {
        Some(no) => Ok(no),
        None => Err(StoreError::UnknownRun(key.run.clone()).into()),
    }
}

pub(super) fn read(
    connection: &Connection,
    key: &RunKey,
    after: u64,
    limit: u32,
) -> Answer<Vec<StoredEvent>> {
    let no = run_no(connection, key)?;
    let (_, last) = row_ids(no);
    let Some(first) = row_id(no, after) else { return Ok(Vec::new()) };
    let mut select = connection.prepare_cached(
        "SELECT id, agent, kind, at_ms, version, payload, hash FROM events \
         WHERE id > ?1 AND id <= ?2 AND tenant = ?3 ORDER BY id LIMIT ?4",
    )?;
    let mut rows = select.query((first, last, key.tenant.as_str(), limit.min(READ_MAX_EVENTS)))?;
    let mut events: Vec<StoredEvent> = Vec::new();
    let mut kinds: Vec<Arc<str>> = Vec::new();
    while let Some(row) = rows.next()? {
        let expected = after + events.len() as u64 + 1;
        let damaged = |problem| QueryError::Run(key.run.clone(), problem);
        if position(row.get(0)?) != expected {
            return Err(damaged(format!("event {expected} is missing")));
        }
        let event = event(row, &mut kinds).map_err(|broken| match broken.of_run(&key.run) {
            QueryError::Run(_, problem) => damaged(format!("event {expected}: {problem}")),
            other => other,
        })?;
        events.push(event);
    }
    Ok(events)
}

fn event(row: &Row<'_>, kinds: &mut Vec<Arc<str>>) -> Answer<StoredEvent> {
    let seq = position(row.get(0)?);
    let Some(agent) = text(row, 1)?.parse().ok() else { return bad(format!("the agent of event {seq}")) };
    let Some(hash) = hash(row, 6)? else { return bad(format!("the hash of event {seq}")) };
    let kind = intern(kinds, text(row, 2)?);
    Ok(StoredEvent { seq, agent, kind, at_ms: row.get(3)?, version: row.get(4)?, payload: row.get(5)?, hash })
}

/// There are few kinds and many events, so each kind is allocated once.
fn intern(kinds: &mut Vec<Arc<str>>, kind: &str) -> Arc<str> {
    if let Some(known) = kinds.iter().find(|known| ***known == *kind) {
        return known.clone();
    }
    let kind: Arc<str> = kind.into();
    kinds.push(kind.clone());
    kind
}

pub(super) fn text<'r>(row: &'r Row<'_>, column: usize) -> rusqlite::Result<&'r str> {
    Ok(row.get_ref(column)?.as_str()?)
}

fn hash(row: &Row<'_>, column: usize) -> rusqlite::Result<Option<Hash>> {
    Ok(Hash::from_bytes(row.get_ref(column)?.as_blob()?))
}

fn number(row: &Row<'_>, column: usize) -> rusqlite::Result<u64> {
    Ok(u64::try_from(row.get::<_, i64>(column)?).unwrap_or_default())
}

pub(super) fn head(connection: &Connection, key: &RunKey) -> Answer<Head> {
    let mut find = connection.prepare_cached("SELECT seq, hash FROM heads WHERE run_no = ?1")?;
    let found = find
        .query_row([run_no(connection, key)?], |row| Ok((number(row, 0)?, hash(row, 1)?)))
        .optional()
        .map_err(|error| QueryError::from(error).of_run(&key.run))?;
    match found {
        Some((seq, Some(hash))) => Ok(Head { seq, hash }),
        Some((_, None)) => {
            Err(QueryError::Run(key.run.clone(), "the hash of its head cannot be read".to_owned()))
        }
        None => Err(QueryError::Run(key.run.clone(), NO_HEAD.to_owned())),
    }
}

/// The pulse for watchers of a run. `None` if the run does not exist yet.
pub(super) fn pulse(connection: &Connection, key: &RunKey) -> rusqlite::Result<Option<Pulse>> {
    let mut find = connection.prepare_cached(
        "SELECT h.seq, h.posts FROM runs AS r JOIN heads AS h ON h.run_no = r.no \
         WHERE r.tenant = ?1 AND r.run = ?2",
    )?;
    find.query_row((key.tenant.as_str(), key.run.as_str()), |row| {
        Ok(Pulse { head: number(row, 0)?, messages: number(row, 1)? })
    })
    .optional()
}

/// The waiting commands. A damaged command is an error, because a lease holder would execute it.
pub(super) fn mail(connection: &Connection, context: &Context, key: &RunKey) -> Answer<Vec<Mail>> {
    let no = run_no(connection, key)?;
    let narrow = "WHERE run_no = ?1 AND tenant = ?2 ORDER BY id";
    let mut select = connection.prepare_cached(&MAILBOX.select_from(context.has_seals(), narrow))?;
    let mut rows = select.query((no, key.tenant.as_str()))?;
    let mut mail = Vec::new();
    while let Some(row) = rows.next()? {
        let id = number(row, 1)?;
        if context.has_seals() && !MAILBOX.is_whole(row)? {
            return Err(QueryError::Run(
                key.run.clone(),
                format!("command {id} in its mailbox {NOT_AS_WRITTEN}"),
            ));
        }
        let Ok(command) = serde_json::from_str(text(row, 3)?) else {
            return Err(QueryError::Run(
                key.run.clone(),
                format!("command {id} in its mailbox cannot be read"),
            ));
        };
        mail.push(Mail { id, command });
    }
    Ok(mail)
}

/// A blob's content, checked against its hash.
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
     (SELECT count(*) FROM agents AS a WHERE a.run_no = r.no AND +a.tenant = r.tenant), \
     (SELECT e.hash FROM events AS e WHERE e.id = (r.no << 40) + h.seq), \
     EXISTS (SELECT 1 FROM events AS e WHERE e.id > (r.no << 40) + h.seq AND e.id < (r.no + 1) << 40) \
     FROM runs AS r LEFT JOIN heads AS h ON h.run_no = r.no WHERE";

/// The query for a list of runs. The `+` prevents the use of an index on the tenant, because the run's number is far
/// more selective. With that index each run of the list would read all agents of all runs.
fn runs_sql(prefix: &str) -> String {
    // Without a prefix the newest runs are at the end of the table. With a prefix the index on the id is faster. Ids
    // consist of digits and lower-case letters, which all precede `~`.
    let narrow = if prefix.is_empty() {
        "+r.tenant = ?1 AND ?2 = ''"
    } else {
        "r.tenant = ?1 AND r.run >= ?2 AND r.run < ?2 || '~'"
    };
    format!("{RUN_COLUMNS} {narrow} ORDER BY r.no DESC LIMIT ?3")
}

pub(super) fn runs(
    connection: &Connection,
    context: &Context,
    tenant: &TenantId,
    prefix: &str,
    limit: u32,
) -> Answer<Vec<RunEntry>> {
    let mut select = connection.prepare_cached(&runs_sql(prefix))?;
    let mut rows = select.query((tenant.as_str(), prefix, limit))?;
    let mut entries = Vec::new();
    while let Some(row) = rows.next()? {
        let Ok(run) = text(row, 0)?.parse::<RunId>() else {
            return bad(format!("the id `{}` of a run", text(row, 0)?));
        };
        entries.push(run_entry(row, context, run.clone()).map_err(|broken| broken.of_run(&run))?);
    }
    Ok(entries)
}

/// The damage of a run's head: it is missing, or its number and hash differ from the last event's.
fn damage_of_head(row: &Row<'_>) -> Answer<Option<String>> {
    let Some(seq) = row.get::<_, Option<i64>>(9)? else { return Ok(Some(NO_HEAD.to_owned())) };
    let said = row.get::<_, Option<Vec<u8>>>(10)?.unwrap_or_default();
    let last = row.get::<_, Option<Vec<u8>>>(17)?;
    let is_first = seq == 0 && said == Hash::ZERO.as_bytes();
    Ok(match last {
        None if !is_first => Some(format!("its head is at event {seq}, which does not exist")),
        Some(hash) if hash != said => {
            Some(format!("the hash of its head is not that of its last event {seq}"))
        }
        _ if row.get(18)? => Some(format!("its head is at event {seq}, but more events follow")),
        _ => None,
    })
}

fn run_entry(row: &Row<'_>, context: &Context, run: RunId) -> Answer<RunEntry> {
    let status = RunStatus::parse(text(row, 1)?);
    // One damaged row must not prevent a list of the other runs.
    let damage = match (damage_of_head(row)?, status) {
        (None, None) => Some(format!("its row has the status `{}`", text(row, 1)?)),
        (damage, _) => damage,
    };
    let hash = match row.get_ref(10)? {
        ValueRef::Blob(bytes) => Hash::from_bytes(bytes),
        _ => None,
    };
    let number = |column| {
        row.get::<_, Option<i64>>(column).map(|number| u64::try_from(number.unwrap_or(0)).unwrap_or(0))
    };
    let epoch = number(11)?;
    let (live, over): (Option<Lease>, Option<Lease>) = match Lease::from_row(row, 12)? {
        Some(lease) if lease.is_live(context) => (Some(lease), None),
        lease => (None, lease),
    };
    let options = &context.options;
    let alive_at_ms = over.and_then(|lease| options.clock.renewed_at_ms(&lease.expiry, options.lease));
    Ok(RunEntry {
        run,
        row: RunRow {
            status: status.unwrap_or(RunStatus::Failed),
            title: row.get(2)?,
            definition: row.get(3)?,
            model: row.get(4)?,
            dir: row.get(5)?,
            session_id: row.get(6)?,
            created_at_ms: row.get(7)?,
            ended_at_ms: row.get(8)?,
        },
        agents: number(16)?,
        head: Head { seq: number(9)?, hash: hash.unwrap_or(Hash::ZERO) },
        holder: live.map(|lease| lease.into_holder(context, epoch)),
        alive_at_ms,
        damage,
    })
}

/// Open runs, oldest first. The condition equals that of the index `open_runs`, so ended runs cost nothing.
const OPEN_RUNS: &str = "SELECT r.run, h.owner, h.owner_pid, h.boot, h.lease_until_ms \
     FROM runs AS r JOIN heads AS h ON h.run_no = r.no \
     WHERE r.tenant = ?1 AND r.ended_at_ms IS NULL ORDER BY r.no";

/// Open runs without a live lease, oldest first.
pub(super) fn claimable(
    connection: &Connection,
    context: &Context,
    tenant: &TenantId,
    limit: u32,
) -> Answer<Vec<RunId>> {
    let mut select = connection.prepare_cached(OPEN_RUNS)?;
    let mut rows = select.query([tenant.as_str()])?;
    let mut free = Vec::new();
    while free.len() < limit as usize {
        let Some(row) = rows.next()? else { break };
        if Lease::from_row(row, 1)?.is_some_and(|lease| lease.is_live(context)) {
            continue;
        }
        let Ok(run) = text(row, 0)?.parse() else {
            return bad(format!("the id `{}` of a run", text(row, 0)?));
        };
        free.push(run);
    }
    Ok(free)
}

/// The spending of every agent of the newest runs. The root's model is in the row of the run, so most contracts are not
/// read.
const SPENDING: &str = "SELECT r.run, r.model, r.created_at_ms, a.usage_json, CASE WHEN a.agent = r.run \
     THEN r.model ELSE json_extract(t.contract_json, '$.execution.model') END \
     FROM (SELECT no, run, model, created_at_ms FROM runs WHERE +tenant = ?1 ORDER BY no DESC LIMIT ?2) AS r \
     LEFT JOIN agents AS a ON a.run_no = r.no AND +a.tenant = ?1 LEFT JOIN agent_terms AS t ON t.id = a.terms \
     ORDER BY r.no DESC";

pub(super) fn spending(connection: &Connection, tenant: &TenantId, limit: u32) -> Answer<Vec<RunSpending>> {
    let mut select = connection.prepare_cached(SPENDING)?;
    let mut rows = select.query((tenant.as_str(), limit))?;
    let mut runs: Vec<RunSpending> = Vec::new();
    while let Some(row) = rows.next()? {
        let Ok(run) = text(row, 0)?.parse() else { return bad("the id of a run") };
        if runs.last().is_none_or(|last| last.run != run) {
            let (model, created_at_ms) = (row.get(1)?, row.get(2)?);
            runs.push(RunSpending { run, model, created_at_ms, by_model: BTreeMap::new() });
        }
        // The root of the run has no row yet.
        let (Some(last), Some(usage)) = (runs.last_mut(), row.get::<_, Option<String>>(3)?) else {
            continue;
        };
        let Ok(figures) = serde_json::from_str::<Figures>(&usage) else {
            let problem = "what one of its agents spent cannot be read".to_owned();
            return Err(QueryError::Run(last.run.clone(), problem));
        };
        let model = row.get::<_, Option<String>>(4)?.unwrap_or_default();
        let sum = last.by_model.entry(model).or_default();
        sum.agents += 1;
        sum.figures += figures;
    }
    Ok(runs)
}

/// Removed runs whose id starts with `prefix`, the last removed first.
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
pub(super) fn agents(connection: &Connection, context: &Context, key: &RunKey) -> Answer<Vec<AgentRow>> {
    let no = run_no(connection, key)?;
    let in_force =
        if context.has_events_in_force() { "a.events_in_force" } else { events_in_force::UNKNOWN_SQL };
    let mut select = connection.prepare_cached(&format!(
        "SELECT a.agent, a.state, a.final_status, a.close_reason, a.result, a.error, a.usage_json, \
         a.subtree_usage_json, a.completed_at_ms, t.parent, t.parent_message_id, t.depth, t.definition, \
         t.contract_json, t.permissions_json, t.created_at_ms, t.id, r.status, {in_force} \
         FROM agents AS a JOIN agent_terms AS t ON t.id = a.terms JOIN runs AS r ON r.no = a.run_no \
         WHERE a.run_no = ?1 AND a.tenant = ?2 ORDER BY t.id",
    ))?;
    let mut rows = select.query((no, key.tenant.as_str()))?;
    let mut agents = Vec::new();
    while let Some(row) = rows.next()? {
        let number = position(row.get(16)?);
        agents.push(agent(row).map_err(|broken| match broken.of_run(&key.run) {
            QueryError::Run(run, problem) => {
                QueryError::Run(run, format!("agent number {number}: {problem}"))
            }
            other => other,
        })?);
    }
    Ok(agents)
}

fn agent(row: &Row<'_>) -> Answer<AgentRow> {
    let Ok(id) = text(row, 0)?.parse::<AgentId>() else { return bad(format!("its id `{}`", text(row, 0)?)) };
    let parent = match row.get::<_, Option<String>>(9)?.map(|parent| parent.parse()) {
        None => None,
        Some(Ok(parent)) => Some(parent),
        Some(Err(_)) => return bad(format!("the parent of agent {id}")),
    };
    let close_reason = optional(row, 3, "close reason", CloseReason::parse)?;
    let run_status = || text(row, 17).map(RunStatus::parse);
    let form = FailureColumn::of(&id, close_reason, run_status)?;
    let error = optional(row, 5, "error", |text| form.read(text))?;
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
        state: required(row, 1, "state", AgentState::parse)?,
        final_status: optional(row, 2, "final status", FinalStatus::parse)?,
        close_reason,
        result: row.get(4)?,
        error,
        usage_json: row.get(6)?,
        subtree_usage_json: row.get(7)?,
        completed_at_ms: row.get(8)?,
        events_in_force: events_in_force::read(row, 18)?,
    })
}

/// Runs several queries in one transaction, so that they see one state of the database.
pub(super) fn at_one_moment<T>(
    connection: &Connection,
    ask: impl FnOnce(&Connection) -> Answer<T>,
) -> Answer<T> {
    let moment = Transaction::new_unchecked(connection, TransactionBehavior::Deferred)?;
    let answer = ask(&moment)?;
    moment.finish()?;
    Ok(answer)
}

#[cfg(test)]
mod tests {
    use rusqlite::StatementStatus;

    use super::super::schema::MIGRATIONS;
    use super::*;

    /// A database with this many runs of three agents each.
    fn database(runs: i64) -> Connection {
        let connection = Connection::open_in_memory().unwrap();
        for migration in &MIGRATIONS {
            connection.execute_batch(migration.sql).unwrap();
        }
        let numbers = "WITH RECURSIVE n(no) AS (SELECT 1 UNION ALL SELECT no + 1 FROM n WHERE no < ?1)";
        let agents = "WITH RECURSIVE n(no) AS (SELECT 1 UNION ALL SELECT no + 1 FROM n WHERE no < ?1), \
             k(id) AS (VALUES (1), (2), (3))";
        for sql in [
            format!(
                "{numbers} INSERT INTO runs SELECT no, 'local', printf('a%07d', no), 'completed', 't', 'd', 'm', '/', \
                 NULL, no, no FROM n"
            ),
            format!(
                "{numbers} INSERT INTO heads SELECT no, 'local', 1, zeroblob(32), 0, 1, NULL, NULL, NULL, 0, x'' FROM n"
            ),
            format!(
                "{agents} INSERT INTO agent_terms SELECT (no << 40) + id, 'local', NULL, NULL, id > 1, 'd', \
                 '{{\"execution\":{{\"model\":\"m2\"}}}}', '{{}}', no FROM n, k"
            ),
            format!(
                "{agents} INSERT INTO agents SELECT no, printf('a%07d', no) || CASE id WHEN 1 THEN '' ELSE '.' || id END, \
                 'local', (no << 40) + id, 'closed', 'completed', 'integrated', 'r', NULL, '{FIGURES}', '{FIGURES}', no, NULL \
                 FROM n, k"
            ),
        ] {
            connection.execute(&sql, [runs]).unwrap();
        }
        connection
    }

    const FIGURES: &str = r#"{"turns":1,"tool_calls":2,"wall_ms":3,"usage":{"input_tokens":4,"output_tokens":5,"cached_tokens":0,"cache_write_tokens":0,"reasoning_tokens":0,"micro_usd":null}}"#;

    /// The number of steps of SQLite's virtual machine for a query whose rows are all read.
    fn steps(connection: &Connection, sql: &str, parameters: impl rusqlite::Params) -> i32 {
        let mut statement = connection.prepare(sql).unwrap();
        let mut rows = statement.query(parameters).unwrap();
        while rows.next().unwrap().is_some() {}
        drop(rows);
        statement.get_status(StatementStatus::VmStep)
    }

    #[test]
    fn lists_and_sums_cost_as_much_as_there_are_runs_and_one_run_costs_nothing_of_the_others() {
        let (small, large) = (database(100), database(1_000));
        for (name, sql, prefix, growth) in
            [("all runs", runs_sql(""), "", 11), ("one run", runs_sql("a0000007"), "a0000007", 1)]
        {
            let few = steps(&small, &sql, ("local", prefix, 1_000_000));
            let many = steps(&large, &sql, ("local", prefix, 1_000_000));
            assert!(many <= few * growth, "{name}: {few} steps with 100 runs, {many} with 1,000");
        }
        let newest = steps(&large, &runs_sql(""), ("local", "", 10));
        assert!(
            newest <= steps(&small, &runs_sql(""), ("local", "", 100)),
            "{newest} steps for the newest ten"
        );
        for connection in [&small, &large] {
            connection
                .execute("UPDATE runs SET ended_at_ms = NULL, status = 'running' WHERE no % 50 = 7", [])
                .unwrap();
        }
        let few = steps(&small, OPEN_RUNS, ["local"]);
        let many = steps(&large, &format!("{OPEN_RUNS} LIMIT 2"), ["local"]);
        assert!(
            many <= few + 5,
            "open runs: {few} steps with 100 runs, {many} with 1,000, for two runs each"
        );
        let few = steps(&small, SPENDING, ("local", 1_000_000));
        let many = steps(&large, SPENDING, ("local", 1_000_000));
        assert!(many <= few * 11, "spending: {few} steps with 100 runs, {many} with 1,000");
    }

    #[test]
    fn no_question_about_one_run_looks_at_the_agents_of_all() {
        let connection = database(1);
        let statements = include_str!("statements.rs")
            .split("sql(")
            .chain(include_str!("query.rs").split("prepare_cached("));
        let mut looked_at = 0;
        for text in statements.filter(|text| text.contains("agents")) {
            let Some(sql) = text.split('"').nth(1).map(|sql| sql.replace("\\\n", " ")) else { continue };
            let Ok(mut plan) = connection.prepare(&format!("EXPLAIN QUERY PLAN {sql}")) else { continue };
            let mut rows = plan.raw_query();
            while let Some(row) = rows.next().unwrap() {
                let step: String = row.get(3).unwrap();
                assert!(!step.contains("agents_by_state"), "{sql}: {step}");
                looked_at += 1;
            }
        }
        assert!(looked_at >= 3, "only {looked_at} steps were looked at");
    }

    #[test]
    fn spending_is_summed_by_run_and_model() {
        let spent = spending(&database(3), &TenantId::local(), 2).ok().unwrap();
        let named: Vec<&str> = spent.iter().map(|run| run.run.as_str()).collect();
        assert_eq!(named, ["a0000003", "a0000002"]);
        let sums: Vec<_> = spent[0]
            .by_model
            .iter()
            .map(|(model, sum)| (model.as_str(), sum.agents, sum.figures.turns))
            .collect();
        assert_eq!(sums, [("m", 1, 1), ("m2", 2, 2)]);
    }
}
