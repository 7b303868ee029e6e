//! Scripted models: which rule answers, how often, and errors of scripts.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Mutex;

use futures::FutureExt;
use posse_agent::conversation::{CallResult, Message};
use posse_domain::budget::{Price, Usage};
use posse_domain::code::Code;
use posse_domain::event::Purpose;
use posse_engine::ports::StreamPart;
use serde_json::json;

use super::*;

#[derive(Default)]
struct Recorder(Mutex<Vec<StreamPart>>);

impl StreamSink for Recorder {
    fn part(&self, part: StreamPart) {
        self.0.lock().expect("no panic").push(part);
    }
}

fn request() -> ModelRequest {
    ModelRequest {
        agent: "k3f9ab2c.2.1".parse().expect("id"),
        definition: "explore".into(),
        depth: 2,
        attempt: 1,
        turn: 1,
        purpose: Purpose::Work,
        system: "You look.".into(),
        tools: Arc::new([]),
        messages: vec![user("find the parser")],
        max_output_tokens: 1000,
        temperature: None,
        top_p: None,
        tags: Arc::default(),
        call: 1,
        hash: posse_domain::hash::Hash::ZERO,
    }
}

fn user(text: &str) -> Arc<Message> {
    Arc::new(Message::User(text.into()))
}

fn results(texts: &[&str]) -> Arc<Message> {
    let result = |text: &&str| CallResult {
        call_id: "call_1_1".into(),
        tool: "read".into(),
        ok: true,
        text: (*text).into(),
        images: Vec::new(),
    };
    Arc::new(Message::Results(texts.iter().map(result).collect()))
}

fn tags(counts: &[(&str, u32)]) -> Arc<BTreeMap<String, u32>> {
    Arc::new(counts.iter().map(|(tag, count)| ((*tag).to_owned(), *count)).collect())
}

fn script(yaml: &str) -> ScriptedModel {
    ScriptedModel::from_yaml(yaml, "plan.yaml").expect(yaml)
}

/// Calls a model without latency, which answers at the first poll and needs no runtime.
fn ask(model: &dyn Model, request: ModelRequest) -> Result<ModelReply, ModelFailure> {
    model.call(request, Arc::new(Recorder::default())).now_or_never().expect("an answer without latency")
}

fn text(model: &dyn Model, request: ModelRequest) -> String {
    ask(model, request).expect("a reply").reply.text.to_shared().to_string()
}

/// Whether a script whose only rule has this `when` answers.
fn matches(when: &str, request: ModelRequest) -> bool {
    let model = script(&format!("- when: {when}\n  reply: {{text: yes}}\n"));
    ask(&model, request).is_ok()
}

#[test]
fn each_condition_is_looked_at() {
    let in_results = ModelRequest { messages: vec![results(&["nothing", "a panic here"])], ..request() };
    let root = ModelRequest { agent: "k3f9ab2c".parse().expect("id"), depth: 0, ..request() };
    let first = ModelRequest { agent: "k3f9ab2c.1".parse().expect("id"), depth: 1, ..request() };
    let table = [
        ("{}", request(), true),
        ("", request(), true),
        ("{definition: explore}", request(), true),
        ("{definition: Explore}", request(), true),
        ("{definition: coder}", request(), false),
        ("{depth: 2}", request(), true),
        ("{depth: 0}", request(), false),
        ("{turn: 1}", request(), true),
        ("{turn: 2}", request(), false),
        ("{agent: 2.1}", request(), true),
        ("{agent: 2.10}", request(), false),
        ("{agent: 2}", request(), false),
        ("{agent: '*.1'}", request(), true),
        ("{agent: '*.1'}", first.clone(), true),
        ("{agent: '2.*'}", request(), true),
        ("{agent: '[3-9].1'}", request(), false),
        ("{agent: k3f9ab2c.2.1}", request(), true),
        ("{agent: 'k3f*'}", root.clone(), true),
        ("{agent: 0}", root.clone(), true),
        ("{agent: 0}", first.clone(), false),
        ("{agent: 1}", first, true),
        ("{contains: the parser}", request(), true),
        ("{contains: the lexer}", request(), false),
        ("{contains: panic}", in_results.clone(), true),
        ("{contains: the parser}", in_results, false),
        ("{contains: x}", ModelRequest { messages: Vec::new(), ..request() }, false),
        ("{definition: explore, turn: 1, contains: find}", request(), true),
        ("{definition: explore, turn: 2, contains: find}", request(), false),
    ];
    for (when, request, expected) in table {
        assert_eq!(matches(when, request), expected, "{when}");
    }
}

