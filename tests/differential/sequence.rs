//! Random sequences: which calls, on which addresses, in which order, in how many threads.
//!
//! In: what both libraries know. Out: a proptest strategy of [`Sequence`]; its script is what the player reads. The
//! choices are few and close together on purpose: host ranges that nest, overlap, share a start or a page, slots that
//! are allocated again and again, sizes that fit and sizes that do not. Threads that run together use objects and host
//! buffers of their own: whatever the order in which the kernel lets them run, their answers are the same.

use std::ops::Range;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

use super::operation::{Address, Nodes, Operation, flag};

/// A sequence of calls in a fresh process.
#[derive(Clone, Debug)]
pub(crate) struct Sequence {
    /// Environment of the process.
    pub(crate) environment: Vec<(&'static str, &'static str)>,
    /// Whether calls use addresses of objects that are gone.
    pub(crate) dangling: bool,
    /// Opened and with a topology before the first call.
    pub(crate) ready: bool,
    /// One thread.
    pub(crate) before: Vec<Operation>,
    /// Threads 1, 2, 3 at the same time.
    pub(crate) together: [Vec<Operation>; 3],
    /// One thread again, which meets what the three left.
    pub(crate) after: Vec<Operation>,
    /// A last close, and what is left then.
    pub(crate) end: Vec<Operation>,
}

impl Sequence {
    /// The calls in the order in which the player prints their answers, each with its thread.
    pub(crate) fn calls(&self) -> Vec<String> {
        let start = [Operation::Open, Operation::Acquire];
        let start = start.iter().filter(|_| self.ready);
        let one = |operations: Vec<&Operation>, thread: usize| -> Vec<String> {
            operations.iter().map(|operation| format!("{thread} {operation}")).collect()
        };
        let mut calls = one(start.chain(&self.before).collect(), 0);
        for (operations, thread) in self.together.iter().zip(1..) {
            calls.extend(one(operations.iter().collect(), thread));
        }
        calls.extend(one(self.after.iter().chain(&self.end).collect(), 0));
        calls
    }

    /// What the player reads.
    pub(crate) fn script(&self) -> String {
        let mut lines: Vec<String> =
            self.environment.iter().map(|(name, value)| format!("env {name}={value}")).collect();
        lines.extend(self.dangling.then(|| "dangling".to_owned()));
        // A reserved aperture is filled in a fixed order: there, places are compared too.
        let reserved = self.environment.contains(&("HSA_RESERVE_SVM", "1"));
        lines.extend((reserved && self.parallel() == 0).then(|| "placed".to_owned()));
        let calls = self.calls();
        let first = if self.ready { 2 } else { 0 } + self.before.len();
        let last = first + self.parallel();
        lines.extend_from_slice(&calls[..first]);
        if first < last {
            lines.push("together".into());
            lines.extend_from_slice(&calls[first..last]);
            lines.push("apart".into());
        }
        lines.extend_from_slice(&calls[last..]);
        lines.push("end\n".into());
        lines.join("\n")
    }

    fn parallel(&self) -> usize {
        self.together.iter().map(Vec::len).sum()
    }
}

/// What sequences are made of.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scope {
    /// Beyond what 5.2.3 has: addresses without memory and memory without addresses, dmabufs, alignment.
    pub(crate) newer: bool,
    /// Nodes of the machine.
    pub(crate) nodes: u32,
}

/// What the calls of one thread may touch.
#[derive(Clone, Copy, Debug)]
struct View {
    scope: Scope,
    /// Whose objects.
    threads: &'static [u8],
    hosts: &'static [u8],
}

impl View {
    /// Whether no other thread is at work, so that what belongs to the process may be touched.
    fn alone(&self) -> bool {
        self.threads.len() > 1
    }
}

const ALONE: (&[u8], &[u8]) = (&[0, 0, 0, 1, 2, 3], &[0, 0, 0, 0, 1, 2, 3, 4, 7]);
const TOGETHER: [(&[u8], &[u8]); 3] = [(&[1], &[1, 5]), (&[2], &[2, 6]), (&[3], &[3, 7])];

