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

/// Memory in use now, in bytes.
pub fn memory_bytes() -> u64 {
    status_bytes("VmRSS:")
}

/// The most memory that was in use at once so far, in bytes.
pub fn peak_memory_bytes() -> u64 {
    status_bytes("VmHWM:")
}

fn status_bytes(name: &str) -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix(name))
        .unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024
}
