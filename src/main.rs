//! The program: three lines over the library.

use std::process::ExitCode;

fn main() -> ExitCode {
    photofinish::cli::main()
}
