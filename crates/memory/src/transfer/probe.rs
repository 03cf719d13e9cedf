//! The transfer methods that a device supports, queried before one is used.

use galatea_device::{Device, DeviceInfo};

use super::Method;

/// A transfer method that a device does not support.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{method} is not available on this device: {reason}")]
pub struct Absent {
    /// The method.
    pub method: Method,
    /// The reason, with the relevant attributes.
    pub reason: String,
}

/// Attributes of a device's link.
#[derive(Debug, Clone)]
pub struct Capabilities {
    info: DeviceInfo,
    /// Whether the driver allocates managed memory that both sides may access.
    managed: bool,
}

impl Capabilities {
    /// Queries a device.
    #[must_use]
    pub fn probe(device: &Device) -> Self {
        // Allocates a page, to check whether the driver has the functions for it.
        let managed = device.info().concurrent_managed_access && matches!(device.managed(1), Ok(Some(_)));
        Self {
            info: device.info().clone(),
            managed,
        }
    }

    /// Whether the device supports a method.
    ///
    /// # Errors
    /// The reason why not.
    pub fn has(&self, method: Method) -> Result<(), Absent> {
        let info = &self.info;
        let absent = |reason: String| Err(Absent { method, reason });
        match method {
            Method::Pageable | Method::Staged | Method::Pinned | Method::PinnedPieces => Ok(()),
            Method::DynamicPinning | Method::ZeroCopy if info.host_register => Ok(()),
            Method::DynamicPinning | Method::ZeroCopy => {
                absent("host memory cannot be registered".to_owned())
            }
            Method::UnifiedPrefetch | Method::UnifiedMigration if self.managed => Ok(()),
            Method::UnifiedPrefetch | Method::UnifiedMigration => absent(format!(
                "concurrent managed access (attribute 89) is {}, or the driver has no functions for it",
                u8::from(info.concurrent_managed_access)
            )),
            Method::Coherence => absent(format!(
                "{} (pageable memory access, attribute 88, is {}; native atomics to the host, attribute 86, are {}; \
                 concurrent managed access, attribute 89, is {})",
                if info.pageable_memory_access {
                    "its loads of pageable memory are not known to go over a coherent link"
                } else {
                    "its loads cannot reach pageable memory"
                },
                u8::from(info.pageable_memory_access),
                u8::from(info.host_native_atomics),
                u8::from(info.concurrent_managed_access)
            )),
        }
    }

    /// Number of copy engines: with two or more, both directions and kernels overlap.
    #[must_use]
    pub fn copy_engines(&self) -> u32 {
        self.info.copy_engines
    }
}
