//! How large a change is, in words that mean the same for every metric.

/// How large a change is, in multiples of the budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Magnitude {
    /// No larger than the budget.
    WithinBudget,
    /// Larger than the budget, and no larger than two of it.
    UpToTwice,
    /// Larger than two budgets, and no larger than four.
    UpToFourTimes,
    /// Larger than four budgets.
    Beyond,
}

impl Magnitude {
    /// The class of a change to `ratio`, candidate over baseline, under a `budget` as a share.
    ///
    /// A multiple is |ln(ratio)| / ln(1 + budget): on logarithms a doubling and a halving are changes of one size, as they are to the rule
    /// that judges. Under a budget of 5 % the classes end at +5.0, +10.3 and +21.6 %, and at -4.8, -9.3 and -17.7 %. It is the class of
    /// the estimate, whatever its interval, and neither better nor worse.
    pub fn of(ratio: f64, budget: f64) -> Self {
        // No change under no budget is no number; every comparison with it fails, which is right.
        match ratio.ln().abs() / budget.ln_1p() {
            multiple if multiple > 4.0 => Self::Beyond,
            multiple if multiple > 2.0 => Self::UpToFourTimes,
            multiple if multiple > 1.0 => Self::UpToTwice,
            _ => Self::WithinBudget,
        }
    }

    /// The class in words.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::WithinBudget => "within budget",
            Self::UpToTwice => "1-2 × budget",
            Self::UpToFourTimes => "2-4 × budget",
            Self::Beyond => "beyond 4 × budget",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_are_multiples_of_the_budget_either_way() {
        let of = |ratio| Magnitude::of(ratio, 0.05).as_str();
        assert_eq!([1.0, 1.049, 1.051, 1.102].map(of), ["within budget", "within budget", "1-2 × budget", "1-2 × budget"]);
        assert_eq!(
            [1.103, 1.215, 1.216, 9.0].map(of),
            ["2-4 × budget", "2-4 × budget", "beyond 4 × budget", "beyond 4 × budget"]
        );
        for ratio in [1.02, 1.07, 1.15, 1.3] {
            assert_eq!(Magnitude::of(ratio, 0.05), Magnitude::of(1.0 / ratio, 0.05), "{ratio}");
        }
    }

    #[test]
    fn without_a_budget_every_change_is_beyond_it() {
        assert_eq!(Magnitude::of(1.0, 0.0), Magnitude::WithinBudget);
        assert_eq!(Magnitude::of(1.001, 0.0), Magnitude::Beyond);
    }
}