fn said(text: &str) -> Arc<Message> {
    Arc::new(Message::Assistant { text: text.into(), calls: Arc::new([]), raw: None })
}

#[test]
fn the_newest_message_is_all_since_the_model_last_spoke() {
    let contains = |messages| matches("{contains: boom}", ModelRequest { messages, ..request() });
    assert!(!contains(vec![user("boom"), said("boom"), user("fine")]));
    assert!(contains(vec![user("boom"), user("This is a new attempt.")]), "a note of the host came after it");
    assert!(contains(vec![said("x"), results(&["boom"]), user("This is your last turn.")]));
}

#[test]
fn the_first_rule_that_matches_answers() {
    let model = script(
        "- {when: {turn: 9}, reply: {text: a}}\n\
         - {when: {turn: 1}, reply: {text: b}}\n\
         - {reply: {text: c}}\n",
    );
    let reply = ask(&model, request()).expect("a reply");
    assert_eq!(&*reply.reply.text.to_shared(), "b");
    assert_eq!(reply.tag.as_deref(), Some("rule:2"));
    assert_eq!(text(&model, ModelRequest { turn: 2, ..request() }), "c");
}

#[test]
fn times_are_counted_from_the_tags() {
    let model = script("- {reply: {text: a}, times: 2}\n- {reply: {text: b}}\n");
    for (used, expected) in [(0, "a"), (1, "a"), (2, "b"), (3, "b")] {
        let tags = tags(&[("rule:1", used), ("rule:2", 7)]);
        assert_eq!(text(&model, ModelRequest { tags, ..request() }), expected, "{used}");
    }
}

#[test]
fn an_error_rule_fails_with_its_status_and_tag() {
    let model = script("- error: {status: 529, message: overloaded}\n  times: 1\n- {reply: {text: ok}}\n");
    let failure = ask(&model, request()).expect_err("a failure");
    assert_eq!(failure.error.code, Code::ModelError);
    assert_eq!((failure.error.status, failure.error.message.as_str()), (Some(529), "overloaded"));
    assert_eq!((failure.tag.as_deref(), failure.usage), (Some("rule:1"), Some(Usage::ZERO)));
    assert_eq!(text(&model, ModelRequest { tags: tags(&[("rule:1", 1)]), ..request() }), "ok");
}

