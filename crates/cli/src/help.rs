//! The help of the command: verbs in groups, and examples for each verb. clap knows neither.

use std::fmt::Write;

use clap::{Command, CommandFactory};

use crate::args::Cli;
use crate::output::output_width;
use crate::view::width::hanging;

/// The verbs by what a user wants to do.
const GROUPS: [(&str, &[&str]); 7] = [
    ("Start", &["run", "continue", "retry", "plan", "demo", "resume"]),
    ("Look", &["ps", "show", "top", "attach", "logs", "trace", "report", "diff", "stats", "explain", "wait"]),
    ("Decide", &["approvals", "approve", "deny", "send", "cancel", "kill"]),
    ("Change your files", &["apply", "salvage"]),
    ("Serve", &["serve", "token"]),
    ("Housekeeping", &["rm", "gc", "verify", "export"]),
    (
        "Set up",
        &["init", "doctor", "models", "settings", "trust", "agents", "skills", "completions", "man", "help"],
    ),
];

/// Examples for each verb, `verb` or `verb subverb`; a test parses every line.
const EXAMPLES: &[(&str, &str)] = &[
    (
        "run",
        "posse run \"fix the failing test\"
posse run --model sonnet --max-usd 2 \"add a --json flag to the export command\"
posse run -d \"update the dependencies\"        # in the background; prints the id
posse run --plan plan.yaml                     # execute a plan
posse run --plan auto \"split the parser\"       # let the planner write one
posse run --allow 'bash:cargo *' --deny webfetch \"run the tests and fix them\"
cargo test 2>&1 | posse run \"explain this\"     # standard input is context
posse run --model replay/k3f9ab2c              # repeat a recorded run",
    ),
    (
        "continue",
        "posse continue k3f \"now add a test for it\"
posse continue @ \"and update the changelog\"
posse continue k3f.2 \"why did you choose this format?\"
git diff | posse continue k3f -",
    ),
    (
        "retry",
        "posse retry k3f
posse retry k3f --max-usd 2 --model opus
posse retry k3f.3                # the task of one agent, on the result of the run",
    ),
    ("attach", "posse attach k3f\nposse attach @"),
    (
        "plan",
        "posse plan \"split the parser into modules\" -o plan.yaml
posse plan check plan.yaml
posse run --plan plan.yaml",
    ),
    ("plan check", "posse plan check plan.yaml\nposse plan check --json plan.yaml"),
    ("plan schema", "posse plan schema > plan.schema.json"),
    ("demo", "posse demo\nposse demo --fast"),
    (
        "resume",
        "posse resume              # the newest interrupted run of this project
posse resume k3f
posse resume --last       # of all projects",
    ),
    (
        "ps",
        "posse ps
posse ps --status running --status waiting
posse ps --dir . --tree
posse ps -q --status failed
posse ps --format '{run} {status} {request}'",
    ),
    (
        "show",
        "posse show                # the newest run of this project\nposse show k3f\nposse show @.2            # one agent and its subtree",
    ),
    ("top", "posse top\nposse top k3f\nposse top --status running\nposse top --dir ."),
    (
        "logs",
        "posse logs -f
posse logs k3f --tail 20
posse logs @.1 --since 10m
posse logs k3f --kind tool_finished --kind input_requested",
    ),
    (
        "token",
        "posse token new ci --right read --right run
posse token new phone --right read --right answer --expires 30d
posse token ls
posse token revoke ci",
    ),
    (
        "token new",
        "posse token new ci --right read --right run\nposse token new team-a --tenant team-a --right run --expires 0",
    ),
    ("token ls", "posse token ls\nposse token ls --json"),
    ("token revoke", "posse token revoke ci"),
    ("trace", "posse trace k3f            # the root\nposse trace k3f.2.1\nposse trace @ 1 --json"),
    ("report", "posse report\nposse report k3f 2\nposse report @ > report.md"),
    (
        "diff",
        "posse diff\nposse diff k3f --stat\nposse diff k3f 3           # the changes of one agent\nposse diff k3f --at 120",
    ),
    ("stats", "posse stats\nposse stats --since 7d\nposse stats @"),
    (
        "explain",
        "posse explain 'bash:npm publish --dry-run'
posse explain k3f.1 write:README.md
posse explain @ 2 network",
    ),
    ("wait", "posse wait\nposse wait k3f --timeout 30m\nposse wait k3f.2 --json"),
    (
        "approvals",
        "posse approvals\nposse approvals revoke 'bash:npm publish --dry-run'\nposse approvals revoke --all",
    ),
    (
        "approvals revoke",
        "posse approvals revoke 'bash:npm publish --dry-run'\nposse approvals revoke --all --dir ../other --yes",
    ),
    (
        "approve",
        "posse approve                        # the only call that waits; shows it and asks
posse approve k3f.1
posse approve --always @
posse approve --yes k3f 1 call_2_1   # in a script",
    ),
    ("deny", "posse deny --reason \"not on a Friday\"\nposse deny --yes k3f.1"),
    (
        "send",
        "posse send k3f \"use the new API\"\nposse send @.2 \"stop after the first file\"\nposse send @ - < notes.md",
    ),
    ("cancel", "posse cancel @\nposse cancel k3f.2 --reason \"wrong approach\""),
    ("kill", "posse kill @\nposse kill k3f 2"),
    ("apply", "posse apply @\nposse apply k3f.3\nposse apply k3f --unfinished\nposse apply --undo"),
    ("salvage", "posse salvage\nposse salvage k3f.2 --restore ../rescued"),
    ("serve", "posse serve\nposse serve --resume\nposse serve --listen 127.0.0.1:0"),
    ("rm", "posse rm k3f\nposse rm @ @2 --yes"),
    ("gc", "posse gc --dry-run\nposse gc\nposse gc --runs 30d --yes"),
    ("verify", "posse verify\nposse verify --all"),
    ("export", "posse export k3f\nposse export @ --output bug.posse"),
    ("init", "posse init"),
    ("doctor", "posse doctor"),
    ("models", "posse models\nposse models sonnet\nposse models --all"),
    ("settings", "posse settings\nposse settings --json"),
    ("trust", "posse trust --list\nposse trust\nposse trust --revoke"),
    ("agents", "posse agents\nposse agents show explore\nposse agents validate .claude/agents"),
    ("agents show", "posse agents show explore"),
    ("agents validate", "posse agents validate .claude/agents"),
    ("skills", "posse skills\nposse skills show changelog\nposse skills validate .claude/skills"),
    ("skills show", "posse skills show changelog"),
    ("skills validate", "posse skills validate .claude/skills"),
    (
        "completions",
        "posse completions bash > ~/.local/share/bash-completion/completions/posse
posse completions zsh > ~/.zfunc/_posse
posse completions fish > ~/.config/fish/completions/posse.fish",
    ),
    ("man", "posse man | man -l -\nposse man --dir ~/.local/share/man/man1"),
];

