//! Checks the whole database for damage that no single read would show.

use posse_domain::hash::Hash;
use posse_domain::id::RunId;
use posse_engine::ports::{Health, RunKey, TenantId};
use rusqlite::Connection;
use rusqlite::types::ValueRef;

use super::blobs;
use super::context::Context;
use super::query::{self, NOT_AS_WRITTEN, QueryError};
use super::rows::RowsOf;
use super::schema::{position, row_ids};
use super::seal::REMOVED_RUNS;

/// Limit of problems that one check reports.
const PROBLEMS_MAX: usize = 100;

pub(super) fn check(connection: &Connection, context: &Context) -> Result<Health, QueryError> {
    let mut problems = Vec::new();
    // Pages are checked first: on a damaged tree, the other results mean nothing.
    let sql = format!("PRAGMA integrity_check({PROBLEMS_MAX})");
    let mut select = connection.prepare(&sql)?;
    let mut rows = select.query([])?;
    while let Some(row) = rows.next()? {
        let line: String = row.get(0)?;
        if line != "ok" {
            problems.push(line);
        }
    }
    if problems.iter().all(|problem| is_about_values(problem)) {
        check_references(connection, &mut problems)?;
        check_numbers(connection, &mut problems)?;
        check_heads(connection, &mut problems)?;
        check_agents(connection, &mut problems)?;
        check_runs(connection, context, &mut problems)?;
        check_removed(connection, context, &mut problems)?;
        check_blobs(connection, context, &mut problems)?;
    }
    problems.truncate(PROBLEMS_MAX);
    Ok(Health { problems })
}

/// Whether a line of SQLite's own check is about values that a column refuses. The trees are then intact, and the other
/// checks can name the row.
fn is_about_values(line: &str) -> bool {
    line.starts_with("CHECK constraint failed") || line.starts_with("NULL value in")
}

/// Checks the rows of one run that do not follow from its events.
pub(super) fn check_run(
    connection: &Connection,
    context: &Context,
    key: &RunKey,
) -> Result<Health, QueryError> {
    let no = query::run_no(connection, key)?;
    let mut problems =
        RowsOf { no, run: key.run.as_str(), tenant: key.tenant.as_str() }.read_row(connection, context)?;
    problems.truncate(PROBLEMS_MAX);
    Ok(Health { problems })
}

/// Checks the rows of every run that do not follow from events.
fn check_runs(
    connection: &Connection,
    context: &Context,
    problems: &mut Vec<String>,
) -> Result<(), QueryError> {
    let mut select = connection.prepare("SELECT no, run, tenant FROM runs ORDER BY no")?;
    let mut rows = select.query([])?;
    while let Some(row) = rows.next()? {
        let (run, tenant) = (query::text(row, 1)?, query::text(row, 2)?);
        problems.extend(RowsOf { no: row.get(0)?, run, tenant }.read_row(connection, context)?);
        if run.parse::<RunId>().is_err() {
            let no: i64 = row.get(0)?;
            problems.push(format!("`{run}`, the id of run number {no}, is not the id of a run"));
        }
    }
    Ok(())
}

fn check_references(connection: &Connection, problems: &mut Vec<String>) -> Result<(), QueryError> {
    let mut select = connection.prepare("PRAGMA foreign_key_check")?;
    let mut rows = select.query([])?;
    while let Some(row) = rows.next()? {
        let (table, parent): (String, String) = (row.get(0)?, row.get(2)?);
        problems.push(format!("a row of {table} refers to one of {parent} that does not exist"));
    }
    let sql = "SELECT run_no, id FROM mailbox WHERE NOT EXISTS (SELECT 1 FROM runs WHERE no = run_no)";
    let mut select = connection.prepare(sql)?;
    let mut rows = select.query([])?;
    while let Some(row) = rows.next()? {
        let (no, id): (i64, i64) = (row.get(0)?, row.get(1)?);
        problems.push(format!("command {id} waits for run number {no}, which does not exist"));
    }
    Ok(())
}

/// Checks that no run number is used twice: the numbers of removed runs stay reserved.
fn check_numbers(connection: &Connection, problems: &mut Vec<String>) -> Result<(), QueryError> {
    let given = "SELECT max(ifnull((SELECT max(no) FROM runs), 0), ifnull((SELECT max(run_no) FROM removed_runs), 0)), \
         (SELECT max(seq) FROM sqlite_sequence WHERE name = 'runs')";
    let (given, counted): (i64, Option<i64>) =
        connection.query_row(given, [], |row| Ok((row.get(0)?, row.get(1)?)))?;
    if counted.unwrap_or(0) < given {
        problems.push(format!(
            "the counter of run numbers is at {}, but number {given} is in use",
            counted.unwrap_or(0)
        ));
    }
    let both = "SELECT m.run FROM removed_runs AS m JOIN runs AS r ON r.no = m.run_no";
    let mut select = connection.prepare(both)?;
    let mut rows = select.query([])?;
    while let Some(row) = rows.next()? {
        problems.push(format!(
            "run {} is noted as removed, and another run has its number",
            query::text(row, 0)?
        ));
    }
    Ok(())
}

