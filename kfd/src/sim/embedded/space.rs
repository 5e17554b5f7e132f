//! Addresses: real ones, or numbers that behave like them.
//!
//! The numbers are handed out from the top of the range downward, first fit, neighbours that become free grow together:
//! the order in which Linux gives out addresses, so that objects lie as they would.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use hsakmt_core::address::Bounds;
use hsakmt_core::driver::{Errno, HostRange, VaRequest};
use hsakmt_core::flags::MemFlags;

use super::{EmbeddedMachine, Space};
use crate::host::{AddressSpace, HostSpace, Shown};

/// The addresses of one opened KFD, with the faults of the machine: `reserve`, and `mmap` for whatever is shown at reserved
/// addresses and for host memory.
#[derive(Debug)]
pub struct EmbeddedSpace {
    machine: EmbeddedMachine,
    addresses: Addresses,
    inside: Duration,
}

/// Where addresses come from.
#[derive(Debug)]
enum Addresses {
    /// This process.
    Host(HostSpace),
    /// Nowhere.
    Virtual(Numbers),
}

impl EmbeddedSpace {
    pub(super) fn new(machine: EmbeddedMachine) -> EmbeddedSpace {
        let addresses = match machine.space {
            Space::Host => Addresses::Host(HostSpace::new()),
            Space::Virtual => Addresses::Virtual(Numbers::new()),
        };
        EmbeddedSpace { machine, addresses, inside: Duration::ZERO }
    }

    /// Time spent here.
    pub(super) fn time_inside(&self) -> Duration {
        self.inside
    }

    /// The error that a step is to fail with.
    fn strike(&self, verb: &str) -> Result<(), Errno> {
        self.machine.faults(|faults| faults.strike(verb)).map_or(Ok(()), Err)
    }

    /// Runs `work` on the clock.
    fn timed<R>(&mut self, work: impl FnOnce(&mut EmbeddedSpace) -> R) -> R {
        let start = Instant::now();
        let result = work(self);
        self.inside += start.elapsed();
        result
    }
}

impl AddressSpace for EmbeddedSpace {
    fn reserve(&mut self, request: VaRequest) -> Result<usize, Errno> {
        self.timed(|space| {
            space.strike("reserve")?;
            match &mut space.addresses {
                Addresses::Host(host) => host.reserve(request),
                Addresses::Virtual(numbers) => numbers.reserve(request),
            }
        })
    }

    fn last_used(&self, range: Bounds) -> Option<usize> {
        match &self.addresses {
            Addresses::Host(host) => host.last_used(range),
            Addresses::Virtual(numbers) => numbers.last_used(range),
        }
    }

    unsafe fn release(&mut self, address: usize, size: usize) {
        self.timed(|space| match &mut space.addresses {
            // SAFETY: the caller's promise.
            Addresses::Host(host) => unsafe { host.release(address, size) },
            Addresses::Virtual(numbers) => numbers.release(address, size),
        })
    }

    unsafe fn show(&mut self, address: usize, size: usize, what: Shown<'_>) -> Result<(), Errno> {
        self.timed(|space| {
            space.strike("mmap")?;
            match &mut space.addresses {
                // SAFETY: the caller's promise.
                Addresses::Host(host) => unsafe { host.show(address, size, what) },
                Addresses::Virtual(_) => Ok(()),
            }
        })
    }

    fn alloc(&mut self, size: usize, align: usize, flags: MemFlags) -> Result<usize, Errno> {
        self.timed(|space| {
            space.strike("mmap")?;
            match &mut space.addresses {
                Addresses::Host(host) => host.alloc(size, align, flags),
                Addresses::Virtual(numbers) => {
                    let bounds = Bounds::new(0, usize::MAX);
                    numbers.reserve(VaRequest { size, align: align.max(PAGE), guard: 0, fixed: None, bounds })
                }
            }
        })
    }

    fn has_memory(&self) -> bool {
        matches!(self.addresses, Addresses::Host(_))
    }

    fn touch(&self, range: HostRange<'_>) {
        if let Addresses::Host(host) = &self.addresses {
            host.touch(range)
        }
    }
}

const PAGE: usize = 4096;
const BOTTOM: usize = 1 << 24;
const TOP: usize = 1 << 47;

/// The free ranges: start -> end.
#[derive(Debug)]
struct Numbers(BTreeMap<usize, usize>);

impl Numbers {
    fn new() -> Numbers {
        Numbers(BTreeMap::from([(BOTTOM, TOP)]))
    }

