//! DBG_TRAP: a process that debugs itself, or one that it traces.
//!
//! The checks, their order and their answers are the kernel driver's (`kfd_ioctl_set_debug_trap` and `kfd_debug.c`). What a
//! debugger would hear of waves never happens here, since no wave runs. The exceptions that there are: a queue is new, a queue
//! met a packet that it cannot run, the runtime begins or ends. Not simulated: a page fault that goes to the debugger instead
//! of the process, and a queue's exception that the debugger passes back to the runtime.

mod queues;
pub(super) mod session;

use hsakmt_core::driver::Errno;
use zerocopy::{FromBytes, Immutable, IntoBytes};

use super::queue::Kind;
use super::{NODEV, PERM, Process, ProcessId, World};
use crate::sim::caller::Caller;
use crate::sim::sysfs;
use crate::uapi::*;

const ACCES: Errno = Errno(libc::EACCES);
const NODATA: Errno = Errno(libc::ENODATA);

/// Addresses that a GPU can watch at once.
const WATCHES: u32 = 4;

/// The bit of an exception.
const fn exception(code: u32) -> u64 {
    1 << (code - 1)
}

impl World {
    /// One operation. What the system call returns: for stopping and resuming, how many queues.
    pub(crate) fn dbg_trap(
        &mut self,
        of: ProcessId,
        p: &mut Process,
        args: &mut DbgTrapArgs,
        caller: &mut dyn Caller,
    ) -> Result<u32, Errno> {
        let Some(id) = self.debugged(p, args, caller)? else {
            return self.debug(p, None, args, caller);
        };
        let mut target = self.processes.remove(&id).ok_or(Errno(libc::ESRCH))?;
        let result = self.debug(&mut target, Some(of), args, caller);
        self.processes.insert(id, target);
        result
    }

    /// One operation on the process `p`. `debugger`: another process, if it is one.
    fn debug(
        &mut self,
        p: &mut Process,
        debugger: Option<ProcessId>,
        args: &mut DbgTrapArgs,
        caller: &mut dyn Caller,
    ) -> Result<u32, Errno> {
        if args.op != KFD_IOC_DBG_TRAP_ENABLE && p.debugger.is_none() {
            return Err(Errno::INVAL);
        }
        let needs_runtime = [
            KFD_IOC_DBG_TRAP_SET_WAVE_LAUNCH_OVERRIDE,
            KFD_IOC_DBG_TRAP_SET_WAVE_LAUNCH_MODE,
            KFD_IOC_DBG_TRAP_SUSPEND_QUEUES,
            KFD_IOC_DBG_TRAP_RESUME_QUEUES,
            KFD_IOC_DBG_TRAP_SET_NODE_ADDRESS_WATCH,
            KFD_IOC_DBG_TRAP_CLEAR_NODE_ADDRESS_WATCH,
            KFD_IOC_DBG_TRAP_SET_FLAGS,
        ];
        if needs_runtime.contains(&args.op) && !p.has_runtime() {
            return Err(PERM);
        }
        match args.op {
            KFD_IOC_DBG_TRAP_ENABLE => {
                on(args, DbgTrapArgs::enable, |enable| self.debug_enable(p, debugger, enable, caller))
            }
            KFD_IOC_DBG_TRAP_DISABLE => {
                self.end_session(p);
                Ok(0)
            }
            KFD_IOC_DBG_TRAP_SEND_RUNTIME_EVENT => {
                on(args, DbgTrapArgs::send_runtime_event, |event| self.send_runtime_event(p, event))
            }
            KFD_IOC_DBG_TRAP_SET_EXCEPTIONS_ENABLED => {
                p.want_exceptions(args.set_exceptions_enabled().exception_mask);
                Ok(0)
            }
            KFD_IOC_DBG_TRAP_SET_WAVE_LAUNCH_OVERRIDE => on(args, DbgTrapArgs::launch_override, launch_override),
            KFD_IOC_DBG_TRAP_SET_WAVE_LAUNCH_MODE => match args.launch_mode().launch_mode {
                KFD_DBG_TRAP_WAVE_LAUNCH_MODE_NORMAL
                | KFD_DBG_TRAP_WAVE_LAUNCH_MODE_HALT
                | KFD_DBG_TRAP_WAVE_LAUNCH_MODE_DEBUG => Ok(0),
                _ => Err(Errno::INVAL),
            },
            KFD_IOC_DBG_TRAP_SUSPEND_QUEUES => queues::suspend(p, &args.suspend_queues(), caller),
            KFD_IOC_DBG_TRAP_RESUME_QUEUES => queues::resume(p, &args.resume_queues(), caller),
            KFD_IOC_DBG_TRAP_SET_NODE_ADDRESS_WATCH => {
                on(args, DbgTrapArgs::set_node_address_watch, |watch| self.watch(p, watch))
            }
            KFD_IOC_DBG_TRAP_CLEAR_NODE_ADDRESS_WATCH => self.unwatch(p, &args.clear_node_address_watch()),
            KFD_IOC_DBG_TRAP_SET_FLAGS => on(args, DbgTrapArgs::set_flags, |flags| self.set_flags(p, flags)),
            KFD_IOC_DBG_TRAP_QUERY_DEBUG_EVENT => {
                on(args, DbgTrapArgs::query_debug_event, |event| self.query_event(p, event))
            }
            KFD_IOC_DBG_TRAP_QUERY_EXCEPTION_INFO => {
                on(args, DbgTrapArgs::query_exception_info, |info| self.exception_info(p, info, caller))
            }
            KFD_IOC_DBG_TRAP_GET_QUEUE_SNAPSHOT => {
                on(args, DbgTrapArgs::queue_snapshot, |snapshot| self.queue_snapshot(p, snapshot, caller))
            }
            KFD_IOC_DBG_TRAP_GET_DEVICE_SNAPSHOT => {
                on(args, DbgTrapArgs::device_snapshot, |snapshot| self.device_snapshot(snapshot, caller))
            }
            _ => Err(Errno::INVAL),
        }
    }

