//! What there is to know about one call whose answers are compared: the words in which [`super::differences`] says what
//! it recognises.

use super::operation::flag::{AQL, ONLY_ADDRESS};

/// What there is to know about a call whose answers differ.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Situation<'a> {
    /// The call in the script's words, without the thread.
    pub(crate) call: &'a str,
    pub(crate) theirs: &'a str,
    pub(crate) ours: &'a str,
    /// The calls before it, and what theirs answered.
    pub(crate) before: &'a [String],
    pub(crate) answered: &'a [String],
    /// The variant's name.
    pub(crate) variant: &'a str,
}

impl Situation<'_> {
    pub(super) fn verb(&self) -> &str {
        self.argument(0)
    }

    pub(super) fn is(&self, verb: &str) -> bool {
        self.verb() == verb
    }

    /// The call's words, the verb being the first.
    pub(super) fn argument(&self, position: usize) -> &str {
        self.call.split(' ').nth(position).unwrap_or_default()
    }

    pub(super) fn number(&self, position: usize) -> u64 {
        hexadecimal(self.argument(position))
    }

    /// Whether an allocation asks for all these flags.
    pub(super) fn flags(&self, bits: u32) -> bool {
        let flags = self.number(4) as u32;
        flags & bits == bits
    }

    /// Whether some call before this one asked for an AQL ring.
    pub(super) fn rings(&self) -> bool {
        self.allocated(AQL)
    }

    /// Whether some call before this one asked for an address without memory.
    pub(super) fn addresses_alone(&self) -> bool {
        self.allocated(ONLY_ADDRESS)
    }

    /// Whether some call before this one asked for memory with such a flag.
    fn allocated(&self, flag: u32) -> bool {
        let allocations = self.before.iter().filter_map(|call| call.get(2..)).filter(|call| call.starts_with("alloc "));
        allocations.filter_map(|call| Some(hexadecimal(call.split(' ').nth(4)?) as u32)).any(|flags| flags & flag != 0)
    }

    /// Whether SVM lies in a range that is reserved at Acquire.
    pub(super) fn reserved(&self) -> bool {
        self.variant.starts_with("reserved")
    }

    /// Whether the library was closed and opened again before this call.
    pub(super) fn reopened(&self) -> bool {
        // Every open but a process's first finds the library open already, or was closed before.
        let first = |answer: &&String| answer.get(2..) == Some("open 0");
        self.answered.iter().filter(first).count() > 1
    }

    /// Whether an Acquire before this call succeeded.
    pub(super) fn acquired(&self) -> bool {
        self.answered.iter().any(|answer| answer.get(2..).is_some_and(|answer| answer.starts_with("acquire 0 ")))
    }

    /// Whether some call before this one was such.
    pub(super) fn after(&self, verb: &str) -> bool {
        self.before.iter().any(|call| call.get(2..).is_some_and(|call| call.split(' ').next() == Some(verb)))
    }

    /// Whether some call before this one mapped to a list that names a node twice.
    pub(super) fn mapped_twice(&self) -> bool {
        let twice = |call: &&str| {
            let nodes: Vec<&str> = call.split(' ').nth(3).unwrap_or_default().split(',').collect();
            nodes.iter().enumerate().any(|(position, node)| nodes.iter().skip(position + 1).any(|other| other == node))
        };
        self.before
            .iter()
            .filter_map(|call| call.get(2..))
            .filter(|call| call.starts_with("map-to "))
            .any(|call| twice(&call))
    }

    /// Whether the library is closed.
    pub(super) fn closed(&self) -> bool {
        let count = self.answered.iter().filter_map(|answer| answer.get(2..)).fold(0, |count, answer| match answer {
            "open 0" | "open 22" => count + 1,
            _ if answer.starts_with("close 0") => count - 1,
            _ => count,
        });
        count == 0
    }

    /// Whether both answers name the same mapped nodes, in any order.
    pub(super) fn same_mapped(&self) -> bool {
        let nodes = |answer: &str| {
            let list = answer.split(' ').find_map(|word| word.strip_prefix("Mapped="))?;
            let mut nodes: Vec<String> = list.split([':', ',']).map(str::to_owned).collect();
            nodes.sort();
            Some(nodes)
        };
        nodes(self.theirs) == nodes(self.ours)
    }

    /// Theirs and ours.
    pub(super) fn statuses(&self) -> (u32, u32) {
        (status(self.theirs), status(self.ours))
    }

    /// What the address belonged to before the call: type and mapped nodes.
    pub(super) fn was(&self) -> Option<(u32, u32)> {
        let word = self.theirs.split(' ').find_map(|word| word.strip_prefix("was="))?;
        let (kind, mapped) = word.split_once(',')?;
        Some((kind.parse().ok()?, mapped.parse().ok()?))
    }

    pub(super) fn found(&self, kind: u32) -> bool {
        self.was().is_some_and(|(found, _)| found == kind)
    }

    pub(super) fn found_mapped(&self) -> bool {
        self.was().is_some_and(|(_, mapped)| mapped > 0)
    }
}

fn hexadecimal(word: &str) -> u64 {
    word.strip_prefix("0x").and_then(|digits| u64::from_str_radix(digits, 16).ok()).unwrap_or(0)
}

/// An answer without the words that begin so.
pub(super) fn without(answer: &str, prefixes: &[&str]) -> String {
    answer.split(' ').filter(|word| !prefixes.iter().any(|prefix| word.starts_with(prefix))).collect()
}

/// The status in an answer; [`u32::MAX`] if there is none.
fn status(answer: &str) -> u32 {
    answer.split(' ').skip(2).find_map(|word| word.parse().ok()).unwrap_or(u32::MAX)
}
