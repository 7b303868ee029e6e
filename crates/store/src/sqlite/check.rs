//! Looking for damage that no single read would show.

use posse_domain::hash::Hash;
use posse_engine::ports::{Health, TenantId};
use rusqlite::Connection;

use super::blobs;
use super::context::Context;
use super::query::Broken;
use super::schema::{place, row_ids};

/// Most problems that one look reports.
const PROBLEMS_MAX: usize = 100;

/// Looks at all tables.
pub(super) fn check(connection: &Connection, context: &Context) -> Result<Health, Broken> {
    let mut problems = Vec::new();
    // Pages first: what is built on a damaged tree means nothing.
    let sql = format!("PRAGMA integrity_check({PROBLEMS_MAX})");
    let mut select = connection.prepare(&sql)?;
    let mut rows = select.query([])?;
    while let Some(row) = rows.next()? {
        let line: String = row.get(0)?;
        if line != "ok" {
            problems.push(line);
        }
    }
    if problems.is_empty() {
        check_references(connection, &mut problems)?;
        check_heads(connection, &mut problems)?;
        check_agents(connection, &mut problems)?;
        check_blobs(connection, context, &mut problems)?;
    }
    problems.truncate(PROBLEMS_MAX);
    Ok(Health { problems })
}

fn check_references(connection: &Connection, problems: &mut Vec<String>) -> Result<(), Broken> {
    let mut select = connection.prepare("PRAGMA foreign_key_check")?;
    let mut rows = select.query([])?;
    while let Some(row) = rows.next()? {
        let (table, parent): (String, String) = (row.get(0)?, row.get(2)?);
        problems.push(format!("a row of {table} refers to one of {parent} that does not exist"));
    }
    Ok(())
}

/// Every journal is as long as its head says, without a gap, and ends in its head's hash.
fn check_heads(connection: &Connection, problems: &mut Vec<String>) -> Result<(), Broken> {
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
        let end_seq = end.map_or(0, |id| i64::try_from(place(id)).unwrap_or(i64::MAX));
        if events != end_seq {
            problems.push(format!("the journal of run {run} has {events} events and ends at {end_seq}"));
        }
        if end_seq != seq {
            problems.push(format!("the journal of run {run} ends at {end_seq}, its head says {seq}"));
        }
        let found = match end {
            Some(id) => last.query_row([id], |row| row.get::<_, Vec<u8>>(0))?,
            None => Hash::ZERO.as_bytes().to_vec(),
        };
        if found != hash {
            problems.push(format!("the last event of run {run} does not have the hash that its head says"));
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

fn check_agents(connection: &Connection, problems: &mut Vec<String>) -> Result<(), Broken> {
    let sql = "SELECT agent FROM agents WHERE NOT EXISTS (SELECT 1 FROM agent_terms AS t WHERE t.id = agents.terms)";
    let mut select = connection.prepare(sql)?;
    let mut rows = select.query([])?;
    while let Some(row) = rows.next()? {
        problems.push(format!("agent {} has no terms", row.get::<_, String>(0)?));
    }
    Ok(())
}

/// Blobs that are files are there and as long as they should be. Their content is checked when it is read.
fn check_blobs(connection: &Connection, context: &Context, problems: &mut Vec<String>) -> Result<(), Broken> {
    let mut select = connection.prepare("SELECT tenant, hash, bytes FROM blobs WHERE content IS NULL")?;
    let mut rows = select.query([])?;
    while let Some(row) = rows.next()? {
        let (tenant, hash, bytes): (String, Vec<u8>, i64) = (row.get(0)?, row.get(1)?, row.get(2)?);
        let Some(hash) = Hash::from_bytes(&hash) else {
            problems.push("a blob without a name".to_owned());
            continue;
        };
        match blobs::file_len(&context.paths.blobs, &TenantId::new(&tenant), &hash) {
            None => problems.push(format!("the file of blob {hash} is missing")),
            Some(len) if i64::try_from(len) != Ok(bytes) => {
                problems.push(format!("the file of blob {hash} has {len} bytes instead of {bytes}"));
            }
            Some(_) => {}
        }
    }
    Ok(())
}
