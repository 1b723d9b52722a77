//! IPC payloads.
