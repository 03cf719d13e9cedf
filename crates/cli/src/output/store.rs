//! Standard output as an object store, for `COPY ... TO STDOUT`.
//!
//! It accepts one file at a time. The writer of COPY buffers its bytes and hands them over in order, so that
//! each part is written when it arrives, and the result needs no memory beyond the buffer.

use std::fmt;
use std::io::{self, Write};

use async_trait::async_trait;
use futures::stream::{self, BoxStream, StreamExt};
use object_store::path::Path;
use object_store::{
    CopyOptions, Error, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore,
    PutMultipartOptions, PutOptions, PutPayload, PutResult, Result, UploadPart,
};

use super::Target;

/// The name of the store in errors.
const NAME: &str = "standard output";

/// Writes each file to the target of results.
#[derive(Debug, Clone)]
pub(crate) struct OutputStore(pub(crate) Target);

impl fmt::Display for OutputStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(NAME)
    }
}

fn failed(source: io::Error) -> Error {
    Error::Generic {
        store: NAME,
        source: Box::new(source),
    }
}

fn unsupported(operation: &str) -> Error {
    failed(io::Error::new(
        io::ErrorKind::Unsupported,
        format!("standard output has no operation {operation}"),
    ))
}

fn write(target: &mut Target, data: &PutPayload) -> io::Result<()> {
    for bytes in data {
        target.write_all(bytes)?;
    }
    target.flush()
}

const fn written() -> PutResult {
    PutResult {
        e_tag: None,
        version: None,
    }
}

#[async_trait]
impl ObjectStore for OutputStore {
    async fn put_opts(&self, _: &Path, data: PutPayload, _: PutOptions) -> Result<PutResult> {
        write(&mut self.0.clone(), &data).map_err(failed)?;
        Ok(written())
    }

    async fn put_multipart_opts(&self, _: &Path, _: PutMultipartOptions) -> Result<Box<dyn MultipartUpload>> {
        Ok(Box::new(Parts(self.0.clone())))
    }

    async fn get_opts(&self, _: &Path, _: GetOptions) -> Result<GetResult> {
        Err(unsupported("get"))
    }

    fn delete_stream(&self, locations: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        locations.map(|_| Err(unsupported("delete"))).boxed()
    }

    fn list(&self, _: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        stream::empty().boxed()
    }

    async fn list_with_delimiter(&self, _: Option<&Path>) -> Result<ListResult> {
        Err(unsupported("list"))
    }

    async fn copy_opts(&self, _: &Path, _: &Path, _: CopyOptions) -> Result<()> {
        Err(unsupported("copy"))
    }
}

/// A file that is written part after part.
#[derive(Debug)]
struct Parts(Target);

#[async_trait]
impl MultipartUpload for Parts {
    fn put_part(&mut self, data: PutPayload) -> UploadPart {
        // Parts are written here, not in the future, because futures may be polled in any order.
        let done = write(&mut self.0, &data).map_err(failed);
        Box::pin(std::future::ready(done))
    }

    async fn complete(&mut self) -> Result<PutResult> {
        Ok(written())
    }

    async fn abort(&mut self) -> Result<()> {
        Ok(())
    }
}
