//! Checks the steps of a plan against each other: names, dependencies, and writers that would overlap.

use std::collections::BTreeMap;

use super::super::graph::{Graph, Reachability};
use super::super::{Plan, Step, UnownedWriters};
use super::steps::quoted;
use super::{CheckProgress, PlanContext, StepName};
use crate::nearest::{hint, nearest};
use crate::ownership;

/// Maximum number of steps that a problem lists by name.
const LISTED_MAX: usize = 3;

pub(super) fn check(found: &mut CheckProgress<'_>, context: &PlanContext) {
    titles(found);
    let has_all_titles = !found.unread.any(&["title"]);
    let lost = dependencies(found);
    let graph = Graph::of(found.plan);
    let reach = graph.reach();
    cycles(found, &graph, &reach);
    // With a missing dependency the order is unknown, and the check could report false overlaps.
    if has_all_titles && !found.unread.any(&["depends_on", "owns", "agent", "tools", "unowned_writers"]) {
        overlaps(found, context, &reach, &lost);
    }
}

fn titles(found: &mut CheckProgress<'_>) {
    let plan: &Plan = found.plan;
    let mut first: BTreeMap<&str, usize> = BTreeMap::new();
    for (position, step) in plan.steps.iter().enumerate() {
        if step.title.trim().is_empty() {
            continue;
        }
        if let Some(earlier) = first.get(step.title.as_str()) {
            let problem = format!("step {} has the same; titles must differ", earlier + 1);
            found.add(Some(position), "title", None, problem);
        } else {
            first.insert(&step.title, position);
        }
    }
}

/// Reports dependencies on unknown steps. Returns for each step whether it has one.
fn dependencies(found: &mut CheckProgress<'_>) -> Vec<bool> {
    let plan: &Plan = found.plan;
    // The name may be meant as the title of a step whose title is missing or could not be read.
    let untitled = (0..plan.steps.len()).find(|position| found.unread.contains(Some(*position), "title"));
    let untitled =
        untitled.map(|position| format!(" (step {} has no title)", position + 1)).unwrap_or_default();
    let mut lost = vec![false; plan.steps.len()];
    for (position, step) in plan.steps.iter().enumerate() {
        for (item, name) in step.depends_on.iter().enumerate() {
            if *name == step.title {
                let problem = "a step cannot depend on itself".to_owned();
                found.add(Some(position), "depends_on", Some(item), problem);
            } else if !plan.steps.iter().any(|other| other.title == *name) {
                lost[position] = true;
                if found.is_full() {
                    continue;
                }
                let others = plan.steps.iter().map(|other| other.title.as_str());
                let hint =
                    hint(nearest(name, others.filter(|title| *title != step.title && !title.is_empty())));
                let problem =
                    format!("unknown step {}{hint}{untitled}; steps are named by title", quoted(name));
                found.add(Some(position), "depends_on", Some(item), problem);
            }
        }
    }
    lost
}

fn cycles(found: &mut CheckProgress<'_>, graph: &Graph, reach: &Reachability) {
    for cycle in graph.cycles(reach) {
        let around = cycle.iter().chain(cycle.first());
        let titles: Vec<String> = around.map(|at| quoted(&found.plan.steps[*at].title)).collect();
        let problem = format!("the steps depend on each other in a circle: {}", titles.join(" -> "));
        found.add(cycle.first().copied(), "depends_on", None, problem);
    }
}

fn overlaps(found: &mut CheckProgress<'_>, context: &PlanContext, reach: &Reachability, lost: &[bool]) {
    let plan: &Plan = found.plan;
    let unowned_may_meet = plan.unowned_writers == UnownedWriters::Parallel;
    let counts = |(position, step): &(usize, &Step)| {
        !lost[*position] && context.writes(step) && !(step.owns.is_empty() && unowned_may_meet)
    };
    let writers: Vec<(usize, &Step)> = plan.steps.iter().enumerate().filter(counts).collect();
    for (index, (position, step)) in writers.iter().enumerate() {
        let meets = |(other, earlier): &&(usize, &Step)| {
            reach.are_unordered(*position, *other) && ownership::overlap(&step.owns, &earlier.owns)
        };
        let met: Vec<usize> = writers[..index].iter().filter(meets).map(|(other, _)| *other).collect();
        if met.is_empty() {
            continue;
        }
        let problem = describe(plan, step, &met);
        found.add(Some(*position), "owns", None, problem);
    }
}

fn describe(plan: &Plan, step: &Step, met: &[usize]) -> String {
    let mut names: Vec<String> =
        met.iter().take(LISTED_MAX).map(|at| StepName::of(plan, *at).to_string()).collect();
    if met.len() > LISTED_MAX {
        names.push(format!("{} more", met.len() - LISTED_MAX));
    }
    let names = names.join(", ");
    let unowned = step.owns.is_empty() || met.iter().any(|at| plan.steps[*at].owns.is_empty());
    let why = if unowned { " (a step without `owns` can change every file)" } else { "" };
    format!(
        "could run at the same time as {names} and change the same files{why}; order them with `depends_on`, \
         or give each its own paths in `owns`"
    )
}
