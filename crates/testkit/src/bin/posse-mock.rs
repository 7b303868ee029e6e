//! A model server on loopback, for users and benches: `posse-mock --fanout 100`, `posse-mock --script replies.yaml`.
//!
//! It prints its base URL as the first line and serves until it is stopped. `GET /mock/stats` returns its figures,
//! including its own processor time, and `GET /mock/log` every request with its time.

use std::process::ExitCode;
use std::time::Duration;

use posse_testkit::mock::{Answer, Mock, MockRequest, Options, ReplySource, Script, by_name, fanout};

const USAGE: &str =
    "usage: posse-mock [--port N] [--latency-ms N] (--text TEXT | --script FILE | --fanout WIDTH)";

fn main() -> ExitCode {
    match start(std::env::args().skip(1)) {
        Ok(mock) => {
            println!("{}", mock.url());
            mock.run();
            ExitCode::SUCCESS
        }
        Err(problem) => {
            eprintln!("posse-mock: {problem}\n{USAGE}");
            ExitCode::from(2)
        }
    }
}

fn start(mut args: impl Iterator<Item = String>) -> Result<Mock, String> {
    let mut options = Options { keep_bodies: false, ..Options::default() };
    let mut latency = Duration::ZERO;
    let (mut text, mut script, mut width) = (None, None, None);
    while let Some(flag) = args.next() {
        let value = args.next().ok_or_else(|| format!("{flag} needs a value"))?;
        let number = || value.parse::<u64>().map_err(|error| format!("{flag} {value}: {error}"));
        match flag.as_str() {
            "--port" => options.port = value.parse().map_err(|error| format!("--port {value}: {error}"))?,
            "--latency-ms" => latency = Duration::from_millis(number()?),
            "--text" => text = Some(value),
            "--script" => {
                let yaml = std::fs::read_to_string(&value).map_err(|error| format!("{value}: {error}"))?;
                script = Some(Script::parse(&yaml, &value).map_err(|error| error.to_string())?);
            }
            "--fanout" => width = Some(usize::try_from(number()?).map_err(|error| error.to_string())?),
            unknown => return Err(format!("unknown flag {unknown}")),
        }
    }
    match (text, script, width) {
        (Some(text), None, None) => {
            serve(move |_: &MockRequest| Answer::text(text.as_str()).latency(latency), options)
        }
        (None, Some(script), None) => serve(script, options),
        (None, None, Some(width)) => serve(fanout(width, latency), options),
        (None, None, None) => serve(move |asked: &MockRequest| by_name(asked).latency(latency), options),
        _ => Err("--text, --script and --fanout exclude each other".to_owned()),
    }
}

fn serve(source: impl ReplySource, options: Options) -> Result<Mock, String> {
    let port = options.port;
    Mock::with(source, options).map_err(|error| format!("cannot listen on port {port} of loopback: {error}"))
}
