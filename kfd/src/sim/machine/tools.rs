//! Tools' ioctls: management events, performance counters, program counter sampling.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;

use hsakmt_core::driver::Errno;

use zerocopy::IntoBytes;

use super::{BUSY, Process, ProcessId, World};
use crate::sim::caller::Caller;
use crate::uapi::{
    KFD_IOCTL_PCS_FLAG_POWER_OF_2, KFD_IOCTL_PCS_METHOD_HOSTTRAP, KFD_IOCTL_PCS_OP_CREATE, KFD_IOCTL_PCS_OP_DESTROY,
    KFD_IOCTL_PCS_OP_QUERY_CAPABILITIES, KFD_IOCTL_PCS_OP_START, KFD_IOCTL_PCS_OP_STOP, KFD_IOCTL_PCS_QUERY_TYPE_FULL,
    KFD_IOCTL_PCS_TYPE_TIME_US, KFD_IOCTL_SPM_OP_ACQUIRE, KFD_IOCTL_SPM_OP_RELEASE, KFD_IOCTL_SPM_OP_SET_DEST_BUF,
    PcSampleArgs, PcSampleInfo, SmiEventsArgs, SpmArgs, from_caller,
};

/// One opening of a GPU's event stream. The process reads and writes the other end by itself.
#[derive(Debug)]
pub(crate) struct SmiClient {
    gpu: usize,
    stream: UnixStream,
    /// Bit `code - 1`: the process wants this event.
    wanted: u64,
}

impl SmiClient {
    /// Takes in what the process wrote last: eight bytes, which events it wants.
    fn update(&mut self) {
        let mut mask = [0; 8];
        while self.stream.read_exact(&mut mask).is_ok() {
            self.wanted = u64::from_ne_bytes(mask);
        }
    }
}

impl World {
    /// SMI_EVENTS: a descriptor that takes a mask of events and gives lines of text, without waiting.
    pub(crate) fn smi_events(
        &mut self,
        p: &mut Process,
        args: &mut SmiEventsArgs,
        caller: &mut dyn Caller,
    ) -> Result<(), Errno> {
        let gpu = self.gpu(args.gpuid)?;
        let failed = |error: std::io::Error| Errno(error.raw_os_error().unwrap_or(libc::EMFILE));
        let (here, there) = UnixStream::pair().map_err(failed)?;
        here.set_nonblocking(true).and_then(|()| there.set_nonblocking(true)).map_err(failed)?;
        args.anon_fd = caller.install(there.into())? as u32;
        p.smi.push(SmiClient { gpu, stream: here, wanted: 0 });
        Ok(())
    }

    /// Tells every listener on a GPU: the event's number, a space, and what `text` makes of the process's id and name.
    pub(crate) fn smi_event(&mut self, gpu: usize, event: u32, of: &mut Process, text: impl Fn(u32, &str) -> String) {
        let line = format!("{event:x} {}\n", text(of.pid, &of.name));
        for client in self.processes.values_mut().chain([of]).flat_map(|process| &mut process.smi) {
            client.update();
            if client.gpu == gpu && client.wanted >> (event - 1) & 1 != 0 {
                // A full or closed stream loses the event, as in the kernel.
                let _ = client.stream.write_all(line.as_bytes());
            }
        }
    }
}

/// A GPU's program counter sampling, and the sessions of all processes on it.
#[derive(Debug, Default)]
pub(crate) struct Sampling {
    /// What the running sessions sample.
    info: Option<PcSampleInfo>,
    /// Session -> owner, and whether it runs.
    sessions: BTreeMap<u32, (ProcessId, bool)>,
    last: u32,
}

