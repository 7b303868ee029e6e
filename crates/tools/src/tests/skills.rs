//! Skills: loading, delegating, and their files.

use std::os::unix::fs::symlink;

use posse_engine::ports::{SkillDir, SpawnRequest};

use super::*;

/// A skill `review` with files.
fn bench() -> Bench {
    let mut bench = Bench::new();
    let dir = bench.top.path().join("skills/review");
    fs::create_dir_all(dir.join("deep")).unwrap();
    fs::write(dir.join("list.md"), "one\ntwo\n").unwrap();
    fs::write(dir.join("deep/more.md"), "more\n").unwrap();
    fs::write(bench.top.path().join("skills/other.md"), "SECRET\n").unwrap();
    symlink("deep/more.md", dir.join("inside")).unwrap();
    symlink("../other.md", dir.join("outside")).unwrap();
    symlink("/etc/passwd", dir.join("far")).unwrap();
    let dir = SkillDir { path: dir, project: None };
    bench.call.skills = Arc::new([("review".to_owned(), dir)].into());
    bench
}

#[test]
fn what_git_ignores_is_not_read_as_a_file_of_a_projects_skill() {
    let mut bench = bench();
    let project = bench.top.path().to_owned();
    fs::write(project.join(".gitignore"), "*.key\n").unwrap();
    let dir = project.join("skills/review");
    fs::write(dir.join("deep/own.key"), "SECRET\n").unwrap();
    symlink("deep/own.key", dir.join("harmless")).unwrap();
    fs::create_dir(dir.join(".git")).unwrap();
    fs::write(dir.join(".git/config"), "SECRET\n").unwrap();
    let own = bench.ok("read", json!({"path": "skill://review/harmless"}));
    assert!(own.contains("SECRET"), "a person's own files are theirs to show: {own}");
    let of_project = SkillDir { path: dir, project: Some(project) };
    bench.call.skills = Arc::new([("review".to_owned(), of_project)].into());
    for path in ["deep/own.key", "harmless", ".git/config"] {
        let text =
            bench.fails("read", json!({"path": format!("skill://review/{path}")}), Code::PermissionDenied);
        assert!(text.contains("git ignores it") && !text.contains("SECRET"), "{path}: {text}");
    }
    assert!(bench.ok("read", json!({"path": "skill://review/inside"})).contains("more"));
}

#[test]
fn what_git_ignores_is_not_listed_as_a_file_of_a_projects_skill() {
    let mut bench = bench();
    let project = bench.top.path().to_owned();
    // Ignore rules above the folder apply, and other ignore files in the folder do not lift them.
    fs::write(project.join(".gitignore"), "*.key\n/skills/review/cache/\n").unwrap();
    let dir = project.join("skills/review");
    fs::create_dir(dir.join("cache")).unwrap();
    for (file, text) in [("own.key", "SECRET"), ("cache/token", "SECRET"), (".ignore", "!own.key\n")] {
        fs::write(dir.join(file), text).unwrap();
    }
    symlink("cache", dir.join("harmless")).unwrap();
    let own = bench.ok("list", json!({"path": "skill://review"}));
    assert!(own.contains("own.key") && own.contains("cache/"), "a person's own files are theirs: {own}");
    let of_project = SkillDir { path: dir, project: Some(project) };
    bench.call.skills = Arc::new([("review".to_owned(), of_project)].into());
    let text = bench.ok("list", json!({"path": "skill://review"}));
    assert!(text.contains("skill://review/deep/\n") && text.contains("2 left out"), "{text}");
    assert!(!text.contains("own.key") && !text.contains("cache/"), "{text}");
    for path in ["cache", "harmless"] {
        let text =
            bench.fails("list", json!({"path": format!("skill://review/{path}")}), Code::PermissionDenied);
        assert!(text.contains("git ignores it") && !text.contains("token"), "{path}: {text}");
    }
    assert!(bench.ok("list", json!({"path": "skill://review/deep"})).contains("more.md"));
}

#[test]
fn the_files_of_a_skill_are_read_by_its_name() {
    let bench = bench();
    for (path, line) in [
        ("list.md", "2\ttwo"),
        ("deep/more.md", "1\tmore"),
        ("deep/../list.md", "1\tone"),
        ("inside", "1\tmore"),
    ] {
        let text = bench.ok("read", json!({"path": format!("skill://review/{path}")}));
        assert!(text.contains(line), "{path}: {text}");
    }
}

#[test]
fn nothing_outside_a_skills_directory_is_reached_by_its_name() {
    let bench = bench();
    for path in
        ["../other.md", "../../ws-evil/secret.txt", "/etc/passwd", "outside", "far", "deep/../../other.md"]
    {
        let text =
            bench.fails("read", json!({"path": format!("skill://review/{path}")}), Code::PermissionDenied);
        assert!(!text.contains("SECRET"), "{path}: {text}");
        assert!(
            text.contains("outside the folder of the skill") && !text.contains("workspace"),
            "{path}: {text}"
        );
    }
    for tool in ["read", "list"] {
        let absent = bench.fails(tool, json!({"path": "skill://review/none.md"}), Code::ToolError);
        let expected = "`skill://review/none.md` does not exist. Use `list` with `skill://review` to find out what there is.";
        assert_eq!(absent, expected);
    }
}

