//! Changes every column of every table of the store behind Posse's back, and checks that `verify` names the row.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::path::{Path, PathBuf};

use posse::ports::{Claim, MailCommand, RunKey, Store, StoreError, TenantId};
use posse::{NewRun, Posse, RunId};
use posse_domain::hash::Hash;
use posse_engine::verify;
use posse_store::{SqliteOptions, SqliteStore};
use rusqlite::Connection;
use rusqlite::types::Value;

const SCRIPT: &str = r#"
- when: {agent: "0", turn: 1}
  reply: {tool_calls: [{name: task, input: {subagent_type: explore, description: look, prompt: look}}]}
- reply: {text: done}
"#;

/// Columns whose change affects no reader, and why.
const NOT_RELIED_ON: [(&str, &str, &str); 1] =
    [("blobs", "id", "blobs are found by tenant and hash; the number is SQLite's own")];

/// Plausible and harmless changes, and why. Every other change of the column is found.
const HARMLESS: [(&str, &str, &str); 1] =
    [("sqlite_sequence", "seq", "a counter that is ahead skips numbers, and none is used twice")];

/// Columns whose change detaches the row from its run. Only the check of the whole store finds it.
const FOUND_BY_ALL: [(&str, &str); 5] =
    [("runs", "no"), ("runs", "tenant"), ("runs", "run"), ("mailbox", "run_no"), ("blobs", "bytes")];

/// A store with a run of two agents, its long texts, its lease and its mail, and the note of a removed run.
struct PreparedStore {
    dir: tempfile::TempDir,
    key: RunKey,
    pristine: Vec<u8>,
}

impl PreparedStore {
    async fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let (run, removed) = (ended(dir.path()).await, ended(dir.path()).await);
        let key = |run| RunKey { tenant: TenantId::local(), run };
        let (key, removed) = (key(run), key(removed));
        let store = open(&dir.path().join("state"));
        store.remove(&removed).await.unwrap();
        assert!(matches!(store.claim(&key).await, Ok(Claim::Granted(2))));
        let agent = key.run.root().child(1);
        store.post(&key, MailCommand::Send { agent, text: "a message".to_owned() }).await.unwrap();
        drop(store);
        let pristine = fs::read(database(dir.path())).unwrap();
        Self { dir, key, pristine }
    }

    /// The problems that the checks report now: of the run, and of the whole store.
    async fn problems(&self) -> (Option<String>, Vec<String>) {
        let store = SqliteStore::open_existing_read_only(&self.dir.path().join("state")).unwrap().unwrap();
        let of_run = verify(&store, &self.key).await.err().map(|error| error.to_string());
        let of_all =
            store.check().await.map_or_else(|error| vec![error.to_string()], |health| health.problems);
        (of_run, of_all)
    }

    fn change(&self, change: impl FnOnce(&Connection) -> rusqlite::Result<usize>) -> rusqlite::Result<usize> {
        let raw = Connection::open(database(self.dir.path())).unwrap();
        raw.execute_batch(
            "PRAGMA foreign_keys = OFF; PRAGMA ignore_check_constraints = ON; \
             DROP TRIGGER events_never_change; DROP TRIGGER events_never_go",
        )
        .unwrap();
        let changed = change(&raw);
        raw.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).unwrap();
        changed
    }

    fn restore(&self) {
        for file in ["posse.db-wal", "posse.db-shm"] {
            drop(fs::remove_file(self.dir.path().join("state").join(file)));
        }
        fs::write(database(self.dir.path()), &self.pristine).unwrap();
    }
}

fn database(dir: &Path) -> PathBuf {
    dir.join("state/posse.db")
}

fn open(dir: &Path) -> SqliteStore {
    SqliteStore::open(dir, SqliteOptions::default()).unwrap()
}

