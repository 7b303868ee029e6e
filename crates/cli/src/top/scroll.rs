//! Moves through rows that do not all fit on the screen.

use crate::view::keys::Key;

/// A movement through rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Move {
    /// By this many rows.
    By(isize),
    /// By this many screens.
    Screens(isize),
    Start,
    End,
}

impl Move {
    /// The movement that a key means, if it means one.
    pub(super) fn of(key: Key) -> Option<Self> {
        Some(match key {
            Key::Up | Key::Char('k') => Self::By(-1),
            Key::Down | Key::Char('j') => Self::By(1),
            Key::PageUp | Key::Control('b') => Self::Screens(-1),
            Key::PageDown | Key::Char(' ') | Key::Control('f') => Self::Screens(1),
            Key::Home | Key::Char('g') => Self::Start,
            Key::End | Key::Char('G') => Self::End,
            _ => return None,
        })
    }

    /// The row that it leads to, of `len` rows on a screen of `height`.
    pub(super) fn from(self, at: usize, len: usize, height: usize) -> usize {
        let last = len.saturating_sub(1);
        match self {
            Self::By(rows) => at.saturating_add_signed(rows).min(last),
            Self::Screens(screens) => {
                let rows = isize::try_from(height.max(1)).unwrap_or(1);
                at.saturating_add_signed(screens.saturating_mul(rows)).min(last)
            }
            Self::Start => 0,
            Self::End => last,
        }
    }
}

/// The first row on a screen of `height` that shows row `at`, as near to `top` as possible.
pub(super) fn top_for(at: usize, top: usize, height: usize) -> usize {
    let lowest = (at + 1).saturating_sub(height.max(1));
    top.clamp(lowest, at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_movement_stays_within_the_rows() {
        let to = |key, at| Move::of(key).expect("a movement").from(at, 100, 20);
        assert_eq!([to(Key::Up, 0), to(Key::Up, 5), to(Key::Down, 99), to(Key::Char('j'), 5)], [0, 4, 99, 6]);
        assert_eq!(
            [to(Key::PageDown, 90), to(Key::PageUp, 30), to(Key::End, 0), to(Key::Home, 9)],
            [99, 10, 99, 0]
        );
        assert_eq!(Move::End.from(0, 0, 20), 0, "no rows");
        assert_eq!(Move::of(Key::Char('x')), None);
    }

    #[test]
    fn the_screen_moves_no_more_than_it_must() {
        assert_eq!(top_for(5, 0, 10), 0);
        assert_eq!(top_for(12, 0, 10), 3);
        assert_eq!(top_for(2, 5, 10), 2);
        assert_eq!(top_for(7, 7, 0), 7, "a terminal without rows");
    }
}
