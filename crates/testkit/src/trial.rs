//! One run of the [scenario](crate::scenario), killed on the way, resumed until it ends, and checked.

use std::ffi::OsString;
use std::fmt;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::time::{Duration, Instant};

use posse::RunId;
use serde_json::Value;

use crate::check::{AcknowledgedEvents, Breach, Findings, Harm};
use crate::ended_run::{self, EndedRun};
use crate::faults::CrashPoint;
use crate::helpers;
use crate::process::{Launch, ProcessOutput, RunningProcess, last_words, threads};
use crate::scenario::Scenario;
use crate::variables;

/// Time after which a process counts as hanging. Undisturbed it takes about a second.
const PATIENCE: Duration = Duration::from_mins(1);
/// Limit of processes per run: every kill takes one, and a process that died before it began is started again.
const PROCESSES_MAX: usize = 16;
const SIGKILL: i32 = 9;

/// How one process of a run is ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KillPoint {
    /// By itself, at a fault point.
    At(CrashPoint),
    /// From outside, this long after its start.
    After(Duration),
}

impl fmt::Display for KillPoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::At(death) => death.fmt(f),
            Self::After(time) => write!(f, "{:.1} ms", time.as_secs_f64() * 1_000.0),
        }
    }
}

/// The plan of one run: the first process gets the first kill, the first resume the second, and so on. The last process
/// is not killed.
#[derive(Debug, Clone, Default)]
pub struct TrialPlan {
    pub blows: Vec<KillPoint>,
    /// Whether a second process follows the journal all the time.
    pub followed: bool,
    /// Whether there are fewer slots than agents.
    pub crowded: bool,
    /// When a helper of each process is killed, from its start: a git, an init, or the first process of a sandbox.
    pub helpers: Vec<Duration>,
}

#[derive(Debug, Default)]
pub struct Report {
    /// Kills that met a living process.
    pub struck: Vec<KillPoint>,
    pub helpers: usize,
    /// Kills that came too late, or points that were passed fewer times.
    pub missed: Vec<KillPoint>,
    /// The number of events that a reader outside received before the end.
    pub acknowledged: usize,
    /// Calls that were reported to their agents as interrupted.
    pub interrupted: usize,
    /// Model calls that were interrupted and repeated.
    pub asked_again: usize,
    /// The total duration of all its processes.
    pub took: Duration,
    /// The time of each resume from its start to its first event.
    pub resumed_within: Vec<Duration>,
    pub breaches: Vec<Breach>,
}

/// Executes the plan beneath `dir`, which must be empty.
pub fn run(program: &Path, dir: &Path, plan: &TrialPlan) -> Result<Report, String> {
    let mut reports = run_together(program, dir, std::slice::from_ref(plan))?;
    reports.pop().ok_or_else(|| "no run was started".to_owned())
}

/// Executes the plans beneath `dir` at the same time, each with its own run, all in one store.
pub fn run_together(program: &Path, dir: &Path, plans: &[TrialPlan]) -> Result<Vec<Report>, String> {
    let state = dir.join("state");
    let mut trials = Vec::new();
    for number in 1..=plans.len() {
        let dir = dir.join(number.to_string());
        let scenario = Scenario::create_sharing(&dir, &state);
        let scenario = scenario.map_err(|error| format!("the scenario cannot be written: {error}"))?;
        trials.push(Trial::new(program, &dir, scenario));
    }
    let mut reports = std::thread::scope(|scope| {
        let run = |(mut trial, plan): (Trial, &TrialPlan)| -> Result<Report, String> {
            trial.run(plan).map_err(|error| error.to_string())?;
            Ok(trial.report())
        };
        let running: Vec<_> =
            trials.into_iter().zip(plans).map(|pair| scope.spawn(move || run(pair))).collect();
        let joined =
            running.into_iter().map(|one| one.join().unwrap_or_else(|_| Err("a trial panicked".to_owned())));
        joined.collect::<Result<Vec<Report>, String>>()
    })?;
    if let Some(last) = reports.last_mut() {
        let mut findings = Findings::default();
        ended_run::no_locks(&state, &mut findings);
        last.breaches.extend(findings.into_breaches());
    }
    Ok(reports)
}

struct Trial {
    scenario: Scenario,
    launch: Launch,
    run: Option<RunId>,
    told: AcknowledgedEvents,
    follower: Option<RunningProcess>,
    findings: Findings,
    report: Report,
}

impl Trial {
    fn new(program: &Path, dir: &Path, scenario: Scenario) -> Self {
        let launch = Launch::new(program, dir, &scenario.state()).with(variables::LEDGER, scenario.ledger());
        Self {
            scenario,
            launch,
            run: None,
            told: AcknowledgedEvents::default(),
            follower: None,
            findings: Findings::default(),
            report: Report::default(),
        }
    }

    fn run(&mut self, plan: &TrialPlan) -> std::io::Result<()> {
        let began = Instant::now();
        let mut blows = plan.blows.iter();
        let mut ended = false;
        for _ in 0..PROCESSES_MAX {
            let blow = blows.next();
            if self.process(blow, plan)? {
                ended = true;
                break;
            }
            if !self.findings.is_empty() {
                break;
            }
        }
        self.report.took = began.elapsed();
        self.report.missed.extend(blows.cloned());
        if let Some(follower) = self.follower.take() {
            self.read_to_end(follower, ended)?;
        }
        self.findings.expect(ended, Harm::Broken, || {
            format!("the run did not end; last words: {}", last_words(&self.launch.errors()))
        });
        if ended {
            self.examine()?;
        }
        let left = self.launch.left_behind();
        self.findings.expect(left.is_empty(), Harm::Orphan, || format!("processes {left:?} are left"));
        Ok(())
    }

