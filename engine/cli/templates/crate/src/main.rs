//! The whole `baton` command line with the tools of this crate in it.

mod tools;

fn main() -> std::process::ExitCode {
    baton::main()
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_examples_of_every_tool_hold() {
        assert_eq!(baton::run_with(["__NAME__", "tool", "test"]), 0);
    }
}
