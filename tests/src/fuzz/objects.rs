//! The core's objects API beside its reference model: insert, remove, change, lay out anew, close; and query.
//!
//! In: bytes, of which the first choose a domain, a kind of address index and a page size, and the rest is steps. After each step the addresses at
//! the edges of what it touched and some chosen by the bytes are asked, in each way there is to ask; from time to time
//! all edges. Meanwhile another reader holds a snapshot, which must say to the end what it said at first.

use std::ptr::NonNull;

use hsakmt_core::address::{Bounds, PageSize};
use hsakmt_core::aperture::{Aperture, Layout};
use hsakmt_core::epoch::Domain;
use hsakmt_core::epoch::slots::{Fences, Slots};
use hsakmt_core::error::Error;
use hsakmt_core::flags::MemFlags;
use hsakmt_core::info::{PointerInfo, PointerType};
use hsakmt_core::node::NodeId;
use hsakmt_core::objects::Object;
use hsakmt_core::pool::{Heap, Memory};
use hsakmt_core::reader::Reader;
use hsakmt_core::registry::{MAX_LIST, Registry, Writer};
use hsakmt_core::snapshot::Snapshot;

use super::input::Input;
use super::twin::{Facts, Known, Twin, apertures, edges_of};

/// Steps of one run at most.
const MOST_STEPS: usize = 1500;

/// Objects at most: the twin is slow.
const MOST_OBJECTS: usize = 150;

/// Steps under one held snapshot: fewer than make a writer wait for it.
const HELD: usize = 40;

/// Where objects lie: each of these and some pages more.
const PLACES: [usize; 6] = [0x10_0000, 0x20_0000, 0x8_0000, 1 << 47, 0, usize::MAX - 0x3_ffff];

/// Where userptrs lie: in the larger SVMs and in all but the smallest; nowhere; among the objects; at the end.
const HOSTS: [usize; 4] = [0x3000_0000, 0x9000_0000_0000, 0x11_0000, usize::MAX - 0x8000];

/// Runs these bytes.
pub fn run(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    match input.below(3) {
        0 => play(Registry::new(), Heap, &mut input),
        1 => play(Registry::with_domain(Slots::<4, Fences>::new(Fences)), Heap, &mut input),
        _ => play(Registry::with_domain(Slots::<4, Fences>::new(Fences)), Scarce, &mut input),
    }
}

/// The heap, as if it were small: objects stand in B+ trees.
struct Scarce;

// SAFETY: `Heap`'s.
unsafe impl Memory for Scarce {
    const SCARCE: bool = true;

    fn take(&mut self, layout: std::alloc::Layout) -> Option<NonNull<u8>> {
        Heap.take(layout)
    }

    unsafe fn give(&mut self, block: NonNull<u8>, layout: std::alloc::Layout) {
        // SAFETY: by contract.
        unsafe { Heap.give(block, layout) }
    }
}

/// A registry and its twin.
struct Pair<'r, D: Domain + 'r, M: Memory> {
    writer: Writer<'r, D, M>,
    twin: Twin,
    open: bool,
}

fn play<D: Domain, M: Memory>(mut registry: Registry<D>, memory: M, input: &mut Input<'_>) {
    let page = PageSize::new(input.pick(&[0x1000, 0x1_0000])).expect("a power of two");
    let (writer, readers) = registry.split(page, memory).expect("memory");
    let (mut reader, mut holder) = (readers.reader().expect("a place"), readers.reader().expect("a place"));
    let twin = Twin { layout: Layout::empty(page), objects: Vec::new() };
    let mut pair = Pair { writer, twin, open: true };
    pair.lay_out(input);
    let mut steps = 0;
    while input.more() && steps < MOST_STEPS {
        let mut session = holder.session();
        let held = session.snapshot().ok();
        let (edges, first) = (pair.twin.edges(), held.as_ref().map(|held| answers(held, &pair.twin.edges())));
        for _ in 0..=input.below(HELD) {
            let mut asked = pair.step(input);
            asked.extend([input.hostile(), input.pick(&PLACES) + input.below(0x2_0000)]);
            pair.compare(&mut reader, &asked);
            steps += 1;
        }
        assert_eq!(held.as_ref().map(|held| answers(held, &edges)), first, "a held snapshot has changed");
        drop(session);
        if input.once_in(4) {
            pair.churn(input);
        }
        let edges = pair.twin.edges();
        pair.compare(&mut reader, &edges);
    }
    pair.writer.clear_objects().expect("all can be taken away");
    assert_eq!(pair.writer.snapshot().iter().count(), 0);
}

/// All that a snapshot says.
fn answers(snapshot: &Snapshot, addresses: &[usize]) -> (Vec<Facts>, Vec<Facts>) {
    let here = addresses.iter().map(|address| Facts::of(&snapshot.query_pointer(*address)));
    (snapshot.iter().map(|info| Facts::of(&info)).collect(), here.collect())
}