#[test]
fn only_skills_that_the_agent_may_use_have_files_for_it() {
    let bench = bench();
    let text = bench.fails("read", json!({"path": "skill://deploy/list.md"}), Code::UnknownSkill);
    assert_eq!(text, "There is no skill `deploy` with files that you may read; there are: review.");
    let text = bench.fails("read", json!({"path": "skill://review"}), Code::InvalidInput);
    assert!(text.contains("`skill://review/PATH`"), "{text}");
}

#[test]
fn the_files_of_a_skill_are_listed_by_its_name() {
    let bench = bench();
    for path in ["skill://review", "skill://review/", "skill://Review/deep/.."] {
        let text = bench.ok("list", json!({"path": path}));
        assert!(text.contains("skill://review/list.md (8 bytes)\n"), "{path}: {text}");
        assert!(text.contains("skill://review/deep/\n"), "{path}: {text}");
    }
    let text = bench.ok("list", json!({"path": "skill://review/deep"}));
    assert!(text.starts_with("skill://review/deep/more.md (5 bytes)\n"), "{text}");
    let skill = bench.top.path().join("skills/review");
    symlink("../..", skill.join("up")).unwrap();
    for path in ["..", "up", "deep/../..", "/etc"] {
        bench.fails("list", json!({"path": format!("skill://review/{path}")}), Code::PermissionDenied);
    }
    bench.fails("list", json!({"path": "skill://deploy"}), Code::UnknownSkill);
}

#[test]
fn only_tools_that_take_files_of_skills_take_their_names() {
    let bench = bench();
    for (tool, input) in [
        ("write", json!({"path": "skill://review/list.md", "content": "x"})),
        ("write", json!({"path": "./skill://new/list.md", "content": "x"})),
        ("edit", json!({"path": "skill://review/list.md", "old_text": "one", "new_text": "x"})),
        ("glob", json!({"path": "skill://review", "pattern": "*"})),
        ("grep", json!({"path": "skill://review", "pattern": "one"})),
    ] {
        let text = bench.fails(tool, input, Code::InvalidInput);
        assert!(text.contains("only `read` and `list` take files of skills"), "{tool}: {text}");
    }
    assert!(!bench.call.workspace.join("skill:").exists(), "nothing of that name is made");
}

#[test]
fn having_seen_a_skills_file_is_no_reason_to_replace_one_of_the_workspace() {
    let bench = bench();
    bench.file("list.md", "one\ntwo\n");
    bench.ok("read", json!({"path": "skill://review/list.md"}));
    let text = bench.call("write", json!({"path": "list.md", "content": "x"})).unwrap_err().text;
    assert!(text.contains("read"), "{text}");
    assert_eq!(bench.content("list.md"), "one\ntwo\n");
}

#[test]
fn a_skill_is_asked_for_by_name_in_any_case() {
    let asked = |input| request("skill", input).unwrap();
    let expected =
        |arguments: &str| EngineRequest::Skill { name: "review".into(), arguments: arguments.into() };
    assert_eq!(asked(json!({"name": "/Review", "arguments": "src"})), expected("src"));
    assert_eq!(asked(json!({"name": "review", "arguments": " "})), expected(""));
    for (input, problem) in [
        (json!({"name": " "}), "`name` must not be empty"),
        (json!({"name": "x".repeat(65)}), "`name` has 65 bytes"),
        (json!({"name": "x", "file": "y"}), "unknown field `file`"),
    ] {
        let text = request("skill", input).unwrap_err().text;
        assert!(text.contains(problem), "{text}");
    }
}

#[test]
fn a_delegation_is_a_child_of_the_skill_and_takes_no_other_terms() {
    let input = json!({"skill_name": "Review", "task": "Go.", "context": "c", "timeout_ms": 9});
    let expected = SpawnRequest {
        skill: Some("review".into()),
        prompt: "Go.".into(),
        title: "Go.".into(),
        extra_context: Some("c".into()),
        background: Some(false),
        timeout_ms: Some(9),
        ..SpawnRequest::default()
    };
    assert_eq!(request("delegate_to_agent", input), Ok(EngineRequest::Spawn(Box::new(expected))));
    for (input, problem) in [
        (json!({"skill_name": "x", "task": ""}), "`task` must not be empty"),
        (json!({"skill_name": "x", "task": "y", "timeout_ms": 0}), "`timeout_ms` must be at least 1"),
        (json!({"skill_name": "x", "task": "y", "share_history": true}), "unknown field `share_history`"),
        (json!({"skill_name": "x", "task": "y", "depth": 0}), "unknown field `depth`"),
    ] {
        let text = request("delegate_to_agent", input).unwrap_err().text;
        assert!(text.contains(problem), "{text}");
    }
}

#[test]
fn a_pattern_finds_no_files_of_skills_and_says_so() {
    let text = bench().fails("glob", json!({"pattern": "skill://review/**"}), Code::InvalidInput);
    assert!(text.contains("only `read` and `list` take files of skills"), "{text}");
}

#[test]
fn of_many_skills_some_are_named() {
    let mut bench = bench();
    let dir = bench.call.skills["review"].clone();
    let many = (0..2_000).map(|number| (format!("skill-{number:04}"), dir.clone()));
    bench.call.skills = Arc::new(many.collect());
    let text = bench.fails("list", json!({"path": "skill://zz"}), Code::UnknownSkill);
    assert!(text.len() < 600 && text.contains("and 1980 more"), "{text}");
}
