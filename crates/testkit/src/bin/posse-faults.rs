//! Kills the real command at every fault point and at random moments, and checks the result. `cargo xtask faults`
//! builds and runs it.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use posse_testkit::campaign::{self, Order, Passings, Row, Summary};

const RANDOM: u64 = 200;
/// Random kills of a short campaign.
const RANDOM_SHORT: u64 = 25;
/// Concurrent runs. They mostly wait, for models and for the disk.
const SIDE_BY_SIDE: usize = 4;
/// The default seed, so that a campaign is repeatable.
const SEED: u64 = 1;

const USAGE: &str =
    "usage: posse-faults [--points] [--random N] [--short] [--seed S] [--side-by-side N] [--json FILE]
                    [--commit NAME]

  --points          die at every named point: first, middle and last passing
  --random N        kill N times at random moments
                    (neither of both: all points and 200 random kills)
  --short           every point once and 25 random kills
  --seed S          chance, 1 unless said
  --side-by-side N  runs at once, 4 unless said
  --json FILE       write the figures there
  --commit NAME     what was tested, for the figures";

struct Args {
    order: Order,
    json: Option<PathBuf>,
    commit: Option<String>,
}

fn main() -> ExitCode {
    let args = match parse(std::env::args().skip(1)) {
        Ok(args) => args,
        Err(problem) => {
            eprintln!("{problem}\n\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    match campaign::run(&args.order, &print_progress).and_then(|summary| finish(&args, &summary)) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(problem) => {
            eprintln!("posse-faults: {problem}");
            ExitCode::FAILURE
        }
    }
}

fn parse(mut words: impl Iterator<Item = String>) -> Result<Args, String> {
    let program = std::env::current_exe().map_err(|error| error.to_string())?.with_file_name("posse-faulty");
    if !program.exists() {
        return Err(format!("{} is not built", program.display()));
    }
    let (mut points, mut random, mut short) = (false, None, false);
    let (mut seed, mut side_by_side, mut json, mut commit) = (SEED, SIDE_BY_SIDE, None, None);
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or_else(|| format!("{word} needs a value"));
        match word.as_str() {
            "--points" => points = true,
            "--short" => short = true,
            "--random" => random = Some(number(&value()?)?),
            "--seed" => seed = number(&value()?)?,
            "--side-by-side" => side_by_side = usize::try_from(number(&value()?)?).unwrap_or(SIDE_BY_SIDE),
            "--json" => json = Some(PathBuf::from(value()?)),
            "--commit" => commit = Some(value()?),
            _ => return Err(format!("`{word}` is not known")),
        }
    }
    let all = !points && random.is_none();
    let passings = if short { Passings::One } else { Passings::Three };
    let random = random.unwrap_or(match (all, short) {
        (true, true) => RANDOM_SHORT,
        (true, false) => RANDOM,
        (false, _) => 0,
    });
    let order = Order { program, seed, points: (all || points).then_some(passings), random, side_by_side };
    Ok(Args { order, json, commit })
}

fn number(text: &str) -> Result<u64, String> {
    text.parse().map_err(|error| format!("{text}: {error}"))
}

/// Prints a dot for a run without a breach, and all details of a run with one.
fn print_progress(row: &Row) {
    let mut out = std::io::stdout().lock();
    if row.report.breaches.is_empty() {
        let _ = write!(out, ".");
    } else {
        let _ = writeln!(out, "\n{}", failure(row));
    }
    let _ = out.flush();
}

fn failure(row: &Row) -> String {
    let struck: Vec<String> = row.report.struck.iter().map(ToString::to_string).collect();
    let mut lines = vec![format!("{} (died at {})", row.name, struck.join(", "))];
    lines.extend(row.report.breaches.iter().map(|breach| format!("  {breach}")));
    lines.extend(row.kept.iter().map(|path| format!("  kept in {}", path.display())));
    lines.join("\n")
}

/// Prints and writes the figures. Returns whether everything held.
fn finish(args: &Args, summary: &Summary) -> Result<bool, String> {
    println!("\n\n{}\n", summary.table());
    for point in summary.never_passed() {
        println!("the point {point} is never passed by the scenario");
    }
    println!("{}", summary.line());
    if let Some(file) = &args.json {
        let mut figures = summary.to_json();
        figures["commit"] = args.commit.as_deref().into();
        let text = format!("{figures:#}\n");
        std::fs::write(file, text).map_err(|error| format!("{}: {error}", file.display()))?;
    }
    if !summary.holds() {
        println!("the same again: cargo xtask faults --seed {}", args.order.seed);
    }
    Ok(summary.holds())
}
