//! Which addresses of this process are in use: `/proc/self/maps`, read piece by piece.
//!
//! In: a range. Out: where the used addresses that reach into it end. What never happens: a heap allocation (the memory
//! manager asks while it holds its lock), or an error where the kernel does not say.

use hsakmt_core::address::Bounds;
use rustix::fs::{Mode, OFlags};

/// The last address of the highest stretch of used addresses that reaches into `range`; `None` if no address there is in
/// use or the kernel does not say. A stretch is one mapping, or several without a gap between them.
pub(crate) fn last_used(range: Bounds) -> Option<usize> {
    let file = rustix::fs::open("/proc/self/maps", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).ok()?;
    let mut maps = Maps::default();
    let mut last = None;
    // Not more: the caller may have little stack.
    let mut piece = [0; 1024];
    loop {
        let length = rustix::io::retry_on_intr(|| rustix::io::read(&file, &mut piece)).ok()?;
        if length == 0 {
            return last;
        }
        for byte in piece.get(..length).unwrap_or(&[]) {
            let Some((start, end)) = maps.next(*byte) else { continue };
            // Mappings come in the order of their addresses.
            let joins = last.is_some_and(|last| last == start.wrapping_sub(1));
            if start > range.limit && !joins {
                return last;
            }
            if joins || (end > range.base && start <= range.limit) {
                last = end.checked_sub(1);
            }
        }
    }
}

/// Reads lines of `start-end ...`, both hexadecimal, a byte at a time.
#[derive(Default)]
struct Maps {
    start: usize,
    number: usize,
    field: Field,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Field {
    #[default]
    Start,
    End,
    Rest,
}

impl Maps {
    /// Takes the next byte; the mapping whose two addresses it ends.
    fn next(&mut self, byte: u8) -> Option<(usize, usize)> {
        match (byte, self.field) {
            (b'\n', _) => *self = Maps::default(),
            (b'-', Field::Start) => *self = Maps { start: self.number, number: 0, field: Field::End },
            (b' ', Field::End) => {
                self.field = Field::Rest;
                return Some((self.start, self.number));
            }
            (_, Field::Rest) => {}
            _ => {
                let digit = char::from(byte).to_digit(16).unwrap_or(0);
                self.number = self.number << 4 | digit as usize;
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::HostSpace;
    use hsakmt_core::driver::VaRequest;

    #[test]
    fn lines_are_read_a_byte_at_a_time() {
        let text = b"7f00-7f0123456000 rw-p 00000000 00:00 0 [stack-1]\n10-20 r\n";
        let mut maps = Maps::default();
        let found: Vec<_> = text.iter().filter_map(|byte| maps.next(*byte)).collect();
        assert_eq!(found, [(0x7f00, 0x7f01_2345_6000), (0x10, 0x20)]);
    }

    #[test]
    fn used_addresses_end_where_the_next_free_one_begins() {
        const PAGE: usize = 4096;
        let space = HostSpace::new();
        let whole = Bounds::new(0, usize::MAX);
        let request = |size, fixed| VaRequest { size, align: PAGE, guard: 0, fixed, bounds: whole };
        // Sixteen pages of which the first, the second and the fourth are in use.
        let base = space.reserve(request(16 * PAGE, None)).unwrap();
        let at = |page: usize| base + page * PAGE;
        // SAFETY: reserved above, and used by no one else.
        unsafe { space.release(at(2), PAGE) };
        // SAFETY: as above.
        unsafe { space.release(at(4), 12 * PAGE) };
        // Another access, so that the second page is a mapping of its own.
        // SAFETY: as above.
        unsafe { space.map_anonymous(at(1), PAGE, hsakmt_core::node::NodeId(0), Default::default()) }.unwrap();
        let last = |from, to| last_used(Bounds::new(at(from), at(to) - 1));
        assert_eq!([last(0, 1), last(0, 2), last(1, 3)], [Some(at(2) - 1); 3]);
        assert_eq!([last(0, 4), last(2, 9), last(3, 16)], [Some(at(4) - 1); 3]);
        assert_eq!(last(2, 3), None);
        // SAFETY: as above.
        unsafe { space.release(at(0), 2 * PAGE) };
        // SAFETY: as above.
        unsafe { space.release(at(3), PAGE) };
    }
}
