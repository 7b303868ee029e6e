//! Builds the input of hooks for the call desk: the moment, the agent, the call, and the directory in which hooks run.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use posse_domain::event::EffectClass;
use posse_domain::id::AgentId;
use posse_domain::permission::PathRules;

use super::SeenDuringCall;
use super::hooks::HookedMoment;
use crate::driver::core::Core;
use crate::driver::desks::files::{FilesDesk, files_of};
use crate::ports::{CallContext, CallFiles, HookAccess, HookCall, HookedCall, Moment, StopSignal};

/// Builds the complete input of hooks.
pub(super) fn hook_call(
    core: &Core,
    files: &FilesDesk,
    id: &AgentId,
    about: &HookedMoment,
    call: Option<HookedCall>,
    report: Option<String>,
    stop: StopSignal,
) -> Option<HookCall> {
    let agent = core.run.open(id)?;
    let (moment, call_id) = match about {
        HookedMoment::Before(call_id) | HookedMoment::Command(call_id) => {
            (Moment::PreToolUse, call_id.clone())
        }
        HookedMoment::After(call_id) => (Moment::PostToolUse, call_id.clone()),
        HookedMoment::Start => (Moment::SubagentStart, "start".into()),
        HookedMoment::Stop => (Moment::SubagentStop, "stop".into()),
    };
    let (workspace, call_files, own) = workspace_for_hooks(core, files, id);
    let class = call.as_ref().and_then(|call| core.tool(&call.tool)).map(|tool| tool.class);
    let changes = moment == Moment::PostToolUse && class.is_some_and(EffectClass::changes_workspace);
    let reach = match (own, changes) {
        (false, _) => HookAccess::Borrowed,
        (true, true) => HookAccess::Change,
        (true, false) => HookAccess::Read,
    };
    let approvals = &core.run.terms.approvals;
    let at = CallContext {
        agent: id.clone(),
        context: Arc::new(agent.contract.context.clone()),
        call_id,
        workspace,
        files: call_files,
        seen: Arc::new(SeenDuringCall::default()),
        skills: Arc::default(),
        rules: PathRules::default(),
        approvals: approvals.clone(),
        network: agent.authority.allows_network(approvals),
        // Each hook has its own limit.
        limit: Duration::MAX,
        idle: Duration::MAX,
        stop,
    };
    let definition = agent.prepared.definition.name.clone();
    let skill = agent.contract.execution.skill.clone();
    Some(HookCall { moment, at, reach, definition, skill, call, report })
}

/// The directory in which an agent's hooks run, its kind of files, and whether they are the agent's own. An agent
/// without files uses the files of its nearest ancestor that has some, or else the user's folder.
fn workspace_for_hooks(core: &Core, files: &FilesDesk, id: &AgentId) -> (Arc<PathBuf>, CallFiles, bool) {
    let isolated = core.run.is_isolated();
    let mut at = Some(id.clone());
    while let Some(agent) = at {
        if let Some(dir) = files.dir_of(&agent) {
            let made = core.run.open(&agent).is_some_and(|agent| agent.files.made);
            let own = agent == *id && (made || !isolated);
            return (dir.clone(), files_of(core, &agent), own);
        }
        at = agent.parent();
    }
    (core.run_dir.clone(), CallFiles::Folder, false)
}
