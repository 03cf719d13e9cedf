//! One range of addresses with pages in the memories of the device and of the host.
//!
//! A kernel accesses the range like an array; each page is where it was placed. It is used for a hash table
//! that is larger than device memory. The driver maps separately allocated pages side by side
//! (`cuMemAddressReserve`, `cuMemCreate`, `cuMemMap`). The emulated device has no such functions: there the
//! range is ordinary device memory, and [`HybridMemory::is_mapped`] is false.
//!
//! Another device that the device can access may take the host's place ([`Device::hybrid_on_peer`]).
//!
//! Only pages in the memory of a device are charged to its budget.

mod copies;
mod ranges;

use std::sync::Arc;

use cudarc::driver::sys::{
    CUdeviceptr, CUmemAccess_flags, CUmemAccessDesc, CUmemAllocationGranularity_flags,
    CUmemAllocationHandleType, CUmemAllocationProp, CUmemAllocationProp_st__bindgen_ty_1,
    CUmemAllocationType, CUmemLocation, CUmemLocationType, CUresult,
};

use crate::buffer::DeviceBuffer;
use crate::context::Context;
use crate::device::Device;
use crate::errors::Result;
use crate::info;
use crate::pins::host_memory_error;
use crate::stream::Stream;
use crate::sys::{Backend, Code, Mapping, Peer};

use ranges::ranges;

/// Size of a page.
const PAGE: u64 = 2 << 20;

/// The order of pages in the two memories.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PageOrder {
    /// First all pages of the device, then those of the host.
    DeviceFirst,
    /// Both in proportion in every 64 MiB.
    Interleaved,
}

/// A range of addresses for kernels, with zero or more pages in each memory; freed when dropped, after the
/// device's work is done. Its contents are unspecified at first.
pub struct HybridMemory {
    context: Arc<Context>,
    bytes: u64,
    device_bytes: u64,
    pages: Pages,
    /// The other device, if its memory is used.
    peer: Option<OnPeer>,
}

/// Pages in the memory of another device: keeps its context, and a part of its budget.
struct OnPeer {
    context: Arc<Context>,
    charge: u64,
}

impl OnPeer {
    fn new(peer: &Device, charge: u64) -> Result<Self> {
        let context = Arc::clone(peer.context());
        context.budget.charge(charge)?;
        Ok(Self { context, charge })
    }
}

impl Drop for OnPeer {
    fn drop(&mut self) {
        self.context.budget.release(self.charge);
    }
}

enum Pages {
    /// Mapped by the driver.
    Mapped {
        table: &'static Mapping,
        address: CUdeviceptr,
        /// Size of the reserved range.
        reserved: u64,
        /// Offset and size of each mapped part.
        parts: Vec<(u64, u64)>,
        charge: u64,
    },
    /// Ordinary device memory.
    Plain(DeviceBuffer<u8>),
}

impl Device {
    /// Maps `bytes` bytes, about `device_bytes` of them in the device's memory and the others in the host's,
    /// in whole pages of 2 MiB. `None` if the device or its driver cannot map memory of the host.
    ///
    /// # Errors
    /// [`crate::DeviceError::OutOfMemory`] beyond the budget; [`crate::DeviceError::HostMemory`] if the host
    /// has too little; the device's.
    pub fn hybrid(&self, bytes: u64, device_bytes: u64, order: PageOrder) -> Result<Option<HybridMemory>> {
        let context = self.context();
        let bytes = bytes.max(1);
        if context.backend == Backend::Emulated {
            let stream = self.stream()?;
            let len = usize::try_from(bytes).unwrap_or(usize::MAX);
            let memory = self.alloc::<u8>(&stream, len)?.assume_written();
            stream.synchronize()?;
            return Ok(Some(HybridMemory {
                context: Arc::clone(context),
                bytes,
                device_bytes: device_bytes.min(bytes),
                pages: Pages::Plain(memory),
                peer: None,
            }));
        }
        let Some(table) = mapping(context)? else {
            return Ok(None);
        };
        let (pages, on_device) = pages_of(bytes, device_bytes);
        let Some(host) = host_location(context, table)? else {
            return match on_device == pages {
                true => self.map(table, None, pages, on_device, order, bytes).map(Some),
                false => Ok(None),
            };
        };
        self.map(table, Some(host), pages, on_device, order, bytes)
            .map(Some)
    }

    /// Whether kernels of this device can access the memory of another one of the same kind.
    ///
    /// # Errors
    /// The device's.
    pub fn can_access(&self, peer: &Self) -> Result<bool> {
        let (context, other) = (self.context(), peer.context());
        if context.backend != other.backend {
            return Ok(false);
        }
        if Arc::ptr_eq(context, other) || context.backend == Backend::Emulated {
            return Ok(true);
        }
        let Some(table) = Peer::get(context.backend) else {
            return Ok(false);
        };
        let own = info::handle(context.driver, context.info.ordinal)?;
        let others = info::handle(other.driver, other.info.ordinal)?;
        let mut can = 0;
        // SAFETY: the pointer is valid for a write, and both are devices of the driver.
        let code = unsafe { (table.cuDeviceCanAccessPeer)(&raw mut can, own, others) };
        context.check("cuDeviceCanAccessPeer", code)?;
        Ok(can != 0)
    }

