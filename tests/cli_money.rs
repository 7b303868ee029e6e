//! The cost of runs, and the limits on it.

use posse_testkit::mock::{Answer, Mock, MockReply, MockRequest, Tokens};
use serde_json::{Value, json};

use crate::support::{Done, Home, run_of};

/// A model of a provider with a key, whose price is unknown.
const UNPRICED: &str = "openrouter/some/model";
const KEY: (&str, &str) = ("ANTHROPIC_API_KEY", "sk-test-0123456789");

/// The root asks a child, the child answers, the root reports; with a cache.
fn family() -> Mock {
    let tokens = Tokens { cached: 600_000, cache_write: 100_000, ..Tokens::new(1_000_000, 100_000) };
    Mock::start(move |asked: &MockRequest| -> Answer {
        let is_root = asked.tools().contains(&"task");
        let say = if is_root && asked.results().is_empty() {
            let input = json!({"subagent_type": "explore", "description": "look", "prompt": "Look."});
            MockReply::text("I will ask.").call("task", &input)
        } else {
            MockReply::text("Done.")
        };
        say.tokens(tokens).into()
    })
    .expect("a server")
}

fn run(home: &Home, mock: &Mock, model: &str, flags: &[&str]) -> Done {
    let mut command = home
        .command(&[&["run", "--json", "--model", model, "--base-url", &mock.url()], flags, &["go"]].concat());
    command.envs([KEY]);
    Done::of(command)
}

#[test]
fn money_is_told_by_agent_subtree_depth_model_and_day() {
    let home = Home::new();
    let mock = family();
    let result = run(&home, &mock, "claude-sonnet-5", &[]).exits(0).result();
    // 300k at $2, 600k read at $0.20, 100k written at $2.50, 100k out at $10: $1.97 a call.
    assert_eq!(result["usage"]["usd_at_most"], 5.91);
    assert_eq!((&result["turns"], &result["usage"]["cached_tokens"]), (&json!(3), &json!(1_800_000)));

    let run = run_of(&result);
    let stats = home.posse(&["stats", "--json", &run]).exits(0).json();
    assert_eq!(stats["total"]["usage"]["usd_at_most"], 5.91);
    assert_eq!(stats["by_depth"][0]["usage"]["usd_at_most"], 3.94);
    assert_eq!(stats["by_depth"][1]["usage"]["usd_at_most"], 1.97);
    assert_eq!(stats["by_model"][0]["model"], "anthropic/claude-sonnet-5");
    assert_eq!(stats["agents"][0]["own"]["usage"]["usd_at_most"], 3.94);
    assert_eq!(stats["agents"][0]["subtree"]["usage"]["usd_at_most"], 5.91);
    let page = home.posse(&["stats", &run]).exits(0).stdout;
    for part in ["SUBTREE", "DEPTH", "MODEL", "CACHED", "anthropic/claude-sonnet-5", "$5.91", "$1.97"] {
        assert!(page.contains(part), "{part}: {page}");
    }

    let all = home.posse(&["stats", "--json"]).exits(0).json();
    assert_eq!((&all["runs"], &all["total"]["usage"]["usd_at_most"]), (&json!(1), &json!(5.91)));
    assert_eq!(all["by_day"].as_array().map(Vec::len), Some(1));

    let replay = format!("replay/{run}");
    let done = home.posse(&["run", "--model", &replay]).exits(0);
    assert!(done.stderr.contains("nothing spent (recorded: $5.91)"), "{}", done.stderr);
    let done = home.posse(&["run", "--json", "--model", &replay]).exits(0).result();
    assert_eq!(done["replay"], true, "{done}");
    assert_eq!(result["replay"], Value::Null, "only replays say so");
    let again = run_of(&done);
    let all = home.posse(&["stats", "--json"]).exits(0).json();
    assert_eq!((&all["runs"], &all["replays_left_out"]), (&json!(1), &json!(2)));
    assert_eq!(all["total"]["usage"]["usd_at_most"], 5.91, "a replay spends nothing");
    let page = home.posse(&["stats"]).exits(0).stdout;
    assert!(page.starts_with("1 run with 2 agents; not counted: 2 replays, which spent nothing\n"), "{page}");
    let page = home.posse(&["stats", &again]).exits(0).stdout;
    assert!(page.contains("a replay: nothing was spent"), "{page}");
    assert_eq!(home.posse(&["stats", "--json", &again]).exits(0).json()["replay"], true);
    let shown = home.posse(&["show", "--json", &run]).json();
    assert_eq!(shown["agents"][0]["usage"]["cached_tokens"], 1_200_000);
}

