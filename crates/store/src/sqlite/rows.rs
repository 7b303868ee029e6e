//! Checks the rows of one run that no event covers: whether they are unchanged since they were written, and whether a
//! store can have written their values.

use posse_engine::ports::MAILBOX_MAX;
use rusqlite::{Connection, Row};

use super::context::Context;
use super::holder;
use super::lease::Lease;
use super::options::LEASE;
use super::query::{NO_HEAD, NOT_AS_WRITTEN, QueryError};
use super::schema::{position, row_ids};
use super::seal::{HEADS, MAILBOX};

/// The largest process id on Linux.
const PID_MAX: i64 = 1 << 22;
/// Longer than the uptime of any machine.
const UPTIME_MAX_MS: i64 = 100 * 366 * 24 * 60 * 60 * 1_000;
/// The format of a boot id: `8-4-4-4-12` hexadecimal digits.
const BOOT_PARTS: [usize; 5] = [8, 4, 4, 4, 12];

pub(super) struct RowsOf<'a> {
    pub(super) no: i64,
    pub(super) run: &'a str,
    pub(super) tenant: &'a str,
}

impl RowsOf<'_> {
    /// The problems of these rows.
    pub(super) fn read_row(
        &self,
        connection: &Connection,
        context: &Context,
    ) -> Result<Vec<String>, QueryError> {
        let mut problems = Vec::new();
        let posts = self.head(connection, context, &mut problems)?;
        self.mail(connection, context, posts, &mut problems)?;
        self.tenants_of_rows(connection, &mut problems)?;
        Ok(problems)
    }

    /// Checks the head, and returns the number of commands that it counts.
    fn head(
        &self,
        connection: &Connection,
        context: &Context,
        problems: &mut Vec<String>,
    ) -> Result<i64, QueryError> {
        let mut select =
            connection.prepare_cached(&HEADS.select_from(context.has_seals(), "WHERE run_no = ?1"))?;
        let mut rows = select.query([self.no])?;
        let Some(row) = rows.next()? else {
            problems.push(format!("run {}: {NO_HEAD}", self.run));
            return Ok(0);
        };
        let mut problem = |text: &str| problems.push(format!("the head of run {} {text}", self.run));
        if context.has_seals() && !HEADS.is_whole(row)? {
            problem(NOT_AS_WRITTEN);
        }
        if row.get::<_, String>(1)? != self.tenant {
            problem("belongs to another tenant");
        }
        let (posts, epoch): (i64, i64) = (row.get(4)?, row.get(5)?);
        if posts < 0 {
            problem("has a negative command count");
        }
        if epoch < 1 {
            problem("never had a lease holder");
        }
        if let Some(text) = implausible_lease(row, context)? {
            problem(text);
        }
        Ok(posts)
    }

    fn mail(
        &self,
        connection: &Connection,
        context: &Context,
        posts: i64,
        problems: &mut Vec<String>,
    ) -> Result<(), QueryError> {
        let narrow = "WHERE run_no = ?1 ORDER BY id";
        let mut select = connection.prepare_cached(&MAILBOX.select_from(context.has_seals(), narrow))?;
        let mut rows = select.query([self.no])?;
        let mut count = 0;
        while let Some(row) = rows.next()? {
            count += 1;
            let (id, tenant): (i64, String) = (row.get(1)?, row.get(2)?);
            let mut problem =
                |text: &str| problems.push(format!("command {id} in the mailbox of run {} {text}", self.run));
            if context.has_seals() && !MAILBOX.is_whole(row)? {
                problem(NOT_AS_WRITTEN);
            }
            if tenant != self.tenant {
                problem("belongs to another tenant");
            }
            if id < 1 || id > posts {
                problem(&format!("was never posted: {posts} were"));
            }
        }
        if count > MAILBOX_MAX {
            problems.push(format!("{count} commands wait for run {}, more than {MAILBOX_MAX}", self.run));
        }
        Ok(())
    }

    /// Finds rows with another tenant than their run, and terms that belong to no agent.
    fn tenants_of_rows(&self, connection: &Connection, problems: &mut Vec<String>) -> Result<(), QueryError> {
        let (first, last) = row_ids(self.no);
        for (table, what) in [("events", "event"), ("agent_terms", "the terms of agent number")] {
            let sql = format!("SELECT id FROM {table} WHERE id BETWEEN ?1 AND ?2 AND tenant <> ?3 LIMIT 1");
            let mut select = connection.prepare_cached(&sql)?;
            let mut rows = select.query((first, last, self.tenant))?;
            if let Some(row) = rows.next()? {
                problems.push(format!(
                    "{what} {} of run {} belongs to another tenant",
                    position(row.get(0)?),
                    self.run
                ));
            }
        }
        let mut select = connection
            .prepare_cached("SELECT agent FROM agents WHERE run_no = ?1 AND +tenant <> ?2 LIMIT 1")?;
        let mut rows = select.query((self.no, self.tenant))?;
        if let Some(row) = rows.next()? {
            let agent: String = row.get(0)?;
            problems.push(format!("agent {agent} of run {} belongs to another tenant", self.run));
        }
        let strays = "SELECT id FROM agent_terms WHERE id BETWEEN ?1 AND ?2 \
             AND id NOT IN (SELECT terms FROM agents WHERE run_no = ?3) LIMIT 1";
        let mut select = connection.prepare_cached(strays)?;
        let mut rows = select.query((first, last, self.no))?;
        if let Some(row) = rows.next()? {
            problems.push(format!("terms {} of run {} belong to no agent", position(row.get(0)?), self.run));
        }
        Ok(())
    }
}

