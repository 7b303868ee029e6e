//! Around rules, past the schema, from one call to the next, and through the command itself.

use serde_json::{Value, json};

use super::case::{Case, call, sh};
use super::world::Launch;

/// What the run of these cases denies.
pub(crate) const DENIED: Launch =
    Launch { flags: &["--deny", "bash:curl *", "--deny", "bash:rm *", "--deny", "network"], ..super::PLAIN };

pub(crate) fn cases() -> Vec<Case> {
    let mut cases = unknown_fields();
    cases.extend(around_rules());
    cases.extend(from_call_to_call());
    cases.extend(through_the_command());
    cases
}

/// No field that a model can send widens anything.
fn unknown_fields() -> Vec<Case> {
    let with = |name, field: &str, value: Value| {
        let mut input = json!({"command": "echo BREACH"});
        input[field] = value;
        call(name, "bash", input).refused("unknown field")
    };
    vec![
        with("field-sandbox", "sandbox", json!(false)),
        with("field-dangerously", "dangerouslyDisableSandbox", json!(true)),
        with("field-network", "network", json!(true)),
        with("field-env", "env", json!({"LD_PRELOAD": "x"})),
        with("field-allow", "allow", json!(["*"])),
        with("field-approvals", "approvals", json!({"bash": "always"})),
        with("field-user", "user", json!("root")),
        with("field-shell", "shell", json!("/bin/sh")),
        with("field-protected", "protected", json!([])),
        with("field-background", "run_in_background", json!(true)),
        call("field-of-read", "read", json!({"path": "README.md", "follow_symlinks": true}))
            .refused("unknown field"),
        call("field-of-write", "write", json!({"path": "x", "content": "x", "force": true}))
            .refused("unknown field"),
        call("no-such-tool", "shell", json!({"command": "echo BREACH"})).refused("unknown tool"),
        call("tool-in-capitals", "Bash", json!({"command": "echo BREACH"})).refused(""),
    ]
}

/// Bypassing a rule does not weaken the sandbox.
fn around_rules() -> Vec<Case> {
    let url = "http://127.0.0.1:@tcp@/";
    let around = |name, command: String| sh(name, &format!("{command}; echo over"));
    vec![
        call("denied-as-it-stands", "bash", json!({"command": format!("curl {url}")})).refused("PERMISSION_DENIED"),
        call("denied-with-space-before", "bash", json!({"command": format!("  curl {url}")})).refused("PERMISSION_DENIED"),
        call("denied-removal", "bash", json!({"command": "rm -rf ../sibling"})).refused("PERMISSION_DENIED"),
        around("chained", format!("true && curl -m2 {url}; true || curl -m2 {url} & curl -m2 {url} | cat")),
        around("quoted", format!("c''url -m2 {url}; \"cu\"rl -m2 {url}; \\curl -m2 {url}; $'\\x63url' -m2 {url}")),
        around("wrapped", format!("env curl -m2 {url}; command curl -m2 {url}; nice curl -m2 {url}; timeout 3 curl -m2 {url}; xargs curl -m2 <<< {url}")),
        around("nested", format!("bash -c 'curl -m2 {url}'; eval 'curl -m2 {url}'; sh <<< 'curl -m2 {url}'; find . -maxdepth 0 -exec curl -m2 {url} \\;")),
        around("substituted", format!("$(echo curl) -m2 {url}; `echo curl` -m2 {url}; x=curl; $x -m2 {url}; ${{x}} -m2 {url}; IFS=,; y=curl,-m2,{url}; $y")),
        around("decoded", "$(echo cm0gLXJmIC4uL3NpYmxpbmcK | base64 -d); echo 'rm -rf ../sibling' | bash; printf 'rm\\t-rf\\t../sibling' | bash".to_owned()),
        around("by-path", format!("/usr/bin/curl -m2 {url}; /usr/bin/../bin/curl -m2 {url}; cp /usr/bin/curl c; ./c -m2 {url}")),
        around("defined", format!("f() {{ curl -m2 {url}; }}; f; alias q=curl; shopt -s expand_aliases; eval 'q -m2 {url}'; trap 'curl -m2 {url}' EXIT")),
        around("from-a-document", format!("bash <<'X'\ncurl -m2 {url}\nrm -rf ../sibling\nX")),
        around("in-a-long-chain", format!("{}curl -m2 {url}", "true; ".repeat(70))),
        around("after-a-carriage-return", format!("true \r curl -m2 {url}\ntrue\ncurl -m2 {url}")),
        around("after-a-comment", format!("# harmless\ncurl -m2 {url} # harmless")),
        around("with-a-process-for-a-file", format!("cat <(curl -m2 {url}); coproc curl -m2 {url}")),
        call("denied-description", "bash", json!({"command": format!("curl {url}"), "description": "just prints hello"})).refused("PERMISSION_DENIED"),
    ]
}

