//! The emulated device: a stand-in for the CUDA driver and NVRTC that runs CUDA C++ on the CPU, for tests.
