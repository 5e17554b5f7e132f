//! Shared virtual memory: attributes of ranges of ordinary memory, the kernel's `svm_range`s.
//!
//! A range is split where a call covers a part of it and merged with a neighbour of equal attributes. Setting needs
//! ordinary mappings under the whole range (`EFAULT`) and no mapped buffer object on it (`EADDRINUSE`); allocating a
//! buffer object on a range is refused the same way, unless the memory of that range is gone.

use std::collections::BTreeMap;

use hsakmt_core::driver::Errno;
use zerocopy::IntoBytes;

use super::{FAULT, PAGE, PERM, Process, ProcessId, SvmMode, World};
use crate::sim::caller::Caller;
use crate::uapi::{
    KFD_IOCTL_SVM_ATTR_ACCESS, KFD_IOCTL_SVM_ATTR_ACCESS_IN_PLACE, KFD_IOCTL_SVM_ATTR_CLR_FLAGS,
    KFD_IOCTL_SVM_ATTR_GRANULARITY, KFD_IOCTL_SVM_ATTR_NO_ACCESS, KFD_IOCTL_SVM_ATTR_PREFERRED_LOC,
    KFD_IOCTL_SVM_ATTR_PREFETCH_LOC, KFD_IOCTL_SVM_ATTR_SET_FLAGS, KFD_IOCTL_SVM_FLAG_COHERENT,
    KFD_IOCTL_SVM_FLAG_GPU_ALWAYS_MAPPED, KFD_IOCTL_SVM_FLAG_GPU_RO, KFD_IOCTL_SVM_FLAG_HOST_ACCESS,
    KFD_IOCTL_SVM_LOCATION_SYSMEM, KFD_IOCTL_SVM_LOCATION_UNDEFINED, KFD_IOCTL_SVM_OP_GET_ATTR,
    KFD_IOCTL_SVM_OP_SET_ATTR, SvmArgs, SvmAttribute, from_caller,
};

const ADDRESS_IN_USE: Errno = Errno(libc::EADDRINUSE);

/// What is known of one range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Attributes {
    pub(crate) preferred: u32,
    prefetch: u32,
    pub(crate) access: u64,
    in_place: u64,
    flags: u32,
    granularity: u32,
}

impl Attributes {
    pub(crate) fn new(access: u64) -> Attributes {
        Attributes {
            preferred: KFD_IOCTL_SVM_LOCATION_UNDEFINED,
            prefetch: KFD_IOCTL_SVM_LOCATION_UNDEFINED,
            access,
            in_place: 0,
            flags: KFD_IOCTL_SVM_FLAG_HOST_ACCESS | KFD_IOCTL_SVM_FLAG_COHERENT,
            granularity: 9,
        }
    }

    /// What holds for both.
    fn common(self, other: Attributes) -> Attributes {
        let same = |a: u32, b: u32| if a == b { a } else { KFD_IOCTL_SVM_LOCATION_UNDEFINED };
        Attributes {
            preferred: same(self.preferred, other.preferred),
            prefetch: same(self.prefetch, other.prefetch),
            access: self.access & other.access,
            in_place: self.in_place & other.in_place,
            flags: self.flags & other.flags,
            granularity: self.granularity.min(other.granularity),
        }
    }
}

/// A process's ranges: start -> (end, attributes). They do not overlap.
#[derive(Debug, Default)]
pub(crate) struct Ranges(BTreeMap<u64, (u64, Attributes)>);

