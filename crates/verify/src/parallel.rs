//! Work on many items at once.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::ScopedJoinHandle;

/// Applies a function to all items, with a thread for each processor. Returns the results in the order of the items.
pub fn map_in_parallel<T: Sync, R: Send>(items: &[T], apply: impl Fn(&T) -> R + Sync) -> Vec<R> {
    map_in_threads(std::thread::available_parallelism().map_or(1, usize::from), items, apply)
}

/// Applies a function to all items, with at most so many threads: more than there are processors, if it mostly waits. Returns the
/// results in the order of the items, or one of the errors: after the first of them, no further item is begun.
pub fn try_map_in_threads<T: Sync, R: Send, E: Send>(
    threads: usize,
    items: &[T],
    apply: impl Fn(&T) -> Result<R, E> + Sync,
) -> Result<Vec<R>, E> {
    let has_failed = AtomicBool::new(false);
    let apply = |item: &T| {
        (!has_failed.load(Ordering::Relaxed)).then(|| apply(item).inspect_err(|_| has_failed.store(true, Ordering::Relaxed)))
    };
    map_in_threads(threads, items, apply).into_iter().flatten().collect()
}

fn map_in_threads<T: Sync, R: Send>(threads: usize, items: &[T], apply: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let take = || Some(next.fetch_add(1, Ordering::Relaxed)).and_then(|index| Some((index, items.get(index)?)));
    let work = || std::iter::from_fn(take).map(|(index, item)| (index, apply(item))).collect::<Vec<_>>();
    let threads = threads.min(items.len());
    let mut results = std::thread::scope(|scope| {
        // This thread is one of them. A thread that cannot be started leaves its items to the others.
        let helpers = (1..threads).filter_map(|_| std::thread::Builder::new().spawn_scoped(scope, work).ok());
        let helpers: Vec<_> = helpers.collect();
        let joined =
            |thread: ScopedJoinHandle<'_, Vec<_>>| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        let mut results = work();
        results.extend(helpers.into_iter().flat_map(joined));
        results
    });
    results.sort_by_key(|(index, _)| *index);
    results.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_in_the_order_of_the_items() {
        let items: Vec<u32> = (0..100).collect();
        assert_eq!(map_in_parallel(&items, |item| item * 2), items.iter().map(|item| item * 2).collect::<Vec<_>>());
        assert_eq!(try_map_in_threads(16, &items, |item| Ok::<_, ()>(*item)), Ok(items));
        assert_eq!(try_map_in_threads(16, &[], |item: &u32| Ok::<_, ()>(*item)), Ok(Vec::new()));
    }

    #[test]
    fn nothing_is_begun_after_an_error() {
        let begun = AtomicUsize::new(0);
        let fail_from_third = |item: &u32| {
            begun.fetch_add(1, Ordering::Relaxed);
            if *item < 3 { Ok(*item) } else { Err(*item) }
        };
        assert_eq!(try_map_in_threads(1, &[1, 2, 3, 4, 5], fail_from_third), Err(3));
        assert_eq!(begun.into_inner(), 3);
    }
}