/// An ended run, with a text that is stored in the database and one that is stored in a file.
async fn ended(dir: &Path) -> RunId {
    let script = posse::scripted::ScriptedModel::from_yaml(SCRIPT, "script.yaml").unwrap();
    let posse = Posse::builder().state_dir(dir.join("state")).model("scripted/s", script).open().unwrap();
    let request = format!("the same in both\n{}", "a long request ".repeat(20_000));
    let run = posse.start(NewRun::new(&request).model("scripted/s").dir(dir)).await.unwrap();
    posse.wait(run.id()).await.unwrap();
    run.ended().await.unwrap();
    run.id().clone()
}

/// Other values for a column.
fn others(value: &Value, kind: &str) -> Vec<Value> {
    let far = Value::Integer(253_402_300_799_000);
    match value {
        Value::Integer(number) => {
            let all = [number - 1, number + 1, 0, -1].map(Value::Integer);
            all.into_iter().chain([far, Value::Null]).filter(|other| other != value).collect()
        }
        Value::Text(text) => vec![Value::Text(format!("{text}x")), Value::Text(String::new()), Value::Null],
        Value::Blob(bytes) => {
            let mut flipped = bytes.clone();
            flipped[0] ^= 1;
            vec![Value::Blob(flipped), Value::Blob(vec![0; bytes.len()]), Value::Null]
        }
        _ if kind == "INTEGER" => vec![Value::Integer(1), far],
        _ if kind == "BLOB" => vec![Value::Blob(vec![0; 32])],
        _ => vec![Value::Text("x".to_owned()), Value::Text(String::new())],
    }
}

struct Column {
    table: String,
    name: String,
    kind: String,
    key: String,
}

fn columns(raw: &Connection) -> Vec<Column> {
    let list = |sql: &str| -> Vec<String> {
        let mut select = raw.prepare(sql).unwrap();
        select.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
    };
    let mut all = Vec::new();
    for table in list("SELECT name FROM sqlite_master WHERE type = 'table'") {
        let key = list(&format!("SELECT name FROM pragma_table_info('{table}') WHERE pk > 0 ORDER BY pk"));
        let key = if key.is_empty() { "rowid".to_owned() } else { key.join(", ") };
        for name in list(&format!("SELECT name FROM pragma_table_info('{table}')")) {
            let kind = list(&format!("SELECT type FROM pragma_table_info('{table}') WHERE name = '{name}'"));
            all.push(Column { table: table.clone(), name, kind: kind[0].clone(), key: key.clone() });
        }
    }
    all
}

impl Column {
    fn is(&self, named: (&str, &str)) -> bool {
        (self.table.as_str(), self.name.as_str()) == named
    }

    /// Changes the first or the last row of the table. Fails if the table refuses the value.
    fn set(&self, raw: &Connection, order: &str, value: &Value) -> rusqlite::Result<usize> {
        let Self { table, name, key, .. } = self;
        let by = key.replace(", ", &format!(" {order}, "));
        let row = format!("SELECT {key} FROM {table} ORDER BY {by} {order} LIMIT 1");
        raw.execute(&format!("UPDATE {table} SET {name} = ?1 WHERE ({key}) = ({row})"), [value])
    }

    fn rows(&self, raw: &Connection) -> i64 {
        raw.query_row(&format!("SELECT count(*) FROM {}", self.table), [], |row| row.get(0)).unwrap()
    }

