//! The size of a change, in words that mean the same for every metric.

/// The size of a change, in multiples of the budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Magnitude {
    /// No larger than the budget.
    WithinBudget,
    /// Larger than the budget, and no larger than twice the budget.
    UpToTwice,
    /// Larger than twice the budget, and no larger than four times.
    UpToFourTimes,
    /// Larger than four times the budget.
    MoreThanFourTimes,
}

impl Magnitude {
    /// Returns the class of a change to `ratio`, candidate over baseline, under a `budget` as a share.
    ///
    /// A multiple is |ln(ratio)| / ln(1 + budget): on logarithms a doubling and a halving are changes of the same size, as in the
    /// gate's rule. Under a budget of 5 % the classes end at +5.0, +10.3 and +21.6 %, and at -4.8, -9.3 and -17.7 %. The class
    /// describes the estimate, independent of its interval and of whether the change is better or worse.
    pub fn from_ratio(ratio: f64, budget: f64) -> Self {
        // No change under a budget of 0 gives NaN; every comparison with it fails, which is the intended result.
        match ratio.ln().abs() / budget.ln_1p() {
            multiple if multiple > 4.0 => Self::MoreThanFourTimes,
            multiple if multiple > 2.0 => Self::UpToFourTimes,
            multiple if multiple > 1.0 => Self::UpToTwice,
            _ => Self::WithinBudget,
        }
    }

    /// Returns the class in words.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::WithinBudget => "within budget",
            Self::UpToTwice => "1-2 × budget",
            Self::UpToFourTimes => "2-4 × budget",
            Self::MoreThanFourTimes => "beyond 4 × budget",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_are_multiples_of_the_budget_either_way() {
        let of = |ratio| Magnitude::from_ratio(ratio, 0.05).as_str();
        assert_eq!([1.0, 1.049, 1.051, 1.102].map(of), ["within budget", "within budget", "1-2 × budget", "1-2 × budget"]);
        assert_eq!(
            [1.103, 1.215, 1.216, 9.0].map(of),
            ["2-4 × budget", "2-4 × budget", "beyond 4 × budget", "beyond 4 × budget"]
        );
        for ratio in [1.02, 1.07, 1.15, 1.3] {
            assert_eq!(Magnitude::from_ratio(ratio, 0.05), Magnitude::from_ratio(1.0 / ratio, 0.05), "{ratio}");
        }
    }

    #[test]
    fn without_a_budget_every_change_is_beyond_it() {
        assert_eq!(Magnitude::from_ratio(1.0, 0.0), Magnitude::WithinBudget);
        assert_eq!(Magnitude::from_ratio(1.001, 0.0), Magnitude::MoreThanFourTimes);
    }
}
