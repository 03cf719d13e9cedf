//! The arguments of kernels.
//!
//! Every kernel takes one struct by value. Its C header is the reference; the Rust twin is declared with
//! [`kernel_arguments!`](crate::kernel_arguments), which also records the layout as data, so that a test can
//! compile a probe of `static_assert`s against the header ([`Layout::probe`]). If the arguments of a kernel
//! are only determined at run time (generated code), it is called with [`ArgumentBytes`].
//!
//! A typed kernel's Rust arguments are [`In`], [`Out`] and [`InOut`] over buffers or slices of them: `&` for
//! memory that it reads, `&mut` for memory that it writes, so the borrow checker refuses overlap. Each
//! returns the address for the struct and a [`Reference`] (range and access). The launch uses it to order the
//! work relative to the buffer's lifetime.

use std::marker::PhantomData;

use bytemuck::{Pod, Zeroable};

use crate::buffer::{Allocation, DeviceSlice, DeviceSliceMut};
use crate::errors::Result;
use crate::stream::Stream;

/// The by-value argument of a kernel.
///
/// # Safety
/// [`KernelArguments::as_bytes`] must be the kernel's one parameter, with the size, layout and alignment of
/// the C++ declaration. Device code is trusted like our own: the implementation does not check how it uses
/// the addresses.
pub unsafe trait KernelArguments {
    /// The bytes of the kernel's parameter.
    fn as_bytes(&self) -> &[u8];
}

/// The layout of an argument struct in Rust.
#[derive(Debug, Clone, Copy)]
pub struct Layout {
    /// The struct's name in C++, in namespace `galatea`.
    pub name: &'static str,
    /// The header that declares it.
    pub header: &'static str,
    /// Size in bytes.
    pub size: usize,
    /// Alignment in bytes.
    pub alignment: usize,
    /// Its fields in order.
    pub fields: &'static [Field],
}

/// A field of an argument struct.
#[derive(Debug, Clone, Copy)]
pub struct Field {
    /// Name, in both languages.
    pub name: &'static str,
    /// Offset in bytes.
    pub offset: usize,
    /// Size in bytes.
    pub size: usize,
}

impl Layout {
    /// C++ code that compiles only if the header agrees with Rust.
    #[must_use]
    pub fn probe(&self) -> String {
        use std::fmt::Write as _;
        let Self {
            name,
            header,
            size,
            alignment,
            fields,
        } = self;
        let mut text = format!(
            "#include \"{header}\"\n\
             static_assert(sizeof(galatea::{name}) == {size}, \"size of {name}\");\n\
             static_assert(alignof(galatea::{name}) == {alignment}, \"alignment of {name}\");\n"
        );
        for Field {
            name: field,
            offset,
            size,
        } in *fields
        {
            let _ = writeln!(
                text,
                "static_assert(GALATEA_OFFSET(galatea::{name}, {field}) == {offset}, \"offset of {name}.{field}\");\n\
                 static_assert(sizeof(galatea::{name}::{field}) == {size}, \"size of {name}.{field}\");"
            );
        }
        text
    }
}

/// An argument struct with a recorded layout. [`kernel_arguments!`](crate::kernel_arguments) implements it.
pub trait ArgumentStruct: KernelArguments + Pod {
    /// Its layout.
    const LAYOUT: Layout;
}