    fn version(&self, gpu: usize) -> u32 {
        self.machine.gpus.get(gpu).map_or(0, |gpu| gpu.gfx_target_version)
    }

    /// A debugger's answer to the runtime. No GPU has faulted, so there is no fault to pass on.
    fn send_runtime_event(&mut self, p: &mut Process, event: &mut DbgTrapSendRuntimeEventArgs) -> Result<u32, Errno> {
        let fault = exception(EC_DEVICE_MEMORY_VIOLATION);
        if event.exception_mask & fault != 0 {
            self.gpu(event.gpu_id).map_err(|_| NODEV)?;
        }
        if event.exception_mask & exception(EC_PROCESS_RUNTIME) != 0 {
            p.answer_runtime();
            self.event_changes += 1;
        }
        let rest = event.exception_mask & !fault & !exception(EC_PROCESS_RUNTIME);
        if rest != 0 && !p.queues.list.contains_key(&event.queue_id) {
            return Err(Errno::INVAL);
        }
        Ok(0)
    }

    fn watch(&mut self, p: &mut Process, watch: &mut DbgTrapSetNodeAddressWatchArgs) -> Result<u32, Errno> {
        let gpu = self.gpu(watch.gpu_id).map_err(|_| NODEV)?;
        watch.id = u32::MAX;
        let id = (0..WATCHES).find(|id| self.watched.insert((gpu, *id))).ok_or(Errno::NOMEM)?;
        watch.id = id;
        p.debugger.iter_mut().for_each(|session| session.watched.push((gpu, id)));
        Ok(0)
    }

    fn unwatch(&mut self, p: &mut Process, watch: &DbgTrapClearNodeAddressWatchArgs) -> Result<u32, Errno> {
        let gpu = self.gpu(watch.gpu_id).map_err(|_| NODEV)?;
        let session = p.debugger.as_mut().ok_or(Errno::INVAL)?;
        let known = session.watched.iter().position(|watched| *watched == (gpu, watch.id)).ok_or(Errno::INVAL)?;
        self.watched.remove(&session.watched.swap_remove(known));
        Ok(0)
    }

    fn set_flags(&self, p: &mut Process, args: &mut DbgTrapSetFlagsArgs) -> Result<u32, Errno> {
        let session = p.debugger.as_mut().ok_or(Errno::INVAL)?;
        let (wanted, before) = (args.flags, session.flags);
        args.flags = before;
        // A setting of its own for each process came with gfx90a.
        let alone = self.machine.shown().all(|(_, gpu)| gpu.gfx_target_version >= 90010);
        if wanted & KFD_DBG_TRAP_FLAG_SINGLE_MEM_OP != 0 && !alone {
            return Err(ACCES);
        }
        session.flags = wanted & KFD_DBG_TRAP_FLAG_SINGLE_MEM_OP;
        Ok(0)
    }

