//! What is measured: one [`Row`] per line of the table.

use std::fmt;

/// The objects that are alive while a row is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Objects {
    /// VRAM buffers, mapped.
    pub(super) buffers: usize,
    /// Registered host memory, mapped.
    pub(super) userptrs: usize,
}

impl fmt::Display for Objects {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "making {} buffers, {} userptrs", self.buffers, self.userptrs)
    }
}

/// What a round does, and what its value is.
#[derive(Clone, Copy, Debug)]
pub(super) enum Work {
    /// So many calls of this kind: nanoseconds a call.
    Calls(&'static str),
    /// One thread, then two: how many times the throughput.
    Threads,
    /// A reader beside a writer: nanoseconds that 99.9 % of its calls stay below.
    Tail,
}

/// What is hoped for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Aim {
    /// Theirs / ours is at least this.
    Ratio(f64),
    /// Our value is at least this.
    AtLeast(f64),
    /// Our value is at most this.
    AtMost(f64),
}

/// One line of the table.
#[derive(Debug)]
pub(super) struct Row {
    /// Its name on the command line and in files.
    pub(super) id: &'static str,
    /// For people.
    pub(super) what: &'static str,
    /// What is alive.
    pub(super) objects: Objects,
    /// What is done.
    pub(super) work: Work,
    /// What is hoped for.
    pub(super) aim: Aim,
}

impl Row {
    /// Whether two threads run at once.
    pub(super) fn needs_two_cpus(&self) -> bool {
        matches!(self.work, Work::Threads | Work::Tail)
    }
}

const fn objects(buffers: usize, userptrs: usize) -> Objects {
    Objects { buffers, userptrs }
}

const fn row(id: &'static str, what: &'static str, objects: Objects, work: Work, aim: Aim) -> Row {
    Row { id, what, objects, work, aim }
}

/// All rows; those of the same objects stand together.
pub(super) static ROWS: [Row; 14] = {
    use Aim::{AtLeast, AtMost, Ratio};
    use Work::{Calls, Tail, Threads};
    const HIT: Work = Calls("hit");
    const DATA: Work = Calls("data");
    const K: usize = 1000;
    [
        row("hit-16", "query: hit, 16 VRAM buffers", objects(16, 0), HIT, Ratio(6.0)),
        row("data-16", "set user data, 16 VRAM buffers", objects(16, 0), DATA, Ratio(0.8)),
        row("hit-1k", "query: hit, 1,000 VRAM buffers", objects(K, 0), HIT, Ratio(12.0)),
        row("data-1k", "set user data, 1,000 VRAM buffers", objects(K, 0), DATA, Ratio(0.4)),
        row("threads-2", "query: hit, 1,000 buffers, 2 threads", objects(K, 0), Threads, AtLeast(1.9)),
        row("tail-1k", "query: hit, 1,000, busy writer, p99.9", objects(K, 0), Tail, AtMost(300.0)),
        row("hit-10k", "query: hit, 10,000 VRAM buffers", objects(10 * K, 0), HIT, Ratio(18.0)),
        row("same-8-of-10k", "query: same 8 of 10,000 VRAM buffers", objects(10 * K, 0), Calls("same"), Ratio(7.0)),
        row("data-10k", "set user data, 10,000 VRAM buffers", objects(10 * K, 0), DATA, Ratio(0.66)),
        row("hit-1k-userptrs-1k", "query: hit, 1,000 buffers, 1,000 userptrs", objects(K, K), HIT, Ratio(450.0)),
        row(
            "hit-1k-userptrs-10k",
            "query: hit, 1,000 buffers, 10,000 userptrs",
            objects(K, 10 * K),
            HIT,
            Ratio(10_000.0),
        ),
        row(
            "miss-userptrs-10k",
            "query: miss among 10,000 userptrs",
            objects(K, 10 * K),
            Calls("miss"),
            Ratio(12_000.0),
        ),
        row("hit-100k", "query: hit, 100,000 VRAM buffers", objects(100 * K, 0), HIT, Ratio(30.0)),
        row("data-100k", "set user data, 100,000 VRAM buffers", objects(100 * K, 0), DATA, Ratio(0.66)),
    ]
};

/// Rows as large as this are left out by `--quick`.
const LARGE: usize = 100_000;

/// The rows with one of `names`, or whose name begins with it where none has it whole; all if there are no names.
pub(super) fn chosen(names: &[String], quick: bool) -> Result<Vec<&'static Row>, String> {
    let whole = |name: &str| ROWS.iter().any(|row| row.id == name);
    let begins = |row: &Row, name: &String| match name.trim() {
        name if whole(name) => row.id == name,
        name => row.id.starts_with(name),
    };
    if let Some(unknown) = names.iter().find(|name| !ROWS.iter().any(|row| begins(row, name))) {
        let known: Vec<&str> = ROWS.iter().map(|row| row.id).collect();
        return Err(format!("no row begins with {unknown:?}; there are {}", known.join(", ")));
    }
    let wanted = |row: &&Row| names.is_empty() || names.iter().any(|name| begins(row, name));
    let fits = |row: &&Row| !quick || row.objects.buffers < LARGE;
    Ok(ROWS.iter().filter(wanted).filter(fits).collect())
}

/// Neighbours with the same objects.
pub(super) fn groups<'a>(rows: &'a [&'static Row]) -> impl Iterator<Item = &'a [&'static Row]> {
    rows.chunk_by(|one, next| one.objects == next.objects)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_chosen_by_the_beginning_of_their_name() {
        let names = |rows: Vec<&Row>| rows.iter().map(|row| row.id).collect::<Vec<_>>();
        assert_eq!(chosen(&[], false).unwrap().len(), ROWS.len());
        assert_eq!(names(chosen(&["data-1".into()], true).unwrap()), ["data-16", "data-1k", "data-10k"]);
        assert_eq!(names(chosen(&["hit-1k".into()], true).unwrap()), ["hit-1k"]);
        assert!(chosen(&["hit".into(), "nonsense".into()], false).unwrap_err().contains("hit-100k"));
    }

    #[test]
    fn each_set_of_objects_is_made_once() {
        let all = chosen(&[], false).unwrap();
        let sets: Vec<Objects> = groups(&all).map(|group| group[0].objects).collect();
        for (position, set) in sets.iter().enumerate() {
            assert!(!sets[..position].contains(set), "{set:?} is made twice");
        }
    }
}
