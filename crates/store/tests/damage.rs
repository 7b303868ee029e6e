//! Databases that were damaged, tampered with, or belong to another program.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use posse_domain::code::Code;
use posse_domain::event::{EncodedEvent, FinalStatus, StoredEvent};
use posse_domain::hash::Hash;
use posse_domain::id::RunId;
use posse_domain::lifecycle::{AgentState, CloseReason, FailKind, FailureReason, RunStatus};
use posse_domain::text::Blob;
use posse_engine::ports::{
    Basis, Claim, Commit, MailCommand, RunKey, RunRow, Store, StoreError, StorePart, TenantId,
};
use posse_store::{SqliteOptions, SqliteStore};
use rusqlite::Connection;

fn open(dir: &Path) -> Result<SqliteStore, StoreError> {
    SqliteStore::open(dir, SqliteOptions::default())
}

fn key() -> RunKey {
    RunKey { tenant: TenantId::local(), run: RunId::from_random(7) }
}

fn commit(basis: Basis, count: u64) -> Commit {
    let event = |number| EncodedEvent {
        agent: key().run.root(),
        kind: "agent.model_called",
        at_ms: 1,
        version: 1,
        payload: format!("{{\"number\":{number}}}"),
    };
    let row = RunRow {
        status: RunStatus::Running,
        title: "a title".to_owned(),
        definition: "coder".to_owned(),
        model: "scripted/none".to_owned(),
        dir: "/".to_owned(),
        session_id: None,
        created_at_ms: 0,
        ended_at_ms: None,
    };
    let (blobs, agents) = (Vec::new(), Vec::new());
    let run = (basis == Basis::New).then_some(row);
    Commit {
        key: key(),
        basis,
        events: (0..count).map(event).collect(),
        blobs,
        agents,
        run,
        mail_taken: None,
    }
}

/// A store with `count` events, closed.
async fn filled(dir: &Path, count: u64) -> Vec<StoredEvent> {
    let store = open(dir).unwrap();
    store.commit(commit(Basis::New, count)).await.unwrap();
    store.read(&key(), 0, u32::MAX).await.unwrap()
}

/// The first event whose hash does not match.
fn first_bad(events: &[StoredEvent]) -> Option<u64> {
    let mut previous = Hash::ZERO;
    for event in events {
        if event.hash != event.expected_hash(&previous, "local", &key().run) {
            return Some(event.seq);
        }
        previous = event.hash;
    }
    None
}

fn database(dir: &Path) -> std::path::PathBuf {
    dir.join("posse.db")
}

/// Pseudo-random numbers that are the same in every execution.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0).unwrap() % sides
    }
}

#[tokio::test]
async fn what_was_changed_in_a_row_shows_in_the_chain() {
    let changes = [
        "UPDATE events SET payload = replace(payload, '4', '5') WHERE id % 100 = 5",
        "UPDATE events SET kind = 'run.failed' WHERE id % 100 = 5",
        "UPDATE events SET at_ms = 2 WHERE id % 100 = 5",
        "UPDATE events SET version = 2 WHERE id % 100 = 5",
        "UPDATE events SET agent = agent || '.1' WHERE id % 100 = 5",
        "UPDATE events SET hash = zeroblob(32) WHERE id % 100 = 5",
    ];
    for change in changes {
        let dir = tempfile::tempdir().unwrap();
        filled(dir.path(), 20).await;
        let raw = Connection::open(database(dir.path())).unwrap();
        raw.execute_batch("DROP TRIGGER events_never_change").unwrap();
        // Ids are the run's number times 2^40 plus the event's.
        let change = change.replace("id % 100", "(id & 1099511627775)");
        assert_eq!(raw.execute(&change, []).unwrap(), 1, "{change}");
        drop(raw);
        let events = open(dir.path()).unwrap().read(&key(), 0, 100).await.unwrap();
        assert_eq!(first_bad(&events), Some(5), "{change}");
    }
}

