//! The program: the commands, over the libraries in `crates/`.

mod cli;

use std::process::ExitCode;

/// The system allocator (glibc) uses 4,947 MB for six bodies of 24 MB of schema for four dialects and keeps them. This
/// one uses 1,600 MB and returns them (`return_memory` of `serve`). The allocator of musl, in the static binary, is slow.
/// Huge pages would double the memory at rest.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    cli::main()
}
