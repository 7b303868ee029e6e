//! Flags that are settings of one run: one for each row of the settings table that has a flag. A new row needs nothing
//! here.

use clap::{Arg, ArgAction, ArgMatches, Command};
use posse_setup::settings::keys::{Flag, Key, with_flag};
use posse_setup::settings::{Origin, Settings, WithOrigin};
use serde_json::Value;

/// The base URL of the model's provider. It is not a key, because the settings have one for each provider.
const BASE_URL: &str = "base-url";
/// The keys that apply to a run of the planner.
const PLANNER_KEYS: [&str; 5] =
    ["model", "agent.max_turns", "agent.max_tokens", "agent.max_usd", "agent.max_time"];

/// The typed settings of a run, or only those that apply to the planner.
#[derive(Debug, Clone, Default)]
pub(crate) struct SettingFlags<const PLANNER: bool>(pub(crate) Settings);

fn flags(planner: bool) -> impl Iterator<Item = (&'static Key, Flag)> {
    with_flag().filter(move |(key, _)| !planner || PLANNER_KEYS.contains(&key.name))
}

/// The name of a flag without its dashes, which is also the id of its argument.
fn id(flag: Flag) -> &'static str {
    flag.name.trim_start_matches('-')
}

fn argument((key, flag): (&'static Key, Flag)) -> Arg {
    let argument = Arg::new(id(flag)).long(id(flag));
    if flag.value.is_empty() {
        return argument.action(ArgAction::SetTrue).help(key.meaning);
    }
    let checked = |text: &str| key.check(text).map(|()| text.to_owned());
    // A negative number is refused by its own check, with better advice than the parser's.
    argument.value_name(flag.value).allow_negative_numbers(true).value_parser(checked).help(help(key))
}

/// The meaning of the key, and its default.
fn help(key: &Key) -> String {
    let default = key.default();
    let default = match (default.words, default.value) {
        (Some(words), _) => words.to_owned(),
        (None, Value::String(text)) => text,
        (None, value) => value.to_string(),
    };
    format!("{} [default: {default}]", key.meaning)
}

impl<const PLANNER: bool> clap::Args for SettingFlags<PLANNER> {
    fn augment_args(command: Command) -> Command {
        let base_url = || {
            let base_url = Arg::new(BASE_URL).long(BASE_URL).value_name("URL");
            base_url.help("The base URL of the model's provider, for example `http://localhost:8080/v1`")
        };
        // In the help it follows the model that it belongs to.
        command.args(flags(PLANNER).flat_map(|(key, flag)| {
            std::iter::once(argument((key, flag))).chain((key.name == "model").then(base_url))
        }))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl<const PLANNER: bool> clap::FromArgMatches for SettingFlags<PLANNER> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let typed = |name: &str| matches.get_one::<String>(name).cloned();
        let base_url = WithOrigin::request(typed(BASE_URL), "--base-url");
        let mut settings = Settings { base_url, ..Settings::default() };
        for (key, flag) in flags(PLANNER) {
            let text = if flag.value.is_empty() {
                matches.get_flag(id(flag)).then(|| "true".to_owned())
            } else {
                typed(id(flag))
            };
            if let Some(text) = text {
                key.set(&mut settings, &text, Origin::Request(flag.name))
                    .map_err(|problem| clap::Error::raw(clap::error::ErrorKind::ValueValidation, problem))?;
            }
        }
        Ok(Self(settings))
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

    fn read(args: &[&str]) -> Result<Settings, String> {
        let command = SettingFlags::<false>::augment_args(Command::new("x").no_binary_name(true));
        let matches = command.try_get_matches_from(args).map_err(|error| error.to_string())?;
        Ok(SettingFlags::<false>::from_arg_matches(&matches).map_err(|error| error.to_string())?.0)
    }

    #[test]
    fn a_flag_sets_its_key_and_the_origin_is_the_flag() {
        let settings =
            read(&["--max-turns", "9", "--may-share-history", "--base-url=http://x"]).expect("read");
        let entries = settings.entries();
        let shown: Vec<_> =
            entries.iter().map(|entry| (entry.key.as_str(), entry.origin.to_string())).collect();
        assert_eq!(
            shown,
            [
                ("agent.max_turns", "--max-turns".to_owned()),
                ("agent.may_share_history", "--may-share-history".to_owned())
            ]
        );
        assert_eq!(settings.base_url.map(|url| url.value).as_deref(), Some("http://x"));
        assert_eq!(read(&[]).expect("nothing"), Settings::default());
    }

    #[test]
    fn a_bad_value_is_an_error_that_names_the_flag_and_what_was_expected() {
        for (args, problem) in [
            (["--max-turns", "0"], "at least 1"),
            (["--max-depth", "deep"], "a whole number"),
            (["--on-ask", "maybe"], "`deny` or `escalate`"),
            (["--max-time", "90"], "a time such as"),
        ] {
            let error = read(&args).expect_err("bad");
            assert!(error.contains(args[0]) && error.contains(problem), "{error}");
        }
    }
}
