//! Compiles the .proto files beside this script, without `protoc`.

use std::{env, error::Error, fs, path::PathBuf};

use prost::Message as _;

const API: [&str; 8] = [
    "tasuki/v1/turn_loop.proto",
    "tasuki/v1/directory.proto",
    "tasuki/v1/waits.proto",
    "tasuki/v1/feed.proto",
    "tasuki/v1/access.proto",
    "tasuki/v1/mailbox.proto",
    "tasuki/v1/privacy.proto",
    "tasuki/v1/swarm.proto",
];
const JOURNAL: &str = "tasuki/journal/v1/journal.proto";

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed=tasuki");
    let api = protox::compile(API, ["."])?;
    let out = PathBuf::from(env::var("OUT_DIR")?);
    fs::write(out.join("descriptors.bin"), api.encode_to_vec())?;
    let mut all = api;
    all.file.extend(protox::compile([JOURNAL], ["."])?.file);
    // What is said again has the same bytes, also where it has a map.
    let configured = tonic_prost_build::configure().bytes(".tasuki.journal.v1").btree_map(".");
    configured.compile_fds(all)?;
    Ok(())
}