impl World {
    /// RLC_SPM: performance counters are acquired, given a buffer, released. No counter is simulated: a buffer comes back
    /// empty, and at once, whatever the timeout.
    pub(crate) fn spm(&self, p: &mut Process, args: &mut SpmArgs) -> Result<(), Errno> {
        let gpu = self.gpu(args.gpu_id)?;
        let on = p.gpus.get_mut(gpu).ok_or(Errno::INVAL)?;
        match (args.op, on.counters.is_some()) {
            (KFD_IOCTL_SPM_OP_ACQUIRE, false) => on.counters = Some(false),
            (KFD_IOCTL_SPM_OP_RELEASE, true) => on.counters = None,
            (KFD_IOCTL_SPM_OP_SET_DEST_BUF, true) => {
                if on.counters == Some(true) {
                    (args.timeout, args.bytes_copied, args.has_data_loss) = (0, 0, 0);
                }
                on.counters = Some(args.dest_buf != 0);
            }
            _ => return Err(Errno::INVAL),
        }
        Ok(())
    }

    /// PC_SAMPLE: sessions are kept, but no wave ever runs that could be sampled.
    pub(crate) fn pc_sample(
        &mut self,
        of: ProcessId,
        args: &mut PcSampleArgs,
        caller: &mut dyn Caller,
    ) -> Result<(), Errno> {
        let gpu = self.gpu(args.gpu_id)?;
        let version = self.machine.gpus.get(gpu).map_or(0, |gpu| gpu.gfx_target_version);
        let able = PcSampleInfo {
            interval: 0,
            interval_min: 1,
            interval_max: u64::MAX,
            flags: 0,
            method: KFD_IOCTL_PCS_METHOD_HOSTTRAP,
            kind: KFD_IOCTL_PCS_TYPE_TIME_US,
        };
        if !matches!(version, 90008 | 90010 | 90402) {
            return Err(Errno(libc::EOPNOTSUPP));
        }
        let sampling = self.sampling.entry(gpu).or_default();
        match args.op {
            KFD_IOCTL_PCS_OP_QUERY_CAPABILITIES => {
                let now = sampling.info.filter(|_| args.flags != KFD_IOCTL_PCS_QUERY_TYPE_FULL);
                if now.is_none() && (args.sample_info_ptr == 0 || args.num_sample_info < 1) {
                    args.num_sample_info = 1;
                    return Err(Errno(libc::ENOSPC));
                }
                args.num_sample_info = 1;
                if args.sample_info_ptr == 0 {
                    return Ok(());
                }
                caller.write(args.sample_info_ptr, now.unwrap_or(able).as_bytes())
            }
            KFD_IOCTL_PCS_OP_CREATE => {
                let mut bytes = [0; size_of::<PcSampleInfo>()];
                if args.num_sample_info != 1 {
                    return Err(Errno::INVAL);
                }
                caller.read(args.sample_info_ptr, &mut bytes)?;
                let wanted: PcSampleInfo = from_caller(&bytes);
                if wanted.flags & u64::from(KFD_IOCTL_PCS_FLAG_POWER_OF_2) != 0 && !wanted.interval.is_power_of_two() {
                    return Err(Errno::INVAL);
                }
                if (wanted.method, wanted.kind) != (able.method, able.kind) || wanted.interval == 0 {
                    return Err(Errno(libc::EOPNOTSUPP));
                }
                if let Some(now) = sampling.info.filter(|now| now.as_bytes() != wanted.as_bytes()) {
                    caller.write(args.sample_info_ptr, now.as_bytes())?;
                    return Err(Errno(libc::EEXIST));
                }
                sampling.last += 1;
                sampling.info = Some(wanted);
                sampling.sessions.insert(sampling.last, (of, false));
                args.trace_id = sampling.last;
                Ok(())
            }
            op => {
                let session = sampling.sessions.get_mut(&args.trace_id).filter(|(owner, _)| *owner == of);
                let (_, runs) = session.ok_or(Errno::INVAL)?;
                match (op, *runs) {
                    (KFD_IOCTL_PCS_OP_START, false) => *runs = true,
                    (KFD_IOCTL_PCS_OP_STOP, true) => *runs = false,
                    (KFD_IOCTL_PCS_OP_START | KFD_IOCTL_PCS_OP_STOP, _) => return Err(Errno(libc::EALREADY)),
                    (KFD_IOCTL_PCS_OP_DESTROY, true) => return Err(BUSY),
                    (KFD_IOCTL_PCS_OP_DESTROY, false) => {
                        sampling.sessions.remove(&args.trace_id);
                        sampling.info = sampling.info.filter(|_| !sampling.sessions.is_empty());
                    }
                    _ => return Err(Errno::INVAL),
                }
                Ok(())
            }
        }
    }

