//! Simulates agents, a scheduler and a provider in virtual time.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::time::Duration;

use posse_agent::call_retry::{CALLS_MAX, LIMITED_CALLS_MAX};
use proptest::prelude::*;

use crate::endpoint::Limits;
use crate::provider_queue::breaker::FAILURES_TO_OPEN;
use crate::provider_queue::pace::{Pace, SLOW_START_PER_SECOND};
use crate::provider_queue::retry::retry;
use crate::provider_queue::scheduler::{CallScheduler, Cause, PauseReason, PermitGrant, QueueStep, Ticket};
use crate::wire::ProblemKind;

const MINUTE: Duration = Duration::from_mins(1);
const TENTH: Duration = Duration::from_millis(100);
/// More events than any simulation needs: a simulation that continues has hung.
const MOST_EVENTS: usize = 200_000;

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// Reproducible randomness.
struct Dice(u64);

impl Dice {
    fn chance(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let [.., a, b, c, d] = self.0.to_le_bytes();
        f64::from(u32::from_le_bytes([a, b, c, d])) / (f64::from(u32::MAX) + 1.0)
    }

    fn below(&mut self, sides: u64) -> u64 {
        self.chance();
        (self.0 >> 32) % sides
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Answered,
    Failed(ProblemKind),
    /// The agent was cancelled: the scheduler gets no outcome.
    Dropped,
}

/// A call that one agent wants to make.
#[derive(Debug, Clone)]
struct SimulatedCall {
    at: Duration,
    tokens: u64,
    /// The agent gives up after this time in the queue.
    patience: Option<Duration>,
}

impl SimulatedCall {
    fn at(at: Duration) -> Self {
        Self { at, tokens: 100, patience: None }
    }
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Asks(usize),
    GivesUp(usize),
    Ends(usize),
}

/// When each call was sent, and the outcomes of the agents.
#[derive(Debug, Default)]
struct Log {
    /// In sending order.
    sent: Vec<(Duration, usize)>,
    done: usize,
    given_up: usize,
    failed: usize,
    opened: usize,
    /// Largest number of concurrent calls.
    most: usize,
    /// Largest number of calls that one agent needed.
    most_calls: u32,
}

impl Log {
    fn times(&self) -> Vec<Duration> {
        self.sent.iter().map(|(at, _)| *at).collect()
    }
}

struct Simulation<F> {
    scheduler: CallScheduler,
    /// The duration and the end of a call that is sent at a given time.
    provider: F,
    dice: Dice,
    events: BinaryHeap<Reverse<(Duration, usize, Event)>>,
    count: usize,
    wishes: Vec<SimulatedCall>,
    calls: Vec<u32>,
    waiting: BTreeMap<Ticket, usize>,
    out: BTreeMap<usize, (PermitGrant, End)>,
    log: Log,
}

impl<F: FnMut(Duration) -> (Duration, End)> Simulation<F> {
    fn run(limits: Limits, wishes: Vec<SimulatedCall>, provider: F) -> (Log, CallScheduler) {
        let mut simulation = Self {
            scheduler: CallScheduler::new(limits),
            provider,
            dice: Dice(7),
            events: BinaryHeap::new(),
            count: 0,
            calls: vec![0; wishes.len()],
            wishes,
            waiting: BTreeMap::new(),
            out: BTreeMap::new(),
            log: Log::default(),
        };
        for agent in 0..simulation.wishes.len() {
            simulation.at(simulation.wishes[agent].at, Event::Asks(agent));
        }
        simulation.go();
        (simulation.log, simulation.scheduler)
    }

    fn at(&mut self, at: Duration, event: Event) {
        self.count += 1;
        assert!(self.count < MOST_EVENTS, "it goes on for ever");
        self.events.push(Reverse((at, self.count, event)));
    }

