//! Packets, one kind after the other, on a machine whose memory is a map of pages.

use std::collections::HashMap;
use std::os::fd::OwnedFd;

use hsakmt_core::driver::Errno;
use hsakmt_core::flags::IocFlags;
use zerocopy::{FromBytes, Immutable, IntoBytes};

use crate::opcode::Command;
use crate::sim::caller::Caller;
use crate::sim::description::Machine;
use crate::sim::machine::bus::{Bus, Place, RESTING};
use crate::sim::machine::memory::doorbells_at;
use crate::sim::machine::queue_check::SaveArea;
use crate::sim::machine::{Answer, Faults, ProcessId, SvmMode, World};
use crate::sim::memfd::DeviceFile;
use crate::uapi::*;

const RING: u64 = 0x10_0000;
const POINTERS: u64 = 0x11_0000;
const EOP: u64 = 0x12_0000;
const DATA: u64 = 0x20_0000;
const READ_ONLY: u64 = 0x30_0000;
const EVENTS: u64 = 0x40_0000;
const SAVE: u64 = 0x1000_0000;
const UNMAPPED: u64 = 0xdead_0000;

/// Memory by page; the kfd file rests at all ones.
#[derive(Default)]
struct Pages(HashMap<(u8, u64), Vec<u8>>);

impl Pages {
    fn byte(&mut self, place: Place) -> &mut u8 {
        let (kind, at) = match place {
            Place::Device { gpu, offset } => (gpu as u8, offset),
            Place::Kfd(offset) => (200, offset),
            Place::Host(address) => (201, address),
        };
        let rest = if kind == 200 { RESTING } else { 0 };
        &mut self.0.entry((kind, at / 4096)).or_insert_with(|| vec![rest; 4096])[(at % 4096) as usize]
    }
}

impl Bus for Pages {
    fn read(&mut self, place: Place, bytes: &mut [u8]) -> Result<(), Errno> {
        bytes.iter_mut().enumerate().for_each(|(at, byte)| *byte = *self.byte(place.offset(at as u64)));
        Ok(())
    }

    fn write(&mut self, place: Place, bytes: &[u8]) -> Result<(), Errno> {
        bytes.iter().enumerate().for_each(|(at, byte)| *self.byte(place.offset(at as u64)) = *byte);
        Ok(())
    }
}

/// A caller whose every array is one GPU's id.
struct OneGpu(u32);

impl Caller for OneGpu {
    fn read(&mut self, _: u64, bytes: &mut [u8]) -> Result<(), Errno> {
        bytes.iter_mut().zip(self.0.to_ne_bytes()).for_each(|(to, from)| *to = from);
        Ok(())
    }
    fn write(&mut self, _: u64, _: &[u8]) -> Result<(), Errno> {
        Ok(())
    }
    fn readable(&mut self, _: u64, _: u64) -> bool {
        true
    }
    fn mapped(&mut self, _: u64, _: u64) -> bool {
        true
    }
    fn file(&mut self, _: i32) -> Option<DeviceFile> {
        Some(DeviceFile::Render(0))
    }
    fn install(&mut self, _: OwnedFd) -> Result<i32, Errno> {
        Ok(9)
    }
}

struct Bench {
    world: World,
    process: ProcessId,
    pages: Pages,
    gpu_id: u32,
    queue: u32,
    /// Dwords (PM4), bytes (SDMA) or packets (AQL) put into the ring.
    put: u64,
    kind: u32,
}

impl Bench {
    fn new(kind: u32) -> Bench {
        let machine = Machine::preset("gfx90a", None).unwrap();
        let (gpu_id, area) = (machine.gpus[0].gpu_id.0, SaveArea::of(&machine.gpus[0]).unwrap());
        let mut world = World::new(machine, SvmMode::Machine, Faults::default());
        let process = world.open();
        let mut bench = Bench { world, process, pages: Pages::default(), gpu_id, queue: 0, put: 0, kind };
        bench.call(Command::AcquireVm, &mut AcquireVmArgs { drm_fd: 0, gpu_id }).unwrap();
        let save = u64::from(area.size + area.debug).next_multiple_of(4096);
        for (va, size, flags) in [
            (RING, 0x1000, IocFlags::WRITABLE),
            (POINTERS, 0x1000, IocFlags::WRITABLE),
            (EOP, 0x1000, IocFlags::WRITABLE),
            (DATA, 0x8000, IocFlags::WRITABLE),
            (READ_ONLY, 0x1000, IocFlags::empty()),
            (EVENTS, 0x8000, IocFlags::WRITABLE),
            (SAVE, save, IocFlags::WRITABLE),
        ] {
            bench.buffer(va, size, flags);
        }
        bench.queue = bench.create(&mut bench.queue_args()).unwrap();
        bench
    }

