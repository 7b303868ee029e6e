//! The writer's statements, prepared once. They are most of the work of a commit, so none is looked up by text.

use rusqlite::{Connection, PrepFlags, Result, Statement};

use super::seal::{HEADS, REMOVED_RUNS};

/// Every statement that a group of requests may need. Each filters by tenant, although the number of a run is unique,
/// so that a guessed number finds nothing.
pub(super) struct Statements<'c> {
    pub(super) begin: Statement<'c>,
    pub(super) commit: Statement<'c>,
    pub(super) rollback: Statement<'c>,
    pub(super) savepoint: Statement<'c>,
    pub(super) keep: Statement<'c>,
    pub(super) undo: Statement<'c>,
    pub(super) find_head: Statement<'c>,
    pub(super) find_lease: Statement<'c>,
    pub(super) move_head: Statement<'c>,
    /// A head with the columns that its seal covers, and the update of its seal.
    pub(super) head_row: Statement<'c>,
    pub(super) seal_head: Statement<'c>,
    pub(super) give_lease: Statement<'c>,
    pub(super) end_lease: Statement<'c>,
    pub(super) insert_run: Statement<'c>,
    pub(super) insert_head: Statement<'c>,
    pub(super) update_run: Statement<'c>,
    pub(super) insert_event: Statement<'c>,
    pub(super) last_terms: Statement<'c>,
    pub(super) insert_terms: Statement<'c>,
    pub(super) insert_agent: Statement<'c>,
    pub(super) update_agent: Statement<'c>,
    pub(super) move_agent: Statement<'c>,
    pub(super) insert_blob: Statement<'c>,
    pub(super) count_mail: Statement<'c>,
    pub(super) insert_mail: Statement<'c>,
    pub(super) take_mail: Statement<'c>,
    pub(super) has_ended: Statement<'c>,
    pub(super) run_status: Statement<'c>,
    pub(super) mark_removed: Statement<'c>,
    /// The note of a removed run with the columns that its seal covers, and the update of its seal.
    pub(super) removed_row: Statement<'c>,
    pub(super) seal_removed: Statement<'c>,
    /// Deletes a run's rows in each table, referring tables first. Parameters: the run's number and the tenant.
    pub(super) remove_rows: [Statement<'c>; 4],
    /// Deletes a run's rows by their ids. Parameters: after the first id, up to the second, and the tenant.
    pub(super) remove_placed: [Statement<'c>; 2],
}

impl<'c> Statements<'c> {
    pub(super) fn prepare(connection: &'c Connection) -> Result<Self> {
        let sql = |text: &str| connection.prepare_with_flags(text, PrepFlags::SQLITE_PREPARE_PERSISTENT);
        Ok(Self {
            begin: sql("BEGIN IMMEDIATE")?,
            commit: sql("COMMIT")?,
            rollback: sql("ROLLBACK")?,
            savepoint: sql("SAVEPOINT one")?,
            keep: sql("RELEASE one")?,
            undo: sql("ROLLBACK TO one")?,
            find_head: sql(&format!(
                "SELECT {}, h.seal FROM runs AS r JOIN heads AS h ON h.run_no = r.no \
                 WHERE r.tenant = ?1 AND r.run = ?2",
                HEADS.listed("h.")
            ))?,
            head_row: sql(&HEADS.select("WHERE run_no = ?1"))?,
            seal_head: sql(&HEADS.update())?,
            find_lease: sql("SELECT owner, owner_pid, boot, lease_until_ms FROM heads \
                 WHERE run_no = ?1 AND tenant = ?2")?,
            move_head: sql("UPDATE heads SET seq = ?3, hash = ?4, posts = ?5, lease_until_ms = ?6 \
                 WHERE run_no = ?1 AND tenant = ?2")?,
            give_lease: sql("UPDATE heads SET epoch = ?3, owner = ?4, owner_pid = ?5, boot = ?6 \
                 WHERE run_no = ?1 AND tenant = ?2")?,
            end_lease: sql("UPDATE heads SET owner = NULL, owner_pid = NULL, boot = NULL \
                 WHERE run_no = ?1 AND tenant = ?2")?,
            insert_run: sql(
                "INSERT INTO runs (tenant, run, status, title, definition, model, dir, session_id, \
                 created_at_ms, ended_at_ms) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
            )?,
            insert_head: sql(
                "INSERT INTO heads (run_no, tenant, seq, hash, posts, epoch, owner, owner_pid, boot, \
                 lease_until_ms) VALUES (?1, ?2, 0, ?3, 0, 1, ?4, ?5, ?6, ?7)",
            )?,
            update_run: sql(
                "UPDATE runs SET status = ?3, title = ?4, definition = ?5, model = ?6, dir = ?7, \
                 session_id = ?8, created_at_ms = ?9, ended_at_ms = ?10 WHERE no = ?1 AND tenant = ?2",
            )?,
            insert_event: sql(
                "INSERT INTO events (id, tenant, agent, kind, at_ms, version, payload, hash) \
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
            )?,
            last_terms: sql(
                "SELECT id FROM agent_terms WHERE id BETWEEN ?1 AND ?2 AND tenant = ?3 ORDER BY id DESC LIMIT 1",
            )?,
            insert_terms: sql(
                "INSERT INTO agent_terms (id, tenant, parent, parent_message_id, depth, definition, \
                 contract_json, permissions_json, created_at_ms) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
            )?,
            insert_agent: sql(
                "INSERT INTO agents (run_no, agent, tenant, state, final_status, close_reason, result, \
                 error, usage_json, subtree_usage_json, completed_at_ms, events_in_force, terms) \
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)",
            )?,
            update_agent: sql(
                "UPDATE agents SET final_status = ?5, close_reason = ?6, result = ?7, error = ?8, \
                 usage_json = ?9, subtree_usage_json = ?10, completed_at_ms = ?11, events_in_force = ?12 \
                 WHERE run_no = ?1 AND agent = ?2 AND tenant = ?3 AND state = ?4",
            )?,
            move_agent: sql(
                "UPDATE agents SET state = ?4, final_status = ?5, close_reason = ?6, result = ?7, \
                 error = ?8, usage_json = ?9, subtree_usage_json = ?10, completed_at_ms = ?11, events_in_force = ?12 \
                 WHERE run_no = ?1 AND agent = ?2 AND tenant = ?3",
            )?,
            insert_blob: sql("INSERT INTO blobs (tenant, hash, bytes, content) VALUES (?1, ?2, ?3, ?4) \
                 ON CONFLICT (tenant, hash) DO NOTHING")?,
            count_mail: sql("SELECT count(*) FROM mailbox WHERE run_no = ?1 AND tenant = ?2")?,
            insert_mail: sql(
                "INSERT INTO mailbox (run_no, id, tenant, command, seal) VALUES (?1, ?2, ?3, ?4, ?5)",
            )?,
            take_mail: sql("DELETE FROM mailbox WHERE run_no = ?1 AND id <= ?3 AND tenant = ?2")?,
            has_ended: sql("SELECT ended_at_ms IS NOT NULL FROM runs WHERE no = ?1 AND tenant = ?2")?,
            run_status: sql("SELECT status FROM runs WHERE no = ?1 AND tenant = ?2")?,
            mark_removed: sql(
                "INSERT INTO removed_runs (run_no, tenant, run, head_seq, head_hash, removed_at_ms) \
                 VALUES (?1, ?2, ?3, ?4, ?5, unixepoch() * 1000)",
            )?,
            removed_row: sql(&REMOVED_RUNS.select("WHERE run_no = ?1"))?,
            seal_removed: sql(&REMOVED_RUNS.update())?,
            remove_rows: [
                sql("DELETE FROM mailbox WHERE run_no = ?1 AND tenant = ?2")?,
                sql("DELETE FROM agents WHERE run_no = ?1 AND +tenant = ?2")?,
                sql("DELETE FROM heads WHERE run_no = ?1 AND tenant = ?2")?,
                sql("DELETE FROM runs WHERE no = ?1 AND tenant = ?2")?,
            ],
            remove_placed: [
                sql("DELETE FROM events WHERE id > ?1 AND id <= ?2 AND tenant = ?3")?,
                sql("DELETE FROM agent_terms WHERE id > ?1 AND id <= ?2 AND tenant = ?3")?,
            ],
        })
    }
}
