//! `posse trust`.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use posse_setup::project_files::{ProjectFiles, ShownFile};
use posse_setup::trust::{Trust, TrustState};

use crate::confirm::confirm;
use crate::context::Context;
use crate::error::CliError;
use crate::exit::Exit;
use crate::output::Output;
use crate::term;
use crate::text::plural;

/// Trust the files of this project
///
/// Shows every file of the project that could run code or widen permissions, with its effects, and asks. Exactly this
/// content is trusted; a file that changes is not, until you trust it again. Providers, keys, addresses and prices in a
/// project's settings never apply.
#[derive(Debug, clap::Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own")]
pub(crate) struct TrustArgs {
    /// The directory of the project [default: the current one]
    #[arg(value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Only show the files and whether you trust them
    #[arg(long)]
    list: bool,
    /// Revoke the trust of everything in the project
    #[arg(long, conflicts_with_all = ["list", "yes", "json"])]
    revoke: bool,
    /// Do not ask
    #[arg(long, conflicts_with = "list")]
    yes: bool,
    /// With --list: print one JSON object
    #[arg(long, requires = "list")]
    json: bool,
}

/// Shows the files, asks, and stores the trust.
pub(crate) fn trust(args: &TrustArgs, context: &Context) -> Result<Exit, CliError> {
    let cwd = &context.environment.cwd;
    let dir = args.dir.as_ref().map_or_else(|| cwd.clone(), |dir| cwd.join(dir));
    let wrong = |problem: String| CliError::usage(format!("{}: {problem}", dir.display()));
    let whole = dir.canonicalize().map_err(|error| wrong(error.to_string()))?;
    if !whole.is_dir() {
        return Err(wrong("is not a directory".to_owned()));
    }
    if args.revoke {
        return revoke(&whole, context);
    }
    let project = ProjectFiles::find(&whole, context)?;
    let mut output = Output::new();
    if args.json {
        output.json(&project.list())?;
        return Ok(Exit::DONE);
    }
    output.prose(&page(&project))?;
    output.flush()?;
    if args.list {
        return Ok(Exit::DONE);
    }
    let waiting: Vec<&ShownFile> =
        project.files.iter().filter(|file| file.standing != TrustState::Trusted).collect();
    if waiting.is_empty() {
        // The page says so of a project without such files.
        if !project.files.is_empty() {
            output.own("nothing needs trust\n")?;
            output.flush()?;
        }
        return Ok(Exit::DONE);
    }
    let question = format!("trust {} exactly as shown?", plural(waiting.len() as u64, "file"));
    if !args.yes && !confirm(&question, "nothing was trusted")? {
        output.own("nothing was trusted\n")?;
        output.flush()?;
        return Ok(Exit::DONE);
    }
    let shown = waiting.iter().map(|file| (file.path.clone(), file.hash)).collect();
    Trust::add(context.state_dir()?, shown)?;
    output.own(&format!("trusted: {}, as shown\n", plural(waiting.len() as u64, "file")))?;
    output.flush()?;
    Ok(Exit::DONE)
}

fn revoke(dir: &Path, context: &Context) -> Result<Exit, CliError> {
    let dirs = posse_setup::project_dirs::project_dirs(dir, context.environment.home.as_deref());
    let root = dirs.last().map_or(dir, PathBuf::as_path);
    let taken = Trust::revoke(context.state_dir()?, root)?;
    let mut output = Output::new();
    output.paragraph(&format!(
        "revoked the trust of {} in {}",
        plural(taken as u64, "file"),
        root.display()
    ))?;
    output.flush()?;
    Ok(Exit::DONE)
}

/// Every file with its effects, with control characters made visible.
fn page(project: &ProjectFiles) -> String {
    let mut page = String::new();
    if project.files.is_empty() {
        let root = term::visible_line(&project.root.display().to_string());
        let _ = writeln!(page, "{root} has nothing that needs trust");
    }
    for file in &project.files {
        let path = file.path.strip_prefix(&project.root).unwrap_or(&file.path);
        let standing = match file.standing {
            TrustState::Trusted => "trusted",
            TrustState::Changed => "changed",
            TrustState::New => "new",
        };
        let _ = writeln!(page, "{standing:<8} {}", term::visible_line(&path.display().to_string()));
        for line in file.does.iter().chain(&file.undetermined) {
            let _ = writeln!(page, "{:<12} {}", "", term::visible_line(line));
        }
    }
    for line in &project.passed_over {
        let _ = writeln!(page, "{:<8} {}", "ignored", term::visible_line(line));
    }
    page
}
