//! `/proc/PID/maps`: which addresses of a process are mapped, and how.

/// One mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Map {
    /// First address.
    pub start: u64,
    /// First address behind.
    pub end: u64,
    /// May be read.
    pub readable: bool,
    /// Shows one of the simulated devices.
    pub device: bool,
}

/// All mappings of a process, by address.
#[derive(Debug, Default)]
pub struct Maps(Vec<Map>);

impl Maps {
    /// Reads the text of `/proc/PID/maps`; lines that are not understood are left out.
    pub fn parse(text: &str) -> Maps {
        let line = |line: &str| {
            let (range, rest) = line.split_once(' ')?;
            let (start, end) = range.split_once('-')?;
            Some(Map {
                start: u64::from_str_radix(start, 16).ok()?,
                end: u64::from_str_radix(end, 16).ok()?,
                readable: rest.starts_with('r'),
                device: rest.contains("/memfd:kfd-sim."),
            })
        };
        Maps(text.lines().filter_map(line).collect())
    }

    /// The mappings of this process.
    pub fn of_this_process() -> Maps {
        Maps::parse(&std::fs::read_to_string("/proc/self/maps").unwrap_or_default())
    }

    /// Whether mappings for which `holds` leave no gap in `start..end`.
    pub fn covers(&self, start: u64, end: u64, holds: impl Fn(&Map) -> bool) -> bool {
        let mut at = start;
        for map in self.0.iter().filter(|map| map.end > start && holds(map)) {
            if at >= end || map.start > at {
                break;
            }
            at = map.end;
        }
        at >= end
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gap_or_a_guard_page_is_seen() {
        let maps = Maps::parse("1000-3000 rw-p 0 00:00 0 \n3000-4000 ---p 0 00:00 0 \n6000-7000 r--s 0 00:01 9 /x\n");
        assert!(maps.covers(0x1000, 0x3000, |map| map.readable));
        assert!(!maps.covers(0x1000, 0x4000, |map| map.readable));
        assert!(maps.covers(0x1000, 0x4000, |_| true));
        assert!(!maps.covers(0x1000, 0x7000, |_| true));
        assert!(!maps.covers(0x4000, 0x5000, |_| true));
        assert!(maps.covers(0x6800, 0x7000, |_| true));
    }
}