#[test]
fn no_match_shows_results_and_notes() {
    let model = script("- {when: {turn: 7}, reply: {text: a}}\n");
    let newest = |messages| {
        let failure = ask(&model, ModelRequest { messages, ..request() }).expect_err("no match");
        failure.error.message.lines().nth(1).expect("a line").to_owned()
    };
    assert_eq!(newest(vec![]), "newest message: none");
    assert_eq!(newest(vec![results(&["a", "b"]), user("c")]), r#"newest message: read "a", read "b", "c""#);
    let many = newest(vec![results(&["a"; 9]), user("c")]);
    assert_eq!(many, r#"newest message: read "a", read "a", read "a", read "a", and 6 more"#);
}

#[test]
fn no_match_shows_the_newest_message_and_the_rules_tried() {
    let yaml = "- when: {definition: coder}\n  reply: {text: a}\n\
                - {when: {turn: 7}, reply: {text: a}}\n- {when: {depth: 0}, reply: {text: a}}\n\
                - {when: {agent: 9}, reply: {text: a}}\n- {when: {contains: \"a\\nb\"}, reply: {text: a}}\n\
                - {reply: {text: a}, times: 3}\n";
    let tags = tags(&[("rule:6", 3)]);
    let failure = ask(&script(yaml), ModelRequest { tags, ..request() }).expect_err("no match");
    assert_eq!((failure.error.code, failure.error.status, failure.tag), (Code::ModelError, None, None));
    assert_eq!(
        failure.error.message,
        "no rule of plan.yaml answers agent 2.1 (definition explore, depth 2, turn 1)\n\
         newest message: \"find the parser\"\n\
         rule 1 (line 1) requires definition coder\n\
         rule 2 (line 3) requires turn 7\n\
         rule 3 (line 4) requires depth 0\n\
         rule 4 (line 5) requires agent 9\n\
         rule 5 (line 6) requires \"a\\nb\" in the newest message\n\
         rule 6 (line 7) has answered this agent 3 of 3 times"
    );
}

#[test]
fn the_text_of_no_match_is_bounded() {
    let rules = (0..500).map(|_| {
        let when = RuleConditions::any().contains("x".repeat(10_000));
        Rule::new(when, ScriptedAnswer::text(""))
    });
    let model = ScriptedModel::from_rules(rules);
    let long = "ü".repeat(1_000_000);
    for message in [user(&long), results(&[long.as_str(); 50])] {
        let failure =
            ask(&model, ModelRequest { messages: vec![message], ..request() }).expect_err("no match");
        assert!(failure.error.message.len() < 4_096, "{}", failure.error.message.len());
        assert!(failure.error.message.ends_with("and 480 more rules"));
    }
}

#[test]
fn arguments_given_as_text_are_what_a_model_wrote() {
    let model = script(
        "- reply:\n    tool_calls:\n\
         \x20     - {name: read, input: '{\"path\": \"a\"}'}\n\
         \x20     - {name: read, input: '{\"path\": '}\n\
         \x20     - {name: read, input: {path: on}}\n\
         \x20     - {name: list}\n",
    );
    let calls = ask(&model, request()).expect("a reply").reply.calls;
    let inputs: Vec<_> = calls.into_iter().map(|call| call.input).collect();
    assert_eq!(inputs, [json!({"path": "a"}), json!("{\"path\": "), json!({"path": "on"}), json!({})]);
}

#[test]
fn call_ids_follow_from_the_turn_unless_they_are_given() {
    let model =
        script("- reply: {tool_calls: [{name: a}, {name: b, id: mine}, {name: c}, {name: d, id: mine}]}\n");
    let ids = |request| {
        let calls = ask(&model, request).expect("a reply").reply.calls;
        calls.into_iter().map(|call| call.id).collect::<Vec<_>>()
    };
    assert_eq!(ids(request()), ["call_1_1", "mine", "call_1_3", "mine"]);
    assert_eq!(ids(ModelRequest { turn: 4, ..request() }), ["call_4_1", "mine", "call_4_3", "mine"]);
}

#[test]
fn a_report_turn_gets_the_calls_too() {
    let model = script("- reply: {text: late, tool_calls: [{name: read}]}\n");
    let reply = ask(&model, ModelRequest { purpose: Purpose::Report, ..request() }).expect("a reply");
    assert_eq!(reply.reply.calls.len(), 1);
}

#[test]
fn usage_is_what_is_said_or_an_estimate() {
    let said =
        script("- reply: {text: a, usage: {input_tokens: 1200, output_tokens: 80, cached_tokens: 200}}\n");
    let usage = Usage {
        input_tokens: 1200,
        output_tokens: 80,
        cached_tokens: 200,
        micro_usd: Some(0),
        cache_write_tokens: 0,
        reasoning_tokens: 0,
        ..Usage::ZERO
    };
    assert_eq!(ask(&said, request()).expect("a reply").usage, usage);
    // 9 characters of system prompt and 15 of conversation; 8 of text and 4 + 2 of a call without arguments.
    let estimated = script("- reply: {text: abcdefgh, tool_calls: [{name: read}]}\n");
    let usage = Usage {
        input_tokens: 6,
        output_tokens: 4,
        cached_tokens: 0,
        micro_usd: Some(0),
        cache_write_tokens: 0,
        reasoning_tokens: 0,
        ..Usage::ZERO
    };
    assert_eq!(ask(&estimated, request()).expect("a reply").usage, usage);
}

#[test]
fn a_script_may_state_facts_and_a_price() {
    let model = script(
        "facts:\n  context_tokens: 1000\n  price: {input: 3, output: 15.5}\nrules:\n\
         - reply: {text: a, usage: {input_tokens: 1000, output_tokens: 100, cached_tokens: 500}}\n",
    );
    let facts = model.facts();
    assert_eq!((facts.context_tokens, facts.max_output_tokens), (1000, 8_192));
    let price = facts.price.expect("a price");
    assert_eq!((price.input, price.output, price.cached), (3_000_000, 15_500_000, 3_000_000));
    assert_eq!(ask(&model, request()).expect("a reply").usage.micro_usd, Some(3_000 + 1_550));
    let plain = script("- reply: {}\n").facts();
    // No provider is paid for a script.
    let free = Some(Price::plain(0, 0));
    assert_eq!((plain.context_tokens, plain.max_output_tokens, plain.price), (200_000, 8_192, free));
    let unknown = script("facts: {price: unknown}\nrules: [{reply: {}}]\n");
    assert_eq!(unknown.facts().price, None);
}

#[test]
fn a_request_longer_than_the_stated_context_is_refused() {
    let model = script("facts: {context_tokens: 50}\nrules: [{reply: {text: a}}]\n");
    assert!(ask(&model, request()).is_ok());
    let long = ModelRequest { system: "x".repeat(400).into(), ..request() };
    let failure = ask(&model, long.clone()).expect_err("too long");
    assert_eq!((failure.error.code, failure.retry), (Code::ContextOverflow, None));
    assert!(failure.error.message.ends_with("tokens > 50 maximum"), "{}", failure.error.message);
    assert!(ask(&script("- reply: {text: a}\n"), long).is_ok(), "no length is stated");
}

#[test]
fn a_rule_may_be_for_one_purpose() {
    let model = script("- when: {purpose: summary}\n  reply: {text: short}\n- reply: {text: long}\n");
    let text = |purpose| {
        let reply = ask(&model, ModelRequest { purpose, ..request() }).expect("a reply").reply;
        reply.text.to_shared().to_string()
    };
    assert_eq!(text(Purpose::Summary), "short");
    assert_eq!((text(Purpose::Work), text(Purpose::Report)), ("long".to_owned(), "long".to_owned()));
    let none = script("- when: {purpose: report}\n  reply: {text: x}\n");
    let failure = ask(&none, request()).expect_err("no rule");
    assert!(failure.error.message.contains("requires the report turn"), "{}", failure.error.message);
}

#[tokio::test]
async fn an_answer_with_latency_is_silent_until_it_comes() {
    let model = script("- reply: {text: slow, tool_calls: [{name: read}]}\n  latency_ms: 20\n");
    let sink = Arc::new(Recorder::default());
    let mut call = model.call(request(), sink.clone());
    assert!((&mut call).now_or_never().is_none());
    assert!(sink.0.lock().expect("no panic").is_empty());
    assert_eq!(&*call.await.expect("a reply").reply.text.to_shared(), "slow");
    let parts = sink.0.lock().expect("no panic").clone();
    assert_eq!(parts, [StreamPart::Text("slow".into()), StreamPart::Tool("read".into())]);
}

#[test]
fn a_closure_can_answer() {
    let model = FnModel::new(|request| match request.turn {
        1 => ScriptedAnswer::text("first").call("read", json!({"path": "a"})).tag("read"),
        _ => ScriptedAnswer::error(None, "no more"),
    });
    let reply = ask(&model, request()).expect("a reply");
    assert_eq!((reply.reply.calls[0].id.as_str(), reply.tag.as_deref()), ("call_1_1", Some("read")));
    assert!(ask(&model, ModelRequest { turn: 2, ..request() }).is_err());
}

#[test]
fn an_answer_made_in_code_is_like_one_from_a_file() {
    let answer = ScriptedAnswer::text("x").calls([ScriptedCall::raw("read", "{".to_owned())]);
    let usage = Usage {
        input_tokens: 1,
        output_tokens: 2,
        cached_tokens: 0,
        micro_usd: Some(3),
        cache_write_tokens: 0,
        reasoning_tokens: 0,
        ..Usage::ZERO
    };
    let rule = Rule::new(RuleConditions::any().agent("2.*").expect("glob"), answer.usage(usage)).times(1);
    let model =
        ScriptedModel::from_rules([rule]).with_facts(ModelFacts { context_tokens: 5, ..DEFAULT_FACTS });
    assert_eq!(model.facts().context_tokens, 5);
    let reply = ask(&model, request()).expect("a reply");
    assert_eq!((reply.usage, &reply.reply.calls[0].input), (usage, &json!("{")));
    assert!(RuleConditions::any().agent("[").is_err());
}

#[test]
fn a_mistake_is_named_with_file_line_and_field() {
    for (yaml, error) in [
        ("", "plan.yaml: the script has no rules"),
        ("# nothing\n", "plan.yaml: the script has no rules"),
        ("[]", "plan.yaml: the script has no rules"),
        ("rules: []", "plan.yaml: the script has no rules"),
        (
            "just text",
            "plan.yaml: found string \"just text\", expected a list of rules, or a map with `rules`",
        ),
        (
            "\n- reply: {text: a}\n  repply: {}\n",
            "plan.yaml:3: unknown field \"repply\", expected one of `when`, `reply`, ",
        ),
        ("- reply: {txt: a}\n", "plan.yaml:1: unknown field \"txt\", expected one of `text`, "),
        (
            "- when: {role: a}\n  reply: {}\n",
            "plan.yaml:1: unknown field \"role\", expected one of `definition`, ",
        ),
        ("- reply:\n    tool_calls:\n      - {input: {}}\n", "plan.yaml:3: the field `name` is missing"),
        (
            "- reply:\n    tool_calls:\n      - {name: a, args: {}}\n",
            "plan.yaml:3: unknown field \"args\", expected ",
        ),
        ("- error: {status: 500}\n", "plan.yaml:1: the field `message` is missing"),
        (
            "- error: {message: x, status: 99999}\n",
            "plan.yaml:1: status: expected a whole number from 0 to 65535",
        ),
        ("- reply: {text: a}\n  reply: {text: b}\n", "plan.yaml:2: the field `reply` is written twice"),
        (
            "- reply: {}\n- reply: {}\n  error: {message: x}\n",
            "plan.yaml:2: the rule has both `reply` and `error`",
        ),
        ("- reply: {}\n\n- when: {turn: 1}\n", "plan.yaml:3: the rule has neither `reply` nor `error`"),
        ("- reply: {}\n  times: 0\n", "plan.yaml:2: times: must be at least 1"),
        ("- reply: {}\n  times: 1.5\n", "plan.yaml:2: times: expected a whole number from 0 to "),
        ("- reply: {}\n  latency_ms: -5\n", "plan.yaml:2: latency_ms: expected a whole number of at least 0"),
        ("- when: {turn: 0}\n  reply: {}\n", "plan.yaml:1: turn: turns are counted from 1"),
        ("- when:\n    agent: '['\n  reply: {}\n", "plan.yaml:2: agent: `[` is not a glob: "),
        ("- when: {agent: ''}\n  reply: {}\n", "plan.yaml:1: agent: `` is not a glob: "),
        ("- reply: hello\n", "plan.yaml:1: reply: expected a map"),
        ("- reply: {text: ~}\n", "plan.yaml:1: text: expected text, found nothing"),
        ("- reply: {usage: {input_tokens: 1}}\n", "plan.yaml:1: the field `output_tokens` is missing"),
        ("- reply: {text: \"open\n", "plan.yaml:1: "),
        ("- reply: {text: a\n- reply: {}\n", "plan.yaml:"),
        ("- reply: {}\n---\n- reply: {}\n", "plan.yaml:3: a script is one YAML document"),
        (
            "facts: {tokens: 5}\nrules:\n- reply: {}\n",
            "plan.yaml:1: unknown field \"tokens\", expected one of ",
        ),
        ("facts: {price: {input: -1, output: 1}}\nrules:\n- reply: {}\n", "plan.yaml:1: -1 is not an amount"),
        (
            "facts: {price: free}\nrules:\n- reply: {}\n",
            "plan.yaml:1: found string \"free\", expected a map with `input` and `output`, or `unknown`",
        ),
        ("facts: {price: {input: 1}}\nrules:\n- reply: {}\n", "plan.yaml:1: the field `output` is missing"),
        ("- reply: {tool_calls: [{name: x, input: {a: .nan}}]}\n", "plan.yaml:1: a: "),
        ("- &a [*a]\n", "plan.yaml:1: "),
        ("- reply: *nobody\n", "plan.yaml:1: "),
        ("facts: {}\n", "plan.yaml:1: the field `rules` is missing"),
        (
            "rules:\n- reply: {}\nfoo: 1\n",
            "plan.yaml:3: unknown field \"foo\", expected one of `facts`, `rules`",
        ),
    ] {
        let found = ScriptedModel::from_yaml(yaml, "plan.yaml").expect_err(yaml).to_string();
        assert!(found.starts_with(error), "{yaml}\nfound    {found}\nexpected {error}");
        assert!(!found.contains('\n'), "{found}");
    }
}

#[test]
fn an_alias_may_save_typing_but_not_grow_without_bound() {
    let model = script("- reply: &same {text: a}\n  when: {turn: 1}\n- reply: *same\n");
    assert_eq!(text(&model, ModelRequest { turn: 5, ..request() }), "a");
    let mut bomb =
        "- reply:\n    tool_calls:\n      - name: x\n        input:\n          a0: &a0 [x, x, x, x]\n"
            .to_owned();
    for level in 1..20 {
        let below = vec![format!("*a{}", level - 1); 10].join(", ");
        let _ = writeln!(bomb, "          a{level}: &a{level} [{below}]");
    }
    let error = ScriptedModel::from_yaml(&bomb, "bomb.yaml").expect_err("refused").to_string();
    assert!(error.ends_with("the aliases of the script stand for more than can be read safely"), "{error}");
    let deep =
        format!("- reply: {{tool_calls: [{{name: x, input: {}{}}}]}}", "[".repeat(100), "]".repeat(100));
    let error = ScriptedModel::from_yaml(&deep, "deep.yaml").expect_err("refused").to_string();
    assert_eq!(error, "deep.yaml:1: the script is nested too deeply to be read safely");
}

#[test]
fn a_wide_script_and_a_long_argument_are_read() {
    let call =
        r#"{name: task, input: {subagent_type: explore, description: "find it", prompt: "look there"}}"#;
    let lines = format!("      - {call}\n").repeat(10_000);
    let model = script(&format!("- reply:\n    tool_calls:\n{lines}"));
    let calls = ask(&model, request()).expect("a reply").reply.calls;
    assert_eq!((calls.len(), calls[9_999].id.as_str()), (10_000, "call_1_10000"));

    let long = "x".repeat(1 << 20);
    for yaml in [
        format!("- reply: {{tool_calls: [{{name: write, input: {{content: \"{long}\"}}}}]}}\n"),
        format!("- reply:\n    tool_calls:\n      - name: write\n        input: |\n          {long}\n"),
        format!(
            r#"[{{"reply": {{"tool_calls": [{{"name": "write", "input": {{"content": "{long}"}}}}]}}}}]"#
        ),
    ] {
        let reply = ask(&script(&yaml), request()).expect("a reply");
        assert!(reply.usage.output_tokens >= (1 << 20) / 4);
    }
}