    fn go(&mut self) {
        let mut now = Duration::ZERO;
        loop {
            let timer = loop {
                match self.scheduler.next(now) {
                    QueueStep::Go(ticket, grant) => {
                        let agent = self.waiting.remove(&ticket).expect("it waits");
                        assert!(self.waiting.keys().all(|other| *other > ticket), "first come, first served");
                        self.send(now, agent, grant);
                    }
                    QueueStep::At(at) => break Some(at),
                    QueueStep::WhenOneEnds => {
                        assert!(!self.out.is_empty(), "waits for a call, and none is under way");
                        break None;
                    }
                    QueueStep::Empty => break None,
                }
            };
            let event = self.events.peek().map(|Reverse((at, ..))| *at);
            match (timer, event) {
                (Some(timer), event) if event.is_none_or(|event| timer < event) => {
                    assert!(timer > now, "a timer that has run out lets somebody go");
                    now = timer;
                }
                (_, Some(_)) => {
                    let Reverse((at, _, event)) = self.events.pop().expect("it was seen");
                    now = at;
                    self.handle(now, &event);
                }
                _ => break,
            }
        }
        assert!(self.waiting.is_empty() && self.out.is_empty(), "somebody starves");
    }

    fn handle(&mut self, now: Duration, event: &Event) {
        match *event {
            Event::Asks(agent) => {
                self.calls[agent] += 1;
                match self.scheduler.ask(now, self.wishes[agent].tokens) {
                    Ok(grant) => self.send(now, agent, grant),
                    Err(ticket) => {
                        self.waiting.insert(ticket, agent);
                        if let Some(patience) = self.wishes[agent].patience {
                            self.at(now + patience, Event::GivesUp(agent));
                        }
                    }
                }
            }
            Event::GivesUp(agent) => {
                let ticket = self.waiting.iter().find(|(_, who)| **who == agent).map(|(ticket, _)| *ticket);
                if let Some(ticket) = ticket {
                    assert!(self.scheduler.leave(ticket));
                    self.waiting.remove(&ticket);
                    self.log.given_up += 1;
                }
            }
            Event::Ends(agent) => self.end(now, agent),
        }
    }

    fn send(&mut self, now: Duration, agent: usize, grant: PermitGrant) {
        self.log.sent.push((now, agent));
        let (takes, end) = (self.provider)(now);
        self.out.insert(agent, (grant, end));
        self.log.most = self.log.most.max(self.out.len());
        self.at(now + takes, Event::Ends(agent));
    }

