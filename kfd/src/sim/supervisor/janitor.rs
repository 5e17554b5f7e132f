//! Removes the supervisor's temporary directory even if SIGKILL ends the supervisor.
//!
//! A shell of its own waits for the end of a pipe whose other end only the supervisor holds; then it removes the
//! directory. The supervisor does not wait for it, and it ignores the terminal's signals.

use std::io;
use std::path::Path;
use std::process::{ChildStdin, Command, Stdio};

/// `$0` is the directory. A background job's input is /dev/null unless it is given one: hence descriptor 3.
const SCRIPT: &str = r#"exec 3<&0; (trap '' INT TERM HUP QUIT; read -r never; rm -rf -- "$0") <&3 3<&- &"#;

/// Holds the pipe: the directory goes when this value, or its process, is gone.
#[derive(Debug)]
pub(crate) struct Janitor {
    _pipe: Option<ChildStdin>,
}

impl Janitor {
    /// Watches over `directory`.
    pub(crate) fn hire(directory: &Path) -> io::Result<Janitor> {
        let mut shell = Command::new("sh");
        shell.args(["-c", SCRIPT]).arg(directory).current_dir("/");
        shell.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = shell.spawn()?;
        let pipe = child.stdin.take();
        child.wait()?;
        Ok(Janitor { _pipe: pipe })
    }
}
