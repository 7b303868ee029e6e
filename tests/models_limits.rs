//! Providers that ask for a pause, fail, or get too many requests.

use std::collections::HashSet;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use posse_testkit::mock::{Answer, LogEntry, MockReply, MockRequest, RetryAfter, WireFormat};
use serde_json::{Value, json};

use crate::models_world::{MODELS, World, of_kind};
use crate::support::run_of;

const REQUEST: &str = "Send everybody out.";

/// A root with `width` children of one turn.
fn crowd(asked: &MockRequest, width: usize, child: impl FnOnce() -> Answer) -> Answer {
    if !asked.first_text().contains(REQUEST) {
        return child();
    }
    if asked.turn() > 1 {
        return Answer::text("All are back.");
    }
    let task = |n: usize| json!({"subagent_type": "explore", "description": "go", "prompt": format!("Go, number {n}.")});
    (0..width).fold(MockReply::text("Go."), |say, n| say.call("task", &task(n))).into()
}

/// The most requests in any window of this length.
fn most_in(window: Duration, log: &[LogEntry]) -> usize {
    let end =
        |begin: &LogEntry| log.iter().filter(|one| one.at >= begin.at && one.at < begin.at + window).count();
    log.iter().map(end).max().unwrap_or(0)
}

#[test]
fn fifty_agents_leave_a_provider_alone_for_as_long_as_it_asks() {
    const AGENTS: usize = 50;
    const PAUSE: Duration = Duration::from_secs(2);
    /// How long requests may still arrive that were in flight at the first refusal.
    const ON_ITS_WAY: Duration = Duration::from_millis(300);
    /// 1,200 a minute: two in 100 ms, beside the five that may start at once.
    const IN_A_TENTH: usize = 7;
    let refused_until: Mutex<Option<Instant>> = Mutex::new(None);
    let (_, model) = MODELS[0];
    let world = World::new(model, "    requests_per_minute: 1200\n", move |asked: &MockRequest| {
        crowd(asked, AGENTS, || {
            let mut until = refused_until.lock().expect("a time");
            if Instant::now() < *until.get_or_insert_with(|| Instant::now() + PAUSE) {
                return Answer::refuse_for(429, "slow down", RetryAfter::Seconds(PAUSE.as_secs()));
            }
            Answer::text("Back.")
        })
    });
    let result = world.run(&["--json", REQUEST]).exits(0).result();
    assert_eq!((&result["status"], &result["agents"]), (&json!("completed"), &json!(AGENTS + 1)));
    assert_eq!(result["failed"], json!([]));

    let log = world.mock.requests();
    let refused: Vec<&LogEntry> = log.iter().filter(|logged| logged.status == 429).collect();
    assert!(!refused.is_empty(), "the server refused nobody");
    for one in &refused {
        let early = log.iter().find(|other| other.at > one.at + ON_ITS_WAY && other.at < one.at + PAUSE);
        assert!(early.is_none(), "asked to come back after {PAUSE:?} at {:?}: {early:?}", one.at);
    }
    assert!(most_in(Duration::from_millis(100), &log) <= IN_A_TENTH, "{:?}", times(&log));
    let journal = world.journal();
    let waits = of_kind(&journal, "agent.provider_wait_started");
    assert!(!waits.is_empty(), "a wait of two seconds is in the journal");
    assert_eq!(waits.len(), of_kind(&journal, "agent.provider_wait_ended").len());
    assert_eq!(waits[0]["detail"]["provider"], "anthropic");
    world.home.posse(&["verify", &run_of(&result)]).exits(0);
}

fn times(log: &[LogEntry]) -> Vec<u128> {
    log.iter().map(|logged| logged.at.as_millis()).collect()
}

#[test]
fn a_provider_that_does_not_answer_is_left_alone_by_all_together_and_that_is_said() {
    const AGENTS: usize = 8;
    let (_, model) = MODELS[2];
    let seen: Mutex<HashSet<String>> = Mutex::default();
    let world = World::new(model, "", move |asked: &MockRequest| {
        crowd(asked, AGENTS, || {
            // The first call of each is answered with an error.
            if seen.lock().expect("names").insert(asked.first_text()) {
                Answer::refuse(500, "Internal server error")
            } else {
                Answer::text("Back.")
            }
        })
    });
    let done = world.run(&[REQUEST]).exits(0);
    assert!(done.stdout.contains("All are back."), "{done:?}");
    assert!(done.stderr.contains(" calls failed"), "{}", done.stderr);

    let log = world.mock.requests();
    let last =
        log.iter().filter(|logged| logged.status == 500).map(|logged| logged.at).max().expect("failures");
    let next = log.iter().map(|logged| logged.at).filter(|at| *at > last).min().expect("answers");
    assert!(next > last + Duration::from_secs(4), "nobody asked while it was left alone: {:?}", times(&log));
    let journal = world.journal();
    let waits = of_kind(&journal, "agent.provider_wait_started");
    let said =
        |wait: &&&Value| wait["detail"]["reason"].as_str().is_some_and(|why| why.contains(" calls failed"));
    assert!(waits.iter().filter(said).count() >= 2, "all wait together: {waits:#?}");
    assert_eq!(of_kind(&journal, "agent.subagent_failed").len(), 0);
}

