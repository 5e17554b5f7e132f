//! Names: of GPUs up to gfx10 by their PCI device, of later ones by their version, and marketing names from libdrm's
//! list.

use super::EngineId;

/// A family of GPUs: name, version, PCI devices.
type Family = (&'static str, (u8, u8, u8), &'static [u16]);

/// GPUs that have a name besides their version. For these the version comes from here, too: their kernels may not
/// report one.
#[rustfmt::skip]
const FAMILIES: &[Family] = &[
    ("Spectre", (7, 0, 0), &[
        0x1304, 0x1305, 0x1306, 0x1307, 0x1309, 0x130a, 0x130b, 0x130c, 0x130d, 0x130e, 0x130f, 0x1310,
        0x1311, 0x1313, 0x1315, 0x1318, 0x131b, 0x131c, 0x131d,
    ]),
    ("Spooky", (7, 0, 0), &[0x1312, 0x1316, 0x1317]),
    ("Hawaii", (7, 0, 1), &[
        0x67a0, 0x67a1, 0x67a2, 0x67a8, 0x67a9, 0x67aa, 0x67b0, 0x67b1, 0x67b8, 0x67b9, 0x67ba, 0x67be,
    ]),
    ("Carrizo", (8, 0, 1), &[0x9870, 0x9874, 0x9875, 0x9876, 0x9877]),
    ("Tonga", (8, 0, 2), &[0x6920, 0x6921, 0x6928, 0x6929, 0x692b, 0x692f, 0x6930, 0x6938, 0x6939]),
    ("Fiji", (8, 0, 3), &[0x7300, 0x730f]),
    ("Polaris10", (8, 0, 3), &[
        0x67c0, 0x67c1, 0x67c2, 0x67c4, 0x67c7, 0x67c8, 0x67c9, 0x67ca, 0x67cc, 0x67cf, 0x67d0, 0x67df,
        0x6fdf,
    ]),
    ("Polaris11", (8, 0, 3), &[0x67e0, 0x67e1, 0x67e3, 0x67e7, 0x67e8, 0x67e9, 0x67eb, 0x67ef, 0x67ff]),
    ("Polaris12", (8, 0, 3), &[0x6980, 0x6981, 0x6985, 0x6986, 0x6987, 0x6995, 0x6997, 0x699f]),
    ("VegaM", (8, 0, 3), &[0x694c, 0x694e, 0x694f]),
    ("Vega10", (9, 0, 0), &[
        0x6860, 0x6861, 0x6862, 0x6863, 0x6864, 0x6867, 0x6868, 0x6869, 0x686a, 0x686b, 0x686c, 0x686d,
        0x686e, 0x687f,
    ]),
    ("Vega12", (9, 0, 4), &[0x69a0, 0x69a1, 0x69a2, 0x69a3, 0x69af]),
    ("Raven", (9, 0, 2), &[0x15d8, 0x15dd]),
    ("Vega20", (9, 0, 6), &[0x66a0, 0x66a1, 0x66a2, 0x66a3, 0x66a4, 0x66a7, 0x66af]),
    ("Arcturus", (9, 0, 8), &[0x7388, 0x738c, 0x738e, 0x7390]),
    ("Aldebaran", (9, 0, 10), &[0x7408, 0x740c, 0x740f, 0x7410]),
    ("Renoir", (9, 0, 12), &[0x15e7, 0x1636, 0x1638, 0x164c]),
    ("Navi10", (10, 1, 0), &[0x7310, 0x7312, 0x7318, 0x731a, 0x731e, 0x731f]),
    ("cyan_skillfish", (10, 1, 3), &[0x13f9, 0x13fa, 0x13fb, 0x13fc, 0x13fe, 0x143f]),
    ("Navi14", (10, 1, 2), &[0x7340, 0x7341, 0x7347]),
    ("Navi12", (10, 1, 1), &[0x7360, 0x7362]),
    ("SIENNA_CICHLID", (10, 3, 0), &[
        0x73a0, 0x73a1, 0x73a2, 0x73a3, 0x73a5, 0x73a8, 0x73a9, 0x73ab, 0x73ac, 0x73ad, 0x73ae, 0x73bf,
    ]),
    ("NAVY_FLOUNDER", (10, 3, 1), &[0x73c0, 0x73c1, 0x73c3, 0x73da, 0x73db, 0x73dc, 0x73dd, 0x73de, 0x73df]),
    ("DIMGREY_CAVEFISH", (10, 3, 2), &[
        0x73e0, 0x73e1, 0x73e2, 0x73e8, 0x73e9, 0x73ea, 0x73eb, 0x73ec, 0x73ed, 0x73ef, 0x73ff,
    ]),
    ("VanGogh", (10, 3, 3), &[0x163f]),
    ("BEIGE_GOBY", (10, 3, 4), &[0x7420, 0x7421, 0x7422, 0x7423, 0x743f]),
    ("YELLOW_CARP", (10, 3, 5), &[0x164d, 0x1681]),
];

