//! How large a tree can be: the most nodes and the greatest height that a number of records can need, whatever order
//! they came and went in. What a fixed memory must hold, and how many steps a look-up can take, rests on this. Last, what
//! an edit may take beside.
//!
//! # Two nodes beside each other hold at least nine entries
//! Neighbours under one branch hold [`PAIR`] entries or more together, leaves and branches alike; every node holds one.
//! For what an edit does to a pair:
//!
//! * An insertion splits a full node into 8 and 9 entries, or 16 and 1 at the outer edges, next to neighbours that have
//!   at least one. A split branch takes no two children together that were apart.
//! * A removal takes an entry out of a node, two where three branches below became one. If it fits in one with a
//!   neighbour they are joined; if not, it and either neighbour hold more than 16. A node that vanishes had one entry, so
//!   its neighbours have 8 or more each.
//! * Joined leaves hold no less than either held before the removal, so nor do the pairs they are in.
//! * Joined branches put two children beside each other that were apart. If these hold fewer than nine they are joined in
//!   turn, and so on below where they met. That takes one entry from the joined branch, which may then hold less than the
//!   shrunken one did before the removal: if it and the neighbour left of it are fewer than nine, that one is joined too.
//!   The other neighbours of a joined node are next to no less than before, since what it took in had one entry or more.
//!
//! A removal that finds no nodes to join with (`tree::edit`, `joins`) leaves such a pair. Where memory is fixed that
//! happens only beyond the capacity, which counts them.
//!
//! # Nodes
//! Of `n` nodes under `p` branches, all but at most one per branch can be paired: entries are at least `PAIR / 2 * (n -
//! p) + p`. By induction from the top, where `p` is 1, the nodes of a level are at most `2/7` of the entries of it,
//! and 1.
//!
//! # Height
//! A branch at the top has two children or more. A pair of leaves holds 9 records; a pair of branches one above holds 9
//! of these, four pairs and one more: 4 x 9 + 1; and so on.

use super::MAX_HEIGHT;

/// The fewest entries of two neighbours.
pub(super) const PAIR: usize = 9;

/// The most nodes of a level, with `entries` in them, in `trees` trees together.
#[cfg(not(loom))]
const fn most_nodes(entries: usize, trees: usize) -> usize {
    let shared = entries.saturating_mul(2) / 7 + trees;
    if shared < entries { shared } else { entries }
}

/// The most nodes of `records` records in `trees` trees, all levels together.
#[cfg(not(loom))]
pub(crate) const fn most_branches(records: usize, trees: usize) -> usize {
    let mut level = most_nodes(records, trees);
    let (mut total, mut height) = (level, 0);
    while height < most_height(records) {
        level = most_nodes(level, trees);
        total += level;
        height += 1;
    }
    total
}

/// The greatest height of a tree of `records` records; 0 is a leaf alone.
#[cfg(not(loom))]
pub(crate) const fn most_height(records: usize) -> usize {
    let (mut height, mut least) = (0, PAIR);
    while records >= least {
        height += 1;
        least = least.saturating_mul(4).saturating_add(1);
    }
    height
}

/// Each edit takes at most two nodes per level and a new top; the tree grows by a level.
pub(crate) const fn worst(edits: usize, height: usize) -> usize {
    let highest = height.saturating_add(edits);
    let highest = if highest < MAX_HEIGHT { highest } else { MAX_HEIGHT };
    edits.saturating_mul(2 * (highest + 1) + 1)
}

/// Nodes that a removal may take beside one on each level. Wherever two branches become one, which is twice on each level
/// between the lowest and the top, it takes one on each level below.
pub(crate) const fn branches_to_join(height: usize) -> usize {
    height * height.saturating_sub(1)
}

/// Counts the nodes that look-ups visit, in tests.
#[cfg(test)]
pub(crate) mod visited {
    use core::cell::Cell;

    std::thread_local! {
        static VISITED: Cell<usize> = const { Cell::new(0) };
    }

    pub(crate) fn one() {
        VISITED.with(|visited| visited.set(visited.get() + 1));
    }

    /// How many since the last call on this thread.
    pub(crate) fn take() -> usize {
        VISITED.with(Cell::take)
    }
}
