//! Whether others wanted to run while something was measured.

use crate::spread::mean;

/// More others than this often leave no CPU for a second thread on small machines.
const BUSY: f64 = 0.5;

/// How many threads of others wanted to run, each time it was looked.
#[derive(Debug, Default)]
pub(crate) struct Others {
    seen: Vec<f64>,
}

impl Others {
    /// Looks now. Only the calling thread of this program may be at work.
    pub(crate) fn look(&mut self) {
        let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
        self.seen.extend(others_in(&text));
    }

    /// On average, if the system says.
    pub(crate) fn mean(&self) -> Option<f64> {
        mean(&self.seen)
    }

    /// What to print if the machine was busy.
    pub(crate) fn note(&self) -> Option<String> {
        let load = self.mean().filter(|load| *load > BUSY)?;
        Some(format!("The machine was busy ({load:.1} threads of others wanted to run)"))
    }
}

/// Running threads but the one that reads, in the text of /proc/loadavg.
fn others_in(text: &str) -> Option<f64> {
    let (running, _) = text.split_whitespace().nth(3)?.split_once('/')?;
    running.parse().ok().map(|running: f64| running - 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_busy_machine_is_noted() {
        assert_eq!(others_in("0.20 0.18 0.12 3/1024 11206\n"), Some(2.0));
        assert_eq!(others_in(""), None);
        assert_eq!(Others::default().note(), None);
        assert_eq!(Others { seen: vec![0.0, 1.0] }.note(), None);
        let busy = Others { seen: vec![1.0, 2.0] }.note().unwrap();
        assert!(busy.contains("busy (1.5 threads"), "{busy}");
    }
}
