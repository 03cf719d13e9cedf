//! The driver's function for accesses between devices, in a separate table, since only measurements need it.

use std::ffi::c_int;

use cudarc::driver::sys::CUdevice;

super::function_table! {
    /// Functions for accesses between devices.
    Peer {
        cuDeviceCanAccessPeer: fn(*mut c_int, CUdevice, CUdevice);
    }
}

super::optional_table! { Peer }
