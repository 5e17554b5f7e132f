//! The address space of a process that has as many mappings as the kernel allows: each call still happens or leaves no
//! trace. A process of its own, since nothing else in it can map anything meanwhile.

use std::os::fd::AsFd;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicUsize};

use hsakmt_core::address::Bounds;
use hsakmt_core::driver::{Errno, VaRequest};
use hsakmt_core::flags::MemFlags;
use hsakmt_core::node::NodeId;
use hsakmt_kfd::host::HostSpace;
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous};

const PAGE: usize = 4096;
const BOUNDS: Bounds = Bounds::new(0, usize::MAX);

/// What `/proc/self/maps` says about the page: its access, or nothing.
///
/// Read without allocating: at the limit even the heap cannot grow.
fn access(page: usize, buffer: &mut [u8]) -> Option<[u8; 4]> {
    let maps = rustix::fs::open("/proc/self/maps", rustix::fs::OFlags::RDONLY, rustix::fs::Mode::empty()).unwrap();
    let mut filled = 0;
    loop {
        let read = rustix::io::read(&maps, &mut buffer[filled..]).unwrap();
        let end = filled + read;
        let mut start = 0;
        while let Some(length) = buffer[start..end].iter().position(|&byte| byte == b'\n') {
            let line = std::str::from_utf8(&buffer[start..start + length]).unwrap();
            let (range, rest) = line.split_once(' ').unwrap();
            let (from, to) = range.split_once('-').unwrap();
            let address = |text| usize::from_str_radix(text, 16).unwrap();
            if address(from) <= page && page < address(to) {
                return rest.as_bytes()[..4].try_into().ok();
            }
            start += length + 1;
        }
        if read == 0 {
            return None;
        }
        buffer.copy_within(start..end, 0);
        filled = end - start;
    }
}

#[test]
fn at_the_limit_of_mappings_nothing_is_lost() {
    let limit: usize = std::fs::read_to_string("/proc/sys/vm/max_map_count").unwrap().trim().parse().unwrap();
    if limit > 300_000 {
        println!("SKIP at_the_limit_of_mappings_nothing_is_lost: vm.max_map_count is {limit}, too many to fill");
        return;
    }
    let mut buffer = vec![0; 1 << 16];
    let space = HostSpace::new();
    let file = tempfile::tempfile().unwrap();
    file.set_len(PAGE as u64).unwrap();
    let request = VaRequest { size: 2 * limit * PAGE, align: PAGE, guard: 0, fixed: None, bounds: BOUNDS };
    let start = space.reserve(request).unwrap();
    let page = |index: usize| start + index * PAGE;

    // Every other page shows memory: each such page splits a mapping in two.
    let flags = MemFlags::empty();
    // SAFETY: the whole range is reserved above, and nobody else knows it.
    let show = |index: usize| unsafe { space.map_anonymous(page(index), PAGE, NodeId(0), flags) };
    let first_refused = (0..limit).map(|index| 2 * index + 1).find(|&index| show(index).is_err()).unwrap();

    let refused = page(first_refused);
    assert_eq!(show(first_refused), Err(Errno::NOMEM));
    assert_eq!(access(refused, &mut buffer), Some(*b"---p"), "what could not be mapped stays reserved");
    // SAFETY: as above.
    let mapped = unsafe { space.map_file(refused, PAGE, file.as_fd(), 0, true) };
    assert_eq!(mapped, Err(Errno::NOMEM));
    assert_eq!(access(refused, &mut buffer), Some(*b"---p"));
    let there = VaRequest { size: PAGE, fixed: Some(refused), ..request };
    assert!(matches!(space.reserve(there), Err(Errno(libc::EEXIST) | Errno::NOMEM)));

    // Giving up a page that is a mapping of its own works, and makes room for one more.
    // SAFETY: as above.
    assert_eq!(unsafe { space.map_reserved(page(1), PAGE) }, Ok(()));
    assert_eq!(access(page(1), &mut buffer), Some(*b"---p"));
    assert_eq!(show(first_refused), Ok(()));
    assert_eq!(access(refused, &mut buffer), Some(*b"rw-s"));

    reserved_addresses_are_never_free(&space, page, &mut buffer);

    // SAFETY: as above; nothing of it is used after this line.
    unsafe { space.release(start, request.size) };
    assert_eq!(access(refused, &mut buffer), None);
}

/// Beyond the limit the kernel refuses any mapping. Another thread waits for a page that is given up there to be free for an
/// instant.
fn reserved_addresses_are_never_free(space: &HostSpace, page: impl Fn(usize) -> usize, buffer: &mut [u8]) {
    // SAFETY: the page is this test's, and nothing uses what it shows.
    let give_up = |index: usize| unsafe { space.map_reserved(page(index), PAGE) };
    let map = |at: usize, how: MapFlags| {
        let at = std::ptr::without_provenance_mut(at);
        // SAFETY: neither kind of flags replaces a mapping.
        unsafe { mmap_anonymous(at, PAGE, ProtFlags::empty(), MapFlags::SHARED | how) }
    };
    // Room for a thread.
    (0..50).for_each(|index| give_up(2 * index + 3).unwrap());
    let (wanted, started, over) = (AtomicUsize::new(page(103)), AtomicBool::new(false), AtomicBool::new(false));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            started.store(true, Relaxed);
            while !over.load(Relaxed) {
                let _ = map(wanted.load(Relaxed), MapFlags::FIXED_NOREPLACE);
            }
        });
        while !started.load(Relaxed) {
            std::thread::yield_now();
        }
        let lost = (51..1051).find(|index| {
            wanted.store(page(2 * index + 1), Relaxed);
            while map(0, MapFlags::empty()).is_ok() {}
            give_up(2 * index + 1).is_err() || access(page(2 * index + 1), buffer) != Some(*b"---p")
        });
        over.store(true, Relaxed);
        // Room for what is said of it.
        for index in 1500..1550 {
            let _ = give_up(2 * index + 1);
        }
        assert_eq!(lost, None, "another thread has a page that was reserved");
    });
}
