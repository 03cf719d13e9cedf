//! The store: encoded columns in chunks, in host memory a GPU can read at link speed.
