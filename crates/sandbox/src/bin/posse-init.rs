//! A binary that is only a sandbox's init: for embedders whose own binary cannot be one, and for tests.

fn main() -> std::process::ExitCode {
    posse_sandbox::init();
    std::process::ExitCode::from(2)
}
