//! When the simulated GPU works: the supervisor's loop gives every process's queues a turn, then sleeps until the next
//! system call or, while a queue exists, for a moment that grows as nothing happens.

use std::time::{Duration, Instant};

use serde_json::json;

use super::super::machine::ProcessId;
use super::super::machine::bus::Bus;
use super::Supervisor;
use super::bus::ProcessBus;

/// Between two looks at the doorbells while packets run.
const SHORTEST: Duration = Duration::from_micros(20);
/// After a while without packets.
const LONGEST: Duration = Duration::from_millis(2);
/// Looks without a packet before the pause doubles.
const PATIENCE: u32 = 50;

/// How long to sleep between two looks at the doorbells.
#[derive(Debug, Default)]
pub(crate) struct Pace {
    /// Some process has an active queue.
    active: bool,
    pause: Duration,
    idle: u32,
}

impl Pace {
    /// When to look again; `None`: no queue is there.
    pub(crate) fn next(&self) -> Option<Instant> {
        self.active.then(|| Instant::now() + self.pause)
    }

    /// Takes note of a look: packets ran or not.
    fn looked(&mut self, active: bool, ran: bool) {
        self.active = active;
        if ran {
            (self.pause, self.idle) = (Duration::ZERO, 0);
            return;
        }
        self.idle += 1;
        self.pause = self.pause.max(SHORTEST);
        if self.idle.is_multiple_of(PATIENCE) {
            self.pause = (self.pause * 2).min(LONGEST);
        }
    }

    /// A process created or changed a queue: it will be used soon.
    pub(crate) fn hurry(&mut self) {
        (self.active, self.pause, self.idle) = (true, Duration::ZERO, 0);
    }
}

impl Supervisor {
    /// Gives every process's queues a turn.
    pub(crate) fn run_queues(&mut self) {
        if !self.pace.active {
            return;
        }
        let (mut active, mut ran) = (false, false);
        for (process, kfd) in self.processes.machines() {
            if self.world.has_active_queues(kfd) && self.processes.is_same_program(process) {
                active = true;
                ran |= self.run_queues_of(process, kfd);
            }
        }
        self.pace.looked(active, ran);
    }

    fn run_queues_of(&mut self, process: u32, kfd: ProcessId) -> bool {
        let task = self.tasks.get(process).ok();
        let mut bus = ProcessBus { renders: &self.renders, kfds: self.processes.files(process), task };
        let ran = self.world.run_queues(kfd, &mut bus);
        for note in self.world.take_notes() {
            let text = format!("queue {} on GPU {:#x}: {}", note.queue, note.gpu, note.text);
            eprintln!("kfd-sim: process {process}: {text}");
            if let Some(journal) = &mut self.journal {
                journal.line(process, process, "queue_stopped", json!({ "text": text }), Ok(()));
            }
        }
        ran
    }

    /// Writes what an ioctl leads to.
    pub(crate) fn poke(&mut self, process: u32) {
        let pokes = self.world.take_pokes();
        if pokes.is_empty() {
            return;
        }
        let mut bus = ProcessBus { renders: &self.renders, kfds: self.processes.files(process), task: None };
        for poke in pokes {
            if let Err(error) = bus.write(poke.place, &poke.bytes) {
                log::warn!("process {process}: {:?} cannot be written: {error:?}", poke.place);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pause_grows_while_nothing_runs_and_ends_without_queues() {
        let mut pace = Pace::default();
        assert_eq!(pace.next(), None);
        pace.hurry();
        pace.looked(true, true);
        assert_eq!(pace.pause, Duration::ZERO);
        pace.looked(true, false);
        assert_eq!(pace.pause, SHORTEST);
        (0..1000).for_each(|_| pace.looked(true, false));
        assert_eq!(pace.pause, LONGEST);
        pace.looked(true, true);
        assert_eq!(pace.pause, Duration::ZERO);
        pace.looked(false, false);
        assert_eq!(pace.next(), None);
    }
}
