//! `posse init`.

use std::path::PathBuf;

use posse::api;
use posse_setup::WithNotes;
use posse_setup::project_dirs::OWN_FOLDER;
use posse_setup::scaffold::{ScaffoldedFile, scaffold};

use crate::context::Context;
use crate::error::CliError;
use crate::exit::Exit;
use crate::output::{Output, print_notes};

/// Write a small settings file and an example agent into this project
///
/// Creates .posse/settings.yaml and .posse/agents/example.md. Existing files are not changed.
#[derive(Debug, clap::Args)]
pub(crate) struct InitArgs {
    /// The directory of the project [default: the current one]
    #[arg(value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Replace the two files if they exist
    #[arg(long)]
    force: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Writes the files.
pub(crate) fn init(args: &InitArgs, context: &Context) -> Result<Exit, CliError> {
    let WithNotes { value: files, notes } = scaffold(args.dir.as_deref(), args.force, context)?;
    let mut output = Output::new();
    if args.json {
        let file = |file: &ScaffoldedFile| api::InitFile {
            path: file.path.display().to_string(),
            written: file.is_written,
        };
        output.json(&api::InitResult { files: files.iter().map(file).collect() })?;
        print_notes(&notes);
        return Ok(Exit::DONE);
    }
    for file in &files {
        let outcome = if file.is_written { "wrote" } else { "unchanged" };
        output.paragraph(&format!("{outcome}: {}", file.path.display()))?;
    }
    print_notes(&notes);
    let program = &context.program;
    output.paragraph(&if files.iter().any(|file| file.is_written) {
        format!(
            "Edit them, then run `{program} trust` so that they can also widen permissions; `{program} settings` and `{program} agents` show the effective values."
        )
    } else {
        format!("Nothing was written; `{program} init --force` replaces what is in {OWN_FOLDER}.")
    })?;
    output.flush()?;
    Ok(Exit::DONE)
}
