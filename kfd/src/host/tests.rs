//! What `/proc/self/maps` says after each call.

use super::*;
use std::os::fd::AsFd;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// One test at a time: a page that one has just given back must not go to another before it is looked at.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

const ALL: Bounds = Bounds::new(0, usize::MAX);
const PAGE: usize = 4096;

fn request(size: usize, align: usize, guard: usize) -> VaRequest {
    VaRequest { size, align, guard, fixed: None, bounds: ALL }
}

/// Access (`rwxp` column) of each mapping that has an address in the range, in order.
fn access(address: usize, size: usize) -> Vec<String> {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let overlapping = |line: &str| {
        let (range, rest) = line.split_once(' ')?;
        let (start, end) = range.split_once('-')?;
        let start = usize::from_str_radix(start, 16).ok()?;
        let end = usize::from_str_radix(end, 16).ok()?;
        (start < address + size && address < end).then(|| rest[..4].to_string())
    };
    maps.lines().filter_map(overlapping).collect()
}

/// Memory that a test has made, or no memory.
fn range(address: usize, size: usize) -> HostRange<'static> {
    // SAFETY: no device is asked about it, and what is there can be read.
    unsafe { HostRange::new(address, size) }
}

#[test]
fn reserved_addresses_are_aligned_and_have_no_access() {
    let _alone = alone();
    let space = HostSpace::new();
    for align in [PAGE, 64 << 10, 2 << 20, 1 << 30] {
        let start = space.reserve(request(3 * PAGE, align, PAGE)).unwrap();
        assert_eq!(start % align, 0);
        assert_eq!(access(start, 3 * PAGE), ["---p"]);
        // SAFETY: reserved above.
        unsafe { space.release(start, 3 * PAGE) };
    }
}

#[test]
fn the_guard_is_free_on_both_sides() {
    let _alone = alone();
    let space = HostSpace::new();
    // Larger than any gap a neighbouring test could fill in passing, so that the sides stay free.
    let guard = 4 << 30;
    let start = space.reserve(request(PAGE, PAGE, guard)).unwrap();
    let fixed = |address| VaRequest { fixed: Some(address), ..request(PAGE, PAGE, 0) };
    for side in [start - guard / 2, start + guard / 2] {
        let there = space.reserve(fixed(side)).unwrap();
        // SAFETY: reserved a line ago.
        unsafe { space.release(there, PAGE) };
    }
    // SAFETY: reserved above.
    unsafe { space.release(start, PAGE) };
}

#[test]
fn release_unmaps() {
    let _alone = alone();
    let space = HostSpace::new();
    let start = space.reserve(request(1 << 30, PAGE, 0)).unwrap();
    // SAFETY: reserved a line ago.
    unsafe { space.release(start + (1 << 29), PAGE) };
    let fixed = VaRequest { fixed: Some(start + (1 << 29)), ..request(PAGE, PAGE, 0) };
    assert_eq!(space.reserve(fixed), Ok(start + (1 << 29)));
    // SAFETY: all of it is reserved here.
    unsafe { space.release(start, 1 << 30) };
    assert_eq!(space.reserve(fixed), Ok(start + (1 << 29)));
    // SAFETY: reserved a line ago.
    unsafe { space.release(start + (1 << 29), PAGE) };
}

#[test]
fn a_fixed_address_replaces_nobody() {
    let _alone = alone();
    let space = HostSpace::new();
    let start = space.reserve(request(4 * PAGE, PAGE, 0)).unwrap();
    // SAFETY: reserved a line ago.
    unsafe { space.map_anonymous(start, 4 * PAGE, NodeId(0), MemFlags::empty()) }.unwrap();
    let byte = (start + PAGE) as *mut u8;
    // SAFETY: mapped a line ago.
    unsafe { byte.write(7) };
    let fixed = VaRequest { fixed: Some(start + PAGE), ..request(PAGE, PAGE, 0) };
    assert_eq!(space.reserve(fixed), Err(Errno(libc::EEXIST)));
    // SAFETY: still mapped.
    assert_eq!(unsafe { byte.read() }, 7);
    // SAFETY: reserved above.
    unsafe { space.release(start, 4 * PAGE) };
}