    fn value(&self, raw: &Connection, order: &str) -> Value {
        let Self { table, name, key, .. } = self;
        let by = key.replace(", ", &format!(" {order}, "));
        raw.query_row(&format!("SELECT {name} FROM {table} ORDER BY {by} {order} LIMIT 1"), [], |row| {
            row.get(0)
        })
        .unwrap()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_column_of_any_table_can_be_changed_unseen() {
    let place = PreparedStore::new().await;
    assert_eq!(place.problems().await, (None, Vec::new()), "whole as it is");
    let raw = Connection::open(database(place.dir.path())).unwrap();
    let all = columns(&raw);
    let blobs: Vec<String> = {
        let mut select = raw.prepare("SELECT hex(hash) FROM blobs").unwrap();
        let hashes = select.query_map([], |row| row.get::<_, String>(0)).unwrap();
        hashes.map(|hash| hash.unwrap().to_lowercase()).collect()
    };
    drop(raw);
    assert!(blobs.len() > 1, "texts are kept as blobs");
    let mut unseen = Vec::new();
    for column in &all {
        let mut changes = 0;
        for order in ["ASC", "DESC"] {
            place.restore();
            let raw = Connection::open(database(place.dir.path())).unwrap();
            let value = column.value(&raw, order);
            if order == "DESC" && column.rows(&raw) == 1 {
                continue;
            }
            drop(raw);
            for other in others(&value, &column.kind) {
                place.restore();
                // A value that the table itself refuses cannot be stored there.
                if !matches!(place.change(|raw| column.set(raw, order, &other)), Ok(1)) {
                    continue;
                }
                changes += 1;
                let (of_run, of_all) = place.problems().await;
                let named = |text: &String| {
                    text.contains(place.key.run.as_str())
                        || text.contains("run number")
                        || text.contains("agent number")
                        || text.contains("removed run")
                        || text.contains("run numbers")
                        || blobs.iter().any(|blob| text.contains(&blob[..60]) || text.contains(&blob[4..]))
                        || text.contains(&Hash::ZERO.to_string())
                };
                let is_exempt = NOT_RELIED_ON.iter().any(|(table, name, _)| column.is((table, name)))
                    || (HARMLESS.iter().any(|(table, name, _)| column.is((table, name)))
                        && matches!((&value, &other), (Value::Integer(was), Value::Integer(is)) if is > was));
                let by_run = of_run.is_some()
                    || column.table == "removed_runs"
                    || column.table == "sqlite_sequence"
                    || FOUND_BY_ALL.iter().any(|named| column.is(*named))
                    || column.table == "blobs";
                if !is_exempt && (!by_run || !of_run.iter().chain(&of_all).any(named)) {
                    let Column { table, name, .. } = column;
                    unseen.push(format!("{table}.{name} ({order}) {other:?}: {of_run:?} {of_all:?}"));
                }
            }
        }
        assert!(changes > 0, "{}.{}: nothing could be changed", column.table, column.name);
    }
    assert!(unseen.is_empty(), "{} of {} columns:\n{}", unseen.len(), all.len(), unseen.join("\n"));
}

/// Rows that no process could have written, each with a valid seal.
#[tokio::test(flavor = "multi_thread")]
async fn a_command_for_an_agent_that_does_not_exist_is_named() {
    let place = PreparedStore::new().await;
    let store = open(&place.dir.path().join("state"));
    let agent = place.key.run.root().child(7);
    store.post(&place.key, MailCommand::Send { agent, text: "x".to_owned() }).await.unwrap();
    let problem = verify(&store, &place.key).await.unwrap_err().to_string();
    let said = format!("command 2 in the mailbox of run {0} is for agent {0}.7", place.key.run);
    assert!(problem.contains(&said), "{problem}");
}

/// A lease holder must not build on a changed row: its next seal would hide the change.
#[tokio::test(flavor = "multi_thread")]
async fn a_run_with_a_changed_lease_or_command_is_not_written_to() {
    let place = PreparedStore::new().await;
    let is_damage =
        |error: &StoreError| matches!(error, StoreError::Damaged { run, .. } if *run == place.key.run);
    place
        .change(|raw| {
            raw.execute("UPDATE mailbox SET command = replace(command, 'a message', 'another')", [])
        })
        .unwrap();
    let store = open(&place.dir.path().join("state"));
    assert!(store.mail(&place.key).await.is_err_and(|error| is_damage(&error)));
    drop(store);
    place.restore();
    place.change(|raw| raw.execute("UPDATE heads SET epoch = epoch + 5", [])).unwrap();
    let store = open(&place.dir.path().join("state"));
    assert!(store.claim(&place.key).await.is_err_and(|error| is_damage(&error)));
    let agent = place.key.run.root();
    let posted = store.post(&place.key, MailCommand::Send { agent, text: "x".to_owned() }).await;
    assert!(posted.is_err_and(|error| is_damage(&error)));
}
