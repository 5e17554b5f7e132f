//! The performance counters of GPUs: which blocks a GPU has, how many counters of each can run at once, and their numbers.
//!
//! Facts of the hardware, by version; fiji and polaris have one version and differ by device. GPUs from gfx11 on have none
//! here.

use hsakmt_kfd::topology::Node;

/// A hardware block that has counters: its number for callers (`BlockIndex`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the blocks' own names")]
#[repr(u32)]
pub(super) enum BlockId {
    Cb = 0,
    Cpf = 2,
    Cpg = 3,
    Db = 4,
    Gds = 5,
    Grbm = 6,
    Grbmse = 7,
    Ia = 8,
    Pasc = 10,
    Pasu = 11,
    Spi = 12,
    Srbm = 13,
    Sq = 14,
    Sx = 15,
    Ta = 16,
    Tca = 17,
    Tcc = 18,
    Tcp = 19,
    Tcs = 20,
    Td = 21,
    Vgt = 22,
    Wd = 23,
}

impl BlockId {
    /// Numbers of blocks are below this.
    pub(super) const END: usize = 24;

    /// The bytes of its `HSA_UUID`.
    pub(super) fn uuid(self) -> [u8; 16] {
        let value: u128 = match self {
            BlockId::Cb => 0x9ba429c6_af2d_4b38_b349_157271beac6a,
            BlockId::Cpf => 0x2b0ad2b5_1c43_4f46_a7bc_e119411ea6c9,
            BlockId::Cpg => 0x590ec94d_20f0_448f_8dff_316c679de7ff,
            BlockId::Db => 0x3d1a47fc_0013_4ed4_8306_822ca0b7a6c2,
            BlockId::Gds => 0xf59276ec_2526_4bf8_8ec0_118f77700dc9,
            BlockId::Grbm => 0x8f00933c_c33d_4801_97b7_7007f78573ad,
            BlockId::Grbmse => 0x34ebd8d7_7c8b_4d15_88fa_0e4e4af59ac1,
            BlockId::Ia => 0x34276944_4264_4fcd_9d6e_ae264582ec51,
            BlockId::Pasc => 0xb0e7fb5d_0efc_4744_b516_5d23dc1fd56c,
            BlockId::Pasu => 0x9a152b6a_1fad_45f2_a5bf_f163826bd0cd,
            BlockId::Spi => 0xeda81044_d62c_47eb_af89_4f6fbf3b38e0,
            BlockId::Srbm => 0x9f8040e0_6830_4019_acc8_463c9e445b89,
            BlockId::Sq => 0xb5c396b6_d310_47e4_86fc_5cc3043af508,
            BlockId::Sx => 0xbdb8d737_43cc_4162_be52_51cfb847beaf,
            BlockId::Ta => 0xc01ee43d_ad92_44b1_8ab9_be5e696ceea7,
            BlockId::Tca => 0x333e393f_e147_4f49_a6d1_60914c7086b0,
            BlockId::Tcc => 0x848ce855_d805_4566_a8ab_73e884cc6bff,
            BlockId::Tcp => 0xe10a013b_17d4_4bf5_b089_429591059b60,
            BlockId::Tcs => 0x4126245c_4d96_4d1a_8aed_a939d4cc8ec9,
            BlockId::Td => 0x7d7c0fe4_fe41_4fea_92c9_4544d7706dc6,
            BlockId::Vgt => 0x0b6a8cb7_7a01_409f_a22c_3014854f1359,
            BlockId::Wd => 0x0e176789_46ed_4b02_972a_916d2fac244a,
        };
        uuid(value)
    }
}

/// A UUID as C lays it out: the first three parts are numbers of this machine, the rest are bytes.
fn uuid(value: u128) -> [u8; 16] {
    let mut bytes = value.to_be_bytes();
    for part in [0..4, 4..6, 6..8] {
        bytes[part].reverse();
    }
    bytes
}

/// The numbers of a block's counters: first and last of each range.
type Ranges = &'static [(u32, u32)];

/// A block of a GPU.
#[derive(Debug)]
pub(super) struct Block {
    pub(super) id: BlockId,
    /// How many of its counters can run at once.
    pub(super) slots: u32,
    ranges: Ranges,
}

impl Block {
    /// The numbers of its counters.
    pub(super) fn counters(&self) -> impl Iterator<Item = u32> + Clone + use<> {
        self.ranges.iter().flat_map(|(first, last)| *first..=*last)
    }
}

