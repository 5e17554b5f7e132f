//! The seccomp filter: which system calls of the supervised program stop and ask.
//!
//! Only calls that could be about a simulated device stop: `ioctl` (the kernel driver looks at the number, not at the type
//! byte), the calls that take a path, and rare ones that a device answers otherwise than a file. Reading, writing and
//! mapping a buffer run at full speed: of mmap only a shared mapping of a file's first 4 GiB stops, where no buffer is.
//! The program is written by hand, one compare per call, so that what it lets through can be read off.

use std::io;

/// One instruction: code, jump if true, jump if false, constant.
type Instruction = libc::sock_filter;

/// Where `struct seccomp_data` keeps what the filter looks at (low words: both architectures are little endian).
const NUMBER: u32 = 0;
const ARCHITECTURE: u32 = 4;
const FOURTH_ARGUMENT: u32 = 40;
const SIXTH_ARGUMENT_HIGH: u32 = 60;

#[cfg(target_arch = "x86_64")]
const THIS_ARCHITECTURE: u32 = 0xc000_003e;
#[cfg(target_arch = "aarch64")]
const THIS_ARCHITECTURE: u32 = 0xc000_00b7;

/// The calls with a path (and `fstat`, which asks about a descriptor).
pub(crate) const PATH_CALLS: &[libc::c_long] = &[
    #[cfg(target_arch = "x86_64")]
    libc::SYS_open,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_stat,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_lstat,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_access,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_readlink,
    libc::SYS_openat,
    libc::SYS_openat2,
    libc::SYS_fstat,
    libc::SYS_newfstatat,
    libc::SYS_statx,
    libc::SYS_faccessat,
    libc::SYS_faccessat2,
    libc::SYS_readlinkat,
];

/// Calls with a descriptor that a device refuses, as `ioctl` by the descriptor's file.
pub(crate) const DESCRIPTOR_CALLS: &[libc::c_long] =
    &[libc::SYS_ioctl, libc::SYS_lseek, libc::SYS_ftruncate, libc::SYS_fsync, libc::SYS_fdatasync];

fn statement(code: u32, k: u32) -> Instruction {
    Instruction { code: code as u16, jt: 0, jf: 0, k }
}

fn jump_if_equal(k: u32, jt: u8, jf: u8) -> Instruction {
    Instruction { code: (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16, jt, jf, k }
}

/// The filter. `more`: calls that stop too, though they cost less without.
pub(crate) fn program(more: &[libc::c_long]) -> Vec<Instruction> {
    let load = |offset| statement(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, offset);
    let answer = |action| statement(libc::BPF_RET | libc::BPF_K, action);
    let allow = answer(libc::SECCOMP_RET_ALLOW);
    let ask = answer(libc::SECCOMP_RET_USER_NOTIF);
    let mut program = vec![load(ARCHITECTURE), jump_if_equal(THIS_ARCHITECTURE, 1, 0), allow, load(NUMBER)];
    for number in PATH_CALLS.iter().chain(DESCRIPTOR_CALLS).chain(more) {
        program.push(jump_if_equal(*number as u32, 0, 1));
        program.push(ask);
    }
    let kinds = (libc::MAP_SHARED | libc::MAP_ANONYMOUS) as u32;
    program.extend([
        jump_if_equal(libc::SYS_mmap as u32, 0, 6),
        load(FOURTH_ARGUMENT),
        statement(libc::BPF_ALU | libc::BPF_AND | libc::BPF_K, kinds),
        jump_if_equal(libc::MAP_SHARED as u32, 0, 3),
        load(SIXTH_ARGUMENT_HIGH),
        jump_if_equal(0, 0, 1),
        ask,
        allow,
    ]);
    program
}

/// Puts the calling thread, and what it becomes and starts, under `program`; gives the listener's descriptor.
/// Allocates nothing: it runs between fork and exec.
pub(crate) fn install(program: &[Instruction]) -> io::Result<i32> {
    let prog = libc::sock_fprog { len: program.len() as u16, filter: program.as_ptr().cast_mut() };
    // SAFETY: PR_SET_NO_NEW_PRIVS takes three zero arguments and touches no memory (prctl(2)).
    let privileges = unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) };
    if privileges != 0 {
        return Err(io::Error::last_os_error());
    }
    let with_killable = libc::SECCOMP_FILTER_FLAG_NEW_LISTENER | libc::SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV;
    for flags in [with_killable, libc::SECCOMP_FILTER_FLAG_NEW_LISTENER] {
        // SAFETY: seccomp(2) reads `len` instructions at `filter`, which `program` owns, and writes nothing.
        let fd = unsafe { libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, flags, &raw const prog) };
        if fd >= 0 {
            return Ok(fd as i32);
        }
        // EINVAL: a kernel before 5.19 does not know WAIT_KILLABLE_RECV.
        if io::Error::last_os_error().raw_os_error() != Some(libc::EINVAL) {
            break;
        }
    }
    Err(io::Error::last_os_error())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs the filter as the kernel would: the action for one call. `flags` and `offset` are those of an mmap.
    fn run(program: &[Instruction], number: libc::c_long, flags: i32, offset: u64) -> u32 {
        let (mut at, mut accumulator) = (0, 0u32);
        loop {
            let it = program[at];
            at += 1;
            match u32::from(it.code) {
                code if code == libc::BPF_LD | libc::BPF_W | libc::BPF_ABS => {
                    accumulator = match it.k {
                        NUMBER => number as u32,
                        ARCHITECTURE => THIS_ARCHITECTURE,
                        FOURTH_ARGUMENT => flags as u32,
                        _ => (offset >> 32) as u32,
                    };
                }
                code if code == libc::BPF_ALU | libc::BPF_AND | libc::BPF_K => accumulator &= it.k,
                code if code == libc::BPF_RET | libc::BPF_K => return it.k,
                _ => at += usize::from(if accumulator == it.k { it.jt } else { it.jf }),
            }
        }
    }

    #[test]
    fn only_calls_about_devices_and_paths_stop() {
        let program = program(&[]);
        let (ask, allow) = (libc::SECCOMP_RET_USER_NOTIF, libc::SECCOMP_RET_ALLOW);
        for number in PATH_CALLS.iter().chain(DESCRIPTOR_CALLS) {
            assert_eq!(run(&program, *number, 0, 0), ask);
        }
        for number in [libc::SYS_read, libc::SYS_write, libc::SYS_close] {
            assert_eq!(run(&program, number, 0, 0), allow);
        }
        assert_eq!(run(&program, libc::SYS_mmap, libc::MAP_SHARED, 0x1000), ask);
        assert_eq!(run(&program, libc::SYS_mmap, libc::MAP_SHARED, 1 << 32), allow);
        assert_eq!(run(&program, libc::SYS_mmap, libc::MAP_PRIVATE, 0), allow);
        assert_eq!(run(&program, libc::SYS_mmap, libc::MAP_SHARED | libc::MAP_ANONYMOUS, 0), allow);
        assert_eq!(run(&super::program(&[libc::SYS_mmap]), libc::SYS_mmap, libc::MAP_PRIVATE, 0), ask);
    }
}