#[tokio::test]
async fn a_missing_event_and_a_cut_tail_are_found() {
    let cases = [("= 5", "event 5 is missing"), ("> 15", "ends at 15, its head is at 20")];
    for (which, problem) in cases {
        let dir = tempfile::tempdir().unwrap();
        filled(dir.path(), 20).await;
        let raw = Connection::open(database(dir.path())).unwrap();
        raw.execute_batch("DROP TRIGGER events_never_go").unwrap();
        raw.execute(&format!("DELETE FROM events WHERE (id & 1099511627775) {which}"), []).unwrap();
        drop(raw);
        let store = open(dir.path()).unwrap();
        let health = store.check().await.unwrap();
        assert!(!health.problems.is_empty());
        let read = store.read(&key(), 0, 100).await;
        let said = format!("{read:?} {health:?}");
        assert!(said.contains(problem), "{said}");
    }
}

#[tokio::test]
async fn events_cannot_be_changed_or_removed_by_mistake() {
    let dir = tempfile::tempdir().unwrap();
    filled(dir.path(), 3).await;
    let raw = Connection::open(database(dir.path())).unwrap();
    for change in ["UPDATE events SET payload = ''", "DELETE FROM events"] {
        let refused = raw.execute(change, []).unwrap_err();
        assert!(refused.to_string().contains("append-only"), "{refused}");
    }
    // Only a whole run that is marked as removed may be deleted.
    raw.execute_batch(
        "INSERT INTO removed_runs SELECT r.no, r.tenant, r.run, h.seq, h.hash, 1, x'' \
         FROM runs AS r JOIN heads AS h ON h.run_no = r.no",
    )
    .unwrap();
    assert_eq!(raw.execute("DELETE FROM events", []).unwrap(), 3);
}

/// A flipped bit is noticed or does not matter: it never makes the journal read as something else.
#[tokio::test]
async fn flipped_bits_in_the_database_never_change_the_journal_unseen() {
    let dir = tempfile::tempdir().unwrap();
    let before = filled(dir.path(), 150).await;
    let whole = fs::read(database(dir.path())).unwrap();
    let mut dice = Dice(0xb17);
    let (mut noticed, mut harmless) = (0, 0);
    for _ in 0..200 {
        let mut damaged = whole.clone();
        let place = dice.roll(damaged.len());
        damaged[place] ^= 1 << dice.roll(8);
        fs::write(database(dir.path()), damaged).unwrap();
        match look(dir.path()).await {
            Ok(after) if after == before => harmless += 1,
            Ok(after) => {
                assert!(first_bad(&after).is_some(), "byte {place}: another journal with a good chain");
                noticed += 1;
            }
            Err(_) => noticed += 1,
        }
    }
    println!("{noticed} noticed, {harmless} harmless");
    assert!(noticed > 0);
}

/// All events, or the damage.
async fn look(dir: &Path) -> Result<Vec<StoredEvent>, String> {
    let store = open(dir).map_err(|error| error.to_string())?;
    let events = store.read(&key(), 0, 1_000).await.map_err(|error| error.to_string())?;
    let health = store.check().await.map_err(|error| error.to_string())?;
    if health.problems.is_empty() { Ok(events) } else { Err(health.problems.join("; ")) }
}

/// A half-written tail after a crash is not part of the journal, and does not affect the rest.
#[tokio::test]
async fn a_torn_tail_of_the_wal_loses_nothing_acknowledged() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path()).unwrap();
    store.commit(commit(Basis::New, 3)).await.unwrap();
    for head in 3..20 {
        store.commit(commit(Basis::Held { head, epoch: 1 }, 1)).await.unwrap();
    }
    let before = store.read(&key(), 0, 100).await.unwrap();
    let wal = fs::read(dir.path().join("posse.db-wal")).unwrap();
    let mut dice = Dice(0x7a11);
    for torn in [1, 23, 24, 100, 4_119, 4_120, 9_000] {
        let copy = tempfile::tempdir().unwrap();
        fs::copy(database(dir.path()), database(copy.path())).unwrap();
        // Half a frame that looks like the others, and then noise.
        let mut tail = wal[32..32 + torn.min(2_000)].to_vec();
        tail.extend((tail.len()..torn).map(|_| u8::try_from(dice.roll(256)).unwrap()));
        fs::write(copy.path().join("posse.db-wal"), [&wal[..], &tail].concat()).unwrap();
        let store = open(copy.path()).unwrap();
        assert_eq!(store.read(&key(), 0, 100).await.unwrap(), before, "{torn} bytes");
        let Claim::Granted(epoch) = store.claim(&key()).await.unwrap() else { panic!("nobody is there") };
        store.commit(commit(Basis::Held { head: 20, epoch }, 1)).await.unwrap();
        assert!(store.check().await.unwrap().problems.is_empty());
    }
}

