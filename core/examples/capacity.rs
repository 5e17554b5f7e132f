//! What a number of objects costs on this machine without an allocator: bytes of a static (by `objects`, and by the memory
//! manager with two GPUs), and steps of a look-up by `objects`.
//!
//! `cargo run -p hsakmt-core --example capacity -- [OBJECTS [USERPTRS [LISTS]]]`. For a 32-bit machine,
//! `cargo run -p hsakmt-perf --bin bare-metal` prints the same from one.

use std::process::ExitCode;

use hsakmt_core::fixed::Capacity;

fn main() -> ExitCode {
    let numbers: Result<Vec<usize>, _> = std::env::args().skip(1).map(|argument| argument.parse()).collect();
    let numbers = match numbers {
        Ok(numbers) if numbers.len() <= 3 => numbers,
        _ => {
            eprintln!("usage: capacity [OBJECTS [USERPTRS [LISTS]]]");
            return ExitCode::from(2);
        }
    };
    let number = |position: usize| numbers.get(position).copied();
    let counts = number(0).map_or(vec![16, 100, 250, 500, 1000, 10_000], |objects| vec![objects]);
    println!("{:>8} {:>34} {:>34}", "", "by objects", "by the memory manager, 2 GPUs");
    println!(
        "{:>8} {:>14} {:>12} {:>6} {:>14} {:>12} {:>6}",
        "objects", "bytes", "per object", "steps", "bytes", "per object", "steps"
    );
    for objects in counts {
        let plain = Capacity::objects(objects).userptrs(number(1).unwrap_or(0)).node_lists(number(2).unwrap_or(0));
        print!("{objects:>8}");
        for capacity in [plain, plain.managed(2)] {
            let (bytes, steps) = (capacity.bytes(), capacity.steps());
            print!(" {bytes:>14} {:>12} {steps:>6}", bytes / objects.max(1));
        }
        println!();
    }
    ExitCode::SUCCESS
}