#[test]
fn what_cannot_be_asked_for_is_refused() {
    let _alone = alone();
    let space = HostSpace::new();
    let before = access(0, usize::MAX).len();
    for bad in [
        request(0, PAGE, 0),
        request(1, PAGE, 0),
        request(PAGE, 3 * PAGE, 0),
        request(PAGE, 1, 0),
        request(PAGE, PAGE, 1),
        VaRequest { fixed: Some(PAGE + 1), ..request(PAGE, PAGE, 0) },
        VaRequest { fixed: Some(0), ..request(PAGE, PAGE, 0) },
    ] {
        assert_eq!(space.reserve(bad), Err(Errno::INVAL), "{bad:?}");
    }
    for large in [
        request(usize::MAX - PAGE + 1, PAGE, 0),
        request(1 << 60, PAGE, 0),
        request(PAGE, 1 << 63, 0),
        request(PAGE, PAGE, 1 << 63),
        VaRequest { bounds: Bounds::new(PAGE, 2 * PAGE), ..request(PAGE, PAGE, 0) },
        VaRequest { bounds: Bounds::EMPTY, ..request(PAGE, PAGE, 0) },
        VaRequest { fixed: Some(1 << 40), bounds: Bounds::new(0, 1 << 39), ..request(PAGE, PAGE, 0) },
    ] {
        assert_eq!(space.reserve(large), Err(Errno::NOMEM), "{large:?}");
    }
    // Other threads may map and unmap meanwhile, so that only a leak per attempt would show.
    assert!(access(0, usize::MAX).len() < before + 10);
}

#[test]
fn what_a_range_shows_is_replaced_in_place() {
    let _alone = alone();
    let space = HostSpace::new();
    let file = tempfile::tempfile().unwrap();
    file.set_len(8 * PAGE as u64).unwrap();
    let start = space.reserve(request(2 * PAGE, PAGE, 0)).unwrap();

    // SAFETY: reserved above.
    unsafe { space.map_file(start, 2 * PAGE, file.as_fd(), 4 * PAGE as u64, true) }.unwrap();
    assert_eq!(access(start, 2 * PAGE), ["rw-s"]);
    // SAFETY: as above.
    unsafe { space.map_file(start, 2 * PAGE, file.as_fd(), 0, false) }.unwrap();
    assert_eq!(access(start, 2 * PAGE), ["---s"]);
    // SAFETY: as above.
    let odd = unsafe { space.map_file(start, 2 * PAGE, file.as_fd(), 1, true) };
    assert_eq!(odd, Err(Errno::INVAL));
    assert_eq!(access(start, 2 * PAGE), ["---s"]);
    // SAFETY: as above.
    unsafe { space.map_reserved(start, 2 * PAGE) }.unwrap();
    assert_eq!(access(start, 2 * PAGE), ["---p"]);
    // SAFETY: as above.
    unsafe { space.map_anonymous(start, 2 * PAGE, NodeId(0), MemFlags::NON_PAGED) }.unwrap();
    assert_eq!(access(start, 2 * PAGE), ["rw-p"]);
    // SAFETY: as above.
    unsafe { space.map_anonymous(start, 2 * PAGE, NodeId(0), MemFlags::empty()) }.unwrap();
    assert_eq!(access(start, 2 * PAGE), ["rw-s"]);
    // SAFETY: as above.
    unsafe { space.release(start, 2 * PAGE) };
}

#[test]
fn binding_is_refused_only_where_no_substitute_is_allowed() {
    let _alone = alone();
    let one = HostSpace { page: PageSize::FOUR_KIB, numa_nodes: 1 };
    let two = HostSpace { page: PageSize::FOUR_KIB, numa_nodes: 2 };
    let start = one.reserve(request(PAGE, PAGE, 0)).unwrap();
    let refused = Err(Errno(libc::EFAULT));
    let strict = MemFlags::NO_SUBSTITUTE;
    for (space, node, flags, expected) in [
        (one, 0, MemFlags::empty(), Ok(())),
        (one, 0, strict, refused),
        (two, 2, MemFlags::empty(), Ok(())),
        (two, 2, strict, refused),
        (two, u32::MAX, MemFlags::empty(), Ok(())),
        (two, u32::MAX, strict, refused),
        (two, 0, MemFlags::NO_NUMA_BIND, Ok(())),
        (two, 0, MemFlags::NO_NUMA_BIND | strict, refused),
        (two, 0, MemFlags::empty(), Ok(())),
        (two, 0, strict, Ok(())),
    ] {
        // SAFETY: reserved above.
        let result = unsafe { space.map_anonymous(start, PAGE, NodeId(node), flags) };
        assert_eq!(result, expected, "{space:?} {node} {flags:?}");
        let shows = if result.is_ok() { "rw-s" } else { "---p" };
        assert_eq!(access(start, PAGE), [shows]);
    }
    // SAFETY: reserved above.
    unsafe { one.release(start, PAGE) };
}

