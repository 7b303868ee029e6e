//! Each rule with a breach and with the most similar code that is allowed.

use super::*;

/// The rules that code in a crate breaks, in the order of the table.
fn broken(owner: &str, text: &str) -> Vec<&'static str> {
    let path =
        if owner == "tests" { "tests/story.rs".to_owned() } else { format!("crates/{owner}/src/x.rs") };
    check(&Source::new(&path, text)).into_iter().map(|breach| breach.rule).collect()
}

const NONE: [&str; 0] = [];

#[test]
fn pure_crates_have_no_async() {
    assert_eq!(broken("domain", "async fn f() {}"), ["pure-async"]);
    assert_eq!(broken("agent", "let x = y.await;"), ["pure-async"]);
    assert_eq!(broken("agent", "use tokio::sync::Notify;"), ["pure-async"]);
    assert_eq!(broken("domain", "/// Never async, no tokio.\nfn asynchronous() {}"), NONE);
    assert_eq!(broken("engine", "async fn f() {}"), NONE);
}

#[test]
fn pure_crates_have_no_clock() {
    assert_eq!(broken("domain", "let t = Instant::now();"), ["pure-clock"]);
    assert_eq!(broken("domain", "use std::time::{Duration, SystemTime};"), ["pure-clock"]);
    assert_eq!(broken("domain", "use std::time::Duration;"), NONE);
    assert_eq!(broken("engine", "let t = Instant::now();"), NONE);
}

#[test]
fn pure_crates_draw_no_random_numbers() {
    assert_eq!(broken("agent", "let x = fastrand::u8(..);"), ["pure-random"]);
    assert_eq!(broken("agent", "fn operand(grand: u8) {}"), NONE);
}

#[test]
fn pure_crates_touch_no_world() {
    assert_eq!(broken("domain", "use std::{env, fmt};"), ["pure-world"]);
    assert_eq!(broken("domain", "std::fs::read(path)"), ["pure-world"]);
    assert_eq!(broken("domain", "use std::fmt;\nconst X: &str = \"std::fs\";"), NONE);
    assert_eq!(broken("domain", "#[cfg(test)]\nmod tests { use std::fs; }"), NONE);
}

#[test]
fn the_engine_names_no_vendor() {
    assert_eq!(broken("engine", "if model.starts_with(\"Anthropic/\") {}"), ["engine-vendor"]);
    assert_eq!(broken("engine", "struct OpenAiReply;"), ["engine-vendor"]);
    assert_eq!(broken("engine", "// not even openai\nstruct Reply;"), NONE);
    assert_eq!(broken("models", "struct OpenAiReply;"), NONE);
}

#[test]
fn the_engine_names_no_sql() {
    assert_eq!(broken("engine", "run(\"SELECT 1\")"), ["engine-sql"]);
    assert_eq!(broken("engine", "tokio::select! {}\nlet selected = \"select one\";"), NONE);
    assert_eq!(broken("store", "run(\"SELECT 1\")"), NONE);
}

#[test]
fn the_engine_names_no_operating_system() {
    assert_eq!(broken("engine", "use rustix::fs::openat2;"), ["engine-os"]);
    assert_eq!(broken("engine", "#[cfg(unix)]\nfn f() {}"), ["engine-os"]);
    assert_eq!(broken("engine", "use std::ops::Range;"), NONE);
    assert_eq!(broken("files", "use rustix::fs::openat2;"), NONE);
}

#[test]
fn only_cli_reads_the_environment() {
    assert_eq!(broken("store", "let x = std::env::var(\"X\");"), ["environment"]);
    assert_eq!(broken("posse", "use std::env::{self, current_dir};"), ["environment"]);
    assert_eq!(broken("files", "dirs::home_dir()"), ["environment"]);
    assert_eq!(broken("setup", "let variables = std::env::vars_os();"), ["environment"]);
    assert_eq!(broken("setup", "let program = std::env::current_exe();"), ["environment"]);
    assert_eq!(broken("setup", "let environment = Environment::new(cwd, variables);"), NONE);
    assert_eq!(broken("cli", "let program = std::env::current_exe();"), NONE);
    assert_eq!(broken("store", "env!(\"CARGO_PKG_VERSION\")"), NONE);
    assert_eq!(broken("cli", "std::env::var(\"X\")"), NONE);
    assert_eq!(broken("store", "#[cfg(test)]\nmod tests { fn f() { std::env::temp_dir() } }"), NONE);
}

