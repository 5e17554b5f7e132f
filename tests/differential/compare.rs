//! Two libraries' answers to one sequence, side by side.
//!
//! In: the calls, and what each library answered. Out: nothing, or the first answer that differs and is not declared
//! in [`super::differences`]. Behind a declared difference that leaves the two in different states nothing is compared.

use super::differences::{DECLARED, Declared, SILENT, Then};
use super::player::Version;
use super::situation::Situation;

/// A call and two answers to it that should be the same.
#[derive(Clone, Debug)]
pub(crate) struct Difference {
    pub(crate) call: String,
    pub(crate) theirs: String,
    pub(crate) ours: String,
}

impl Difference {
    /// The call's verb and what each answered, without the details.
    pub(crate) fn kind(&self) -> (String, String, String) {
        let first = |text: &str, words: usize| text.split(' ').skip(1).take(words).collect::<Vec<_>>().join(" ");
        (first(&self.call, 1), first(&self.theirs, 2), first(&self.ours, 2))
    }
}

/// How far two runs agree.
#[derive(Debug, Default)]
pub(crate) struct Agreement {
    /// Answers that were compared.
    pub(crate) compared: usize,
    /// Reasons of the declared differences that were met.
    pub(crate) declared: Vec<&'static str>,
    pub(crate) difference: Option<Difference>,
}

/// Compares.
pub(crate) fn compare(calls: &[String], theirs: &[String], ours: &[String], of: Version, variant: &str) -> Agreement {
    let mut agreement = Agreement::default();
    for (position, call) in calls.iter().enumerate() {
        let answer = |answers: &[String]| answers.get(position).cloned().unwrap_or_else(|| "nothing".into());
        let (their, our) = (answer(theirs), answer(ours));
        let situation = Situation {
            call: call.get(2..).unwrap_or_default(),
            theirs: &their,
            ours: &our,
            before: calls.get(..position).unwrap_or_default(),
            answered: theirs.get(..position).unwrap_or_default(),
            variant,
        };
        let table = if their == our { SILENT } else { DECLARED };
        let applies = |declared: &&Declared| declared.of.includes(of) && (declared.holds)(&situation);
        agreement.compared += 1;
        match table.iter().find(applies) {
            None if their == our => {}
            None => {
                agreement.difference = Some(Difference { call: call.clone(), theirs: their, ours: our });
                return agreement;
            }
            Some(declared) => {
                agreement.declared.push(declared.reason);
                if declared.then == Then::Stop {
                    return agreement;
                }
            }
        }
    }
    agreement
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(lines: &[&str]) -> Vec<String> {
        lines.iter().map(|line| (*line).to_owned()).collect()
    }

    #[test]
    fn the_first_answer_that_differs_is_told() {
        let calls = lines(&["0 open", "0 query H0+0x0", "0 query H0+0x1"]);
        let theirs = lines(&["0 open 0", "0 query 1 Type=0", "0 query 1 Type=0"]);
        let same = compare(&calls, &theirs, &theirs, Version::Of2025, "plain");
        assert!(same.difference.is_none() && same.compared == 3);
        let ours = lines(&["0 open 0", "0 query 0 Type=1", "died 11"]);
        let difference = compare(&calls, &theirs, &ours, Version::Of2025, "plain").difference.unwrap();
        assert_eq!((difference.theirs.as_str(), difference.ours.as_str()), ("0 query 1 Type=0", "0 query 0 Type=1"));
        let less = compare(&calls, &theirs, &lines(&["0 open 0"]), Version::Of2025, "plain").difference.unwrap();
        assert_eq!(less.ours, "nothing");
    }

    #[test]
    fn a_declared_difference_is_one_of_its_own_reference() {
        let calls = lines(&["0 open", "0 acquire", "0 map H0+0x0 0x1000", "0 query H0+0x0"]);
        let theirs = lines(&["0 open 0", "0 acquire 0", "0 map 1 alternate=0", "0 query 1"]);
        let ours = lines(&["0 open 0", "0 acquire 0", "0 map 3 alternate=0", "0 query 1"]);
        let older = compare(&calls, &theirs, &ours, Version::Of5_2_3, "plain");
        assert!(older.difference.is_none() && older.compared == 4 && older.declared.len() == 1);
        assert!(compare(&calls, &theirs, &ours, Version::Of2025, "plain").difference.is_some());
    }

    #[test]
    fn behind_what_leaves_other_objects_nothing_is_compared() {
        let calls = lines(&["0 deregister H0+0x0", "0 query H0+0x0"]);
        let theirs = lines(&["0 deregister was=2,1 0", "0 query 1"]);
        let ours = lines(&["0 deregister was=2,1 1", "0 query 0"]);
        let agreement = compare(&calls, &theirs, &ours, Version::Of2025, "plain");
        assert!(agreement.difference.is_none() && agreement.compared == 1);
        let unmapped = [lines(&["0 deregister was=2,0 0"]), lines(&["0 deregister was=2,0 1"])];
        assert!(compare(&calls[..1], &unmapped[0], &unmapped[1], Version::Of2025, "plain").difference.is_some());
    }
}
