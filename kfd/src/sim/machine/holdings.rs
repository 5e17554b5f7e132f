//! Everything the simulated kernel holds, as lines of text: for tests that compare before and after.
//!
//! Comes in: nothing. Goes out: one line per thing held, in an order that does not depend on when it was made. Names
//! that are only counted on - handles, offsets, process ids - are left out: an object that a refused call has ended and
//! made again is the same object under another name.

use super::process::Process;
use super::{ProcessId, World};

impl World {
    /// One line per GPU's memory in use, memory, name, process, GPU of a process, buffer object and SVM range.
    pub fn holdings(&mut self) -> Vec<String> {
        self.collect();
        let used: Vec<u64> = self.vram.iter().map(|vram| vram.used).collect();
        let mut lines = vec![format!("in use: VRAM {used:?}, host {}; names {}", self.gtt_used, self.ipc.len())];
        let mut memories: Vec<String> = (self.memories.values())
            .map(|memory| {
                let (gpu, size, flags) = (memory.gpu, memory.size, memory.flags);
                format!("memory: GPU {gpu}, {size:#x} bytes, {flags:?}, {} holders", memory.holders)
            })
            .collect();
        memories.sort();
        lines.extend(memories);
        let mut processes: Vec<ProcessId> = self.processes.keys().copied().collect();
        processes.sort();
        for (number, id) in processes.iter().enumerate() {
            if let Some(process) = self.processes.get(id) {
                lines.extend(self.held_by(*id, process).map(|line| format!("process {number}: {line}")));
            }
        }
        lines
    }

    fn held_by(&self, id: ProcessId, process: &Process) -> impl Iterator<Item = String> {
        let settings = (process.gpus.iter().enumerate()).map(|(index, gpu)| {
            format!("set GPU {index}: acquired {}, scratch {:#x}, {:?}", gpu.acquired, gpu.scratch, gpu.policy)
        });
        let settings: Vec<String> = settings.collect();
        let mut objects: Vec<String> = (self.objects(id).iter())
            .map(|bo| {
                let (va, size, flags, mapped) = (bo.va, bo.size, bo.flags, &bo.mapped);
                format!("object at {va:#x}, {size:#x} bytes, {flags:?}, of {:x?}, mapped {mapped:?}", bo.user_address)
            })
            .collect();
        objects.sort();
        let ranges =
            process.ranges.over(0, u64::MAX).map(|(start, end, held)| format!("range {start:#x}..{end:#x}, {held:?}"));
        let ranges: Vec<String> = ranges.collect();
        let kind = if process.primary { "primary" } else { "secondary" };
        std::iter::once(kind.to_owned()).chain(settings).chain(objects).chain(ranges)
    }
}