    /// A process's sampling sessions end with it.
    pub(crate) fn end_sampling(&mut self, of: ProcessId) {
        for sampling in self.sampling.values_mut() {
            sampling.sessions.retain(|_, (owner, _)| *owner != of);
            sampling.info = sampling.info.filter(|_| !sampling.sessions.is_empty());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::os::fd::OwnedFd;

    use super::*;
    use crate::opcode::Command;
    use crate::sim::description::Machine;
    use crate::sim::machine::{Answer, Faults, SvmMode};
    use crate::sim::memfd::DeviceFile;
    use zerocopy::{FromBytes, Immutable};

    /// A caller with 64 bytes of memory that keeps the descriptor it is given.
    struct Small([u8; 64], Option<OwnedFd>);

    impl Caller for Small {
        fn read(&mut self, at: u64, bytes: &mut [u8]) -> Result<(), Errno> {
            let from = self.0.get(at as usize..at as usize + bytes.len()).ok_or(Errno(libc::EFAULT))?;
            bytes.copy_from_slice(from);
            Ok(())
        }
        fn write(&mut self, at: u64, bytes: &[u8]) -> Result<(), Errno> {
            let to = self.0.get_mut(at as usize..at as usize + bytes.len()).ok_or(Errno(libc::EFAULT))?;
            to.copy_from_slice(bytes);
            Ok(())
        }
        fn readable(&mut self, _: u64, _: u64) -> bool {
            true
        }
        fn mapped(&mut self, _: u64, _: u64) -> bool {
            true
        }
        fn file(&mut self, _: i32) -> Option<DeviceFile> {
            None
        }
        fn install(&mut self, file: OwnedFd) -> Result<i32, Errno> {
            self.1 = Some(file);
            Ok(5)
        }
    }

    fn world() -> (World, ProcessId, u32) {
        let machine = Machine::preset("gfx90a", None).unwrap();
        let gpu_id = machine.gpus[0].gpu_id.0;
        let mut world = World::new(machine, SvmMode::Machine, Faults::default());
        let process = world.open();
        (world, process, gpu_id)
    }

    fn call<T: FromBytes + IntoBytes + Immutable>(
        world: &mut World,
        process: ProcessId,
        command: Command,
        args: &mut T,
        caller: &mut Small,
    ) -> Result<(), Errno> {
        let mut bytes = args.as_bytes().to_vec();
        let answer = world.command(process, command, &mut bytes, caller);
        *args = from_caller(&bytes);
        match answer {
            Answer::Done(result) => result,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_listener_hears_what_it_asked_for() {
        let (mut world, process, gpuid) = world();
        let mut caller = Small([0; 64], None);
        let mut args = SmiEventsArgs { gpuid, anon_fd: 0 };
        assert_eq!(call(&mut world, process, Command::SmiEvents, &mut args, &mut caller), Ok(()));
        assert_eq!(args.anon_fd, 5);
        let mut stream = UnixStream::from(caller.1.take().unwrap());
        let mut text = [0; 64];
        let mut other = Process::new(true, 2);
        (other.pid, other.name) = (0x77, "prog".into());
        world.smi_event(0, 1, &mut other, |pid, name| format!("{pid:x}:{name}"));
        assert_eq!(stream.read(&mut text).unwrap_err().kind(), std::io::ErrorKind::WouldBlock);
        stream.write_all(&1u64.to_ne_bytes()).unwrap();
        world.smi_event(1, 1, &mut other, |_, _| "another GPU".into());
        world.smi_event(0, 1, &mut other, |pid, name| format!("{pid:x}:{name}"));
        let count = stream.read(&mut text).unwrap();
        assert_eq!(&text[..count], b"1 77:prog\n");
    }

    #[test]
    fn counters_are_acquired_once_and_give_nothing() {
        let (mut world, process, gpu_id) = world();
        let mut spm = |op, dest_buf| {
            let mut args = SpmArgs { op, dest_buf, gpu_id, timeout: 9, bytes_copied: 7, ..Default::default() };
            let result = call(&mut world, process, Command::RlcSpm, &mut args, &mut Small([0; 64], None));
            result.map(|()| args.bytes_copied)
        };
        assert_eq!(spm(KFD_IOCTL_SPM_OP_RELEASE, 0), Err(Errno::INVAL));
        assert_eq!(spm(KFD_IOCTL_SPM_OP_SET_DEST_BUF, 0), Err(Errno::INVAL));
        assert_eq!(spm(KFD_IOCTL_SPM_OP_ACQUIRE, 0), Ok(7));
        assert_eq!(spm(KFD_IOCTL_SPM_OP_ACQUIRE, 0), Err(Errno::INVAL));
        assert_eq!((spm(KFD_IOCTL_SPM_OP_SET_DEST_BUF, 8), spm(KFD_IOCTL_SPM_OP_SET_DEST_BUF, 8)), (Ok(7), Ok(0)));
        assert_eq!((spm(KFD_IOCTL_SPM_OP_RELEASE, 0), spm(9, 0)), (Ok(7), Err(Errno::INVAL)));
    }

    #[test]
    fn sampling_sessions_start_stop_and_end() {
        let (mut world, process, gpu_id) = world();
        let mut caller = Small([0; 64], None);
        let mut sample = |op, trace_id, num_sample_info, sample_info_ptr, caller: &mut Small| {
            let mut args =
                PcSampleArgs { op, gpu_id, trace_id, num_sample_info, sample_info_ptr, ..Default::default() };
            call(&mut world, process, Command::PcSample, &mut args, caller).map(|()| args.trace_id)
        };
        let query = KFD_IOCTL_PCS_OP_QUERY_CAPABILITIES;
        assert_eq!(sample(query, 0, 0, 0, &mut caller), Err(Errno(libc::ENOSPC)));
        assert_eq!(sample(query, 0, 1, 8, &mut caller), Ok(0));
        let mut info: PcSampleInfo = from_caller(&caller.0[8..]);
        assert_eq!((info.interval_min, info.method), (1, KFD_IOCTL_PCS_METHOD_HOSTTRAP));
        let create = KFD_IOCTL_PCS_OP_CREATE;
        assert_eq!(sample(create, 0, 1, 8, &mut caller), Err(Errno(libc::EOPNOTSUPP)), "no interval");
        info.interval = 100;
        caller.write(8, info.as_bytes()).unwrap();
        assert_eq!(sample(create, 0, 1, 8, &mut caller), Ok(1));
        info.interval = 200;
        caller.write(8, info.as_bytes()).unwrap();
        assert_eq!(sample(create, 0, 1, 8, &mut caller), Err(Errno(libc::EEXIST)));
        let mut session = |op| sample(op, 1, 0, 0, &mut caller);
        assert_eq!(session(KFD_IOCTL_PCS_OP_STOP), Err(Errno(libc::EALREADY)));
        assert_eq!(session(KFD_IOCTL_PCS_OP_START), Ok(1));
        assert_eq!(session(KFD_IOCTL_PCS_OP_START), Err(Errno(libc::EALREADY)));
        assert_eq!(session(KFD_IOCTL_PCS_OP_DESTROY), Err(BUSY));
        assert_eq!((session(KFD_IOCTL_PCS_OP_STOP), session(KFD_IOCTL_PCS_OP_DESTROY)), (Ok(1), Ok(1)));
        assert_eq!(session(KFD_IOCTL_PCS_OP_DESTROY), Err(Errno::INVAL));
    }
}
