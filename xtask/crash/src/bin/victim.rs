//! The program that is killed: the whole command line of `baton`, with failpoints and the tools that keep a ledger.

use baton_crash as _;

fn main() -> std::process::ExitCode {
    baton::main()
}
