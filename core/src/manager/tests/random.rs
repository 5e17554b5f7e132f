//! Random verbs with random failures: whatever happens, the books agree with the kernel, and an error changed nothing.

use std::vec;

use proptest::prelude::*;

use super::fake::PERM;
use super::*;
use crate::manager::SharedHandle;

/// One verb; numbers pick among what there is.
#[derive(Clone, Copy, Debug)]
enum Verb {
    Allocate { node: u32, pages: usize, flags: u32, fixed: bool },
    Free(usize),
    Register { at: usize, size: usize },
    ToNodes { at: usize, size: usize, nodes: u8 },
    WithFlags { at: usize, flags: u32 },
    Deregister(usize),
    Map(usize, usize),
    MapNodes(usize, u8),
    Unmap(usize),
    UserData(usize, usize),
    Share(usize),
    Import { aperture: u32, pages: u32, gpu: u32 },
    Export(usize, usize),
    Reopen,
}

fn verb() -> impl Strategy<Value = Verb> {
    let pick = 0usize..64;
    let flags = prop::sample::select(std::vec![
        0x1u32, 0x41, 0x2041, 0x40, 0x2040, 0x4001, 0x4041, 0x4_0001, 0x8_0001, 0x8_0000, 0x20_0041, 0x200, 0x10_0001,
    ]);
    let at = prop::sample::select(std::vec![0usize, 0x10, 0x800, P, P + 0x10, 3 * P]);
    let size = prop::sample::select(std::vec![0usize, 0x20, 0x800, P, 2 * P, 5 * P]);
    prop_oneof![
        6 => (0u32..4, 0usize..40, flags.clone(), prop::bool::weighted(0.1))
            .prop_map(|(node, pages, flags, fixed)| Verb::Allocate { node, pages, flags, fixed }),
        4 => pick.clone().prop_map(Verb::Free),
        4 => (at.clone(), size.clone()).prop_map(|(at, size)| Verb::Register { at, size }),
        2 => (at.clone(), size, 0u8..12).prop_map(|(at, size, nodes)| Verb::ToNodes { at, size, nodes }),
        1 => (at, flags).prop_map(|(at, flags)| Verb::WithFlags { at, flags }),
        4 => pick.clone().prop_map(Verb::Deregister),
        4 => (pick.clone(), 0usize..6).prop_map(|(at, size)| Verb::Map(at, size)),
        4 => (pick.clone(), 0u8..12).prop_map(|(at, nodes)| Verb::MapNodes(at, nodes)),
        4 => pick.clone().prop_map(Verb::Unmap),
        2 => (pick.clone(), 0usize..9).prop_map(|(at, word)| Verb::UserData(at, word)),
        1 => pick.clone().prop_map(Verb::Share),
        1 => (0u32..7, 0u32..4, 0u32..4).prop_map(|(aperture, pages, gpu)| Verb::Import { aperture, pages, gpu }),
        1 => (pick, 0usize..6).prop_map(|(at, size)| Verb::Export(at, size)),
        1 => Just(Verb::Reopen),
    ]
}

/// Node lists by number: short ones in every order, duplicates, a CPU, one that is not there.
fn nodes(number: u8) -> &'static [NodeId] {
    const LISTS: [&[NodeId]; 12] = [
        &[],
        &[G1],
        &[G2],
        &[G1, G2],
        &[G2, G1],
        &[CPU],
        &[G1, G1],
        &[G2, CPU],
        &[NodeId(9)],
        &[G2, G2, G1],
        &[CPU, CPU],
        &[G1],
    ];
    LISTS[usize::from(number) % LISTS.len()]
}

/// An address to try: of an object in any way that names it, of the caller's buffer, of scratch, or of nobody.
fn address(m: &TestManager, pick: usize) -> usize {
    let all = records(m);
    let scratch = m.machine.gpus.iter().filter_map(|gpu| gpu.scratch.as_ref()).next();
    match pick % 8 {
        0 => A + (pick / 8) * 0x10,
        1 => pick / 8 * P,
        2 => scratch.map_or(0, |scratch| scratch.start() + (pick / 8) * P),
        how if !all.is_empty() => {
            let record = all[pick % all.len()].1;
            match how {
                3 | 4 if record.cpu != 0 => record.cpu,
                5 => record.start + 0x10,
                6 => record.start + P,
                _ => record.start,
            }
        }
        _ => 0,
    }
}

