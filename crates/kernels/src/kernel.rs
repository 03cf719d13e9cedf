//! The parts of a typed kernel.

use std::marker::PhantomData;

use galatea_device::{
    ArgumentStruct, Device, Function, Geometry, Layout, Program, Reference, Resources, Result, Stream,
};

/// Default number of threads of a block.
pub(crate) const BLOCK: u32 = 256;

/// The declaration of a kernel in its own file, by its Rust type.
pub trait Kernel {
    /// Its name in C++, and the name of its file in `cuda/kernels`.
    const NAME: &'static str;
    /// The text of that file.
    const SOURCE: &'static str;
    /// Its argument struct.
    type Arguments: ArgumentStruct;

    /// Its row in the list of kernels.
    const ENTRY: KernelEntry = KernelEntry {
        name: Self::NAME,
        source: Self::SOURCE,
        layout: <Self::Arguments as ArgumentStruct>::LAYOUT,
    };
}

/// A row of the list of kernels, [`crate::KERNELS`].
#[derive(Debug, Clone, Copy)]
pub struct KernelEntry {
    /// Name of the kernel and of its file.
    pub name: &'static str,
    /// Its source.
    pub source: &'static str,
    /// The layout of its argument struct.
    pub layout: Layout,
}

impl KernelEntry {
    /// The program that holds the kernel.
    #[must_use]
    pub fn program(&self) -> Program {
        Program::new(self.name, self.source)
            .headers(crate::headers())
            .entry(self.name)
    }

    /// [`Self::program`] with more compiler options, such as definitions that select a variant of the kernel.
    #[must_use]
    pub fn program_with(&self, options: impl IntoIterator<Item = String>) -> Program {
        let mut program = self.program();
        program.options.extend(options);
        program
    }
}

/// A loaded kernel that takes exactly its own arguments; the content of a kernel's Rust type.
#[derive(Debug, Clone)]
pub struct KernelFunction<K> {
    function: Function,
    kernel: PhantomData<fn() -> K>,
}

impl<K: Kernel> KernelFunction<K> {
    /// Compiles (or finds) and loads it.
    ///
    /// # Errors
    /// Those of [`Device::compile`].
    pub fn load(device: &Device) -> Result<Self> {
        Ok(Self {
            function: device.kernel(K::NAME, || K::ENTRY.program())?,
            kernel: PhantomData,
        })
    }

    /// The same as [`KernelFunction::load`], for [`KernelEntry::program_with`].
    ///
    /// # Errors
    /// Those of [`Device::compile`].
    pub fn load_with(device: &Device, options: impl IntoIterator<Item = String>) -> Result<Self> {
        let compiled = device.compile(&K::ENTRY.program_with(options))?;
        Ok(Self {
            function: compiled.module.function(K::NAME)?,
            kernel: PhantomData,
        })
    }

    /// The resources of a multiprocessor that it needs.
    #[must_use]
    pub fn resources(&self) -> Resources {
        self.function.resources()
    }

    /// Maximum number of resident blocks on the device.
    ///
    /// # Errors
    /// The device's.
    pub fn resident_blocks(&self, block: u32) -> Result<u64> {
        self.function.resident_blocks(block, 0)
    }

    /// The same as [`Self::resident_blocks`] for blocks with `dynamic_shared` bytes of dynamic shared memory.
    ///
    /// # Errors
    /// The device's.
    pub fn resident_blocks_with(&self, block: u32, dynamic_shared: u32) -> Result<u64> {
        self.function.resident_blocks(block, dynamic_shared)
    }

    /// Queues a launch.
    ///
    /// # Errors
    /// Those of [`Function::launch_with`].
    pub fn launch(
        &self,
        stream: &Stream,
        geometry: Geometry,
        arguments: &K::Arguments,
        references: &[Reference<'_>],
    ) -> Result<()> {
        self.function.launch_with(stream, geometry, arguments, references)
    }

    /// Queues a launch with blocks that may wait for each other.
    ///
    /// # Errors
    /// Those of [`Function::launch_cooperative`].
    pub fn launch_cooperative(
        &self,
        stream: &Stream,
        geometry: Geometry,
        arguments: &K::Arguments,
        references: &[Reference<'_>],
    ) -> Result<()> {
        self.function
            .launch_cooperative(stream, geometry, arguments, references)
    }
}

/// Declares [`Kernel`] for a type: name of kernel and file, and argument struct.
macro_rules! kernel {
    ($type:ident, $name:literal, $arguments:ident) => {
        impl $crate::Kernel for $type {
            const NAME: &'static str = $name;
            const SOURCE: &'static str = include_str!(concat!(
                env!("CARGO_MANIFEST_DIR"),
                "/cuda/kernels/",
                $name,
                ".cu"
            ));
            type Arguments = $arguments;
        }
    };
}
pub(crate) use kernel;

/// Declares the type of a kernel that is launched in blocks of [`BLOCK`] threads, at most the number of
/// resident blocks: the declarations of [`kernel!`], the loaded function with that number of blocks, and
/// `new`.
macro_rules! resident_kernel {
    ($(#[$documentation:meta])* $type:ident, $name:literal, $arguments:ident) => {
        $crate::kernel::kernel!($type, $name, $arguments);

        $(#[$documentation])*
        #[derive(Debug, Clone)]
        pub struct $type {
            function: $crate::KernelFunction<Self>,
            blocks: u64,
        }

        impl $type {
            /// Loads the kernel.
            ///
            /// # Errors
            /// Those of [`galatea_device::Device::compile`].
            pub fn new(device: &galatea_device::Device) -> galatea_device::Result<Self> {
                let function = $crate::KernelFunction::load(device)?;
                let blocks = function.resident_blocks($crate::kernel::BLOCK)?;
                Ok(Self { function, blocks })
            }
        }
    };
}
pub(crate) use resident_kernel;
