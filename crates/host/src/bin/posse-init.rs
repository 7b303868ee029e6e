//! A binary that is a sandbox's init and nothing else: for embedders whose own cannot be one, and for tests.

fn main() -> std::process::ExitCode {
    posse_host::sandbox::init();
    eprintln!("posse-init is started by Posse");
    std::process::ExitCode::from(2)
}
