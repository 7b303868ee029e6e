//! A person's hooks: commands that hear of what agents do, as JSON on their standard input, and may object.
//!
//! They run in the sandbox that `bash` runs in, see the files as the agent's own programs do, and are over, with all
//! that they started, before anybody goes on. Several that hear of the same moment run one after the other, in the
//! order of the settings, until one objects. What cannot be heard is an objection wherever something can still be kept
//! from happening: a check that does not run must not look like one that passed.
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
use posse_engine::ports::{HookAnswer, HookCall, Hooks, Moment, Reach, Urgency};
use posse_sandbox::process::OutputLimits;
use posse_sandbox::{BoxedCommand, CallEnd, Exit};
use tokio::sync::watch;

use self::decision::HookDecision;
pub use self::matcher::Matcher;
use crate::ToolServices;
use crate::bash::{EndReason, Limits, wait};
use crate::outputs::plain_name;

/// How long a hook may take if its settings do not say.
pub const HOOK_TIMEOUT_DEFAULT: Duration = Duration::from_mins(1);
/// How long a hook may take at most.
pub const HOOK_TIMEOUT_MAX: Duration = Duration::from_mins(10);
/// Most hooks of one process.
pub const HOOKS_MAX: usize = 256;
/// Most failures that a process remembers.
const FAILURES_MAX: usize = 1_000;
/// Most bytes of an answer; a longer one is none.
const ANSWER_MAX_BYTES: usize = 64 * 1024;
/// Most bytes of standard error that are kept, for a reason.
const ERRORS_MAX_BYTES: usize = 16 * 1024;
/// What follows from a failure where nothing waits for the answer.
const PASSED_OVER: &str = "failed and was passed over";
/// The variable in which scripts that were written for other tools look for the project.
const PROJECT_VARIABLE: &str = "CLAUDE_PROJECT_DIR";

/// One hook.
#[derive(Debug, Clone)]
pub struct Hook {
    /// What it hears of.
    pub moment: Moment,
    /// Which tools or sub-agents it hears of.
    pub matcher: Matcher,
    /// What is run, by a shell.
    pub command: String,
    /// How long it may take.
    pub timeout: Duration,
    /// Files of the machine that it needs, shown to it where they are.
    pub files: Vec<PathBuf>,
    /// Where it was written, for whoever reads its objection.
    pub origin: String,
}

/// A hook that failed by itself, so that what it heard of went on without its word, or was refused for want of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HookFailed {
    /// The run.
    pub run: RunId,
    /// Which hook, by its place.
    number: usize,
    /// What happened, for people.
    pub text: String,
}

/// What of a process's hooks failed, each hook once in a run, in order.
pub type HookFailures = watch::Receiver<Vec<HookFailed>>;

/// Hooks that are commands.
pub struct CommandHooks {
    hands: ToolServices,
    hooks: Arc<[Hook]>,
    failures: Arc<watch::Sender<Vec<HookFailed>>>,
}

impl CommandHooks {
    /// Runs these with the hands that tools have.
    pub fn new(hands: ToolServices, hooks: impl IntoIterator<Item = Hook>) -> Self {
        Self { hands, hooks: hooks.into_iter().take(HOOKS_MAX).collect(), failures: Arc::default() }
    }

