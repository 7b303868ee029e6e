//! Replays every run of every story when the story has ended, and compares the result with the recording.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::time::SystemTime;

use serde_json::Value;

use crate::support::{Done, Home, run_of};

/// Fields that may differ in a replay: times, ids, hashes of content with ids, the model's address, the session of a front
/// end, facts about the user's own repository, and texts that only the first event of the whole tree has.
const OWN: [&str; 16] = [
    "elapsed_ms",
    "wall_ms",
    "contract_hash",
    "pack",
    "onto",
    "approval",
    "dir",
    "model",
    "base_url",
    "recorded_model",
    "session_id",
    "head",
    "branch",
    "problem",
    "system_text",
    "tools_text",
];
/// Kinds of events that only describe the executing process, waits that a replay does not have, and cleaning.
const NOT_REPEATED: [&str; 4] =
    ["run.resumed", "agent.provider_wait_started", "agent.provider_wait_ended", "agent.workspace_removed"];
/// Fields that an interrupted call changes in later events: counts, costs, and the texts that go with the first call.
const AFTER_A_CRASH: [&str; 5] = ["call", "preamble", "figures", "usage", "subtree_usage"];
/// The file with one line for each run's result. `cargo xtask ci test` counts them.
const COUNTED: &str = concat!(env!("CARGO_TARGET_TMPDIR"), "/replays");

/// The word for a run that was replayed with the same result.
const REPLAYED: &str = "replayed";

/// A run, read from its journal.
pub(crate) struct Record {
    run: String,
    events: Vec<Value>,
}

/// The comparable events of each agent, by its relative id.
type Essence = BTreeMap<String, Vec<(String, Value)>>;

impl Record {
    /// Reads the journal of a run.
    #[track_caller]
    pub(crate) fn of(home: &Home, run: &str) -> Self {
        let events = home.posse(&["logs", "--json", run]).exits(0).json_lines();
        Self { run: run.to_owned(), events }
    }

    /// The events of a kind.
    pub(crate) fn of_kind<'a>(&'a self, kind: &'a str) -> impl Iterator<Item = &'a Value> {
        self.events.iter().filter(move |event| event["kind"] == kind)
    }

    /// Why it is not replayed.
    fn exception(&self) -> Option<&'static str> {
        EXCEPTIONS.iter().find(|(_, applies)| applies(self)).map(|(reason, _)| *reason)
    }

    /// Why its replay may differ.
    fn excuse(&self, since: SystemTime) -> Option<&'static str> {
        let waits_for = |event: &Value| event["detail"]["waits_for"] != "ownership";
        let started = &self.of_kind("run.started").next().expect("a beginning")["detail"];
        let reads = || started["base"].is_null().then(|| Path::new(started["dir"].as_str().expect("a path")));
        if self.of_kind("agent.subagent_queued").any(waits_for) {
            return Some("a limit of the whole tree decided who began when");
        }
        // A replay neither waits for a provider nor shares the machine with the run: its time may be enough for one
        // more call, the report.
        let timed_out = self.of_kind("run.failed").any(|event| {
            let detail = &event["detail"];
            let reason = detail["reason"].as_str().unwrap_or_default();
            detail["kind"] == "budget" && reason.starts_with("the wall time of the run is used up")
        });
        if timed_out {
            return Some("its time ran out");
        }
        // A run in which no agent could change files has no recorded folder.
        let changed = reads().is_some_and(|dir| has_changed(dir, since));
        changed.then_some("it read a folder that has changed since")
    }

    fn has_interrupted_calls(&self) -> bool {
        self.of_kind("agent.model_replied").any(|event| is_interrupted(&event["detail"]))
    }

    /// What must be the same in a replay. Concurrent results may be in any order, and messages are placed where they
    /// are read: before the next model call, whenever in the turn before they arrived.
    fn essence(&self, after_a_crash: bool) -> Essence {
        let mut agents: BTreeMap<String, Agent> = BTreeMap::new();
        let continues = self.events.first().is_some_and(|event| !event["detail"]["continues"].is_null());
        for event in &self.events {
            let kind = event["kind"].as_str().expect("a kind");
            let agent = event["agent_id"].as_str().expect("an agent").replace(&self.run, "");
            let agent = agents.entry(agent).or_default();
            if NOT_REPEATED.contains(&kind) {
                continue;
            }
            let detail = event["detail"].to_string().replace(&self.run, "RUN");
            let mut detail: Value = serde_json::from_str(&detail).expect("JSON");
            forget(&mut detail);
            if continues && let Some(detail) = detail.as_object_mut() {
                // It has the changes of the run that was continued, which a replay does not repeat.
                detail.remove("result");
            }
            if let Some(base) = detail["base"].as_object_mut() {
                // They are about the user's own folder, which a replay does not use.
                base.remove("notes");
                // The files of a replay are those that the run began with, whatever it continued.
                base.remove("compared_with");
            }
            if after_a_crash {
                if is_dropped(&detail) {
                    agent.drop_call();
                    continue;
                }
                let is_reply = kind == "agent.model_replied";
                let is_kept = |name: &str| !AFTER_A_CRASH.contains(&name) || is_reply && name == "usage";
                detail.as_object_mut().expect("an object").retain(|name, _| is_kept(name));
            }
            agent.take(kind, detail);
        }
        agents.into_iter().map(|(id, agent)| (id, agent.events())).collect()
    }

    /// The first difference to another run, for users; `None` if they are the same.
    pub(crate) fn difference(&self, other: &Record) -> Option<String> {
        let after_a_crash = self.has_interrupted_calls();
        let (then, now) = (self.essence(after_a_crash), other.essence(after_a_crash));
        for (agent, events) in &then {
            let found = now.get(agent).map_or(&[][..], Vec::as_slice);
            for at in 0..events.len().max(found.len()) {
                let event = format!("event {at} of agent `{agent}`");
                match (events.get(at), found.get(at)) {
                    (Some((kind, old)), Some((other, new))) if kind == other => {
                        if let Some(where_) = first_difference(old, new) {
                            return Some(format!("{event} ({kind}){where_}"));
                        }
                    }
                    (old, new) => {
                        let told = |event: Option<&(String, Value)>| {
                            event.map_or("nothing".to_owned(), |(kind, detail)| format!("{kind} {detail}"))
                        };
                        return Some(format!("{event}:\n- {}\n+ {}", told(old), told(new)));
                    }
                }
            }
        }
        let more: Vec<&String> = now.keys().filter(|agent| !then.contains_key(*agent)).collect();
        (!more.is_empty()).then(|| format!("agents that were not there: {more:?}"))
    }
}

