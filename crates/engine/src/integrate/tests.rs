//! Simulates random orders of ends, failures, cancels, changes and crashes. Integration always ends and keeps the fixed
//! order, and no other operation uses the files while one has exclusive access.

use std::collections::{BTreeMap, BTreeSet};

use super::*;

/// Random numbers that are reproducible from a seed.
struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % limit
    }

    fn one_in(&mut self, odds: u64) -> bool {
        self.below(odds) == 0
    }
}

/// An effect that the simulated driver is executing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PendingEffect {
    Snapshot,
    Merge(u32),
    Check(u32),
    Update(u32),
}

/// Simulates everything around one merge queue: children that work, effects that take time, a parent that changes its
/// files.
struct Sim {
    chance: Dice,
    queue: MergeQueue,
    positions: BTreeMap<u32, QueuePosition>,
    working: BTreeSet<u32>,
    /// Children that wait for integration, and whether they have checks.
    ready: BTreeMap<u32, bool>,
    /// Merges that are journalled and not yet in the files.
    journalled: BTreeSet<u32>,
    doing: Vec<PendingEffect>,
    stopping: BTreeSet<u32>,
    changes: u32,
    changes_left: u32,
    /// Children in the order of their integration.
    integrated: Vec<u32>,
    failed: BTreeSet<u32>,
    rechecked: BTreeMap<u32, u32>,
}

impl Sim {
    fn new(seed: u64) -> Self {
        let mut chance = Dice(seed);
        let mut sim = Self {
            queue: MergeQueue::new(chance.one_in(2)),
            positions: BTreeMap::new(),
            working: BTreeSet::new(),
            ready: BTreeMap::new(),
            journalled: BTreeSet::new(),
            doing: Vec::new(),
            stopping: BTreeSet::new(),
            changes: 0,
            changes_left: u32::try_from(chance.below(6)).expect("small"),
            integrated: Vec::new(),
            failed: BTreeSet::new(),
            rechecked: BTreeMap::new(),
            chance,
        };
        for child in 1..=1 + u32::try_from(sim.chance.below(6)).expect("small") {
            let position = match sim.chance.below(4) {
                0 => QueuePosition { group: Group::Alone(child), rank: 0, foreground: false },
                1 => QueuePosition { group: Group::Plan, rank: 10 - child, foreground: true },
                2 => QueuePosition { group: Group::Reply("m1".into()), rank: child, foreground: true },
                _ => QueuePosition { group: Group::Reply("m2".into()), rank: child, foreground: true },
            };
            sim.queue.apply(Fact::Enqueued(child, position.clone()));
            sim.positions.insert(child, position);
            sim.working.insert(child);
        }
        sim
    }

    fn pump(&mut self) {
        while let Some(action) = self.queue.decide() {
            self.queue.apply(Fact::Began(action));
            match action {
                MergeEffect::Snapshot => self.begin(PendingEffect::Snapshot),
                MergeEffect::Merge(child) => self.begin(PendingEffect::Merge(child)),
                MergeEffect::Check(child) => self.begin(PendingEffect::Check(child)),
                MergeEffect::StopCheck(child) => {
                    assert!(
                        self.doing.contains(&PendingEffect::Check(child)),
                        "only what runs can be stopped"
                    );
                    self.stopping.insert(child);
                }
                MergeEffect::Update(child) => {
                    self.journalled.insert(child);
                    self.begin(PendingEffect::Update(child));
                }
                MergeEffect::Accept(child) => self.accept(child),
            }
        }
    }

    fn begin(&mut self, doing: PendingEffect) {
        if doing != PendingEffect::Check(0) && !matches!(doing, PendingEffect::Check(_)) {
            assert_eq!(self.changes, 0, "{doing:?} needs the files alone, and a change is under way");
            let others = self.doing.iter().filter(|other| !matches!(other, PendingEffect::Check(_))).count();
            assert_eq!(others, 0, "{doing:?} needs the files alone: {:?}", self.doing);
        }
        self.doing.push(doing);
    }

