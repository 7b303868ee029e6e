//! Records which arguments of a verb were typed.

use clap::parser::ValueSource;
use clap::{ArgMatches, Command};

/// The ids of the typed arguments. Adds no argument itself.
#[derive(Debug, Clone, Default)]
pub(crate) struct TypedFlags(Vec<String>);

impl TypedFlags {
    /// The first typed flag of `A` that is not one of these ids.
    pub(crate) fn first_other<A: clap::Args>(&self, accepted: &[&str]) -> Option<String> {
        let verb = A::augment_args(Command::new("verb"));
        let refused = |id: &str| !accepted.contains(&id) && self.0.iter().any(|typed| typed == id);
        let other = verb.get_arguments().find(|argument| refused(argument.get_id().as_str()))?;
        Some(other.get_long().map_or_else(|| other.get_id().to_string(), |long| format!("--{long}")))
    }
}

impl clap::Args for TypedFlags {
    fn augment_args(command: Command) -> Command {
        command
    }

    fn augment_args_for_update(command: Command) -> Command {
        command
    }
}

impl clap::FromArgMatches for TypedFlags {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let is_typed = |id: &&clap::Id| matches.value_source(id.as_str()) == Some(ValueSource::CommandLine);
        Ok(Self(matches.ids().filter(is_typed).map(ToString::to_string).collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}
