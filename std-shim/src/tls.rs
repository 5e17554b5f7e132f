//! One word for each thread, found without a call: where its reader slot is.
//!
//! `thread_local!` in a shared object that was loaded by dlopen(3) is found by `__tls_get_addr`, which allocates a
//! thread's block with malloc on the thread's first access. A signal handler that interrupted malloc would then wait for
//! itself. The word here is of the initial-exec model: the dynamic linker has put it into every thread's static block
//! before anything of this library runs, and its address is the thread pointer plus a constant. The static block has room
//! for that in libraries that are loaded late: glibc keeps some 1.6 KiB.
//!
//! A thread's word begins as the address of [`UNCLAIMED`], a slot that no thread owns: so a query need not ask whether
//! there is a slot at all.
//!
//! Where this module knows no way to say "initial-exec" it falls back to `thread_local!`, with the fault above.

use std::sync::atomic::AtomicPtr;

use hsakmt_core::internals::{Kept, Slot};

use crate::thread::{Own, ThreadSlot};

/// The slot of a thread that has none.
pub(crate) static UNCLAIMED: ThreadSlot = Slot::free(Own::EMPTY);

/// A thread's word. It has no destructor and is there for as long as its thread.
pub(crate) type Word = AtomicPtr<ThreadSlot>;

/// The symbol of the word, one for each version of the package that Cargo can link into one program.
#[cfg(all(target_arch = "x86_64", target_os = "linux", target_env = "gnu", target_pointer_width = "64"))]
macro_rules! symbol {
    () => {
        concat!("hsakmt_thread_word_", env!("CARGO_PKG_VERSION_MAJOR"), "_", env!("CARGO_PKG_VERSION_MINOR"))
    };
}

#[cfg(all(target_arch = "x86_64", target_os = "linux", target_env = "gnu", target_pointer_width = "64"))]
mod place {
    use core::arch::{asm, global_asm};

    global_asm!(
        concat!(".pushsection .tdata.", symbol!(), ",\"awT\",@progbits"),
        ".balign 8",
        concat!(".globl ", symbol!()),
        concat!(".hidden ", symbol!()),
        concat!(".type ", symbol!(), ",@object"),
        concat!(".size ", symbol!(), ",8"),
        concat!(symbol!(), ":"),
        ".quad {unclaimed}",
        ".popsection",
        unclaimed = sym super::UNCLAIMED,
    );

    /// The address of the calling thread's word.
    #[inline(always)]
    pub(super) fn address() -> usize {
        let address: usize;
        // SAFETY: reads the thread pointer, which the ABI keeps at fs:0, and the word's offset from it, which the dynamic
        // linker has written to the GOT; changes one register and the flags.
        unsafe {
            asm!(
                "mov {0}, qword ptr fs:[0]",
                concat!("add {0}, qword ptr [rip + ", symbol!(), "@GOTTPOFF]"),
                out(reg) address,
                options(pure, readonly, nostack),
            );
        }
        address
    }
}

#[cfg(not(all(target_arch = "x86_64", target_os = "linux", target_env = "gnu", target_pointer_width = "64")))]
mod place {
    use super::{UNCLAIMED, Word};

    thread_local! {
        static WORD: Word = const { Word::new((&raw const UNCLAIMED).cast_mut()) };
    }

    #[inline(always)]
    pub(super) fn address() -> usize {
        WORD.with(core::ptr::from_ref).expose_provenance()
    }
}

/// The calling thread's word. Wait-free.
///
/// # Safety
/// `'t` ends with the caller's call: with the thread the word is gone.
#[inline(always)]
pub(crate) unsafe fn word<'t>() -> &'t Word {
    let word = std::ptr::with_exposed_provenance::<Word>(place::address());
    // SAFETY: the address of eight bytes of the calling thread, aligned, made as such a word and never used as anything
    // else; an `AtomicPtr` may be read while a signal handler of the thread changes it.
    unsafe { &*word }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;

    use super::*;

    #[test]
    fn each_thread_has_its_own_and_it_begins_unclaimed() {
        let look = || {
            // SAFETY: used here only.
            let word = unsafe { word() };
            (std::ptr::from_ref(word).addr(), std::ptr::eq(word.load(Ordering::Relaxed), &raw const UNCLAIMED))
        };
        let barrier = std::sync::Barrier::new(4);
        let seen: Vec<_> = std::thread::scope(|scope| {
            let thread = || {
                let seen = look();
                barrier.wait();
                assert_eq!(look().0, seen.0);
                seen
            };
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(thread)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert!(seen.iter().all(|(address, fresh)| *fresh && address % 8 == 0));
        let mut addresses: Vec<_> = seen.iter().map(|(address, _)| address).collect();
        addresses.sort_unstable();
        addresses.dedup();
        assert_eq!(addresses.len(), 4);
    }
}