#[tokio::test]
async fn a_damaged_or_missing_file_of_a_blob_is_found() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path()).unwrap();
    let bytes = vec![7; 400_000];
    let blob = Blob { hash: Hash::of(&bytes), bytes: bytes.into() };
    store.commit(Commit { blobs: vec![blob.clone()], ..commit(Basis::New, 1) }).await.unwrap();
    let path = files(&dir.path().join("blobs")).remove(0);
    let mode = fs::metadata(&path).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    fs::write(&path, vec![8; 400_000]).unwrap();
    let refused = store.get_blob(&key().tenant, &blob.hash).await.unwrap_err();
    assert!(matches!(&refused, StoreError::Corrupt { part: StorePart::Blobs, .. }), "{refused}");
    assert_names_no_path(&refused, dir.path());
    fs::remove_file(&path).unwrap();
    let missing = store.get_blob(&key().tenant, &blob.hash).await.unwrap_err();
    assert!(matches!(&missing, StoreError::Unusable { part: StorePart::Blobs, .. }), "{missing}");
    assert_names_no_path(&missing, dir.path());
    assert_eq!(store.check().await.unwrap().problems.len(), 1);
}

/// A front end may show the error on another machine.
#[track_caller]
fn assert_names_no_path(error: &StoreError, dir: &Path) {
    let text = error.to_string();
    assert!(!text.contains(&dir.display().to_string()), "{text}");
}

/// For a database that cannot be opened, SQLite's library adds the path to its text.
#[test]
fn an_error_of_a_database_that_cannot_be_opened_names_no_path() {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(database(dir.path())).unwrap();
    for refused in [open(dir.path()).map(drop), SqliteStore::open_existing_read_only(dir.path()).map(drop)] {
        let refused = refused.unwrap_err();
        assert_eq!(refused.part(), Some(StorePart::Journal), "{refused}");
        assert_names_no_path(&refused, dir.path());
    }
    assert_eq!(SqliteStore::path_of(dir.path(), StorePart::Journal), database(dir.path()));
}

fn files(dir: &Path) -> Vec<std::path::PathBuf> {
    let entries = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}

#[tokio::test]
async fn a_newer_database_is_refused_and_left_as_it_was() {
    let dir = tempfile::tempdir().unwrap();
    filled(dir.path(), 3).await;
    let raw = Connection::open(database(dir.path())).unwrap();
    raw.pragma_update(None, "user_version", 99).unwrap();
    drop(raw);
    let before = fs::read(database(dir.path())).unwrap();
    let looked = SqliteStore::open_existing_read_only(dir.path()).map(Option::unwrap);
    for refused in [open(dir.path()), looked] {
        let newer = StoreError::Newer { part: StorePart::Journal, found: 99, known: 3 };
        assert_eq!(refused.unwrap_err(), newer);
    }
    assert_eq!(fs::read(database(dir.path())).unwrap(), before);
}

#[test]
fn what_is_not_ours_is_refused_and_left_as_it_was() {
    let foreign =
        |path: &Path| Connection::open(path).unwrap().execute_batch("CREATE TABLE theirs (x)").unwrap();
    let text =
        |path: &Path| fs::write(path, "not a database, but long enough to look at".repeat(100)).unwrap();
    for make in [&foreign as &dyn Fn(&Path), &text] {
        let dir = tempfile::tempdir().unwrap();
        make(&database(dir.path()));
        let before = fs::read(database(dir.path())).unwrap();
        let refused = open(dir.path()).unwrap_err();
        assert!(matches!(&refused, StoreError::Corrupt { part: StorePart::Journal, .. }), "{refused}");
        assert_names_no_path(&refused, dir.path());
        assert_eq!(fs::read(database(dir.path())).unwrap(), before);
    }
}

#[test]
fn an_empty_file_becomes_a_store() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(database(dir.path()), "").unwrap();
    open(dir.path()).unwrap();
}

#[test]
fn files_are_for_their_owner_alone() {
    let dir = tempfile::tempdir().unwrap();
    let state = dir.path().join("a/b");
    let _store = open(&state).unwrap();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&state), 0o700);
    for file in files(&state) {
        assert_eq!(mode(&file), 0o600, "{}", file.display());
    }
}