/// The events of an agent, in order.
#[derive(Default)]
struct Agent {
    events: Vec<(String, Value)>,
    messages: Vec<(String, Value)>,
}

impl Agent {
    fn take(&mut self, kind: &str, detail: Value) {
        if kind == "agent.message_received" {
            return self.messages.push((kind.to_owned(), detail));
        }
        if kind == "agent.model_called" {
            let turn = |detail: &Value| (detail["attempt"].as_u64(), detail["turn"].as_u64());
            let again =
                |event: &(String, Value)| event.1["dropped"] == true && turn(&event.1) == turn(&detail);
            self.events.retain(|event| !again(event));
            self.read_messages();
        }
        self.events.push((kind.to_owned(), detail));
    }

    /// Marks the last call as dropped, because the recording of that differs. A repeated call counts as none.
    fn drop_call(&mut self) {
        let called = self.events.iter_mut().rfind(|event| event.0 == "agent.model_called");
        called.expect("its call").1["dropped"] = true.into();
    }

    fn read_messages(&mut self) {
        self.messages.sort_by_cached_key(|(_, detail)| detail.to_string());
        self.events.append(&mut self.messages);
    }

    fn events(mut self) -> Vec<(String, Value)> {
        self.read_messages();
        let is_result = |event: &(String, Value)| event.0 == "agent.tool_finished";
        for group in self.events.chunk_by_mut(|one, other| is_result(one) && is_result(other)) {
            group.sort_by_cached_key(|(_, detail)| detail.to_string());
        }
        self.events
    }
}

/// Whether a crash interrupted the call of this reply. Such calls are repeated, except for those before a cancel.
fn is_interrupted(detail: &Value) -> bool {
    detail["error"]["code"] == "INTERRUPTED"
}

/// Whether a reply was recorded as dropped.
fn is_dropped(detail: &Value) -> bool {
    is_interrupted(detail) || detail["error"]["code"] == "CANCELLED"
}

fn forget(value: &mut Value) {
    match value {
        Value::Object(map) => {
            map.retain(|name, _| !OWN.contains(&&**name));
            for (name, field) in map.iter_mut() {
                let is_object = |text: &str| text.len() == 40 && text.bytes().all(|b| b.is_ascii_hexdigit());
                if name != "tree" && field.as_str().is_some_and(is_object) {
                    *field = Value::from("COMMIT");
                }
                forget(field);
            }
        }
        Value::Array(items) => items.iter_mut().for_each(forget),
        _ => {}
    }
}

/// The position and both sides of the first difference between two values.
fn first_difference(old: &Value, new: &Value) -> Option<String> {
    match (old, new) {
        (Value::Object(then), Value::Object(now)) => {
            let names = then.keys().chain(now.keys().filter(|name| !then.contains_key(*name)));
            let mut found = names.filter_map(|name| {
                let inside = first_difference(&old[name], &new[name])?;
                Some(format!(".{name}{inside}"))
            });
            found.next()
        }
        (Value::Array(then), Value::Array(now)) if then.len() == now.len() => {
            let mut found = then.iter().zip(now).enumerate().filter_map(|(at, (old, new))| {
                let inside = first_difference(old, new)?;
                Some(format!("[{at}]{inside}"))
            });
            found.next()
        }
        _ => (old != new).then(|| format!(":\n- {old}\n+ {new}")),
    }
}

