//! Rules apply to the file itself, whatever tool or link leads to it.

use std::os::unix::fs::symlink;

use posse_domain::permission::{
    Approvals, Authority, Decision, DefinitionLayer, Explanation, Grant, OnAsk, Operation, Rule, RunLayers,
    ToolSet,
};

use super::*;

const TOOLS: [&str; 6] = ["read", "list", "glob", "grep", "write", "edit"];

fn authority(tools: &[&str], listed: &[(&str, Decision)]) -> Authority {
    let rule = |&(pattern, decision): &(&str, Decision)| Rule { pattern: pattern.parse().unwrap(), decision };
    let layers = RunLayers { operator: listed.iter().map(rule).collect(), ..RunLayers::default() };
    let definition =
        DefinitionLayer { name: "coder".into(), default: Decision::Allow, rules: Vec::new().into() };
    let grant = Grant {
        allowed_tools: ToolSet::parse(tools.iter().copied()).unwrap(),
        rules: Vec::new().into(),
        can_spawn_children: false,
        max_delegation_depth: 0,
        may_share_history: false,
        on_ask: OnAsk::Deny,
    };
    Authority::root(&"k3f9ab2c".parse().unwrap(), layers, definition, grant)
}

/// A tree with secrets and many paths to them, under these rules.
fn guarded(tools: &[&str], listed: &[(&str, Decision)]) -> (Bench, Authority) {
    let mut bench = Bench::new();
    bench.file(".env", "SECRET\n").file("secrets/key.txt", "SECRET\n").file("secrets/deep/k.txt", "SECRET\n");
    bench.file("open.txt", "plain\n").file("src/a.txt", "plain\n");
    for (target, link) in [
        ("secrets", "alias"),
        ("alias", "alias2"),
        ("../secrets/key.txt", "src/key"),
        ("alias2/deep", "deep"),
        (".env", "env"),
        ("env", "env2"),
        ("src", "open"),
        ("../open.txt", "src/open"),
    ] {
        symlink(target, bench.ws(link)).unwrap();
    }
    let authority = authority(tools, listed);
    bench.call.rules = authority.path_rules(&Approvals::none(), None);
    (bench, authority)
}

const SECRET_RULES: [(&str, Decision); 2] =
    [("read:.env", Decision::Deny), ("read:secrets/**", Decision::Ask)];

/// Every path to the secret files, and the real path of each.
const SECRET_PATHS: [(&str, &str); 8] = [
    (".env", ".env"),
    ("env", ".env"),
    ("env2", ".env"),
    ("secrets/key.txt", "secrets/key.txt"),
    ("alias/key.txt", "secrets/key.txt"),
    ("alias2/deep/k.txt", "secrets/deep/k.txt"),
    ("deep/k.txt", "secrets/deep/k.txt"),
    ("src/key", "secrets/key.txt"),
];

const OPEN_PATHS: [&str; 5] = ["open.txt", "src/a.txt", "open/a.txt", "src/open", "open/open"];

fn explain(authority: &Authority, tool: &str, path: &str) -> Explanation {
    authority.explain(&Approvals::none(), &Operation::new(tool, Some(path)))
}

#[test]
fn a_secret_is_not_read_through_any_link() {
    let (bench, authority) = guarded(&TOOLS, &SECRET_RULES);
    for (path, real) in SECRET_PATHS {
        let explained = explain(&authority, "read", real);
        assert_ne!(explained.verdict.decision, Decision::Allow);
        let reason =
            format!("`{path}` is not for you to see: `read:{real}` is not allowed ({})", explained.verdict);
        let text = bench.fails("read", json!({"path": path}), Code::PermissionDenied);
        assert_eq!(text, format!("{reason}."), "{path}");
        assert!(bench.call.seen.seen(path).is_none(), "{path}");
    }
    for path in OPEN_PATHS {
        assert_eq!(explain(&authority, "read", path).verdict.decision, Decision::Allow);
        assert!(bench.ok("read", json!({"path": path})).contains("plain"), "{path}");
    }
}