    fn queue_args(&self) -> CreateQueueArgs {
        let area = SaveArea::of(&self.world.machine.gpus[0]).unwrap();
        CreateQueueArgs {
            ring_base_address: RING,
            ring_size: 0x1000,
            write_pointer_address: POINTERS,
            read_pointer_address: POINTERS + 8,
            gpu_id: self.gpu_id,
            queue_type: self.kind,
            queue_percentage: 100,
            eop_buffer_address: EOP,
            eop_buffer_size: 4096,
            ctx_save_restore_address: SAVE,
            ctx_save_restore_size: area.size,
            ctl_stack_size: area.control_stack,
            ..Default::default()
        }
    }

    fn create(&mut self, args: &mut CreateQueueArgs) -> Result<u32, Errno> {
        self.call(Command::CreateQueue, args).map(|()| args.queue_id)
    }

    fn call<T: FromBytes + IntoBytes + Immutable>(&mut self, command: Command, args: &mut T) -> Result<(), Errno> {
        let mut bytes = args.as_bytes().to_vec();
        let answer = self.world.command(self.process, command, &mut bytes, &mut OneGpu(self.gpu_id));
        *args = from_caller(&bytes);
        for poke in self.world.take_pokes() {
            self.pages.write(poke.place, &poke.bytes).unwrap();
        }
        match answer {
            Answer::Done(result) => result,
            other => panic!("{other:?}"),
        }
    }

    fn buffer(&mut self, va: u64, size: u64, flags: IocFlags) -> u64 {
        let flags = (flags | IocFlags::GTT).bits();
        let mut args = AllocMemoryOfGpuArgs { va_addr: va, size, gpu_id: self.gpu_id, flags, ..Default::default() };
        self.call(Command::AllocMemoryOfGpu, &mut args).unwrap();
        let mut map = MapMemoryToGpuArgs { handle: args.handle, n_devices: 1, ..Default::default() };
        self.call(Command::MapMemoryToGpu, &mut map).unwrap();
        args.handle
    }

    fn place(&self, va: u64) -> Place {
        let p = &self.world.processes[&self.process];
        let (first, _, handle) = p.gpus[0].space.find(va).unwrap();
        let memory = &self.world.memories[&p.bos[&handle].memory];
        Place::Device { gpu: 0, offset: memory.offset + va - first }
    }

    fn store(&mut self, va: u64, bytes: &[u8]) {
        let place = self.place(va);
        self.pages.write(place, bytes).unwrap();
    }

    fn load(&mut self, va: u64) -> u64 {
        let mut bytes = [0; 8];
        let place = self.place(va);
        self.pages.read(place, &mut bytes).unwrap();
        u64::from_le_bytes(bytes)
    }

    fn load32(&mut self, va: u64) -> u32 {
        self.load(va) as u32
    }

    /// Puts dwords into the ring, rings, and runs what can be run.
    fn submit(&mut self, words: &[u32]) {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let (unit, behind) = match self.kind {
            KFD_IOC_QUEUE_TYPE_COMPUTE_AQL => (64, 1),
            KFD_IOC_QUEUE_TYPE_COMPUTE => (4, 0),
            _ => (1, 0),
        };
        for (at, byte) in bytes.iter().enumerate() {
            self.store(RING + (self.put * unit + at as u64) % 0x1000, &[*byte]);
        }
        self.put += bytes.len() as u64 / unit;
        let doorbell = Place::Kfd(doorbells_at(0) + u64::from(self.queue) * 8);
        self.pages.write(doorbell, &(self.put - behind).to_le_bytes()).unwrap();
        self.run();
    }

    fn run(&mut self) {
        while self.world.run_queues(self.process, &mut self.pages) {}
    }

    /// The queue's read pointer, written back.
    fn read_pointer(&mut self) -> u64 {
        self.load(POINTERS + 8)
    }

    fn note(&mut self) -> String {
        let notes = self.world.take_notes();
        assert_eq!(notes.len(), 1, "{notes:?}");
        notes[0].text.clone()
    }