#[test]
fn only_the_egress_client_reaches_the_network() {
    for owner in ["tools", "engine", "cli", "sandbox", "workspace", "posse"] {
        assert_eq!(broken(owner, "use tokio::net::TcpStream;"), ["network"]);
        assert_eq!(broken(owner, "let page = reqwest::get(url).await;"), ["network"]);
        assert_eq!(broken(owner, "use tokio::net::UnixStream;\nlet hyperbole = 1;"), NONE);
        assert_eq!(broken(owner, "#[cfg(test)]\nmod tests { use std::net::TcpStream; }"), NONE);
    }
    assert_eq!(broken("egress", "use tokio::net::TcpStream;"), NONE);
    // Model traffic has a separate client, so that a model on this machine works.
    assert_eq!(broken("models", "use hyper::Request;"), NONE);
}

#[test]
fn protocols_serve_and_call_no_other_machine() {
    assert_eq!(broken("protocols", "use axum::Router;\nuse tokio::net::{TcpListener, TcpStream};"), NONE);
    assert_eq!(broken("protocols", "let peer = TcpStream::connect(address).await;"), ["server-only"]);
    assert_eq!(broken("protocols", "use hyper_util::client::legacy::Client;"), ["server-only"]);
    assert_eq!(broken("setup", "use axum::Router;"), ["network"]);
    // They take values like every library.
    assert_eq!(broken("protocols", "println!(\"x\");"), ["print"]);
    assert_eq!(broken("protocols", "std::env::var(\"X\")"), ["environment"]);
}

#[test]
fn messages_of_libraries_name_no_verb_of_the_command() {
    for owner in ["engine", "sandbox", "definitions", "setup", "posse"] {
        assert_eq!(
            broken(owner, "const FIX: &str = \"`posse resume` continues it\";"),
            ["command-in-message"]
        );
        assert_eq!(broken(owner, "#[error(\"see `posse trust`\")]\nstruct X;"), ["command-in-message"]);
        assert_eq!(
            broken(owner, "/// What `posse trust` shows.\nconst INIT: &str = \"the `posse` binary\";"),
            NONE
        );
    }
    assert_eq!(broken("cli", "const FIX: &str = \"`posse resume` continues it\";"), NONE);
}

#[test]
fn messages_of_libraries_name_no_flag_and_no_variable_of_the_command() {
    let breaches = [
        "format!(\" Open it with `--allow '{host}'`.\")",
        "#[error(\"{0} is too deep; --max-depth raises it\")]",
        "const FIX: &str = \"set it with \\\n    --model NAME\";",
        "const FIX: &str = \"--model NAME sets it\";",
        "const FIX: &str = \"`git status` says more, --verbose too\";",
        "const FIX: &str = \"set POSSE_MODEL\";",
    ];
    let near = [
        "git.run(&[\"config\", \"--list\"])",
        "let flag = flag(\"--max-depth\", \"N\");",
        "git.run(&[\"log\", \"--format=%an %ae\"])",
        "let limit = format!(\"--max-count={MAX}\");",
        "const FIX: &str = \"`git config --global --list` says where\";",
        "run(\"SELECT 1 -- a comment\")",
        "/// Set by `--allow` or POSSE_MODEL.\nconst RULE: &str = \"a user's rule must allow it -- always\";",
        "const NAME: &str = POSSE_MODEL;\nlet text = \"IMPOSSE_X\";",
        "#[cfg(test)]\nmod tests { const A: &str = \"with --allow and POSSE_MODEL\"; }",
    ];
    for owner in ["tools", "setup", "posse"] {
        for breach in breaches {
            assert_eq!(broken(owner, breach), ["command-in-message"], "{breach}");
        }
        for near in near {
            assert_eq!(broken(owner, near), NONE, "{near}");
        }
    }
    assert_eq!(broken("cli", breaches[0]), NONE);
}

#[test]
fn an_exception_is_for_one_text_in_one_file() {
    let refused = |path: &str, text: &str| check(&Source::new(path, text)).len();
    let jinja = "const MARK: &str = \"tools param requires --jinja\";";
    assert_eq!(refused("crates/models/src/wire/text_tools.rs", jinja), 0);
    assert_eq!(refused("crates/models/src/wire/text_tools.rs", "const X: &str = \"use --model\";"), 1);
    assert_eq!(refused("crates/models/src/wire/chat.rs", jinja), 1);
    assert!(
        EXCEPTIONS.iter().all(|(rule, _, _, why)| !why.is_empty() && RULES.iter().any(|r| r.name == *rule))
    );
}

