//! The buffers that CREATE_QUEUE insists on: pointers, ring, end-of-pipe buffer and context save area, each one whole
//! mapping of the queue's GPU. The sizes of the last two follow from the topology, as in the kernel since 6.12.

use hsakmt_core::driver::Errno;

use super::queue::Kind;
use super::{PAGE, Process, World};
use crate::sim::description::Gpu;
use crate::uapi::CreateQueueArgs;

/// Bytes of an end-of-pipe buffer.
const EOP_BYTES: u32 = 4096;

/// What a queue's context save area must hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SaveArea {
    pub(crate) control_stack: u32,
    /// Control stack and waves.
    pub(crate) size: u32,
    /// For a debugger, behind it.
    pub(crate) debug: u32,
}

impl SaveArea {
    /// What a GPU needs; `None`: it saves no context.
    pub(crate) fn of(gpu: &Gpu) -> Option<SaveArea> {
        let version = gpu.gfx_target_version;
        if version < 80001 {
            return None;
        }
        let page_up = |size: u32| size.next_multiple_of(PAGE as u32);
        let units = gpu.simds / gpu.simd_per_cu.max(1) / gpu.dies.max(1);
        let waves = match version {
            100100.. => units * 32,
            // 8 arrays, one per engine.
            _ => (units * 40).min(8 * 512),
        };
        let vector_registers = match version {
            90008 | 90010 | 90402 | 90500 | 120500 => 0x8_0000,
            110000 | 110001 | 110501 | 120000 | 120001 => 0x6_0000,
            _ => 0x4_0000,
        };
        // Vector registers, scalar registers, LDS, hardware registers.
        let of_waves = page_up(units * (vector_registers + 0x4000 + 0x1_0000 + 0x1000));
        let stack_entry = if version >= 100100 { 12 } else { 8 };
        // A header of 40 bytes.
        let mut control_stack = page_up(40 + waves * stack_entry + 8);
        if version / 10000 == 10 {
            control_stack = control_stack.min(0x7000);
        }
        Some(SaveArea { control_stack, size: control_stack + of_waves, debug: (waves * 32).next_multiple_of(64) })
    }
}

impl World {
    /// The handle of the buffer object that is mapped at exactly `address` on a GPU, in exactly this size: below a page any size does.
    pub(crate) fn whole_buffer(&self, p: &Process, gpu: usize, address: u64, size: u64) -> Result<u64, Errno> {
        let on = p.gpus.get(gpu).ok_or(Errno::INVAL)?;
        let (first, last, handle) = on.space.find(address).ok_or(Errno::INVAL)?;
        let pages = size / PAGE;
        let whole = address / PAGE == first / PAGE && (pages == 0 || first + pages * PAGE - 1 == last);
        if whole { Ok(handle) } else { Err(Errno::INVAL) }
    }

    /// Checks every buffer of a queue about to be created; the handles to keep mapped.
    pub(crate) fn queue_buffers(
        &self,
        p: &Process,
        gpu: usize,
        kind: Kind,
        args: &CreateQueueArgs,
    ) -> Result<Vec<u64>, Errno> {
        let model = self.machine.gpus.get(gpu).ok_or(Errno::INVAL)?;
        // An old APU's addresses are the process's own: nothing is mapped for it.
        if model.shares_addresses() {
            return Ok(Vec::new());
        }
        let find = |address, size| self.whole_buffer(p, gpu, address, size);
        let doubled = kind == Kind::Aql && (70000..90000).contains(&model.gfx_target_version);
        let ring = u64::from(args.ring_size) / if doubled { 2 } else { 1 };
        let mut list = vec![
            find(args.write_pointer_address, PAGE)?,
            find(args.read_pointer_address, PAGE)?,
            find(args.ring_base_address, ring)?,
        ];
        if matches!(kind, Kind::Sdma { .. }) {
            return Ok(list);
        }
        if args.eop_buffer_address != 0 {
            if args.eop_buffer_size != u64::from(EOP_BYTES) {
                return Err(Errno::INVAL);
            }
            list.push(find(args.eop_buffer_address, EOP_BYTES.into())?);
        }
        let Some(area) = SaveArea::of(model) else { return Ok(list) };
        if args.ctl_stack_size != area.control_stack || args.ctx_save_restore_size < area.size {
            return Err(Errno::INVAL);
        }
        let all = u64::from(args.ctx_save_restore_size + area.debug) * u64::from(model.dies.max(1));
        let all = all.next_multiple_of(PAGE);
        match find(args.ctx_save_restore_address, all) {
            Ok(handle) => list.push(handle),
            Err(_) if self.always_mapped(p, gpu, args.ctx_save_restore_address, all) => {}
            Err(error) => return Err(error),
        }
        Ok(list)
    }
}