    fn event(&mut self, kind: u32, page: u64) -> u32 {
        let mut args = CreateEventArgs { event_page_offset: page, event_type: kind, ..Default::default() };
        self.call(Command::CreateEvent, &mut args).unwrap();
        let signal = matches!(kind, KFD_IOC_EVENT_SIGNAL | KFD_IOC_EVENT_DEBUG_EVENT);
        assert_eq!(args.event_page_offset != 0, signal, "every event with a slot tells of the page");
        args.event_id
    }

    /// The event page: a buffer of the process.
    fn event_page(&mut self) -> u64 {
        self.world.processes[&self.process].gpus[0].space.find(EVENTS).unwrap().2
    }

    /// Whether a wait for an event is over.
    fn is_set(&mut self, id: u32) -> bool {
        // The caller's arrays read as the GPU's id: ask the machine's own record.
        let p = self.world.processes.get(&self.process).unwrap();
        p.events.is_set(id)
    }
}

fn halves(value: u64) -> [u32; 2] {
    [value as u32, (value >> 32) as u32]
}

fn sdma(header: u32, rest: &[u32]) -> Vec<u32> {
    [&[header], rest].concat()
}

fn pm4(code: u32, body: &[u32]) -> Vec<u32> {
    [&[3 << 30 | (body.len() as u32 - 1) << 16 | code << 8], body].concat()
}

fn aql(header: u32, fields: &[(usize, u64)]) -> Vec<u32> {
    let mut words = vec![0; 16];
    words[0] = header;
    for (at, value) in fields {
        words[at / 4..at / 4 + 2].copy_from_slice(&halves(*value));
    }
    words
}

#[test]
fn sdma_moves_fills_and_writes() {
    let mut bench = Bench::new(KFD_IOC_QUEUE_TYPE_SDMA);
    bench.store(DATA, b"0123456789abcdef");
    let [from, _] = halves(DATA);
    let [to, _] = halves(DATA + 0x1ffa);
    bench.submit(&sdma(1, &[15, 0, from, 0, to, 0]));
    assert_eq!(bench.load(DATA + 0x1ffa).to_le_bytes(), *b"01234567");
    assert_eq!(bench.load(DATA + 0x2002).to_le_bytes(), *b"89abcdef", "a copy crosses pages");
    assert_eq!(bench.read_pointer(), 28);
    // Two targets.
    bench.submit(&sdma(1 | 1 << 27, &[7, 0, from, 0, DATA as u32 + 0x100, 0, DATA as u32 + 0x200, 0]));
    assert_eq!((bench.load(DATA + 0x100), bench.load(DATA + 0x200)), (bench.load(DATA), bench.load(DATA)));
    // Dwords, then bytes.
    bench.submit(&sdma(11 | 2 << 30, &[DATA as u32 + 0x300, 0, 0x0102_0304, 7]));
    bench.submit(&sdma(11, &[DATA as u32 + 0x400, 0, 0xee, 2]));
    assert_eq!((bench.load(DATA + 0x300), bench.load(DATA + 0x308)), (0x0102_0304_0102_0304, 0));
    assert_eq!(bench.load(DATA + 0x400), 0xee_eeee);
    bench.submit(&sdma(2, &[DATA as u32 + 0x500, 0, 1, 11, 12]));
    assert_eq!(bench.load(DATA + 0x500), 12 << 32 | 11);
    // A box: rows of two 4-byte elements out of a pitch of 8, to a pitch of 4.
    for row in 0..2u64 {
        bench.store(DATA + 0x600 + row * 32, &halves(row << 32 | 5).as_bytes()[..8]);
    }
    bench.submit(&sdma(
        1 | 4 << 8 | 2 << 29,
        &[DATA as u32 + 0x600, 0, 0, 7 << 13, 15, DATA as u32 + 0x700, 0, 0, 3 << 13, 7, 1 | 1 << 16, 0],
    ));
    assert_eq!((bench.load(DATA + 0x700), bench.load(DATA + 0x710)), (5, 1 << 32 | 5));
}

