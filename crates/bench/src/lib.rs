//! Workload generators, measurements and reports.
