//! Reproducible randomness: the same seed gives the same numbers on every machine.

/// A seeded source of numbers (`SplitMix64`): small, and good enough to choose moments.
#[derive(Debug, Clone)]
pub struct Dice(u64);

impl Dice {
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Dice for one part of a campaign. Parts may run in any order and still get the same numbers.
    pub fn of_part(seed: u64, part: u64) -> Self {
        let mut dice = Self(seed ^ part.wrapping_mul(0xd134_2543_de82_ef95));
        dice.bits();
        dice
    }

    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ (bits >> 31)
    }

    /// A number from 0 to `sides - 1`, or 0 if there are no sides.
    pub fn roll(&mut self, sides: u64) -> u64 {
        self.bits().checked_rem(sides).unwrap_or(0)
    }

    /// True with this probability in percent.
    pub fn chance(&mut self, percent: u64) -> bool {
        self.roll(100) < percent
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_the_same_numbers_again() {
        let throw = |seed| {
            let mut dice = Dice::new(seed);
            [dice.roll(1_000), dice.roll(1_000), dice.roll(1_000)]
        };
        assert_eq!(throw(7), throw(7));
        assert_ne!(throw(7), throw(8));
        assert_eq!(Dice::new(1).roll(0), 0);
    }

    #[test]
    fn parts_of_a_seed_differ() {
        assert_ne!(Dice::of_part(7, 1).bits(), Dice::of_part(7, 2).bits());
        assert_eq!(Dice::of_part(7, 1).bits(), Dice::of_part(7, 1).bits());
    }
}
