//! The area allocator of a reserved aperture: who owns which part of a range of addresses.
//!
//! In: a size, an alignment, perhaps a fixed address. Out: the start of a free area, first fit. Each area carries its
//! guard behind it, so that an access past the end hits nothing. What never happens: a system call, a partial change
//! (an allocation either owns its area or changed nothing), an area outside the bounds. Releasing cannot fail.
//!
//! Placement rule, the one the C library uses: the alignment doubles while it is below 2 MiB and the size is at least
//! twice as large. A caller who asks for no more than a page gets the *end* of the buffer aligned, not its start, which
//! gives the GPU's translation cache the same large fragments: the start is the first aligned address, plus the
//! alignment, minus what the size has over a multiple of it. An area therefore starts one whole alignment after the
//! previous one's guard even when the size is a multiple. A fixed address needs its whole area, guard included, free.
//!
//! First fit looks at every gap from the front. A program that makes many buffers alike would look at the same full
//! front again and again, so for each alignment the last search is remembered ([`Searched`]): where it ended, the next
//! one like it begins.

pub(crate) mod areas;

use areas::{Areas, BLOCK, Gap};

use crate::address::{Bounds, PageSize};
use crate::pool::Memory;

/// Where growing the alignment stops: a GPU's huge page.
pub(crate) const HUGE_PAGE: usize = 2 << 20;

/// Alignments whose last search is remembered.
const CLASSES: usize = 8;

/// No free area fits, or no memory to note it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NoRoom;

/// An owned part of the range, its guard included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Area {
    /// First address.
    pub(crate) start: usize,
    /// Last address.
    pub(crate) last: usize,
}

/// What a search has found out: no gap that begins before `from` holds a request placed like this that is at least as
/// large. Cutting a gap keeps that true, since a later start ends later; a gap that grows makes it unknown again.
#[derive(Clone, Copy, Debug)]
struct Searched {
    align: usize,
    shift: usize,
    total: usize,
    from: usize,
}

impl Searched {
    /// Nothing is known.
    const NOTHING: Searched = Searched { align: 0, shift: 0, total: 0, from: 0 };
}

/// A range of addresses and the areas owned in it. Tests take smaller blocks, so that blocks split and join often.
#[derive(Debug)]
pub(crate) struct VaSpace<const AREAS_PER_BLOCK: usize = BLOCK> {
    bounds: Bounds,
    page: PageSize,
    align: usize,
    guard: usize,
    areas: Areas<AREAS_PER_BLOCK>,
    searched: [Searched; CLASSES],
}

/// `alignment` doubled while it stays below `cap` and `size` is at least twice as large.
pub(crate) fn grown(alignment: usize, size: usize, cap: usize) -> usize {
    let mut align = alignment;
    while align < cap
        && let Some(double) = align.checked_mul(2)
        && size >= double
    {
        align = double;
    }
    align
}

impl<const AREAS_PER_BLOCK: usize> VaSpace<AREAS_PER_BLOCK> {
    /// A space that holds nothing and gives nothing.
    pub(crate) const fn empty() -> Self {
        VaSpace::new(Bounds::EMPTY, 4096, 0, PageSize::FOUR_KIB)
    }

    /// All of `bounds`, free. `align` (a power of two, at least a page) is the least alignment, `guard` the bytes kept
    /// behind each area.
    pub(crate) const fn new(bounds: Bounds, align: usize, guard: usize, page: PageSize) -> Self {
        VaSpace { bounds, page, align, guard, areas: Areas::new(), searched: [Searched::NOTHING; CLASSES] }
    }

    /// Ends the space; nothing in it is owned any more.
    pub(crate) fn free(self, memory: &mut impl Memory) {
        self.areas.free(memory);
    }

    /// The range.
    pub(crate) const fn bounds(&self) -> Bounds {
        self.bounds
    }

    /// What is owned, in address order.
    #[cfg(all(test, feature = "alloc"))]
    pub(crate) fn areas(&self) -> std::vec::Vec<Area> {
        self.areas.iter().copied().collect()
    }

    /// Owns the front of the range for ever, so that an address minus the base is never 0 (old APUs): as much as one
    /// smallest allocation would take, and all before it.
    pub(crate) fn keep_front(&mut self, memory: &mut impl Memory) -> Result<(), NoRoom> {
        self.allocate(self.align, 0, None, memory)?;
        if let Some(area) = self.areas.first_mut() {
            area.start = self.bounds.base;
        }
        Ok(())
    }

