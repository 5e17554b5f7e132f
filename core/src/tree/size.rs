//! How large a tree can be: the most nodes and the greatest height that a number of records can need, whatever order
//! they came and went in. What a fixed memory must hold, and how many steps a look-up can take, rests on this.
//!
//! # Two nodes beside each other hold at least nine entries
//! An insertion splits a full node into 8 and 9 entries, or 16 and 1 at the outer edges, next to neighbours that have at
//! least one. A removal joins the node that shrank with a neighbour if both fit in one, so afterwards it and either
//! neighbour hold more than 16 together; a node that vanishes had one entry, so its neighbours have 8 or more each. So
//! neighbours under one branch always hold [`PAIR`] entries or more together, leaves and branches alike.
//!
//! # Nodes
//! Of `n` nodes under `p` branches, all but at most one per branch can be paired: entries are at least `PAIR / 2 * (n -
//! p) + p`. By induction from the top, where `p` is 1, the nodes of a level are at most `2/7` of the entries of it,
//! and 1.
//!
//! # Height
//! A branch at the top has two children or more. A pair of leaves holds 9 records; a pair of branches one above holds 9
//! of these, four pairs and one more: 4 x 9 + 1; and so on.

/// The fewest entries of two neighbours.
const PAIR: usize = 9;

/// The most nodes of a level, with `entries` in them, in `trees` trees together.
const fn most_nodes(entries: usize, trees: usize) -> usize {
    let shared = entries.saturating_mul(2) / 7 + trees;
    if shared < entries { shared } else { entries }
}

/// The most leaves of `records` records in `trees` trees.
pub(crate) const fn most_leaves(records: usize, trees: usize) -> usize {
    most_nodes(records, trees)
}

/// The most branches above them, all levels together.
pub(crate) const fn most_branches(records: usize, trees: usize) -> usize {
    let mut level = most_nodes(records, trees);
    let (mut total, mut height) = (0, 0);
    while height < most_height(records) {
        level = most_nodes(level, trees);
        total += level;
        height += 1;
    }
    total
}

/// The greatest height of a tree of `records` records; 0 is a leaf alone.
pub(crate) const fn most_height(records: usize) -> usize {
    let (mut height, mut least) = (0, PAIR);
    while records >= least {
        height += 1;
        least = least.saturating_mul(4).saturating_add(1);
    }
    height
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
