//! The `symphony` command, with the adapters of this repository.

fn main() -> std::process::ExitCode {
    symphony_cli::main_with(symphony_cli::registry)
}
