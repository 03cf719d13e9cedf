//! The attributes of a device that the engine, the planner's cost model and `galatea doctor` read.

use cudarc::driver::sys::{CUdevice, CUdevice_attribute as Attribute};

use crate::errors::Result;
use crate::sys::{Backend, Code, Driver};

/// Properties of a device, read once when it is opened. Sizes are bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceInfo {
    /// Index among the devices of its kind.
    pub ordinal: usize,
    /// Marketing name.
    pub name: String,
    /// The driver's unique identifier, as 32 hexadecimal digits.
    pub uuid: String,
    /// Whether it is the emulated device.
    pub emulated: bool,
    /// Compute capability, (major, minor).
    pub compute_capability: (u32, u32),
    /// Streaming multiprocessors.
    pub multiprocessors: u32,
    /// Device memory.
    pub total_memory: u64,
    /// Level-2 cache.
    pub l2_bytes: u64,
    /// Largest shared memory of a block, static and dynamic together (the opt-in limit).
    pub shared_memory_per_block: u32,
    /// Shared memory of a block without opting in.
    pub default_shared_memory_per_block: u32,
    /// Shared memory that the run time reserves per block.
    pub reserved_shared_memory_per_block: u32,
    /// Shared memory of a multiprocessor.
    pub shared_memory_per_multiprocessor: u32,
    /// 32-bit registers of a block.
    pub registers_per_block: u32,
    /// 32-bit registers of a multiprocessor.
    pub registers_per_multiprocessor: u32,
    /// The most threads of a block.
    pub max_threads_per_block: u32,
    /// The most resident threads of a multiprocessor.
    pub max_threads_per_multiprocessor: u32,
    /// The most resident blocks of a multiprocessor.
    pub max_blocks_per_multiprocessor: u32,
    /// The most threads of a block in x, y and z.
    pub max_block: [u32; 3],
    /// The most blocks of a grid in x, y and z.
    pub max_grid: [u32; 3],
    /// Lanes of a warp.
    pub warp_size: u32,
    /// Copy engines: 2 or more copy both ways while computing.
    pub copy_engines: u32,
    /// Memory clock in kHz; 0 if the driver does not report it.
    pub memory_clock_khz: u32,
    /// Width of the memory bus, bits.
    pub memory_bus_bits: u32,
    /// Device and host share pageable memory (HMM, ATS): the coherence transfer method.
    pub pageable_memory_access: bool,
    /// CPU and GPU may access managed memory at the same time.
    pub concurrent_managed_access: bool,
    /// CPU and GPU may update one word atomically.
    pub host_native_atomics: bool,
    /// Grids with all blocks resident at once can be launched.
    pub cooperative_launch: bool,
    /// Stream-ordered memory pools.
    pub memory_pools: bool,
    /// Virtual memory management.
    pub virtual_memory: bool,
    /// Host memory can be registered.
    pub host_register: bool,
    /// Error-correcting memory is enabled.
    pub ecc: bool,
    /// Address on the PCI bus, `domain:bus:device`.
    pub pci: String,
    /// CUDA version of the driver, (major, minor).
    pub driver_version: (u32, u32),
    /// Version of the compiler, if one was found.
    pub nvrtc_version: Option<(u32, u32)>,
}

impl DeviceInfo {
    /// The target architecture of cubins, `sm_90`.
    #[must_use]
    pub fn architecture(&self) -> Architecture {
        Architecture {
            major: self.compute_capability.0,
            minor: self.compute_capability.1,
        }
    }

    /// Peak bandwidth of device memory by clock and width, bytes per second; 0 if the driver does not report
    /// them.
    #[must_use]
    pub fn theoretical_bandwidth(&self) -> u64 {
        2 * u64::from(self.memory_clock_khz) * 1000 * u64::from(self.memory_bus_bits) / 8
    }
}

/// A real architecture, as in `-arch=sm_XX`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Architecture {
    /// Major version of the compute capability.
    pub major: u32,
    /// Minor version of the compute capability.
    pub minor: u32,
}

impl Architecture {
    /// Hopper (H100, H200): `sm_90`.
    pub const SM_90: Self = Self { major: 9, minor: 0 };
    /// Ampere (A100): `sm_80`.
    pub const SM_80: Self = Self { major: 8, minor: 0 };
}

impl std::fmt::Display for Architecture {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "sm_{}{}", self.major, self.minor)
    }
}

/// Converts `13000` to `(13, 0)`.
pub(crate) fn cuda_version(number: i32) -> (u32, u32) {
    let number = number.unsigned_abs();
    (number / 1000, number % 1000 / 10)
}

/// Number of devices of an initialised driver.
pub(crate) fn count(driver: &'static Driver) -> Result<usize> {
    let mut count = 0;
    // SAFETY: the pointer is valid for a write; the driver is initialised.
    driver.check("cuDeviceGetCount", unsafe {
        (driver.cuDeviceGetCount)(&raw mut count)
    })?;
    Ok(usize::try_from(count).unwrap_or(0))
}

