//! A process that executes commands, one per line, and answers each with lines that start with `@`.

use std::fmt::Display;
use std::io::{BufRead, stdin};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use posse_engine::ports::{Claim, Commit, Epoch, Faults, MailCommand, Store, StoreError};
use posse_store::{SqliteOptions, SqliteStore};
use serde_json::Value;

use super::journal::{blob, first, key, next};

/// Executes the commands on standard input until it is closed.
pub(crate) fn serve() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let mut lines = stdin().lock().lines().map_while(Result::ok);
    let Some(settings) = lines.next() else { return };
    let settings: Value = serde_json::from_str(&settings).unwrap();
    let dir = PathBuf::from(settings["dir"].as_str().unwrap());
    let opened = if settings["looks"] == true {
        SqliteStore::open_existing_read_only(&dir).map(Option::unwrap)
    } else {
        SqliteStore::open(&dir, options(&settings))
    };
    let store = match opened {
        Ok(store) => store,
        Err(error) => return say(format_args!("error {error}")),
    };
    say("open");
    for line in lines {
        let words: Vec<&str> = line.split(' ').collect();
        let number = |place: usize| words[place].parse::<u64>().unwrap();
        match words[0] {
            "create" => runtime.block_on(create(&store, number(1))),
            "append" => runtime.block_on(append(&store, number(1), number(2), number(3), number(4))),
            "blob" => runtime.block_on(append_blob(&store, number(1), number(2), number(3))),
            "claim" => runtime.block_on(claim(&store, number(1))),
            "heartbeat" => tell(runtime.block_on(store.heartbeat(&key(number(1)), number(2))).map(|()| "ok")),
            "post" => runtime.block_on(post(&store, number(1))),
            "watch" => runtime.block_on(watch(&store, number(1), number(2))),
            "head" => {
                tell(runtime.block_on(store.head(&key(number(1)))).map(|head| format!("head {}", head.seq)));
            }
            "remove" => {
                std::fs::remove_file(words[1]).unwrap();
                say("removed");
            }
            other => panic!("what is `{other}`?"),
        }
    }
    drop(store);
    say("closed");
}

fn options(settings: &Value) -> SqliteOptions {
    let millis = |name: &str, default| settings[name].as_u64().map_or(default, Duration::from_millis);
    let usual = SqliteOptions::default();
    SqliteOptions {
        faults: faults(settings),
        lease: millis("lease_ms", usual.lease),
        writers_lock_patience: millis("patience_ms", usual.writers_lock_patience),
        checkpoint_pages: settings["checkpoint_pages"]
            .as_u64()
            .map_or(usual.checkpoint_pages, |pages| u32::try_from(pages).unwrap()),
        ..usual
    }
}

/// Dies or stops when the named fault point is passed for the given time.
fn faults(settings: &Value) -> Faults {
    let Some(point) = settings["point"].as_str().map(str::to_owned) else { return Faults::default() };
    let stops = settings["stops"].as_bool().unwrap_or(false);
    let left = AtomicU32::new(u32::try_from(settings["passes"].as_u64().unwrap_or(1)).unwrap());
    Faults::new(move |name| {
        if name != point || left.fetch_sub(1, Ordering::SeqCst) != 1 {
            return;
        }
        let signal = if stops { rustix::process::Signal::STOP } else { rustix::process::Signal::KILL };
        rustix::process::kill_process(rustix::process::getpid(), signal).unwrap();
    })
}

async fn create(store: &SqliteStore, run: u64) {
    tell(store.commit(first(&key(run))).await.map(|committed| format!("epoch {}", committed.epoch)));
}

/// Appends single events up to number `last`, and answers after each.
async fn append(store: &SqliteStore, run: u64, epoch: Epoch, head: u64, last: u64) {
    let mut longest = Duration::ZERO;
    for head in head..last {
        let started = Instant::now();
        match store.commit(next(&key(run), head, epoch)).await {
            Ok(committed) => say(format_args!("acked {}", committed.head.seq)),
            Err(error) => return say(format_args!("error {error}")),
        }
        longest = longest.max(started.elapsed());
    }
    say(format_args!("longest {}", longest.as_millis()));
}

/// Appends an event with a text that is stored as a file.
async fn append_blob(store: &SqliteStore, run: u64, epoch: Epoch, head: u64) {
    let commit = Commit { blobs: vec![blob()], ..next(&key(run), head, epoch) };
    tell(store.commit(commit).await.map(|committed| format!("acked {}", committed.head.seq)));
}

async fn claim(store: &SqliteStore, run: u64) {
    tell(store.claim(&key(run)).await.map(|claim| match claim {
        Claim::Granted(epoch) => format!("granted {epoch}"),
        Claim::Held(holder) => format!("held by {holder}"),
    }));
}

async fn post(store: &SqliteStore, run: u64) {
    let agent = key(run).run.root();
    tell(
        store
            .post(&key(run), MailCommand::Send { agent, text: "hello".to_owned() })
            .await
            .map(|id| format!("posted {id}")),
    );
}

/// Answers that it watches, and again when the store notifies it that the journal has reached `head`.
async fn watch(store: &SqliteStore, run: u64, head: u64) {
    let mut receiver = store.watch(&key(run));
    say("watching");
    let pulse = *receiver.wait_for(|pulse| pulse.head >= head).await.unwrap();
    say(format_args!("heard {}", pulse.head));
}

fn tell(outcome: Result<impl Display, StoreError>) {
    match outcome {
        Ok(text) => say(text),
        Err(error) => say(format_args!("error {error}")),
    }
}

fn say(text: impl Display) {
    println!("@{text}");
}