#[test]
fn only_cli_prints() {
    assert_eq!(broken("engine", "println!(\"x\");"), ["print"]);
    assert_eq!(broken("setup", "eprintln!(\"note: {x}\");"), ["print"]);
    assert_eq!(broken("setup", "notes.push(format!(\"note: {x}\"));"), NONE);
    assert_eq!(broken("tools", "let out = std::io::stdout();"), ["print"]);
    assert_eq!(broken("engine", "writeln!(text, \"x\");"), NONE);
    assert_eq!(broken("cli", "println!(\"x\");"), NONE);
    assert_eq!(broken("testkit", "println!(\"x\");"), NONE);
    assert_eq!(broken("engine", "#[cfg(test)]\nmod tests { fn f() { println!(); } }"), NONE);
}

#[test]
fn only_sandbox_workspace_and_cli_start_processes() {
    assert_eq!(broken("tools", "use std::process::Command;"), ["process"]);
    assert_eq!(broken("store", "std::process::exit(1)"), ["process"]);
    assert_eq!(broken("store", "let me = std::process::id();"), NONE);
    assert_eq!(broken("sandbox", "use std::process::Command;"), NONE);
}

#[test]
fn nobody_moves_the_working_directory() {
    assert_eq!(broken("cli", "std::env::set_current_dir(x)"), ["working-directory"]);
    assert_eq!(broken("tests", "set_current_dir(x)"), ["working-directory"]);
    assert_eq!(broken("cli", "command.current_dir(x)"), NONE);
}

#[test]
fn unsafe_is_for_the_sandbox() {
    assert_eq!(broken("store", "unsafe { f() }"), ["unsafe"]);
    assert_eq!(broken("sandbox", "unsafe { f() }"), NONE);
    assert_eq!(broken("store", "#![forbid(unsafe_code)] // unsafe"), NONE);
    let test = "#[cfg(test)]\nmod tests { fn f() { unsafe { g() } } }";
    assert_eq!(broken("store", test), ["unsafe-in-test"]);
    assert_eq!(broken("files", test), NONE);
}

#[test]
fn tests_do_not_sleep() {
    let sleeping = "use std::thread; fn f() { thread::sleep(d); }";
    assert_eq!(broken("engine", &format!("#[cfg(test)]\nmod tests {{ {sleeping} }}")), ["sleep-in-test"]);
    assert_eq!(broken("engine", sleeping), NONE);
    let mut story = Source::new("tests/story.rs", "use tokio::time::{Duration, sleep};");
    story.all_tests = true;
    assert_eq!(check(&story).len(), 1);
}

#[test]
fn names_have_no_words_that_only_other_programs_use() {
    assert_eq!(broken("engine", "fn start_workflow() {}"), ["vocabulary"]);
    assert_eq!(broken("engine", "struct TokenQuota;"), ["vocabulary"]);
    assert_eq!(broken("engine", "fn quotation() {}"), NONE);
    assert_eq!(broken("engine", "let workflows = \".github/workflows\";"), NONE);
}

#[test]
fn names_carry_no_version() {
    assert_eq!(broken("domain", "struct ContractV1;"), ["version-in-name"]);
    assert_eq!(broken("domain", "type EventV12 = ();"), ["version-in-name"]);
    assert_eq!(broken("domain", "struct Ipv4; struct Level2; struct CSV1; mod v1 {}"), NONE);
}

#[test]
fn a_breach_says_where_and_why_once_for_a_line() {
    let found = check(&Source::new(
        "crates/store/src/x.rs",
        "\n\nuse std::env; fn f() { env::var(\"A\"); std::env::var(\"B\"); }",
    ));
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].place, "crates/store/src/x.rs:3");
    assert!(found[0].why.contains("only cli"));
}

#[test]
fn every_rule_has_a_name_of_its_own_and_a_reason() {
    let names: BTreeSet<&str> = RULES.iter().map(|rule| rule.name).collect();
    assert_eq!(names.len(), RULES.len());
    assert!(RULES.iter().all(|rule| !rule.why.is_empty() && !rule.looks.is_empty()));
}
