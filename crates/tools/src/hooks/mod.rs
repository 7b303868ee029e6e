//! A user's hooks: commands that receive the operations of agents as JSON on their standard input, and may object.
//!
//! A hook runs in the same sandbox as `bash`, sees the files as the agent's own programs do, and ends, with all its
//! processes, before the agent continues. Hooks of the same moment run one after the other in the order of the
//! settings, until one objects. A hook without a usable answer objects wherever that still prevents something: a check
//! that does not run must not look like one that passed.
//!
//! Why it is like this: `docs/decisions/hooks-unreadable-output.md`.

mod decision;
mod input;
mod matcher;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use posse_domain::id::RunId;
use posse_domain::permission::still_protected;
use posse_engine::ports::{HookAccess, HookAnswer, HookCall, Hooks, Moment, Urgency};
use posse_sandbox::process::OutputLimits;
use posse_sandbox::{BoxedCommand, CallEnd, EndReason, Exit, SHELL, TimeLimits};
use tokio::sync::watch;

use self::decision::HookDecision;
pub use self::matcher::Matcher;
use crate::ToolServices;
use crate::outputs::plain_name;

/// Default timeout of a hook.
pub const HOOK_TIMEOUT_DEFAULT: Duration = Duration::from_mins(1);
/// Maximum timeout of a hook.
pub const HOOK_TIMEOUT_MAX: Duration = Duration::from_mins(10);
/// Maximum number of hooks of one process.
pub const HOOKS_MAX: usize = 256;
/// Maximum number of failures that a process stores.
const FAILURES_MAX: usize = 1_000;
/// Maximum size of an answer. A longer one is not usable.
const ANSWER_MAX_BYTES: usize = 64 * 1024;
/// Maximum size of standard error that is kept for a reason.
const ERRORS_MAX_BYTES: usize = 16 * 1024;
/// The consequence of a failure that blocks nothing.
const PASSED_OVER: &str = "failed and was passed over";
/// The variable in which scripts for other tools look for the project.
const PROJECT_VARIABLE: &str = "CLAUDE_PROJECT_DIR";

#[derive(Debug, Clone)]
pub struct Hook {
    pub moment: Moment,
    /// The tools or sub-agents that the hook is called for.
    pub matcher: Matcher,
    /// The command line for a shell.
    pub command: String,
    pub timeout: Duration,
    /// Files of the machine that the hook needs, visible in its sandbox at the same path.
    pub files: Vec<PathBuf>,
    /// Where the hook is defined, for readers of its objection.
    pub origin: String,
}

/// A hook that failed by itself. The call proceeded without its answer, or was refused because of that.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HookFailed {
    pub run: RunId,
    /// The hook's index in the settings.
    number: usize,
    /// A message for users.
    pub text: String,
}

/// The failures of a process's hooks in order, each hook once per run.
pub type HookFailures = watch::Receiver<Vec<HookFailed>>;

pub struct CommandHooks {
    hands: ToolServices,
    hooks: Arc<[Hook]>,
    failures: Arc<watch::Sender<Vec<HookFailed>>>,
}

impl CommandHooks {
    /// Runs hooks with the services that tools have.
    pub fn new(hands: ToolServices, hooks: impl IntoIterator<Item = Hook>) -> Self {
        Self { hands, hooks: hooks.into_iter().take(HOOKS_MAX).collect(), failures: Arc::default() }
    }

    /// The failures of hooks. No run stops for them, so a front end should show them.
    pub fn failures(&self) -> HookFailures {
        self.failures.subscribe()
    }
}

fn wants(hook: &Hook, moment: Moment, about: &str) -> bool {
    hook.moment == moment && hook.matcher.matches(about)
}

impl Hooks for CommandHooks {
    fn wants(&self, moment: Moment, about: &str) -> bool {
        self.hooks.iter().any(|hook| wants(hook, moment, about))
    }

    fn run(&self, call: HookCall) -> BoxFuture<'static, HookAnswer> {
        let (hands, hooks, failures) = (self.hands.clone(), self.hooks.clone(), self.failures.clone());
        Box::pin(async move {
            let about = call.call.as_ref().map_or(&call.definition, |hooked| &hooked.tool);
            let spawns = call.call.as_ref().is_some_and(|hooked| hooked.spawns);
            let hears = |hook: &Hook| {
                wants(hook, call.moment, about) || spawns && wants(hook, call.moment, crate::task::NAME)
            };
            let mut asked = None;
            for (number, hook) in hooks.iter().enumerate().filter(|(_, hook)| hears(hook)) {
                let said = answer_of(&hands, hook, number, &call).await;
                if let Some((problem, follows)) = failure(call.moment, &said) {
                    note(&failures, number, hook, &call, problem, follows);
                }
                match answer(hook, &call, said) {
                    HookAnswer::Goes => {}
                    asks @ HookAnswer::Asks(_) => asked = asked.or(Some(asks)),
                    denied @ HookAnswer::Denied(_) => return denied,
                }
            }
            asked.unwrap_or(HookAnswer::Goes)
        })
    }
}

/// The answer for the engine.
fn answer(hook: &Hook, call: &HookCall, said: HookDecision) -> HookAnswer {
    match said {
        HookDecision::Asks(reason) => HookAnswer::Asks(reason),
        HookDecision::Denied(reason) => HookAnswer::Denied(reason),
        HookDecision::Unusable(problem) if call.moment.can_prevent() => {
            HookAnswer::Denied(format!("the hook of {} gave no usable answer: {problem}", hook.origin))
        }
        HookDecision::CutShort if call.moment.can_prevent() => {
            HookAnswer::Denied("the agent is to end".to_owned())
        }
        HookDecision::Goes
        | HookDecision::Complained(_)
        | HookDecision::Unusable(_)
        | HookDecision::CutShort => HookAnswer::Goes,
    }
}