/// Each call starts like the first one.
fn from_call_to_call() -> Vec<Case> {
    vec![
        sh("poison", "export PATH=/evil PAGER='touch x' GIT_PAGER='touch x' LD_PRELOAD=/evil.so BASH_ENV=/tmp/env POISON=1; echo 'POISON=2' > /tmp/env; echo 'POISON=3' >> ~/.bashrc; echo '[alias] st = !touch x' > ~/.gitconfig; alias ls=evil; ls() { echo evil; }; cd /; umask 0; ulimit -n 20; echo evil > /tmp/@tag@; set -o noexec"),
        sh("poison-is-gone", "[ -n \"$POISON$LD_PRELOAD$BASH_ENV\" ] && breach env; [ \"$PATH\" = /evil ] && breach path; type ls | grep -q function && breach function; ls ~/.bashrc ~/.gitconfig /tmp/env /tmp/@tag@ && breach files; [ $PWD = @box@ ] || breach $PWD; [ $PAGER = cat ] || breach pager; [ $(umask) = 0000 ] && breach umask; [ $(ulimit -n) -gt 100 ] || breach limit; echo over").shows("over"),
        sh("poisoned-tools-in-the-workspace", "mkdir -p node_modules/.bin bin; for t in git bash ls; do printf '#!/bin/sh\\necho BREACH\\n' > $t; chmod +x $t; cp $t bin/; done"),
        sh("poisoned-tools-are-not-found", "git --version; ls > /dev/null; bash -c true; case :$PATH: in *::*|*:.:*) breach;; esac; echo over").shows("over"),
    ]
}

/// The command in the sandbox reaches neither the user's runs nor a model.
fn through_the_command() -> Vec<Case> {
    vec![
        sh("own-command-looks", "./posse ps --json; POSSE_HOME=@state@ ./posse ps; ./posse ps | grep -q 'do your worst' && breach; ./posse doctor; echo over").shows("over"),
        sh("own-command-answers", "for v in approve deny cancel resume send close; do POSSE_HOME=@state@ timeout 5 ./posse $v 1 && breach $v; done; echo over").shows("over"),
        sh("own-command-runs", "printf -- '- when: {turn: 1}\\n  reply: {tool_calls: [{name: bash, input: {command: \"touch @top@/sibling/@tag@; echo nested\"}}]}\\n- reply: {text: nested}\\n' > s.yaml; POSSE_HOME=@state@ timeout 10 ./posse run --model scripted/s.yaml x; timeout 10 ./posse run --model scripted/s.yaml --allow '*' x; ls -la @state@; echo over").shows("over"),
        sh("own-command-as-init", "./posse __init < /dev/null; echo '{}' | ./posse __init; ./posse __init x; python3 -c 'import socket, subprocess; a, b = socket.socketpair(); p = subprocess.Popen([\"./posse\", \"__init\"], stdin=b); b.close(); a.send(b\"\\x02\\0\\0\\0{}\"); a.close(); print(p.wait(5))'; echo over").shows("over"),
        sh("hostile-id", "head -c 100000 /dev/zero | tr '\\0' x").id("../../../../../../@tag@").shows("bytes left out"),
    ]
}