    /// Finds and takes a free range.
    fn reserve(&mut self, request: VaRequest) -> Result<usize, Errno> {
        let VaRequest { size, align, guard, fixed, bounds } = request;
        if size == 0
            || !size.is_multiple_of(PAGE)
            || !guard.is_multiple_of(PAGE)
            || !align.is_power_of_two()
            || align < PAGE
        {
            return Err(Errno::INVAL);
        }
        let place = match fixed {
            Some(address) if address == 0 || !address.is_multiple_of(PAGE) => return Err(Errno::INVAL),
            Some(address) => {
                let end = address.checked_add(size).ok_or(Errno::NOMEM)?;
                let (_, free_end) = self.0.range(..=address).next_back().ok_or(Errno(libc::EEXIST))?;
                if end > *free_end {
                    return Err(Errno(libc::EEXIST));
                }
                Some(address)
            }
            None => self.0.iter().rev().find_map(|(start, end)| {
                let highest = (*end).min(bounds.limit.saturating_add(1)).checked_sub(guard)?.checked_sub(size)?;
                let at = highest & !(align - 1);
                (at >= start.checked_add(guard)?.max(bounds.base)).then_some(at)
            }),
        };
        let at = place.filter(|at| bounds.contains_range(*at, size)).ok_or(Errno::NOMEM)?;
        self.take(at, at + size);
        Ok(at)
    }

    /// The last address of the highest used stretch that reaches into `range`.
    fn last_used(&self, range: Bounds) -> Option<usize> {
        let beyond = self.0.range(..=range.limit).next_back();
        let last = match beyond {
            // The range ends in a free stretch: the one before it.
            Some((start, end)) if *end > range.limit => start.checked_sub(1)?,
            _ => self.0.range(range.limit..).next().map_or(usize::MAX, |(start, _)| start - 1),
        };
        (last >= range.base).then_some(last)
    }

    /// `start..end` lies in one free range.
    fn take(&mut self, start: usize, end: usize) {
        let Some((&free, &free_end)) = self.0.range(..=start).next_back() else { return };
        self.0.remove(&free);
        if free < start {
            self.0.insert(free, start);
        }
        if end < free_end {
            self.0.insert(end, free_end);
        }
    }

    /// Gives a range back; it grows together with free neighbours.
    fn release(&mut self, address: usize, size: usize) {
        let (mut start, mut end) = (address, address.saturating_add(size));
        while let Some((&free, &free_end)) =
            self.0.range(..=end).next_back().filter(|(_, free_end)| **free_end >= start)
        {
            self.0.remove(&free);
            (start, end) = (start.min(free), end.max(free_end));
        }
        self.0.insert(start, end);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    fn request(size: usize, align: usize, guard: usize, fixed: Option<usize>) -> VaRequest {
        VaRequest { size, align, guard, fixed, bounds: Bounds::new(0, usize::MAX) }
    }

    #[test]
    fn what_is_used_ends_where_the_next_free_stretch_begins() {
        let mut numbers = Numbers::new();
        let at = |page: usize| BOTTOM + page * PAGE;
        assert_eq!(numbers.last_used(Bounds::new(at(0), at(9) - 1)), None);
        for page in [2, 3, 6] {
            numbers.reserve(request(PAGE, PAGE, 0, Some(at(page)))).unwrap();
        }
        let last = |from, to| numbers.last_used(Bounds::new(at(from), at(to) - 1));
        assert_eq!([last(0, 2), last(4, 6), last(7, 9)], [None; 3]);
        assert_eq!([last(0, 3), last(3, 4), last(0, 5)], [Some(at(4) - 1); 3], "both pages are one stretch");
        assert_eq!([last(0, 7), last(6, 9)], [Some(at(7) - 1); 2]);
        assert_eq!(numbers.last_used(Bounds::new(PAGE, BOTTOM - 1)), Some(BOTTOM - 1));
        assert_eq!(numbers.last_used(Bounds::new(TOP, TOP + PAGE)), Some(usize::MAX));
    }

    #[test]
    fn numbers_go_down_grow_together_and_never_overlap() {
        let mut numbers = Numbers::new();
        let first = numbers.reserve(request(PAGE, PAGE, 0, None)).unwrap();
        let second = numbers.reserve(request(2 * PAGE, PAGE, 0, None)).unwrap();
        assert_eq!((first, second), (TOP - PAGE, TOP - 3 * PAGE));
        let guarded = numbers.reserve(request(PAGE, 1 << 21, PAGE, None)).unwrap();
        assert!(guarded.is_multiple_of(1 << 21) && guarded + 2 * PAGE <= second);
        assert_eq!(numbers.reserve(request(PAGE, PAGE, 0, Some(second))), Err(Errno(libc::EEXIST)));
        numbers.release(second, 2 * PAGE);
        assert_eq!(numbers.reserve(request(PAGE, PAGE, 0, Some(second))), Ok(second));
        numbers.release(second, PAGE);
        numbers.release(guarded, PAGE);
        numbers.release(first, PAGE);
        assert_eq!(numbers.0, BTreeMap::from([(BOTTOM, TOP)]));
        assert_eq!(numbers.reserve(request(TOP, PAGE, 0, None)), Err(Errno::NOMEM));
        assert_eq!(numbers.reserve(request(1, PAGE, 0, None)), Err(Errno::INVAL));
    }
}
