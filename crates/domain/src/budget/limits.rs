//! Limits by depth, for the engine and the settings: turns per attempt, and the depth of the tree.

/// Default base of the turn limit: 40, 20, 10, 5 turns by depth.
pub const DEFAULT_BASE_TURNS: u32 = 40;

/// Minimum turns of a child after halving: one to look, one to act, one to report.
pub const MIN_CHILD_TURNS: u32 = 3;

/// Default depth of a run's tree.
pub const DEFAULT_MAX_DEPTH: u32 = 2;

/// Default of the operator's ceiling on that depth.
pub const DEFAULT_MAX_ORCHESTRATION_DEPTH: u32 = 3;

/// The turns of one attempt, the report turn included. None means no limit.
///
/// `base` is the run's limit and is halved with every level. `cap` is the definition's limit for the first level, so it
/// is halved from the second level on. `max_turns` is the caller's limit and can only lower the result.
pub fn turn_limit(depth: u32, base: Option<u32>, cap: Option<u32>, max_turns: Option<u32>) -> Option<u32> {
    let Some(levels_below_first) = depth.checked_sub(1) else {
        return lowest([base, cap, max_turns]);
    };
    let halved = |turns: Option<u32>, times| turns.map(|turns| turns.checked_shr(times).unwrap_or(0));
    let by_depth = lowest([halved(base, depth), halved(cap, levels_below_first)]);
    lowest([max_turns, by_depth.map(|turns| turns.max(MIN_CHILD_TURNS))])
}

/// The maximum depth of a run's tree: the value of the run (or its root skill), else the default, and never more than
/// the operator's ceiling. If the operator sets only the ceiling, it is also the default.
pub fn effective_max_depth(run: Option<u32>, default_max_depth: Option<u32>, ceiling: Option<u32>) -> u32 {
    let wanted = run.or(default_max_depth).or(ceiling).unwrap_or(DEFAULT_MAX_DEPTH);
    wanted.min(ceiling.unwrap_or(DEFAULT_MAX_ORCHESTRATION_DEPTH))
}

fn lowest<const N: usize>(limits: [Option<u32>; N]) -> Option<u32> {
    limits.into_iter().flatten().min()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn by_depth(base: u32, cap: Option<u32>, depths: u32) -> Vec<u32> {
        (0..depths).map(|depth| turn_limit(depth, Some(base), cap, None).expect("a limit")).collect()
    }

    #[test]
    fn turns_are_15_7_3_from_a_base_of_15() {
        assert_eq!(by_depth(15, None, 3), [15, 7, 3]);
    }

    #[test]
    fn turns_are_40_20_10_5_by_default() {
        assert_eq!(by_depth(DEFAULT_BASE_TURNS, None, 4), [40, 20, 10, 5]);
    }

    #[test]
    fn a_child_has_at_least_three_turns_at_any_depth() {
        assert_eq!(by_depth(15, None, 7), [15, 7, 3, 3, 3, 3, 3]);
        for depth in [31, 32, 33, u32::MAX] {
            assert_eq!(turn_limit(depth, Some(u32::MAX), None, None), Some(MIN_CHILD_TURNS));
        }
        assert_eq!(turn_limit(1, Some(0), Some(0), None), Some(3));
    }

    #[test]
    fn the_cap_is_meant_for_the_first_level() {
        assert_eq!(by_depth(40, Some(15), 4), [15, 15, 7, 3]);
        assert_eq!(by_depth(40, Some(100), 4), [40, 20, 10, 5]);
        assert_eq!(turn_limit(1, None, Some(10), None), Some(10));
        assert_eq!(turn_limit(2, None, Some(10), None), Some(5));
    }

    #[test]
    fn what_the_caller_asks_for_only_shortens() {
        assert_eq!(turn_limit(1, Some(40), None, Some(100)), Some(20));
        assert_eq!(turn_limit(1, Some(40), None, Some(2)), Some(2), "below the least too");
        assert_eq!(turn_limit(0, Some(40), Some(20), Some(5)), Some(5));
    }

    #[test]
    fn what_is_absent_does_not_limit() {
        for depth in 0..4 {
            assert_eq!(turn_limit(depth, None, None, None), None);
            assert_eq!(turn_limit(depth, None, None, Some(9)), Some(9));
        }
    }

    #[test]
    fn the_depth_is_two_unless_something_says_otherwise() {
        assert_eq!(effective_max_depth(None, None, None), 2);
        assert_eq!(effective_max_depth(Some(1), None, None), 1);
        assert_eq!(effective_max_depth(None, Some(3), None), 3);
        assert_eq!(effective_max_depth(Some(0), Some(3), None), 0, "zero means zero");
    }

    #[test]
    fn the_ceiling_binds_and_is_the_default_when_set_alone() {
        assert_eq!(effective_max_depth(Some(9), None, None), 3);
        assert_eq!(effective_max_depth(None, Some(9), Some(4)), 4);
        assert_eq!(effective_max_depth(Some(9), Some(1), Some(5)), 5);
        assert_eq!(effective_max_depth(None, None, Some(5)), 5);
        assert_eq!(effective_max_depth(None, None, Some(1)), 1);
        assert_eq!(effective_max_depth(None, Some(1), Some(5)), 1);
    }
}