    /// Makes room to note one more area.
    pub(crate) fn reserve(&mut self, memory: &mut impl Memory) -> Result<(), NoRoom> {
        self.areas.reserve(memory)
    }

    /// Takes `size` bytes (not 0): first fit, or exactly `at`. `alignment` 0 asks for the least.
    pub(crate) fn allocate(
        &mut self,
        size: usize,
        alignment: usize,
        at: Option<usize>,
        memory: &mut impl Memory,
    ) -> Result<usize, NoRoom> {
        if size == 0 || self.bounds.is_empty() {
            return Err(NoRoom);
        }
        self.areas.reserve(memory)?;
        let total = size.checked_add(self.guard).ok_or(NoRoom)?;
        let (gap, start) = match at {
            Some(start) => (self.free_at(start, total)?, start),
            None => self.first_fit(size, total, alignment)?,
        };
        let last = start.checked_add(total - 1).ok_or(NoRoom)?;
        self.areas.insert(gap, Area { start, last })?;
        Ok(start)
    }

    /// Gives back what [`VaSpace::allocate`] returned. Any other address changes nothing.
    pub(crate) fn release(&mut self, start: usize) {
        let Some(front) = self.areas.remove(start) else { return };
        let gap = front.map_or(self.bounds.base, |last| last.saturating_add(1));
        for searched in &mut self.searched {
            searched.from = searched.from.min(gap);
        }
    }

    /// The gap that holds an area at exactly `start`, if all of it is free.
    fn free_at(&self, start: usize, total: usize) -> Result<Gap, NoRoom> {
        if self.page.offset(start) != 0 || !self.bounds.contains_range(start, total) {
            return Err(NoRoom);
        }
        let gap = self.areas.gap_at(start);
        let clear_before = self.areas.before(gap).is_none_or(|area| area.last < start);
        let clear_after = self.areas.after(gap).is_none_or(|area| area.start - start >= total);
        if clear_before && clear_after { Ok(gap) } else { Err(NoRoom) }
    }

    /// The first gap that holds `total` bytes placed by the rule, and where in it.
    fn first_fit(&mut self, size: usize, total: usize, alignment: usize) -> Result<(Gap, usize), NoRoom> {
        let asked = if alignment == 0 { self.align } else { alignment };
        let align = grown(asked.max(self.align), size, HUGE_PAGE);
        let shift = if asked <= self.page.bytes() { align - (size & (align - 1)) } else { 0 };
        let place = |from: usize| -> Option<usize> {
            let aligned = from.checked_add(align - 1)? & !(align - 1);
            aligned.checked_add(shift)
        };
        let class = usize::try_from(align.trailing_zeros()).unwrap_or(0) % CLASSES;
        let searched = self.searched.get_mut(class).ok_or(NoRoom)?;
        let alike = searched.align == align && searched.shift == shift && searched.total <= total;
        let from = if alike { searched.from.max(self.bounds.base) } else { self.bounds.base };
        let base = self.bounds.base;
        let behind = |front: Option<&Area>| front.map_or(Some(base), |area| area.last.checked_add(1));
        let fits = |front: Option<&Area>, area: &Area| {
            behind(front).and_then(place).is_some_and(|start| area.start > start && area.start - start >= total)
        };
        let found = self.areas.search(self.areas.gap_at(from.saturating_sub(1)), total, fits);
        let gap = found.unwrap_or(self.areas.end());
        let from = behind(self.areas.before(gap)).ok_or(NoRoom)?;
        *searched = Searched { align, shift, total, from };
        let start = place(from).ok_or(NoRoom)?;
        if found.is_some() || self.bounds.contains_range(start, total) { Ok((gap, start)) } else { Err(NoRoom) }
    }
}

#[cfg(all(test, feature = "alloc"))]
mod tests {
    use super::*;
    use crate::pool::Heap;
    use proptest::prelude::*;
    use std::vec::Vec;

    const P: usize = 4096;

    fn space(pages: usize, guard: usize) -> VaSpace {
        space_of(pages, guard)
    }

