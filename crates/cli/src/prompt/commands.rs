//! The commands of the prompt: what a line that begins with `/` means.

use std::fmt::Write;

use super::completion::ProjectNames;

/// A command of the prompt.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Command {
    pub(super) name: &'static str,
    pub(super) about: &'static str,
    action: Action,
}

/// What a command does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Action {
    Help,
    New,
    Model,
    Agent,
    Quit,
    /// The verb of the same name, about the last run.
    OfRun,
    /// The verb of the same name.
    Verb,
}

const fn command(name: &'static str, action: Action, about: &'static str) -> Command {
    Command { name, about, action }
}

/// All commands, the most important first.
pub(super) const COMMANDS: &[Command] = &[
    command("help", Action::Help, "list the commands and keys"),
    command("new", Action::New, "begin afresh: the next request does not continue the last run"),
    command("diff", Action::OfRun, "show the changes of the last run"),
    command("apply", Action::OfRun, "apply the changes of the last run to your files"),
    command("show", Action::OfRun, "show the last run with its agents and their cost"),
    command("report", Action::OfRun, "print the report of the last run"),
    command("trace", Action::OfRun, "print the conversation of the last run"),
    command("attach", Action::OfRun, "watch the last run, which continues in the background"),
    command("retry", Action::OfRun, "try the last run again, if it did not complete"),
    command("resume", Action::OfRun, "continue the last run, if it was interrupted"),
    command("cancel", Action::OfRun, "cancel the last run, which continues in the background"),
    command("model", Action::Model, "use another model from now on"),
    command("agent", Action::Agent, "use another definition for the root from now on"),
    command("skills", Action::Verb, "list the skills; /NAME lets one execute a request"),
    command("agents", Action::Verb, "list the definitions of agents"),
    command("models", Action::Verb, "list the models"),
    command("ps", Action::Verb, "list the runs"),
    command("top", Action::Verb, "watch all runs on a full screen"),
    command("quit", Action::Quit, "leave; Ctrl-D does, too"),
];

/// What a line asks for.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Line {
    /// Work for a run.
    Request(String),
    Help,
    New,
    /// Another model, or the question which one is used.
    Model(Option<String>),
    Agent(Option<String>),
    Quit,
    /// A verb with the last run and further arguments.
    OfRun(&'static str, Vec<String>),
    Verb(&'static str, Vec<String>),
    /// There is no such command or skill.
    Unknown(String),
}

impl Line {
    /// Reads a line.
    pub(super) fn read(text: &str, names: &ProjectNames) -> Self {
        let text = text.trim();
        let word = text.split_whitespace().next().unwrap_or("");
        let Some(name) = word.strip_prefix('/') else { return Self::Request(text.to_owned()) };
        let rest = text[word.len()..].trim();
        let value = || Some(rest.to_owned()).filter(|value| !value.is_empty());
        let words = || rest.split_whitespace().map(str::to_owned).collect();
        let known = COMMANDS.iter().find(|command| command.name == name);
        match known.map(|command| (command.name, command.action)) {
            Some((_, Action::Help)) => Self::Help,
            Some((_, Action::New)) => Self::New,
            Some((_, Action::Quit)) => Self::Quit,
            Some((_, Action::Model)) => Self::Model(value()),
            Some((_, Action::Agent)) => Self::Agent(value()),
            Some((name, Action::OfRun)) => Self::OfRun(name, words()),
            Some((name, Action::Verb)) => Self::Verb(name, words()),
            None if name == "exit" => Self::Quit,
            // A path such as /etc/hosts is no command.
            None if name.is_empty() || name.contains('/') || names.has_skill(name) => {
                Self::Request(text.to_owned())
            }
            None => Self::Unknown(name.to_owned()),
        }
    }
}

/// The page of `/help`.
pub(super) fn help() -> String {
    let mut page = String::from("Type a request; the next one continues the run.\n\n");
    for Command { name, about, .. } in COMMANDS {
        let _ = writeln!(page, "  /{name:8} {about}");
    }
    page.push_str(
        "\n  /NAME and @FILE name a skill and a file; Tab completes both.\n  Alt-Enter, or a backslash before Enter, begins \
         a new line.\n  \u{2191} \u{2193} recall what you typed, Ctrl-R searches it, Ctrl-C clears the line, Ctrl-D \
         quits.\n",
    );
    page
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn lines_are_requests_commands_or_skills() {
        let names =
            ProjectNames { skills: vec![("tidy".to_owned(), String::new())], ..ProjectNames::default() };
        let read = |text: &str| Line::read(text, &names);
        assert_eq!(read(" fix it "), Line::Request("fix it".to_owned()));
        assert_eq!(read("/tidy src"), Line::Request("/tidy src".to_owned()));
        assert_eq!(read("/etc/hosts is wrong"), Line::Request("/etc/hosts is wrong".to_owned()));
        assert_eq!(read("/model  sonnet"), Line::Model(Some("sonnet".to_owned())));
        assert_eq!(read("/model"), Line::Model(None));
        assert_eq!(read("/diff --stat"), Line::OfRun("diff", vec!["--stat".to_owned()]));
        assert_eq!(read("/ps"), Line::Verb("ps", vec![]));
        assert_eq!(read("/nothing"), Line::Unknown("nothing".to_owned()));
        assert_eq!([read("/quit"), read("/exit")], [Line::Quit, Line::Quit]);
    }

    #[test]
    fn every_verb_exists() {
        let cli = crate::args::Cli::command();
        for command in COMMANDS.iter().filter(|known| matches!(known.action, Action::OfRun | Action::Verb)) {
            assert!(cli.find_subcommand(command.name).is_some(), "{}", command.name);
        }
    }
}
