//! The dependency graph of a plan's steps.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::Plan;

/// The steps by position, each with its dependencies.
pub(super) struct Graph {
    needs: Vec<Vec<usize>>,
}

impl Graph {
    /// The graph of a plan. If two steps share a title, the first is meant. Unknown names are ignored.
    pub(super) fn of(plan: &Plan) -> Self {
        let mut by_title = BTreeMap::new();
        for (position, step) in plan.steps.iter().enumerate() {
            by_title.entry(step.title.as_str()).or_insert(position);
        }
        let needs_of = |names: &Vec<String>| {
            let known: BTreeSet<usize> =
                names.iter().filter_map(|name| by_title.get(name.as_str()).copied()).collect();
            known.into_iter().collect()
        };
        Self { needs: plan.steps.iter().map(|step| needs_of(&step.depends_on)).collect() }
    }

    pub(super) fn into_needs(self) -> Vec<Vec<usize>> {
        self.needs
    }

    /// The dependents of each step.
    fn needed_by(&self) -> Vec<Vec<usize>> {
        let mut needed_by = vec![Vec::new(); self.needs.len()];
        for (position, needs) in self.needs.iter().enumerate() {
            for &need in needs {
                needed_by[need].push(position);
            }
        }
        needed_by
    }

    /// Topological order, earlier positions first. Steps in or behind a cycle come last.
    pub(super) fn order(&self) -> Vec<usize> {
        let needed_by = self.needed_by();
        let mut missing: Vec<usize> = self.needs.iter().map(Vec::len).collect();
        let mut ready: BTreeSet<usize> = (0..missing.len()).filter(|at| missing[*at] == 0).collect();
        let mut order = Vec::with_capacity(missing.len());
        while let Some(position) = ready.pop_first() {
            order.push(position);
            for &next in &needed_by[position] {
                missing[next] -= 1;
                if missing[next] == 0 {
                    ready.insert(next);
                }
            }
        }
        order.extend((0..missing.len()).filter(|at| missing[*at] > 0));
        order
    }

    /// The steps by the length of their longest dependency chain. Steps in or behind a cycle are in the last wave.
    pub(super) fn waves(&self) -> Vec<Vec<usize>> {
        let mut wave_of: Vec<Option<usize>> = vec![None; self.needs.len()];
        let mut waves: Vec<Vec<usize>> = Vec::new();
        let mut left_over = Vec::new();
        for position in self.order() {
            // None if a dependency has no wave, which only happens in a cycle.
            let after = self.needs[position].iter().map(|need| wave_of[*need].map(|wave| wave + 1));
            let Some(wave) = after.collect::<Option<Vec<_>>>().map(|all| all.into_iter().max().unwrap_or(0))
            else {
                left_over.push(position);
                continue;
            };
            wave_of[position] = Some(wave);
            match waves.get_mut(wave) {
                Some(steps) => steps.push(position),
                None => waves.push(vec![position]),
            }
        }
        for steps in &mut waves {
            steps.sort_unstable();
        }
        if !left_over.is_empty() {
            waves.push(left_over);
        }
        waves
    }

    /// The transitive dependencies of all steps.
    pub(super) fn reach(&self) -> Reachability {
        let reached = |from: usize| {
            let mut seen = vec![false; self.needs.len()];
            let mut open = self.needs[from].clone();
            while let Some(at) = open.pop() {
                if !seen[at] {
                    seen[at] = true;
                    open.extend(&self.needs[at]);
                }
            }
            seen
        };
        Reachability((0..self.needs.len()).map(reached).collect())
    }

    /// One cycle for each strongly connected group of steps, as positions in the order of dependence. A step that
    /// depends on itself is reported by the check of its field.
    pub(super) fn cycles(&self, reach: &Reachability) -> Vec<Vec<usize>> {
        let mut reported = vec![false; self.needs.len()];
        let mut cycles = Vec::new();
        for position in 0..self.needs.len() {
            if reported[position] || !reach.depends(position, position) {
                continue;
            }
            for (other, reported) in reported.iter_mut().enumerate() {
                *reported |= reach.depends(position, other) && reach.depends(other, position);
            }
            cycles.extend(self.way_back_to(position));
        }
        cycles
    }

    /// The shortest cycle through a step.
    fn way_back_to(&self, start: usize) -> Option<Vec<usize>> {
        let mut came_from: BTreeMap<usize, usize> = BTreeMap::new();
        let mut open = VecDeque::from([start]);
        while let Some(at) = open.pop_front() {
            for &need in &self.needs[at] {
                if need == start && at != start {
                    let mut way = vec![at];
                    while let Some(before) = way.last().and_then(|last| came_from.get(last)) {
                        way.push(*before);
                    }
                    way.reverse();
                    return Some(way);
                }
                if need != start && !came_from.contains_key(&need) {
                    came_from.insert(need, at);
                    open.push_back(need);
                }
            }
        }
        None
    }
}

/// The transitive dependencies of all steps.
pub(super) struct Reachability(Vec<Vec<bool>>);

impl Reachability {
    /// Whether `step` depends on `on`, directly or over other steps.
    pub(super) fn depends(&self, step: usize, on: usize) -> bool {
        self.0[step][on]
    }

    /// Whether neither step depends on the other, so that they could run at once.
    pub(super) fn are_unordered(&self, a: usize, b: usize) -> bool {
        !self.depends(a, b) && !self.depends(b, a)
    }
}