    /// Executes one process from its start to its end. Returns whether the run ended with it.
    fn process(&mut self, blow: Option<&KillPoint>, plan: &TrialPlan) -> std::io::Result<bool> {
        let args: Vec<OsString> = match &self.run {
            None if plan.crowded => self.scenario.crowded_run_args(),
            None => self.scenario.run_args(),
            Some(run) => ["resume", "--json", run.as_str()].map(Into::into).into(),
        };
        let launch = match blow {
            Some(KillPoint::At(death)) => self.launch.dying(death),
            Some(KillPoint::After(_)) | None => self.launch.clone(),
        };
        let limit = match blow {
            Some(KillPoint::After(time)) => *time,
            Some(KillPoint::At(_)) | None => PATIENCE,
        };
        let (began, mut resumes) = (Instant::now(), self.run.is_some());
        let until = began + limit;
        let running = launch.start(args)?;
        let mut helpers = plan.helpers.iter().map(|after| began + *after).peekable();
        let struck = loop {
            let next = helpers.peek().map_or(until, |moment| (*moment).min(until));
            match running.read_line(next) {
                ProcessOutput::Nothing if next < until => {
                    helpers.next();
                    self.report.helpers += usize::from(helpers::kill_one(running.id(), self.report.helpers));
                }
                ProcessOutput::Line(line) => {
                    if std::mem::take(&mut resumes) {
                        self.report.resumed_within.push(began.elapsed());
                    }
                    self.take(&line);
                    if plan.followed && self.follower.is_none() {
                        self.follow()?;
                    }
                }
                ProcessOutput::End => break false,
                ProcessOutput::Nothing => break true,
            }
        };
        // Read before the kill, after which it is not known where the process hung.
        let hangs = (struck && blow.is_none()).then(|| threads(running.id()));
        let (rest, status) = if struck { running.kill()? } else { running.finish()? };
        for line in &rest {
            self.take(line);
        }
        self.find_run()?;
        // A kill can come between the last line and the end.
        if status.success() {
            self.report.missed.extend(blow.cloned());
            return Ok(true);
        }
        match blow {
            Some(blow) if status.signal() == Some(SIGKILL) => self.report.struck.push(blow.clone()),
            _ if struck => {
                let threads = hangs.unwrap_or_default();
                self.findings
                    .add(Harm::Broken, format!("it did not end within {limit:?}; its threads:\n{threads}"));
            }
            _ => {
                let words = last_words(&self.launch.errors());
                self.findings.add(Harm::Broken, format!("the process ended with {status}: {words}"));
            }
        }
        Ok(false)
    }

    /// Reads the remaining lines of a follower. It ends by itself when the run has ended.
    fn read_to_end(&mut self, follower: RunningProcess, ended: bool) -> std::io::Result<()> {
        let until = Instant::now() + if ended { PATIENCE } else { Duration::ZERO };
        let hangs = loop {
            match follower.read_line(until) {
                ProcessOutput::Line(line) => self.take(&line),
                ProcessOutput::End => break false,
                ProcessOutput::Nothing => break true,
            }
        };
        self.findings.expect(!(hangs && ended), Harm::Broken, || "the follower does not end".to_owned());
        let (rest, _) = if hangs { follower.kill()? } else { follower.finish()? };
        for line in &rest {
            self.take(line);
        }
        Ok(())
    }

    fn take(&mut self, line: &str) {
        if let Err(problem) = self.told.take(line) {
            self.findings.add(Harm::Broken, problem);
        }
    }

    fn follow(&mut self) -> std::io::Result<()> {
        if let Some(run) = self.told.run() {
            self.follower = Some(self.launch.start(["logs", "-f", "--json", run.as_str()])?);
        }
        Ok(())
    }

    /// Finds the id of the run like a user who saw no output of it.
    fn find_run(&mut self) -> std::io::Result<()> {
        if self.run.is_some() {
            return Ok(());
        }
        self.run = self.told.run();
        if self.run.is_none() {
            let said = self.launch.output(["ps", "--json"])?;
            self.findings.expect(said.status.success(), Harm::Broken, || {
                format!("`ps` ended with {}: {}", said.status, said.err)
            });
            // Other runs may be in the same store. This one works in its own directory.
            let place = self.scenario.workspace();
            let lines = said.out.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
            let mut own = lines.filter(|run| run["dir"].as_str().is_some_and(|dir| Path::new(dir) == place));
            self.run = own.next().and_then(|run| run["run"].as_str()?.parse().ok());
        }
        Ok(())
    }

    fn examine(&mut self) -> std::io::Result<()> {
        let Some(run) = &self.run else {
            self.findings.add(Harm::Lost, "the run ended and its name is unknown");
            return Ok(());
        };
        let ended_run = EndedRun { launch: &self.launch, scenario: &self.scenario, run, told: &self.told };
        let looked = ended_run.examine()?;
        self.report.acknowledged = self.told.len();
        self.report.interrupted = looked.interrupted;
        self.report.asked_again = looked.asked_again;
        self.findings.append(looked.findings);
        Ok(())
    }

    fn report(self) -> Report {
        Report { breaches: self.findings.into_breaches(), ..self.report }
    }
}
