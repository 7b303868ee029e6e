//! How a command shows its progress: colour, animation, how much. Colour and animation do not depend on each other.

use std::io::IsTerminal;

use crate::env::TerminalVariables;
use crate::view::is_in_foreground;

/// Options of every verb about what it shows.
#[derive(Debug, Clone, Copy, Default, clap::Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of the command line")]
#[command(next_help_heading = "Display")]
pub(crate) struct DisplayArgs {
    /// When to use colour: `auto`, `always` or `never`; `auto` means on a terminal, unless `NO_COLOR`, `CLICOLOR=0` or `TERM=dumb` is set
    #[arg(
        long,
        global = true,
        hide_short_help = true,
        value_name = "WHEN",
        default_value = "auto",
        hide_possible_values = true
    )]
    pub(crate) color: ColorWhen,
    /// Print lines instead of a live tree, also on a terminal
    #[arg(long, global = true, hide_short_help = true)]
    pub(crate) plain: bool,
    /// Print no progress, only results, questions and errors
    #[arg(long, global = true, hide_short_help = true, conflicts_with = "verbose")]
    pub(crate) quiet: bool,
    /// Print turns and tool calls too
    #[arg(long, global = true, hide_short_help = true)]
    pub(crate) verbose: bool,
    /// Notify the user when a run needs an answer or has ended: a bell and, where the terminal can, a desktop notice
    #[arg(long, global = true, hide_short_help = true)]
    pub(crate) notify: bool,
}

/// When to use colour.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum ColorWhen {
    /// On a terminal, unless the environment disables it.
    #[default]
    Auto,
    /// Also without a terminal.
    Always,
    /// Never.
    Never,
}

/// How much progress is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Detail {
    /// Nothing but results, questions and errors.
    Quiet,
    /// State changes of agents.
    Usual,
    /// Turns and tool calls too.
    Verbose,
}

/// What a command shows, and how.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "they do not depend on each other")]
pub(crate) struct Display {
    /// Whether progress is a live tree.
    pub(crate) is_live: bool,
    /// Whether progress, on standard error, is coloured.
    pub(crate) is_coloured: bool,
    /// Whether data, on standard output, is coloured.
    pub(crate) is_output_coloured: bool,
    pub(crate) detail: Detail,
    /// Whether the user is notified.
    pub(crate) notifies: bool,
}

/// Which streams of a process are terminals.
#[derive(Debug, Clone, Copy)]
struct Terminals {
    stdout: bool,
    stderr: bool,
}

impl Display {
    /// By the typed options, the environment and the type of the streams.
    pub(crate) fn new(args: DisplayArgs, variables: TerminalVariables) -> Self {
        let terminals =
            Terminals { stdout: std::io::stdout().is_terminal(), stderr: std::io::stderr().is_terminal() };
        let display = Self::of(args, variables, terminals);
        // A job that was started in the background prints lines: the screen is another job's.
        Self { is_live: display.is_live && is_in_foreground(), ..display }
    }

    /// For a log file.
    pub(crate) fn of_log() -> Self {
        Self {
            is_live: false,
            is_coloured: false,
            is_output_coloured: false,
            detail: Detail::Usual,
            notifies: false,
        }
    }

    fn of(args: DisplayArgs, variables: TerminalVariables, terminals: Terminals) -> Self {
        let is_coloured = |is_terminal: bool| match args.color {
            ColorWhen::Always => true,
            ColorWhen::Never => false,
            ColorWhen::Auto if variables.no_color => false,
            ColorWhen::Auto if variables.force_color => true,
            ColorWhen::Auto => is_terminal && !variables.is_dumb && !variables.no_clicolor,
        };
        let detail = match (args.quiet, args.verbose) {
            (true, _) => Detail::Quiet,
            (_, true) => Detail::Verbose,
            _ => Detail::Usual,
        };
        Self {
            is_live: terminals.stderr && !variables.is_dumb && !args.plain && !args.quiet,
            is_coloured: is_coloured(terminals.stderr),
            is_output_coloured: is_coloured(terminals.stdout),
            detail,
            notifies: args.notify,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TERMINAL: Terminals = Terminals { stdout: true, stderr: true };
    const PIPE: Terminals = Terminals { stdout: false, stderr: false };

    fn shown(args: DisplayArgs, variables: &[(&str, &str)], terminals: Terminals) -> (bool, bool) {
        let variables: Vec<_> = variables.iter().map(|(name, value)| (name.into(), value.into())).collect();
        let display = Display::of(args, TerminalVariables::of(&variables), terminals);
        (display.is_live, display.is_coloured)
    }

    #[test]
    fn colour_does_not_depend_on_animation() {
        let usual = DisplayArgs::default();
        let xterm = ("TERM", "xterm");
        assert_eq!(shown(usual, &[xterm], TERMINAL), (true, true));
        assert_eq!(shown(usual, &[xterm, ("NO_COLOR", "1")], TERMINAL), (true, false));
        assert_eq!(shown(usual, &[xterm, ("NO_COLOR", "")], TERMINAL), (true, true));
        assert_eq!(shown(usual, &[xterm, ("CLICOLOR", "0")], TERMINAL), (true, false));
        assert_eq!(shown(usual, &[xterm, ("CLICOLOR", "1")], TERMINAL), (true, true));
        let plain = DisplayArgs { plain: true, ..usual };
        assert_eq!(shown(plain, &[xterm], TERMINAL), (false, true));
        for dumb in [&[("TERM", "dumb")] as &[(&str, &str)], &[]] {
            assert_eq!(shown(usual, dumb, TERMINAL), (false, false));
        }
    }

    #[test]
    fn a_pipe_is_coloured_only_on_request() {
        let usual = DisplayArgs::default();
        let xterm = ("TERM", "xterm");
        assert_eq!(shown(usual, &[xterm], PIPE), (false, false));
        assert_eq!(shown(usual, &[xterm, ("CLICOLOR_FORCE", "1")], PIPE), (false, true));
        assert_eq!(shown(usual, &[xterm, ("CLICOLOR_FORCE", "0")], PIPE), (false, false));
        let with = |color| DisplayArgs { color, ..usual };
        assert_eq!(shown(with(ColorWhen::Always), &[("NO_COLOR", "1")], PIPE), (false, true));
        assert_eq!(shown(with(ColorWhen::Never), &[("CLICOLOR_FORCE", "1"), xterm], TERMINAL), (true, false));
    }
}
