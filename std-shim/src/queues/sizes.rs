//! How large a queue's buffers are: pure functions of the GPU's version and its node's properties.
//!
//! Versions are `major << 16 | minor << 8 | stepping`. What never happens: a division by a property that is 0, or a sum that
//! wraps.

use hsakmt_kfd::topology::{Node, vgpr_size_per_cu};

use super::QueueType;

const CARRIZO: u32 = 0x8_0001;
const TONGA: u32 = 0x8_0002;
const GFX9: u32 = 0x9_0000;
const GFX94X: u32 = 0x9_0400;
const GFX10_1: u32 = 0xa_0100;

/// Bytes that one compute unit saves of scalar registers and of hardware registers.
const SCALARS_PER_CU: u64 = 0x4000;
const HARDWARE_PER_CU: u64 = 0x1000;
/// Bytes of debugger memory of a wave, and what their sum is a multiple of.
const DEBUGGER_PER_WAVE: u64 = 32;
const DEBUGGER_ALIGN: u64 = 64;
/// Bytes of the header that every context save area starts with.
pub(super) const HEADER: u64 = 40;

fn is_gfx94x(version: u32) -> bool {
    version & !0xff == GFX94X
}

/// Bytes of the end-of-pipe buffer; 0 for none.
pub(super) fn end_of_pipe(version: u32, kind: QueueType) -> u32 {
    match kind {
        QueueType::Sdma | QueueType::SdmaXgmi => 0,
        _ if version == TONGA => 0x8000,
        QueueType::Compute if is_gfx94x(version) => 4096,
        _ if is_gfx94x(version) => 0,
        _ if version >= 0x8_0000 => 4096,
        _ => 0,
    }
}

/// The context save area of a queue: one piece for each XCC, then debugger memory of all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SaveArea {
    /// Bytes of control stack in a piece, header included.
    pub(super) stack: u32,
    /// Bytes of a piece.
    pub(super) piece: u32,
    /// Bytes of debugger memory for each XCC.
    pub(super) debugger: u32,
    /// How many pieces.
    pub(super) pieces: u32,
    /// Bytes of all.
    pub(super) total: u32,
}

/// The context save area of a queue on this node; `None` for a GPU that saves no waves, and for one whose area would not
/// fit into 32 bits.
pub(super) fn save_area(node: &Node, page: usize) -> Option<SaveArea> {
    let page = page as u64;
    let version = node.engine_id.gfx_version();
    if version < CARRIZO || node.num_f_compute_cores == 0 {
        return None;
    }
    let pieces = node.num_xcc.max(1);
    let units = node.num_f_compute_cores.checked_div(node.num_simd_per_cu)? / pieces;
    let units = u64::from(units);
    let waves = if version >= GFX10_1 {
        units * 32
    } else {
        // A node without arrays has no bound of them.
        let arrays = node.num_shader_banks.checked_div(node.num_arrays);
        arrays.map_or(units * 40, |arrays| (units * 40).min(u64::from(arrays) * 512))
    };
    let stack = waves * if version >= GFX10_1 { 12 } else { 8 } + 8;
    let stack = (HEADER + stack).next_multiple_of(page);
    // The hardware of gfx10 has no larger stack; AQL queues never need one.
    let stack = if version & 0x3f_0000 == 0xa_0000 { stack.min(0x7000) } else { stack };
    let lds = u64::from(node.lds_size_in_kb) << 10;
    let unit = u64::from(vgpr_size_per_cu(version)) + SCALARS_PER_CU + lds + HARDWARE_PER_CU;
    let piece = stack + units.checked_mul(unit)?.checked_next_multiple_of(page)?;
    let debugger = (waves * DEBUGGER_PER_WAVE).next_multiple_of(DEBUGGER_ALIGN);
    let total = piece.checked_add(debugger)?.checked_mul(u64::from(pieces))?;
    Some(SaveArea {
        stack: stack.try_into().ok()?,
        piece: piece.try_into().ok()?,
        debugger: debugger.try_into().ok()?,
        pieces,
        total: total.try_into().ok()?,
    })
}