    /// With as many areas per block.
    fn space_of<const BLOCK: usize>(pages: usize, guard: usize) -> VaSpace<BLOCK> {
        VaSpace::new(Bounds::new(0x100_0000, 0x100_0000 + pages * P - 1), P, guard * P, PageSize::FOUR_KIB)
    }

    #[test]
    fn case_61_distance_of_one_page_areas() {
        for (guard, distance) in [(0, 2 * P), (1, 3 * P), (4, 6 * P)] {
            let mut va = space(1 << 20, guard);
            let first = va.allocate(P, 0, None, &mut Heap).unwrap();
            assert_eq!(first, 0x100_0000 + P, "the end is aligned, not the start");
            assert_eq!(va.allocate(P, 0, None, &mut Heap), Ok(first + distance));
            assert_eq!(va.allocate(P, P, None, &mut Heap), Ok(first + 2 * distance));
            va.free(&mut Heap);
        }
    }

    #[test]
    fn case_62_alignment_grows_to_a_huge_page() {
        let mut va = space(1 << 20, 1);
        let big = va.allocate(4 << 20, 0, None, &mut Heap).unwrap();
        assert_eq!((big + (4 << 20)) % HUGE_PAGE, 0);
        let asked = va.allocate(P, 1 << 24, None, &mut Heap).unwrap();
        assert_eq!(asked % (1 << 24), 0, "an alignment above a page aligns the start");
        assert_eq!(grown(P, 3 * P, HUGE_PAGE), 2 * P);
        assert_eq!(grown(P, 4 * P, HUGE_PAGE), 4 * P);
        assert_eq!(grown(1 << 30, 8 << 30, HUGE_PAGE), 1 << 30);
        va.free(&mut Heap);
    }

    #[test]
    fn case_56_fixed_addresses() {
        let mut va = space(64, 1);
        let x = 0x100_0000 + 8 * P;
        assert_eq!(va.allocate(2 * P, 0, Some(x), &mut Heap), Ok(x));
        assert_eq!(va.allocate(P, 0, Some(x), &mut Heap), Err(NoRoom), "owned");
        assert_eq!(va.allocate(P, 0, Some(x + 2 * P), &mut Heap), Err(NoRoom), "a guard page");
        assert_eq!(va.allocate(P, 0, Some(x + 3 * P), &mut Heap), Ok(x + 3 * P));
        assert_eq!(va.allocate(P, 0, Some(x - P), &mut Heap), Err(NoRoom), "no room for its own guard");
        assert_eq!(va.allocate(P, 0, Some(x - 2 * P), &mut Heap), Ok(x - 2 * P));
        assert_eq!(va.allocate(P, 0, Some(0x100_0000), &mut Heap), Ok(0x100_0000), "any free range inside");
        assert_eq!(va.allocate(P, 0, Some(0x100_0000 - P), &mut Heap), Err(NoRoom), "outside");
        assert_eq!(va.allocate(P, 0, Some(0x100_0000 + 63 * P), &mut Heap), Err(NoRoom), "guard outside");
        assert_eq!(va.allocate(P, 0, Some(0x100_0000 + 30 * P + 1), &mut Heap), Err(NoRoom), "not a page");
        assert_eq!(va.areas().len(), 4);
        va.free(&mut Heap);
    }

    #[test]
    fn hostile_sizes_change_nothing() {
        let mut va = space(16, 1);
        for size in [0, usize::MAX, usize::MAX - P + 1, 1 << 40] {
            for align in [0, P, 1 << 62] {
                assert_eq!(va.allocate(size, align, None, &mut Heap), Err(NoRoom));
                assert_eq!(va.allocate(size, align, Some(usize::MAX & !(P - 1)), &mut Heap), Err(NoRoom));
            }
        }
        va.release(0x100_0000);
        assert!(va.areas().is_empty());
        va.free(&mut Heap);
        assert_eq!(<VaSpace>::empty().allocate(P, 0, None, &mut Heap), Err(NoRoom));
    }

    #[test]
    fn the_kept_front_is_never_given_out() {
        let mut va = space(64, 0);
        va.keep_front(&mut Heap).unwrap();
        assert_eq!(va.allocate(P, 1 << 13, None, &mut Heap).map(|start| start > 0x100_0000 + P), Ok(true));
        assert_eq!(va.allocate(P, 0, Some(0x100_0000), &mut Heap), Err(NoRoom));
        va.free(&mut Heap);
    }

