//! The `tracing` records of spawning and closing, for logs and metrics.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::{Mutex, OnceLock};

use posse_domain::id::RunId;
use posse_models::scripted::ScriptedAnswer;
use serde_json::json;
use tracing::field::{Field, Visit};
use tracing::span;

use crate::skills;
use crate::world::{World, child};

type Record = BTreeMap<String, String>;

/// The fields of every record of this process. One collector for all tests: `tracing` remembers for each place in the code
/// whether any collector wants its records, and a test on another thread without one could be the first to pass it.
static RECORDS: Mutex<Vec<Record>> = Mutex::new(Vec::new());

struct Keeper;

impl Keeper {
    fn install() {
        static INSTALLED: OnceLock<()> = OnceLock::new();
        INSTALLED.get_or_init(|| {
            tracing::subscriber::set_global_default(Self).expect("no other collector");
            // Other tests may have passed these places before.
            tracing::callsite::rebuild_interest_cache();
        });
    }

    /// The records about agents of a run.
    fn records_of(run: &RunId) -> Vec<Record> {
        let run = run.to_string();
        let records = RECORDS.lock().expect("no panic while it is held");
        let is_of_run =
            |record: &&Record| record.get("agent_id").is_some_and(|agent| agent.starts_with(&run));
        records.iter().filter(is_of_run).cloned().collect()
    }
}

struct Fields<'a>(&'a mut Record);

impl Visit for Fields<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.0.insert(field.name().to_owned(), format!("{value:?}"));
    }
}

impl tracing::Subscriber for Keeper {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        metadata.target().starts_with("posse_engine")
    }

    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}

    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

    fn event(&self, event: &tracing::Event<'_>) {
        let mut record = Record::new();
        event.record(&mut Fields(&mut record));
        RECORDS.lock().expect("no panic while it is held").push(record);
    }

    fn enter(&self, _: &span::Id) {}

    fn exit(&self, _: &span::Id) {}
}

#[tokio::test]
async fn spawning_and_closing_are_records_with_their_fields() {
    Keeper::install();
    let world = World::new(|request| match (request.depth, request.turn) {
        (0, 1) => ScriptedAnswer::text("").call("task", child("scout", "x")),
        (1, 1) => ScriptedAnswer::text("").call("probe", json!({})),
        _ => ScriptedAnswer::text("done"),
    });
    let ended = world.run(world.spec()).await;
    let records = Keeper::records_of(&ended.run.id);
    let of = |message: &str| -> Vec<Record> {
        records
            .iter()
            .filter(|record| record.get("message").is_some_and(|text| text == message))
            .cloned()
            .collect()
    };
    let (run, agent) = (ended.run.id.to_string(), ended.run.id.root().child(1).to_string());
    let created = of("sub-agent created");
    assert_eq!(created.len(), 1, "{records:?}");
    let expected = [
        ("agent_id", agent.as_str()),
        ("definition", "scout"),
        ("depth", "1"),
        ("parent_id", run.as_str()),
        ("root_id", run.as_str()),
        ("turn_limit", "20"),
    ];
    for (field, value) in expected {
        assert_eq!(created[0].get(field).map(String::as_str), Some(value), "{field}");
    }
    let closed = of("sub-agent closed");
    assert_eq!(closed.len(), 1, "{records:?}");
    assert_eq!(closed[0].get("agent_id"), Some(&agent));
    for field in [
        "final_status",
        "close_reason",
        "turns",
        "tool_calls",
        "wall_ms",
        "input_tokens",
        "subtree_input_tokens",
    ] {
        assert!(closed[0].contains_key(field), "{field}");
    }
    assert_eq!((closed[0]["turns"].as_str(), closed[0]["tool_calls"].as_str()), ("2", "1"));
    assert_eq!(created[0].get("skill"), None, "it carries out none");
}

#[tokio::test]
async fn the_record_of_a_skills_sub_agent_names_the_skill() {
    Keeper::install();
    let world = World::new(|_| ScriptedAnswer::text("done"));
    let spec = skills::spec(&world, [skills::skill("deep")]);
    let spec = skills::with_terms(spec, |terms| terms.skill = Some("deep".to_owned()));
    let records = Keeper::records_of(&world.run(spec).await.run.id);
    let named = records.iter().filter_map(|record| Some((record.get("skill")?, record.get("depth")?)));
    assert_eq!(named.collect::<Vec<_>>(), [(&"\"deep\"".to_owned(), &"1".to_owned())]);
}
