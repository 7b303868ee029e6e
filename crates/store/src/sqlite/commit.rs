//! Writes one commit within a group of requests.

use posse_domain::event::{EncodedEvent, FinalStatus, Link, chain};
use posse_domain::hash::Hash;
use posse_domain::id::AgentId;
use posse_domain::lifecycle::{CloseReason, RunStatus};
use posse_engine::ports::{AgentRow, AgentTerms, Basis, Commit, CommitReceipt, Head, RunRow, StoreError};

use rusqlite::OptionalExtension;

use super::blobs;
use super::columns::FailureColumn;
use super::events_in_force;
use super::group::{Group, RefusedScope, RunHead, stored};
use super::schema::{row_id, row_ids};

impl Group<'_, '_> {
    /// Checks the precondition of a commit and writes it. If it fails half-way, its writes are undone.
    pub(super) fn commit(&mut self, commit: &Commit) -> Result<CommitReceipt, RefusedScope> {
        let basis = self.check_basis(commit)?;
        let head = self.whole(|group| group.write(commit, basis))?;
        self.move_head(&commit.key, head);
        Ok(CommitReceipt { head: Head { seq: head.seq, hash: head.hash }, epoch: head.epoch })
    }

    /// The head of the run, which must match the commit's precondition. `None` for a new run.
    fn check_basis(&mut self, commit: &Commit) -> Result<Option<RunHead>, RefusedScope> {
        let run = &commit.key.run;
        let Basis::Held { head: expected, epoch } = commit.basis else {
            return match self.find_head(&commit.key)? {
                Some(_) => Err(StoreError::Exists(run.clone()).into()),
                None => Ok(None),
            };
        };
        let head = self.head(&commit.key)?;
        self.check_epoch(&commit.key, epoch, &head)?;
        if head.seq != expected {
            return Err(StoreError::Conflict { run: run.clone(), expected, actual: head.seq }.into());
        }
        Ok(Some(head))
    }

    fn write(&mut self, commit: &Commit, basis: Option<RunHead>) -> Result<RunHead, RefusedScope> {
        let mut head = match (basis, &commit.run) {
            (Some(head), row) => {
                if let Some(row) = row {
                    self.update_run(commit, head.run_no, row)?;
                }
                head
            }
            (None, Some(row)) => self.create_run(commit, row)?,
            (None, None) => return Err(StoreError::Failed("a new run needs its row".to_owned()).into()),
        };
        for event in &commit.events {
            self.append(commit, &mut head, event)?;
        }
        for row in &commit.agents {
            self.write_agent(commit, head.run_no, row)?;
        }
        let tenant = commit.key.tenant.as_str();
        for blob in &commit.blobs {
            let content = (!blobs::is_file(blob)).then_some(&*blob.bytes);
            let bytes = i64::try_from(blob.bytes.len()).unwrap_or(i64::MAX);
            self.sql.insert_blob.execute((tenant, blob.hash.as_bytes(), bytes, content))?;
        }
        if let Some(taken) = commit.mail_taken {
            self.sql.take_mail.execute((head.run_no, tenant, stored(taken)))?;
        }
        // A process that writes is alive, so every commit renews the lease, at no cost.
        head.lease_until_ms = self.lease_until_ms;
        Ok(head)
    }

    fn create_run(&mut self, commit: &Commit, row: &RunRow) -> Result<RunHead, RefusedScope> {
        self.life_lock.ensure(self.context)?;
        let tenant = commit.key.tenant.as_str();
        let run_no = self.sql.insert_run.insert((
            tenant,
            commit.key.run.as_str(),
            row.status.as_str(),
            &row.title,
            &row.definition,
            &row.model,
            &row.dir,
            &row.session_id,
            row.created_at_ms,
            row.ended_at_ms,
        ))?;
        let context = self.context;
        self.sql.insert_head.execute((
            run_no,
            tenant,
            Hash::ZERO.as_bytes(),
            &context.holder_id,
            context.pid,
            context.options.clock.boot(),
            self.lease_until_ms,
        ))?;
        let lease_until_ms = self.lease_until_ms;
        let hash = Hash::ZERO;
        Ok(RunHead { run_no, seq: 0, hash, posts: 0, epoch: 1, is_mine: true, lease_until_ms, moved: true })
    }

