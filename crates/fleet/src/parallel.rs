//! Maps a function over a slice with a bounded number of threads.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;

/// Calls `work` for each of `items` with at most `at_once` threads, and returns the results in the order of the items.
pub fn map_bounded<T: Sync, R: Send>(items: &[T], at_once: usize, work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let (send, receive) = mpsc::channel();
    std::thread::scope(|scope| {
        for _ in 0..at_once.clamp(1, items.len().max(1)) {
            let (send, next, work) = (send.clone(), &next, &work);
            scope.spawn(move || {
                while let Some((index, item)) =
                    Some(next.fetch_add(1, Ordering::Relaxed)).and_then(|i| Some((i, items.get(i)?)))
                {
                    // The receiver outlives the scope.
                    let _ = send.send((index, work(item)));
                }
            });
        }
    });
    drop(send);
    let mut done: Vec<(usize, R)> = receive.iter().collect();
    done.sort_by_key(|(index, _)| *index);
    done.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Barrier;

    #[test]
    fn results_are_in_order_and_concurrency_is_bounded() {
        let items: Vec<usize> = (0..50).collect();
        assert_eq!(map_bounded(&items, 7, |item| item * 2), items.iter().map(|item| item * 2).collect::<Vec<_>>());
        assert!(map_bounded(&[0_u8; 0], 4, |_| 1).is_empty());
        // The barrier blocks forever unless three threads work concurrently.
        let barrier = Barrier::new(3);
        assert_eq!(
            map_bounded(&[1, 2, 3], 3, |item| {
                barrier.wait();
                *item
            }),
            [1, 2, 3]
        );
        let (now, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
        map_bounded(&items, 2, |_| {
            most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            now.fetch_sub(1, Ordering::SeqCst);
        });
        assert!(most.into_inner() <= 2);
    }
}
