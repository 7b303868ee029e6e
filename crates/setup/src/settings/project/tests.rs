//! What a project's settings change, before and after they are trusted.

use posse::Rules;

use super::*;
use crate::limit::Limit;
use crate::settings::tests::EVERYTHING;
use crate::settings::{keys, variables};

const USER: &str = "user.yaml";
const PROJECT: &str = "/p/.posse/settings.yaml";

fn parsed(text: &str, path: &str) -> Settings {
    file::parse(text, Path::new(path)).map_err(|error| error.text()).expect("settings")
}

fn layered(user: &str, project: &str, trusted: bool) -> Settings {
    Settings::layered(Settings::default(), parsed(user, USER), &[(&parsed(project, PROJECT), trusted)])
}

fn set(set: &[(&str, &str)]) -> Settings {
    let owned: Vec<_> = set.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    variables::read(&owned).map_err(|error| error.text()).expect("settings")
}

/// The effective value of a key, and its origin.
fn counting(settings: &Settings, key: &str) -> Option<(String, String)> {
    let entry = settings.entries().into_iter().find(|entry| entry.key == key)?;
    let from = match entry.origin {
        Origin::File { path, .. } if path == Path::new(PROJECT) => "project".to_owned(),
        Origin::File { .. } => "user".to_owned(),
        other => other.to_string(),
    };
    Some((entry.value.to_string(), from))
}

/// The expected value and origin.
fn value_of(value: &str, from: &str) -> (String, String) {
    (value.to_owned(), from.to_owned())
}

#[test]
fn a_smaller_limit_counts_at_once_and_a_larger_one_once_trusted() {
    for (key, default, smaller, larger) in [
        ("max_turns", None, "39", "41"),
        ("max_agents", None, "199", "201"),
        ("max_tokens", Some("10"), "9", "none"),
        ("max_usd", Some("5"), "4.5", "6"),
        ("max_time", Some("30m"), "20m", "2h"),
        ("idle_timeout", None, "60s", "none"),
        ("parallel", None, "31", "33"),
    ] {
        let user = default.map_or_else(String::new, |value| format!("agent: {{{key}: {value}}}"));
        let project = |value: &str| format!("agent: {{{key}: {value}}}");
        let key = format!("agent.{key}");
        let from = |value: &str, trusted| {
            counting(&layered(&user, &project(value), trusted), &key).map(|(_, from)| from)
        };
        let own = default.map(|_| "user".to_owned());
        assert_eq!(from(smaller, false).as_deref(), Some("project"), "{key} {smaller}");
        assert_eq!(from(larger, false), own, "{key} {larger} is not trusted");
        assert_eq!(from(larger, true).as_deref(), Some("project"), "{key} {larger} is trusted");
    }
}

#[test]
fn a_project_only_ever_lowers_the_depth() {
    for trusted in [false, true] {
        let depth = |user: &str, project: &str| {
            let settings = layered(user, project, trusted);
            (settings.max_depth.map(|it| it.value), settings.max_orchestration_depth.map(|it| it.value))
        };
        assert_eq!(depth("", "agent: {max_depth: 1}"), (Some(1), None));
        assert_eq!(depth("", "agent: {max_depth: 3}"), (None, None), "more than the default");
        assert_eq!(depth("agent: {max_depth: 1}", "agent: {max_depth: 2}"), (Some(1), None));
        assert_eq!(depth("", "agent: {max_orchestration_depth: 1}"), (None, Some(1)));
        assert_eq!(
            depth("", "agent: {max_orchestration_depth: 3}"),
            (None, None),
            "alone, it would raise the depth to 3"
        );
        assert_eq!(depth("agent: {max_orchestration_depth: 5}", "agent: {max_depth: 4}"), (Some(4), Some(5)));
        assert_eq!(
            depth("agent: {max_orchestration_depth: 2}", "agent: {max_orchestration_depth: 9}"),
            (None, Some(2))
        );
        let variables = set(&[("POSSE_AGENT__MAX_DEPTH", "2")]);
        let project = parsed("agent: {max_depth: 1}", PROJECT);
        let settings = Settings::layered(variables, Settings::default(), &[(&project, trusted)]);
        assert_eq!(settings.max_depth.map(|it| it.value), Some(1), "a variable is lowered too");
    }
}

#[test]
fn words_that_widen_wait_for_trust_and_words_that_narrow_do_not() {
    let wide = "on_ask: escalate\nagent: {may_share_history: true, include_sub_agent_events: true}\n";
    let narrow = "on_ask: deny\nagent: {may_share_history: false, include_sub_agent_events: false}\n";
    for key in ["on_ask", "agent.may_share_history", "agent.include_sub_agent_events"] {
        assert_eq!(counting(&layered("", wide, false), key), None, "{key}");
        assert_eq!(counting(&layered("", wide, true), key).expect("set").1, "project", "{key}");
        let narrowed = counting(&layered(wide, narrow, false), key).expect("set");
        assert!(narrowed.1 == "project" && ["\"deny\"", "false"].contains(&narrowed.0.as_str()), "{key}");
    }
}

#[test]
fn before_trust_a_project_that_says_everything_changes_nothing_but_its_own_layer_of_rules() {
    let all = parsed(EVERYTHING, PROJECT);
    let settings = layered("", EVERYTHING, false);
    let unchanged = Settings { project_rules: all.rules.iter().cloned().collect(), ..Settings::default() };
    // Unlimited is the default of these three.
    let unlimited =
        Settings { max_tokens: all.max_tokens, max_usd: all.max_usd, max_time: all.max_time, ..unchanged };
    assert_eq!(settings, unlimited);
    assert_eq!(settings.rules(), Rules::default());
}

