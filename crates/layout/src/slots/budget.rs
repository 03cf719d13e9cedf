//! The memory for copies (Sitaridi & Ross §2, the bounded problem).

use crate::error::{LayoutError, Result};

/// Limits of the replicated table. Holes count, since they occupy shared memory, too.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Budget {
    copies: Option<f64>,
    shared: Option<(u64, u32)>,
}

impl Budget {
    /// No limit except that of slot numbers.
    #[must_use]
    pub fn unlimited() -> Self {
        Self::default()
    }

    /// The paper's budget *b*: at most `copies` times the slots of the table without copies.
    #[must_use]
    pub fn copies(copies: f64) -> Self {
        Self::default().and_copies(copies)
    }

    /// A table of at most `bytes` of shared memory, with `slot_bytes` bytes per slot (of all aggregates, or
    /// of the payload).
    #[must_use]
    pub fn shared_memory(bytes: u64, slot_bytes: u32) -> Self {
        Self::default().and_shared_memory(bytes, slot_bytes)
    }

    /// This limit and additionally that of [`Budget::copies`].
    #[must_use]
    pub fn and_copies(mut self, copies: f64) -> Self {
        self.copies = Some(copies);
        self
    }

    /// This limit and additionally that of [`Budget::shared_memory`].
    #[must_use]
    pub fn and_shared_memory(mut self, bytes: u64, slot_bytes: u32) -> Self {
        self.shared = Some((bytes, slot_bytes));
        self
    }

    /// The most slots of a table of `values` values.
    ///
    /// # Errors
    /// [`LayoutError::Budget`] for fewer than one copy, [`LayoutError::SharedMemory`] if not even one copy of
    /// each value fits, [`LayoutError::SlotNumbers`] if there are more values than slot numbers.
    pub fn slots(&self, values: usize) -> Result<usize> {
        let mut slots = u32::MAX as usize;
        if values > slots {
            return Err(LayoutError::SlotNumbers { values, limit: slots });
        }
        if let Some(copies) = self.copies {
            if copies.is_nan() || copies < 1.0 {
                return Err(LayoutError::Budget { asked: copies });
            }
            // Saturates. By rounding, the product of floats may be less than the number of values, but never
            // by a whole one.
            slots = slots.min(((copies * values as f64).floor() as usize).max(values));
        }
        if let Some((limit, slot_bytes)) = self.shared {
            let fit = limit / u64::from(slot_bytes.max(1));
            if fit < values as u64 {
                return Err(LayoutError::SharedMemory {
                    values,
                    slot_bytes,
                    needed: values as u64 * u64::from(slot_bytes),
                    limit,
                });
            }
            slots = slots.min(usize::try_from(fit).unwrap_or(usize::MAX));
        }
        Ok(slots)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tightest_budget_limit_applies() {
        assert_eq!(Budget::unlimited().slots(10), Ok(u32::MAX as usize));
        assert_eq!(Budget::copies(1.0).slots(1024), Ok(1024));
        assert_eq!(Budget::copies(2.5).slots(3), Ok(7));
        assert_eq!(Budget::copies(f64::INFINITY).slots(3), Ok(u32::MAX as usize));
        // The paper's: 48 KB hold 12 copies of 1024 values of 4 bytes.
        assert_eq!(Budget::shared_memory(48 << 10, 4).slots(1024), Ok(12 * 1024));
        assert_eq!(
            Budget::shared_memory(48 << 10, 4).and_copies(2.0).slots(1024),
            Ok(2048)
        );
    }

    #[test]
    fn impossible_budgets_are_refused() {
        for asked in [0.0, 0.999, -1.0, f64::NAN] {
            assert!(matches!(
                Budget::copies(asked).slots(4),
                Err(LayoutError::Budget { .. })
            ));
        }
        let refused = Budget::shared_memory(4095, 4).slots(1024);
        assert_eq!(
            refused,
            Err(LayoutError::SharedMemory {
                values: 1024,
                slot_bytes: 4,
                needed: 4096,
                limit: 4095
            })
        );
        assert!(matches!(
            Budget::unlimited().slots(1 << 33),
            Err(LayoutError::SlotNumbers { .. })
        ));
    }
}