fn check_removed(
    connection: &Connection,
    context: &Context,
    problems: &mut Vec<String>,
) -> Result<(), QueryError> {
    if !context.has_seals() {
        return Ok(());
    }
    let mut select = connection.prepare(&REMOVED_RUNS.select("ORDER BY run_no"))?;
    let mut rows = select.query([])?;
    while let Some(row) = rows.next()? {
        if !REMOVED_RUNS.is_whole(row)? {
            let (no, run): (i64, String) = (row.get(0)?, row.get(2)?);
            problems.push(format!("the note of removed run {run} (number {no}) {NOT_AS_WRITTEN}"));
        }
    }
    Ok(())
}

/// Checks that every journal ends at its head, without a gap and with its head's hash.
fn check_heads(connection: &Connection, problems: &mut Vec<String>) -> Result<(), QueryError> {
    let mut runs = connection.prepare(
        "SELECT r.no, r.run, h.seq, h.hash FROM runs AS r LEFT JOIN heads AS h ON h.run_no = r.no",
    )?;
    let mut count = connection.prepare("SELECT count(*), max(id) FROM events WHERE id BETWEEN ?1 AND ?2")?;
    let mut last = connection.prepare("SELECT hash FROM events WHERE id = ?1")?;
    let mut rows = runs.query([])?;
    while let Some(row) = rows.next()? {
        let (no, run): (i64, String) = (row.get(0)?, row.get(1)?);
        let (Some(seq), Some(hash)) = (row.get::<_, Option<i64>>(2)?, row.get::<_, Option<Vec<u8>>>(3)?)
        else {
            problems.push(format!("run {run} has no head"));
            continue;
        };
        let (events, end): (i64, Option<i64>) =
            count.query_row(row_ids(no), |row| Ok((row.get(0)?, row.get(1)?)))?;
        let end_seq = end.map_or(0, |id| i64::try_from(position(id)).unwrap_or(i64::MAX));
        if events != end_seq {
            problems.push(format!("the journal of run {run} has {events} events and ends at {end_seq}"));
        }
        if end_seq != seq {
            problems.push(format!("the journal of run {run} ends at {end_seq}, its head is at {seq}"));
        }
        let found = match end {
            Some(id) => last.query_row([id], |row| row.get::<_, Vec<u8>>(0))?,
            None => Hash::ZERO.as_bytes().to_vec(),
        };
        if found != hash {
            problems.push(format!("the last event of run {run} does not have the hash of its head"));
        }
    }
    let strays =
        "SELECT count(*) FROM events WHERE NOT EXISTS (SELECT 1 FROM runs WHERE no = events.id >> 40)";
    let strays: i64 = connection.query_row(strays, [], |row| row.get(0))?;
    if strays > 0 {
        problems.push(format!("{strays} events belong to no run"));
    }
    Ok(())
}

fn check_agents(connection: &Connection, problems: &mut Vec<String>) -> Result<(), QueryError> {
    let sql = "SELECT agent FROM agents WHERE NOT EXISTS (SELECT 1 FROM agent_terms AS t WHERE t.id = agents.terms)";
    let mut select = connection.prepare(sql)?;
    let mut rows = select.query([])?;
    while let Some(row) = rows.next()? {
        problems.push(format!("agent {} has no terms", row.get::<_, String>(0)?));
    }
    Ok(())
}

/// Checks that blobs in the database have the hashes in their names, and that blob files exist with the right length.
/// The content of a file is checked with the run that refers to it.
fn check_blobs(
    connection: &Connection,
    context: &Context,
    problems: &mut Vec<String>,
) -> Result<(), QueryError> {
    let mut select = connection.prepare("SELECT tenant, hash, bytes, content FROM blobs")?;
    let mut rows = select.query([])?;
    while let Some(row) = rows.next()? {
        let (tenant, hash, bytes): (String, Vec<u8>, i64) = (row.get(0)?, row.get(1)?, row.get(2)?);
        let Some(hash) = Hash::from_bytes(&hash) else {
            problems.push("a blob without a name".to_owned());
            continue;
        };
        let inline = match row.get_ref(3)? {
            ValueRef::Blob(inline) => Some(inline),
            _ => None,
        };
        let file = || blobs::file_len(&context.paths.blobs, &TenantId::new(&tenant), &hash);
        let (place, len) = match inline {
            Some(inline) => ("content", Some(inline.len() as u64)),
            None => ("file", file()),
        };
        match len {
            None => problems.push(format!("the file of blob {hash} is missing")),
            Some(len) if i64::try_from(len) != Ok(bytes) => {
                problems.push(format!("the {place} of blob {hash} has {len} bytes instead of {bytes}"));
            }
            Some(_) => {}
        }
        if inline.is_some_and(|inline| Hash::of(inline) != hash) {
            problems.push(format!("the content of blob {hash} {NOT_AS_WRITTEN}"));
        }
    }
    Ok(())
}