    fn accept(&mut self, child: u32) {
        self.ready.remove(&child);
        self.journalled.remove(&child);
        let position = &self.positions[&child];
        for before in self.integrated.iter().filter(|before| self.positions[*before].group == position.group)
        {
            assert!(self.positions[before].rank < position.rank, "{before} was integrated before {child}");
        }
        let open = self.working.iter().chain(self.ready.keys());
        for other in open.filter(|other| self.positions[*other].group == position.group) {
            assert!(self.positions[other].rank > position.rank, "{child} overtook {other}");
        }
        self.integrated.push(child);
    }

    fn fail(&mut self, child: u32) {
        self.ready.remove(&child);
        self.failed.insert(child);
        self.queue.apply(Fact::Left(child));
        self.doing
            .retain(|doing| *doing != PendingEffect::Check(child) && *doing != PendingEffect::Merge(child));
    }

    /// Ends one of the effects under way.
    fn finish(&mut self, at: usize) {
        match self.doing.remove(at) {
            PendingEffect::Snapshot => self.queue.apply(Fact::SnapshotTaken(true)),
            PendingEffect::Merge(child) if self.chance.one_in(6) => self.fail(child),
            PendingEffect::Merge(child) => {
                let same = self.chance.one_in(5);
                self.queue.apply(Fact::Merged { child, same });
            }
            PendingEffect::Check(child) if self.stopping.remove(&child) => {
                self.queue.apply(Fact::CheckStopped(child));
            }
            PendingEffect::Check(child) if self.chance.one_in(5) => self.fail(child),
            PendingEffect::Check(child) => {
                *self.rechecked.entry(child).or_default() += 1;
                self.queue.apply(Fact::Checked(child));
            }
            PendingEffect::Update(child) => {
                self.queue.apply(Fact::Updated(child));
                self.accept(child);
            }
        }
    }

    /// Simulates a crash: the effects under way are lost, the journal and the children are not.
    fn crash(&mut self) {
        self.doing.clear();
        self.stopping.clear();
        self.changes = 0;
        self.queue = MergeQueue::new(false);
        for child in self.working.iter().chain(self.ready.keys()) {
            self.queue.apply(Fact::Enqueued(*child, self.positions[child].clone()));
        }
        for (child, checks) in &self.ready {
            let merged = self.journalled.contains(child);
            self.queue.apply(Fact::Ready { child: *child, checks: *checks, merged });
        }
    }

    fn step(&mut self) {
        let pick = |chance: &mut Dice, from: &[u32]| -> Option<u32> {
            let at = usize::try_from(chance.below(from.len().max(1) as u64)).expect("small");
            from.get(at).copied()
        };
        match self.chance.below(12) {
            0..=2 => {
                let working: Vec<u32> = self.working.iter().copied().collect();
                let Some(child) = pick(&mut self.chance, &working) else { return };
                self.working.remove(&child);
                if self.chance.one_in(4) {
                    self.queue.apply(Fact::Left(child));
                    self.failed.insert(child);
                } else {
                    let checks = self.chance.one_in(2);
                    self.ready.insert(child, checks);
                    self.queue.apply(Fact::Ready { child, checks, merged: false });
                }
            }
            3 if self.changes_left > 0 && self.queue.may_change() => {
                self.changes_left -= 1;
                self.changes += 1;
                let alone = self.doing.iter().any(|doing| !matches!(doing, PendingEffect::Check(_)));
                assert!(!alone, "a change began while something had the files alone: {:?}", self.doing);
                self.queue.apply(Fact::ChangeBegan);
            }
            4 | 5 if self.changes > 0 => {
                self.changes -= 1;
                self.queue.apply(Fact::ChangeEnded);
            }
            6 => self.queue.apply(Fact::SnapshotRequested),
            7 if self.chance.one_in(10) => self.crash(),
            8 if self.chance.one_in(4) => {
                let ready: Vec<u32> = self.ready.keys().copied().collect();
                let Some(child) = pick(&mut self.chance, &ready) else { return };
                if !self.journalled.contains(&child) {
                    self.fail(child);
                }
            }
            _ => {
                if !self.doing.is_empty() {
                    let at = usize::try_from(self.chance.below(self.doing.len() as u64)).expect("small");
                    self.finish(at);
                }
            }
        }
    }
}

