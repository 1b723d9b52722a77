//! What the system says of this process.

use std::fs;

/// Open file descriptors.
pub fn descriptors() -> usize {
    fs::read_dir("/proc/self/fd").unwrap().count()
}

/// Threads.
pub fn threads() -> usize {
    fs::read_dir("/proc/self/task").unwrap().count()
}

/// The most memory that was in use at once so far, in bytes.
pub fn peak_memory_bytes() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))
        .unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024
}