#[tokio::test]
async fn a_closed_store_is_one_tidy_file() {
    let dir = tempfile::tempdir().unwrap();
    filled(dir.path(), 3).await;
    let wal = dir.path().join("posse.db-wal");
    assert!(fs::metadata(wal).map_or(true, |wal| wal.len() == 0), "the WAL was not moved into the database");
    assert_eq!(
        fs::read_dir(dir.path().join("owners")).unwrap().count(),
        0,
        "the lock of a dead lease holder stayed"
    );
}

#[tokio::test]
async fn a_store_can_be_looked_at_without_writing() {
    let dir = tempfile::tempdir().unwrap();
    let before = filled(dir.path(), 3).await;
    let store = SqliteStore::open_existing_read_only(dir.path()).unwrap().unwrap();
    assert_eq!(store.read(&key(), 0, 9).await.unwrap(), before);
    assert_eq!(store.runs(&key().tenant, "", 9).await.unwrap().len(), 1);
    let refused = store.commit(commit(Basis::Held { head: 3, epoch: 1 }, 1)).await.unwrap_err();
    assert_eq!(refused, StoreError::ReadOnly { part: StorePart::Store });
    // It sees commits of another process.
    let writer = open(dir.path()).unwrap();
    let mut watch = store.watch(&key());
    let Claim::Granted(epoch) = writer.claim(&key()).await.unwrap() else { panic!("nobody is there") };
    writer.commit(commit(Basis::Held { head: 3, epoch }, 1)).await.unwrap();
    watch.wait_for(|pulse| pulse.head == 4).await.unwrap();
}

/// A process that died while it created the database left an empty file.
#[test]
fn where_no_store_was_made_there_is_nothing_to_look_at() {
    let dir = tempfile::tempdir().unwrap();
    assert!(SqliteStore::open_existing_read_only(&dir.path().join("missing")).unwrap().is_none());
    assert!(SqliteStore::open_existing_read_only(dir.path()).unwrap().is_none());
    fs::write(database(dir.path()), "").unwrap();
    assert!(SqliteStore::open_existing_read_only(dir.path()).unwrap().is_none());
    let raw = Connection::open(database(dir.path())).unwrap();
    raw.pragma_update(None, "journal_mode", "WAL").unwrap();
    assert!(SqliteStore::open_existing_read_only(dir.path()).unwrap().is_none());
}

/// Killed while the new database was switched to WAL mode: its header is written, and so is the journal that undoes it.
#[tokio::test]
async fn a_database_cut_off_in_the_making_is_made_again() {
    let dir = tempfile::tempdir().unwrap();
    let raw = Connection::open(database(dir.path())).unwrap();
    raw.pragma_update(None, "journal_mode", "WAL").unwrap();
    drop(raw);
    let mut journal = vec![0; 512];
    // The magic number, no pages to restore, a nonce, no pages before, the sizes of sector and page.
    let head = [0xd9d5_05f9, 0x20a1_63d7, 0, 0x0504_ac62, 0, 512, 4_096_u32];
    for (place, word) in head.into_iter().enumerate() {
        journal[place * 4..place * 4 + 4].copy_from_slice(&word.to_be_bytes());
    }
    fs::write(dir.path().join("posse.db-journal"), journal).unwrap();
    assert!(SqliteStore::open_existing_read_only(dir.path()).unwrap().is_none());
    let store = open(dir.path()).unwrap();
    store.commit(commit(Basis::New, 3)).await.unwrap();
    assert!(store.check().await.unwrap().problems.is_empty());
}

