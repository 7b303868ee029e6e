//! `posse completions`.

use clap_complete::env::Shells;

use crate::complete::VARIABLE;
use crate::context::Context;
use crate::error::CliError;
use crate::exit::Exit;
use crate::output::Output;

/// The shells with a script.
const SHELLS: [&str; 5] = ["bash", "zsh", "fish", "elvish", "powershell"];

/// Print a completion script for a shell
///
/// The script asks this program for candidates, so it knows your runs, agents, skills and models.
#[derive(Debug, clap::Args)]
pub(crate) struct CompletionsArgs {
    /// The shell
    #[arg(value_parser = SHELLS)]
    shell: String,
}

/// Prints the script.
pub(crate) fn completions(args: &CompletionsArgs, context: &Context) -> Result<Exit, CliError> {
    let unknown = || CliError::usage(format!("there is no script for {}", args.shell));
    let shells = Shells::builtins();
    let shell = shells.completer(&args.shell).ok_or_else(unknown)?;
    let mut script = Vec::new();
    shell
        .write_registration(VARIABLE, "posse", "posse", &context.program, &mut script)
        .map_err(|error| CliError::failed(format!("the script cannot be written: {error}")))?;
    let script = String::from_utf8_lossy(&script).into_owned();
    let script = if args.shell == "bash" { with_whole_names(&script) } else { script };
    let mut output = Output::new();
    output.own(&script)?;
    output.flush()?;
    Ok(Exit::DONE)
}

/// The end of the part of the script for bash that collects the words, and the end of its function.
const BASH_PLACES: [&str; 2] = ["        words[COMP_CWORD]=\"$2\"\n    fi\n", "\n}\nif "];
/// Joins the pieces of the word at the cursor, and removes from the candidates what bash does not replace.
const BASH_JOINS: [&str; 2] = [
    r#"    # Names such as `@.1` have an `@`, at which bash breaks words.
    local at="${COMP_LINE:0:COMP_POINT}"
    at="${at##*[[:space:]]}"
    local kept="" first=$COMP_CWORD joined="${COMP_WORDS[COMP_CWORD]}"
    if [[ "$at" == *@* ]]; then
        while [[ "$joined" != "$at" && $first -gt 1 ]]; do
            first=$((first - 1))
            joined="${COMP_WORDS[first]}$joined"
        done
        words=("${COMP_WORDS[@]:0:first}" "$at")
        _CLAP_COMPLETE_INDEX=$first
        kept="${at%"$2"}"
    fi
"#,
    r#"
    COMPREPLY=("${COMPREPLY[@]#"$kept"}")"#,
];

/// The script for bash with names that have an `@`.
fn with_whole_names(script: &str) -> String {
    let [words, end] = BASH_PLACES;
    let [join, strip] = BASH_JOINS;
    script.replacen(words, &format!("{words}{join}"), 1).replacen(end, &format!("{strip}{end}"), 1)
}