#[test]
fn sdma_waits_counts_and_tells() {
    let mut bench = Bench::new(KFD_IOC_QUEUE_TYPE_SDMA);
    let page = bench.event_page();
    let event = bench.event(KFD_IOC_EVENT_SIGNAL, page);
    let slot = EVENTS + u64::from(event) * 8;
    assert_eq!(bench.load(slot), u64::MAX, "a slot rests at all ones");
    // Wait for memory to be 3; count down; tell.
    let mut words = sdma(8 | 3 << 28 | 1 << 31, &[DATA as u32, 0, 3, 0xff, 0]);
    words.extend(sdma(10 | 47 << 25, &[DATA as u32 + 8, 0, u32::MAX, u32::MAX, 0, 0, 0]));
    words.extend(sdma(5, &[slot as u32, 0, event]));
    words.extend(sdma(6, &[event]));
    words.extend(sdma(13 | 2 << 8, &[DATA as u32 + 0x20, 0]));
    bench.submit(&words);
    assert_eq!((bench.read_pointer(), bench.is_set(event)), (0, false));
    bench.store(DATA, &[3, 9]);
    bench.store(DATA + 8, &[5]);
    bench.run();
    assert_eq!((bench.load(DATA + 8), bench.is_set(event)), (4, true));
    assert_eq!(bench.load(slot), u64::MAX, "the kernel has acknowledged it");
    assert!(bench.load(DATA + 0x20) > 0);
    assert_eq!(bench.read_pointer(), words.len() as u64 * 4);
    // A condition that does not hold skips; then many NOPs, round the end of the ring.
    bench.submit(&[sdma(9, &[DATA as u32, 0, 77, 4]), sdma(5, &[DATA as u32 + 0x30, 0, 1])].concat());
    assert_eq!(bench.load(DATA + 0x30), 0);
    for _ in 0..40 {
        bench.submit(&sdma(31 << 16, &[0; 31]));
    }
    bench.submit(&sdma(5, &[DATA as u32 + 0x38, 0, 8]));
    assert_eq!(bench.load(DATA + 0x38), 8);
}

#[test]
fn pm4_writes_copies_waits_and_goes_through_buffers() {
    let mut bench = Bench::new(KFD_IOC_QUEUE_TYPE_COMPUTE);
    let page = bench.event_page();
    let event = bench.event(KFD_IOC_EVENT_SIGNAL, page);
    bench.submit(&pm4(0x37, &[5 << 8, DATA as u32, 0, 7, 8]));
    assert_eq!((bench.load(DATA), bench.read_pointer()), (8 << 32 | 7, 6));
    // Memory to memory, 8 bytes; then a constant.
    bench.submit(&pm4(0x40, &[1 | 5 << 8 | 1 << 16, DATA as u32, 0, DATA as u32 + 16, 0]));
    bench.submit(&pm4(0x40, &[5 | 5 << 8, 99, 0, DATA as u32 + 24, 0]));
    assert_eq!((bench.load(DATA + 16), bench.load(DATA + 24)), (8 << 32 | 7, 99));
    // An indirect buffer that waits in the middle.
    let inside = [
        pm4(0x37, &[5 << 8, DATA as u32 + 32, 0, 1]),
        pm4(0x3c, &[3 | 1 << 4, DATA as u32 + 40, 0, 1, u32::MAX, 4]),
        pm4(0x37, &[5 << 8, DATA as u32 + 48, 0, 1]),
    ]
    .concat();
    bench.store(DATA + 0x1000, inside.as_bytes());
    bench.submit(&pm4(0x3f, &[DATA as u32 + 0x1000, 0, inside.len() as u32 | 1 << 23]));
    assert_eq!((bench.load32(DATA + 32), bench.load32(DATA + 48)), (1, 0));
    bench.store(DATA + 40, &[1]);
    bench.run();
    assert_eq!(bench.load32(DATA + 48), 1);
    // Atomics, NOPs of both kinds, caches, and the end of the pipe with an interrupt.
    bench.submit(&pm4(0x1e, &[15, DATA as u32 + 40, 0, 4, 0, 0, 0, 0]));
    bench.submit(&[0xffff_1000, 0x8000_0000]);
    bench.submit(&pm4(0x58, &[0, 0, 0, 0, 0, 0]));
    let slot = EVENTS + u64::from(event) * 8;
    bench.submit(&pm4(0x49, &[0x514, 2 << 24 | 2 << 29, slot as u32, 0, event, 0, event]));
    assert_eq!((bench.load32(DATA + 40), bench.is_set(event)), (5, true));
    bench.submit(&pm4(0x49, &[0x514, 3 << 29, DATA as u32 + 56, 0, 0, 0, 0]));
    assert!(bench.load(DATA + 56) > 0);
    bench.submit(&pm4(0x50, &[2 << 29, 0xabab_abab, 0, DATA as u32 + 64, 0, 8]));
    assert_eq!(bench.load(DATA + 64), 0xabab_abab_abab_abab);
    assert_eq!(bench.read_pointer(), bench.put);
    bench.submit(&pm4(0x15, &[1, 1, 1, 1]));
    assert_eq!(bench.note(), "shader execution is not simulated");
}