#[tokio::test]
async fn children_are_in_their_view() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path()).unwrap();
    let root = key().run.root();
    let row = |id: &posse_domain::id::AgentId| posse_engine::ports::AgentRow {
        id: id.clone(),
        terms: Some(posse_engine::ports::AgentTerms {
            parent: id.parent(),
            parent_message_id: Some("m7".to_owned()),
            depth: id.depth(),
            definition: "explore".to_owned(),
            contract_json: r#"{"step":{"description":"the child's prompt"}}"#.to_owned(),
            permissions_json: "{}".to_owned(),
            created_at_ms: 5,
        }),
        state: AgentState::Closed,
        final_status: Some(FinalStatus::Completed),
        close_reason: Some(CloseReason::Integrated),
        result: Some("a report".to_owned()),
        error: None,
        usage_json: "{}".to_owned(),
        subtree_usage_json: "{}".to_owned(),
        completed_at_ms: Some(9),
        events_in_force: Some(Vec::new()),
    };
    let agents = vec![row(&root), row(&root.child(1))];
    store.commit(Commit { agents, ..commit(Basis::New, 1) }).await.unwrap();
    drop(store);
    let raw = Connection::open(database(dir.path())).unwrap();
    raw.execute_batch("PRAGMA trusted_schema = OFF").unwrap();
    let mut select = raw.prepare("SELECT * FROM sub_agents").unwrap();
    let columns = [
        "id",
        "parent_id",
        "parent_message_id",
        "definition",
        "state",
        "prompt",
        "result",
        "error",
        "effective_permissions_json",
        "context_json",
        "created_at",
        "completed_at",
    ];
    assert_eq!(select.column_names().collect::<Vec<_>>(), columns);
    let prompts: Vec<(String, String)> = select
        .query_map([], |row| Ok((row.get("id")?, row.get("prompt")?)))
        .unwrap()
        .map(Result::unwrap)
        .collect();
    assert_eq!(prompts, [(root.child(1).to_string(), "the child's prompt".to_owned())]);
}

/// Reverts a database to the format before rows had seals.
fn without_seals(dir: &Path) {
    let raw = Connection::open(database(dir)).unwrap();
    for table in ["heads", "mailbox", "removed_runs"] {
        raw.execute_batch(&format!("ALTER TABLE {table} DROP COLUMN seal")).unwrap();
    }
    raw.execute_batch("DROP INDEX open_runs; ALTER TABLE agents DROP COLUMN events_in_force").unwrap();
    raw.pragma_update(None, "user_version", 1).unwrap();
}

#[tokio::test]
async fn a_database_without_seals_can_be_looked_at_and_is_sealed_by_the_first_that_writes() {
    let dir = tempfile::tempdir().unwrap();
    filled(dir.path(), 3).await;
    let store = open(dir.path()).unwrap();
    let command = MailCommand::Send { agent: key().run.root(), text: "a message".to_owned() };
    store.post(&key(), command.clone()).await.unwrap();
    drop(store);
    without_seals(dir.path());
    let looking = SqliteStore::open_existing_read_only(dir.path()).unwrap().unwrap();
    assert_eq!(looking.mail(&key()).await.unwrap()[0].command, command);
    assert_eq!(looking.runs(&key().tenant, "", 9).await.unwrap()[0].damage, None);
    assert_eq!(looking.check().await.unwrap().problems, [""; 0]);
    assert_eq!(looking.check_run(&key()).await.unwrap().problems, [""; 0]);
    drop(looking);
    let store = open(dir.path()).unwrap();
    assert_eq!(store.check().await.unwrap().problems, [""; 0]);
    assert_eq!(store.mail(&key()).await.unwrap()[0].command, command);
    let Claim::Granted(epoch) = store.claim(&key()).await.unwrap() else { panic!("its lease is over") };
    store.commit(commit(Basis::Held { head: 3, epoch }, 1)).await.unwrap();
    drop(store);
    let raw = Connection::open(database(dir.path())).unwrap();
    raw.execute("UPDATE heads SET epoch = epoch + 1", []).unwrap();
    drop(raw);
    let problems = open(dir.path()).unwrap().check_run(&key()).await.unwrap().problems;
    assert_eq!(problems, [format!("the head of run {} is not what was written", key().run)]);
}

/// That process would continue to write rows without seals, which would then look changed.
#[tokio::test]
async fn an_older_database_is_left_as_it_is_while_a_process_executes_runs_in_it() {
    let dir = tempfile::tempdir().unwrap();
    let owner = open(dir.path()).unwrap();
    owner.commit(commit(Basis::New, 3)).await.unwrap();
    without_seals(dir.path());
    let refused = open(dir.path()).unwrap_err().to_string();
    assert!(refused.contains("older format") && refused.contains("wait for its end"), "{refused}");
    drop(owner);
    open(dir.path()).unwrap();
}