/// Runs one verb; whether it succeeded.
fn run(m: &mut TestManager, bench: &Bench, verb: Verb) -> bool {
    match verb {
        Verb::Allocate { node, pages, flags, fixed } => {
            let fixed_flag = if fixed { MemFlags::FIXED_ADDRESS } else { MemFlags::empty() };
            let flags = MemFlags::from_bits_retain(flags) | fixed_flag;
            m.allocate(NodeId(node), pages * P, 0, flags, 0x50_0000_0000 + pages * P).is_ok()
        }
        Verb::Free(pick) => m.free(address(m, pick)).is_ok(),
        Verb::Register { at, size } => m.register(range(A + at, size)).is_ok(),
        Verb::ToNodes { at, size, nodes: list } => m.register_to_nodes(range(A + at, size), nodes(list)).is_ok(),
        Verb::WithFlags { at, flags } => {
            m.register_with_flags(range(A + at, P), MemFlags::from_bits_retain(flags | 0x40)).is_ok()
        }
        Verb::Deregister(pick) => m.deregister(address(m, pick)).is_ok(),
        Verb::Map(pick, pages) => m.map_range(range(address(m, pick), pages * P)).is_ok(),
        Verb::MapNodes(pick, list) => m.map_range_nodes(range(address(m, pick), 0), nodes(list)).is_ok(),
        Verb::Unmap(pick) => m.unmap(address(m, pick)).is_ok(),
        Verb::UserData(pick, word) => m.set_user_data(address(m, pick), word).is_ok(),
        Verb::Share(pick) => m.share(address(m, pick), P).is_ok(),
        Verb::Import { aperture, pages, gpu } => {
            let handle = SharedHandle { share: [7, 7, 7, 1], aperture, index: gpu % 2, pages, gpu: 0x1000 + gpu };
            m.import_shared(handle, None).is_ok()
        }
        Verb::Export(pick, pages) => m.export_dmabuf(address(m, pick), pages * P).is_ok(),
        Verb::Reopen => {
            m.tear_down();
            assert!(m.driver.kernel.bos.is_empty() && m.driver.kernel.reserved.is_empty());
            m.driver.kernel.policies.clear();
            m.show();
            bench.set_up(m).is_ok()
        }
    }
}

fn play(bench: &Bench, svm_error: bool, script: &[(Verb, Option<(usize, usize)>)]) {
    let mut m = bench.start();
    m.driver.svm_error = svm_error.then_some(PERM);
    m.driver.ipc_offset = 0x9000;
    for (verb, failure) in script {
        let before = state(&m);
        // One failure at a time: a map that the kernel refuses by itself (a CPU in the list) gets no second one.
        let refused = matches!(verb, Verb::Map(..) | Verb::MapNodes(..))
            && !bench.apu
            && records(&m).iter().any(|(_, record)| record.registered.ids().contains(&0));
        // An import that the CPU should see, into an aperture it cannot see, is undone by itself.
        let undone = matches!(verb, Verb::Import { aperture: SharedHandle::GPUVM | SharedHandle::MEM_HANDLE, .. });
        let once = failure.filter(|_| !refused && !undone && !matches!(verb, Verb::Reopen));
        m.driver.arm(once.map_or(Fail::Never, |(k, done)| Fail::At(k, done)));
        let succeeded = run(&mut m, bench, *verb);
        m.driver.arm(Fail::Never);
        check(&m);
        m.driver.log.clear();
        if !succeeded {
            assert_same(&before, &state(&m), &std::format!("{verb:?}"));
        }
    }
    m.tear_down();
    assert!(m.driver.kernel.bos.is_empty() && m.driver.kernel.reserved.is_empty() && m.ledger.is_empty());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 192, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn the_books_always_agree_with_the_kernel(
        which in 0usize..5,
        svm_error in any::<bool>(),
        script in prop::collection::vec((verb(), prop::option::weighted(0.3, (1usize..6, 0usize..3))), 1..120),
    ) {
        let bench = [Bench::new(), Bench::reserved(), Bench::apu(true), Bench::apu(false), Bench::svm()][which].clone();
        play(&bench, svm_error, &script);
    }
}
