//! Digests of records: each field is hashed with its length, so that different records never hash the same
//! bytes.

/// The digest of a record.
pub(crate) type Digest = [u8; 32];

/// A record that is hashed field by field.
#[derive(Debug, Clone, Default)]
pub(crate) struct Record(blake3::Hasher);

impl Record {
    /// Adds bytes or a string.
    pub(crate) fn field(&mut self, bytes: impl AsRef<[u8]>) {
        let bytes = bytes.as_ref();
        self.number(bytes.len() as u64);
        self.0.update(bytes);
    }

    /// Adds a number.
    pub(crate) fn number(&mut self, number: u64) {
        self.0.update(&number.to_le_bytes());
    }

    /// The digest of all fields so far.
    pub(crate) fn finish(&self) -> Digest {
        *self.0.finalize().as_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digests_depend_on_field_boundaries() {
        let of = |fields: &[&str]| {
            let mut record = Record::default();
            fields.iter().for_each(|field| record.field(field));
            record.finish()
        };
        assert_eq!(of(&["ab", "c"]), of(&["ab", "c"]));
        assert_ne!(of(&["ab", "c"]), of(&["a", "bc"]));
        assert_ne!(of(&["ab", "c"]), of(&["ab", "c", ""]));
    }
}