#[test]
fn no_tool_tells_what_is_in_a_secret() {
    let (bench, _) = guarded(&TOOLS, &SECRET_RULES);
    for (path, _) in SECRET_PATHS {
        bench.fails("grep", json!({"pattern": "SECRET", "path": path}), Code::PermissionDenied);
        for old in ["SECRET", "nothing"] {
            let failure =
                bench.call("edit", json!({"path": path, "old_text": old, "new_text": "x"})).unwrap_err();
            // The failure is the same whether or not the text is in the file. Writes follow no links at all.
            let said =
                failure.text.contains("is not for you to see") || failure.text.contains("symbolic link");
            assert!(said, "{path}: {}", failure.text);
        }
    }
    for (path, skipped) in [(".", 3), ("secrets", 2), ("alias", 2), ("alias2/deep", 1), ("deep", 1)] {
        for output in ["content", "files", "count"] {
            let shown = bench.ok("grep", json!({"pattern": "S.CRET|plain", "path": path, "output": output}));
            let files = if skipped == 1 { "file" } else { "files" };
            assert!(!shown.contains("SECRET") && !shown.contains("key.txt"), "{path}: {shown}");
            assert!(
                shown.contains(&format!("{skipped} {files} skipped that you may not read")),
                "{path}: {shown}"
            );
        }
    }
    let shown = bench.ok("grep", json!({"pattern": "SECRET", "path": "secrets"}));
    assert_eq!(shown, "[no match in 0 files; 2 files skipped that you may not read]");
    assert_eq!(bench.content("secrets/key.txt"), "SECRET\n");
}

#[test]
fn names_are_shown_unless_a_rule_is_about_the_tool_that_names_them() {
    let (bench, _) = guarded(&TOOLS, &SECRET_RULES);
    assert!(bench.ok("list", json!({"path": "alias"})).contains("alias/key.txt"));
    assert!(bench.ok("glob", json!({"pattern": "**/*.txt"})).contains("secrets/key.txt"));
    let rules = [("list:secrets/**", Decision::Deny), ("glob:secrets/**", Decision::Deny)];
    let (bench, authority) = guarded(&TOOLS, &rules);
    for (tool, input) in [
        ("list", json!({"path": "alias"})),
        ("list", json!({"path": "deep"})),
        ("glob", json!({"pattern": "*", "path": "alias2"})),
        ("glob", json!({"pattern": "deep/*"})),
        ("glob", json!({"pattern": "alias/*.txt"})),
    ] {
        let text = bench.fails(tool, input, Code::PermissionDenied);
        assert!(text.contains(&format!("`{tool}:secrets")), "{text}");
        assert_eq!(explain(&authority, tool, "secrets").verdict.decision, Decision::Deny);
    }
    assert_eq!(bench.ok("glob", json!({"pattern": "**/*.txt"})), "open.txt\nsrc/a.txt\n[2 files]");
    assert!(
        bench.ok("read", json!({"path": "alias/key.txt"})).contains("SECRET"),
        "no rule is about reading"
    );
}

#[test]
fn a_rule_of_grep_binds_where_its_search_leads() {
    let (bench, _) = guarded(&TOOLS, &[("grep:secrets/**", Decision::Deny)]);
    for path in ["secrets", "alias", "alias2", "deep", "alias/key.txt", "src/key"] {
        let text = bench.fails("grep", json!({"pattern": "S", "path": path}), Code::PermissionDenied);
        assert!(text.contains("(deny: operator, by the rule `grep:secrets/**`)"), "{text}");
    }
    let shown = bench.ok("grep", json!({"pattern": "SECRET"}));
    assert_eq!(shown, ".env\n1: SECRET\n[1 match in 1 file; 2 files skipped that you may not read]");
}

