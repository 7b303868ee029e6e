//! Invalid input: a short, precise answer, nothing hangs, nothing is half done.

use serde_json::{Value, json};

use super::case::{Case, call, sh};
use super::world::{Setting, World};

pub(crate) fn cases() -> Vec<Case> {
    let bash = |name, input: Value| call(name, "bash", input);
    let mut cases = vec![
        bash("no-command", json!({})).refused("command"),
        bash("null-command", json!({"command": null})).refused("command"),
        bash("number-command", json!({"command": 7})).refused("command"),
        bash("list-command", json!({"command": ["echo", "BREACH"]})).refused("command"),
        bash("object-command", json!({"command": {"argv": ["x"]}})).refused("command"),
        bash("empty-command", json!({"command": ""})).refused("empty"),
        bash("blank-command", json!({"command": " \n\t "})).refused("empty"),
        bash("nul-in-command", json!({"command": "echo a\u{0}b"})).refused("NUL"),
        bash("longest-command", json!({"command": format!(": {}", "x".repeat(131_000))}))
            .shows("exit code 0"),
        bash("command-of-control-characters", json!({"command": format!(": '{}'", "\u{1}".repeat(130_000))}))
            .shows("exit code 0"),
        bash("text-for-arguments", json!("echo BREACH")).refused("JSON"),
        bash("list-for-arguments", json!(["echo", "BREACH"])).refused(""),
        bash("broken-arguments", json!("{\"command\": \"echo BREACH\"")).refused("JSON"),
        bash("no-time", json!({"command": "echo BREACH", "timeout_ms": 0})).refused("timeout_ms"),
        bash("negative-time", json!({"command": "echo BREACH", "timeout_ms": -5})).refused("timeout_ms"),
        bash("time-as-text", json!({"command": "echo BREACH", "timeout_ms": "100"})).refused("timeout_ms"),
        bash("time-in-parts", json!({"command": "echo BREACH", "timeout_ms": 1.5})).refused("timeout_ms"),
        bash("endless-time", json!({"command": "echo fine", "timeout_ms": 9_000_000_000_u64})).shows("fine"),
        bash("short-time", json!({"command": "sleep 300", "timeout_ms": 1})).refused("TIMEOUT"),
        bash("description-as-number", json!({"command": "echo BREACH", "description": 1}))
            .refused("description"),
        bash("long-description", json!({"command": "echo BREACH", "description": "x".repeat(100_000)}))
            .refused("description"),
    ];
    cases.extend(directories());
    cases.extend(outputs());
    cases
}

fn directories() -> Vec<Case> {
    let within =
        |name, workdir: Value| call(name, "bash", json!({"command": "echo BREACH", "workdir": workdir}));
    vec![
        within("workdir-up", json!("..")).refused(""),
        within("workdir-up-and-down", json!("src/../../sibling")).refused(""),
        within("workdir-absolute", json!("/etc")).refused(""),
        within("workdir-neighbour", json!("@top@/sibling")).refused(""),
        within("workdir-twin", json!("@ws@-evil")).refused(""),
        within("workdir-missing", json!("no/such")).refused(""),
        within("workdir-file", json!("README.md")).refused(""),
        within("workdir-link-out", json!("out")).refused(""),
        within("workdir-loop", json!("loop")).refused(""),
        within("workdir-pipe", json!("pipe")).refused(""),
        within("workdir-nul", json!("src\u{0}")).refused(""),
        within("workdir-number", json!(1)).refused("workdir"),
        call("workdir-inside", "bash", json!({"command": "pwd", "workdir": "src"})).shows("/workspace/src"),
        call("workdir-inside-absolute", "bash", json!({"command": "pwd", "workdir": "@box@/src"}))
            .shows("/workspace/src"),
        within("workdir-in-the-persons-folder", json!("@ws@/src")).refused(""),
        within("workdir-box-twin", json!("@box@-evil")).refused(""),
        within("workdir-box-up", json!("@box@/../etc")).refused(""),
    ]
}

fn outputs() -> Vec<Case> {
    vec![
        sh("no-such-program", "no-such-program-at-all").shows("exit code 127"),
        sh("no-program", "./README.md; /etc; echo over").shows("over"),
        sh("broken-grammar", "if then fi ((").shows("exit code 2"),
        sh("exit-codes", "exit 255").shows("exit code 255"),
        sh("ended-by-a-signal", "kill -SEGV $$").shows("signal 11"),
        sh("invalid-text", "printf 'a\\377\\376b\\300\\200c\\355\\240\\200d'").shows("a\u{fffd}\u{fffd}b"),
        sh("binary", "head -c 4000 /bin/ls; printf '\\0\\0\\0'"),
        sh("control-characters", "printf '\\033[2J\\033]0;owned\\007\\033]52;c;ZXZpbA==\\007\\r\\b\\x9b31m'"),
        sh("cut-in-a-character", "python3 -c 'print(\"\\u20ac\" * 200000)'")
            .needs(&["python3"])
            .shows("bytes left out"),
        sh("a-file-deleted-meanwhile", "rm -rf src2; mkdir src2; cd src2; rmdir ../src2; pwd; ls; echo over")
            .shows("over"),
        sh("no-output", ":"),
    ]
}

/// An answer to a refused call repeats only the beginning of the request.
#[test]
fn the_answer_to_a_call_that_is_too_long_is_short() {
    let command = format!("echo {}", "x".repeat(200_000));
    let cases = vec![
        call("long-command", "bash", json!({"command": command})).refused("too long"),
        call("long-path", "write", json!({"path": "x/".repeat(3_000), "content": "x"})).refused(""),
    ];
    super::holds(&World::new(Setting::default(), super::PLAIN).run(cases, super::PLAIN), 2);
}
