//! Writes seeds for the fuzz targets into the folder that is named: frames, table payloads, files and streams of
//! arbitrary batches.

use std::error::Error;
use std::path::PathBuf;

use arrow_ipc::CompressionType;
use arrow_ipc::writer::{FileWriter, IpcWriteOptions};
use lightstream_core::conformance::batches::arbitrary_schema_and_batches;
use lightstream_core::protocol::frame::{Header, Tag};
use lightstream_core::protocol::ipc::{Encoder, encode_batches};
use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::TestRunner;

const SEEDS: usize = 100;

fn main() -> Result<(), Box<dyn Error>> {
    let folder = PathBuf::from(
        std::env::args_os()
            .nth(1)
            .ok_or("usage: fuzz_seeds FOLDER")?,
    );
    let [frames, payloads, files] =
        ["frames", "ipc_payload", "ipc_file"].map(|name| folder.join(name));
    for folder in [&frames, &payloads, &files] {
        std::fs::create_dir_all(folder)?;
    }
    let mut runner = TestRunner::deterministic();
    for seed in 0..SEEDS {
        let tree = arbitrary_schema_and_batches()
            .new_tree(&mut runner)
            .map_err(|why| why.to_string())?;
        let (schema, batches) = tree.current();
        let mut encoder = Encoder::try_new(schema)?;
        let (mut framed, mut with_lengths) = (Vec::new(), Vec::new());
        for batch in &batches {
            let payload = encoder.encode(batch)?.to_vec();
            let header = Header::try_new(Tag::Batch, payload.len())?;
            framed.extend_from_slice(&header.to_bytes());
            framed.extend_from_slice(&payload);
            with_lengths.extend_from_slice(&header.length.to_le_bytes());
            with_lengths.extend_from_slice(&payload);
        }
        std::fs::write(frames.join(format!("arbitrary-{seed}")), framed)?;
        std::fs::write(payloads.join(format!("arbitrary-{seed}")), with_lengths)?;
        std::fs::write(
            files.join(format!("arbitrary-{seed}.arrows")),
            encode_batches(&batches)?,
        )?;
        let Some(batch) = batches.first() else {
            continue;
        };
        for (name, compression) in [
            ("plain", None),
            ("lz4", Some(CompressionType::LZ4_FRAME)),
            ("zstd", Some(CompressionType::ZSTD)),
        ] {
            let options = IpcWriteOptions::default().try_with_compression(compression)?;
            let mut writer =
                FileWriter::try_new_with_options(Vec::new(), &batch.schema(), options)?;
            // Arrow's writer does not know every type.
            if writer.write(batch).is_ok() {
                std::fs::write(
                    files.join(format!("arbitrary-{seed}-{name}.arrow")),
                    writer.into_inner()?,
                )?;
            }
        }
    }
    Ok(())
}
