//! What a C library answers differently, and why that is right. Anything not declared here is a bug.
//!
//! Each entry recognises one difference by the call and both answers, as narrowly as these allow, and says whether the
//! two libraries still hold the same objects afterwards. The numbers are of the rules and cases that the project's
//! changelog lists ("Differences from libhsakmt").

use super::operation::flag::{FIXED, NO_ADDRESS, NO_SUBSTITUTE, NON_PAGED, ONLY_ADDRESS, SCRATCH};
use super::player::Version;
use super::situation::{Situation, without};

/// What the difference does to the rest of the sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Then {
    /// Only this answer differs.
    GoOn,
    /// From here on the two hold different objects.
    Stop,
}

/// Which reference it is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Of {
    /// Any C library.
    Each,
    /// 5.2.3, which behaves as an older version did.
    Older,
    /// 6.2.4.
    Middle,
    /// 5.2.3 and 6.2.4.
    Debians,
}

impl Of {
    /// Whether it is about this version.
    pub(crate) fn includes(self, version: Version) -> bool {
        match self {
            Of::Each => true,
            Of::Older => version == Version::Of5_2_3,
            Of::Middle => version == Version::Of6_2_4,
            Of::Debians => version != Version::Of2025,
        }
    }
}

/// A difference with its reason.
pub(crate) struct Declared {
    pub(crate) reason: &'static str,
    pub(crate) of: Of,
    pub(crate) then: Then,
    pub(crate) holds: fn(&Situation<'_>) -> bool,
}

const SUCCESS: u32 = 0;
const ERROR: u32 = 1;
const INVALID_PARAMETER: u32 = 3;
const INVALID_HANDLE: u32 = 4;
const INVALID_NODE_UNIT: u32 = 5;
const ALREADY_REGISTERED: u32 = 35;
const NOT_REGISTERED: u32 = 36;
const NO_MEMORY: u32 = 6;
const NOT_OPENED: u32 = 20;

const REGISTERED_USER: u32 = 2;
const RESERVED: u32 = 5;

/// All of them.
pub(crate) const DECLARED: &[Declared] = &[
    Declared {
        reason: "Release drops the topology snapshot and nothing else; C forgets objects and apertures (rule 4)",
        of: Of::Each,
        then: Then::Stop,
        holds: |it| it.after("release"),
    },
    Declared {
        reason: "Deregister of what is still mapped is an error and leaves it as it was; C reports success and leaks (rule 6)",
        of: Of::Each,
        then: Then::Stop,
        holds: |it| it.is("deregister") && it.found_mapped() && it.statuses() == (SUCCESS, ERROR),
    },
    Declared {
        reason: "an ambiguous address ends the smallest registration; C refuses, and none can ever be ended (rule 6)",
        of: Of::Each,
        then: Then::Stop,
        holds: |it| {
            let ends = it.is("deregister") || it.is("free");
            // An error if the smallest is still mapped.
            ends && it.found(REGISTERED_USER) && matches!(it.statuses(), (NOT_REGISTERED, SUCCESS | ERROR))
        },
    },
    Declared {
        reason: "size 0 off a page boundary registers nothing; C makes a registration of size 0 that hides others (rule 5)",
        of: Of::Each,
        then: Then::Stop,
        holds: |it| it.verb().starts_with("register") && it.argument(2) == "0x0" && it.statuses() == (SUCCESS, ERROR),
    },
    Declared {
        reason: "OnlyAddress with NoAddress is refused; C forgets the second (rule 5, case 54)",
        of: Of::Each,
        then: Then::Stop,
        holds: |it| it.is("alloc") && it.flags(NO_ADDRESS | ONLY_ADDRESS) && it.statuses().1 == INVALID_PARAMETER,
    },
    Declared {
        reason: "scratch at a fixed address must be aligned to 64 KiB; C tells the kernel another address (rule 5)",
        of: Of::Each,
        then: Then::Stop,
        holds: |it| it.is("alloc") && it.flags(FIXED | SCRATCH) && it.statuses() == (SUCCESS, NO_MEMORY),
    },
    Declared {
        reason: "a size that no address space has is refused; C wraps around (rule 9)",
        of: Of::Each,
        then: Then::Stop,
        holds: |it| {
            let refused = matches!(it.statuses(), (SUCCESS, ERROR | NO_MEMORY));
            it.is("alloc") && refused && it.number(3) >= 1 << 47
        },
    },
    Declared {
        reason: "the last close frees every object and the next open begins anew; C keeps objects, and takes the SVM API \
                 for granted until an Acquire (rule 4)",
        of: Of::Each,
        then: Then::Stop,
        holds: |it| it.reopened(),
    },
    Declared {
        reason: "C crashes; every call of ours answers (rule 9)",
        of: Of::Each,
        then: Then::Stop,
        holds: |it| it.theirs.starts_with("died"),
    },
    Declared {
        reason: "a fixed address is given only inside the aperture; C gives it anywhere, where no call finds it (rule 5)",
        of: Of::Each,
        then: Then::Stop,
        holds: |it| {
            let outside = it.reserved() || it.variant == "apu" || it.flags(NO_ADDRESS);
            it.is("alloc") && it.flags(FIXED) && outside && matches!(it.statuses(), (SUCCESS, ERROR | NO_MEMORY))
        },
    },
    Declared {
        reason: "a map-to that finds a node listed twice before unmaps it once; C gives the kernel's refusal for a status (rule 5)",
        of: Of::Each,
        then: Then::Stop,
        holds: |it| it.is("map-to") && it.theirs.contains(" map-to -1 "),
    },
    Declared {
        reason: "a closed library writes nothing; C writes a mode of -1 before it looks (rule 9)",
        of: Of::Each,
        then: Then::GoOn,
        holds: |it| it.is("xnack-get") && it.statuses() == (NOT_OPENED, NOT_OPENED) && it.theirs.ends_with("mode=-1"),
    },
    Declared {
        reason: "VRAM of an old APU is for its GPU alone; C maps it for the CPU at an address that no process has (rule 3)",
        of: Of::Each,
        then: Then::Stop,
        holds: |it| {
            it.is("alloc") && it.variant == "apu" && it.flags(NON_PAGED) && it.statuses() == (NO_MEMORY, SUCCESS)
        },
    },
    Declared {
        reason: "host memory without a dGPU is an allocation that any GPU reaches; C calls it a reserved address (rule 1, case 77)",
        of: Of::Each,
        then: Then::GoOn,
        holds: |it| {
            let as_ours = it.theirs.replace("was=5,", "was=1,").replace("Type=5 ", "Type=1 ");
            let asked = it.theirs.contains("=5") && without(&as_ours, &["CPU="]) == without(it.ours, &["CPU="]);
            let mapped = it.verb().starts_with("map") && it.statuses() == (INVALID_PARAMETER, SUCCESS);
            matches!(it.variant, "apu" | "no-gpu") && (asked || mapped)
        },
    },
    Declared {
        reason: "a node listed twice is unmapped once; the kernel refuses the second time, and C can never unmap it",
        of: Of::Each,
        then: Then::Stop,
        holds: |it| it.is("unmap") && it.statuses() == (ERROR, SUCCESS) && it.mapped_twice(),
    },
    Declared {
        reason: "the last close frees every object (rule 4)",
        of: Of::Older,
        then: Then::Stop,
        holds: |it| it.is("close") && it.ours.contains(" gone=") && it.statuses() == (SUCCESS, SUCCESS),
    },
    Declared {
        reason: "5.2.3 looks pointers and nodes up without asking whether it is open (case 39, rule 4)",
        of: Of::Older,
        then: Then::GoOn,
        holds: |it| it.closed(),
    },
    Declared {
        reason: "with HSA_USE_SVM=0 no node has the SVM API; 5.2.3 goes on to say so (case 22)",
        of: Of::Older,
        then: Then::GoOn,
        holds: |it| {
            let rest = |answer| without(answer, &["capability="]);
            it.variant == "svm-unused" && it.is("node") && rest(it.theirs) == rest(it.ours)
        },
    },
    Declared {
        reason: "where no GPU is without the SVM API it is there; 5.2.3 has none (rule 4)",
        of: Of::Older,
        then: Then::GoOn,
        holds: |it| it.variant == "no-gpu" && matches!(it.verb(), "map" | "map-to" | "free" | "deregister" | "unmap"),
    },
    Declared {
        reason: "5.2.3 maps in the order of the GPUs; the target begins with the object's own (rule 5)",
        of: Of::Older,
        then: Then::GoOn,
        holds: |it| {
            it.is("query") && without(it.theirs, &["Mapped="]) == without(it.ours, &["Mapped="]) && it.same_mapped()
        },
    },
    Declared {
        reason: "a forked child shares paged memory, so that what it reserves itself begins elsewhere (case 85)",
        of: Of::Each,
        then: Then::GoOn,
        holds: |it| {
            let opened = |answer: &str| answer.split_once(" open=").map(|(_, rest)| without(rest, &["at="]));
            it.is("fork") && it.reserved() && opened(it.theirs).is_some() && opened(it.theirs) == opened(it.ours)
        },
    },
    Declared {
        reason: "5.2.3 answers a forked child from the parent's objects, or crashes there (case 79)",
        of: Of::Older,
        then: Then::GoOn,
        holds: |it| {
            let opened = |answer: &str| answer.split_once(" open=").map(|(_, rest)| rest.to_owned());
            it.is("fork") && (it.theirs.contains("child died") || opened(it.theirs) == opened(it.ours))
        },
    },
    Declared {
        reason: "5.2.3 gives no fixed address in an aperture that mmap fills (case 56)",
        of: Of::Older,
        then: Then::Stop,
        holds: |it| it.is("alloc") && it.flags(FIXED) && matches!(it.statuses(), (ERROR | NO_MEMORY, SUCCESS)),
    },
    Declared {
        reason: "5.2.3 calls a map of an unknown address ERROR (case 50)",
        of: Of::Older,
        then: Then::GoOn,
        holds: |it| it.is("map") && it.statuses() == (ERROR, INVALID_PARAMETER),
    },
    Declared {
        reason: "before 2025 host memory is not bound to a node, so nothing can fail there (rule 5, NoSubstitute)",
        of: Of::Debians,
        then: Then::Stop,
        holds: |it| it.is("alloc") && it.flags(NO_SUBSTITUTE) && it.statuses() == (SUCCESS, ERROR),
    },
    Declared {
        reason: "6.2.4 never sets the node of an address alone (rule 1)",
        of: Of::Middle,
        then: Then::GoOn,
        holds: |it| {
            let rest = |answer| without(answer, &["Node="]);
            it.ours.contains("Type=5 ") && rest(it.theirs) == rest(it.ours)
        },
    },
    Declared {
        reason: "6.2.4 takes an address alone for memory: it maps, shares, exports and aligns it (rule 5)",
        of: Of::Middle,
        then: Then::Stop,
        holds: |it| match it.verb() {
            "alloc" => {
                it.flags(ONLY_ADDRESS) && matches!(it.statuses(), (SUCCESS | NO_MEMORY, ERROR) | (ERROR, SUCCESS))
            }
            "map" | "map-to" => {
                let mapped = matches!(it.statuses(), (SUCCESS | ERROR, INVALID_PARAMETER) | (ERROR, SUCCESS));
                it.addresses_alone() && mapped
            }
            "share" | "export" | "register" | "register-to" | "register-with" => {
                it.addresses_alone() && matches!(it.statuses(), (SUCCESS | INVALID_NODE_UNIT, ERROR))
            }
            "deregister" => it.found(RESERVED) && it.statuses() == (NOT_REGISTERED, SUCCESS),
            _ => false,
        },
    },
    Declared {
        reason: "6.2.4 takes an address alone of a GPU node from the other part of a reserved range (rule 5)",
        of: Of::Middle,
        then: Then::Stop,
        holds: |it| {
            let rest = |answer| without(answer, &["at="]);
            let alone = it.flags(ONLY_ADDRESS) || it.addresses_alone();
            it.is("alloc") && it.reserved() && alone && rest(it.theirs) == rest(it.ours)
        },
    },
    Declared {
        reason: "5.2.3 lets what is no userptr be registered (rule 5)",
        of: Of::Older,
        then: Then::Stop,
        holds: |it| it.verb().starts_with("register") && it.statuses() == (SUCCESS, INVALID_HANDLE),
    },
    Declared {
        reason: "5.2.3 takes any of several registrations that hold an address (rule 3)",
        of: Of::Older,
        then: Then::GoOn,
        holds: |it| {
            let both = |part| it.theirs.contains(part) && it.ours.contains(part);
            let rest = |answer| without(answer, &["was=2,"]);
            (it.is("query") && both(" 0 Type=2 ")) || (both(" was=2,") && rest(it.theirs) == rest(it.ours))
        },
    },
    Declared {
        reason: "the GPU address of what is registered somewhere, where several are: 5.2.3 takes any of them (rule 3)",
        of: Of::Older,
        then: Then::Stop,
        holds: |it| it.argument(1).starts_with('g'),
    },
    Declared {
        reason: "5.2.3 makes all paged memory that is no userptr on the first GPU, and cannot share it as another's (rule 5)",
        of: Of::Older,
        then: Then::Stop,
        holds: |it| it.variant == "paged-as-gtt" && it.is("share") && it.statuses() == (ERROR, SUCCESS),
    },
    Declared {
        reason: "5.2.3 shows both halves of an AQL ring in host memory to the CPU, which can then be registered (rule 5)",
        of: Of::Older,
        then: Then::Stop,
        holds: |it| it.verb().starts_with("register") && it.statuses() == (SUCCESS, ERROR) && it.rings(),
    },
    Declared {
        reason: "5.2.3 calls scratch that the kernel refuses to back ERROR (rule 5)",
        of: Of::Older,
        then: Then::GoOn,
        holds: |it| it.verb().starts_with("map") && it.statuses() == (ERROR, INVALID_HANDLE),
    },
    Declared {
        reason: "before the first Acquire 5.2.3 knows no node, and of SVM it never knows (rule 4)",
        of: Of::Older,
        then: Then::GoOn,
        holds: |it| {
            let verbs = ["map", "map-to", "unmap", "free", "deregister", "register-to", "register-with"];
            verbs.contains(&it.verb()) && !it.acquired() && it.statuses().0 != SUCCESS
        },
    },
];

/// Behind these, the two hold different objects though their answers are the same.
pub(crate) const SILENT: &[Declared] = &[
    Declared {
        reason: "a registration refused for its node list is not counted; C counts it (rule 5)",
        of: Of::Each,
        then: Then::Stop,
        holds: |it| it.verb().starts_with("register") && it.statuses() == (ALREADY_REGISTERED, ALREADY_REGISTERED),
    },
    Declared {
        reason: "scratch that failed leaves nothing; C goes on to take the range for scratch (rule 5)",
        of: Of::Each,
        then: Then::Stop,
        holds: |it| {
            let odd = it.flags(FIXED) || it.number(3) >= 1 << 40;
            it.is("alloc") && it.flags(SCRATCH) && odd && it.statuses().0 != SUCCESS
        },
    },
    Declared {
        reason: "a request that failed leaves nothing in a reserved aperture; C keeps an area of size 0, or of one that wraps \
                 (rule 5)",
        of: Of::Each,
        then: Then::Stop,
        holds: |it| {
            let nothing = it.verb().starts_with("register") && (it.argument(2) == "0x0" || it.number(2) >= 1 << 47);
            let wraps = it.is("alloc") && it.number(3) >= 1 << 40;
            it.reserved() && (nothing || wraps) && it.statuses().0 != SUCCESS
        },
    },
    Declared {
        reason: "an allocation that failed leaves nothing; before 2025 C keeps the addresses of a huge one (rule 5)",
        of: Of::Debians,
        then: Then::Stop,
        holds: |it| it.is("alloc") && it.statuses() != (SUCCESS, SUCCESS) && it.number(3) >= 1 << 40,
    },
];