    /// As [`Self::hybrid`], with the other pages in the memory of another device. Kernels of this device
    /// access them over the link between the devices. On emulated devices the range is memory of this device.
    /// `None` if this device cannot access the other one.
    ///
    /// # Errors
    /// [`crate::DeviceError::OutOfMemory`] beyond the budget of one of them; the device's.
    pub fn hybrid_on_peer(
        &self,
        peer: &Self,
        bytes: u64,
        device_bytes: u64,
        order: PageOrder,
    ) -> Result<Option<HybridMemory>> {
        if !self.can_access(peer)? {
            return Ok(None);
        }
        let context = self.context();
        let bytes = bytes.max(1);
        if context.backend == Backend::Emulated {
            let on_peer = OnPeer::new(peer, bytes - device_bytes.min(bytes))?;
            let memory = self.hybrid(bytes, device_bytes, order)?;
            return Ok(memory.map(|mut memory| {
                memory.peer = Some(on_peer);
                memory
            }));
        }
        if !peer.context().info.virtual_memory {
            return Ok(None);
        }
        let Some(table) = mapping(context)? else {
            return Ok(None);
        };
        let (pages, on_device) = pages_of(bytes, device_bytes);
        let on_peer = OnPeer::new(peer, (pages - on_device) * PAGE)?;
        let other = peer.context().memory_location();
        let mut memory = self.map(table, Some(other), pages, on_device, order, bytes)?;
        memory.peer = Some(on_peer);
        Ok(Some(memory))
    }

    /// Maps pages of the device, and others in another location.
    fn map(
        &self,
        table: &'static Mapping,
        host: Option<CUmemLocation>,
        pages: u64,
        on_device: u64,
        order: PageOrder,
        bytes: u64,
    ) -> Result<HybridMemory> {
        let context = self.context();
        let charge = on_device * PAGE;
        context.budget.charge(charge)?;
        let mut address: CUdeviceptr = 0;
        let reserved = pages * PAGE;
        // SAFETY: the pointer is valid for a write; the driver chooses the address.
        let code = unsafe { (table.cuMemAddressReserve)(&raw mut address, size(reserved), size(PAGE), 0, 0) };
        if let Err(error) = context.check("cuMemAddressReserve", code) {
            context.budget.release(charge);
            return Err(error);
        }
        // From here on, dropping `parts` unmaps what was mapped and frees the range.
        let mut memory = HybridMemory {
            context: Arc::clone(context),
            bytes,
            device_bytes: (on_device * PAGE).min(bytes),
            pages: Pages::Mapped {
                table,
                address,
                reserved,
                parts: Vec::new(),
                charge,
            },
            peer: None,
        };
        for (first, count, of_device) in ranges(pages, on_device, order) {
            let location = match (of_device, host) {
                (false, Some(host)) => host,
                _ => context.memory_location(),
            };
            memory.add(table, address, first * PAGE, count * PAGE, location)?;
        }
        Ok(memory)
    }
}

impl HybridMemory {
    /// Allocates and maps a part, for accesses of the device.
    fn add(
        &mut self,
        table: &'static Mapping,
        base: CUdeviceptr,
        offset: u64,
        bytes: u64,
        location: CUmemLocation,
    ) -> Result<()> {
        let context = &self.context;
        let mut handle = 0;
        let what = allocation(location);
        // SAFETY: the pointer is valid for a write and the properties are initialised.
        let code = unsafe { (table.cuMemCreate)(&raw mut handle, size(bytes), &raw const what, 0) };
        if code.is(CUresult::CUDA_ERROR_OUT_OF_MEMORY)
            && location.type_ != CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE
        {
            let reason = "the driver cannot allocate pages of the host".to_owned();
            return Err(host_memory_error(size(bytes), reason));
        }
        context.check("cuMemCreate", code)?;
        // SAFETY: the part is inside the reserved range, where nothing is mapped yet, and as long as the
        // allocation.
        let mapped = unsafe { (table.cuMemMap)(base + offset, size(bytes), 0, handle, 0) };
        // SAFETY: the handle was created above. The mapping, if any, keeps the memory.
        let released = unsafe { (table.cuMemRelease)(handle) };
        context.check("cuMemMap", mapped)?;
        if let Pages::Mapped { parts, .. } = &mut self.pages {
            parts.push((offset, bytes));
        }
        self.context.check("cuMemRelease", released)?;
        // The owner of the memory may access it, too: the driver may copy by the engines of either device.
        let device = CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE;
        let own = self.context.memory_location();
        let owner = (location.type_ == device && location.id != own.id).then_some(location);
        let access: Vec<_> = [own]
            .into_iter()
            .chain(owner)
            .map(|location| CUmemAccessDesc {
                location,
                flags: CUmemAccess_flags::CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
            })
            .collect();
        // SAFETY: the part is one whole mapping, and all descriptors are passed.
        let code =
            unsafe { (table.cuMemSetAccess)(base + offset, size(bytes), access.as_ptr(), access.len()) };
        self.context.check("cuMemSetAccess", code)
    }