/// Declares a kernel's argument struct, the twin of a C header.
///
/// The fields must be plain data ([`Pod`](bytemuck::Pod)) without padding between them, which is checked at
/// compile time. A test over [`Layout::probe`](crate::Layout::probe) checks agreement with the header.
///
/// ```
/// use galatea_device::{DevicePointer, kernel_arguments};
///
/// kernel_arguments! {
///     /// Arguments of a kernel that sums.
///     pub struct SumArguments in "galatea/args/sum.h" {
///         /// Values to sum.
///         pub values: DevicePointer<u32>,
///         /// Number of values.
///         pub count: u64,
///     }
/// }
/// ```
#[macro_export]
macro_rules! kernel_arguments {
    (
        $(#[$meta:meta])*
        $visibility:vis struct $name:ident in $header:literal {
            $($(#[$field_meta:meta])* $field_visibility:vis $field:ident: $type:ty,)+
        }
    ) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy)]
        #[repr(C)]
        $visibility struct $name {
            $($(#[$field_meta])* $field_visibility $field: $type,)+
        }

        const _: () = {
            const fn plain<T: $crate::bytemuck::Pod>() {}
            $(plain::<$type>();)+
            assert!(
                0 $(+ ::core::mem::size_of::<$type>())+ == ::core::mem::size_of::<$name>(),
                "the argument struct has padding: order its fields by size or fill the gap with a field",
            );
        };

        // SAFETY: all fields are Pod, so zero is a value of each.
        unsafe impl $crate::bytemuck::Zeroable for $name {}
        // SAFETY: repr(C), all fields Pod and no padding: both checked above; Copy and 'static.
        unsafe impl $crate::bytemuck::Pod for $name {}
        // SAFETY: the kernel's declaration is in the named header, which a test compares with this struct.
        unsafe impl $crate::KernelArguments for $name {
            fn as_bytes(&self) -> &[u8] {
                $crate::bytemuck::bytes_of(self)
            }
        }
        impl $crate::ArgumentStruct for $name {
            const LAYOUT: $crate::Layout = $crate::Layout {
                name: stringify!($name),
                header: $header,
                size: ::core::mem::size_of::<$name>(),
                alignment: ::core::mem::align_of::<$name>(),
                fields: &[$($crate::Field {
                    name: stringify!($field),
                    offset: ::core::mem::offset_of!($name, $field),
                    size: ::core::mem::size_of::<$type>(),
                },)+],
            };
        }
    };
}

/// A kernel argument laid out at run time: fields are appended at their natural alignment, as in a C++
/// struct.
#[derive(Debug, Clone, Default)]
pub struct ArgumentBytes {
    /// 16-byte units, so that the start is aligned for every field.
    words: Vec<u128>,
    len: usize,
    alignment: usize,
}

impl ArgumentBytes {
    /// Creates arguments without fields.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Appends a field, after padding to its alignment. Returns its offset.
    pub fn push<T: Pod>(&mut self, value: T) -> usize {
        // Not `align_of::<T>()` alone: device code aligns __int128 to 16, as Rust does since 1.77.
        let alignment = align_of::<T>();
        let offset = self.len.next_multiple_of(alignment);
        self.alignment = self.alignment.max(alignment);
        self.len = offset + size_of::<T>();
        self.words.resize(self.len.div_ceil(16), 0);
        let bytes: &mut [u8] = bytemuck::cast_slice_mut(&mut self.words);
        bytes[offset..offset + size_of::<T>()].copy_from_slice(bytemuck::bytes_of(&value));
        offset
    }

    /// Size as in C++: a multiple of the alignment.
    #[must_use]
    pub fn size(&self) -> usize {
        self.len.next_multiple_of(self.alignment.max(1))
    }
}

// SAFETY: fields are laid out by the rule that C++ uses for a struct of the same fields; the generator of the
// kernel declares its struct from the same list.
unsafe impl KernelArguments for ArgumentBytes {
    fn as_bytes(&self) -> &[u8] {
        let bytes: &[u8] = bytemuck::cast_slice(&self.words);
        &bytes[..self.size()]
    }
}

/// An address on the device, typed for reading; `const T*` or `T*` in C++.
#[repr(transparent)]
pub struct DevicePointer<T> {
    address: u64,
    values: PhantomData<fn() -> T>,
}

impl<T> DevicePointer<T> {
    /// The null pointer.
    pub const NULL: Self = Self::new(0);

    /// A pointer to an address.
    #[must_use]
    pub const fn new(address: u64) -> Self {
        Self {
            address,
            values: PhantomData,
        }
    }

    /// The address.
    #[must_use]
    pub const fn address(self) -> u64 {
        self.address
    }
}

impl<T> Clone for DevicePointer<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for DevicePointer<T> {}

impl<T> std::fmt::Debug for DevicePointer<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:#x}", self.address)
    }
}

// SAFETY: transparent over u64, for which zero is valid.
unsafe impl<T> Zeroable for DevicePointer<T> {}
// SAFETY: transparent over u64, which is Pod; the phantom has no size and no lifetime.
unsafe impl<T: 'static> Pod for DevicePointer<T> {}

/// How a kernel accesses a range.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Access {
    /// Reads only.
    Read,
    /// Writes the whole range without reading.
    Write,
    /// Reads and writes.
    ReadWrite,
}

/// A range of device memory that a launch uses.
#[derive(Clone, Copy)]
pub struct Reference<'a> {
    address: u64,
    bytes: u64,
    access: Access,
    allocation: &'a Allocation,
}

impl Reference<'_> {
    /// First byte.
    #[must_use]
    pub fn address(&self) -> u64 {
        self.address
    }

    /// Size in bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// How the launch accesses it.
    #[must_use]
    pub fn access(&self) -> Access {
        self.access
    }

    pub(crate) fn used_by(&self, stream: &Stream) -> Result<()> {
        self.allocation.used_by(stream)
    }
}

impl std::fmt::Debug for Reference<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?} {:#x}+{}", self.access, self.address, self.bytes)
    }
}

macro_rules! argument {
    ($(#[$meta:meta])* $name:ident, $slice:ident, $access:ident) => {
        $(#[$meta])*
        #[derive(Debug)]
        pub struct $name<'a, T> {
            slice: $slice<'a, T>,
        }

        #[doc = concat!("Wraps a buffer or a slice of one: see [`struct@", stringify!($name), "`].")]
        #[expect(non_snake_case, reason = "reads like the constructor it is")]
        #[must_use]
        pub fn $name<'a, T>(memory: impl Into<$slice<'a, T>>) -> $name<'a, T> {
            $name { slice: memory.into() }
        }

        impl<'a, T> $name<'a, T> {
            /// Number of values.
            #[must_use]
            pub fn len(&self) -> usize {
                self.slice.len()
            }

            /// Whether it contains no values.
            #[must_use]
            pub fn is_empty(&self) -> bool {
                self.slice.is_empty()
            }

            /// The pointer for the argument struct.
            #[must_use]
            pub fn pointer(&self) -> DevicePointer<T> {
                DevicePointer::new(self.slice.address())
            }

            /// Range and access for the launch.
            #[must_use]
            pub fn reference(&self) -> Reference<'a> {
                Reference {
                    address: self.slice.address(),
                    bytes: self.slice.bytes(),
                    access: Access::$access,
                    allocation: self.slice.allocation(),
                }
            }
        }
    };
}

argument! {
    /// Device memory that a kernel only reads: `In(&buffer)` or `In(buffer.slice(..)?)`.
    In, DeviceSlice, Read
}
argument! {
    /// Device memory that a kernel writes completely, without reading: `Out(&mut buffer)`.
    Out, DeviceSliceMut, Write
}
argument! {
    /// Device memory that a kernel reads and writes: `InOut(&mut buffer)`.
    InOut, DeviceSliceMut, ReadWrite
}
