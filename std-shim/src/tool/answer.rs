//! One query and what came back: [`Answer`], as a row of the table or an element of the JSON.

use hsakmt::Context;
use hsakmt::status::Status;
use hsakmt_core::error::Error;
use hsakmt_core::info::{PointerInfo, PointerType};
use serde::{Serialize, Serializer};

use super::output;

/// A query, and `HsaPointerInfo` by its C names. The lists are copied: the answer outlives what it was read from.
#[derive(Debug, Serialize)]
#[allow(non_snake_case, reason = "the C names")]
pub(super) struct Answer {
    query: String,
    #[serde(serialize_with = "pointer")]
    address: u64,
    status: &'static str,
    Type: &'static str,
    Node: u32,
    MemFlags: u32,
    #[serde(serialize_with = "pointer")]
    CPUAddress: u64,
    #[serde(serialize_with = "pointer")]
    GPUAddress: u64,
    pub(super) SizeInBytes: u64,
    NRegisteredNodes: u32,
    NMappedNodes: u32,
    RegisteredNodes: Option<Vec<u32>>,
    MappedNodes: Option<Vec<u32>>,
    #[serde(serialize_with = "pointer")]
    UserData: u64,
}

impl Answer {
    /// Asks the context, as `hsaKmtQueryPointerInfo` does: an address of no object is the general failure.
    pub(super) fn ask(context: Context, query: String, address: usize) -> Answer {
        context
            .query_pointer(address, |info| {
                let found = if info.kind == PointerType::Unknown { Status::Error } else { Status::Success };
                Answer::new(query.clone(), address, found, &info)
            })
            .unwrap_or_else(|error: Error| Answer::new(query, address, error.into(), &PointerInfo::UNKNOWN))
    }

    fn new(query: String, address: usize, status: Status, info: &PointerInfo<'_>) -> Answer {
        let list = |ids: &[u32]| (!ids.is_empty()).then(|| ids.to_vec());
        Answer {
            query,
            address: address as u64,
            status: status.name(),
            Type: type_name(info.kind),
            Node: info.node.0,
            MemFlags: info.flags.bits(),
            CPUAddress: info.cpu_address as u64,
            GPUAddress: info.gpu_address,
            SizeInBytes: info.size,
            NRegisteredNodes: info.registered.len() as u32,
            NMappedNodes: info.mapped.len() as u32,
            RegisteredNodes: list(info.registered.ids()),
            MappedNodes: list(info.mapped.ids()),
            UserData: info.user_data as u64,
        }
    }

    /// The GPU's address of what was found; 0 for nothing.
    pub(super) fn gpu_address(&self) -> u64 {
        self.GPUAddress
    }

    /// Whether an object was found.
    pub(super) fn is_known(&self) -> bool {
        self.status == Status::Success.name()
    }

    /// The table of many answers. An object's name stands once, above its own.
    pub(super) fn table(answers: &[Answer]) -> String {
        let header =
            ["", "address", "type", "node", "GPU address", "CPU address", "size", "flags", "reg", "map", "user"];
        let mut rows: Vec<[String; 11]> = Vec::new();
        let mut last = "";
        for answer in answers {
            let (object, what) = answer.query.split_once(": ").unwrap_or(("", &answer.query));
            if object != last {
                rows.push(std::array::from_fn(|column| if column == 0 { object.into() } else { String::new() }));
                last = object;
            }
            rows.push(answer.row(what));
        }
        output::table(header, &[1, 3, 4, 5, 6, 7, 10], &rows)
    }

    fn row(&self, what: &str) -> [String; 11] {
        let mut row: [String; 11] = std::array::from_fn(|_| "-".into());
        let [query, address, kind, node, gpu, cpu, size, flags, registered, mapped, user] = &mut row;
        *query = format!("  {what}");
        *address = format!("{:#x}", self.address);
        let short = |name: &str, prefix: &str| name.strip_prefix(prefix).unwrap_or(name).to_owned();
        *kind = short(self.Type, "HSA_POINTER_");
        if !self.is_known() {
            *kind = format!("{kind} ({})", short(self.status, "HSAKMT_STATUS_"));
            return row;
        }
        let nodes = |list: &Option<Vec<u32>>| {
            let ids = list.iter().flatten().map(u32::to_string).collect::<Vec<_>>();
            if ids.is_empty() { "-".into() } else { ids.join(",") }
        };
        let hex = |value: u64| if value == 0 { "-".into() } else { format!("{value:#x}") };
        *node = self.Node.to_string();
        *gpu = hex(self.GPUAddress);
        *cpu = hex(self.CPUAddress);
        *size = output::bytes(self.SizeInBytes);
        *flags = format!("{:#x}", self.MemFlags);
        *registered = nodes(&self.RegisteredNodes);
        *mapped = nodes(&self.MappedNodes);
        *user = hex(self.UserData);
        row
    }
}

/// The C enumerator's name.
fn type_name(kind: PointerType) -> &'static str {
    match kind {
        PointerType::Unknown => "HSA_POINTER_UNKNOWN",
        PointerType::Allocated => "HSA_POINTER_ALLOCATED",
        PointerType::RegisteredUser => "HSA_POINTER_REGISTERED_USER",
        PointerType::RegisteredGraphics => "HSA_POINTER_REGISTERED_GRAPHICS",
        PointerType::RegisteredShared => "HSA_POINTER_REGISTERED_SHARED",
        PointerType::ReservedAddress => "HSA_POINTER_RESERVED_ADDR",
    }
}

/// An address as a string, NULL as null: JSON's numbers do not hold 64 bits everywhere.
fn pointer<S: Serializer>(address: &u64, to: S) -> Result<S::Ok, S::Error> {
    match address {
        0 => to.serialize_none(),
        address => to.collect_str(&format_args!("{address:#x}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn null_is_null_and_addresses_are_strings() {
        let answer = Answer::new("NULL".into(), 0, Status::Error, &PointerInfo::UNKNOWN);
        let value = serde_json::to_value(&answer).unwrap();
        assert_eq!(value.as_object().unwrap().len(), 14);
        assert!(value["address"].is_null() && value["CPUAddress"].is_null() && value["MappedNodes"].is_null());
        let info = PointerInfo { cpu_address: 0x1000, size: 7, ..PointerInfo::UNKNOWN };
        let value = serde_json::to_value(Answer::new("x".into(), 0x1001, Status::Success, &info)).unwrap();
        assert_eq!((&value["address"], &value["CPUAddress"]), (&"0x1001".into(), &"0x1000".into()));
        assert_eq!(value["SizeInBytes"], 7);
    }
}
