//! Two libraries' answers to one sequence, side by side.
//!
//! In: the calls, and what each library answered. Out: nothing, or the first answer that differs and is not declared
//! in [`super::differences`]. Behind a declared difference that leaves the two in different states nothing is compared.

use super::differences::{DECLARED, Declared, Of, SILENT, Then};
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
pub(crate) fn compare(calls: &[String], theirs: &[String], ours: &[String], newer: bool, variant: &str) -> Agreement {
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
        let applies = |declared: &&Declared| (!newer || declared.of == Of::Both) && (declared.holds)(&situation);
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