const fn block(id: BlockId, slots: u32, ranges: Ranges) -> Block {
    Block { id, slots, ranges }
}

/// How many kinds of GPUs there are: [`kind`] is below this.
pub(super) const KINDS: usize = 7;

/// Which kind of GPU a node has; `None` for one whose counters are not known, and for a CPU.
pub(super) fn kind(node: &Node) -> Option<usize> {
    let fiji = [0x7300, 0x730f].contains(&node.device_id);
    match (node.engine_id.major, node.engine_id.gfx_version()) {
        (7, 0x07_0000) => Some(0),
        (7, _) => Some(1),
        (8, 0x08_0001) => Some(2),
        (8, 0x08_0002) => None,
        (8, _) if fiji => Some(3),
        (8, _) => Some(4),
        (9, _) => Some(5),
        (10, _) => Some(6),
        _ => None,
    }
}

/// The blocks of a kind of GPU, in order of their numbers.
pub(super) fn of_kind(kind: usize) -> &'static [Block] {
    const ALL: [&[Block]; KINDS] = [KAVERI, HAWAII, CARRIZO, FIJI, POLARIS, VEGA, NAVI];
    ALL.get(kind).copied().unwrap_or_default()
}

/// gfx700.
#[rustfmt::skip]
const KAVERI: &[Block] = &[
    block(BlockId::Sq, 8, &[(0, 162), (168, 250)]),
];

/// Other GPUs of gfx7.
#[rustfmt::skip]
const HAWAII: &[Block] = &[
    block(BlockId::Cb, 7, &[(0, 225)]),
    block(BlockId::Cpf, 5, &[(0, 16)]),
    block(BlockId::Cpg, 5, &[(0, 45)]),
    block(BlockId::Db, 12, &[(0, 256)]),
    block(BlockId::Gds, 4, &[(0, 120)]),
    block(BlockId::Grbm, 2, &[(0, 33)]),
    block(BlockId::Grbmse, 1, &[(0, 14)]),
    block(BlockId::Ia, 7, &[(0, 17)]),
    block(BlockId::Pasc, 11, &[(0, 394)]),
    block(BlockId::Pasu, 10, &[(0, 152)]),
    block(BlockId::Spi, 4, &[(0, 185)]),
    block(BlockId::Srbm, 2, &[(0, 18)]),
    block(BlockId::Sq, 8, &[(0, 162), (168, 250)]),
    block(BlockId::Sx, 4, &[(0, 33)]),
    block(BlockId::Ta, 6, &[(0, 110)]),
    block(BlockId::Tca, 10, &[(0, 38)]),
    block(BlockId::Tcc, 10, &[(0, 44), (64, 159), (159, 159)]),
    block(BlockId::Tcp, 10, &[(0, 153)]),
    block(BlockId::Tcs, 7, &[(0, 20), (64, 127)]),
    block(BlockId::Td, 6, &[(0, 54)]),
    block(BlockId::Vgt, 10, &[(0, 139)]),
    block(BlockId::Wd, 4, &[(0, 9)]),
];

/// gfx801.
const CARRIZO: &[Block] = &gfx8(&[(1, 165), (167, 291), (298, 298)], &[(0, 107), (128, 191)], &[(0, 145)]);

/// gfx803 by the name of Fiji.
const FIJI: &[Block] = &gfx8(&[(1, 165), (167, 291), (298, 298)], &[(0, 107), (128, 255)], &[(0, 145)]);

/// Other GPUs of gfx8.
const POLARIS: &[Block] = &gfx8(&[(1, 165), (168, 274), (276, 295)], &[(0, 107), (128, 255)], &[(0, 146)]);