/// A root that reads the same long file repeatedly, and exceeds the context in its fifth turn.
fn forgetful(asked: &MockRequest, overflows: bool) -> Answer {
    match asked.turn() {
        1..=4 => MockReply::text("Again.").call("read", &json!({"path": "long.txt"})).into(),
        _ if overflows => Answer::overflow(),
        _ => Answer::text("That was long."),
    }
}

#[test]
fn a_conversation_that_is_too_long_is_cut_and_sent_once_more() {
    for (wire_format, model) in MODELS {
        let world = World::new(model, "", |asked: &MockRequest| forgetful(asked, asked.number == 5));
        world.home.write("long.txt", &"a line of a long file\n".repeat(300));
        let result = world.run(&["--json", "read it"]).exits(0).result();
        assert_eq!(result["text"], "That was long.", "{wire_format:?}");
        let log = world.mock.requests();
        assert_eq!(log.len(), 6, "{wire_format:?}: once more, and not again");
        assert!(log[5].body.len() < log[4].body.len(), "{wire_format:?}: it is shorter");
        let journal = world.journal();
        assert_eq!(of_kind(&journal, "agent.context_trimmed").len(), 1, "{wire_format:?}");
        let replied = of_kind(&journal, "agent.model_replied");
        assert_eq!(replied[4]["detail"]["error"]["code"], "CONTEXT_OVERFLOW", "{wire_format:?}");
    }
}

#[test]
fn a_conversation_that_stays_too_long_is_no_loop() {
    for (wire_format, model) in
        MODELS.into_iter().filter(|(wire_format, _)| *wire_format != WireFormat::Responses)
    {
        // A compacted conversation has fewer turns, so the requests are counted.
        let world = World::new(model, "", |asked: &MockRequest| {
            if asked.number > 4 { Answer::overflow() } else { forgetful(asked, false) }
        });
        world.home.write("long.txt", &"a line of a long file\n".repeat(300));
        let result = world.run(&["--json", "read it"]).exits(1).result();
        assert_eq!(result["status"], "failed", "{wire_format:?}");
        let log = world.mock.requests();
        // Four turns; then whole, with fewer outputs, twice for a summary, and with the summary of the host.
        assert!(log.len() <= 9, "{wire_format:?}: {} requests", log.len());
        let error = result.to_string();
        assert!(error.contains("longer than"), "{wire_format:?}: {error}");
        assert!(error.contains("even the newest turn does not fit"), "{wire_format:?}: {error}");
        assert!(error.contains("the result of `read` (call "), "{wire_format:?}: {error}");
    }
}

/// A root whose own words fill the context, so that no output can be omitted. It is refused in its fifth turn.
fn wordy(asked: &MockRequest) -> Answer {
    match asked.number {
        1..=4 => MockReply::text("many words of a long plan ".repeat(200)).call("list", &json!({})).into(),
        5 => Answer::overflow(),
        6 => Answer::text("Asked to plan. Found nothing to change. Left: the end."),
        _ => Answer::text("That was long."),
    }
}

#[test]
fn a_refused_conversation_is_summarised_and_sent_once_more() {
    for (wire_format, model) in MODELS {
        let world = World::new(model, "", wordy);
        let result = world.run(&["--json", "plan it"]).exits(0).result();
        assert_eq!(result["text"], "That was long.", "{wire_format:?}");
        let log = world.mock.requests();
        assert_eq!(log.len(), 7, "{wire_format:?}: the summary, and once more");
        let [refused, summary, last] =
            [4, 5, 6].map(|at| String::from_utf8_lossy(&log[at].body).into_owned());
        assert!(summary.contains("Write a summary that replaces everything above"), "{wire_format:?}");
        assert!(last.len() < refused.len(), "{wire_format:?}: it is shorter");
        assert!(last.contains("Found nothing to change.") && last.contains("plan it"), "{wire_format:?}");
        let journal = world.journal();
        let replied = of_kind(&journal, "agent.model_replied");
        assert_eq!(replied[4]["detail"]["error"]["code"], "CONTEXT_OVERFLOW", "{wire_format:?}");
        assert_eq!(replied[5]["detail"]["summary"], true, "{wire_format:?}");
        assert_eq!(of_kind(&journal, "agent.context_compacted").len(), 1, "{wire_format:?}");
        assert_eq!(result["turns"], 5, "{wire_format:?}: {result}");
    }
}
