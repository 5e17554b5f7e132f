//! The core on a Cortex-M4: a SysTick interrupt handler looks up while the main loop writes, in whose middle it mostly
//! interrupts. Both check every answer.
//!
//! In: nothing. Out, by semihosting: lines of `name number`, a line for each wrong answer, and as exit status whether all
//! was right. With feature `alloc` the same over an allocator.

#![no_std]
#![no_main]

mod cost;
#[path = "../../../core/examples/firmware/device.rs"]
mod device;
mod managed;
mod memory;
mod scenario;
mod watch;

use core::sync::atomic::{AtomicBool, Ordering};

use cortex_m::Peripherals;
use cortex_m::peripheral::syst::SystClkSource;
use cortex_m_rt::{entry, exception};
use cortex_m_semihosting::{debug, hprintln};
use hsakmt_core::reader::Reader;
use panic_semihosting as _;

use scenario::Random;
use watch::Domain;

/// Cycles between interrupts: at least, and how many more at most. Short, so that writes are interrupted everywhere.
const LEAST: u32 = 1500;
const SPREAD: u32 = 1024;

/// The least that a run must have interrupted in the middle of writes to say anything.
const ENOUGH: u32 = 1000;

static WATCHING: AtomicBool = AtomicBool::new(false);

#[entry]
fn main() -> ! {
    memory::init();
    if let Some(peripherals) = Peripherals::take() {
        let mut timer = peripherals.SYST;
        timer.set_clock_source(SystClkSource::Core);
        timer.set_reload(LEAST);
        timer.clear_current();
        timer.enable_interrupt();
        timer.enable_counter();
    }
    let right = run();
    debug::exit(if right { debug::EXIT_SUCCESS } else { debug::EXIT_FAILURE });
    loop {
        cortex_m::asm::wfi();
    }
}

/// Everything, and whether it was right.
fn run() -> bool {
    let outcome = watched();
    let (counts, stack) = (watch::counts(), stack_used());
    let (wrong, any_wrong) = watch::wrong();
    hprintln!("interrupts {}", counts.interrupts);
    hprintln!("asked-by-interrupts {}", counts.asked);
    hprintln!("interrupts-during-writes {}", counts.during_write);
    hprintln!("saw-before {}", counts.saw_old);
    hprintln!("saw-after {}", counts.saw_new);
    hprintln!("writes {}", counts.writes);
    hprintln!("stack-bytes {}", stack);
    hprintln!("registry-bytes {}", memory::BYTES);
    hprintln!("writer-bytes {}", size_of::<memory::BoardWriter>());
    for wrong in &wrong {
        hprintln!("WRONG {}", wrong);
    }
    if let Err(fault) = &outcome {
        hprintln!("WRONG {}", fault);
    }
    let cost = cost::measure();
    match cost {
        Ok([in_order, in_no_order]) => {
            hprintln!("bytes-per-object-in-order {}.{}", in_order / 10, in_order % 10);
            hprintln!("bytes-per-object-in-no-order {}.{}", in_no_order / 10, in_no_order % 10);
        }
        Err(error) => hprintln!("WRONG {:?}", error),
    }
    for (name, capacity) in cost::CAPACITIES {
        hprintln!("{}-bytes {}", name, capacity.bytes());
    }
    let enough = counts.during_write >= ENOUGH && counts.saw_old > 0 && counts.saw_new > 0;
    if !enough {
        hprintln!("WRONG too few interrupts in the middle of writes");
    }
    outcome.is_ok() && cost.is_ok() && !any_wrong && enough
}

/// The scenario, with the handler watching.
fn watched() -> Result<(), scenario::Fault> {
    let mut writer = memory::writer().map_err(scenario::Fault::Write)?;
    let mut reader = memory::reader().ok_or(scenario::Fault::NeverFull)?;
    WATCHING.store(true, Ordering::Release);
    let outcome = scenario::run(&mut writer, &mut reader).and_then(|()| {
        drop(writer);
        let writer = memory::writer().map_err(scenario::Fault::Write)?;
        managed::run(writer, &mut reader)
    });
    WATCHING.store(false, Ordering::Release);
    outcome
}

/// Interrupts whatever the main loop is doing, looks up, and comes again after an uneven time.
#[exception]
fn SysTick() {
    static mut READER: Option<Reader<'static, Domain>> = None;
    static mut RANDOM: Random = Random(0x2545_f491);
    let random = RANDOM.next();
    // SAFETY: the main loop is done with the timer; only this handler touches it.
    let mut timer = unsafe { Peripherals::steal() }.SYST;
    timer.set_reload(LEAST + random % SPREAD);
    if !WATCHING.load(Ordering::Acquire) {
        // The place goes back, so that a writer may end.
        *READER = None;
        return;
    }
    if READER.is_none() {
        *READER = memory::reader();
    }
    match READER {
        Some(reader) => watch::look(reader, random),
        None => watch::no_place(),
    }
}

/// Bytes of stack that were ever in use.
fn stack_used() -> usize {
    unsafe extern "C" {
        static _stack_start: u32;
        static _stack_end: u32;
    }
    let (top, bottom) = (&raw const _stack_start, &raw const _stack_end);
    let mut here = bottom;
    // SAFETY: between the two symbols lies the stack, all of it readable and written before main.
    while here < top && unsafe { here.read_volatile() } == cortex_m_rt::STACK_PAINT_VALUE {
        here = here.wrapping_add(1);
    }
    top.addr() - here.addr()
}