#[test]
fn aql_barriers_wait_for_signals_and_complete_one() {
    let mut bench = Bench::new(KFD_IOC_QUEUE_TYPE_COMPUTE_AQL);
    let page = bench.event_page();
    let event = bench.event(KFD_IOC_EVENT_SIGNAL, page);
    let signal = |number: u64| DATA + number * 64;
    for number in 0..3 {
        bench.store(signal(number) + 8, &[1]);
    }
    bench.store(signal(2) + 16, &(EVENTS + u64::from(event) * 8).to_le_bytes());
    bench.store(signal(2) + 24, &event.to_le_bytes());
    bench.submit(&aql(3, &[(8, signal(0)), (24, signal(1)), (56, signal(2))]));
    bench.store(signal(0) + 8, &[0]);
    bench.run();
    assert_eq!((bench.load(signal(2) + 8), bench.read_pointer()), (1, 0), "AND waits for all");
    bench.store(signal(1) + 8, &[0]);
    bench.run();
    assert_eq!((bench.load(signal(2) + 8), bench.read_pointer(), bench.is_set(event)), (0, 1, true));
    assert_eq!(bench.load32(RING) & 0xff, 1, "the packet is invalid again");
    bench.store(signal(1) + 8, &[1]);
    bench.submit(&aql(5, &[(8, signal(1)), (16, signal(0))]));
    assert_eq!(bench.read_pointer(), 2, "OR waits for one");
    // Barrier-value: (value & 0xf) >= 3.
    bench.submit(&aql(2 << 16, &[(8, signal(1)), (16, 3), (24, 0xf), (32, 3)]));
    assert_eq!(bench.read_pointer(), 2);
    bench.store(signal(1) + 8, &[0x13]);
    bench.run();
    assert_eq!(bench.read_pointer(), 3);
    // A PM4 buffer inside of an AQL packet.
    let inside = pm4(0x37, &[5 << 8, DATA as u32 + 0x800, 0, 6]);
    bench.store(DATA + 0x1000, inside.as_bytes());
    let mut packet = aql(1 << 16, &[]);
    packet[1..5].copy_from_slice(&pm4(0x3f, &[DATA as u32 + 0x1000, 0, inside.len() as u32 | 1 << 23]));
    bench.submit(&packet);
    assert_eq!((bench.load32(DATA + 0x800), bench.read_pointer()), (6, 4));
}

#[test]
fn a_dispatch_ends_its_queue_with_an_exception() {
    let mut bench = Bench::new(KFD_IOC_QUEUE_TYPE_COMPUTE_AQL);
    let exception = bench.event(KFD_IOC_EVENT_HW_EXCEPTION, 0);
    bench.submit(&aql(2, &[]));
    assert_eq!((bench.note().as_str(), bench.is_set(exception)), ("shader execution is not simulated", true));
    bench.submit(&aql(3, &[]));
    assert_eq!(bench.read_pointer(), 0, "the queue has ended");
    // A queue whose save area names a place for the reason, and an event.
    let mut bench = Bench::new(KFD_IOC_QUEUE_TYPE_COMPUTE_AQL);
    let page = bench.event_page();
    let (reason, event) = (bench.event(KFD_IOC_EVENT_HW_EXCEPTION, 0), bench.event(KFD_IOC_EVENT_SIGNAL, page));
    let header =
        ContextSaveAreaHeader { err_payload_addr: 0x5000, err_event_id: event, ..ContextSaveAreaHeader::default() };
    bench.pages.write(Place::Host(SAVE), header.as_bytes()).unwrap();
    bench.world.processes.get_mut(&bench.process).unwrap().runtime.runtime_state =
        crate::uapi::DEBUG_RUNTIME_STATE_ENABLED;
    bench.submit(&aql(2, &[]));
    let mut payload = [0; 8];
    bench.pages.read(Place::Host(0x5000), &mut payload).unwrap();
    assert_eq!(u64::from_le_bytes(payload), 1 << (EC_QUEUE_PACKET_UNSUPPORTED - 1));
    assert_eq!((bench.is_set(event), bench.is_set(reason)), (true, false));
}