/// gfx8, whose GPUs differ in the counters of three blocks.
#[rustfmt::skip]
const fn gfx8(sq: Ranges, tcc: Ranges, vgt: Ranges) -> [Block; 21] {
    [
        block(BlockId::Cb, 7, &[(0, 395)]),
        block(BlockId::Cpf, 5, &[(0, 19)]),
        block(BlockId::Cpg, 5, &[(0, 48)]),
        block(BlockId::Db, 12, &[(0, 256)]),
        block(BlockId::Gds, 4, &[(0, 120)]),
        block(BlockId::Grbm, 2, &[(0, 33)]),
        block(BlockId::Grbmse, 1, &[(0, 14)]),
        block(BlockId::Ia, 7, &[(0, 23)]),
        block(BlockId::Pasc, 11, &[(0, 396)]),
        block(BlockId::Pasu, 10, &[(0, 152)]),
        block(BlockId::Spi, 4, &[(0, 196)]),
        block(BlockId::Srbm, 2, &[(0, 27)]),
        block(BlockId::Sq, 8, sq),
        block(BlockId::Sx, 4, &[(0, 33)]),
        block(BlockId::Ta, 6, &[(0, 118)]),
        block(BlockId::Tca, 10, &[(1, 34)]),
        block(BlockId::Tcc, 10, tcc),
        block(BlockId::Tcp, 10, &[(0, 182)]),
        block(BlockId::Td, 6, &[(0, 54)]),
        block(BlockId::Vgt, 10, vgt),
        block(BlockId::Wd, 4, &[(0, 36)]),
    ]
}

/// gfx9.
#[rustfmt::skip]
const VEGA: &[Block] = &[
    block(BlockId::Cb, 7, &[(0, 437)]),
    block(BlockId::Cpf, 5, &[(0, 31)]),
    block(BlockId::Cpg, 5, &[(0, 58)]),
    block(BlockId::Db, 12, &[(0, 327)]),
    block(BlockId::Gds, 4, &[(0, 120)]),
    block(BlockId::Grbm, 2, &[(0, 37)]),
    block(BlockId::Grbmse, 1, &[(0, 15)]),
    block(BlockId::Ia, 7, &[(0, 31)]),
    block(BlockId::Pasc, 11, &[(0, 490)]),
    block(BlockId::Pasu, 10, &[(0, 291)]),
    block(BlockId::Spi, 18, &[(0, 195)]),
    block(BlockId::Sq, 16, &[(1, 183), (255, 372)]),
    block(BlockId::Sx, 4, &[(0, 207)]),
    block(BlockId::Ta, 6, &[(0, 118)]),
    block(BlockId::Tca, 10, &[(1, 34)]),
    block(BlockId::Tcc, 10, &[(0, 107), (128, 255)]),
    block(BlockId::Tcp, 10, &[(0, 84)]),
    block(BlockId::Td, 6, &[(0, 56)]),
    block(BlockId::Vgt, 10, &[(0, 147)]),
    block(BlockId::Wd, 4, &[(0, 57)]),
];

/// gfx10.
#[rustfmt::skip]
const NAVI: &[Block] = &[
    block(BlockId::Cb, 7, &[(0, 460)]),
    block(BlockId::Cpf, 6, &[(0, 39)]),
    block(BlockId::Cpg, 6, &[(0, 81)]),
    block(BlockId::Db, 12, &[(0, 369)]),
    block(BlockId::Gds, 10, &[(0, 122)]),
    block(BlockId::Grbm, 2, &[(0, 46)]),
    block(BlockId::Grbmse, 1, &[(0, 18)]),
    block(BlockId::Pasc, 11, &[(0, 551)]),
    block(BlockId::Pasu, 16, &[(0, 265)]),
    block(BlockId::Spi, 18, &[(0, 328)]),
    block(BlockId::Sq, 16, &[(0, 511)]),
    block(BlockId::Sx, 4, &[(0, 224)]),
    block(BlockId::Ta, 5, &[(0, 225)]),
    block(BlockId::Tcp, 10, &[(0, 76)]),
    block(BlockId::Td, 5, &[(0, 60)]),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_in_order_and_have_counters() {
        for kind in 0..KINDS {
            let ids: Vec<u32> = of_kind(kind).iter().map(|block| block.id as u32).collect();
            assert!(ids.is_sorted_by(|one, other| one < other) && ids.iter().all(|id| (*id as usize) < BlockId::END));
            assert!(of_kind(kind).iter().all(|block| block.slots > 0 && block.counters().next().is_some()));
        }
        assert!(of_kind(KINDS).is_empty());
    }

    #[test]
    fn numbers_in_a_uuid_are_this_machines() {
        let bytes = BlockId::Cb.uuid();
        assert_eq!(u32::from_ne_bytes(bytes[..4].try_into().unwrap()), 0x9ba4_29c6);
        assert_eq!(u16::from_ne_bytes(bytes[4..6].try_into().unwrap()), 0xaf2d);
        assert_eq!(bytes[8..], [0xb3, 0x49, 0x15, 0x72, 0x71, 0xbe, 0xac, 0x6a]);
    }
}