/// The parser of the command line with its complete help.
pub(crate) fn command() -> Command {
    let mut command = with_examples(Cli::command(), "");
    let template = format!(
        "{{about}}\n\n{{usage-heading}} {{usage}}\n{}\nOptions:\n{{options}}{{after-help}}",
        groups(&command)
    );
    command = command.help_template(template);
    command
}

/// Adds to a verb and its subverbs their examples.
fn with_examples(mut command: Command, path: &str) -> Command {
    let names: Vec<String> = command.get_subcommands().map(|verb| verb.get_name().to_owned()).collect();
    for name in names {
        let whole = if path.is_empty() { name.clone() } else { format!("{path} {name}") };
        command = command.mut_subcommand(name, |verb| with_examples(verb, &whole));
    }
    match examples(path) {
        Some(examples) => command.after_help(format!("Examples:\n{}", indented(examples))),
        None => command,
    }
}

fn examples(path: &str) -> Option<&'static str> {
    EXAMPLES.iter().find(|(verb, _)| *verb == path).map(|(_, examples)| *examples)
}

fn indented(lines: &str) -> String {
    let lines: Vec<String> = lines.lines().map(|line| format!("  {line}")).collect();
    lines.join("\n")
}

/// The verbs in their groups, each with its first line.
fn groups(command: &Command) -> String {
    let (mut text, width) = (String::new(), output_width());
    for (title, verbs) in GROUPS {
        let _ = writeln!(text, "\n{title}:");
        for name in verbs {
            let verb = command.find_subcommand(name);
            let about = verb.and_then(Command::get_about).map(ToString::to_string);
            let about = about.unwrap_or_else(|| "Print this help, or that of a verb".to_owned());
            let aliases: Vec<&str> = verb.into_iter().flat_map(Command::get_visible_aliases).collect();
            let aliases =
                if aliases.is_empty() { String::new() } else { format!(" [{}]", aliases.join(", ")) };
            let (name, about) = (format!("  {name:12} "), format!("{about}{aliases}"));
            match width {
                Some(width) => text.push_str(&hanging(&name, &about, width)),
                None => {
                    let _ = writeln!(text, "{name}{about}");
                }
            }
        }
    }
    text
}