#[test]
fn an_access_that_no_page_allows_is_a_memory_event() {
    for (to, read_only) in [(UNMAPPED, false), (READ_ONLY, true)] {
        let mut bench = Bench::new(KFD_IOC_QUEUE_TYPE_SDMA);
        let event = bench.event(KFD_IOC_EVENT_MEMORY, 0);
        bench.submit(&sdma(5, &[to as u32 + 0x124, 0, 1]));
        let note = bench.note();
        assert!(note.contains(&format!("{:#x}", to + 0x124)), "{note}");
        assert!(bench.is_set(event));
        let data = bench.world.processes[&bench.process].events.list[&event].memory;
        assert_eq!((data.va, data.gpu_id), (to, bench.gpu_id));
        assert_eq!((data.failure.not_present, data.failure.read_only), (u32::from(!read_only), u32::from(read_only)));
        assert!(!bench.world.has_active_queues(bench.process));
    }
}

#[test]
fn a_queue_needs_its_buffers_whole_and_keeps_them_mapped() {
    let mut bench = Bench::new(KFD_IOC_QUEUE_TYPE_COMPUTE);
    type Change = fn(&mut CreateQueueArgs);
    let wrong: [Change; 8] = [
        |args| args.ring_base_address = UNMAPPED,
        |args| args.ring_size = 0x2000,
        |args| args.read_pointer_address = UNMAPPED,
        |args| args.write_pointer_address = DATA,
        |args| args.eop_buffer_address = UNMAPPED,
        |args| args.eop_buffer_size = 8192,
        |args| args.ctx_save_restore_size -= 0x1000,
        |args| args.ctl_stack_size += 0x1000,
    ];
    for (number, change) in wrong.iter().enumerate() {
        let mut args = bench.queue_args();
        change(&mut args);
        assert_eq!(bench.create(&mut args), Err(Errno::INVAL), "{number}");
    }
    let mut unknown = CreateQueueArgs { queue_type: 5, ..bench.queue_args() };
    assert_eq!(bench.create(&mut unknown), Err(Errno(524)));
    let by_engine = CreateQueueArgs { queue_type: KFD_IOC_QUEUE_TYPE_SDMA_BY_ENG_ID, ..bench.queue_args() };
    assert!(bench.create(&mut CreateQueueArgs { sdma_engine_id: 4, ..by_engine }).is_ok());
    assert_eq!(bench.create(&mut CreateQueueArgs { sdma_engine_id: 5, ..by_engine }), Err(Errno::INVAL));

    let ring = bench.world.processes[&bench.process].gpus[0].space.find(RING).unwrap().2;
    let mut unmap = UnmapMemoryFromGpuArgs { handle: ring, n_devices: 1, ..Default::default() };
    assert_eq!(bench.call(Command::UnmapMemoryFromGpu, &mut unmap), Err(Errno(libc::EBUSY)));
    let mut update = UpdateQueueArgs {
        queue_id: bench.queue,
        ring_base_address: UNMAPPED,
        ring_size: 0x1000,
        queue_percentage: 100,
        queue_priority: 0,
    };
    assert_eq!(bench.call(Command::UpdateQueue, &mut update), Err(Errno(libc::EFAULT)));
    // Without a ring a queue rests; with it, it goes on.
    bench.call(Command::UpdateQueue, &mut UpdateQueueArgs { ring_base_address: 0, ring_size: 0, ..update }).unwrap();
    bench.submit(&pm4(0x37, &[5 << 8, DATA as u32, 0, 7]));
    assert_eq!(bench.load32(DATA), 0);
    bench.call(Command::UpdateQueue, &mut UpdateQueueArgs { ring_base_address: RING, ..update }).unwrap();
    bench.run();
    assert_eq!(bench.load32(DATA), 7);
}

#[test]
fn global_wave_sync_goes_to_one_queue() {
    let mut bench = Bench::new(KFD_IOC_QUEUE_TYPE_COMPUTE);
    let other = bench.create(&mut bench.queue_args()).unwrap();
    let mut give = |queue_id, num_gws| {
        bench.call(Command::AllocQueueGws, &mut AllocQueueGwsArgs { queue_id, num_gws, ..Default::default() })
    };
    assert_eq!(give(0, 0), Err(Errno::INVAL));
    assert_eq!(give(0, 64), Ok(()));
    assert_eq!(give(other, 64), Err(Errno(libc::EBUSY)));
    assert_eq!((give(0, 0), give(other, 64)), (Ok(()), Ok(())));
    assert_eq!(give(77, 1), Err(Errno::INVAL));
}
