//! Encoding of Arrow arrays as columns, in two steps.
//!
//! ```text
//!  chunk 0 arrays ──encode──► LocalChunk ─┐           ┌─► slab: data, offsets, validity
//!  chunk 1 arrays ──encode──► LocalChunk ─┼──plan ────┼─► ...        (in parallel)
//!  chunk 2 arrays ──encode──► LocalChunk ─┘  width,   └─► ...
//!   (in parallel, as they arrive)            factor, dictionary
//! ```
//!
//! A column has one encoding, which depends on all its chunks. Keeping the decoded arrays of a whole column
//! until then would take several times the memory of the encoded column. Each chunk is therefore encoded at
//! once, independently of the others ([`ColumnEncoder::encode`]), with about its final width, and its arrays
//! are dropped. [`ColumnEncoder::plan`] then decides for the column (the width, the factor, the merged
//! dictionary, or plain strings) and computes the bytes that it takes. [`Plan::write`] writes the chunks to
//! slabs of host memory, and widens those that are narrower.
//!
//! All loops over values are over primitive slices; types are dispatched once per array.

mod chunk;
mod codes;
mod decoded;
mod dictionary;
mod encoder;
mod fixed;
mod indexed;
mod integer;
mod kind;
mod merge;
mod plan;
mod slabs;
mod slots;
pub(crate) mod string;
mod validity;

pub(crate) use self::chunk::LocalChunk;
pub(crate) use self::decoded::Decoded;
pub(crate) use self::encoder::ColumnEncoder;
pub(crate) use self::indexed::{Indexed, IndexedValues};
pub(crate) use self::integer::greatest_common_divisor;
pub use self::kind::supports_type;
pub use self::merge::strings_array;
pub(crate) use self::plan::Plan;
pub(crate) use self::validity::Validity;