/// What `posse` alone prints where there is no terminal for a prompt.
pub(crate) fn hint_for_nothing() -> &'static str {
    "\
Usage: posse VERB [ARGUMENTS]

  posse run \"fix the failing test\"   start a run and watch it
  posse demo                         watch a run that needs no key and no set-up
  posse ps                           list the runs
  posse help                         all verbs; `posse help VERB` explains one
"
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every verb that is not hidden, `verb` or `verb subverb`.
    fn verbs(command: &Command, path: &str) -> Vec<String> {
        let mut all = Vec::new();
        for verb in command.get_subcommands().filter(|verb| !verb.is_hide_set()) {
            let whole = format!("{path}{}", verb.get_name());
            all.extend(verbs(verb, &format!("{whole} ")));
            all.push(whole);
        }
        all
    }

    #[test]
    fn every_verb_is_in_one_group_and_has_examples() {
        let command = Cli::command();
        let grouped: Vec<&str> = GROUPS.iter().flat_map(|(_, verbs)| verbs.iter().copied()).collect();
        for verb in verbs(&command, "") {
            assert!(examples(&verb).is_some(), "`posse {verb}` has no examples");
            let times = grouped.iter().filter(|name| **name == verb).count();
            assert_eq!(times, usize::from(!verb.contains(' ')), "`{verb}` in the groups");
        }
        let known = verbs(&command, "");
        for (verb, _) in EXAMPLES {
            assert!(known.iter().any(|known| known == verb), "there is no verb `{verb}`");
        }
    }

    /// The arguments of a line, by the rules of a shell as far as the examples need them.
    fn words(line: &str) -> Vec<String> {
        let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None);
        for c in line.chars() {
            match (quote, c) {
                (Some(open), c) if c == open => quote = None,
                (None, '"' | '\'') => {
                    quote = Some(c);
                    word.get_or_insert_default();
                }
                (None, '#' | '>' | '<' | '|') if word.is_none() => break,
                (None, ' ') => words.extend(word.take()),
                (_, c) => word.get_or_insert_default().push(c),
            }
        }
        words.extend(word);
        words
    }

    #[test]
    fn every_example_can_be_typed() {
        for (_, examples) in EXAMPLES {
            for line in examples.lines() {
                let line = line
                    .split_once(" | posse ")
                    .map_or(line.to_owned(), |(_, after)| format!("posse {after}"));
                let parsed = command().try_get_matches_from(words(&line));
                assert!(parsed.is_ok(), "{line}: {}", parsed.expect_err("refused"));
            }
        }
    }
}
