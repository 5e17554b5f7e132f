//! The seccomp filter: which system calls of the supervised program stop and ask.
//!
//! Only calls that could be about a simulated device stop: `ioctl` with KFD's or DRM's type byte, and the calls that
//! take a path. Everything else, mmap of a device file included, runs at full speed. The program is written by hand,
//! one compare per call, so that what it lets through can be read off.

use std::io;

/// One instruction: code, jump if true, jump if false, constant.
type Instruction = libc::sock_filter;

/// Where `struct seccomp_data` keeps what the filter looks at (low words: both architectures are little endian).
const NUMBER: u32 = 0;
const ARCHITECTURE: u32 = 4;
const SECOND_ARGUMENT: u32 = 24;

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
    for number in PATH_CALLS.iter().chain(more) {
        program.push(jump_if_equal(*number as u32, 0, 1));
        program.push(ask);
    }
    program.extend([
        jump_if_equal(libc::SYS_ioctl as u32, 1, 0),
        allow,
        load(SECOND_ARGUMENT),
        statement(libc::BPF_ALU | libc::BPF_RSH | libc::BPF_K, 8),
        statement(libc::BPF_ALU | libc::BPF_AND | libc::BPF_K, 0xff),
        jump_if_equal(u32::from(b'K'), 1, 0),
        jump_if_equal(u32::from(b'd'), 0, 1),
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

    /// Runs the filter as the kernel would: the action for one call.
    fn run(program: &[Instruction], number: libc::c_long, request: u32) -> u32 {
        let (mut at, mut accumulator) = (0, 0u32);
        loop {
            let it = program[at];
            at += 1;
            match u32::from(it.code) {
                code if code == libc::BPF_LD | libc::BPF_W | libc::BPF_ABS => {
                    accumulator = match it.k {
                        NUMBER => number as u32,
                        ARCHITECTURE => THIS_ARCHITECTURE,
                        _ => request,
                    };
                }
                code if code == libc::BPF_ALU | libc::BPF_RSH | libc::BPF_K => accumulator >>= it.k,
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
        assert_eq!(run(&program, libc::SYS_ioctl, 0xc028_4b16), ask);
        assert_eq!(run(&program, libc::SYS_ioctl, 0xc040_6400), ask);
        assert_eq!(run(&program, libc::SYS_ioctl, libc::TCGETS as u32), allow);
        assert_eq!(run(&program, libc::SYS_mmap, 0xc028_4b16), allow);
        for number in PATH_CALLS {
            assert_eq!(run(&program, *number, 0), ask);
        }
        assert_eq!(run(&super::program(&[libc::SYS_mmap]), libc::SYS_mmap, 0), ask);
    }
}
