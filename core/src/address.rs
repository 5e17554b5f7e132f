//! Addresses and page arithmetic.
//!
//! An address is a `usize`: an aperture above `usize::MAX` does not exist on that machine. [`PageSize`] is the only
//! place that rounds.

/// A power-of-two page size in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageSize(usize);

impl PageSize {
    /// 4 KiB, the page of every machine that has no other.
    pub const FOUR_KIB: PageSize = PageSize(4096);

    /// A page of `bytes`; `None` unless `bytes` is a power of two.
    pub const fn new(bytes: usize) -> Option<PageSize> {
        if bytes.is_power_of_two() { Some(PageSize(bytes)) } else { None }
    }

    /// Bytes per page.
    pub const fn bytes(self) -> usize {
        self.0
    }

    /// Where in its page `address` lies.
    pub const fn offset(self, address: usize) -> usize {
        address & (self.0 - 1)
    }

    /// The start of the page that holds `address`.
    pub const fn floor(self, address: usize) -> usize {
        address & !(self.0 - 1)
    }

    /// `size` rounded up to whole pages; `None` when that wraps.
    pub const fn round_up(self, size: usize) -> Option<usize> {
        match size.checked_add(self.0 - 1) {
            Some(sum) => Some(self.floor(sum)),
            None => None,
        }
    }

    /// Whole pages that `address..address + size` touches, in bytes; `None` when that wraps.
    pub const fn span(self, address: usize, size: usize) -> Option<usize> {
        match self.offset(address).checked_add(size) {
            Some(sum) => self.round_up(sum),
            None => None,
        }
    }
}

/// An inclusive range `base..=limit`; the empty one holds no address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// First address inside.
    pub base: usize,
    /// Last address inside.
    pub limit: usize,
}

impl Bounds {
    /// Holds nothing.
    pub const EMPTY: Bounds = Bounds { base: 1, limit: 0 };

    /// `base..=limit`.
    pub const fn new(base: usize, limit: usize) -> Bounds {
        Bounds { base, limit }
    }

    /// Whether `address` lies inside. Two compares, no branch on the way.
    #[inline(always)]
    pub const fn contains(&self, address: usize) -> bool {
        (self.base <= address) & (address <= self.limit)
    }

    /// Whether nothing lies inside.
    pub const fn is_empty(&self) -> bool {
        self.base > self.limit
    }

    /// Whether all of `start..start + size` lies inside (`size` at least 1, no wrap).
    pub const fn contains_range(&self, start: usize, size: usize) -> bool {
        match start.checked_add(size.wrapping_sub(1)) {
            Some(last) if size > 0 => self.base <= start && last <= self.limit,
            _ => false,
        }
    }

    /// Whether the two have an address in common.
    pub const fn overlaps(&self, other: &Bounds) -> bool {
        !self.is_empty() && !other.is_empty() && self.base <= other.limit && other.base <= self.limit
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn case_65_rounding_follows_the_page_size() {
        let page = PageSize::new(65536).unwrap();
        assert_eq!(page.offset(0x1_2345), 0x2345);
        assert_eq!(page.floor(0x1_2345), 0x1_0000);
        assert_eq!(page.span(0xfff0, 0x20), Some(0x2_0000));
        assert_eq!(PageSize::FOUR_KIB.span(0xff0, 0x20), Some(0x2000));
        assert_eq!(PageSize::FOUR_KIB.span(0, 0), Some(0));
        assert_eq!(PageSize::FOUR_KIB.round_up(usize::MAX), None);
        assert_eq!(PageSize::FOUR_KIB.span(usize::MAX, usize::MAX), None);
        assert_eq!(PageSize::new(3), None);
    }

    #[test]
    fn bounds_are_inclusive_on_both_sides() {
        let bounds = Bounds::new(0x1000, 0x1fff);
        assert!(bounds.contains(0x1000) && bounds.contains(0x1fff));
        assert!(!bounds.contains(0xfff) && !bounds.contains(0x2000));
        assert!(bounds.contains_range(0x1000, 0x1000) && !bounds.contains_range(0x1000, 0x1001));
        assert!(!bounds.contains_range(0x1000, 0) && !bounds.contains_range(usize::MAX, 2));
        assert!(!Bounds::EMPTY.contains(0) && !Bounds::EMPTY.contains(1));
        assert!(!Bounds::EMPTY.overlaps(&Bounds::new(0, usize::MAX)));
    }
}
