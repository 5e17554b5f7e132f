//! For tests: what a tree really comes to, against what `size` says it can come to at worst; and that module's rarest case.
//!
//! In: a tree. Out: its nodes counted, no more than the bounds, no two neighbours with fewer than [`PAIR`] entries.

use std::vec::Vec;

use super::node::ChildPtr;
use super::size::{PAIR, most_branches, most_height};
use super::{Order, View};

/// What a tree is made of.
#[derive(Debug, Default)]
pub(crate) struct Shape {
    /// Branches whose children are records.
    pub(crate) lowest: usize,
    /// All branches.
    pub(crate) branches: usize,
    pub(crate) height: usize,
}

impl Shape {
    pub(crate) fn check(&self, records: usize) {
        assert!(self.branches <= most_branches(records, 1), "{self:?} of {records}");
        assert!(self.height <= most_height(records), "{self:?} of {records}");
    }
}

pub(crate) fn shape<O: Order>(tree: View<'_, O>) -> Shape {
    /// The node's entries.
    fn below<O: Order>(tree: View<'_, O>, node: ChildPtr, height: usize, shape: &mut Shape) -> usize {
        shape.branches += 1;
        if height == 0 {
            shape.lowest += 1;
            return tree.branch(node).len();
        }
        let children: Vec<_> =
            tree.branch(node).used().map(|child| below(tree, child.node, height - 1, shape)).collect();
        assert!(children.windows(2).all(|pair| pair.iter().sum::<usize>() >= PAIR), "{children:?}");
        children.len()
    }
    let mut shape = Shape::default();
    if let Some((node, height)) = tree.top() {
        shape.height = height;
        below(tree, node, height, &mut shape);
    }
    shape
}

#[cfg(feature = "alloc")]
mod tests {
    use core::ops::Range;

    use super::*;
    use crate::address::{Bounds, PageSize};
    use crate::aperture::{Aperture, Layout};
    use crate::epoch::Domain;
    use crate::flags::MemFlags;
    use crate::info::PointerType;
    use crate::node::NodeId;
    use crate::objects::Object;
    use crate::pool::{Memory, Scarce};
    use crate::registry::{Registry, Writer};
    use crate::tree::search::FANOUT;

    const PAGE: usize = 4096;

    /// Records of a full leaf, below a full branch above leaves, and below one above those.
    const LEAF: usize = FANOUT;
    const LOW: usize = FANOUT * LEAF;
    const HIGH: usize = FANOUT * LOW;

    fn insert<D: Domain, M: Memory>(writer: &mut Writer<'_, D, M>, places: Range<usize>) {
        for n in places {
            let object = Object {
                kind: PointerType::Allocated,
                start: (1 + n) * PAGE,
                size: PAGE,
                cpu: 0,
                node: NodeId(1),
                flags: MemFlags::empty(),
                user_data: n,
                registered: &[],
                mapped: &[],
            };
            writer.insert_object(Aperture::Svm, &object).unwrap();
        }
    }

    fn remove<D: Domain, M: Memory>(writer: &mut Writer<'_, D, M>, places: Range<usize>) {
        places.for_each(|n| writer.remove_object(Aperture::Svm, (1 + n) * PAGE).unwrap());
    }

    /// How many entries each child has of the branch that `path` leads to from the top.
    fn entries<D: Domain, M: Memory>(writer: &Writer<'_, D, M>, path: &[usize]) -> Vec<usize> {
        let tree = writer.version().tree(Aperture::Svm);
        let (mut node, _) = tree.top().unwrap();
        for position in path {
            node = tree.branch(node).child(*position).unwrap().node;
        }
        let len = |node| tree.branch(node).len();
        tree.branch(node).used().map(|child| len(child.node)).collect()
    }

    /// Branches of 1, 8 and 1 leaves. The middle one loses a leaf and takes in the one right of it; in that two leaves
    /// meet and become one, so seven are left beside one, and the third branch is joined as well.
    #[test]
    fn three_branches_become_one_at_once() {
        let mut registry = Registry::new();
        let (mut writer, _) = registry.split(PageSize::FOUR_KIB, Scarce).unwrap();
        let mut layout = Layout::empty(PageSize::FOUR_KIB);
        (layout.svm, layout.dgpu) = (Bounds::new(PAGE, 0x7fff_ffff), true);
        writer.set_layout(layout).unwrap();
        insert(&mut writer, 0..3 * HIGH);
        assert_eq!(entries(&writer, &[]), [FANOUT; 3], "three full branches above full ones");

        // Between full neighbours nothing is joined. The first ends in a branch of one leaf, the third begins with one.
        remove(&mut writer, HIGH - LOW + 1..HIGH);
        remove(&mut writer, 2 * HIGH + 1..2 * HIGH + LOW);
        // The second keeps one branch, and that eight leaves, one record in the first and three in the last.
        remove(&mut writer, HIGH + 8 * LEAF..2 * HIGH);
        remove(&mut writer, HIGH + 7 * LEAF + 3..HIGH + 8 * LEAF);
        remove(&mut writer, HIGH..HIGH + LEAF - 1);
        assert_eq!((entries(&writer, &[0, 15]), entries(&writer, &[2, 0])), ([1].to_vec(), [1].to_vec()));
        assert_eq!(entries(&writer, &[1, 0]), [1, 16, 16, 16, 16, 16, 16, 3]);

        // The second goes into the first, which has room as soon as it has lost a branch; then the first into the third.
        remove(&mut writer, 0..LOW);
        assert_eq!(entries(&writer, &[])[..], [16, 16]);
        remove(&mut writer, 3 * HIGH - 3 * LOW..3 * HIGH);
        remove(&mut writer, LOW..HIGH - 2 * LOW);
        assert_eq!(entries(&writer, &[])[..5], [16, 1, 8, 1, 16], "each pair holds nine, and not one more");
        assert_eq!((entries(&writer, &[1]), entries(&writer, &[3])), ([1].to_vec(), [1].to_vec()));

        // One removal, three branches: the first keeps its leaf, the others' four records at the border share one.
        remove(&mut writer, HIGH + LEAF - 1..HIGH + LEAF);
        assert_eq!(entries(&writer, &[])[..3], [16, 8, 16]);
        assert_eq!(entries(&writer, &[1]), [1, 16, 16, 16, 16, 16, 16, 4]);
        shape(writer.version().tree(Aperture::Svm)).check(writer.snapshot().iter().count());
    }
}
