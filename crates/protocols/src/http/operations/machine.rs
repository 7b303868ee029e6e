//! Operations about the machine and its user: definitions, skills, settings, models, sums over all runs.

use std::path::Path;

use posse::api;
use posse_setup::discovery::{DefinitionList, DiscoveryResult};
use posse_setup::plan::file::{Judge, plan_check};
use posse_setup::project_files::ProjectFiles;
use posse_setup::settings::ResolvedSettings;
use posse_setup::{SetupError, doctor, model_list, models as model_setup};

use super::super::hosting::blocking;
use super::super::limits::RUNS_COUNTED_MAX;
use super::super::problem::Problem;
use super::super::refusal::{ApiWords, note_line};
use super::super::reply::Reply;
use super::super::requests::{self, CheckPlan};
use super::Call;
use super::starting::check_plan_models;

/// The letters of a day in a timestamp.
const DAY_CHARS: usize = 10;

/// Shows what all runs spent. Days are those of UTC, because clients have their own time zones.
pub(super) async fn stats(call: Call) -> Result<Reply, Problem> {
    let day = |at_ms: i64| api::timestamp(at_ms)[..DAY_CHARS].to_owned();
    let all = call.tenant.posse.spending(RUNS_COUNTED_MAX, None, day).await?;
    Reply::object(&api::AllStats::new(&all))
}

/// Lists the agent definitions of a directory.
pub(super) async fn agents(call: Call) -> Result<Reply, Problem> {
    blocking(move || {
        let found = discovered(&call)?;
        let built_in = posse::builtin();
        Reply::object(&DefinitionList::agents(&found, &built_in).to_api())
    })
    .await?
}

/// Lists the skills of a directory.
pub(super) async fn skills(call: Call) -> Result<Reply, Problem> {
    blocking(move || Reply::object(&DefinitionList::skills(&discovered(&call)?).to_api())).await?
}

/// What a run in the directory of a request would discover.
fn discovered(call: &Call) -> Result<DiscoveryResult, Problem> {
    let dir = call.dir()?;
    let setup = &call.tenant.setup;
    Ok(DiscoveryResult::load(Path::new(&dir), Some(&model_setup::usual(setup)?), setup)?)
}

/// Lists the settings of a directory.
pub(super) async fn settings(call: Call) -> Result<Reply, Problem> {
    blocking(move || {
        let dir = call.dir()?;
        let resolved = ResolvedSettings::with_unused_matchers(&call.tenant.setup, Path::new(&dir))?;
        Reply::object(&resolved.list(&call.tenant.setup, note_line))
    })
    .await?
}

/// Lists models.
pub(super) async fn models(call: Call) -> Result<Reply, Problem> {
    let listed: Result<_, SetupError> = blocking(move || model_list::list(&call.tenant.setup)).await?;
    Reply::object(&listed?)
}

/// Lists the files of a project that need trust.
pub(super) async fn trust(call: Call) -> Result<Reply, Problem> {
    blocking(move || {
        let dir = call.dir()?;
        Reply::object(&ProjectFiles::find(Path::new(&dir), &call.tenant.setup)?.list())
    })
    .await?
}

/// Checks a plan, and starts nothing.
pub(super) async fn check_plan(call: Call) -> Result<Reply, Problem> {
    let request: CheckPlan = requests::read(&call.body)?;
    let text = request.text()?;
    check_plan_models(&text, &call)?;
    blocking(move || {
        let setup = &call.tenant.setup;
        let dir = call.dir_of(request.dir.as_deref())?;
        let models = model_setup::usual(setup)?;
        let found = DiscoveryResult::load(Path::new(&dir), Some(&models), setup)?;
        let judge = Judge::new(request.agent.as_deref(), None, &found, setup)?;
        let judged = judge.judge(&text, Path::new(&dir), &models);
        Reply::object(&plan_check(judged.as_ref().map_err(Vec::as_slice)))
    })
    .await?
}

/// Inspects the machine.
pub(super) async fn doctor(call: Call) -> Result<Reply, Problem> {
    Reply::object(&doctor::inspect(&call.tenant.setup, &ApiWords).await)
}
