//! The log: one JSON line per answered call.
//!
//! `{"n":7,"pid":120,"tid":120,"call":"alloc","in":{"va_addr":"0x7f…","size":"0x4000",…},"out":{…},"result":"ok"}`.
//! `in` holds the argument as the caller gave it, `out` the fields that were changed; arrays that an argument points
//! to follow as `gpus` or `attributes`. Where `mmap` is to be struck, every one is logged: `ok` is then all that was not,
//! whatever the kernel answers. Numbers are hexadecimal strings, as in the rest of this project's JSON.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use hsakmt_core::driver::Errno;
use serde_json::{Map, Value, json};

use super::super::machine::{Trace, errno_name, short_name};
use crate::opcode::Command;
use crate::uapi::{FieldLayout, LAYOUTS};

/// Where the lines go.
#[derive(Debug)]
pub(crate) struct Journal {
    to: BufWriter<File>,
    lines: u64,
}

impl Journal {
    pub(crate) fn create(path: &Path) -> io::Result<Journal> {
        Ok(Journal { to: BufWriter::new(File::create(path)?), lines: 0 })
    }

    /// One line. It is in the file when the caller goes on, so that a test can read it at any time.
    pub(crate) fn line(&mut self, pid: u32, tid: u32, call: &str, detail: Value, result: Result<(), Errno>) {
        self.lines += 1;
        let result = result.map_or_else(errno_name, |()| "ok".into());
        let mut line = json!({ "n": self.lines, "pid": pid, "tid": tid, "call": call, "result": result });
        if let (Some(line), Value::Object(detail)) = (line.as_object_mut(), detail) {
            line.extend(detail);
        }
        if writeln!(self.to, "{line}").and_then(|()| self.to.flush()).is_err() {
            log::warn!("the log cannot be written");
        }
    }

    /// The line of an ioctl.
    pub(crate) fn ioctl(&mut self, pid: u32, tid: u32, trace: &Trace, result: Result<(), Errno>) {
        let fields = fields(trace.command);
        let mut before = Map::new();
        let mut after = Map::new();
        for field in fields {
            let (was, is) = (number(&trace.before, field), number(&trace.after, field));
            before.insert(field.c_name.into(), was.clone());
            if was != is {
                after.insert(field.c_name.into(), is);
            }
        }
        let mut detail = json!({ "in": before, "out": after });
        for (name, list) in &trace.lists {
            detail[*name] = list.iter().map(|value| format!("{value:#x}")).collect();
        }
        self.line(pid, tid, short_name(trace.command), detail, result);
    }
}

/// The fields of a command's struct: its name in C is its request's.
fn fields(command: Command) -> impl Iterator<Item = &'static FieldLayout> {
    let verb = command.name().trim_start_matches("AMDKFD_IOC_").to_ascii_lowercase();
    let name = match command {
        Command::AvailableMemory => "kfd_ioctl_get_available_memory_args".to_owned(),
        _ => format!("kfd_ioctl_{verb}_args"),
    };
    let layout = LAYOUTS.iter().flat_map(|file| file.iter()).find(|layout| layout.c_name == name);
    layout.into_iter().flat_map(|layout| layout.fields).filter_map(|members| members.first())
}

fn number(bytes: &[u8], field: &FieldLayout) -> Value {
    let bytes = bytes.get(field.offset..field.offset + field.size).unwrap_or(&[]);
    match *bytes {
        [a, b, c, d] => Value::from(format!("{:#x}", u32::from_ne_bytes([a, b, c, d]))),
        [a, b, c, d, e, f, g, h] => Value::from(format!("{:#x}", u64::from_ne_bytes([a, b, c, d, e, f, g, h]))),
        _ => Value::from(bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>()),
    }
}
