//! The packages that execute installed for a variant, and the lock file that the Plan names for it: two signed places of one fact.

use assay_manifest::{Attempt, AttemptStatus, ExecutionPart, InstalledStack, Plan};

use crate::links::{BrokenLink, Member, manifests_of_kind};

/// Checks that each installation is that of a planned lock file, and that each attempt of a variant with packages ran with them.
pub(crate) fn check_stacks(members: &[Member<'_>]) -> Result<(), BrokenLink> {
    let Some(plan) = manifests_of_kind::<Plan>(members).next() else { return Ok(()) };
    for part in manifests_of_kind::<ExecutionPart>(members) {
        part.body.stacks.iter().try_for_each(|installed| check_installed(&plan.body, installed))?;
        part.body.attempts.iter().try_for_each(|attempt| check_attempt(&plan.body, &part.body, attempt))?;
    }
    Ok(())
}

fn check_installed(plan: &Plan, installed: &InstalledStack) -> Result<(), BrokenLink> {
    let broken = |detail: String| Err(BrokenLink::Stack { variant: installed.variant.clone(), detail });
    let Some(planned) = plan.variant(&installed.variant).and_then(|variant| variant.python.as_ref()) else {
        return broken("the plan names none".to_owned());
    };
    if installed.lock != planned.lock.artifact.digest {
        return broken(format!(
            "they were installed from {}, and its lock file is {}",
            installed.lock, planned.lock.artifact.digest
        ));
    }
    match planned.difference(&installed.packages).filter(|_| installed.failure.is_none()) {
        Some(difference) => broken(difference),
        None => Ok(()),
    }
}

/// Checks an attempt that ran: its variant has no packages, or they were installed.
fn check_attempt(plan: &Plan, part: &ExecutionPart, attempt: &Attempt) -> Result<(), BrokenLink> {
    let never_ran = matches!(attempt.status, AttemptStatus::NotPrepared | AttemptStatus::Interrupted | AttemptStatus::Cancelled);
    let Some((variant, _)) = plan.python_stack(&attempt.case_id).filter(|_| !never_ran) else { return Ok(()) };
    if part.stacks.iter().any(|stack| stack.variant == *variant && stack.failure.is_none()) {
        return Ok(());
    }
    let detail = format!("an attempt of `{}` ran, and no installation is recorded", attempt.trial_id);
    Err(BrokenLink::Stack { variant: variant.clone(), detail })
}
