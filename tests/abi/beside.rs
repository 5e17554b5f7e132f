//! A second Rust archive, for a program that links two: it has its own std, allocator and panic machinery.

/// Catches a panic of its own and allocates on the way.
#[unsafe(no_mangle)]
pub extern "C" fn beside() -> u32 {
    let caught = std::panic::catch_unwind(|| {
        std::panic::resume_unwind(Box::new(vec![1u8; 100]));
    });
    caught.map_or(7, |()| 0)
}
