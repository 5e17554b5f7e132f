//! The memory's atomic operations, as the packets of PM4 and SDMA number them.
//!
//! Numbers from 32 are 64 bits wide, those below 32 bits; bit 6 says that the old value is not needed. The engine reads,
//! computes and writes: atomic for the GPU's queues, which run one at a time, but not for the process's own threads.

use super::{Engine, Halt};

/// What one operation makes of the value in memory; `None`: no such operation. All values are `bits` wide.
fn result(operation: u32, bits: u32, old: u64, source: u64, compare: u64) -> Option<u64> {
    let signed = |value: u64| (value << (64 - bits)) as i64;
    Some(match operation {
        7 => source,
        8 => {
            if old == compare {
                source
            } else {
                old
            }
        }
        15 => old.wrapping_add(source),
        16 => old.wrapping_sub(source),
        17 if signed(source) < signed(old) => source,
        19 if signed(source) > signed(old) => source,
        17 | 19 => old,
        18 => old.min(source),
        20 => old.max(source),
        21 => old & source,
        22 => old | source,
        23 => old ^ source,
        24 if old >= source => 0,
        24 => old + 1,
        25 if old == 0 || old > source => source,
        25 => old - 1,
        _ => return None,
    })
}

impl Engine<'_> {
    /// Does one operation on GPU memory; gives the old value.
    pub(super) fn atomic(&mut self, operation: u32, va: u64, source: u64, compare: u64) -> Result<u64, Halt> {
        let wide = operation & 0x20 != 0;
        let mask = if wide { u64::MAX } else { u32::MAX.into() };
        let old = if wide { self.read_u64(va)? } else { self.read_u32(va)?.into() };
        let bits = if wide { 64 } else { 32 };
        let new = result(operation & 0x1f, bits, old, source & mask, compare & mask)
            .ok_or_else(|| Halt::Error(format!("atomic operation {operation:#x} is not simulated")))?;
        if wide {
            self.write(va, &new.to_le_bytes())?;
        } else {
            self.write(va, &(new as u32).to_le_bytes())?;
        }
        Ok(old)
    }
}

#[cfg(test)]
mod tests {
    use super::result;

    #[test]
    fn every_operation_computes_what_it_is_named_for() {
        let wide = |operation, old, source| result(operation, 64, old, source, 0);
        assert_eq!(wide(7, 3, 9), Some(9));
        assert_eq!(result(8, 64, 3, 9, 3), Some(9));
        assert_eq!(result(8, 64, 4, 9, 3), Some(4));
        assert_eq!(wide(15, 1, u64::MAX), Some(0));
        assert_eq!(wide(16, 1, 2), Some(u64::MAX));
        assert_eq!((wide(17, 1, u64::MAX), wide(18, 1, u64::MAX)), (Some(u64::MAX), Some(1)));
        assert_eq!((wide(19, 1, u64::MAX), wide(20, 1, u64::MAX)), (Some(1), Some(u64::MAX)));
        assert_eq!((wide(21, 6, 3), wide(22, 6, 3), wide(23, 6, 3)), (Some(2), Some(7), Some(5)));
        assert_eq!((wide(24, 3, 3), wide(24, 2, 3)), (Some(0), Some(3)));
        assert_eq!((wide(25, 0, 3), wide(25, 9, 3), wide(25, 2, 3)), (Some(3), Some(3), Some(1)));
        assert_eq!(result(17, 32, 1, 0xffff_ffff, 0), Some(0xffff_ffff));
        assert_eq!(wide(31, 1, 1), None);
    }
}
