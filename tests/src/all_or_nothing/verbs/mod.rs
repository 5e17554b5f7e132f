//! Every verb, on every kind of machine, with the failures that must at least have reached it.
//!
//! `points` is how often each kind of call must have been struck: what a verb is known to do. A verb that is struck less
//! often does not do what the list says, or the fault is not injected where it should be: the test would test nothing.

mod apu;
mod life;
mod make;
mod share;
mod user;

use hsakmt_core::error::Result;
use hsakmt_core::node::NodeId;

use super::bench::{Bench, Given};
use super::setting::Setting;

const CPU: NodeId = NodeId(0);
const GPU: NodeId = NodeId(1);
const OTHER: NodeId = NodeId(2);

type Prepare = Box<dyn Fn(&Bench) -> Result<Given>>;
type Run = Box<dyn Fn(&Bench, &Given) -> Result<()>>;
type Points<'a> = &'a [(&'static str, u64)];

/// A verb to be struck.
pub struct Verb {
    /// What to call it.
    pub name: String,
    /// How often each kind of call must have been struck at least.
    pub points: Vec<(&'static str, u64)>,
    /// The same, of the machine in this process only.
    pub embedded: Vec<(&'static str, u64)>,
    /// Lines of the state that a failed call may change, how they start and what they hold: what no call can take back.
    pub stays: &'static [(&'static str, &'static str)],
    /// Makes what it needs.
    pub prepare: Prepare,
    /// The verb.
    pub run: Run,
}

impl Verb {
    fn new(
        name: impl Into<String>,
        points: Points<'_>,
        prepare: impl Fn(&Bench) -> Result<Given> + 'static,
        run: impl Fn(&Bench, &Given) -> Result<()> + 'static,
    ) -> Verb {
        let points = points.to_vec();
        Verb {
            name: name.into(),
            points,
            embedded: Vec::new(),
            stays: &[],
            prepare: Box::new(prepare),
            run: Box::new(run),
        }
    }

    /// Points that only the machine in this process has.
    fn embedded(mut self, points: Points<'_>) -> Verb {
        self.embedded = points.to_vec();
        self
    }

    /// On a furnished bench, with an address.
    fn at(
        name: impl Into<String>,
        points: Points<'_>,
        address: impl Fn(&Bench) -> Result<usize> + 'static,
        run: impl Fn(&Bench, usize) -> Result<()> + 'static,
    ) -> Verb {
        let prepare = move |bench: &Bench| {
            bench.furnish()?;
            Ok(Given { at: address(bench)?, ..Given::default() })
        };
        Verb::new(name, points, prepare, move |bench, given| run(bench, given.at))
    }
}

/// All of them, in a setting.
pub fn all(setting: &Setting) -> Vec<Verb> {
    if !setting.whole {
        return if setting.svm { user::verbs(setting) } else { make::verbs(setting) };
    }
    let mut verbs = life::verbs(setting);
    if setting.dgpu() {
        verbs.extend(make::verbs(setting));
        verbs.extend(user::verbs(setting));
        verbs.extend(share::verbs(setting));
    } else {
        verbs.extend(apu::verbs(setting));
    }
    verbs
}

/// 1 where addresses are asked of the process, 0 where they are cut from a reserved range.
fn reserve(setting: &Setting) -> u64 {
    u64::from(!setting.reserved())
}
