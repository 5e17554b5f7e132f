//! What an object costs in bytes here: added in order of address, and in no order.

use hsakmt_core::aperture::Aperture;
use hsakmt_core::error::Result;
use hsakmt_core::fixed::Capacity;
use hsakmt_core::info::PointerType;
use hsakmt_core::objects::Object;

use crate::memory::{self, BoardWriter};
use crate::scenario::{Random, layout, object};
use crate::watch::{DEVICE, PAGE};

/// What a static of some capacities takes here.
pub const CAPACITIES: [(&str, Capacity); 6] = [
    ("capacity-of-16", Capacity::objects(16)),
    ("capacity-of-100", Capacity::objects(100)),
    ("capacity-of-1000", Capacity::objects(1000)),
    ("capacity-of-100-managed", Capacity::objects(100).node_lists(8).managed(2)),
    ("capacity-of-1000-managed", Capacity::objects(1000).managed(2)),
    ("capacity-of-10000-managed", Capacity::objects(10_000).managed(2)),
];

/// As many as fit in any case.
const OBJECTS: usize = 160;

/// Bytes per object, times ten: in order, and in no order.
pub fn measure() -> Result<[usize; 2]> {
    Ok([per_object(|n| n)?, per_object(|n| n * 67 % OBJECTS)?])
}

fn per_object(place: impl Fn(usize) -> usize) -> Result<usize> {
    let mut writer = memory::writer()?;
    writer.set_layout(layout())?;
    let before = memory::left(&writer);
    (0..OBJECTS).try_for_each(|n| insert(&mut writer, place(n)))?;
    Ok((before - memory::left(&writer)) * 10 / OBJECTS)
}

fn insert(writer: &mut BoardWriter, place: usize) -> Result<()> {
    let start = DEVICE + place * PAGE * 4;
    let plain = object(0, &mut Random(1));
    let kind = PointerType::Allocated;
    writer.insert_object(
        Aperture::Svm,
        &Object { kind, start, cpu: start, size: PAGE, mapped: &[], registered: &[], ..plain },
    )
}