/// Bytes of one doorbell.
pub(super) fn doorbell(version: u32) -> u64 {
    if version >= GFX9 { 8 } else { 4 }
}

/// Bytes of a process's doorbells on one GPU.
pub(super) fn doorbells(version: u32, page: usize) -> usize {
    (1024 * doorbell(version) as usize).max(page)
}

/// Where a queue's doorbell is: the offset in the device's file at which the doorbells start, and the byte in them.
pub(super) fn doorbell_place(version: u32, offset: u64, queue: u32) -> (u64, u64) {
    if version >= GFX9 {
        let mask = 1024 * doorbell(version) - 1;
        (offset & !mask, offset & mask)
    } else {
        (offset, u64::from(queue) * doorbell(version))
    }
}

/// Whether the doorbells of a discrete GPU can be an object of its address space: not of a Tonga, which cannot map them.
pub(super) fn doorbells_are_objects(version: u32) -> bool {
    version != TONGA
}

#[cfg(test)]
mod tests {
    use hsakmt_kfd::topology::EngineId;

    use super::*;

    const GFX90A: u32 = 0x9_000a;
    const GFX950: u32 = 0x9_0500;

    /// `version, SIMDs, SIMDs per CU, XCCs, shader banks, arrays, KiB of LDS`
    type Facts = (u32, u32, u32, u32, u32, u32, u32);

    fn node((version, simds, per_cu, xcc, banks, arrays, lds): Facts) -> Node {
        let [_, major, minor, stepping] = version.to_be_bytes();
        Node {
            engine_id: EngineId { major, minor, stepping, ..EngineId::default() },
            num_f_compute_cores: simds,
            num_simd_per_cu: per_cu,
            num_xcc: xcc,
            num_shader_banks: banks,
            num_arrays: arrays,
            lds_size_in_kb: lds,
            ..Node::default()
        }
    }

    /// What the C library of 2025-08 computes: facts, then stack, piece, debugger memory of an XCC, and all.
    #[rustfmt::skip]
    const AREAS: &[(Facts, u32, u32, u32, u32)] = &[
        ((0x80001, 32, 4, 1, 1, 1, 64), 0x1000, 0x2a9000, 0x2800, 0x2ab800),
        ((0x80003, 256, 4, 1, 4, 1, 64), 0x5000, 0x1545000, 0x10000, 0x1555000),
        ((0x90000, 256, 4, 1, 4, 1, 64), 0x5000, 0x1545000, 0x10000, 0x1555000),
        ((0x90006, 240, 4, 1, 4, 1, 64), 0x5000, 0x13f1000, 0x10000, 0x1401000),
        ((0x90008, 480, 4, 1, 8, 1, 64), 0x9000, 0x45e1000, 0x20000, 0x4601000),
        ((0x9000a, 440, 4, 1, 8, 1, 64), 0x9000, 0x400f000, 0x20000, 0x402f000),
        ((0x90402, 1216, 4, 8, 32, 1, 64), 0x3000, 0x1621000, 0xbe00, 0xb167000),
        ((0x90402, 912, 4, 6, 24, 1, 64), 0x3000, 0x1621000, 0xbe00, 0x850d400),
        ((0x90500, 1024, 4, 8, 32, 1, 160), 0x3000, 0x15a3000, 0xa000, 0xad68000),
        ((0xa0100, 80, 2, 1, 4, 2, 64), 0x4000, 0xd4c000, 0xa000, 0xd56000),
        ((0xa0300, 160, 2, 1, 8, 2, 64), 0x7000, 0x1a97000, 0x14000, 0x1aab000),
        ((0xa0305, 24, 2, 1, 2, 2, 64), 0x2000, 0x3fe000, 0x3000, 0x401000),
        ((0xa0303, 512, 2, 1, 8, 2, 64), 0x7000, 0x5507000, 0x40000, 0x5547000),
        ((0xb0000, 192, 2, 1, 12, 2, 64), 0xa000, 0x2bea000, 0x18000, 0x2c02000),
        ((0xb0001, 120, 2, 1, 6, 2, 64), 0x6000, 0x1b72000, 0xf000, 0x1b81000),
        ((0xb0003, 64, 2, 1, 4, 2, 64), 0x4000, 0xaa4000, 0x8000, 0xaac000),
        // 0x40000 bytes of vector registers in C 2025-08, which the kernel refuses since it knows the GPU better.
        ((0xb0501, 32, 2, 1, 4, 2, 64), 0x2000, 0x752000, 0x4000, 0x756000),
        ((0xc0000, 64, 2, 1, 4, 2, 64), 0x4000, 0xea4000, 0x8000, 0xeac000),
        ((0xc0001, 128, 2, 1, 8, 2, 64), 0x7000, 0x1d47000, 0x10000, 0x1d57000),
        ((0x90400, 440, 4, 1, 8, 1, 64), 0x9000, 0x400f000, 0x20000, 0x402f000),
    ];

