//! Chunks that kernels read over the link, in place: zero-copy.
//!
//! Kernels read columns as vectors, past their last row up to the padding. So host memory can be read in
//! place if its buffers have the alignment and padding of the store, and if no code is packed.

use crate::device::columns::ChunkAddresses;
use crate::device::{DeviceRuntime, RunError};
use galatea_device::HostView;
use galatea_store::{ChunkData, TableView, VIEW_ALIGNMENT};
use std::collections::HashMap;

/// The addresses of chunks in pinned host memory, for kernels.
#[derive(Debug, Default)]
pub(crate) struct MappedChunks {
    /// By chunk: for each column its addresses and bytes.
    columns: HashMap<usize, Vec<(ChunkAddresses, u64)>>,
}

impl MappedChunks {
    /// Pins and maps the host memory of chunks. `None` if one of them cannot be read in place.
    ///
    /// # Errors
    /// The device is lost.
    pub(crate) fn of(
        runtime: &DeviceRuntime,
        view: &TableView,
        chunks: impl Iterator<Item = usize>,
    ) -> Result<Option<Self>, RunError> {
        let mut columns = HashMap::new();
        for chunk in chunks {
            let mut mapped = Vec::with_capacity(view.columns.len());
            for column in &view.columns {
                let chunk = &column.chunks[chunk];
                let ChunkData::Plain(data) = &chunk.data else {
                    return Ok(None);
                };
                let mut addresses = [0; 3];
                let views = [Some(data), chunk.validity.as_ref(), chunk.offsets.as_ref()];
                for (address, view) in addresses.iter_mut().zip(views) {
                    let Some(view) = view else { continue };
                    match mapped_address(runtime, view)? {
                        Some(found) => *address = found,
                        None => return Ok(None),
                    }
                }
                let [data, validity, offsets] = addresses;
                let bytes = views.into_iter().flatten().map(|view| view.len() as u64).sum();
                mapped.push((
                    ChunkAddresses {
                        data,
                        validity,
                        offsets,
                    },
                    bytes,
                ));
            }
            columns.insert(chunk, mapped);
        }
        Ok(Some(Self { columns }))
    }

    /// The addresses of a column of a chunk.
    pub(crate) fn place(&self, chunk: usize, column: usize) -> Option<ChunkAddresses> {
        let (addresses, _) = self.columns.get(&chunk)?.get(column)?;
        Some(*addresses)
    }

    /// Bytes of a column of a chunk, which launches read over the link.
    pub(crate) fn bytes(&self, chunk: usize, column: usize) -> u64 {
        let columns = self.columns.get(&chunk);
        columns
            .and_then(|columns| columns.get(column))
            .map_or(0, |(_, bytes)| *bytes)
    }
}

/// The address of a buffer for kernels, if it is aligned and padded.
fn mapped_address(runtime: &DeviceRuntime, view: &HostView) -> Result<Option<u64>, RunError> {
    let end = view.offset() + view.len().next_multiple_of(VIEW_ALIGNMENT);
    let device = runtime.device();
    if end > view.memory().len() || !device.pin_if_possible(view.memory())? {
        return Ok(None);
    }
    let address = device.mapped_address(view)?;
    Ok(address.filter(|address| address.is_multiple_of(VIEW_ALIGNMENT as u64)))
}