#[test]
fn an_unknown_price_is_unknown_in_every_sum_and_a_local_one_is_nothing() {
    let home = Home::new();
    let mock = family();
    let unknown = run(&home, &mock, "openai-compatible/x", &[]).exits(0).result();
    assert_eq!(
        (&unknown["usage"]["usd_at_most"], &unknown["usage"]["usd_known"]),
        (&Value::Null, &json!(0.0))
    );
    let local = run(&home, &mock, "ollama/x", &[]).exits(0).result();
    assert_eq!(local["usage"]["usd_at_most"], 0.0);
    let all = home.posse(&["stats", "--json"]).exits(0).json();
    assert_eq!(all["total"]["usage"]["usd_at_most"], Value::Null);
    let page = home.posse(&["stats"]).exits(0).stdout;
    assert!(page.contains("unknown") && page.contains("$0.00"), "{page}");
    home.write_settings("prices:\n  openai-compatible/x: {input: 1, output: 2, cache_read: 0.5}\n");
    let known = run(&home, &mock, "openai-compatible/x", &["--max-usd", "100"]).exits(0).result();
    assert_eq!(
        known["usage"]["usd_at_most"], 2.7,
        "400k at $1, 600k read at $0.50, 100k out at $2, three times"
    );
}

#[test]
fn a_limit_of_money_needs_the_price_of_what_is_sure_to_run() {
    let home = Home::new();
    let mock = family();
    let refused = |flags: &[&str]| {
        let mut command = home.command(&[&["run", "--base-url", &mock.url()], flags].concat());
        command.envs([KEY]);
        Done::of(command).exits(2).stderr
    };
    let error = refused(&["--model", "openai-compatible/x", "--max-usd", "1", "go"]);
    assert!(error.starts_with("error: --max-usd: the price of `openai-compatible/x` is unknown"), "{error}");
    assert!(error.contains("prices: {openai-compatible/x: {input: 3, output: 15}}"), "{error}");

    home.write_settings("providers:\n  openrouter: {key: k}\nagent: {max_usd: 5}\n");
    let agents = json!({"cheap": {"description": "d", "prompt": "p", "model": UNPRICED}}).to_string();
    let unknown = format!("settings.yaml:3: the price of `{UNPRICED}` is unknown");
    let root = ["--model", "claude-sonnet-5", "--agents", &agents];
    let error = refused(&[&root[..], &["--agent", "cheap", "go"]].concat());
    assert!(error.contains(&unknown), "{error}");
    for step in [json!({"agent": "cheap"}), json!({"agent": "explore", "model": UNPRICED})] {
        let mut plan = json!({"goal": "g", "steps": [{"title": "t", "description": "d"}]});
        plan["steps"][0].as_object_mut().expect("a step").extend(step.as_object().expect("fields").clone());
        home.write("plan.yaml", &plan.to_string());
        let error = refused(&[&root[..], &["--plan", "plan.yaml"]].concat());
        assert!(error.contains(&unknown), "{error}");
    }
    assert!(mock.requests().is_empty(), "nothing was spent");
}

#[test]
fn a_sub_agent_without_a_price_is_refused_where_money_is_limited_and_spoils_no_run_that_does_not_use_it() {
    let mock = Mock::start(|asked: &MockRequest| -> Answer {
        let wants = |part: &str| asked.first_text().contains(part);
        let task = json!({"subagent_type": "cheap", "description": "look", "prompt": "Look."});
        match asked.results().first() {
            Some(result) => Answer::text(format!("Told: {}", result.text)),
            None if wants("by name") => {
                let mut task = task;
                task["subagent_type"] = "explore".into();
                task["model"] = UNPRICED.into();
                MockReply::text("I ask.").call("task", &task).into()
            }
            None if wants("cheap") => MockReply::text("I ask.").call("task", &task).into(),
            None => Answer::text("Done."),
        }
    })
    .expect("a server");
    let home = Home::new();
    home.write_settings("providers:\n  openrouter: {key: k}\n");
    let agent = format!("---\nname: cheap\ndescription: looks\nmodel: {UNPRICED}\n---\nLook.\n");
    home.write_own(".config/posse/agents/cheap.md", &agent);
    let asking = |request: &str| {
        let url = mock.url();
        let run =
            ["run", "--json", "--model", "claude-sonnet-5", "--base-url", &url, "--max-usd", "5", request];
        let mut command = home.command(&run);
        command.envs([KEY]);
        Done::of(command).exits(0)
    };
    let unused = asking("go");
    assert_eq!(unused.result()["text"], "Done.", "it is there, and nobody uses it");
    let said = format!("so these cannot be used with a limit in dollars: `cheap` ({UNPRICED})\n");
    assert!(unused.stderr.contains(&said), "{}", unused.stderr);
    for request in ["use the cheap one", "by name"] {
        let done = asking(request);
        let result = done.result();
        assert_eq!(result["agents"], 1, "{result}");
        let told = result["text"].as_str().expect("a text");
        for part in [
            format!("the price of `{UNPRICED}` is unknown").as_str(),
            &format!("prices: {{{UNPRICED}: {{input: 3, output: 15}}}}"),
        ] {
            assert!(told.contains(part), "{part}: {told}");
        }
        let refused = |event: &&Value| event["kind"] == "agent.subagent_refused";
        assert_eq!(done.json_lines().iter().filter(refused).count(), 1);
    }
    let is_asked = |body: &Value| UNPRICED.ends_with(body["model"].as_str().expect("a model"));
    assert!(!mock.requests().iter().any(|logged| is_asked(&logged.json())), "nothing unpriced was called");
}

