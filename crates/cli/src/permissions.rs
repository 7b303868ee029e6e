//! The permission flags of a run: `--allow`, `--ask`, `--deny`, in the order in which they were typed.

use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use posse::{Decision, Pattern, Rule};
use posse_setup::draft::RunPermissions;

/// `--allow`, `--ask` and `--deny`.
///
/// Not derived: the last rule that matches wins, so the relative order of `--ask` and `--deny` counts, and a field for
/// each would lose it.
#[derive(Debug, Clone, Default)]
pub(crate) struct PermissionArgs(pub(crate) RunPermissions);

const FLAGS: [(&str, &str); 3] = [
    (
        "allow",
        "Pre-approve matching operations that would otherwise ask, protected names and non-public addresses included; overrides neither deny rules nor rules of your own [repeatable]",
    ),
    ("ask", "Ask before operations like this, such as 'bash:git *' or 'write:src/**' [repeatable]"),
    ("deny", "Refuse operations like this; of --ask and --deny, the last one that matches wins [repeatable]"),
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
            let positions = matches.indices_of(flag).into_iter().flatten();
            in_order.extend(positions.zip(given(flag).map(|pattern| Rule { pattern, decision })));
        }
        in_order.sort_by_key(|(position, _)| *position);
        let rules = in_order.into_iter().map(|(_, rule)| rule).collect();
        Ok(Self(RunPermissions { allow: given("allow").collect(), rules }))
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

    fn read(args: &[&str]) -> Result<RunPermissions, String> {
        let command = PermissionArgs::augment_args(Command::new("x").no_binary_name(true));
        let matches = command.try_get_matches_from(args).map_err(|error| error.to_string())?;
        let read = PermissionArgs::from_arg_matches(&matches).map_err(|error| error.to_string())?;
        Ok(read.0)
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
