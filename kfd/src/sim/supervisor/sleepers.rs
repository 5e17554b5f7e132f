//! Calls that sleep: WAIT_EVENTS, and RUNTIME_ENABLE under a debugger. Each is asked for again when an event has changed, at its
//! deadline, and every few milliseconds for the signals of its thread.

use std::time::{Duration, Instant};

use super::super::machine::{Answer, ProcessId, Wait};
use super::Supervisor;
use super::listener::Call;
use super::stopped::Stopped;

/// How often a sleeping thread is asked for signals: the kernel tells no one that a stopped call has one.
const SIGNALS_EVERY: Duration = Duration::from_millis(20);

/// A stopped WAIT_EVENTS, or RUNTIME_ENABLE.
#[derive(Debug)]
pub(super) struct Sleeper {
    pub(super) call: Call,
    pub(super) kfd: ProcessId,
    pub(super) wait: Wait,
}

impl Supervisor {
    /// Asks again for every sleeping wait, if one of them could be over.
    pub(super) fn wake_sleepers(&mut self) {
        let now = Instant::now();
        let due = |sleeper: &Sleeper| sleeper.wait.deadline.is_some_and(|deadline| deadline <= now);
        let changed = self.events_seen != self.world.event_changes;
        let signals = self.next_look <= now;
        if !changed && !signals && !self.sleepers.iter().any(due) {
            return;
        }
        self.events_seen = self.world.event_changes;
        if signals {
            self.next_look = now + SIGNALS_EVERY;
        }
        let nonce = self.world.nonce();
        for sleeper in std::mem::take(&mut self.sleepers) {
            let task = self.tasks.get(sleeper.call.tid).ok().filter(|_| self.listener.is_valid(sleeper.call.id));
            let Some(task) = task else {
                self.world.abandon(sleeper.kfd, sleeper.wait);
                continue;
            };
            let mut caller = Stopped { task, listener: &self.listener, call: sleeper.call.id, nonce };
            let argument = sleeper.call.arguments[2];
            let answer = match self.world.resume(sleeper.kfd, sleeper.wait, argument, &mut caller) {
                Answer::Sleep(wait) => match signals.then(|| task.interruption()).flatten() {
                    Some(error) => self.world.interrupt_wait(sleeper.kfd, wait, argument, error, &mut caller),
                    None => Answer::Sleep(wait),
                },
                answer => answer,
            };
            match answer {
                Answer::Done(result) => self.listener.answer(sleeper.call.id, result.map(|()| 0)),
                _ => self.sleepers.push(sleeper),
            }
        }
    }
}