    #[test]
    fn areas_are_as_large_as_the_c_library_makes_them() {
        for (facts, stack, piece, debugger, total) in AREAS {
            let area = save_area(&node(*facts), 4096).unwrap();
            assert_eq!(
                (area.stack, area.piece, area.debugger, area.total),
                (*stack, *piece, *debugger, *total),
                "{facts:x?}"
            );
        }
    }

    #[test]
    fn end_of_pipe_buffers_by_version_and_kind() {
        let kinds = [QueueType::Compute, QueueType::ComputeAql, QueueType::SdmaByEngine(0), QueueType::Sdma];
        for (version, sizes) in [
            (0x7_0001, [0, 0, 0, 0]),
            (TONGA, [0x8000, 0x8000, 0x8000, 0]),
            (CARRIZO, [4096, 4096, 4096, 0]),
            (GFX90A, [4096, 4096, 4096, 0]),
            (0x9_0402, [4096, 0, 0, 0]),
            (GFX950, [4096, 4096, 4096, 0]),
            (0xc_0001, [4096, 4096, 4096, 0]),
        ] {
            assert_eq!(kinds.map(|kind| end_of_pipe(version, kind)), sizes, "{version:x}");
        }
    }

    #[test]
    fn a_node_without_properties_has_no_area_and_a_huge_one_none_either() {
        let whole = (GFX90A, 440, 4, 1, 8, 1, 64);
        assert!(save_area(&node(whole), 4096).is_some());
        assert_eq!(save_area(&node((0x7_0001, 440, 4, 1, 8, 1, 64)), 4096), None);
        assert_eq!(save_area(&node((GFX90A, 0, 4, 1, 8, 1, 64)), 4096), None);
        assert_eq!(save_area(&node((GFX90A, 440, 0, 1, 8, 1, 64)), 4096), None);
        assert_eq!(save_area(&node((GFX90A, u32::MAX, 1, 1, u32::MAX, 1, u32::MAX)), 4096), None);
        assert!(save_area(&node((GFX90A, 440, 4, 0, 8, 0, 64)), 4096).is_some(), "no XCC is one, no array no bound");
    }

    #[test]
    fn doorbells_by_version() {
        assert_eq!(doorbell_place(GFX90A, 0x2000_2018, 5), (0x2000_2000, 0x18));
        assert_eq!(doorbell_place(CARRIZO, 0x2000_2018, 5), (0x2000_2018, 20));
        assert_eq!((doorbells(GFX90A, 4096), doorbells(CARRIZO, 4096), doorbells(GFX90A, 65536)), (8192, 4096, 65536));
        assert!(doorbells_are_objects(GFX90A) && !doorbells_are_objects(TONGA));
    }
}
