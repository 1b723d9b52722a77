//! Bounds on what a decoder accepts from the other side, each checked before the allocation it governs.

/// How much of what comes in is checked before it is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Validation {
    /// `full`: everything, so that whatever a peer sends is either sound or an error.
    #[default]
    Full,
    /// `trusted`: that all lies within its frame, but not the values: offsets, UTF-8, dictionary keys, null counts. A peer
    /// that sends unsound ones makes the reader's memory safe no longer. For peers that one would run code of.
    Trusted,
}

/// Bounds on decoded input. The defaults are far above sound data and far below what would hurt a process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DecodeLimits {
    /// Largest payload of one frame, in bytes.
    pub frame_bytes: u64,
    /// Largest control message, in bytes.
    pub message_bytes: u64,
    /// Most rows in one batch.
    pub rows: u64,
    /// Most fields in one schema, nested ones counted.
    pub fields: usize,
    /// Most buffers in one batch.
    pub buffers: usize,
    /// Most entries in one dictionary.
    pub dictionary_entries: u64,
    /// Deepest nesting of one type.
    pub depth: usize,
    /// Most bytes that the compressed buffers of one message may unfold to, together.
    pub decompressed_bytes: u64,
    /// Whether values are checked.
    pub validation: Validation,
}

impl Default for DecodeLimits {
    fn default() -> Self {
        Self {
            frame_bytes: u64::from(u32::MAX),
            message_bytes: 64 << 20,
            rows: 1 << 31,
            fields: 100_000,
            buffers: 1_000_000,
            dictionary_entries: 1 << 31,
            depth: 64,
            decompressed_bytes: 8 << 30,
            validation: Validation::Full,
        }
    }
}