impl<'r, D: Domain + 'r, M: Memory> Pair<'r, D, M> {
    /// One edit, on both sides; the addresses that are worth asking after it.
    fn step(&mut self, input: &mut Input<'_>) -> Vec<usize> {
        match input.below(20) {
            0..8 => self.insert(input),
            8..11 => self.remove(input),
            11..14 => self.set_user_data(input),
            14..16 => self.set_nodes(input, true),
            16..18 => self.set_nodes(input, false),
            18 => self.lay_out(input),
            _ => self.close_open_or_clear(input),
        }
    }

    fn page(&self) -> usize {
        self.twin.layout.page.bytes()
    }

    fn insert(&mut self, input: &mut Input<'_>) -> Vec<usize> {
        if self.twin.objects.len() >= MOST_OBJECTS {
            return self.remove(input);
        }
        let page = self.page();
        let aperture = aperture(input);
        let start = input.pick(&PLACES).wrapping_add(page * input.below(48));
        let kind = input.pick(&[
            PointerType::RegisteredUser,
            PointerType::Allocated,
            PointerType::RegisteredUser,
            PointerType::RegisteredGraphics,
            PointerType::RegisteredShared,
            PointerType::ReservedAddress,
            PointerType::Unknown,
        ]);
        let (cpu, size) = if kind == PointerType::RegisteredUser {
            let size = [1, 16, page, 3 * page, input.below(0x4000)];
            (input.pick(&HOSTS) + input.below(0x4000), input.pick(&size))
        } else {
            (start, page * input.below(5))
        };
        let strange = input.once_in(16);
        let (start, size) = if strange { (input.hostile(), input.hostile()) } else { (start, size) };
        let (registered, mapped) = (nodes(input), nodes(input));
        let object = Object {
            kind,
            start,
            size,
            cpu,
            node: NodeId(input.below(9) as u32),
            flags: MemFlags::from_bits_retain(input.below(1 << 24) as u32),
            user_data: input.below(3),
            registered: &registered,
            mapped: &mapped,
        };
        let known = Known::new(aperture, &object);
        let done = self.writer.insert_object(aperture, &object);
        let (refused, too_long) = (self.twin.refuses(&known), registered.len().max(mapped.len()) > MAX_LIST);
        let fits = match done {
            Ok(()) => !refused && !too_long,
            // Of two reasons either is told.
            Err(Error::InvalidParameter) => refused,
            Err(Error::NoMemory) => too_long,
            Err(_) => false,
        };
        assert!(fits, "{done:?}, {refused}, {too_long}: {aperture:?} {object:x?}");
        let edges = edges_of(&known, page).to_vec();
        if done.is_ok() {
            self.twin.objects.push(known);
        }
        edges
    }

    /// An object that is there, mostly.
    fn place(&self, input: &mut Input<'_>) -> (Aperture, usize) {
        let count = self.twin.objects.len();
        if count == 0 || input.once_in(8) {
            return (aperture(input), input.pick(&PLACES).wrapping_add(self.page() / 2 * input.below(48)));
        }
        let known = &self.twin.objects[input.below(count)];
        (known.aperture, known.start)
    }

    fn remove(&mut self, input: &mut Input<'_>) -> Vec<usize> {
        let (aperture, start) = self.place(input);
        let position = self.twin.starting(aperture, start);
        let expected = if position.is_some() { Ok(()) } else { Err(Error::NotRegistered) };
        assert_eq!(self.writer.remove_object(aperture, start), expected, "{aperture:?} {start:#x}");
        position.map_or(vec![start], |position| {
            let known = self.twin.objects.swap_remove(position);
            edges_of(&known, self.page()).to_vec()
        })
    }

    fn set_user_data(&mut self, input: &mut Input<'_>) -> Vec<usize> {
        let (aperture, start) = self.place(input);
        let cpu = self.twin.starting(aperture, start).map_or(start, |position| self.twin.objects[position].cpu);
        let address = input.pick(&[cpu, start, start.wrapping_add(cpu % self.page()), cpu.wrapping_add(1)]);
        let position = self.twin.exact(address);
        let expected = if position.is_some() { Ok(()) } else { Err(Error::NotRegistered) };
        let word = input.below(1 << 16);
        assert_eq!(self.writer.set_user_data(address, word), expected, "{address:#x}");
        if let Some(position) = position {
            self.twin.objects[position].user_data = word;
        }
        vec![address, start, cpu]
    }

    fn set_nodes(&mut self, input: &mut Input<'_>, mapped: bool) -> Vec<usize> {
        let (aperture, start) = self.place(input);
        let nodes = nodes(input);
        let position = self.twin.starting(aperture, start);
        let expected = match position {
            None => Err(Error::NotRegistered),
            Some(_) if nodes.len() > MAX_LIST => Err(Error::NoMemory),
            Some(_) => Ok(()),
        };
        let done = if mapped {
            self.writer.set_mapped(aperture, start, &nodes)
        } else {
            self.writer.set_registered(aperture, start, &nodes)
        };
        assert_eq!(done, expected, "{aperture:?} {start:#x}, {} nodes", nodes.len());
        if let (Some(position), Ok(())) = (position, done) {
            let known = &mut self.twin.objects[position];
            *(if mapped { &mut known.mapped } else { &mut known.registered }) = nodes;
        }
        vec![start]
    }

    /// Other bounds: some objects are then looked for where they are not.
    fn lay_out(&mut self, input: &mut Input<'_>) -> Vec<usize> {
        let mut layout = Layout::empty(self.twin.layout.page);
        let svms = [
            Bounds::new(0x10_0000, 0x7fff_ffff_ffff),
            Bounds::new(0x10_0000, 0x1f_ffff),
            Bounds::EMPTY,
            Bounds::new(0, usize::MAX),
        ];
        layout.svm = input.pick(&svms);
        layout.svm_alt = input.pick(&[Bounds::EMPTY, Bounds::new(0x8_0000, 0xf_ffff)]);
        if layout.svm.limit != usize::MAX {
            layout.mem_handle = input.pick(&[Bounds::new(1 << 47, 1 << 48), Bounds::EMPTY]);
        }
        (layout.mmap, layout.dgpu) = (input.below(2) == 0, input.below(3) != 2);
        layout.gpuvm_count = input.pick(&[0, 0, 0, 1, 2, 8]);
        for bounds in &mut layout.gpuvm[..usize::from(layout.gpuvm_count)] {
            let base = input.pick(&PLACES);
            *bounds = Bounds::new(base, base.saturating_add(0x1_0000 * input.below(40)));
        }
        if input.once_in(8) {
            layout.page = PageSize::new(input.pick(&[0x1000, 0x1_0000])).expect("a power of two");
        }
        let userptrs = self.twin.objects.iter().any(Known::is_userptr);
        let refused = userptrs && layout.page != self.twin.layout.page;
        let expected = if refused { Err(Error::InvalidParameter) } else { Ok(()) };
        assert_eq!(self.writer.set_layout(layout), expected, "{layout:?}");
        if !refused {
            self.twin.layout = layout;
        }
        self.twin.edges()
    }

    fn close_open_or_clear(&mut self, input: &mut Input<'_>) -> Vec<usize> {
        if input.once_in(4) {
            self.writer.clear_objects().expect("all can be taken away");
            self.twin.objects.clear();
            // Clearing forgets the bounds too.
            self.twin.layout = Layout::empty(self.twin.layout.page);
            return self.lay_out(input);
        }
        if self.open {
            self.writer.close()
        } else {
            self.writer.open()
        }
        self.open = !self.open;
        Vec::new()
    }

    /// Enough edits for memory to come back and be used again.
    fn churn(&mut self, input: &mut Input<'_>) {
        let (aperture, start) = self.place(input);
        let Some(position) = self.twin.starting(aperture, start) else { return };
        for turn in 0..input.below(700) as u32 {
            let nodes = vec![NodeId(turn % 5); 1 + turn as usize % 3];
            self.writer.set_mapped(aperture, start, &nodes).expect("memory");
            self.twin.objects[position].mapped = nodes;
        }
    }

    /// Both sides are asked.
    fn compare(&self, reader: &mut Reader<'_, D>, addresses: &[usize]) {
        let mut session = reader.session();
        for address in addresses {
            let found = session.query_pointer(*address).map(|info| Facts::of(&info));
            let expected = self.twin.query(*address).unwrap_or_else(|| Facts::of(&PointerInfo::UNKNOWN));
            let expected = if self.open { Ok(expected) } else { Err(Error::NotOpened) };
            assert_eq!(found, expected, "at {address:#x}");
        }
        let mut many = vec![PointerInfo::UNKNOWN; addresses.len()];
        assert_eq!(session.query_many(addresses, &mut many).is_ok(), self.open);
        let snapshot = self.writer.snapshot();
        let mut together = vec![PointerInfo::UNKNOWN; addresses.len()];
        snapshot.query_many(addresses, &mut together);
        for (address, info) in addresses.iter().zip(&together) {
            let walked = snapshot.find_pointer(*address).map(|info| Facts::of(&info));
            assert_eq!(walked, self.twin.query(*address), "the writer's, at {address:#x}");
            let walked = walked.unwrap_or_else(|| Facts::of(&PointerInfo::UNKNOWN));
            assert_eq!(Facts::of(info), walked, "one of many, at {address:#x}");
        }
        if self.open {
            let asked: Vec<Facts> = many.iter().map(Facts::of).collect();
            assert_eq!(asked, together.iter().map(Facts::of).collect::<Vec<_>>());
        }
        let all: Vec<Facts> = snapshot.iter().map(|info| Facts::of(&info)).collect();
        assert_eq!(all, self.twin.all());
    }
}

fn aperture(input: &mut Input<'_>) -> Aperture {
    let position = input.below(24);
    apertures().nth(position).unwrap_or(Aperture::Svm)
}

/// A list of nodes: mostly short, at times longer than pools have rows for, or than any may be.
fn nodes(input: &mut Input<'_>) -> Vec<NodeId> {
    let len = match input.below(32) {
        29 => 20 + input.below(4),
        30 => 100,
        31 if input.once_in(8) => MAX_LIST + 1,
        few => few % 4,
    };
    let first = input.below(4) as u32;
    (0..len as u32).map(|position| NodeId((first + position) % 5)).collect()
}
