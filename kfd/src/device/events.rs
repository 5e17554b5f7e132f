//! Events: the ioctls that make, set and end them, and the one that waits.

use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use hsakmt_core::driver::{Errno, Handle};
use rustix::mm::{MapFlags, ProtFlags};

use super::{Arrays, Device, Transport};
use crate::host::errno;
use crate::opcode;
use crate::uapi::*;

/// A wait without an end.
const FOR_EVER: u32 = u32::MAX;

/// What a new event is to be.
#[derive(Clone, Copy, Debug)]
pub struct EventRequest {
    /// `KFD_IOC_EVENT_*`.
    pub kind: u32,
    /// For some kinds only.
    pub node: u32,
    /// A wait that the event ends resets it.
    pub auto_reset: bool,
    /// The buffer that becomes the event page of this process; at most one ever does.
    pub page: Option<Handle>,
}

/// A new event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KfdEvent {
    /// Its number.
    pub id: u32,
    /// What a GPU writes to signal it.
    pub trigger: u32,
    /// Where the event page can be mapped; 0 for an event without a slot.
    pub page_offset: u64,
    /// Its slot on the event page.
    pub slot: u32,
}

impl<T: Transport> Device<T> {
    /// Makes an event. `EINVAL` for a second event page.
    #[doc(alias = "AMDKFD_IOC_CREATE_EVENT")]
    pub fn create_event(&self, request: EventRequest) -> Result<KfdEvent, Errno> {
        let mut args = CreateEventArgs {
            event_page_offset: request.page.map_or(0, |handle| handle.0),
            event_type: request.kind,
            auto_reset: u32::from(request.auto_reset),
            node_id: request.node,
            ..Default::default()
        };
        // SAFETY: the struct holds numbers only.
        unsafe { self.update::<{ opcode::CREATE_EVENT }, _>(&mut args) }?;
        Ok(KfdEvent {
            id: args.event_id,
            trigger: args.event_trigger_data,
            page_offset: args.event_page_offset,
            slot: args.event_slot_index,
        })
    }

    /// Ends an event; waits for it end without it.
    #[doc(alias = "AMDKFD_IOC_DESTROY_EVENT")]
    pub fn destroy_event(&self, event: u32) -> Result<(), Errno> {
        // SAFETY: the struct holds a number only.
        unsafe { self.set::<{ opcode::DESTROY_EVENT }, _>(DestroyEventArgs { event_id: event, pad: 0 }) }
    }

    /// Signals an event.
    #[doc(alias = "AMDKFD_IOC_SET_EVENT")]
    pub fn set_event(&self, event: u32) -> Result<(), Errno> {
        // SAFETY: the struct holds a number only.
        unsafe { self.set::<{ opcode::SET_EVENT }, _>(SetEventArgs { event_id: event, pad: 0 }) }
    }

    /// Makes an event unsignalled.
    #[doc(alias = "AMDKFD_IOC_RESET_EVENT")]
    pub fn reset_event(&self, event: u32) -> Result<(), Errno> {
        // SAFETY: the struct holds a number only.
        unsafe { self.set::<{ opcode::RESET_EVENT }, _>(ResetEventArgs { event_id: event, pad: 0 }) }
    }

    /// Waits until one event, or all of them, are signalled, at most `milliseconds`; `u32::MAX` is for ever. Returns
    /// `KFD_IOC_WAIT_RESULT_*`; what the events brought is in `events`. A signal does not end the wait, and it does not
    /// make it longer.
    #[doc(alias = "AMDKFD_IOC_WAIT_EVENTS")]
    pub fn wait_events(&self, events: &mut [EventData], all: bool, milliseconds: u32) -> Result<u32, Errno> {
        let num_events = u32::try_from(events.len()).map_err(|_| Errno::INVAL)?;
        let events = Arrays::written(events);
        let mut args = WaitEventsArgs {
            events_ptr: events.first(),
            num_events,
            wait_for_all: u32::from(all),
            timeout: milliseconds,
            wait_result: 0,
        };
        let bounded = milliseconds != FOR_EVER && milliseconds != 0;
        let deadline = bounded.then(|| Instant::now() + Duration::from_millis(milliseconds.into()));
        loop {
            // Not `update_with`, which would start an interrupted wait again with all of its time.
            // SAFETY: the kernel reads and writes `num_events` structs, which the array has, and the struct itself.
            match unsafe { self.transport.update::<{ opcode::WAIT_EVENTS }, _>(&mut args, &events) } {
                Ok(()) => return Ok(args.wait_result),
                Err(Errno(libc::EINTR | libc::EAGAIN)) => {}
                Err(errno) => return Err(errno),
            }
            // What the kernel says is left in `timeout` is a clock tick less at each signal.
            if let Some(deadline) = deadline {
                args.timeout = left(deadline, Instant::now());
            }
        }
    }

    /// Shows the event page that the kernel made to the CPU: `bytes` from `offset`, at `place` or anywhere. It stays until the
    /// process ends.
    ///
    /// # Safety
    /// `place` is `None`, or it starts `bytes` of addresses that show an event page, and only code of the event page uses them:
    /// what they show is replaced.
    ///
    /// ```compile_fail,E0133
    /// # fn example(device: &hsakmt_kfd::device::Device) {
    /// let _ = device.map_event_page(0, 4096, Some(0x7000_0000));
    /// # }
    /// ```
    /// ```
    /// # fn example(device: &hsakmt_kfd::device::Device) {
    /// // SAFETY: nothing is replaced.
    /// let _ = unsafe { device.map_event_page(0, 4096, None) };
    /// # }
    /// ```
    pub unsafe fn map_event_page(&self, offset: u64, bytes: usize, place: Option<usize>) -> Result<usize, Errno> {
        let access = ProtFlags::READ | ProtFlags::WRITE;
        let (at, flags) = match place {
            Some(place) => (std::ptr::with_exposed_provenance_mut(place), MapFlags::SHARED | MapFlags::FIXED),
            None => (std::ptr::null_mut(), MapFlags::SHARED),
        };
        // SAFETY: new addresses, or those that the caller gives up; the page's bytes are the kernel's and the GPU's to change,
        // and no Rust reference leads there.
        let page = unsafe { rustix::mm::mmap(at, bytes, access, flags, self.as_fd(), offset) };
        page.map(|page| page.expose_provenance()).map_err(errno)
    }
}

/// Milliseconds until `deadline`, rounded up.
fn left(deadline: Instant, now: Instant) -> u32 {
    let left = deadline.saturating_duration_since(now).as_nanos().div_ceil(1_000_000);
    u32::try_from(left).unwrap_or(FOR_EVER - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_is_rounded_up_and_never_for_ever() {
        let now = Instant::now();
        let after = |nanoseconds| now + Duration::from_nanos(nanoseconds);
        assert_eq!([0, 1, 1_000_000, 1_000_001].map(|nanoseconds| left(after(nanoseconds), now)), [0, 1, 1, 2]);
        assert_eq!(left(now, after(5)), 0);
        assert_eq!(left(now + Duration::from_secs(1 << 40), now), FOR_EVER - 1);
    }
}
