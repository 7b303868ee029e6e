//! Operations about the files of runs: changes, apply, salvage, bundles.

use std::fs::File;
use std::io::Read;

use axum::body::{Body, Bytes};
use futures::stream;
use posse::{BUNDLE_EXTENSION, DiffForm, DiffOptions, Error, ExportOptions, api};
use posse_setup::export::known_secrets;

use super::super::hosting::blocking;
use super::super::limits::BUNDLE_PIECE_BYTES;
use super::super::problem::{Problem, ProblemCode};
use super::super::reply::Reply;
use super::super::requests::{self, ApplyWork, which};
use super::{Call, agent_of};

/// Shows the changes of an agent as a text.
pub(super) async fn diff(call: Call) -> Result<Reply, Problem> {
    let form = match call.query.one("form") {
        Some("stat") => DiffForm::Stat,
        Some("name_status") => DiffForm::NameStatus,
        _ => DiffForm::Patch,
    };
    Ok(Reply::text(changes(&call, form).await?.1))
}

/// Lists the files that an agent changed.
pub(super) async fn changed_files(call: Call) -> Result<Reply, Problem> {
    let (agent, text) = changes(&call, DiffForm::Patch).await?;
    Reply::object(&api::ChangedFileList::new(&agent, &text))
}

/// Shows the change of one file.
pub(super) async fn file_diff(call: Call) -> Result<Reply, Problem> {
    let (agent, text) = changes(&call, DiffForm::Patch).await?;
    let path = call.query.one("path").unwrap_or_default();
    let found = api::FileDiff::find(&agent, path, &text).ok_or_else(|| {
        let detail = format!("{agent} did not change this file");
        Problem::conflict(ProblemCode::NotThere, detail).field("path")
    });
    Reply::object(&found?)
}

/// The changes of the agent in the path, now or as they were at an event.
async fn changes(call: &Call, form: DiffForm) -> Result<(posse::AgentId, Vec<u8>), Problem> {
    let run = call.run().await?.run;
    let agent = call.agent(&run)?;
    let options = DiffOptions { form, colour: false };
    let posse = &call.tenant.posse;
    posse.agent(&agent).await?;
    let text = match call.query.number("at") {
        Some(event) => posse.diff_at(&agent, event, options).await?,
        None => posse.diff(&agent, options).await?,
    };
    Ok((agent, text))
}

/// Says what an apply would write.
pub(super) async fn check_apply(call: Call) -> Result<Reply, Problem> {
    let run = call.run().await?.run;
    let agent = match call.query.one("agent") {
        Some(agent) => agent_of(&run, agent)?,
        None => run.root(),
    };
    let which = which(call.query.one("unfinished") == Some("true"));
    match call.tenant.posse.check_apply(&agent, which).await {
        // No agent of it could change files.
        Err(Error::NoFiles(_)) => Reply::object(&api::ApplyCheck::new(&agent, None)),
        checked => Reply::object(&api::ApplyCheck::new(&agent, Some(&checked?))),
    }
}

/// Applies the work of a run or of an agent, or takes that back.
pub(super) async fn apply(call: Call) -> Result<Reply, Problem> {
    let request: ApplyWork = requests::read(&call.body)?;
    let which = request.which()?;
    let run = call.run().await?.run;
    let agent = match &request.agent {
        Some(agent) => agent_of(&run, agent)?,
        None => run.root(),
    };
    let posse = &call.tenant.posse;
    let applied = if request.undo {
        Some(posse.undo_apply(&agent).await?)
    } else {
        match posse.apply_agent(&agent, which).await {
            Err(Error::NoFiles(_)) => None,
            applied => Some(applied?),
        }
    };
    Reply::object(&api::ApplyResult::new(&agent, request.undo, applied.as_ref()))
}

/// Lists the salvaged work of a run.
pub(super) async fn salvage(call: Call) -> Result<Reply, Problem> {
    let run = call.run().await?.run;
    let found = match call.tenant.posse.salvages(&run).await {
        // No agent of it could change files.
        Err(Error::NoFiles(_)) => Vec::new(),
        found => found?,
    };
    Reply::object(&api::SalvageList { salvages: found.iter().map(api::Salvage::new).collect() })
}

/// Exports a run as one file.
pub(super) async fn export(call: Call) -> Result<Reply, Problem> {
    let run = call.run().await?.run;
    let slot = call.state.export_slot()?;
    let setup = call.tenant.setup.clone();
    let secrets = blocking(move || known_secrets(&setup)).await??;
    let failed = |error: std::io::Error| Problem::failed(format!("the bundle cannot be made: {error}"));
    // It has everything that the run read: no other user of the machine may see it.
    let folder = tempfile::Builder::new().prefix("posse-export-").tempdir().map_err(failed)?;
    let name = format!("{run}.{BUNDLE_EXTENSION}");
    let path = folder.path().join(&name);
    let options = ExportOptions { secrets, overwrite: false };
    call.tenant.posse.export(&run, &path, options).await?;
    let bundle = File::open(&path).map_err(failed)?;
    // The open file is read to its end without a name.
    drop(folder);
    let pieces = stream::unfold((bundle, slot), |(mut bundle, slot)| async {
        let read = tokio::task::spawn_blocking(move || {
            let mut piece = vec![0; BUNDLE_PIECE_BYTES];
            let read = bundle.read(&mut piece).map(|bytes| {
                piece.truncate(bytes);
                Bytes::from(piece)
            });
            (read, bundle)
        });
        match read.await {
            Ok((Ok(piece), _)) if piece.is_empty() => None,
            Ok((piece, bundle)) => Some((piece, (bundle, slot))),
            // The server ends.
            Err(_) => None,
        }
    });
    Ok(Reply::Bundle(Body::from_stream(pieces), name))
}