/// Sequences with this environment.
pub(crate) fn sequences(
    scope: Scope,
    environment: &'static [(&'static str, &'static str)],
) -> impl Strategy<Value = Sequence> {
    let view = move |(threads, hosts): (&'static [u8], &'static [u8])| View { scope, threads, hosts };
    let calls = move |of, count: Range<usize>| vec(operation(view(of)), count);
    let [one, two, three] = TOGETHER;
    let together = prop_oneof![
        3 => Just([vec![], vec![], vec![]]),
        1 => (calls(one, 1..8), calls(two, 1..8), calls(three, 1..8)).prop_map(|(one, two, three)| [one, two, three]),
    ];
    let end = prop_oneof![
        4 => Just(vec![]),
        1 => vec(query(view(ALONE)), 1..3).prop_map(|mut calls| {
            calls.insert(0, Operation::Close);
            calls
        }),
    ];
    let ready = prop::bool::weighted(0.95);
    let parts = (any::<bool>(), ready, calls(ALONE, 1..36), together, calls(ALONE, 0..12), end);
    parts.prop_map(move |(dangling, ready, before, together, after, end)| Sequence {
        environment: environment.to_vec(),
        dangling,
        ready,
        before,
        // Who opens first is for the kernel to say.
        together: if ready { together } else { Default::default() },
        after,
        end,
    })
}

// ---- Arguments -----------------------------------------------------------------------------------------------------

/// Ranges of a host buffer that nest, overlap, share a start, share a page.
const RANGES: &[(u64, u64)] = &[
    (0, 0x1000),
    (0, 0x2000),
    (0x123, 0x100),
    (0x123, 0x1000),
    (0x1000, 0x1000),
    (0, 0x8000),
    (0x800, 0x10),
    (0x1000, 0x3000),
    (0x2ff0, 0x20),
    (0xf000, 0x1000),
];

fn range() -> impl Strategy<Value = (u64, u64)> {
    let odd_offset =
        (0u64..16, select(&[0u64, 0x10, 0x123, 0x800, 0xff0][..])).prop_map(|(page, more)| page * 0x1000 + more);
    let odd_size = select(&[0u64, 1, 0x10, 0x100, 0xfff, 0x1000, 0x1001, 0x2000, 0x3000, 0x8000, 0x10000, 0x18000][..]);
    prop_oneof![8 => select(RANGES), 2 => (odd_offset, odd_size)]
}

/// An address and the size that goes with it there.
fn place(view: View) -> impl Strategy<Value = (Address, u64)> {
    let host = (select(view.hosts), range()).prop_map(|(buffer, (offset, size))| (Address::Host(buffer, offset), size));
    let sizes = select(&[0x1000u64, 0x2000, 0x4000, 0, 0x200000][..]);
    let object = (object(view), sizes);
    let gpu = (select(view.hosts), range(), select(&[0u64, 0, 0, 1, 0x1000][..]), select(&[0u64, 0x100, 0x1000][..]))
        .prop_map(|(buffer, (offset, _), more, size)| (Address::Gpu(buffer, offset, more), size));
    let wild = (wild(), select(&[0x1000u64, 0, 0x10, u64::MAX][..]));
    prop_oneof![8 => host, 8 => object, 1 => gpu, 1 => wild]
}

fn object(view: View) -> impl Strategy<Value = Address> {
    let offset = prop_oneof![
        6 => Just(0i64),
        2 => select(&[1i64, 0x10, 0x800, 0xfff][..]),
        1 => select(&[0x1000i64, 0x1010, 0x3fff, 0x4000, 0x1fffff][..]),
    ];
    (select(view.threads), 0u8..5, offset).prop_map(|(thread, slot, offset)| Address::Object(thread, slot, offset))
}

fn wild() -> impl Strategy<Value = Address> {
    let wild = &[0x1000u64, 0x10000, 0x7fff_ffff_f000, 0x8000_0000_0000, 0x1_0000_0000_0000, u64::MAX][..];
    prop_oneof![1 => Just(Address::Null), 2 => select(wild).prop_map(Address::Wild)]
}

fn address(view: View) -> impl Strategy<Value = Address> {
    place(view).prop_map(|(address, _)| address)
}

fn nodes(scope: Scope) -> impl Strategy<Value = Nodes> {
    let gpus: Vec<u32> = (1..scope.nodes.max(2)).collect();
    prop_oneof![
        12 => vec(select(gpus), 1..3).prop_map(Nodes::These),
        1 => vec(0..scope.nodes + 2, 0..4).prop_map(Nodes::These),
        1 => Just(Nodes::NullArray),
    ]
}