#[test]
fn a_limit_of_a_project_that_cannot_be_held_stops_nothing_until_it_is_trusted() {
    let home = Home::new();
    home.write(".posse/settings.yaml", "agent: {max_usd: 5}\n");
    home.write("script.yaml", "facts: {price: unknown}\nrules: [{reply: {text: done}}]\n");
    let run = |flags: &[&str]| {
        home.posse(&[&["run", "--json", "--model", "scripted/script.yaml"], flags, &["go"]].concat())
    };
    let done = run(&[]).exits(0);
    let said = "settings.yaml:1: the price of `scripted/";
    assert!(done.stderr.contains(said) && done.stderr.contains("is not enforced"), "{}", done.stderr);
    // A limit of the user applies, and so does one in a trusted file.
    home.write_settings("agent: {max_usd: 9}\n");
    let own = run(&[]).exits(2).stderr;
    assert!(own.contains("posse/settings.yaml:1: the price") && own.contains("--max-usd none"), "{own}");
    assert!(!own.contains("prices:"), "a script can have none: {own}");
    home.write_settings("");
    home.posse(&["trust", "--yes"]).exits(0);
    let trusted = run(&[]).exits(2).stderr;
    assert!(trusted.contains("--max-usd none"), "{trusted}");
    run(&["--max-usd", "none"]).exits(0);
    run(&["--max-usd", "1"]).exits(2);
}

#[test]
fn a_script_costs_nothing_and_no_price_of_it_is_unknown() {
    let home = Home::new();
    home.write("script.yaml", "- reply: {text: done}\n");
    let done = home.posse(&["run", "--max-usd", "1", "--model", "scripted/script.yaml", "go"]).exits(0);
    assert!(
        done.stderr.contains(" ms, $0.00, 1 agent") || done.stderr.contains(" s, $0.00, 1 agent"),
        "{done:?}"
    );
    for args in [&["ps"][..], &["show"], &["stats"], &["trace"]] {
        let page = home.posse(args).exits(0).stdout;
        assert!(page.contains("$0.00") && !page.contains("unknown"), "{args:?}: {page}");
    }
    let show = home.posse(&["show", "--json"]).exits(0).json();
    assert_eq!((&show["usage"]["usd_at_most"], &show["usage"]["unpriced_tokens"]), (&json!(0.0), &json!(0)));
    // Its name in a list is that of its file, and its path is in the object.
    let path = home.project().canonicalize().expect("a path").join("script.yaml");
    assert_eq!(show["model"], format!("scripted/{}", path.display()));
    for args in [&["stats"][..], &["show"], &["trace"], &["logs"]] {
        let page = home.posse(args).exits(0).stdout;
        assert!(page.contains("scripted/script.yaml") && !page.contains("scripted//"), "{args:?}: {page}");
    }
}

#[test]
fn a_limit_of_money_works_with_a_model_that_posse_chose() {
    for (provider, variable) in [("openrouter", "OPENROUTER_API_KEY"), ("groq", "GROQ_API_KEY")] {
        let home = Home::new();
        let mock = family();
        home.write_settings(&format!("providers:\n  {provider}: {{base_url: '{}'}}\n", mock.url()));
        let mut command = home.command(&["run", "--json", "--max-usd", "100", "go"]);
        command.env(variable, KEY.1);
        let result = Done::of(command).exits(0).result();
        assert!(result["usage"]["usd_at_most"].as_f64().is_some_and(|usd| usd > 0.0), "{provider}: {result}");
    }
}

#[test]
fn a_run_ends_with_its_money_and_with_its_time() {
    let home = Home::new();
    let mock = family();
    let little = run(&home, &mock, "claude-sonnet-5", &["--max-usd", "0.000001"]).exits(2);
    assert!(little.stderr.contains("the first call and a report may cost up to $"), "{}", little.stderr);
    let late =
        Mock::start(|_: &MockRequest| Answer::text("late").latency(std::time::Duration::from_hours(1)))
            .expect("a server");
    let timed = run(&home, &late, "claude-sonnet-5", &["--max-time", "1s"]).exits(5).result();
    assert!(timed["text"].as_str().is_some_and(|text| text.contains("wall time")), "{timed}");
}
