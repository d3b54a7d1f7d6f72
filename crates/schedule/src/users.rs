//! Users: conversations whose turns come at equal gaps, for each of a number of users.
//!
//! Point `g` of the grid of a trial is `g / rate` after its start, to the nearest nanosecond, halves up, like equal gaps of an open loop, and
//! belongs to user `g` modulo N, whose gap is so N / rate. Each point is one turn, and the index of a request is its point: its lengths and its seed
//! are drawn there. The first session of user `u` is session `u`, whose first turn is at point `u`. After session `s` the user
//! plays session `s + N`, whose first turn is at the user's next point. Nothing moves a point: neither responses nor failures.
//!
//! A trial begins in the midst of its users' sessions: their first sessions have fewer turns left than they would have. With `x` the first
//! value of the concern `age` of the phase `trial`, and all of 64 bits, that of user `u` has `1 + (x + u c) t / 2^64` turns of its `t`, rounded down, with
//! the sum modulo `2^64` and `c` the odd number next to `2^64` divided by the golden ratio. Multiples of `c` are spread evenly (Weyl), however many users there are,
//! so that the ends of their first sessions are, too.

use std::num::NonZeroU64;

use crate::arrivals::ExactRate;

/// `2^64` divided by the golden ratio, to the nearest odd number.
const GOLDEN: u64 = 0x9E37_79B9_7F4A_7C15;

/// The grid of a trial.
#[derive(Clone, Copy, Debug)]
pub(crate) struct UserGrid {
    pub(crate) users: NonZeroU64,
    pub(crate) rate: ExactRate,
    /// The end of the trial: no point at or after it has a turn.
    pub(crate) ends_ns: u64,
    /// The value that decides how many turns are left of first sessions.
    pub(crate) age: u64,
}

impl UserGrid {
    /// Returns the time of a point in nanoseconds since the trial's start; `None` at or after its end.
    pub(crate) fn at_ns(&self, point: u64) -> Option<i64> {
        let at_ns = self.rate.offset_ns(point);
        i64::try_from(at_ns).ok().filter(|_| at_ns < u128::from(self.ends_ns))
    }

    /// Returns the point of a turn of a session that begins at another.
    pub(crate) fn point_of(&self, first: u64, turn: u32) -> u64 {
        first.saturating_add(u64::from(turn).saturating_mul(self.users.get()))
    }

    /// Returns the turns that a session of `turns` has left: all of them, unless it is the first one of its user.
    pub(crate) fn turns_left(&self, session: u64, turns: u32) -> u32 {
        if session >= self.users.get() {
            return turns;
        }
        let share = self.age.wrapping_add(session.wrapping_mul(GOLDEN));
        // Below `turns`, because the share is below 2^64.
        1 + ((u128::from(share) * u128::from(turns)) >> 64) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const S: u64 = 1_000_000_000;

    fn grid(users: u64, per_s: f64, age: u64) -> UserGrid {
        let users = NonZeroU64::new(users).expect("users");
        UserGrid { users, rate: ExactRate::new(per_s).expect("a rate"), ends_ns: 10 * S, age }
    }

    #[test]
    fn the_gap_of_a_user_is_the_number_of_users_over_the_rate() {
        // 3 users at 1.5 turns per second: 2 s each, one after the other every 2/3 s.
        let grid = grid(3, 1.5, 0);
        let of_user = |user: u64| [0, 1, 2, 4, 5].map(|turn| grid.at_ns(grid.point_of(user, turn)));
        assert_eq!(of_user(0), [0, 2, 4, 8, 10].map(|s| (s < 10).then_some(s * 1_000_000_000)));
        assert_eq!(of_user(1)[..3], [Some(666_666_667), Some(2_666_666_667), Some(4_666_666_667)]);
        assert_eq!(of_user(2)[..3], [Some(1_333_333_333), Some(3_333_333_333), Some(5_333_333_333)]);
        assert_eq!(grid.at_ns(u64::MAX), None);
    }

    #[test]
    fn first_sessions_have_fewer_turns_left() {
        // The multiples of 0.618.. modulo 1 are 0, 0.618, 0.236, 0.854 and 0.472; times 10 and rounded down, plus 1.
        let left = |age| (0..5).map(|session| grid(5, 1.0, age).turns_left(session, 10)).collect::<Vec<_>>();
        assert_eq!(left(0), [1, 7, 3, 9, 5]);
        assert_eq!(left(1 << 63), [6, 2, 8, 4, 10]);
        assert_eq!(left(u64::MAX), [10, 7, 3, 9, 5]);
        assert_eq!(grid(5, 1.0, 0).turns_left(5, 10), 10, "a session that follows another one is whole");
    }

    proptest! {
        #[test]
        fn what_is_left_of_first_sessions_is_spread_evenly(users in 1_u64..200, turns in 1_u32..50, age: u64) {
            let grid = grid(users, 1.0, age);
            let left: Vec<u32> = (0..users).map(|session| grid.turns_left(session, turns)).collect();
            prop_assert!(left.iter().all(|left| (1..=turns).contains(left)));
            // The discrepancy of N multiples of the golden ratio is below 3 ln(N) + 3 of N.
            for least in 1..=turns {
                let above = left.iter().filter(|left| **left >= least).count() as f64;
                let expected = users as f64 * f64::from(turns - least + 1) / f64::from(turns);
                prop_assert!((above - expected).abs() <= 3.0 * (users as f64).ln() + 3.0, "{least} of {turns}: {above}, {expected}");
            }
        }
    }
}
