//! What versions are made of: pools of records and of index nodes, and the lists of those that are retired.

use crate::error::Result;
use crate::pages::{self, Page};
use crate::pool::{Chain, Memory, Pool};
use crate::record::Record;
use crate::tree::node::{Branch, Intervals};
use crate::tree::size::{branches_to_join, worst};

/// Records and index nodes at hand.
pub(crate) struct Nodes {
    pub(crate) records: Pool<Record>,
    /// Of page indexes.
    pub(crate) pages: Pool<Page>,
    /// Of address trees.
    pub(crate) branches: Pool<Branch<()>>,
    /// Of the userptr tree.
    pub(crate) intervals: Pool<Branch<Intervals>>,
}

/// Index nodes that the newest version does not use, but an older one may. Records wait with the version that was the last
/// to hold them ([`crate::version`]).
pub(crate) struct RetiredNodes {
    pub(crate) pages: Chain<Page>,
    pub(crate) branches: Chain<Branch<()>>,
    pub(crate) intervals: Chain<Branch<Intervals>>,
}

/// How large the indexes are that an edit may change.
#[derive(Clone, Copy)]
pub(crate) struct Sizes {
    /// The height of the highest address tree; `None` where objects stand in page indexes.
    pub(crate) tree: Option<usize>,
    /// The height of the userptr tree.
    pub(crate) userptrs: usize,
}

impl Sizes {
    /// Nodes that each pool must hold: `of_tree` says how many for a tree so high.
    fn needs(self, records: usize, pages: usize, of_tree: impl Fn(usize) -> usize) -> Needs {
        let pages = if self.tree.is_some() { 0 } else { pages };
        Needs { records, pages, branches: self.tree.map_or(0, &of_tree), intervals: of_tree(self.userptrs) }
    }
}

/// How many nodes of each kind.
#[derive(Clone, Copy)]
pub(crate) struct Needs {
    records: usize,
    pages: usize,
    branches: usize,
    intervals: usize,
}

impl Needs {
    /// What `edits` edits of any kind take at most. One record more, so that a replacement can follow.
    #[inline]
    pub(crate) fn edits(edits: usize, sizes: Sizes) -> Needs {
        let pages = edits.saturating_mul(pages::NODES_PER_EDIT).saturating_add(pages::NODES_TO_SPARE);
        sizes.needs(edits.saturating_add(1), pages, |height| worst(edits, height))
    }

    /// What one replacement (which takes one record) or removal (which takes none) takes at most: one node a level, and gives
    /// back as many. An insertion leaves over enough. `level` is that of the highest page index.
    pub(crate) fn in_place(records: usize, sizes: Sizes, level: usize) -> Needs {
        sizes.needs(records, pages::nodes_in_place(level), |height| height + 1)
    }

    /// What one removal takes at most with all that it joins or unmarks. Without it a removal works, and leaves more nodes or
    /// marks behind.
    pub(crate) fn to_join(records: usize, sizes: Sizes) -> Needs {
        let pages = pages::NODES_PER_EDIT + pages::NODES_TO_SPARE;
        sizes.needs(records, pages, |height| height + 1 + branches_to_join(height))
    }
}

impl Nodes {
    pub(crate) const fn new() -> Nodes {
        Nodes { records: Pool::new(), pages: Pool::new(), branches: Pool::new(), intervals: Pool::new() }
    }

    /// Whether the pools hold as many.
    #[inline]
    pub(crate) fn hold(&self, needs: Needs) -> bool {
        self.records.available() >= needs.records
            && self.pages.available() >= needs.pages
            && self.branches.available() >= needs.branches
            && self.intervals.available() >= needs.intervals
    }

    /// Grows the pools until they hold as many.
    pub(crate) fn reserve(&mut self, needs: Needs, memory: &mut impl Memory) -> Result<()> {
        self.records.reserve(needs.records, memory)?;
        self.pages.reserve(needs.pages, memory)?;
        self.branches.reserve(needs.branches, memory)?;
        self.intervals.reserve(needs.intervals, memory)
    }

    /// Takes back index nodes that no reader can see.
    pub(crate) fn take_back(&mut self, retired: &mut RetiredNodes) {
        self.pages.give_all(&mut retired.pages);
        self.branches.give_all(&mut retired.branches);
        self.intervals.give_all(&mut retired.intervals);
    }
}

impl RetiredNodes {
    pub(crate) const fn new() -> RetiredNodes {
        RetiredNodes { pages: Chain::new(), branches: Chain::new(), intervals: Chain::new() }
    }

    /// Bytes that they hold.
    pub(crate) fn bytes(&self) -> usize {
        self.pages.bytes() + self.branches.bytes() + self.intervals.bytes()
    }
}