#[test]
fn every_order_of_events_ends_with_everybody_integrated_once_or_failed() {
    let mut rechecks = 0;
    for seed in 0..20_000 {
        let mut sim = Sim::new(seed);
        let children = sim.positions.len();
        let mut steps = 0;
        while sim.integrated.len() + sim.failed.len() < children {
            sim.step();
            sim.pump();
            steps += 1;
            assert!(steps < 10_000, "seed {seed} does not end: {:?} {:?}", sim.queue, sim.doing);
        }
        let once: BTreeSet<u32> = sim.integrated.iter().copied().collect();
        assert_eq!(once.len(), sim.integrated.len(), "seed {seed}: nobody is integrated twice");
        assert!(once.is_disjoint(&sim.failed), "seed {seed}");
        rechecks += sim.rechecked.values().filter(|count| **count > 1).count();
    }
    assert!(rechecks > 100, "files moved while checks ran: {rechecks}");
}

#[test]
fn a_busy_parent_does_not_keep_a_child_waiting_for_ever() {
    let mut queue = MergeQueue::new(true);
    queue.apply(Fact::Enqueued(1, QueuePosition { group: Group::Alone(1), rank: 0, foreground: true }));
    queue.apply(Fact::ChangeBegan);
    queue.apply(Fact::Ready { child: 1, checks: true, merged: false });
    assert_eq!(queue.decide(), None, "the change ends first");
    assert!(!queue.may_change(), "no other begins before the child had its turn");
    queue.apply(Fact::ChangeEnded);
    // The checks run beside changes of the parent `RECHECKS_MAX` times, and then with exclusive access.
    for round in 0..=RECHECKS_MAX {
        assert_eq!(queue.decide(), Some(MergeEffect::Snapshot));
        queue.apply(Fact::Began(MergeEffect::Snapshot));
        queue.apply(Fact::SnapshotTaken(true));
        assert_eq!(queue.decide(), Some(MergeEffect::Merge(1)));
        queue.apply(Fact::Began(MergeEffect::Merge(1)));
        queue.apply(Fact::Merged { child: 1, same: false });
        assert_eq!(queue.decide(), Some(MergeEffect::Check(1)));
        queue.apply(Fact::Began(MergeEffect::Check(1)));
        assert_eq!(queue.may_change(), round < RECHECKS_MAX, "round {round}");
        if round < RECHECKS_MAX {
            queue.apply(Fact::ChangeBegan);
            queue.apply(Fact::ChangeEnded);
        }
        queue.apply(Fact::Checked(1));
    }
    assert_eq!(queue.decide(), Some(MergeEffect::Update(1)));
}

#[test]
fn a_foreground_child_overtakes_a_background_one_whose_checks_run() {
    let mut queue = MergeQueue::new(true);
    queue.apply(Fact::Enqueued(1, QueuePosition { group: Group::Alone(1), rank: 0, foreground: false }));
    queue.apply(Fact::Enqueued(
        2,
        QueuePosition { group: Group::Reply("m".into()), rank: 2, foreground: true },
    ));
    queue.apply(Fact::Ready { child: 1, checks: true, merged: false });
    for action in [MergeEffect::Merge(1), MergeEffect::Check(1)] {
        assert_eq!(queue.decide(), Some(action));
        queue.apply(Fact::Began(action));
        queue.apply(Fact::Merged { child: 1, same: false });
    }
    assert_eq!(queue.decide(), None);
    queue.apply(Fact::Ready { child: 2, checks: false, merged: false });
    assert_eq!(queue.decide(), Some(MergeEffect::StopCheck(1)));
    queue.apply(Fact::Began(MergeEffect::StopCheck(1)));
    assert_eq!(queue.decide(), None, "it is stopped once");
    queue.apply(Fact::CheckStopped(1));
    assert_eq!(queue.decide(), Some(MergeEffect::Merge(2)));
}

#[test]
fn a_step_that_is_still_to_be_created_keeps_its_place() {
    let mut queue = MergeQueue::new(true);
    queue.apply(Fact::Enqueued(2, QueuePosition { group: Group::Plan, rank: 2, foreground: true }));
    queue.apply(Fact::PlanWaitsFrom(Some(1)));
    queue.apply(Fact::Ready { child: 2, checks: false, merged: false });
    assert_eq!(queue.decide(), None, "the step of rank 1 comes first, though nobody works on it yet");
    queue.apply(Fact::PlanWaitsFrom(None));
    assert_eq!(queue.decide(), Some(MergeEffect::Merge(2)));
}