    /// The dumb twin: one owner per page, and a search that tries every page.
    struct Twin {
        pages: Vec<Option<usize>>,
        guard: usize,
    }

    impl Twin {
        fn fits(&self, page: usize, count: usize) -> bool {
            page + count <= self.pages.len() && self.pages[page..page + count].iter().all(Option::is_none)
        }

        fn allocate(&mut self, pages: usize, align: usize, at: Option<usize>) -> Option<usize> {
            let total = pages + self.guard;
            let found = match at {
                Some(page) => self.fits(page, total).then_some(page),
                None => {
                    let asked = align.max(1);
                    let mut grown = asked;
                    while grown < HUGE_PAGE / P && pages >= 2 * grown {
                        grown *= 2;
                    }
                    // A gap may be entered only at the place the rule names for it.
                    (0..self.pages.len()).filter(|&from| from == 0 || self.pages[from - 1].is_some()).find_map(|from| {
                        // The range itself starts at a multiple of 16 MiB, so page numbers align as addresses do.
                        let shift = if asked <= 1 { grown - pages % grown } else { 0 };
                        let start = from.next_multiple_of(grown) + shift;
                        let gap_end =
                            (from..self.pages.len()).find(|&p| self.pages[p].is_some()).unwrap_or(self.pages.len());
                        let room = start < gap_end && start + total <= gap_end;
                        (room && self.fits(start, total)).then_some(start)
                    })
                }
            };
            if let Some(start) = found {
                self.pages[start..start + total].fill(Some(start));
            }
            found
        }

        fn release(&mut self, start: usize) {
            self.pages.iter_mut().filter(|owner| **owner == Some(start)).for_each(|owner| *owner = None);
        }
    }

    /// What to do, pages, order of the alignment, place.
    type Step = (u8, usize, u32, usize);

    /// Runs `steps` in a space of `pages` beside the page map.
    fn agrees<const BLOCK: usize>(pages: usize, guard: usize, steps: Vec<Step>) -> Result<(), TestCaseError> {
        let mut va = space_of::<BLOCK>(pages, guard);
        let mut twin = Twin { pages: std::vec![None; pages], guard };
        let mut live = Vec::new();
        for (what, pages, order, pick) in steps {
            let page_of = |start: usize| (start - 0x100_0000) / P;
            match what {
                0 if !live.is_empty() => {
                    let start: usize = live.swap_remove(pick % live.len());
                    va.release(start);
                    twin.release(page_of(start));
                }
                1 => {
                    let at = 0x100_0000 + pick * P;
                    let ours = va.allocate(pages * P, 0, Some(at), &mut Heap).ok();
                    prop_assert_eq!(ours.map(page_of), twin.allocate(pages, 0, Some(pick)));
                    live.extend(ours);
                }
                _ => {
                    let align = if order == 0 { 0 } else { P << (order - 1) };
                    let ours = va.allocate(pages * P, align, None, &mut Heap).ok();
                    prop_assert_eq!(ours.map(page_of), twin.allocate(pages, align / P, None));
                    live.extend(ours);
                }
            }
            prop_assert!(va.areas().windows(2).all(|pair| pair[0].last < pair[1].start));
        }
        for start in live {
            va.release(start);
        }
        prop_assert!(va.areas().is_empty());
        va.free(&mut Heap);
        Ok(())
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]
        #[test]
        fn agrees_with_a_page_map(
            guard in 0usize..3,
            steps in prop::collection::vec((0u8..4, 1usize..12, 0u32..5, 0usize..256), 1..120),
        ) {
            agrees::<4>(256, guard, steps)?;
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, cases: 16, ..ProptestConfig::default() })]
        /// Small areas, mostly at fixed places: enough of them to split and join blocks of the size that ships.
        #[test]
        fn agrees_with_a_page_map_in_blocks_as_shipped(
            guard in 0usize..2,
            steps in prop::collection::vec((prop::sample::select(&[0u8, 0, 1, 1, 1, 1, 2][..]), 1usize..3, 0u32..3, 0usize..1024), 900),
        ) {
            agrees::<BLOCK>(1024, guard, steps)?;
        }
    }
}