#[test]
fn an_agent_without_read_still_searches_what_no_rule_forbids_to_read() {
    let (bench, authority) = guarded(&["grep"], &SECRET_RULES);
    assert_eq!(explain(&authority, "read", "open.txt").verdict.decision, Decision::Deny, "not its tool");
    let shown = bench.ok("grep", json!({"pattern": "plain|SECRET", "output": "files"}));
    assert_eq!(shown, "open.txt\nsrc/a.txt\n[2 files; 3 files skipped that you may not read]");
}

#[test]
fn a_narrow_allow_in_a_wide_deny_is_heeded() {
    let (bench, _) = guarded(&TOOLS, &[("read:**", Decision::Deny), ("read:src/**", Decision::Allow)]);
    let shown = bench.ok("grep", json!({"pattern": "plain|SECRET", "output": "files"}));
    assert_eq!(shown, "src/a.txt\n[1 file; 4 files skipped that you may not read]");
    assert!(bench.ok("read", json!({"path": "src/a.txt"})).contains("plain"));
    let text = bench.fails("read", json!({"path": "src/open"}), Code::PermissionDenied);
    assert!(text.contains("`read:open.txt`"), "a link in an open directory to a closed file: {text}");
    bench.fails("read", json!({"path": "open/a.txt"}), Code::PermissionDenied);
}

#[test]
fn a_rule_that_is_not_about_reading_hides_nothing() {
    let (bench, _) = guarded(&TOOLS, &[("write:**", Decision::Deny), ("edit:open.txt", Decision::Deny)]);
    assert!(bench.ok("read", json!({"path": "alias/key.txt"})).contains("SECRET"));
    assert!(bench.ok("grep", json!({"pattern": "SECRET", "path": "alias"})).contains("2 matches in 2 files"));
    bench.ok("edit", json!({"path": "secrets/key.txt", "old_text": "SECRET", "new_text": "x"}));
}

#[test]
fn a_path_that_no_tool_opens_is_explained_as_denied() {
    let (bench, authority) = guarded(&TOOLS, &[]);
    for path in ["/etc/passwd", "~/x", "~", "../x", "/"] {
        for (tool, input) in [("read", json!({"path": path})), ("list", json!({"path": path}))] {
            let specifier = (super::tool(tool).specifier)(&input).unwrap();
            assert_eq!(explain(&authority, tool, &specifier).verdict.decision, Decision::Deny, "{path}");
            bench.fails(tool, input, Code::PermissionDenied);
        }
    }
}

#[test]
fn a_protected_name_is_not_written_by_any_spelling_unless_a_person_named_it() {
    let mut bench = Bench::new();
    bench.file(".github/workflows/ci.yml", "on: push\n").file("src/a.txt", "plain\n");
    symlink(".github/workflows", bench.ws("flows")).unwrap();
    bench.ok("read", json!({"path": ".github/workflows/ci.yml"}));
    let tries = [
        ("write", json!({"path": ".github/workflows/new.yml", "content": "x"})),
        ("write", json!({"path": "src/../.GitHub/./workflows/new.yml", "content": "x"})),
        ("edit", json!({"path": ".github/workflows/ci.yml", "old_text": "push", "new_text": "x"})),
        ("write", json!({"path": "sub/.envrc", "content": "x"})),
    ];
    for (tool, input) in &tries {
        let text = bench.fails(tool, input.clone(), Code::PermissionDenied);
        assert!(text.contains("is a protected name; a user opens it by allowing `write:"), "{text}");
    }
    let text = bench
        .call("edit", json!({"path": "flows/ci.yml", "old_text": "push", "new_text": "x"}))
        .unwrap_err()
        .text;
    assert!(text.contains("symbolic link"), "{text}");
    bench.call.approvals = ["write:.github/**"].map(|pattern| pattern.parse().unwrap()).into_iter().collect();
    bench.ok("edit", json!({"path": ".github/workflows/ci.yml", "old_text": "push", "new_text": "x"}));
    bench.fails("write", json!({"path": "sub/.envrc", "content": "x"}), Code::PermissionDenied);
    bench.fails("write", json!({"path": ".git/config", "content": "x"}), Code::PermissionDenied);
}
