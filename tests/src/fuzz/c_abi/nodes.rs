//! Calls about nodes, and those that are not written: they know of no object.

use hsakmt::ctypes::*;
use hsakmt::status::Status;

use super::Said;
use crate::fuzz::entries::{self, Channel, Place, Room};
use crate::fuzz::input::Input;

/// More caches, links or attributes than any node or call has; a count above that is refused, and nothing is followed.
pub(super) const MOST: usize = 2044;

/// At most so many banks are written, whatever the count: 64 zeros behind those of a node.
const MOST_BANKS: usize = 128;

/// At most so many tile configurations are written.
const MOST_TILES: usize = 64;

/// More nodes than a machine has: after so many good ones a list is refused.
const MOST_NODES: usize = hsakmt_core::aperture::MAX_NODES;

pub(super) fn node(input: &mut Input<'_>) -> u32 {
    input.pick(&[1, 0, 1, 2, 1, 0, 1, 2, 3, u32::MAX])
}

pub(super) fn count(input: &mut Input<'_>) -> u32 {
    match input.below(4) {
        0 | 1 => input.below(6) as u32,
        2 => input.below(MOST + 2) as u32,
        _ => input.hostile() as u32,
    }
}

/// A list of nodes, or none, and how many the call says there are. It may say more than there are where reading is
/// promised to end: at an unknown node, and after more than any machine has.
pub(super) fn nodes(input: &mut Input<'_>) -> (u64, Option<Room>) {
    let any = input.hostile() as u64;
    let mut list: Vec<u32> = (0..input.below(4)).map(|_| input.pick(&[1, 2, 1, 2, 1, 0])).collect();
    let count = match input.below(8) {
        0..5 => list.len() as u64,
        5 => {
            list.push(u32::MAX);
            any
        }
        6 => {
            list.resize(MOST_NODES + 1, 1);
            any
        }
        _ => return (any, None),
    };
    (count, Some(Room::of(&list, input.below(8))))
}

pub(super) fn topology(channel: Channel, input: &mut Input<'_>) -> Said {
    let (node, count, crooked, null) = (node(input), count(input), input.below(8), input.once_in(8));
    /// One call with one room for its answer.
    fn ask<T>(name: &'static str, room: Room, null: bool, call: impl FnOnce(Place<T>) -> u32) -> Said {
        let mut room = room;
        let said = call(if null { Place::null() } else { room.place() });
        room.check(name);
        (name, said)
    }
    let known = if count as usize <= MOST { count as usize } else { 0 };
    match input.below(9) {
        0 => ask("AcquireSystemProperties", Room::new::<HsaSystemProperties>(1, crooked), null, |place| {
            entries::acquire(channel, place)
        }),
        1 => ("ReleaseSystemProperties", entries::release(channel)),
        2 => ask("GetNodeProperties", Room::new::<HsaNodeProperties>(1, crooked), null, |place| {
            entries::node(channel, node, place)
        }),
        3 => {
            let room = Room::new::<HsaMemoryProperties>((count as usize).min(MOST_BANKS), crooked);
            ask("GetNodeMemoryProperties", room, null, |place| entries::banks(channel, node, count, place))
        }
        4 => ask("GetNodeCacheProperties", Room::new::<HsaCacheProperties>(known, crooked), null, |place| {
            entries::caches(channel, node, u32::MAX, count, place)
        }),
        5 => ask("GetNodeIoLinkProperties", Room::new::<HsaIoLinkProperties>(known, crooked), null, |place| {
            entries::links(channel, node, count, place)
        }),
        6 => ask("GetClockCounters", Room::new::<HsaClockCounters>(1, crooked), null, |place| {
            entries::clocks(channel, node, place)
        }),
        7 => tiling(channel, node, input),
        _ => {
            ask("AvailableMemory", Room::new::<u64>(1, crooked), null, |place| entries::available(channel, node, place))
        }
    }
}

/// A struct with two pointers in it.
fn tiling(channel: Channel, node: u32, input: &mut Input<'_>) -> Said {
    let mut config = Room::new::<HsaGpuTileConfig>(1, input.below(8));
    let counts = [count(input), count(input)];
    let mut rooms = counts.map(|count| Room::new::<u32>((count as usize).min(MOST_TILES), input.below(8)));
    for (position, (room, count)) in rooms.iter_mut().zip(counts).enumerate() {
        let pointer = if input.once_in(4) { 0 } else { room.address() };
        config.set(8 * position, &pointer.to_ne_bytes());
        config.set(16 + 4 * position, &count.to_ne_bytes());
    }
    let said = entries::tiling(channel, node, if input.once_in(8) { Place::null() } else { config.place() });
    config.check("GetTileConfig");
    rooms.iter().for_each(|room| room.check("GetTileConfig"));
    ("GetTileConfig", said)
}

/// What is refused here: other machines' policies, queues that are none, what is not done.
pub(super) fn refused(channel: Channel, input: &mut Input<'_>) -> Said {
    let (at, many) = (input.hostile(), input.word());
    let said = match input.below(9) {
        0 => return failed("SetMemoryPolicy", entries::hsaKmtSetMemoryPolicy(node(input), many as u32, 7, at, many)),
        1 | 2 => return failed("DestroyQueue", entries::hsaKmtDestroyQueue(many)),
        3 => {
            let mut room = Room::new::<HsaQueueInfo>(1, input.below(8));
            let place = if input.once_in(4) { Place::null() } else { room.place() };
            let said = entries::hsaKmtGetQueueInfo(many, place);
            room.check("GetQueueInfo");
            return failed("GetQueueInfo", said);
        }
        4 => entries::hsaKmtProcessVMRead(many as u32, at, many, at, many, at),
        5 => return ("ReplaceAsanHeaderPage", entries::replace_header(channel, at)),
        6 => return ("ReturnAsanHeaderPage", entries::return_header(channel, at)),
        7 => return ("SetXNACKMode", entries::set_xnack(channel, input.pick(&[0, 1, -1, i32::MIN, i32::MAX]))),
        _ => {
            let mut room = Room::new::<i32>(1, input.below(8));
            let said = entries::get_xnack(channel, if input.once_in(4) { Place::null() } else { room.place() });
            room.check("GetXNACKMode");
            return ("GetXNACKMode", said);
        }
    };
    assert_eq!(said, Status::NotImplemented as u32);
    ("an entry that is not done", said)
}

/// A call that can only fail.
fn failed(name: &'static str, said: u32) -> Said {
    assert_ne!(said, Status::Success as u32, "{name}");
    (name, said)
}
