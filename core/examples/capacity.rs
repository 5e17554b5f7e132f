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
    let counts = number(0).map_or(vec![16, 100, 1000, 10_000], |objects| vec![objects]);
    println!("{:>8} {:>12} {:>12} {:>12} {:>6}", "objects", "bytes", "per object", "managed", "steps");
    for objects in counts {
        let capacity = Capacity::objects(objects).userptrs(number(1).unwrap_or(0)).node_lists(number(2).unwrap_or(0));
        let (bytes, managed) = (capacity.bytes(), capacity.managed(2).bytes());
        println!("{objects:>8} {bytes:>12} {:>12} {managed:>12} {:>6}", bytes / objects.max(1), capacity.steps());
    }
    ExitCode::SUCCESS
}