    fn end(&mut self, now: Duration, agent: usize) {
        let (grant, end) = self.out.remove(&agent).expect("it is under way");
        match end {
            End::Answered => {
                self.scheduler.used(now, self.wishes[agent].tokens / 2);
                self.scheduler.answered(now);
                self.log.done += 1;
                self.log.most_calls = self.log.most_calls.max(self.calls[agent]);
            }
            End::Failed(kind) => {
                self.scheduler.used(now, 0);
                let chance = self.dice.chance();
                self.log.opened += usize::from(self.scheduler.failed(now, kind, self.calls[agent], chance));
                match retry(kind, self.calls[agent], self.dice.chance()) {
                    Some(retry) => self.at(now + retry.after, Event::Asks(agent)),
                    None => self.log.failed += 1,
                }
            }
            End::Dropped => self.log.failed += 1,
        }
        self.scheduler.give_back(now, &grant);
    }
}

/// The largest number of entries in any window of this length that begins with an entry and excludes its own end.
fn most_within(times: &[Duration], window: Duration) -> usize {
    let mut first = 0;
    let mut most = 0;
    for (last, at) in times.iter().enumerate() {
        while times[first] + window <= *at {
            first += 1;
        }
        most = most.max(last - first + 1);
    }
    most
}

#[test]
fn fifty_agents_that_are_told_to_come_back_in_two_seconds_do_so_one_by_one() {
    let limit = ms(2_000);
    let wishes = (0..50).map(|agent| SimulatedCall::at(ms(agent))).collect();
    let (log, _) = Simulation::run(Limits::default(), wishes, |now| {
        if now < limit {
            (ms(20), End::Failed(ProblemKind::RateLimit { after: Some(ms(2_000)) }))
        } else {
            (ms(20), End::Answered)
        }
    });
    assert_eq!((log.done, log.failed), (50, 0));
    // Only the calls that were sent before the first answer were sent before that time.
    let first_refusal = ms(20);
    let early = log.times().iter().filter(|at| **at > first_refusal && **at < first_refusal + limit).count();
    assert_eq!(early, 0);
    let after: Vec<Duration> = log.times().into_iter().filter(|at| *at >= limit).collect();
    assert!(most_within(&after, TENTH) <= 5, "{after:?}");
    assert!(after.last() < Some(&ms(8_000)), "{after:?}");
}

#[test]
fn a_limit_that_nobody_told_us_is_found() {
    // The provider accepts two calls a second and otherwise requests a pause of a second.
    let mut taken: Vec<Duration> = Vec::new();
    let wishes = (0..100).map(|_| SimulatedCall::at(Duration::ZERO)).collect();
    let (log, _) = Simulation::run(Limits::default(), wishes, move |now| {
        if most_within(&[taken.as_slice(), &[now]].concat(), Duration::from_secs(1)) > 2 {
            return (ms(50), End::Failed(ProblemKind::RateLimit { after: Some(ms(1_000)) }));
        }
        taken.push(now);
        (ms(50), End::Answered)
    });
    assert_eq!(log.done, 100);
    let refused_after_the_first = log.sent.len() - 100 - 98;
    assert!(log.most_calls < LIMITED_CALLS_MAX, "{}", log.most_calls);
    assert!(refused_after_the_first < 60, "{refused_after_the_first} of {}", log.sent.len());
}

#[test]
fn an_outage_costs_few_calls_and_everybody_completes_after_it() {
    let recovery = Duration::from_mins(3);
    let wishes = (0..200).map(|agent| SimulatedCall::at(ms(agent * 500))).collect();
    let (log, scheduler) = Simulation::run(Limits::default(), wishes, |now| {
        if now < recovery {
            (ms(100), End::Failed(ProblemKind::Unreachable))
        } else {
            (ms(900), End::Answered)
        }
    });
    assert_eq!((log.done, log.failed), (200, 0));
    let in_vain = log.times().iter().filter(|at| **at < recovery).count();
    assert!(log.opened >= 5 && in_vain <= FAILURES_TO_OPEN as usize + log.opened + 2, "{in_vain}, {log:?}");
    assert!(log.most_calls <= CALLS_MAX, "nobody would have given up: {}", log.most_calls);
    assert!(log.times().last() < Some(&(recovery + Duration::from_secs(150))));
    let after: Vec<Duration> = log.times().into_iter().filter(|at| *at >= recovery).collect();
    assert!(most_within(&after, TENTH) <= 51, "not all at once");
    let second = after[0] + Duration::from_secs(1);
    let in_first_second = after.iter().filter(|at| **at < second).count();
    assert!(in_first_second <= 12, "{in_first_second}");
    assert_eq!(scheduler.foreseen(Duration::MAX / 2).1, Duration::ZERO, "nothing is left of it");
}

#[test]
fn the_failures_of_calls_that_were_under_way_open_the_breaker_once() {
    let wishes = (0..50).map(|_| SimulatedCall::at(Duration::ZERO)).collect();
    let (log, _) = Simulation::run(Limits::default(), wishes, |now| {
        let end =
            if now.is_zero() { End::Failed(ProblemKind::Unwell { after: None }) } else { End::Answered };
        (ms(30), end)
    });
    assert_eq!((log.opened, log.done), (1, 50));
}

#[test]
fn a_call_that_tries_and_is_given_up_is_followed_by_another() {
    let mut calls = 0;
    let wishes = (0..20).map(|agent| SimulatedCall::at(ms(agent))).collect();
    let (log, _) = Simulation::run(Limits::default(), wishes, move |_| {
        calls += 1;
        match calls {
            ..=20 => (ms(30), End::Failed(ProblemKind::Cut)),
            21..=23 => (ms(30), End::Dropped),
            _ => (ms(30), End::Answered),
        }
    });
    assert_eq!((log.done, log.failed), (17, 3));
}

#[test]
fn what_is_waited_for_is_foreseen() {
    let cause = |scheduler: &mut CallScheduler, waiting: usize| {
        for _ in 0..waiting {
            assert!(scheduler.ask(Duration::ZERO, 100).is_err());
        }
        scheduler.foreseen(Duration::ZERO)
    };
    let limits = |requests_per_minute, tokens_per_minute, concurrent| Limits {
        requests_per_minute,
        tokens_per_minute,
        concurrent,
    };

    let mut scheduler = CallScheduler::new(limits(Some(5), None, None));
    assert!(scheduler.ask(Duration::ZERO, 100).is_ok());
    assert_eq!(cause(&mut scheduler, 3), (Cause::Calls(5), Duration::from_secs(36)));

    let mut scheduler = CallScheduler::new(limits(None, Some(600), None));
    assert!(scheduler.ask(Duration::ZERO, 100).is_ok());
    assert_eq!(cause(&mut scheduler, 1).0, Cause::Tokens(600));

    let mut scheduler = CallScheduler::new(limits(None, None, Some(2)));
    assert!(scheduler.ask(Duration::ZERO, 100).is_ok() && scheduler.ask(Duration::ZERO, 100).is_ok());
    assert_eq!(cause(&mut scheduler, 3), (Cause::Concurrent(2), Duration::from_secs(10)));

    let mut scheduler = CallScheduler::new(Limits::default());
    scheduler.failed(Duration::ZERO, ProblemKind::RateLimit { after: Some(ms(2_000)) }, 1, 0.0);
    assert_eq!(cause(&mut scheduler, 1), (Cause::Pause(PauseReason::Rate, ms(2_000)), ms(2_000)));
    assert!(cause(&mut scheduler, 50).1 > ms(4_000), "those behind wait longer");

    let mut scheduler = CallScheduler::new(Limits::default());
    for _ in 0..FAILURES_TO_OPEN {
        scheduler.failed(Duration::ZERO, ProblemKind::Unreachable, 1, 0.0);
    }
    assert_eq!(cause(&mut scheduler, 1), (Cause::Breaker(FAILURES_TO_OPEN), Duration::from_secs(5)));
}

#[test]
fn a_pause_of_more_than_a_day_stops_nobody() {
    let mut scheduler = CallScheduler::new(Limits::default());
    let after = Some(Duration::from_hours(25));
    scheduler.failed(Duration::ZERO, ProblemKind::UsageLimit { after }, 1, 0.5);
    assert!(scheduler.ask(Duration::ZERO, 1).is_ok(), "others are to be refused too, not to wait for days");
}

fn wishes() -> impl Strategy<Value = Vec<SimulatedCall>> {
    let wish = (0_u64..20_000, 1_u64..3_000, proptest::option::weighted(0.2, 0_u64..30_000));
    proptest::collection::vec(wish, 1..120).prop_map(|wishes| {
        let wish = |(at, tokens, patience): (_, _, Option<u64>)| SimulatedCall {
            at: ms(at),
            tokens,
            patience: patience.map(ms),
        };
        wishes.into_iter().map(wish).collect()
    })
}

fn limits() -> impl Strategy<Value = Limits> {
    let (calls, tokens) = (proptest::option::of(1_u32..5_000), proptest::option::of(500_u64..1_000_000));
    (calls, tokens, proptest::option::of(1_u32..20)).prop_map(
        |(requests_per_minute, tokens_per_minute, concurrent)| Limits {
            requests_per_minute,
            tokens_per_minute,
            concurrent,
        },
    )
}

/// A provider that behaves as the dice decide.
fn moody(seed: u64) -> impl FnMut(Duration) -> (Duration, End) {
    let mut dice = Dice(seed);
    move |_| {
        let takes = ms(dice.below(3_000));
        let end = match dice.below(20) {
            0 => End::Failed(ProblemKind::RateLimit { after: Some(ms(1_500)) }),
            1 => End::Failed(ProblemKind::RateLimit { after: None }),
            2 => End::Failed(ProblemKind::Unwell { after: Some(ms(700)) }),
            3 | 4 => End::Failed(ProblemKind::Unreachable),
            5 => End::Failed(ProblemKind::Cut),
            6 => End::Failed(ProblemKind::Foreign),
            7 => End::Dropped,
            _ => End::Answered,
        };
        (takes, end)
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn no_minute_and_no_tenth_of_a_second_has_more_calls_than_allowed(
        wishes in wishes(), per_minute in 1_u32..100_000, seed: u64,
    ) {
        let limits = Limits { requests_per_minute: Some(per_minute), ..Limits::default() };
        let (log, _) = Simulation::run(limits, wishes, moody(seed));
        let times = log.times();
        prop_assert!(most_within(&times, MINUTE) <= per_minute as usize);
        let burst = 5 + per_minute / 3_000;
        let tenth = per_minute.div_ceil(600) + burst;
        prop_assert!(most_within(&times, TENTH) <= tenth as usize);
    }

    #[test]
    fn no_minute_has_more_tokens_than_allowed(wishes in wishes(), per_minute in 500_u64..1_000_000) {
        let limits = Limits { tokens_per_minute: Some(per_minute), ..Limits::default() };
        let sizes: Vec<u64> = wishes.iter().map(|wish| wish.tokens).collect();
        let (log, _) = Simulation::run(limits, wishes, |_| (Duration::from_hours(2), End::Dropped));
        // The part of a call above the burst is a debt, which is paid before the next call starts.
        let owed = sizes.iter().max().copied().unwrap_or(0);
        for (first, (begin, _)) in log.sent.iter().enumerate() {
            let within = log.sent[first..].iter().take_while(|(at, _)| *at < *begin + MINUTE);
            let tokens: u64 = within.map(|(_, agent)| sizes[*agent]).sum();
            prop_assert!(tokens <= per_minute + owed, "{tokens} of {per_minute}");
        }
    }

    #[test]
    fn nobody_starves_and_every_grant_comes_back_whatever_happens(
        wishes in wishes(), limits in limits(), seed: u64,
    ) {
        let count = wishes.len();
        let (log, mut scheduler) = Simulation::run(limits, wishes, moody(seed));
        prop_assert_eq!(log.done + log.failed + log.given_up, count);
        prop_assert!(limits.concurrent.is_none_or(|most| log.most <= most as usize));
        // Everything that the user allows at once is free again.
        let later = Duration::from_secs(1_000_000);
        scheduler.answered(later);
        let mut fresh = Pace::of_calls(limits.requests_per_minute.unwrap_or(u32::MAX));
        let mut free = 0;
        while fresh.free_at(1).is_zero() && free < limits.concurrent.unwrap_or(20) {
            fresh.take(Duration::ZERO, 1);
            free += 1;
        }
        let grants = (0..free).map_while(|_| scheduler.ask(later + Duration::from_mins(1), 0).ok()).count();
        prop_assert_eq!(grants, free as usize);
    }

    #[test]
    fn nothing_goes_before_the_end_of_a_pause(
        pauses in proptest::collection::vec((0_u64..5_000, 0_u64..10_000), 1..20), chance in 0.0_f64..1.0,
    ) {
        let mut pauses = pauses;
        pauses.sort_unstable();
        let mut scheduler = CallScheduler::new(Limits::default());
        let mut end = Duration::ZERO;
        for (at, after) in pauses {
            let (at, after) = (ms(at), ms(after));
            scheduler.failed(at, ProblemKind::RateLimit { after: Some(after) }, 1, chance);
            end = end.max(at + after);
            let asked = scheduler.ask(at, 1);
            prop_assert!(asked.is_err() || end <= at);
            if let QueueStep::At(next) = scheduler.next(at) {
                prop_assert!(next >= end);
            }
        }
    }

    #[test]
    fn after_a_pause_nobody_crowds(count in 1_usize..400, after in 1_u64..5_000, chance in 0.0_f64..1.0) {
        let mut scheduler = CallScheduler::new(Limits::default());
        scheduler.failed(Duration::ZERO, ProblemKind::UsageLimit { after: Some(ms(after)) }, 1, chance);
        for _ in 0..count {
            prop_assert!(scheduler.ask(Duration::ZERO, 1).is_err());
        }
        let (mut now, mut times) = (Duration::ZERO, Vec::new());
        loop {
            match scheduler.next(now) {
                QueueStep::Go(..) => times.push(now),
                QueueStep::At(at) => now = at,
                QueueStep::Empty => break,
                QueueStep::WhenOneEnds => prop_assert!(false, "nothing is limited at once"),
            }
        }
        // Ten a second at first, doubling every two seconds.
        for (n, begin) in times.iter().enumerate() {
            let since = (*begin + TENTH).saturating_sub(times[0]).as_secs_f64();
            let allowed = 1.0 + 0.1 * SLOW_START_PER_SECOND * (since / 2.0).exp2();
            let within = times[n..].iter().take_while(|at| **at < *begin + TENTH).count();
            let within = f64::from(u32::try_from(within).expect("few"));
            prop_assert!(within <= allowed.ceil(), "{within} at {since} s");
        }
    }
}

/// With equal limits, the mean of many waits is that of full jitter.
#[test]
fn those_who_fail_together_come_back_spread_out() {
    let mut dice = Dice(11);
    let mut tenths = [0_u32; 10];
    for _ in 0..1_000 {
        let after = retry(ProblemKind::Unreachable, 4, dice.chance()).expect("another call").after;
        tenths[usize::try_from(after.as_millis() / 400).expect("small")] += 1;
    }
    assert!(tenths.iter().all(|count| (60..140).contains(count)), "{tenths:?}");
}
