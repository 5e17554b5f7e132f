//! A domain by itself: two pages, a root that says which is the newest, a writer that uses the first one again.
//!
//! In: a domain. Out: nothing, or loom's panic. What the registry does with a domain, without its trees and pools: with
//! crossbeam's many steps per period, more would be too many orders to try.
//!
//! A reader pins once. On x86 crossbeam pins by a compare-exchange, which there is a fence, but not to loom; a
//! participant's first pin collects besides, and that fences in so many words.

use std::cell::Cell;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize as Count, Ordering::Relaxed};

use hsakmt_core::epoch::slots::{Fences, Slots};
use hsakmt_core::epoch::{Domain, Grace, NEVER};
use hsakmt_core::primitive::{AtomicUsize, Ordering, Watch, fence};

use super::explore;

/// How often a writer looks whether its period has passed.
const LOOKS: usize = 2;

#[derive(Debug)]
struct Pages<D> {
    domain: D,
    root: AtomicUsize,
    pages: [Watch; 2],
}

impl<D: Domain> Pages<D> {
    /// Looks at the newest page `questions` times, all in one session, and stays in it for `meanwhile`. The answers.
    fn read(&self, questions: usize, meanwhile: impl FnOnce()) -> Vec<usize> {
        let mut local = self.domain.join().expect("a place");
        let mut guard = D::enter(&mut local);
        let mut answers = vec![self.look()];
        for _ in 1..questions {
            D::refresh(&mut guard);
            answers.push(self.look());
        }
        meanwhile();
        answers
    }

    fn look(&self) -> usize {
        let newest = self.root.load(Ordering::Acquire);
        self.pages[newest].read();
        newest
    }

    /// Publishes the second page, and writes the first one anew once it may. Whether it could.
    fn write(&self, mut grace: D::Grace<'_>) -> bool {
        self.pages[1].write();
        self.root.store(1, Ordering::Release);
        let period = grace.begin();
        let passed = period != NEVER && (0..LOOKS).any(|_| grace.passed(period));
        if passed {
            self.pages[0].write();
        }
        passed
    }
}

impl Pages<Slots<1, Fences>> {
    /// Asks once, interrupted between the entry's store and its fence by a handler that asks too. Both answers.
    fn read_interrupted(&self) -> Vec<usize> {
        // SAFETY: no other claim; the domain ends with its slot.
        let slot = unsafe { self.domain.claim(NonZeroUsize::MIN) }.expect("a slot");
        let mut handlers = 0;
        let interrupted = || {
            // SAFETY: a handler of the thread that claimed the slot, whose guard goes before the interrupted one's.
            let inside = unsafe { self.domain.enter_slot(slot, 0) };
            handlers = self.look();
            drop(inside);
            fence(Ordering::SeqCst);
        };
        // SAFETY: claimed above; the closure ends with the fence that `Fences` promises.
        let inside = unsafe { self.domain.enter_outermost_with(slot, 0, interrupted) }.expect("outside before");
        let own = self.look();
        drop(inside);
        vec![handlers, own]
    }
}

/// A reader with a signal handler in the middle of its entry.
pub(crate) fn two_pages_interrupted() {
    beside_a_writer_of_pages(
        || Slots::new(Fences),
        |pages, end| {
            let answers = pages.read_interrupted();
            end();
            answers
        },
    );
}

/// A writer's side on its way to the writer.
struct Carried<G>(G);

// SAFETY: all threads of a model run on one thread of the system, and only the writer uses it after this.
unsafe impl<G> Send for Carried<G> {}

impl<G> Carried<G> {
    fn arrived(self) -> G {
        self.0
    }
}

/// One reader beside the writer, which leaves when it has its answers, or stays until the writer is done.
pub(crate) fn two_pages<D: Domain + Send + 'static>(domain: fn() -> D, questions: usize, stays: bool) {
    let read = move |pages: &Pages<D>, end: &dyn Fn()| {
        let answers = pages.read(questions, || {
            if stays {
                end()
            }
        });
        if !stays {
            end();
        }
        answers
    };
    let reused = beside_a_writer_of_pages(domain, read);
    assert!(stays || reused > 0, "a period that never passed");
}

/// `read` beside the writer; it calls what it is given when the writer may, and must, come to its end. In how many orders
/// the first page was used again.
fn beside_a_writer_of_pages<D: Domain + Send + 'static>(
    domain: fn() -> D,
    read: impl Fn(&Pages<D>, &dyn Fn()) -> Vec<usize> + Send + Sync + 'static,
) -> usize {
    let (seen, reused) = (Arc::new([Count::new(0), Count::new(0)]), Arc::new(Count::new(0)));
    let (noted, done) = (Arc::clone(&seen), Arc::clone(&reused));
    explore(move || {
        let pages = [Watch::new(), Watch::new()];
        pages[0].write();
        let there = Box::into_raw(Box::new(Pages { domain: domain(), root: AtomicUsize::new(0), pages }));
        // SAFETY: it lives until its last line below, and the writer has ended before that.
        let pages: &'static Pages<D> = unsafe { &*there };
        // SAFETY: two periods in all.
        let mut grace = unsafe { pages.domain.grace() };
        // A writer that has been at work: crossbeam's first pin is not like the others.
        let before = grace.begin();
        while !grace.passed(before) {}
        let grace = Carried(grace);
        let writer = Cell::new(Some(loom::thread::spawn(move || pages.write(grace.arrived()))));
        let answers = read(pages, &|| {
            let writer = writer.take().expect("ended once");
            done.fetch_add(usize::from(writer.join().expect("a writer that ends")), Relaxed);
        });
        assert!(answers.is_sorted(), "{answers:?}");
        // SAFETY: made above; the writer has ended, and the reader has left.
        drop(unsafe { Box::from_raw(there) });
        answers.into_iter().for_each(|answer| _ = noted[answer].fetch_add(1, Relaxed));
    });
    assert!(seen.iter().all(|count| count.load(Relaxed) > 0), "{seen:?}");
    reused.load(Relaxed)
}
