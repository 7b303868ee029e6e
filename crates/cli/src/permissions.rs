//! What a run's flags say about permissions: `--allow`, `--ask`, `--deny`, in the order they were typed.

use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use posse::{Decision, Pattern, Rule};
use posse_agent::definition::about_no_tool;

use crate::error::CliError;

/// `--allow`, `--ask` and `--deny`.
///
/// Not derived: of two rules the last that matches wins, so the order of `--ask` and `--deny` among each other
/// counts, and a field for each would lose it.
#[derive(Debug, Clone, Default)]
pub(crate) struct PermissionArgs {
    /// What a person allows in advance.
    pub(crate) allow: Vec<Pattern>,
    /// The run's own rules.
    pub(crate) rules: Vec<Rule>,
}

impl PermissionArgs {
    /// Refuses a pattern for a tool that does not exist: a slip of the pen would protect nothing.
    pub(crate) fn are_about(&self, tools: &[&'static str]) -> Result<(), CliError> {
        let ruled = self.rules.iter().map(|rule| (flag_of(rule.decision), &rule.pattern));
        for (flag, pattern) in self.allow.iter().map(|pattern| ("--allow", pattern)).chain(ruled) {
            if let Some(problem) = about_no_tool(pattern, tools) {
                return Err(CliError::usage(format!("{flag}: {problem}")));
            }
        }
        Ok(())
    }
}

fn flag_of(decision: Decision) -> &'static str {
    match decision {
        Decision::Allow => "--allow",
        Decision::Ask => "--ask",
        Decision::Deny => "--deny",
    }
}

const FLAGS: [(&str, &str); 3] = [
    (
        "allow",
        "Say yes in advance where a definition asks, and open protected names and non-public addresses that it \
         names; lifts no deny and no rule of others [repeatable]",
    ),
    ("ask", "Ask before operations like this, such as 'bash:git *' or 'write:src/**' [repeatable]"),
    ("deny", "Refuse operations like this; of --ask and --deny the last that fits counts [repeatable]"),
];

impl clap::Args for PermissionArgs {
    fn augment_args(command: Command) -> Command {
        let flag = |(name, help)| {
            Arg::new(name)
                .long(name)
                .value_name("PATTERN")
                .action(ArgAction::Append)
                .value_parser(value_parser!(Pattern))
                .help(help)
        };
        command.args(FLAGS.map(flag))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl clap::FromArgMatches for PermissionArgs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let given = |flag: &str| matches.get_many::<Pattern>(flag).into_iter().flatten().cloned();
        let mut in_order: Vec<(usize, Rule)> = Vec::new();
        for (flag, decision) in [("ask", Decision::Ask), ("deny", Decision::Deny)] {
            let places = matches.indices_of(flag).into_iter().flatten();
            in_order.extend(places.zip(given(flag).map(|pattern| Rule { pattern, decision })));
        }
        in_order.sort_by_key(|(place, _)| *place);
        let rules = in_order.into_iter().map(|(_, rule)| rule).collect();
        Ok(Self { allow: given("allow").collect(), rules })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use clap::{Args as _, FromArgMatches as _};

    use super::*;

    fn read(args: &[&str]) -> Result<PermissionArgs, String> {
        let command = PermissionArgs::augment_args(Command::new("x").no_binary_name(true));
        let matches = command.try_get_matches_from(args).map_err(|error| error.to_string())?;
        PermissionArgs::from_arg_matches(&matches).map_err(|error| error.to_string())
    }

    #[test]
    fn rules_keep_the_order_in_which_they_were_typed() {
        let typed = ["--deny", "bash", "--allow", "network", "--ask", "bash:git *", "--deny=bash:git push*"];
        let read = read(&typed).expect("read");
        let rules: Vec<String> = read.rules.iter().map(ToString::to_string).collect();
        assert_eq!(rules, ["bash -> deny", "bash:git * -> ask", "bash:git push* -> deny"]);
        assert_eq!(read.allow.iter().map(Pattern::as_str).collect::<Vec<_>>(), ["network"]);
    }

    #[test]
    fn a_tool_that_does_not_exist_is_refused_with_the_one_that_was_meant() {
        let tools = ["bash", "write"];
        let check = |args: &[&str]| read(args).expect("read").are_about(&tools);
        for fine in
            [&["--deny", "bash:rm *"][..], &["--allow", "network", "--ask", "*"], &["--deny", "gh__x"]]
        {
            assert!(check(fine).is_ok(), "{fine:?}");
        }
        let error = check(&["--deny", "Bash:rm *"]).expect_err("no such tool");
        assert_eq!(error.message(), "--deny: there is no tool `Bash` (did you mean `bash`?)");
    }

    #[test]
    fn a_bad_pattern_is_an_error_that_names_the_flag_and_the_problem() {
        for (flag, pattern, problem) in [
            ("--allow", "write:../x", "`..`"),
            ("--ask", "bash:", "nothing follows the colon"),
            ("--deny", "*:x", "takes no specifier"),
            ("--deny", "", "tool"),
        ] {
            let error = read(&[flag, pattern]).expect_err("bad");
            assert!(error.contains(flag) && error.contains(problem), "{error}");
        }
    }
}