/// The driver's version.
pub(crate) fn driver_version(driver: &'static Driver) -> Result<(u32, u32)> {
    let mut version = 0;
    // SAFETY: the pointer is valid for a write.
    driver.check("cuDriverGetVersion", unsafe {
        (driver.cuDriverGetVersion)(&raw mut version)
    })?;
    Ok(cuda_version(version))
}

/// Handle of a device.
pub(crate) fn handle(driver: &'static Driver, ordinal: usize) -> Result<CUdevice> {
    let mut device = 0;
    let index = i32::try_from(ordinal).unwrap_or(i32::MAX);
    // SAFETY: the pointer is valid for a write; the driver checks the ordinal.
    driver.check("cuDeviceGet", unsafe {
        (driver.cuDeviceGet)(&raw mut device, index)
    })?;
    Ok(device)
}

/// Reads all properties of a device.
pub(crate) fn read(
    driver: &'static Driver,
    backend: Backend,
    ordinal: usize,
    nvrtc_version: Option<(u32, u32)>,
) -> Result<DeviceInfo> {
    let device = handle(driver, ordinal)?;

    let mut name = [0u8; 256];
    // SAFETY: the buffer is valid for 256 bytes, which is the length passed; the driver terminates the
    // string.
    driver.check("cuDeviceGetName", unsafe {
        (driver.cuDeviceGetName)(name.as_mut_ptr().cast(), 256, device)
    })?;
    let name = name.split(|byte| *byte == 0).next().unwrap_or_default();

    let mut uuid = cudarc::driver::sys::CUuuid { bytes: [0; 16] };
    // SAFETY: the pointer is valid for a write.
    driver.check("cuDeviceGetUuid", unsafe {
        (driver.cuDeviceGetUuid_v2)(&raw mut uuid, device)
    })?;

    let mut total_memory = 0usize;
    // SAFETY: the pointer is valid for a write.
    driver.check("cuDeviceTotalMem", unsafe {
        (driver.cuDeviceTotalMem_v2)(&raw mut total_memory, device)
    })?;

    // Attributes that a driver does not support read as 0.
    let get = |attribute: Attribute| {
        let mut value = 0;
        // SAFETY: the pointer is valid for a write; the driver checks attribute and device.
        let code = unsafe { (driver.cuDeviceGetAttribute)(&raw mut value, attribute, device) };
        if code == Code::SUCCESS {
            u32::try_from(value).unwrap_or(0)
        } else {
            0
        }
    };
    use Attribute as A;
    let default_shared = get(A::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK);
    Ok(DeviceInfo {
        ordinal,
        name: String::from_utf8_lossy(name).into_owned(),
        uuid: uuid.bytes.iter().map(|byte| format!("{byte:02x}")).collect(),
        emulated: backend == Backend::Emulated,
        compute_capability: (
            get(A::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR),
            get(A::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR),
        ),
        multiprocessors: get(A::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT),
        total_memory: total_memory as u64,
        l2_bytes: u64::from(get(A::CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE)),
        shared_memory_per_block: get(A::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)
            .max(default_shared),
        default_shared_memory_per_block: default_shared,
        reserved_shared_memory_per_block: get(A::CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK),
        shared_memory_per_multiprocessor: get(A::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR),
        registers_per_block: get(A::CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK),
        registers_per_multiprocessor: get(A::CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR),
        max_threads_per_block: get(A::CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK),
        max_threads_per_multiprocessor: get(A::CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR),
        max_blocks_per_multiprocessor: get(A::CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR),
        max_block: [
            get(A::CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X),
            get(A::CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y),
            get(A::CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z),
        ],
        max_grid: [
            get(A::CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X),
            get(A::CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y),
            get(A::CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z),
        ],
        warp_size: get(A::CU_DEVICE_ATTRIBUTE_WARP_SIZE),
        copy_engines: get(A::CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT),
        memory_clock_khz: get(A::CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE),
        memory_bus_bits: get(A::CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH),
        pageable_memory_access: get(A::CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS) != 0,
        concurrent_managed_access: get(A::CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS) != 0,
        host_native_atomics: get(A::CU_DEVICE_ATTRIBUTE_HOST_NATIVE_ATOMIC_SUPPORTED) != 0,
        cooperative_launch: get(A::CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH) != 0,
        memory_pools: get(A::CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED) != 0,
        virtual_memory: get(A::CU_DEVICE_ATTRIBUTE_VIRTUAL_ADDRESS_MANAGEMENT_SUPPORTED) != 0,
        host_register: get(A::CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED) != 0,
        ecc: get(A::CU_DEVICE_ATTRIBUTE_ECC_ENABLED) != 0,
        pci: format!(
            "{:04x}:{:02x}:{:02x}",
            get(A::CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID),
            get(A::CU_DEVICE_ATTRIBUTE_PCI_BUS_ID),
            get(A::CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID)
        ),
        driver_version: driver_version(driver)?,
        nvrtc_version,
    })
}
