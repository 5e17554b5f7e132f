//! The layout tables (`tests/layout/*.tsv`), read.
//!
//! In: the text of a table, as its first lines describe. Out: structs with their fields, enumerators, macros. A line
//! that fits no rule is an error, never skipped: a table read by half would prove nothing.

use std::path::PathBuf;

/// Where a field lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// Whole bytes.
    Bytes(usize),
    /// `first..first + width`, counted from the field's byte offset.
    Bits {
        /// First bit.
        first: usize,
        /// How many.
        width: usize,
    },
}

/// One field.
#[derive(Clone, Debug)]
pub struct Field {
    /// With dots where it lies inside another.
    pub path: String,
    /// In bytes.
    pub offset: usize,
    /// How much.
    pub extent: Extent,
}

/// One struct or union.
#[derive(Clone, Debug)]
pub struct Struct {
    /// The typedef: the tag without its underscore.
    pub name: String,
    /// In bytes.
    pub size: usize,
    /// In the table's order.
    pub fields: Vec<Field>,
}

/// A whole table.
#[derive(Clone, Debug, Default)]
pub struct Table {
    /// Structs and unions.
    pub structs: Vec<Struct>,
    /// Enumerators with their values.
    pub enumerators: Vec<(String, i64)>,
    /// Macros with their values.
    pub macros: Vec<(String, u64)>,
}

/// The folder the tables are in.
pub fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("layout")
}

/// Reads a file of the folder.
pub fn text(file: &str) -> String {
    let path = folder().join(file);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The names in an exports file, sorted.
pub fn exports(file: &str) -> Vec<String> {
    let mut names: Vec<String> = text(file).lines().map(str::to_owned).collect();
    names.sort();
    names
}

/// Reads the table in a file of the folder.
pub fn table(file: &str) -> Table {
    let mut table = Table::default();
    for (number, line) in text(file).lines().enumerate() {
        if !line.starts_with('#') {
            read(line, &mut table).unwrap_or_else(|| panic!("{file}:{}: cannot read {line:?}", number + 1));
        }
    }
    table
}

fn read(line: &str, table: &mut Table) -> Option<()> {
    let columns: Vec<&str> = line.split('\t').collect();
    match columns[..] {
        ["enum", _, name, value] => table.enumerators.push((name.into(), value.parse().ok()?)),
        ["macro", name, value] => {
            let digits = value.strip_prefix("0x")?;
            table.macros.push((name.into(), u64::from_str_radix(digits, 16).ok()?));
        }
        ["", path, offset, extent, ..] => {
            let field = Field { path: path.into(), offset: offset.parse().ok()?, extent: read_extent(extent)? };
            table.structs.last_mut()?.fields.push(field);
        }
        [name, size] => {
            // The one tag that is not spelt as its typedef.
            let name = if name == "_HaCacheProperties" { "HsaCacheProperties" } else { name.trim_start_matches('_') };
            let name = name.into();
            table.structs.push(Struct { name, size: size.parse().ok()?, fields: Vec::new() });
        }
        _ => return None,
    }
    Some(())
}

fn read_extent(column: &str) -> Option<Extent> {
    match column.strip_prefix("bits ") {
        None => Some(Extent::Bytes(column.parse().ok()?)),
        Some(bits) => {
            let (first, width) = bits.split_once('+')?;
            Some(Extent::Bits { first: first.parse().ok()?, width: width.parse().ok()? })
        }
    }
}
