//! The three macros the other files of this folder are written in: a struct is declared once, and its layout table
//! comes from the same words.

/// Declares structs, and a table of how they are laid out. `"C name" => RustName { field: type }`; a field whose C
/// name differs has that name behind it; `payload: [u64; N] as { member: Type }` is a C union.
macro_rules! structs {
    (
        $(
            $(#[$about:meta])*
            $c_name:literal => $name:ident {
                $(
                    $(#[$field_about:meta])*
                    $field:ident $($c_field:literal)? : $kind:ty $(as { $($member:ident : $member_kind:ty),* $(,)? })?
                ),* $(,)?
            }
        )*
    ) => {
        $(
            $(#[$about])*
            #[doc(alias = $c_name)]
            #[derive(
                Clone, Copy, Debug, Default, PartialEq, Eq,
                zerocopy::FromBytes, zerocopy::IntoBytes, zerocopy::Immutable, zerocopy::KnownLayout,
            )]
            #[repr(C)]
            pub struct $name {
                $( $(#[$field_about])* pub $field: $kind, )*
            }

            $($(
                impl $name {
                    $(
                        #[doc = concat!("The payload, read as `", stringify!($member), "`.")]
                        pub fn $member(&self) -> $member_kind {
                            crate::uapi::from_caller(zerocopy::IntoBytes::as_bytes(&self.$field))
                        }
                    )*
                }
            )?)*
        )*

        /// How the structs of this file are laid out.
        pub(super) const LAYOUTS: &[crate::uapi::StructLayout] = &[
            $(
                crate::uapi::StructLayout {
                    c_name: $c_name,
                    size: size_of::<$name>(),
                    fields: &[ $( field!($name, $field $($c_field)? : $kind $(as { $($member : $member_kind),* })?) ),* ],
                },
            )*
        ];
    };
}

/// The table entry of one field, or one entry per member of a union.
macro_rules! field {
    ($of:ident, $field:ident : $kind:ty) => {
        field!($of, $field: $kind as { $field: $kind })
    };
    ($of:ident, $field:ident $c_name:literal : $kind:ty) => {
        &[crate::uapi::FieldLayout {
            c_name: $c_name,
            offset: core::mem::offset_of!($of, $field),
            size: size_of::<$kind>(),
        }]
    };
    ($of:ident, $field:ident : $kind:ty as { $($member:ident : $member_kind:ty),* }) => {
        &[$(crate::uapi::FieldLayout {
            c_name: stringify!($member),
            offset: core::mem::offset_of!($of, $field),
            size: size_of::<$member_kind>(),
        }),*]
    };
}

/// Declares constants under their C names, and a table of them.
macro_rules! constants {
    ($($kind:ty, $about:literal { $($name:ident = $value:expr),* $(,)? })*) => {
        $($(
            #[doc = $about]
            pub const $name: $kind = $value;
        )*)*

        /// The constants of this file.
        pub(super) const CONSTANTS: &[crate::uapi::Constant] =
            &[$($((stringify!($name), $name as u64, size_of::<$kind>())),*),*];
    };
}