#[test]
fn after_trust_it_still_does_not_say_where_keys_and_data_go() {
    let settings = layered("", EVERYTHING, true);
    let entries = settings.entries();
    for keys::Key { name: key, in_project: class, .. } in keys::KEYS {
        let key = *key;
        let counts = entries.iter().any(|entry| keys::family(&entry.key) == key);
        let is_counting = match class {
            InProject::Trusted | InProject::Narrows => true,
            InProject::Never => false,
            // Not a limit but a separate layer, in which an allow rule permits nothing.
            InProject::Lowers => key == "rules",
        };
        assert_eq!(counts, is_counting, "{key}");
    }
    assert_eq!(settings.proxy, None);
    assert_eq!(settings.rules(), Rules::default(), "the operator's rules are the user's");
}

#[test]
fn variables_come_before_a_trusted_project_and_the_person_s_file_after_it() {
    let variables = set(&[
        ("POSSE_MODEL", "mine/x"),
        ("POSSE_WORKSPACE__SETUP", "make"),
        ("POSSE_AGENT__MAX_TURNS", "50"),
    ]);
    let user = parsed(
        "model: user/x\nworkspace: {caches: [mine]}\nhooks: {SubagentStop: [{hooks: [{type: command, command: own}]}]}\n",
        USER,
    );
    let project = parsed(
        "model: their/x\nworkspace: {setup: npm ci, caches: [theirs], copy: [.env]}\nagent: {max_turns: 90}\nhooks: {PreToolUse: [{hooks: [{type: command, command: theirs}]}]}\n",
        PROJECT,
    );
    let settings = Settings::layered(variables, user, &[(&project, true)]);
    assert_eq!(counting(&settings, "model"), Some(value_of("\"mine/x\"", "POSSE_MODEL")));
    assert_eq!(counting(&settings, "workspace.setup"), Some(value_of("\"make\"", "POSSE_WORKSPACE__SETUP")));
    assert_eq!(counting(&settings, "workspace.caches"), Some(value_of("[\"theirs\"]", "project")));
    assert_eq!(counting(&settings, "workspace.copy"), Some(value_of("[\".env\"]", "project")));
    assert_eq!(settings.max_turns.map(|it| it.value), Some(Limit(Some(50))), "not raised");
    let hooks: Vec<&str> = settings.hooks.iter().map(|hook| hook.command.as_str()).collect();
    assert_eq!(hooks, ["own", "theirs"], "everybody is asked");
}

fn project(text: &str, standing: TrustState) -> ProjectFile {
    let settings = file::parse(text, Path::new(PROJECT));
    ProjectFile {
        path: PathBuf::from(PROJECT),
        standing,
        hash: None,
        further: None,
        undetermined: Vec::new(),
        settings,
    }
}

#[test]
fn what_does_not_count_has_one_note() {
    let put = |text: &str, standing| {
        let put = put_between(&[project(text, standing)], Settings::default(), Settings::default());
        put.expect("settings").1.into_iter().collect::<Vec<Note>>()
    };
    let text = "model: x\nproxy: http://evil\nhooks: {PreToolUse: [{hooks: [{type: command, command: a}, {type: command, command: b}]}]}\nagent: {max_turns: 5}\n";
    assert_eq!(
        put(text, TrustState::New),
        [
            Note::warning("/p/.posse/settings.yaml:2: proxy is ignored: only your own settings can set it"),
            Note::info("/p/.posse/settings.yaml is not trusted, so these are ignored: model, hooks")
                .remedy(Remedy::TrustProject),
        ]
    );
    let many: Vec<String> = (0..50).map(|n| format!("  p{n}: {{key: x}}\n")).collect();
    let many = put(&format!("providers:\n{}", many.concat()), TrustState::New);
    assert_eq!(
        (many.len(), &many[10]),
        (11, &Note::warning("40 more are ignored").remedy(Remedy::ShowSettings))
    );
    let changed = put("model: x", TrustState::Changed);
    assert!(
        changed[0].text.contains("has changed since you trusted it, so these are ignored: model"),
        "{changed:?}"
    );
    assert_eq!(put("model: x", TrustState::Trusted), Vec::<Note>::new());
    assert_eq!(put("agent: {max_turns: 5}", TrustState::New), Vec::<Note>::new());
}

#[test]
fn a_file_with_mistakes_is_ignored_until_it_is_trusted() {
    let text = "agent: {max_turns: 5}\nmodell: x\n";
    let own = || parsed("agent: {max_turns: 9}", USER);
    let put = |standing| put_between(&[project(text, standing)], Settings::default(), own());
    let (settings, notes) = put(TrustState::New).expect("it keeps no user from working");
    assert_eq!(settings, own());
    assert!(
        notes.as_slice()[0]
            .to_string()
            .starts_with("warning: /p/.posse/settings.yaml:2: unknown key `modell` (did you mean `model`?)"),
        "{notes:?}"
    );
    let error = put(TrustState::Trusted).expect_err("a mistake in what was trusted");
    assert!(error.message().starts_with("/p/.posse/settings.yaml:2: "), "{}", error.message());
}