/// The family of a PCI device, for GPUs up to gfx10.
fn family(device: u16, reported_major: u32) -> Option<&'static Family> {
    if reported_major > 10 {
        return None;
    }
    FAMILIES.iter().find(|(_, _, devices)| devices.contains(&device))
}

/// Version and name of a GPU: by its PCI device, else by the version its kernel reports (`10000 major + 100 minor +
/// stepping`). `None` if both fail.
pub(super) fn engine(device: u16, reported: u32) -> Option<(EngineId, String)> {
    let (major, minor, stepping) = (reported / 10000 % 100, reported / 100 % 100, reported % 100);
    if let Some((name, (major, minor, stepping), _)) = family(device, major) {
        let id = EngineId { u_code: 0, major: *major, minor: *minor, stepping: *stepping };
        return Some((id, name.to_string()));
    }
    if reported == 0 {
        return None;
    }
    let id = EngineId { u_code: 0, major: major as u8 & 0x3f, minor: minor as u8, stepping: stepping as u8 };
    Some((id, version_name(id)))
}

/// The AMD name of a GPU that has none besides its version.
pub(super) fn version_name(id: EngineId) -> String {
    format!("GFX{:06x}", id.gfx_version())
}

/// Bytes of vector registers per compute unit of a GPU, by [`EngineId::gfx_version`].
pub fn vgpr_size_per_cu(gfx_version: u32) -> u32 {
    match gfx_version {
        0x09_0008 | 0x09_000a | 0x09_0400..=0x09_04ff | 0x09_0500 | 0x0c_0500 => 0x80000,
        0x0b_0000 | 0x0b_0001 | 0x0b_0501 | 0x0c_0000 | 0x0c_0001 => 0x60000,
        _ => 0x40000,
    }
}

/// Bytes of scalar registers per compute unit.
pub(super) const SGPR_SIZE_PER_CU: u32 = 0x4000;

/// What libdrm calls a GPU that its list does not have.
const ANY_GPU: &str = "AMD Radeon Graphics";

/// The marketing name of a PCI device and revision in libdrm's list: lines of `device, revision, name`, both numbers
/// hexadecimal.
pub(super) fn marketing_name(list: &str, device: u16, revision: u32) -> &str {
    let named = list.lines().find_map(|line| {
        let mut parts = line.split(',').map(str::trim);
        let mut number = || u32::from_str_radix(parts.next()?, 16).ok();
        let found = (number()?, number()?);
        (found == (u32::from(device), revision)).then(|| parts.next())?
    });
    named.unwrap_or(ANY_GPU)
}

/// What `HSA_OVERRIDE_GFX_VERSION` asks for: `major.minor.stepping`, within the bits each has.
pub(super) fn parse_override(text: &str) -> Option<EngineId> {
    let mut parts = text.split('.').map(|part| part.trim_start().parse::<u8>().ok());
    let (major, minor, stepping) = (parts.next()??, parts.next()??, parts.next()??);
    (parts.next().is_none() && major <= 0x3f).then_some(EngineId { u_code: 0, major, minor, stepping })
}
