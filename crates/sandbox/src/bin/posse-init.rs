//! A binary that is a sandbox's init and nothing else: for embedders whose own cannot be one, and for tests.

fn main() -> std::process::ExitCode {
    posse_sandbox::init();
    std::process::ExitCode::from(2)
}
