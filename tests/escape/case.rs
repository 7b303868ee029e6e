//! One case of the corpus: a hostile call, and how it has to end.

use serde_json::{Value, json};

/// The default time limit of a command.
const PATIENCE_MS: u64 = 20_000;
/// An answer to a call that was not executed is short.
const ANSWER_MAX_BYTES: usize = 2_000;

/// A call, and how it has to end. What must not happen is the same for all, and is checked from outside.
pub(crate) struct Case {
    pub(crate) name: &'static str,
    pub(crate) tool: &'static str,
    pub(crate) input: Value,
    pub(crate) end: End,
    /// Programs that the case needs.
    pub(crate) needs: &'static [&'static str],
    /// The id that the model gives the call, if it is not the name.
    pub(crate) id: Option<&'static str>,
}

/// The answer to a command that ended the first process of its own sandbox.
const SANDBOX_LOST: &str = "the sandbox ended before the program did";

/// How a call has to end.
#[derive(Clone, Copy)]
pub(crate) enum End {
    /// By itself, after the command really began.
    Ran,
    /// The same, with this in its output.
    Shows(&'static str),
    /// By its time limit, after the command really began.
    Cut,
    /// By itself or by its limit, after the command really began; or with its sandbox, which it ended.
    Ends,
    /// Without having been executed, with this in the answer.
    Refused(&'static str),
    /// With any answer.
    Answered,
}

/// A command. `@top@`, `@home@`, ... are replaced by paths of the world; `breach` reports that a forbidden operation
/// succeeded.
pub(crate) fn sh(name: &'static str, command: &str) -> Case {
    let begin =
        format!("export ESC=@tag@.{name}.; breach() {{ printf '\\nBREACH %s\\n' \"$*\"; }}; echo ran:{name}");
    let input = json!({"command": format!("{begin}\n{command}"), "timeout_ms": PATIENCE_MS});
    Case { name, tool: "bash", input, end: End::Ran, needs: &[], id: None }
}

/// A Python program, with `breach`, `call` for a system call by its number, and `filtered` for one that the filter has
/// to refuse before the kernel checks its arguments.
pub(crate) fn py(name: &'static str, program: &str) -> Case {
    let mut case = sh(name, &format!("python3 - <<'PROGRAM'\n{PRELUDE}{program}\nPROGRAM"));
    case.needs = &["python3"];
    case
}

const PRELUDE: &str = r#"
import os, sys, ctypes, errno, socket, struct, signal
libc = ctypes.CDLL(None, use_errno=True)
def breach(*words): print("\nBREACH", *words, flush=True)
def call(number, *args):
    ctypes.set_errno(0)
    done = libc.syscall(ctypes.c_long(number), *[ctypes.c_long(a) if isinstance(a, int) else a for a in args])
    print("call", number, done, errno.errorcode.get(ctypes.get_errno()), flush=True)
    return done
def filtered(number, *args):
    if call(number, *args) >= 0 or ctypes.get_errno() not in (errno.EPERM, errno.ENOSYS): breach(number)
def fails(what, *args):
    try: found = what(*args)
    except (OSError, ValueError) as error: print("refused:", error, flush=True)
    else: breach(what, args, found)
"#;

/// A call of another tool, or a command with its own input.
pub(crate) fn call(name: &'static str, tool: &'static str, input: Value) -> Case {
    Case { name, tool, input, end: End::Answered, needs: &[], id: None }
}

impl Case {
    /// Sets the programs that it needs.
    pub(crate) fn needs(mut self, programs: &'static [&'static str]) -> Self {
        self.needs = programs;
        self
    }

    /// Its output must contain this.
    pub(crate) fn shows(mut self, text: &'static str) -> Self {
        self.end = End::Shows(text);
        self
    }

    /// It must not be executed, for this reason.
    pub(crate) fn refused(mut self, text: &'static str) -> Self {
        self.end = End::Refused(text);
        self
    }

    /// It must run until its time limit.
    pub(crate) fn cut(self, timeout_ms: u64) -> Self {
        Self { end: End::Cut, ..self.within(timeout_ms) }
    }

    /// It must end by its time limit at the latest.
    pub(crate) fn ends(self, timeout_ms: u64) -> Self {
        Self { end: End::Ends, ..self.within(timeout_ms) }
    }

    /// Sets the id that the model gives it.
    pub(crate) fn id(mut self, id: &'static str) -> Self {
        self.id = Some(id);
        self
    }

    fn within(mut self, timeout_ms: u64) -> Self {
        self.input["timeout_ms"] = timeout_ms.into();
        self
    }

    /// The id of its answer.
    pub(crate) fn call_id(&self) -> &'static str {
        self.id.unwrap_or(self.name)
    }

    /// The time limit.
    pub(crate) fn timeout_ms(&self) -> u64 {
        self.input["timeout_ms"].as_u64().unwrap_or(PATIENCE_MS)
    }

    /// The problem with its end, if any.
    pub(crate) fn judge(&self, answer: &Value) -> Option<String> {
        let output = answer["output"].as_str().unwrap_or_default();
        let began = output.contains(&format!("ran:{}", self.name));
        let ok = answer["ok"] == true;
        let fits = match self.end {
            End::Ran => ok && began,
            End::Shows(text) => ok && output.contains(text),
            End::Cut => began && answer["code"] == "TIMEOUT",
            End::Ends => began && (ok || answer["code"] == "TIMEOUT") || output.contains(SANDBOX_LOST),
            End::Refused(text) => !ok && output.contains(text),
            End::Answered => true,
        };
        if !fits {
            return Some(format!("{}: did not end as it should: {answer:#}", self.name));
        }
        if output.lines().any(|line| line.starts_with("BREACH")) {
            return Some(format!("{}: got through: {answer:#}", self.name));
        }
        if matches!(self.end, End::Refused(_)) && output.len() > ANSWER_MAX_BYTES {
            return Some(format!("{}: the answer has {} bytes", self.name, output.len()));
        }
        None
    }
}