// ---- Calls ---------------------------------------------------------------------------------------------------------

fn operation(view: View) -> impl Strategy<Value = Operation> {
    let nodes = || nodes(view.scope);
    let memory = prop_oneof![
        6 => allocate(view),
        6 => (place(view)).prop_map(|(address, size)| Operation::Register(address, size)),
        2 => (place(view), nodes()).prop_map(|((address, size), nodes)| Operation::RegisterToNodes(address, size, nodes)),
        1 => (place(view), register_flags(view.scope)).prop_map(|((address, size), flags)| Operation::RegisterWithFlags(address, size, flags)),
        4 => address(view).prop_map(Operation::Deregister),
        4 => place(view).prop_map(|(address, size)| Operation::Map(address, size)),
        4 => (place(view), nodes()).prop_map(|((address, size), nodes)| Operation::MapToNodes(address, size, nodes)),
        4 => address(view).prop_map(Operation::Unmap),
        3 => place(view).prop_map(|(address, size)| Operation::Free(address, size)),
        // Whoever comes first: one object, and as many registrations as there were calls.
        u32::from(!view.alone()) => select(RANGES).prop_map(|(offset, size)| Operation::Register(Address::Host(4, offset), size)),
    ];
    let ask = prop_oneof![
        8 => query(view),
        3 => (address(view), 0u64..5).prop_map(|(address, value)| Operation::UserData(address, value)),
    ];
    prop_oneof![
        36 => memory,
        14 => ask,
        2 => sharing(view),
        2 => svm(view),
        2 => rare(view),
    ]
}

fn query(view: View) -> impl Strategy<Value = Operation> {
    let edge = (object(view), select(&[-1i64, -0x1000, 0x1000, 0x4000, 0x200000][..]));
    let edge = edge.prop_map(|(address, offset)| match address {
        Address::Object(thread, slot, _) => Address::Object(thread, slot, offset),
        other => other,
    });
    prop_oneof![6 => address(view), 1 => edge].prop_map(Operation::Query)
}

fn allocate(view: View) -> impl Strategy<Value = Operation> {
    let newer = view.scope.newer;
    // Scratch is one for a GPU, and a fixed address one for all.
    let process = if view.alone() { 1 } else { 0 };
    let pages = select(&[0x1000u64, 0x1000, 0x2000, 0x4000, 0x200000, 0x203000][..]);
    let odd = select(&[0u64, 100, 0x1001, 1 << 40, 1 << 46, !0xfff][..]);
    // A huge one that fails leaves traces in the older library that other threads would meet.
    let size = prop_oneof![16 => pages, process => odd];
    let base = prop_oneof![
        6 => Just(flag::NON_PAGED),
        3 => Just(flag::NON_PAGED | flag::HOST_ACCESS),
        3 => Just(flag::HOST_ACCESS),
        1 => Just(0),
        1 => Just(flag::HOST_ACCESS | flag::AQL),
        1 => Just(flag::NON_PAGED | flag::AQL),
        process => Just(flag::SCRATCH),
    ];
    let mut more = vec![
        0,
        0,
        0,
        0,
        flag::COARSE,
        flag::COARSE,
        flag::READ_ONLY,
        flag::EXECUTE,
        flag::UNCACHED,
        flag::NO_SUBSTITUTE,
        flag::PAGE_64K,
    ];
    if newer {
        more.extend([
            flag::NO_ADDRESS,
            flag::ONLY_ADDRESS,
            flag::EXTENDED,
            flag::GTT,
            flag::CONTIGUOUS,
            flag::EXTENDED | flag::COARSE,
            flag::NO_ADDRESS | flag::ONLY_ADDRESS,
        ]);
    }
    let alignments = if newer { &[0u64, 0, 0, 0, 0x1000, 0x10000, 0x400000, 0x1800, 8][..] } else { &[0u64][..] };
    let node = prop_oneof![12 => 0..view.scope.nodes, 1 => Just(9u32)];
    let fixed = prop_oneof![
        // 5.2.3 refuses nearly all of the others.
        if newer { 12 } else { 60 } => Just(None),
        process => (0u64..4).prop_map(|at| Some(Address::Wild(0x5000_0000_0000 + at * 0x1000))),
        1 => object(view).prop_map(Some),
    ];
    (0u8..5, node, size, base, select(more), select(alignments), fixed).prop_map(
        |(slot, node, size, base, more, alignment, fixed)| {
            let fixed_bit = if fixed.is_some() { flag::FIXED } else { 0 };
            Operation::Allocate {
                slot,
                node,
                size,
                flags: base | more | fixed_bit,
                alignment,
                fixed: fixed.unwrap_or(Address::Null),
            }
        },
    )
}