/// Replays a run and returns the id of the new one.
#[track_caller]
pub(crate) fn replay(home: &Home, run: &str, code: i32) -> (String, Done) {
    let done = home.posse(&["run", "--json", "--model", &format!("replay/{run}")]).exits(code);
    (run_of(&done.result()), done)
}

/// Replays a run, which must end with this code and be the same.
#[track_caller]
pub(crate) fn assert_replays(home: &Home, run: &str, code: i32) {
    let (again, _) = replay(home, run, code);
    assert_ne!(run, again);
    assert_same(&Record::of(home, run), &Record::of(home, &again));
    home.posse(&["verify", &again]).exits(0);
}

/// Compares a replay with its recording.
#[track_caller]
pub(crate) fn assert_same(recorded: &Record, again: &Record) {
    if let Some(difference) = recorded.difference(again) {
        panic!("the replay of run {} differs (- recorded, + now): {difference}", recorded.run);
    }
}

/// A reason, and whether it applies to a run.
type Exception = (&'static str, fn(&Record) -> bool);

/// Why a run is not replayed, by its record. Any other run must be the same, or have an excuse.
const EXCEPTIONS: [Exception; 2] = [
    ("a crash cut a command off, and the replay runs it", |record| {
        record.of_kind("agent.tool_interrupted").next().is_some()
    }),
    ("somebody ended a command that had come as far as the clock let it", |record| {
        let is_exec = |call: &Value| {
            let mut intended = record.of_kind("agent.tool_intended").map(|event| &event["detail"]);
            intended.any(|intent| intent["class"] == "exec" && intent["call_id"] == *call)
        };
        let mut finished = record.of_kind("agent.tool_finished").map(|event| &event["detail"]);
        finished.any(|result| result["code"] == "CANCELLED" && is_exec(&result["call_id"]))
    }),
];

/// Replays every ended run of a home, and fails if one differs. Counts the results.
pub(crate) fn all(home: &Home) {
    if home.is_replayed() || !home.state_dir().join("posse.db").exists() {
        return;
    }
    if let Some(reason) = home.why_not_replayed() {
        return count(reason);
    }
    let mut different = Vec::new();
    for line in home.posse(&["ps", "--all", "--json"]).exits(0).json_lines() {
        let field = |name: &str| line[name].as_str().expect("a text");
        if field("model").starts_with("replay/") {
            continue;
        }
        if line["ended_at"].is_null() {
            // Its story has ended and no process is running it: a cancel is an end that can be repeated.
            home.posse(&["cancel", field("run")]).exits(0);
        }
        let record = Record::of(home, field("run"));
        let since = time(field("created_at"));
        if let Some(reason) = record.exception() {
            count(reason);
            continue;
        }
        let excuse = record.excuse(since);
        home.restore_settings(since);
        let done = home.again(&["run", "--json", "--model", &format!("replay/{}", record.run)]);
        let mut events = done.json_lines();
        let result = events.pop().unwrap_or_else(|| panic!("no result: {done:?}"));
        let again = Record { run: run_of(&result), events };
        match (record.difference(&again), excuse) {
            (None, _) => count(REPLAYED),
            (Some(_), Some(excuse)) => count(excuse),
            (Some(difference), None) => {
                different.push(format!("run {}: {difference}\n{}", record.run, result["text"]));
            }
        }
    }
    assert!(different.is_empty(), "replays differ (- recorded, + now):\n{}", different.join("\n"));
}

/// Records the result of a run.
fn count(what: &str) {
    let story = std::thread::current().name().unwrap_or("a story").to_owned();
    println!("{story}: {what}");
    let mut file = fs::OpenOptions::new().create(true).append(true).open(COUNTED).expect("a file");
    // One write, because other stories write too.
    file.write_all(format!("{what}\t{story}\n").as_bytes()).expect("written");
}

fn time(text: &str) -> SystemTime {
    text.parse::<jiff::Timestamp>().expect("a time").into()
}

/// Whether anything beneath a folder was changed after a time.
fn has_changed(folder: &Path, since: SystemTime) -> bool {
    let is_newer = |path: &Path| {
        let modified = fs::symlink_metadata(path).and_then(|metadata| metadata.modified());
        modified.is_ok_and(|modified| modified > since)
    };
    let mut entries = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    is_newer(folder) || entries.any(|path| is_newer(&path) || path.is_dir() && has_changed(&path, since))
}