    /// The first queue that raised what the debugger wants to hear of, or else the process.
    fn query_event(&self, p: &mut Process, event: &mut DbgTrapQueryDebugEventArgs) -> Result<u32, Errno> {
        let clear = event.exception_mask;
        *event = DbgTrapQueryDebugEventArgs::default();
        let wanted = p.debugger.as_ref().map_or(0, |session| session.wanted);
        if let Some((id, queue)) = p.queues.list.iter_mut().find(|(_, queue)| queue.exceptions & wanted != 0) {
            (event.exception_mask, event.queue_id) = (queue.exceptions, *id);
            event.gpu_id = self.machine.gpus.get(queue.gpu).map_or(0, |gpu| gpu.gpu_id.0);
            queue.exceptions &= !clear;
        } else if p.exceptions & wanted != 0 {
            event.exception_mask = p.exceptions;
            p.exceptions &= !clear;
        } else {
            return Err(Errno(libc::EAGAIN));
        }
        Ok(0)
    }

    /// A queue's exceptions have no information; that of the runtime is its state.
    fn exception_info(
        &self,
        p: &mut Process,
        info: &mut DbgTrapQueryExceptionInfoArgs,
        caller: &mut dyn Caller,
    ) -> Result<u32, Errno> {
        if info.info_ptr == 0 || info.exception_code == 0 || info.exception_code > 64 {
            return Err(Errno::INVAL);
        }
        let bit = exception(info.exception_code);
        if bit & KFD_EC_MASK_QUEUE != 0 {
            let queue = p.queues.list.get_mut(&info.source_id).ok_or(Errno::INVAL)?;
            if queue.exceptions & bit == 0 {
                return Err(NODATA);
            }
            if info.clear_exception != 0 {
                queue.exceptions &= !bit;
            }
            info.info_size = 0;
            Ok(0)
        } else if bit & KFD_EC_MASK_DEVICE != 0 {
            self.gpu(info.source_id)?;
            Err(NODATA)
        } else if bit & KFD_EC_MASK_PROCESS == 0 {
            Err(Errno::INVAL)
        } else if p.exceptions & bit == 0 {
            Err(NODATA)
        } else {
            let told = if bit == exception(EC_PROCESS_RUNTIME) { p.runtime.as_bytes() } else { &[] };
            caller.write(info.info_ptr, told.get(..info.info_size as usize).unwrap_or(told))?;
            info.info_size = told.len() as u32;
            if info.clear_exception != 0 {
                p.exceptions &= !bit;
            }
            Ok(0)
        }
    }

    fn queue_snapshot(
        &self,
        p: &mut Process,
        args: &mut DbgTrapQueueSnapshotArgs,
        caller: &mut dyn Caller,
    ) -> Result<u32, Errno> {
        let (room, stride) = (args.num_queues, args.entry_size);
        args.num_queues = 0;
        if stride == 0 {
            return Err(Errno::INVAL);
        }
        args.entry_size = stride.min(size_of::<QueueSnapshotEntry>() as u32);
        for (id, queue) in &mut p.queues.list {
            if args.num_queues < room {
                let entry = QueueSnapshotEntry {
                    exception_status: queue.exceptions,
                    ring_base_address: queue.ring,
                    write_pointer_address: queue.write_pointer,
                    read_pointer_address: queue.read_pointer,
                    ctx_save_restore_address: queue.save_area,
                    queue_id: *id,
                    gpu_id: self.machine.gpus.get(queue.gpu).map_or(0, |gpu| gpu.gpu_id.0),
                    ring_size: queue.size as u32,
                    queue_type: match queue.kind {
                        Kind::Pm4 => KFD_IOC_QUEUE_TYPE_COMPUTE,
                        Kind::Aql => KFD_IOC_QUEUE_TYPE_COMPUTE_AQL,
                        Kind::Sdma { xgmi: false } => KFD_IOC_QUEUE_TYPE_SDMA,
                        Kind::Sdma { xgmi: true } => KFD_IOC_QUEUE_TYPE_SDMA_XGMI,
                    },
                    ctx_save_restore_area_size: queue.save_area_size,
                    reserved: 0,
                };
                queue.exceptions &= !args.exception_mask;
                put(caller, args.snapshot_buf_ptr, (args.num_queues, stride), &entry, args.entry_size)?;
            }
            args.num_queues += 1;
        }
        Ok(0)
    }

