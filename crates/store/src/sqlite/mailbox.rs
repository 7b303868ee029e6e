//! Adds commands to the mailbox of a run, within the writer's group.

use posse_engine::ports::{MAILBOX_MAX, RunKey, StoreError};
use rusqlite::types::ValueRef;

use super::group::{Group, RefusedScope, RunHead, stored};
use super::seal::MAILBOX;

impl Group<'_, '_> {
    /// Adds a command. Its number follows the number of the last command ever posted.
    pub(super) fn post(&mut self, key: &RunKey, command: &str) -> Result<u64, RefusedScope> {
        let head = self.head(key)?;
        let tenant = key.tenant.as_str();
        let waiting: i64 = self.sql.count_mail.query_row((head.run_no, tenant), |row| row.get(0))?;
        if waiting >= i64::from(MAILBOX_MAX) {
            return Err(StoreError::MailboxFull(key.run.clone()).into());
        }
        let id = head.posts + 1;
        let seal = MAILBOX.of_values(&[
            ValueRef::Integer(head.run_no),
            ValueRef::Integer(stored(id)),
            ValueRef::Text(tenant.as_bytes()),
            ValueRef::Text(command.as_bytes()),
        ]);
        self.sql.insert_mail.execute((head.run_no, stored(id), tenant, command, seal.as_bytes()))?;
        self.move_head(key, RunHead { posts: id, ..head });
        Ok(id)
    }
}
