//! The lowest level: plain function tables of the CUDA driver and of NVRTC.
//!
//! The types are those of [`cudarc::driver::sys`] and [`cudarc::nvrtc::sys`], generated from NVIDIA's
//! headers. Its *functions* are not used: each resolves itself in one process-wide library found under fixed
//! names and panics if that library is missing. Here a table is filled once by a resolver, which is `dlsym`
//! on a library found at run time or the emulator's look-up. So the emulated device runs the same host code,
//! and a missing library is an ordinary error value.
//!
//! Functions return their code as a plain integer ([`Code`]): a newer driver may return codes for which the
//! enum of our headers has no variant, and such an enum value would be undefined behaviour.

mod batch;
mod driver;
#[cfg_attr(
    not(all(feature = "emulator", target_os = "linux", target_arch = "x86_64")),
    path = "no_emulator.rs"
)]
mod emulator;
mod library;
mod managed;
mod mapping;
mod nvrtc;
mod peer;

use std::ffi::c_void;

pub(crate) use batch::Batch;
pub(crate) use driver::Driver;
pub(crate) use emulator::{emulator_report, emulator_resolver};
pub(crate) use managed::Managed;
pub(crate) use mapping::Mapping;
pub(crate) use nvrtc::{Bound, NvrtcTable};
pub(crate) use peer::Peer;

/// Looks up a function by name. Never returns null.
pub(crate) type Resolver<'a> = dyn Fn(&str) -> Option<*const c_void> + 'a;

/// A `CUresult` or `nvrtcResult` as returned: any integer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(transparent)]
pub(crate) struct Code(pub(crate) u32);

impl Code {
    pub(crate) const SUCCESS: Self = Self(0);

    pub(crate) fn is(self, code: cudarc::driver::sys::CUresult) -> bool {
        self.0 == code as u32
    }
}

/// The implementation of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Backend {
    /// `libcuda.so.1` and `libnvrtc.so`.
    Gpu,
    /// The emulated device, in this process.
    Emulated,
}

/// Declares a struct of function pointers and a constructor that fills it by name.
macro_rules! function_table {
    ($(#[$meta:meta])* $table:ident { $($name:ident: fn($($argument:ty),* $(,)?) $(-> $result:ty)?;)* }) => {
        $(#[$meta])*
        #[expect(non_snake_case, reason = "the driver's own names")]
        pub(crate) struct $table {
            $(pub(crate) $name: unsafe extern "C" fn($($argument),*) -> $crate::sys::function_table!(@result $($result)?),)*
        }

        impl $table {
            /// Fills the table. The error is the name of the first missing function.
            ///
            /// # Safety
            /// `resolver` must return for each name NVIDIA's function of that name, or one of the same
            /// signature and contract. It must stay loaded for the life of the process.
            pub(crate) unsafe fn resolve(resolver: &$crate::sys::Resolver<'_>) -> Result<Self, &'static str> {
                Ok(Self {
                    $($name: {
                        let address = resolver(stringify!($name)).ok_or(stringify!($name))?;
                        // SAFETY: by this function's contract, the address is that of a function with this
                        // signature.
                        unsafe {
                            std::mem::transmute::<
                                *const std::ffi::c_void,
                                unsafe extern "C" fn($($argument),*) -> $crate::sys::function_table!(@result $($result)?),
                            >(address)
                        }
                    },)*
                })
            }
        }
    };
    (@result) => { $crate::sys::Code };
    (@result $result:ty) => { $result };
}
pub(crate) use function_table;

/// Adds a `get` to a [`function_table`] that not every driver provides.
macro_rules! optional_table {
    ($table:ident) => {
        impl $table {
            /// The table of a backend; `None` if its library lacks one of the functions.
            pub(crate) fn get(backend: $crate::sys::Backend) -> Option<&'static Self> {
                use std::sync::OnceLock;
                static GPU: OnceLock<Option<$table>> = OnceLock::new();
                static EMULATED: OnceLock<Option<$table>> = OnceLock::new();
                let table = match backend {
                    $crate::sys::Backend::Gpu => GPU.get_or_init(|| {
                        let library = $crate::sys::library::open("libcuda.so.1".as_ref()).ok()?;
                        let resolver = |name: &str| $crate::sys::library::symbol(&library, name);
                        // SAFETY: libcuda.so.1 is NVIDIA's driver, so its symbols are its functions; it is
                        // never unloaded.
                        let table = unsafe { Self::resolve(&resolver) }.ok();
                        std::mem::forget(library);
                        table
                    }),
                    $crate::sys::Backend::Emulated => EMULATED.get_or_init(|| {
                        let resolver = $crate::sys::emulator_resolver().ok()?;
                        // SAFETY: the emulator's functions have the driver's signatures and are part of this
                        // program.
                        unsafe { Self::resolve(&resolver) }.ok()
                    }),
                };
                table.as_ref()
            }
        }
    };
}
pub(crate) use optional_table;
