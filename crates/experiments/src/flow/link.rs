//! Rates of the link with copy engines: the upper bound for streams.

use std::sync::Arc;
use std::time::Instant;

use galatea_device::{Device, HostMemory, HostView};
use galatea_flow::Result;

/// Rates of copy engines with pinned memory, in bytes per second, one value per run.
#[derive(Debug, Clone, Default)]
pub(super) struct Ceilings {
    /// To the device only.
    pub to_device: Vec<f64>,
    /// To the host only.
    pub to_host: Vec<f64>,
    /// Both at once: the slower of the two directions.
    pub each_way: Vec<f64>,
}

/// Measures copies of `bytes` in pieces of `piece`.
///
/// # Errors
/// An error of the device.
pub(super) fn ceilings(device: &Device, bytes: usize, piece: usize, runs: usize) -> Result<Ceilings> {
    let (up, down) = (device.stream()?, device.stream()?);
    let mut filled = HostMemory::new(bytes)?;
    for (at, word) in bytemuck::cast_slice_mut::<u8, u64>(filled.as_mut_slice())
        .iter_mut()
        .enumerate()
    {
        *word = (at as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
    let source = Arc::new(filled);
    let mut target = Some(Arc::new(HostMemory::new(bytes)?));
    device.pin(&source)?;
    if let Some(target) = &target {
        device.pin(target)?;
    }
    let mut buffer = device.alloc::<u8>(&up, bytes)?.assume_written();
    let other = device.alloc::<u8>(&down, bytes)?.assume_written();
    let pieces: Vec<(usize, usize)> = (0..bytes)
        .step_by(piece)
        .map(|at| (at, piece.min(bytes - at)))
        .collect();
    let mut ceilings = Ceilings::default();
    let mut time = |send: bool, receive: bool| -> Result<f64> {
        up.synchronize()?;
        down.synchronize()?;
        let start = Instant::now();
        if send {
            for (at, len) in &pieces {
                let view = HostView::new(Arc::clone(&source), *at, *len)?;
                up.copy_to_device(buffer.slice_mut(*at..at + len)?, &view)?;
            }
        }
        if receive && let Some(memory) = target.take() {
            // One copy, because each piece would need its own memory.
            target = Some(down.copy_to_host(&other, memory, 0)?.wait()?);
        }
        up.synchronize()?;
        Ok(bytes as f64 / start.elapsed().as_secs_f64())
    };
    for run in 0..=runs {
        let rates = (time(true, false)?, time(false, true)?, time(true, true)?);
        if run > 0 {
            ceilings.to_device.push(rates.0);
            ceilings.to_host.push(rates.1);
            ceilings.each_way.push(rates.2);
        }
    }
    Ok(ceilings)
}