impl Ranges {
    /// The ranges that have an address in `start..end`.
    pub(crate) fn over(&self, start: u64, end: u64) -> impl Iterator<Item = (u64, u64, Attributes)> + '_ {
        let first = self.0.range(..=start).next_back().map_or(start, |(first, _)| *first);
        self.0.range(first..end).map(|(start, (end, it))| (*start, *end, *it)).filter(move |(_, last, _)| *last > start)
    }

    /// Makes `at` a border, if it lies inside a range.
    fn split(&mut self, at: u64) {
        let Some((_, (end, it))) = self.0.range_mut(..at).next_back() else { return };
        if *end > at {
            let (rest, it) = (*end, *it);
            *end = at;
            self.0.insert(at, (rest, it));
        }
    }

    pub(crate) fn remove(&mut self, start: u64, end: u64) {
        self.split(start);
        self.split(end);
        self.0.retain(|at, _| *at < start || *at >= end);
    }

    /// Applies `change` to every page of `start..end`, known or new, then merges what became equal.
    pub(crate) fn change(&mut self, start: u64, end: u64, fresh: Attributes, change: impl Fn(&mut Attributes)) {
        self.split(start);
        self.split(end);
        let mut at = start;
        let known: Vec<(u64, u64)> = self.over(start, end).map(|(start, end, _)| (start, end)).collect();
        for (first, last) in known.into_iter().chain([(end, end)]) {
            if at < first {
                self.0.insert(at, (first, fresh));
            }
            at = last;
        }
        for (_, (_, it)) in self.0.range_mut(start..end) {
            change(it);
        }
        self.merge(start, end);
    }

    fn merge(&mut self, start: u64, end: u64) {
        let first = self.0.range(..start).next_back().map_or(start, |(first, _)| *first);
        let starts: Vec<u64> = self.0.range(first..=end).map(|(start, _)| *start).collect();
        let mut before: Option<u64> = None;
        for at in starts {
            let Some(&(until, it)) = self.0.get(&at) else { continue };
            match before.and_then(|before| self.0.get_mut(&before)) {
                Some((end, same)) if *end == at && *same == it => {
                    *end = until;
                    self.0.remove(&at);
                }
                _ => before = Some(at),
            }
        }
    }

    /// How many there are.
    #[cfg(test)]
    pub(crate) fn count(&self) -> usize {
        self.0.len()
    }
}

impl World {
    /// Bit n: the n-th GPU does shared virtual memory.
    fn svm_gpus(&self) -> u64 {
        let all = self.svm_mode != SvmMode::Machine;
        let bit = |(index, gpu): (usize, &crate::sim::description::Gpu)| u64::from(all || gpu.svm) << index;
        self.machine.gpus.iter().enumerate().map(bit).sum()
    }

    pub(crate) fn svm(&mut self, p: &mut Process, bytes: &mut [u8], caller: &mut dyn Caller) -> Result<(), Errno> {
        let args: SvmArgs = from_caller(bytes);
        let list = bytes.get_mut(size_of::<SvmArgs>()..).unwrap_or(&mut []);
        let size = args.nattr as usize * size_of::<SvmAttribute>();
        let list = list.get_mut(..size).ok_or(Errno::INVAL)?;
        if let SvmMode::Fail(error) = self.svm_mode {
            return Err(error);
        }
        if self.svm_gpus() == 0 {
            return Err(PERM);
        }
        if !p.primary {
            return Err(Errno(libc::EOPNOTSUPP));
        }
        let mut attributes: Vec<SvmAttribute> = list.chunks(size_of::<SvmAttribute>()).map(from_caller).collect();
        if self.tracing {
            self.lists.push(("attributes", attributes.iter().flat_map(|it| [it.kind, it.value]).collect()));
        }
        let end = args.start_addr.checked_add(args.size);
        if self.svm_mode != SvmMode::AcceptAll {
            let aligned = args.start_addr.is_multiple_of(PAGE) && args.size.is_multiple_of(PAGE);
            if !aligned || args.start_addr == 0 || args.size == 0 || end.is_none() {
                return Err(Errno::INVAL);
            }
        }
        let end = end.unwrap_or(u64::MAX);
        match args.op {
            KFD_IOCTL_SVM_OP_SET_ATTR => self.svm_set(p, args.start_addr, end, &attributes, caller),
            KFD_IOCTL_SVM_OP_GET_ATTR => {
                self.svm_get(p, args.start_addr, end, &mut attributes, caller)?;
                for (to, from) in list.iter_mut().zip(attributes.as_slice().as_bytes()) {
                    *to = *from;
                }
                Ok(())
            }
            _ => Err(Errno::INVAL),
        }
    }

    /// Whether a GPU may use an address as shared memory: where that ends, and whether it may write.
    pub(crate) fn shared(&self, p: &Process, gpu: usize, va: u64) -> Option<(u64, bool)> {
        let bit = 1 << gpu;
        match p.ranges.over(va, va + 1).next() {
            Some((_, end, it)) if (it.access | it.in_place) & bit != 0 || p.xnack => {
                Some((end, it.flags & KFD_IOCTL_SVM_FLAG_GPU_RO == 0))
            }
            Some(_) => None,
            // With retry faults every page of the process is shared.
            None if p.xnack && self.svm_gpus() & bit != 0 => Some(((va & !(PAGE - 1)).checked_add(PAGE)?, true)),
            None => None,
        }
    }