    fn update_run(&mut self, commit: &Commit, run_no: i64, row: &RunRow) -> Result<(), RefusedScope> {
        self.sql.update_run.execute((
            run_no,
            commit.key.tenant.as_str(),
            row.status.as_str(),
            &row.title,
            &row.definition,
            &row.model,
            &row.dir,
            &row.session_id,
            row.created_at_ms,
            row.ended_at_ms,
        ))?;
        Ok(())
    }

    /// Numbers one event and adds it to the hash chain.
    fn append(
        &mut self,
        commit: &Commit,
        head: &mut RunHead,
        event: &EncodedEvent,
    ) -> Result<(), RefusedScope> {
        let tenant = commit.key.tenant.as_str();
        let seq = head.seq + 1;
        let link = Link {
            tenant,
            run: &commit.key.run,
            seq,
            agent: &event.agent,
            kind: event.kind,
            at_ms: event.at_ms,
            version: event.version,
            payload: &event.payload,
        };
        let hash = chain(&head.hash, link);
        let id = row_id(head.run_no, seq).ok_or_else(|| {
            StoreError::Failed(format!("the journal of run {} is too long", commit.key.run))
        })?;
        self.sql.insert_event.execute((
            id,
            tenant,
            event.agent.as_str(),
            event.kind,
            event.at_ms,
            event.version,
            &event.payload,
            hash.as_bytes(),
        ))?;
        (head.seq, head.hash) = (seq, hash);
        Ok(())
    }

    fn write_agent(&mut self, commit: &Commit, run_no: i64, row: &AgentRow) -> Result<(), RefusedScope> {
        let tenant = commit.key.tenant.as_str();
        let Some(terms) = &row.terms else { return self.update_agent(tenant, run_no, row) };
        let terms_id = self.insert_terms(tenant, run_no, terms)?;
        let error = self.error_column(tenant, run_no, row)?;
        self.sql.insert_agent.execute((
            run_no,
            row.id.as_str(),
            tenant,
            row.state.as_str(),
            row.final_status.map(FinalStatus::as_str),
            row.close_reason.map(CloseReason::as_str),
            &row.result,
            error,
            &row.usage_json,
            &row.subtree_usage_json,
            row.completed_at_ms,
            events_in_force::write(row.events_in_force.as_deref()),
            terms_id,
        ))?;
        Ok(())
    }

    fn update_agent(&mut self, tenant: &str, run_no: i64, row: &AgentRow) -> Result<(), RefusedScope> {
        let error = self.error_column(tenant, run_no, row)?;
        let in_force = events_in_force::write(row.events_in_force.as_deref());
        let values = (
            run_no,
            row.id.as_str(),
            tenant,
            row.state.as_str(),
            row.final_status.map(FinalStatus::as_str),
            row.close_reason.map(CloseReason::as_str),
            &row.result,
            &error,
            &row.usage_json,
            &row.subtree_usage_json,
            row.completed_at_ms,
            &in_force,
        );
        // Most updates do not change the state, so they need not touch the index on it.
        if self.sql.update_agent.execute(values)? == 1 || self.sql.move_agent.execute(values)? == 1 {
            return Ok(());
        }
        Err(StoreError::Failed(format!("agent {} has no terms yet", row.id)).into())
    }

    /// The column `error` of an agent. The row of its run must be written before.
    fn error_column(
        &mut self,
        tenant: &str,
        run_no: i64,
        row: &AgentRow,
    ) -> Result<Option<String>, RefusedScope> {
        let Some(failure) = &row.error else { return Ok(None) };
        let form = FailureColumn::of(&row.id, row.close_reason, || {
            let status = self.sql.run_status.query_row((run_no, tenant), |row| row.get::<_, String>(0));
            status.map(|status| RunStatus::parse(&status))
        })?;
        Ok(Some(form.write(failure)))
    }

    fn insert_terms(&mut self, tenant: &str, run_no: i64, terms: &AgentTerms) -> Result<i64, RefusedScope> {
        let (first, end) = row_ids(run_no);
        let last = self.sql.last_terms.query_row((first, end, tenant), |row| row.get(0)).optional()?;
        let id: i64 = last.unwrap_or(first) + 1;
        self.sql.insert_terms.execute((
            id,
            tenant,
            terms.parent.as_ref().map(AgentId::as_str),
            &terms.parent_message_id,
            terms.depth,
            &terms.definition,
            &terms.contract_json,
            &terms.permissions_json,
            terms.created_at_ms,
        ))?;
        Ok(id)
    }
}
