//! `hsakmt demo`: makes objects, asks about addresses in and around them, measures.

use super::answer::Answer;
use super::args::Options;
use super::channel::Channel;
use super::failure::Failure;
use super::objects::{Object, Objects};
use super::{measure, output};

/// Runs the command.
pub(super) fn run(options: &Options) -> Result<(), Failure> {
    let channel = Channel::open_with_gpu(options)?;
    if options.json {
        output::note(&channel.says);
    } else {
        output::print(&channel.says)?;
    }
    let objects = Objects::make(&channel)?;
    let answers = ask(&channel, &objects);
    if options.json {
        output::print(&output::json(&answers)?)?;
    } else {
        output::print(&format!("\n{}\n", Answer::table(&answers)))?;
    }
    let notes = objects.left_out.iter().map(String::as_str).chain(about_ranges(&channel));
    notes.for_each(|text| output::note(&format!("note: {text}")));
    drop(objects);
    let line = measure::run(&channel)?;
    if options.json {
        output::note(&line);
        Ok(())
    } else {
        output::print(&line)
    }
}

/// Why registered ranges may be unknown here.
fn about_ranges(channel: &Channel) -> Option<&'static str> {
    let facts = channel.context.inspect(|manager| Ok((manager.is_dgpu(), manager.svm_api())));
    match facts {
        Ok((false, _)) => Some("userptr: this GPU shares the host's memory; registering it makes no object"),
        Ok((true, true)) => {
            Some("userptr: the kernel shares all host memory (SVM) and no object is made; HSA_USE_SVM=0 makes them")
        }
        _ => None,
    }
}

/// All questions and answers, in the order of the table.
fn ask(channel: &Channel, objects: &Objects) -> Vec<Answer> {
    let mut answers: Vec<Answer> = objects.list.iter().flat_map(|object| around(channel, object)).collect();
    let on_stack = 0u8;
    let unknown = [
        ("unknown: NULL", 0),
        ("unknown: code", run as *const () as usize),
        ("unknown: stack", std::ptr::from_ref(&on_stack).addr()),
        ("unknown: not canonical", 0xdead_beef_0000_0000),
        ("unknown: last address", usize::MAX),
    ];
    let freed = ("unknown: freed", objects.freed);
    let nobodys = unknown.into_iter().chain([freed]);
    answers.extend(nobodys.map(|(query, address)| Answer::ask(channel.context, query.into(), address)));
    answers
}

/// First byte, one inside, the last, one past the end; a registered range also by the address GPUs use.
fn around(channel: &Channel, object: &Object) -> Vec<Answer> {
    let ask = |what: &str, address: usize| Answer::ask(channel.context, format!("{}: {what}", object.name), address);
    let first = ask("start", object.start);
    let size = object.registered.unwrap_or(first.SizeInBytes as usize);
    let gpu_address = first.gpu_address() as usize;
    let mut answers = vec![
        first,
        ask("inside", object.start + size / 2),
        ask("last byte", object.start + size.saturating_sub(1)),
        ask("one past end", object.start + size),
    ];
    if object.registered.is_some() && gpu_address != 0 {
        answers.push(ask("GPU address", gpu_address));
    }
    answers
}