    /// Address for kernels of the device, a multiple of 256.
    #[must_use]
    pub fn address(&self) -> u64 {
        match &self.pages {
            Pages::Mapped { address, .. } => *address,
            Pages::Plain(memory) => memory.address(),
        }
    }

    /// Size in bytes.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.bytes
    }

    /// Whether it contains no bytes: always false.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        false
    }

    /// Number of bytes in the device's memory.
    #[must_use]
    pub fn device_bytes(&self) -> u64 {
        self.device_bytes
    }

    /// Number of bytes in the memory of another device.
    #[must_use]
    pub fn peer_bytes(&self) -> u64 {
        self.peer.as_ref().map_or(0, |peer| peer.charge)
    }

    /// Whether pages are really in both memories. False on the emulated device.
    #[must_use]
    pub fn is_mapped(&self) -> bool {
        matches!(self.pages, Pages::Mapped { .. })
    }

    /// Orders later work of a stream after the allocation. Call it once for each stream that uses the memory.
    ///
    /// # Errors
    /// The device's.
    pub fn used_by(&self, stream: &Stream) -> Result<()> {
        match &self.pages {
            // Mapped before the call, and unmapped after all work of the device.
            Pages::Mapped { .. } => Ok(()),
            Pages::Plain(memory) => memory.used_by(stream),
        }
    }
}

impl Drop for HybridMemory {
    fn drop(&mut self) {
        let Pages::Mapped {
            table,
            address,
            reserved,
            parts,
            charge,
        } = &self.pages
        else {
            return;
        };
        if self.context.synchronize().is_ok() {
            for (offset, bytes) in parts {
                // SAFETY: mapped once, unmapped once, and unused.
                let _ = unsafe { (table.cuMemUnmap)(*address + *offset, size(*bytes)) };
            }
            // SAFETY: reserved once, freed once; nothing is mapped in it.
            let _ = unsafe { (table.cuMemAddressFree)(*address, size(*reserved)) };
        }
        self.context.budget.release(*charge);
    }
}

impl std::fmt::Debug for HybridMemory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "HybridMemory[{} of {}]@{:#x}",
            self.device_bytes,
            self.bytes,
            self.address()
        )
    }
}

/// The functions that map memory, with the context bound; `None` if the device or its driver has none.
fn mapping(context: &Context) -> Result<Option<&'static Mapping>> {
    let table = Mapping::get(context.backend).filter(|_| context.info.virtual_memory);
    if table.is_some() {
        context.bind()?;
    }
    Ok(table)
}

/// The number of pages for `bytes` bytes, and of those on the device.
fn pages_of(bytes: u64, device_bytes: u64) -> (u64, u64) {
    let pages = bytes.div_ceil(PAGE);
    (pages, (device_bytes / PAGE).min(pages))
}

fn size(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}

fn allocation(location: CUmemLocation) -> CUmemAllocationProp {
    CUmemAllocationProp {
        type_: CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_PINNED,
        requestedHandleTypes: CUmemAllocationHandleType::CU_MEM_HANDLE_TYPE_NONE,
        location,
        win32HandleMetaData: std::ptr::null_mut(),
        allocFlags: CUmemAllocationProp_st__bindgen_ty_1 {
            compressionType: 0,
            gpuDirectRDMACapable: 0,
            usage: 0,
            reserved: [0; 4],
        },
    }
}

/// A location of the host where the driver can allocate pages of 2 MiB or less: the first NUMA node, or the
/// host as a whole. `None` if it has none.
fn host_location(context: &Context, table: &Mapping) -> Result<Option<CUmemLocation>> {
    for kind in [
        CUmemLocationType::CU_MEM_LOCATION_TYPE_HOST_NUMA,
        CUmemLocationType::CU_MEM_LOCATION_TYPE_HOST,
    ] {
        let location = CUmemLocation { type_: kind, id: 0 };
        let what = allocation(location);
        let mut granularity = 0;
        let minimum = CUmemAllocationGranularity_flags::CU_MEM_ALLOC_GRANULARITY_MINIMUM;
        // SAFETY: the pointers are valid for the call.
        let code =
            unsafe { (table.cuMemGetAllocationGranularity)(&raw mut granularity, &raw const what, minimum) };
        if code != Code::SUCCESS || granularity == 0 || !PAGE.is_multiple_of(granularity as u64) {
            continue;
        }
        let mut handle = 0;
        // SAFETY: as above; the handle is released below.
        let code = unsafe { (table.cuMemCreate)(&raw mut handle, size(PAGE), &raw const what, 0) };
        if code == Code::SUCCESS {
            // SAFETY: created above, and not mapped.
            let released = unsafe { (table.cuMemRelease)(handle) };
            context.check("cuMemRelease", released)?;
            return Ok(Some(location));
        }
    }
    context.alive()?;
    Ok(None)
}