fn register_flags(scope: Scope) -> impl Strategy<Value = u32> {
    let mut flags =
        vec![flag::HOST_ACCESS, flag::HOST_ACCESS | flag::COARSE, flag::COARSE, flag::HOST_ACCESS | flag::NON_PAGED];
    if scope.newer {
        flags.extend([flag::HOST_ACCESS | flag::EXTENDED, flag::HOST_ACCESS | flag::EXTENDED | flag::COARSE]);
    }
    select(flags)
}

fn sharing(view: View) -> BoxedStrategy<Operation> {
    let nodes = || nodes(view.scope);
    let share = (0u8..3, place(view)).prop_map(|(handle, (address, size))| Operation::Share(handle, address, size));
    let import = (0u8..5, 0u8..3, prop::option::of(nodes()))
        .prop_map(|(slot, handle, nodes)| Operation::Import(slot, handle, nodes));
    let shared = prop_oneof![share, import];
    if !view.scope.newer {
        return shared.boxed();
    }
    let import = prop::option::of((0u8..5, prop_oneof![nodes(), Just(Nodes::These(vec![]))]));
    let export =
        (place(view), import).prop_map(|((address, size), import)| Operation::Export { address, size, import });
    prop_oneof![2 => shared, 1 => export].boxed()
}

/// Kinds: 0 preferred, 1 prefetch, 2 access, 3 in place, 4 none, 5 set flags, 6 clear flags, 7 granularity.
fn svm(view: View) -> impl Strategy<Value = Operation> {
    let value = prop_oneof![4 => 0..view.scope.nodes + 1, 1 => Just(u32::MAX), 1 => Just(9u32)];
    let list = || vec((0u32..8, value.clone()), 0..4);
    let pages = (select(view.hosts), 0u64..16, 0u64..5)
        .prop_map(|(buffer, page, size)| (Address::Host(buffer, page * 0x1000), size * 0x1000));
    let range = || prop_oneof![4 => pages.clone(), 1 => place(view)];
    let xnack = if view.alone() { 1 } else { 0 };
    prop_oneof![
        2 => (range(), list()).prop_map(|((address, size), list)| Operation::SvmSet(address, size, list)),
        2 => (range(), list()).prop_map(|((address, size), list)| Operation::SvmGet(address, size, list)),
        xnack => (0i32..2).prop_map(Operation::XnackSet),
        xnack => Just(Operation::XnackGet),
    ]
}

fn rare(view: View) -> BoxedStrategy<Operation> {
    let node = 0..view.scope.nodes + 1;
    // Threads together leave the life cycle to the one before and after them: its counts are the process's.
    let anywhere = prop_oneof![
        2 => address(view).prop_map(Operation::QueryNull),
        1 => Just(Operation::Version),
        2 => node.clone().prop_map(Operation::Node),
        2 => (node.clone(), 0u32..4).prop_map(|(node, count)| Operation::Banks(node, count)),
        2 => (node.clone(), 0u32..4).prop_map(|(node, count)| Operation::Links(node, count)),
        1 => node.clone().prop_map(Operation::Tile),
        2 => Just(Operation::OpenClose),
    ];
    if !view.alone() {
        return anywhere.boxed();
    }
    let life = prop_oneof![
        2 => address(view).prop_map(Operation::Fork),
        2 => Just(Operation::Open),
        1 => Just(Operation::Close),
        2 => Just(Operation::Acquire),
        1 => Just(Operation::AcquireNull),
        1 => Just(Operation::Release),
    ];
    let newer = if view.scope.newer { 1 } else { 0 };
    prop_oneof![4 => anywhere, 4 => life, newer => node.prop_map(Operation::Available)].boxed()
}