/// The problem of a hook that failed by itself, and the consequence.
fn failure(moment: Moment, said: &HookDecision) -> Option<(&str, &'static str)> {
    match said {
        HookDecision::Complained(problem) => Some((problem, PASSED_OVER)),
        HookDecision::Unusable(problem) => Some((problem, unheard_at(moment))),
        HookDecision::Goes | HookDecision::Asks(_) | HookDecision::Denied(_) | HookDecision::CutShort => None,
    }
}

/// The consequence of a hook without a usable answer.
fn unheard_at(moment: Moment) -> &'static str {
    match moment {
        Moment::PreToolUse => "gave no usable answer, so calls that it matches are refused",
        Moment::PostToolUse => PASSED_OVER,
        Moment::SubagentStart => "gave no usable answer, so sub-agents that it matches do not start",
        Moment::SubagentStop => {
            "gave no usable answer, so the work of sub-agents that it matches is not integrated"
        }
    }
}

/// Records the failure of a hook, once per run, because a broken hook fails at every call.
fn note(
    failures: &watch::Sender<Vec<HookFailed>>,
    number: usize,
    hook: &Hook,
    call: &HookCall,
    problem: &str,
    follows: &str,
) {
    let (agent, moment, Hook { command, origin, .. }) = (&call.at.agent, call.moment.name(), hook);
    tracing::warn!(agent_id = %agent, moment, hook = %origin, command, problem, "a hook {follows}");
    let run = agent.run();
    failures.send_if_modified(|failures| {
        let is_known = |failed: &HookFailed| failed.number == number && failed.run == run;
        if failures.len() >= FAILURES_MAX || failures.iter().any(is_known) {
            return false;
        }
        let text = format!("the hook of {origin} ({moment}) {follows}: {problem}");
        failures.push(HookFailed { run, number, text });
        true
    });
}

/// Runs one hook to its end.
async fn answer_of(hands: &ToolServices, hook: &Hook, number: usize, call: &HookCall) -> HookDecision {
    if let Err(error) = hands.sandbox.level().await {
        return HookDecision::Unusable(error.to_string());
    }
    let at = &call.at;
    let viewing = match call.reach {
        HookAccess::Change | HookAccess::Read => hands.views.view(at),
        HookAccess::Borrowed => hands.views.bare(at),
    };
    let view = match viewing.await {
        Ok(view) => view,
        Err(problem) => return HookDecision::Unusable(problem.to_string()),
    };
    let mut stop = at.stop.clone();
    let turn = tokio::select! {
        turn = hands.sandbox.acquire(&view.caches) => turn,
        () = stop.at_least(Urgency::Gently) => return HookDecision::CutShort,
    };
    let cwd = view.shown_as(at).display().to_string();
    let argv = ["env".to_owned(), format!("{PROJECT_VARIABLE}={cwd}")];
    let argv = argv.into_iter().chain(SHELL.map(str::to_owned)).chain([hook.command.clone()]).collect();
    let command = view.command(argv, at);
    let record = hands.records.as_ref().map(|records| {
        let name = format!("{}-{}-{}-{number}", at.agent, call.moment.name(), plain_name(&at.call_id));
        records.process_record(&at.agent.run(), &name)
    });
    let files = hook.files.iter().map(|file| (file.clone(), file.clone()));
    let kept = |bytes| OutputLimits { head_bytes: bytes, tail_bytes: 0, spill: None, spill_bytes: 0 };
    let command = BoxedCommand {
        protected: still_protected(&at.approvals).map(str::to_owned).collect(),
        network: at.network,
        shown: command.shown.iter().cloned().chain(files).collect(),
        record,
        read_only: command.read_only || call.reach != HookAccess::Change,
        input: Some(input::hook_input(call, &cwd)),
        output: kept(ANSWER_MAX_BYTES),
        errors: Some(kept(ERRORS_MAX_BYTES)),
        ..command
    };
    let mut running = match hands.sandbox.start(turn, command) {
        Ok(running) => running,
        Err(error) => return HookDecision::Unusable(error.to_string()),
    };
    let limit = hook.timeout.min(HOOK_TIMEOUT_MAX);
    match running.run_to_end(&at.stop, TimeLimits { time: limit, idle: Duration::MAX }).await {
        (_, Some(EndReason::Stopped)) => HookDecision::CutShort,
        (_, Some(EndReason::TimeLimit | EndReason::Silent)) => {
            HookDecision::Unusable(format!("it took longer than {} s and was ended", limit.as_secs()))
        }
        (Err(error), None) => HookDecision::Unusable(error.to_string()),
        (Ok(ended), None) => read_answer(call.moment, &ended),
    }
}

/// Parses the answer of a hook that exited.
fn read_answer(moment: Moment, ended: &CallEnd) -> HookDecision {
    if ended.out_of_memory {
        return HookDecision::Unusable("its memory limit was reached".to_owned());
    }
    match ended.exit {
        Exit::Code(code) => decision::read(moment, code, &ended.output, ended.errors.as_ref()),
        Exit::Signal(signal) => HookDecision::Unusable(format!("it was ended by signal {signal}")),
    }
}
