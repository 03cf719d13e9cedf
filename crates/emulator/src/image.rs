//! The emulated cubin: a header, followed by the shared object itself, so that any program's cache can store
//! it.
//!
//! `cuModuleLoadData` takes no length, so the header contains it.

/// Magic bytes. The length of the object follows as 8 bytes, little endian.
const MAGIC: &[u8; 24] = b"GALATEA EMULATED IMAGE 1";
const HEADER: usize = MAGIC.len() + 8;

/// Wraps a shared object.
pub(crate) fn wrap(object: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(HEADER + object.len());
    bytes.extend_from_slice(MAGIC);
    bytes.extend_from_slice(&(object.len() as u64).to_le_bytes());
    bytes.extend_from_slice(object);
    bytes
}

/// The shared object in an image. `None` if the bytes are not a complete image.
pub(crate) fn object(image: &[u8]) -> Option<&[u8]> {
    let rest = image.strip_prefix(MAGIC)?;
    let (length, object) = rest.split_first_chunk::<8>()?;
    object.get(..u64::from_le_bytes(*length) as usize)
}

/// The image at an address, with the length from its header; `None` if it is no image.
///
/// # Safety
/// Either the bytes at `start` differ from the magic in their first readable ones, or they are a whole image.
pub(crate) unsafe fn at<'a>(start: *const u8) -> Option<&'a [u8]> {
    for (index, &expected) in MAGIC.iter().enumerate() {
        // SAFETY: all bytes before this one matched, so this one is readable.
        if unsafe { start.add(index).read() } != expected {
            return None;
        }
    }
    // SAFETY: the magic matches, so a header and an object follow.
    unsafe {
        let header = std::slice::from_raw_parts(start, HEADER);
        let length = u64::from_le_bytes(*header.last_chunk::<8>()?);
        Some(std::slice::from_raw_parts(start, HEADER + length as usize))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn object_code_round_trips_through_an_image() {
        let image = wrap(b"object");
        assert_eq!(object(&image), Some(&b"object"[..]));
        // SAFETY: a whole image.
        assert_eq!(unsafe { at(image.as_ptr()) }, Some(&image[..]));
    }

    #[test]
    fn truncated_and_foreign_images_are_rejected() {
        let image = wrap(b"object");
        assert_eq!(object(&image[..image.len() - 1]), None);
        assert_eq!(object(b"\x7fELF"), None);
        // SAFETY: its first byte differs.
        assert_eq!(unsafe { at(b"\x7fELF".as_ptr()) }, None);
    }
}
