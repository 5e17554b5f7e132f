//! Everything a failed verb must leave as it was: [`State`].
//!
//! As lines of text: each published object with all its fields, what the kernel holds, every mapping of this process,
//! every file descriptor. Left out of the mappings is what the verbs have nothing to do with and the process moves by
//! itself: the heap and the stacks.

use std::collections::BTreeMap;

use hsakmt::Context;
use hsakmt_kfd::sim::embedded::EmbeddedMachine;

/// All of it, at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct State {
    lines: Vec<String>,
}

impl State {
    /// What is now: of these contexts, this machine's kernel (`None`: it is not in this process), and this process.
    pub fn now(machine: Option<&EmbeddedMachine>, contexts: &[Context]) -> State {
        let mut state = State::held(machine, contexts);
        state.lines.extend(mappings().into_iter().map(|line| format!("mapped: {line}")));
        state.lines.extend(descriptors().into_iter().map(|line| format!("file: {line}")));
        state
    }

    /// The same without the process's own mappings and files, where others may be at work in it.
    pub fn held(machine: Option<&EmbeddedMachine>, contexts: &[Context]) -> State {
        let mut lines = Vec::new();
        for (number, context) in contexts.iter().enumerate() {
            lines.extend(published(*context).into_iter().map(|line| format!("context {number}: {line}")));
        }
        let held = machine.map(EmbeddedMachine::holdings).unwrap_or_default();
        lines.extend(held.into_iter().map(|line| format!("kernel: {line}")));
        State { lines }
    }

    /// One line more.
    pub fn note(&mut self, line: String) {
        self.lines.push(line);
    }

    /// Without the lines that start like the first of a pair and hold the second.
    #[must_use]
    pub fn without(mut self, pairs: &[(&str, &str)]) -> State {
        self.lines.retain(|line| !pairs.iter().any(|(start, word)| line.starts_with(start) && line.contains(word)));
        self
    }

    /// Both are equal; if not, only the lines that differ are worth reading.
    #[track_caller]
    pub fn assert_same(&self, after: &State, what: &str) {
        if self != after {
            let lost: Vec<&String> = self.lines.iter().filter(|line| !after.lines.contains(line)).collect();
            let new: Vec<&String> = after.lines.iter().filter(|line| !self.lines.contains(line)).collect();
            panic!("{what}\nlost: {lost:#?}\nnew: {new:#?}\n{} and {} lines", self.lines.len(), after.lines.len());
        }
    }
}

/// Every object that a reader can find, with every field.
fn published(context: Context) -> Vec<String> {
    let all = context.inspect(|manager| {
        let objects = manager.writer().snapshot().iter();
        Ok(objects.map(|info| format!("{info:x?}")).collect::<Vec<_>>())
    });
    let Ok(mut all) = all else { return vec![format!("closed, {}", context.is_open())] };
    all.push(format!("open, {}", context.is_open()));
    all
}

/// The mappings, neighbours alike joined: where one ends and the next begins is the kernel's business.
fn mappings() -> Vec<String> {
    let text = std::fs::read_to_string("/proc/self/maps").expect("this process's mappings");
    let mut joined: Vec<(u64, u64, String)> = Vec::new();
    for line in text.lines() {
        let mut words = line.split_whitespace();
        let (Some(range), Some(access)) = (words.next(), words.next()) else { continue };
        let name: Vec<&str> = words.skip(3).collect();
        let name = name.join(" ");
        if name.starts_with("[heap") || name.starts_with("[stack") {
            continue;
        }
        let number = |word: &str| u64::from_str_radix(word, 16).expect("an address");
        let (start, end) = range.split_once('-').map(|(start, end)| (number(start), number(end))).expect("a range");
        let what = format!("{access} {name}");
        match joined.last_mut() {
            Some((_, last, same)) if *last == start && *same == what => *last = end,
            _ => joined.push((start, end, what)),
        }
    }
    joined.into_iter().map(|(start, end, what)| format!("{start:#x}..{end:#x} {what}")).collect()
}

/// The file descriptors, and what they lead to.
fn descriptors() -> Vec<String> {
    let folder = std::fs::read_dir("/proc/self/fd").expect("this process's files");
    let mut all = BTreeMap::new();
    for entry in folder.flatten() {
        let number = entry.file_name().to_string_lossy().parse::<u32>().expect("a number");
        // The folder's own descriptor is gone by the time it is asked, or asked by someone else's.
        if let Ok(link) = std::fs::read_link(entry.path())
            && !link.starts_with("/proc/")
        {
            all.insert(number, link.display().to_string());
        }
    }
    all.into_iter().map(|(number, link)| format!("{number} {link}")).collect()
}
