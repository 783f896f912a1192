//! Compiles the .proto files beside this script, without `protoc`, and derives what `src/rpc.rs`
//! and `src/json.rs` promise of them.

#[path = "build/json.rs"]
mod json;
#[path = "build/rpc.rs"]
mod rpc;

use std::{env, error::Error, fs, path::PathBuf};

const API: &str = "tasuki/v1";
const JOURNAL: &str = "tasuki/journal/v1/journal.proto";

fn main() -> Result<(), Box<dyn Error>> {
    for source in ["build.rs", "build", "tasuki"] {
        println!("cargo:rerun-if-changed={source}");
    }
    let files = fs::read_dir(API)?.map(|file| file.map(|file| file.path()));
    let mut files = files.collect::<Result<Vec<_>, _>>()?;
    files.retain(|path| path.extension().is_some_and(|it| it == "proto"));
    // What is generated does not depend on the file system's order.
    files.sort();
    let mut api = protox::Compiler::new(["."])?;
    api.include_imports(true).include_source_info(true).open_files(files)?;
    let out = PathBuf::from(env::var("OUT_DIR")?);
    fs::write(out.join("descriptors.bin"), api.encode_file_descriptor_set())?;
    let pool = api.descriptor_pool();
    fs::write(out.join("rpc.rs"), rpc::generate(&pool)?)?;
    fs::write(out.join("json.rs"), json::generate(&pool)?)?;
    let mut all = api.file_descriptor_set();
    all.file.retain(|file| !file.package().starts_with("google."));
    all.file.extend(protox::compile([JOURNAL], ["."])?.file);
    tonic_prost_build::configure().bytes(".tasuki.journal.v1").compile_fds(all)?;
    Ok(())
}