    fn device_snapshot(&self, args: &mut DbgTrapDeviceSnapshotArgs, caller: &mut dyn Caller) -> Result<u32, Errno> {
        if args.snapshot_buf_ptr == 0 {
            return Err(Errno::INVAL);
        }
        let (room, stride) = (args.num_devices as usize, args.entry_size);
        args.num_devices = self.machine.shown().count() as u32;
        args.entry_size = stride.min(size_of::<DbgDeviceInfoEntry>() as u32);
        for (number, (index, gpu)) in (0..).zip(self.machine.shown().take(room)) {
            let told = |name| sysfs::gpu_property(&self.machine, index, name) as u32;
            let entry = DbgDeviceInfoEntry {
                exception_status: 0,
                lds_base: gpu.lds.base,
                lds_limit: gpu.lds.limit,
                scratch_base: gpu.scratch.base,
                scratch_limit: gpu.scratch.limit,
                gpuvm_base: gpu.gpuvm.base,
                gpuvm_limit: gpu.gpuvm.limit,
                gpu_id: gpu.gpu_id.0,
                location_id: told("location_id"),
                vendor_id: told("vendor_id"),
                device_id: told("device_id"),
                revision_id: gpu.revision,
                subsystem_vendor_id: told("vendor_id"),
                subsystem_device_id: 0,
                fw_version: told("fw_version"),
                gfx_target_version: gpu.gfx_target_version,
                simd_count: told("simd_count"),
                max_waves_per_simd: told("max_waves_per_simd"),
                array_count: told("array_count"),
                simd_arrays_per_engine: told("simd_arrays_per_engine"),
                num_xcc: told("num_xcc"),
                capability: told("capability"),
                debug_prop: told("debug_prop"),
            };
            put(caller, args.snapshot_buf_ptr, (number, stride), &entry, args.entry_size)?;
        }
        Ok(0)
    }
}

/// Works on an operation's own struct and puts it back, whatever came out.
fn on<T: IntoBytes + FromBytes + Immutable>(
    args: &mut DbgTrapArgs,
    view: impl Fn(&DbgTrapArgs) -> T,
    work: impl FnOnce(&mut T) -> Result<u32, Errno>,
) -> Result<u32, Errno> {
    let mut own = view(args);
    let result = work(&mut own);
    for (to, from) in args.payload.as_mut_bytes().iter_mut().zip(own.as_bytes()) {
        *to = *from;
    }
    result
}

/// Writes as much of an entry as the caller knows, in its place of an array.
fn put<T: IntoBytes + Immutable>(
    caller: &mut dyn Caller,
    array: u64,
    (number, stride): (u32, u32),
    entry: &T,
    bytes: u32,
) -> Result<(), Errno> {
    let place = array.wrapping_add(u64::from(number) * u64::from(stride));
    caller.write(place, entry.as_bytes().get(..bytes as usize).unwrap_or_default())
}

/// Traps that waves may be made to take: none was before, and all can be.
fn launch_override(args: &mut DbgTrapSetWaveLaunchOverrideArgs) -> Result<u32, Errno> {
    if args.override_mode > KFD_DBG_TRAP_OVERRIDE_REPLACE {
        return Err(Errno::INVAL);
    }
    let supported = KFD_DBG_TRAP_MASK_FP_INVALID
        | KFD_DBG_TRAP_MASK_FP_INPUT_DENORMAL
        | KFD_DBG_TRAP_MASK_FP_DIVIDE_BY_ZERO
        | KFD_DBG_TRAP_MASK_FP_OVERFLOW
        | KFD_DBG_TRAP_MASK_FP_UNDERFLOW
        | KFD_DBG_TRAP_MASK_FP_INEXACT
        | KFD_DBG_TRAP_MASK_INT_DIVIDE_BY_ZERO
        | KFD_DBG_TRAP_MASK_DBG_ADDRESS_WATCH
        | KFD_DBG_TRAP_MASK_DBG_MEMORY_VIOLATION;
    let asked = std::mem::replace(&mut args.support_request_mask, supported);
    if asked & !supported != 0 {
        return Err(ACCES);
    }
    args.enable_mask = 0;
    Ok(0)
}