    /// Whether shared memory that is always mapped on a GPU covers `start..start + size`.
    pub(crate) fn always_mapped(&self, p: &Process, gpu: usize, start: u64, size: u64) -> bool {
        let Some(end) = start.checked_add(size) else { return false };
        let mut at = start;
        for (first, last, it) in p.ranges.over(start, end) {
            let usable =
                (it.access | it.in_place) & (1 << gpu) != 0 && it.flags & KFD_IOCTL_SVM_FLAG_GPU_ALWAYS_MAPPED != 0;
            if first > at || !usable {
                return false;
            }
            at = last;
        }
        at >= end
    }

    /// The bit of a GPU that an attribute names.
    fn svm_gpu(&self, id: u32) -> Result<u64, Errno> {
        let bit = 1 << self.gpu(id)?;
        if self.svm_gpus() & bit == 0 { Err(Errno::INVAL) } else { Ok(bit) }
    }

    fn svm_check(&self, attribute: &SvmAttribute) -> Result<(), Errno> {
        let place = |value: u32| match value {
            KFD_IOCTL_SVM_LOCATION_SYSMEM => Ok(()),
            id => self.svm_gpu(id).map(drop),
        };
        match attribute.kind {
            KFD_IOCTL_SVM_ATTR_PREFERRED_LOC if attribute.value == KFD_IOCTL_SVM_LOCATION_UNDEFINED => Ok(()),
            KFD_IOCTL_SVM_ATTR_PREFERRED_LOC | KFD_IOCTL_SVM_ATTR_PREFETCH_LOC => place(attribute.value),
            KFD_IOCTL_SVM_ATTR_ACCESS | KFD_IOCTL_SVM_ATTR_ACCESS_IN_PLACE | KFD_IOCTL_SVM_ATTR_NO_ACCESS => {
                self.svm_gpu(attribute.value).map(drop)
            }
            KFD_IOCTL_SVM_ATTR_SET_FLAGS | KFD_IOCTL_SVM_ATTR_CLR_FLAGS | KFD_IOCTL_SVM_ATTR_GRANULARITY => Ok(()),
            _ => Err(Errno::INVAL),
        }
    }

    fn svm_range_is_valid(&self, start: u64, end: u64, caller: &mut dyn Caller) -> Result<(), Errno> {
        let accept = self.svm_mode == SvmMode::AcceptAll;
        if accept || caller.mapped(start, end - start) { Ok(()) } else { Err(FAULT) }
    }

    fn svm_set(
        &self,
        p: &mut Process,
        start: u64,
        end: u64,
        attributes: &[SvmAttribute],
        caller: &mut dyn Caller,
    ) -> Result<(), Errno> {
        attributes.iter().try_for_each(|attribute| self.svm_check(attribute))?;
        self.svm_range_is_valid(start, end, caller)?;
        if self.svm_mode != SvmMode::AcceptAll && mapped_object(p, start, end) {
            return Err(ADDRESS_IN_USE);
        }
        if start == end {
            return Ok(());
        }
        let fresh = self.fresh(p);
        p.ranges.change(start, end, fresh, |it| attributes.iter().for_each(|attribute| self.apply(it, attribute)));
        Ok(())
    }

    /// What a page has that no call was about: with retry faults on, every GPU may use it.
    fn fresh(&self, p: &Process) -> Attributes {
        Attributes::new(if p.xnack { self.svm_gpus() } else { 0 })
    }

