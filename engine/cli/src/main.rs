//! The `baton` program: the command line with the built-in tools.

fn main() -> std::process::ExitCode {
    baton::main()
}
