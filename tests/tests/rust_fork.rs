//! Rust readers and sessions across a fork: the child's copies of them answer "not opened", whatever the child does, and
//! leave the slots of the child's own readers alone.

use hsakmt::Context;
use hsakmt::shared::SLOTS;
use hsakmt_core::error::Error;
use hsakmt_core::flags::MemFlags;
use hsakmt_core::node::NodeId;
use hsakmt_tests::embedded::open;

const PAGE: usize = 4096;
const GPU: NodeId = NodeId(1);
const VRAM: MemFlags = MemFlags::NON_PAGED;

/// Runs `child` in a forked child; whether it came to its end. What it says of a failed assertion goes to stderr.
fn in_a_child(child: impl FnOnce()) -> bool {
    // SAFETY: the child runs this thread alone, and ends below without unwinding into the parent's frames.
    let pid = unsafe { libc::fork() };
    if pid == 0 {
        let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(child)).is_ok();
        // SAFETY: ends this child at once.
        unsafe { libc::_exit(i32::from(!ended)) };
    }
    let mut status = -1;
    // SAFETY: `pid` is this process's child, and `status` a valid place for the result.
    assert_eq!(unsafe { libc::waitpid(pid, &raw mut status, 0) }, pid);
    libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0
}

/// In a child that has opened: a reader of its own has each of the first slots, and one of them a session that keeps a
/// version. `disturb`, given an address of the child's, must leave it alone, whatever is written then.
fn undisturbed(slot: usize, disturb: impl FnOnce(usize)) -> bool {
    in_a_child(|| {
        let context = open();
        let ours = context.allocate(GPU, PAGE, VRAM).unwrap();
        context.set_user_data(ours, 1).unwrap();
        let mut readers = [(); 3].map(|()| context.reader().expect("a slot"));
        let mut session = readers[slot].session();
        let kept = session.snapshot().unwrap();
        let seen = || (kept.generation(), kept.query_pointer(ours).user_data, kept.iter().count());
        let before = seen();
        disturb(ours);
        let write = move || (0..20_000).for_each(|data| context.set_user_data(ours, data).unwrap());
        std::thread::spawn(write).join().unwrap();
        assert_eq!(seen(), before, "a version never changes under a session");
        assert_ne!(session.query_pointer(ours).unwrap().user_data, 1, "and the next question sees the newest");
    })
}

/// One test: a fork beside another test's threads would copy whatever locks they hold.
#[test]
fn an_inherited_reader_is_closed_for_good_and_disturbs_nobody() {
    // A reader from before the first open: its slot is wiped too.
    let mut first = Context::primary().reader().expect("a slot");
    assert!(in_a_child(|| {
        let context = open();
        let slots: Vec<_> = std::iter::from_fn(|| context.reader()).collect();
        assert_eq!(slots.len(), SLOTS, "no slot is the parent's");
    }));

    let context = open();
    let theirs = context.allocate(GPU, PAGE, VRAM).unwrap();
    let mut second = context.reader().expect("a slot");
    let mut session = second.session();
    assert!(first.query_pointer(theirs, |info| info.is_ok()));
    assert!(session.query_pointer(theirs).is_ok());

    assert!(in_a_child(|| assert!(matches!(session.query_pointer(theirs), Err(Error::NotOpened)))));
    assert!(undisturbed(0, |ours| assert!(first.query_pointer(ours, |info| matches!(info, Err(Error::NotOpened))))));
    assert!(undisturbed(0, |ours| {
        let mut session = first.session();
        assert!(matches!(session.query_pointer(ours), Err(Error::NotOpened)));
        assert!(matches!(session.query_pointer(ours), Err(Error::NotOpened)), "nor when asked again");
    }));
    assert!(undisturbed(1, |_| assert!(matches!(session.snapshot(), Err(Error::NotOpened)))));

    // What was remembered beside a number of the parent's versions is no child's, however few the child has published.
    let parents = context.generation();
    assert!(in_a_child(|| {
        let childs = open().generation();
        assert!(childs > parents + (1 << 30), "{childs:#x} after {parents:#x}");
        assert!(in_a_child(|| assert!(open().generation() > childs + (1 << 30))));
    }));

    assert!(session.query_pointer(theirs).is_ok(), "the parent's are as they were");
    assert!(first.query_pointer(theirs, |info| info.is_ok()));
    // What follows also drops the parent's.
    assert!(undisturbed(0, |_| drop(first)));
    assert!(undisturbed(1, |_| drop(session)));
    assert!(undisturbed(1, |_| drop(second)));
}