/// A run that ended with this status, and the row of its root.
fn ended(status: RunStatus, error: FailureReason) -> Commit {
    let root = key().run.root();
    let terms = posse_engine::ports::AgentTerms {
        parent: None,
        parent_message_id: None,
        depth: 0,
        definition: "coder".to_owned(),
        contract_json: "{}".to_owned(),
        permissions_json: "{}".to_owned(),
        created_at_ms: 5,
    };
    let row = posse_engine::ports::AgentRow {
        id: root,
        terms: Some(terms),
        state: AgentState::Closed,
        final_status: Some(FinalStatus::Failed),
        close_reason: Some(CloseReason::Failed(FailKind::Cancelled)),
        result: None,
        error: Some(error),
        usage_json: "{}".to_owned(),
        subtree_usage_json: "{}".to_owned(),
        completed_at_ms: Some(9),
        events_in_force: Some(Vec::new()),
    };
    let first = commit(Basis::New, 1);
    let run = first.run.clone().map(|run| RunRow { status, ended_at_ms: Some(9), ..run });
    Commit { agents: vec![row], run, ..first }
}

#[tokio::test]
async fn the_failure_of_a_root_has_the_column_of_older_versions() {
    let reason = "TIMEOUT: enough".to_owned();
    for (status, column) in
        [(RunStatus::Cancelled, "TIMEOUT: enough"), (RunStatus::Failed, "CANCELLED: TIMEOUT: enough")]
    {
        let dir = tempfile::tempdir().unwrap();
        let store = open(dir.path()).unwrap();
        let error = FailureReason { code: Code::Cancelled, reason: reason.clone() };
        store.commit(ended(status, error.clone())).await.unwrap();
        assert_eq!(store.agents(&key()).await.unwrap()[0].error, Some(error));
        drop(store);
        let raw = Connection::open(database(dir.path())).unwrap();
        let stored: String = raw.query_row("SELECT error FROM agents", [], |row| row.get(0)).unwrap();
        assert_eq!(stored, column);
    }
}

#[tokio::test]
async fn an_unknown_word_in_a_row_is_damage_of_its_run_alone() {
    let changes = [
        ("state = 'asleep'", "its state `asleep` cannot be read"),
        ("final_status = 'perhaps'", "its final status `perhaps` cannot be read"),
        ("close_reason = 'bored'", "its close reason `bored` cannot be read"),
        ("error = 'it broke'", "its error `it broke` cannot be read"),
    ];
    let dir = tempfile::tempdir().unwrap();
    let error = FailureReason { code: Code::Cancelled, reason: "enough".to_owned() };
    open(dir.path()).unwrap().commit(ended(RunStatus::Failed, error)).await.unwrap();
    let other = RunKey { run: RunId::from_random(8), ..key() };
    let mut sound = commit(Basis::New, 0);
    sound.key = other.clone();
    open(dir.path()).unwrap().commit(sound).await.unwrap();
    let raw = || {
        let raw = Connection::open(database(dir.path())).unwrap();
        raw.execute_batch("PRAGMA ignore_check_constraints = ON").unwrap();
        raw
    };
    for (change, problem) in changes {
        let column = change.split_once(' ').unwrap().0;
        let before: String =
            raw().query_row(&format!("SELECT {column} FROM agents"), [], |row| row.get(0)).unwrap();
        assert_eq!(raw().execute(&format!("UPDATE agents SET {change}"), []).unwrap(), 1);
        let store = open(dir.path()).unwrap();
        let problem = format!("agent number 1: {problem}");
        assert_eq!(store.agents(&key()).await, Err(StoreError::Damaged { run: key().run, problem }));
        assert_eq!(store.agents(&other).await, Ok(Vec::new()));
        drop(store);
        raw().execute(&format!("UPDATE agents SET {column} = ?1"), [before]).unwrap();
    }
    assert!(open(dir.path()).unwrap().agents(&key()).await.is_ok(), "everything was put back");
    raw().execute("UPDATE runs SET status = 'dreaming' WHERE run = ?1", [key().run.as_str()]).unwrap();
    let store = open(dir.path()).unwrap();
    let list = store.runs(&TenantId::local(), "", 9).await.unwrap();
    let damage = |run: &RunId| list.iter().find(|entry| entry.run == *run).unwrap().damage.clone();
    assert_eq!(damage(&key().run).as_deref(), Some("its row has the status `dreaming`"));
    assert_eq!(damage(&other.run), None);
}