#[test]
fn process_memory_has_the_access_asked_for() {
    let _alone = alone();
    let space = HostSpace::new();
    for (flags, expected) in [
        (MemFlags::empty(), "rw-p"),
        (MemFlags::READ_ONLY, "r--p"),
        (MemFlags::EXECUTE_ACCESS, "rwxp"),
        (MemFlags::EXECUTE_ACCESS | MemFlags::READ_ONLY, "r-xp"),
    ] {
        let start = space.alloc(64 << 10, 64 << 10, flags).unwrap();
        assert_eq!(start % (64 << 10), 0);
        assert_eq!(access(start, PAGE), [expected]);
        space.touch(range(start + 1, (64 << 10) - 1));
        // SAFETY: allocated above.
        unsafe { space.release(start, 64 << 10) };
    }
    assert_eq!(space.alloc(0, PAGE, MemFlags::empty()), Err(Errno::INVAL));
    assert_eq!(space.alloc(PAGE, 3, MemFlags::empty()), Err(Errno::INVAL));
    assert_eq!(space.alloc(1 << 60, PAGE, MemFlags::empty()), Err(Errno::NOMEM));
}

#[test]
fn touching_nothing_or_past_the_end_is_harmless() {
    let _alone = alone();
    let space = HostSpace::new();
    space.touch(range(0, 0));
    space.touch(range(usize::MAX, 2));
}

/// Whether a forked child has nothing at this address: the flag `dc` of the mapping.
fn stays_with_the_parent(address: usize) -> bool {
    let maps = std::fs::read_to_string("/proc/self/smaps").unwrap();
    let start = format!("{address:x}-");
    let mut lines = maps.lines().skip_while(|line| !line.starts_with(&start));
    lines.find_map(|line| line.strip_prefix("VmFlags:")).is_some_and(|flags| flags.contains(" dc"))
}

#[test]
fn a_child_can_reserve_the_same_fixed_place() {
    let _alone = alone();
    let space = HostSpace::new();
    let free = space.reserve(request(4 * PAGE, PAGE, 0)).unwrap();
    // SAFETY: reserved a line ago.
    unsafe { space.release(free, 4 * PAGE) };
    let start = space.reserve(VaRequest { fixed: Some(free), ..request(4 * PAGE, PAGE, 0) }).unwrap();
    assert!(stays_with_the_parent(start));
    // SAFETY: reserved above.
    unsafe { space.map_anonymous(start, PAGE, NodeId(0), MemFlags::empty()) }.unwrap();
    // SAFETY: reserved above.
    unsafe { space.map_reserved(start, PAGE) }.unwrap();
    assert!(stays_with_the_parent(start), "also after a buffer has come and gone");
    // SAFETY: reserved above.
    unsafe { space.release(start, 4 * PAGE) };
}

#[test]
fn case_85_only_non_paged_memory_stays_with_the_parent() {
    let _alone = alone();
    let space = HostSpace::new();
    for size in [PAGE, 1 << 20, HUGE_PAGE, 8 << 20] {
        let start = space.reserve(request(size, PAGE, 0)).unwrap();
        for (flags, stays) in [(MemFlags::empty(), false), (MemFlags::NON_PAGED, true)] {
            // SAFETY: reserved above.
            unsafe { space.map_anonymous(start, size, NodeId(0), flags) }.unwrap();
            assert_eq!(stays_with_the_parent(start), stays, "{size:#x} {flags:?}");
        }
        // SAFETY: reserved above.
        unsafe { space.release(start, size) };
    }
}
