//! The device layer: driver, compiler, memory, streams and kernels of a GPU, loaded at run time.