/// Finds lease values that no lease holder would have written, whatever the seal says.
fn implausible_lease(row: &Row<'_>, context: &Context) -> Result<Option<&'static str>, QueryError> {
    let (pid, boot): (Option<i64>, Option<String>) = (row.get(7)?, row.get(8)?);
    let until_ms: i64 = row.get(9)?;
    if !(0..=UPTIME_MAX_MS).contains(&until_ms) {
        return Ok(Some("has a lease that has an impossible end"));
    }
    let Some(lease) = Lease::from_row(row, 6)? else {
        return Ok(
            (pid.is_some() || boot.is_some()).then_some("has a process or a boot without a lease holder")
        );
    };
    let (Some(pid), Some(boot)) = (pid, boot) else {
        return Ok(Some("has a lease holder without a process or a boot"));
    };
    if !holder::is_id(&lease.holder_id) {
        return Ok(Some("has a lease holder whose id no process has"));
    }
    if !(1..=PID_MAX).contains(&pid) {
        return Ok(Some("has a lease holder whose process id no process has"));
    }
    if !is_boot(&boot) {
        return Ok(Some("has a lease with an invalid boot id"));
    }
    // The time of another boot's clock when its lease was given is not known.
    let clock = &context.options.clock;
    let is_long = boot == clock.boot() && until_ms > clock.until_ms(LEASE.max(context.options.lease));
    Ok(is_long.then_some("has a lease that is longer than any lease can be"))
}

/// Whether this can be a boot id. Without /proc it is empty.
fn is_boot(name: &str) -> bool {
    let is_part = |(part, length): (&str, usize)| {
        part.len() == length && part.bytes().all(|byte| byte.is_ascii_hexdigit())
    };
    name.is_empty()
        || (name.split('-').count() == BOOT_PARTS.len() && name.split('-').zip(BOOT_PARTS).all(is_part))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::options::SqliteOptions;
    use super::super::paths::Paths;
    use super::super::schema::{CURRENT_VERSION, MIGRATIONS};
    use super::super::seal::seal_all;
    use super::*;

    const HOLDER: &str = "0123456789abcdef";

    fn context() -> Context {
        let (paths, options) = (Paths::new(Path::new("/nowhere")), SqliteOptions::default());
        Context { paths, options, version: CURRENT_VERSION, holder_id: HOLDER.to_owned(), pid: 1 }
    }

    /// The problems of a run with a new lease and one command, after a change with a valid seal.
    fn column_text(change: &str) -> Vec<String> {
        let connection = Connection::open_in_memory().unwrap();
        for migration in &MIGRATIONS {
            connection.execute_batch(migration.sql).unwrap();
        }
        let context = context();
        connection
            .execute_batch(
                "PRAGMA ignore_check_constraints = ON; \
                 INSERT INTO runs VALUES (1, 'local', 'k3f9ab2c', 'running', 't', 'd', 'm', '/', NULL, 1, NULL)",
            )
            .unwrap();
        let head = "INSERT INTO heads VALUES (1, 'local', 0, zeroblob(32), 1, 1, ?1, 7, ?2, ?3, x'')";
        let clock = &context.options.clock;
        connection.execute(head, (HOLDER, clock.boot(), clock.until_ms(LEASE))).unwrap();
        connection.execute("INSERT INTO mailbox VALUES (1, 1, 'local', '{}', x'')", []).unwrap();
        connection.execute_batch(change).unwrap();
        seal_all(&connection).unwrap();
        let rows = RowsOf { no: 1, run: "k3f9ab2c", tenant: "local" };
        rows.read_row(&connection, &context).ok().unwrap()
    }

    #[test]
    fn what_no_process_writes_is_found_though_its_seal_fits() {
        assert_eq!(column_text(""), [""; 0]);
        assert_eq!(
            column_text("UPDATE heads SET owner = NULL, owner_pid = NULL, boot = NULL"),
            [""; 0],
            "released"
        );
        for (change, problem) in [
            ("UPDATE heads SET owner = '../../etc'", "whose id no process has"),
            ("UPDATE heads SET owner = NULL", "without a lease holder"),
            ("UPDATE heads SET boot = NULL", "without a process or a boot"),
            ("UPDATE heads SET owner_pid = 0", "process id no process has"),
            ("UPDATE heads SET owner_pid = 5000000000", "process id no process has"),
            ("UPDATE heads SET boot = 'yesterday'", "an invalid boot id"),
            ("UPDATE heads SET lease_until_ms = lease_until_ms + 60000", "longer than any"),
            ("UPDATE heads SET lease_until_ms = 253402300799000", "has an impossible end"),
            ("UPDATE heads SET lease_until_ms = -1", "has an impossible end"),
            ("UPDATE heads SET epoch = 0", "never had a lease holder"),
            ("UPDATE heads SET posts = -1", "a negative command count"),
            ("UPDATE heads SET posts = 0", "command 1 in the mailbox of run k3f9ab2c was never posted"),
            ("UPDATE heads SET tenant = 'other'", "another tenant"),
            ("UPDATE mailbox SET tenant = 'other'", "another tenant"),
            ("UPDATE mailbox SET id = 2", "command 2 in the mailbox of run k3f9ab2c was never posted"),
        ] {
            let said = column_text(change);
            let named = |line: &String| line.contains("k3f9ab2c") && line.contains(problem);
            assert!(said.iter().any(named), "{change}: {said:?}");
        }
    }

    #[test]
    fn boots_are_named_as_the_kernel_names_them() {
        assert!(is_boot("") && is_boot("91f1e2b4-03a1-4d0c-8b1f-0123456789ab"));
        for bad in
            ["x", "91f1e2b4", "91f1e2b4-03a1-4d0c-8b1f-0123456789ag", "91f1e2b4-03a1-4d0c-8b1f-0123456789ab-"]
        {
            assert!(!is_boot(bad), "{bad}");
        }
    }
}