    fn apply(&self, it: &mut Attributes, attribute: &SvmAttribute) {
        let bit = self.svm_gpu(attribute.value).unwrap_or(0);
        match attribute.kind {
            KFD_IOCTL_SVM_ATTR_PREFERRED_LOC => it.preferred = attribute.value,
            KFD_IOCTL_SVM_ATTR_PREFETCH_LOC => it.prefetch = attribute.value,
            KFD_IOCTL_SVM_ATTR_ACCESS => (it.access, it.in_place) = (it.access | bit, it.in_place & !bit),
            KFD_IOCTL_SVM_ATTR_ACCESS_IN_PLACE => (it.access, it.in_place) = (it.access & !bit, it.in_place | bit),
            KFD_IOCTL_SVM_ATTR_NO_ACCESS => (it.access, it.in_place) = (it.access & !bit, it.in_place & !bit),
            KFD_IOCTL_SVM_ATTR_SET_FLAGS => it.flags |= attribute.value,
            KFD_IOCTL_SVM_ATTR_CLR_FLAGS => it.flags &= !attribute.value,
            KFD_IOCTL_SVM_ATTR_GRANULARITY => it.granularity = attribute.value.min(0x3f),
            _ => {}
        }
    }

    fn svm_get(
        &self,
        p: &Process,
        start: u64,
        end: u64,
        attributes: &mut [SvmAttribute],
        caller: &mut dyn Caller,
    ) -> Result<(), Errno> {
        self.svm_range_is_valid(start, end, caller)?;
        let known = p.ranges.over(start, end).map(|(_, _, it)| it);
        let (all, any) = known
            .fold((None, 0), |(all, any), it| (Some(all.map_or(it, |all: Attributes| all.common(it))), any | it.flags));
        let (all, any) = all.map_or_else(|| (self.fresh(p), self.fresh(p).flags), |all| (all, any));
        for attribute in attributes {
            match attribute.kind {
                KFD_IOCTL_SVM_ATTR_PREFERRED_LOC => attribute.value = all.preferred,
                KFD_IOCTL_SVM_ATTR_PREFETCH_LOC => attribute.value = all.prefetch,
                KFD_IOCTL_SVM_ATTR_ACCESS => {
                    let bit = self.svm_gpu(attribute.value)?;
                    attribute.kind = if all.access & bit != 0 {
                        KFD_IOCTL_SVM_ATTR_ACCESS
                    } else if all.in_place & bit != 0 {
                        KFD_IOCTL_SVM_ATTR_ACCESS_IN_PLACE
                    } else {
                        KFD_IOCTL_SVM_ATTR_NO_ACCESS
                    };
                }
                KFD_IOCTL_SVM_ATTR_SET_FLAGS => attribute.value = all.flags,
                KFD_IOCTL_SVM_ATTR_CLR_FLAGS => attribute.value = !any,
                KFD_IOCTL_SVM_ATTR_GRANULARITY => attribute.value = all.granularity,
                _ => return Err(Errno::INVAL),
            }
        }
        Ok(())
    }

    /// The process gives addresses back: no range is there any more.
    pub fn unmapped(&mut self, process: ProcessId, start: u64, size: u64) {
        let end = start.saturating_add(size).div_ceil(PAGE).saturating_mul(PAGE);
        if start.is_multiple_of(PAGE)
            && size > 0
            && let Some(p) = self.processes.get_mut(&process)
        {
            p.ranges.remove(start, end);
        }
    }

    /// Refuses GPU addresses that live shared memory has; forgets ranges whose memory is gone.
    pub(crate) fn check_against_ranges(
        &self,
        p: &mut Process,
        va: u64,
        size: u64,
        caller: &mut dyn Caller,
    ) -> Result<(), Errno> {
        let end = va.saturating_add(size);
        if va == 0 || self.svm_mode == SvmMode::AcceptAll {
            return Ok(());
        }
        loop {
            let first = p.ranges.over(va, end).next();
            let Some((start, last, _)) = first else { return Ok(()) };
            let (from, until) = (start.max(va), last.min(end));
            if caller.readable(from, until - from) {
                return Err(ADDRESS_IN_USE);
            }
            p.ranges.remove(from, until);
        }
    }
}

/// Whether a mapped buffer object has, or stands for, an address in `start..end`.
fn mapped_object(p: &Process, start: u64, end: u64) -> bool {
    let in_space = p.gpus.iter().any(|gpu| gpu.space.overlapping(start, end - 1).is_some());
    in_space
        || p.bos.values().any(|bo| {
            let user = bo.user_address.filter(|_| bo.mapped != 0);
            user.is_some_and(|user| user < end && user.saturating_add(bo.size) > start)
        })
}
