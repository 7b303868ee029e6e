//! Random plans: their order is topological, and planted problems are found.

use proptest::prelude::*;

use super::{context, plan, step};
use crate::plan::{Plan, Problem, Step, check};

/// Maximum number of steps of a random plan.
const MOST: usize = 12;

/// A plan without problems: each step may depend on earlier ones (in a shuffled list), and owns its own folder.
fn sound() -> impl Strategy<Value = Plan> {
    (1..MOST)
        .prop_flat_map(|count| {
            let links =
                prop::collection::vec(prop::collection::vec(any::<prop::sample::Index>(), 0..4), count);
            (links, Just((0..count).collect::<Vec<_>>()).prop_shuffle())
        })
        .prop_map(|(links, shuffled)| {
            let title = |at: usize| format!("step {at}");
            let made = |at: usize| {
                let needs: Vec<String> = if at == 0 {
                    Vec::new()
                } else {
                    links[at].iter().map(|link| title(link.index(at))).collect()
                };
                Step { depends_on: needs, ..step(&title(at), &[&format!("dir{at}/**")], &[]) }
            };
            plan(shuffled.into_iter().map(made).collect())
        })
}

fn found(plan: &Plan, field: &str) -> Vec<Problem> {
    check(plan, &context()).into_iter().filter(|problem| problem.field == field).collect()
}

proptest! {
    #[test]
    fn the_order_is_topological_and_ties_go_by_position(plan in sound()) {
        prop_assert_eq!(check(&plan, &context()), vec![]);
        let order = plan.order();
        let needs = plan.dependencies();
        let mut done = vec![false; plan.steps.len()];
        for position in order {
            // Among all steps that are ready, the first of the list is next.
            let ready = |at: &usize| !done[*at] && needs[*at].iter().all(|need| done[*need]);
            prop_assert_eq!((0..done.len()).find(ready), Some(position));
            done[position] = true;
        }
        prop_assert!(done.into_iter().all(|done| done));
    }

    #[test]
    fn every_step_is_in_the_wave_after_its_last_need(plan in sound()) {
        let waves = plan.waves();
        let wave_of = |at: usize| waves.iter().position(|wave| wave.contains(&at)).expect("a wave");
        prop_assert_eq!(waves.iter().map(Vec::len).sum::<usize>(), plan.steps.len());
        for (at, needs) in plan.dependencies().iter().enumerate() {
            let after = needs.iter().map(|need| wave_of(*need) + 1).max().unwrap_or(0);
            prop_assert_eq!(wave_of(at), after);
        }
    }

    #[test]
    fn a_planted_cycle_is_found(plan in sound(), from in any::<prop::sample::Index>()) {
        let mut plan = plan;
        // Add a dependency from a step back to one that depends on it, directly or not.
        let needs = plan.dependencies();
        let links: Vec<(usize, usize)> =
            needs.iter().enumerate().flat_map(|(at, needs)| needs.iter().map(move |need| (at, *need))).collect();
        prop_assume!(!links.is_empty());
        let (at, need) = links[from.index(links.len())];
        let title = plan.steps[at].title.clone();
        plan.steps[need].depends_on.push(title);
        let cycles = found(&plan, "depends_on");
        prop_assert_eq!(cycles.len(), 1);
        prop_assert!(cycles[0].problem.contains(" -> "), "{}", cycles[0]);
        let mut order = plan.order();
        order.sort_unstable();
        prop_assert_eq!(order, (0..plan.steps.len()).collect::<Vec<_>>());
    }

    #[test]
    fn a_planted_overlap_is_found_unless_the_steps_are_ordered(
        plan in sound(), a in any::<prop::sample::Index>(), b in any::<prop::sample::Index>()
    ) {
        let mut plan = plan;
        let (a, b) = (a.index(plan.steps.len()), b.index(plan.steps.len()));
        prop_assume!(a != b);
        let inside = plan.steps[a].owns[0].replace("**", "file");
        plan.steps[b].owns.push(inside);
        let needs = plan.dependencies();
        let leads = |from: usize, to: usize| {
            let mut open = vec![from];
            let mut seen = vec![false; needs.len()];
            while let Some(at) = open.pop() {
                if !std::mem::replace(&mut seen[at], true) {
                    open.extend(&needs[at]);
                }
            }
            seen[to]
        };
        let expected = usize::from(!leads(a, b) && !leads(b, a));
        prop_assert_eq!(found(&plan, "owns").len(), expected);
    }

    #[test]
    fn a_planted_unknown_is_found(plan in sound(), at in any::<prop::sample::Index>()) {
        let mut plan = plan;
        let at = at.index(plan.steps.len());
        plan.steps[at].agent = "nobody".to_owned();
        plan.steps[at].depends_on.push("nowhere".to_owned());
        prop_assert_eq!(found(&plan, "agent").len(), 1);
        prop_assert_eq!(found(&plan, "depends_on").len(), 1);
    }

    #[test]
    fn no_plan_is_too_strange_to_be_checked(
        titles in prop::collection::vec(".{0,3}", 0..MOST),
        names in prop::collection::vec(prop::collection::vec(".{0,3}", 0..4), MOST),
        owns in prop::collection::vec(prop::collection::vec("[a-b*/.]{0,4}", 0..3), MOST),
    ) {
        let made = |(at, title): (usize, &String)| Step {
            title: title.clone(),
            depends_on: names[at].clone(),
            owns: owns[at].clone(),
            ..Step::default()
        };
        let plan = plan(titles.iter().enumerate().map(made).collect());
        prop_assert!(!check(&plan, &context()).is_empty(), "no step says what to do");
        prop_assert_eq!(plan.order().len(), plan.steps.len());
        prop_assert_eq!(plan.waves().concat().len(), plan.steps.len());
    }
}