    /// What fails of them: nothing stops for it, so somebody should say it.
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

/// What follows from what a hook said.
fn answer(hook: &Hook, call: &HookCall, said: HookDecision) -> HookAnswer {
    match said {
        HookDecision::Asks(reason) => HookAnswer::Asks(reason),
        HookDecision::Denied(reason) => HookAnswer::Denied(reason),
        HookDecision::Unheard(problem) if call.moment.is_gate() => {
            HookAnswer::Denied(format!("the hook of {} could not be heard: {problem}", hook.origin))
        }
        HookDecision::CutShort if call.moment.is_gate() => {
            HookAnswer::Denied("the agent is to end".to_owned())
        }
        HookDecision::Goes
        | HookDecision::Complained(_)
        | HookDecision::Unheard(_)
        | HookDecision::CutShort => HookAnswer::Goes,
    }
}

/// What is wrong with a hook that failed by itself, and what follows from that.
fn failure(moment: Moment, said: &HookDecision) -> Option<(&str, &'static str)> {
    match said {
        HookDecision::Complained(problem) => Some((problem, PASSED_OVER)),
        HookDecision::Unheard(problem) => Some((problem, unheard_at(moment))),
        HookDecision::Goes | HookDecision::Asks(_) | HookDecision::Denied(_) | HookDecision::CutShort => None,
    }
}

/// What follows from a hook that cannot be heard.
fn unheard_at(moment: Moment) -> &'static str {
    match moment {
        Moment::PreToolUse => "could not be heard, so calls that it hears of are refused",
        Moment::PostToolUse => PASSED_OVER,
        Moment::SubagentStart => "could not be heard, so sub-agents that it hears of do not start",
        Moment::SubagentStop => {
            "could not be heard, so the work of sub-agents that it hears of is not integrated"
        }
    }
}

/// Says that a hook failed; once in a run, because one that is broken fails at every call.
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
        return HookDecision::Unheard(error.to_string());
    }
    let at = &call.at;
    let viewing = match call.reach {
        Reach::Change | Reach::Look => hands.views.view(at),
        Reach::Borrowed => hands.views.bare(at),
    };
    let view = match viewing.await {
        Ok(view) => view,
        Err(problem) => return HookDecision::Unheard(problem),
    };
    let mut stop = at.stop.clone();
    let turn = tokio::select! {
        turn = hands.sandbox.acquire(&view.caches) => turn,
        () = stop.at_least(Urgency::Gently) => return HookDecision::CutShort,
    };
    let cwd = view.shown_as(at).display().to_string();
    let shell = ["bash", "--noprofile", "--norc", "-c", &hook.command];
    let argv = ["env".to_owned(), format!("{PROJECT_VARIABLE}={cwd}")];
    let argv = argv.into_iter().chain(shell.map(str::to_owned)).collect();
    let command = view.command(argv, at);
    let record = hands.outputs.as_ref().map(|outputs| {
        let name = format!("{}-{}-{}-{number}", at.agent, call.moment.name(), plain_name(&at.call_id));
        outputs.records(&at.agent).join(name)
    });
    let files = hook.files.iter().map(|file| (file.clone(), file.clone()));
    let kept = |bytes| OutputLimits { head_bytes: bytes, tail_bytes: 0, spill: None, spill_bytes: 0 };
    let command = BoxedCommand {
        protected: still_protected(&at.approvals).map(str::to_owned).collect(),
        network: at.network,
        shown: command.shown.iter().cloned().chain(files).collect(),
        record,
        read_only: call.reach != Reach::Change,
        input: Some(input::hook_input(call, &cwd)),
        output: kept(ANSWER_MAX_BYTES),
        errors: Some(kept(ERRORS_MAX_BYTES)),
        ..command
    };
    let mut running = match hands.sandbox.start(turn, command) {
        Ok(running) => running,
        Err(error) => return HookDecision::Unheard(error.to_string()),
    };
    let limit = hook.timeout.min(HOOK_TIMEOUT_MAX);
    match wait(&mut running, &at.stop, Limits { time: limit, idle: Duration::MAX }).await {
        (_, Some(EndReason::Asked)) => HookDecision::CutShort,
        (_, Some(EndReason::TimeLimit | EndReason::Silent)) => {
            HookDecision::Unheard(format!("it took longer than {} s and was ended", limit.as_secs()))
        }
        (Err(error), None) => HookDecision::Unheard(error.to_string()),
        (Ok(ended), None) => read_answer(call.moment, &ended),
    }
}

/// What a hook said that ended by itself.
fn read_answer(moment: Moment, ended: &CallEnd) -> HookDecision {
    if ended.out_of_memory {
        return HookDecision::Unheard("its memory limit was reached".to_owned());
    }
    match ended.exit {
        Exit::Code(code) => decision::read(moment, code, &ended.output, ended.errors.as_ref()),
        Exit::Signal(signal) => HookDecision::Unheard(format!("it was ended by signal {signal}")),
    }
}
