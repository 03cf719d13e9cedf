//! Runs the binary, and removes variable times and reasons from its output.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// A finished run.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

/// The command in `directory`, with a cache of its own and no settings from the environment.
pub(crate) fn command(directory: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_galatea"));
    command
        .args(arguments)
        .current_dir(directory)
        .env("GALATEA_CACHE_DIR", directory.join("cache"));
    command
        .env_remove("RUST_LOG")
        .env_remove("RUST_BACKTRACE")
        .env_remove("GALATEA_PAGER")
        .env_remove("PAGER")
        .env("XDG_CONFIG_HOME", directory)
        .env("HOME", directory)
        .env("XDG_DATA_HOME", directory);
    command
}

pub(crate) fn galatea(directory: &Path, arguments: &[&str]) -> Ran {
    finished(
        command(directory, arguments)
            .stdin(Stdio::null())
            .output()
            .expect("the command runs"),
    )
}

pub(crate) fn galatea_with_input(directory: &Path, arguments: &[&str], input: &str) -> Ran {
    let mut command = command(directory, arguments);
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().expect("the command starts");
    child
        .stdin
        .take()
        .expect("piped")
        .write_all(input.as_bytes())
        .expect("the command reads");
    finished(child.wait_with_output().expect("the command ends"))
}

fn finished(output: Output) -> Ran {
    Ran {
        code: output.status.code().unwrap_or(-1),
        out: stable(&String::from_utf8_lossy(&output.stdout)),
        err: stable(&String::from_utf8_lossy(&output.stderr)),
    }
}

/// `text` with every time replaced by `<t>`, and the reason for a missing GPU, which depends on the machine,
/// by `<why>`.
pub(crate) fn stable(text: &str) -> String {
    let mut lines = Vec::new();
    for line in text.lines() {
        let mut words: Vec<String> = Vec::new();
        for word in line.split(' ') {
            let unit = word.trim_end_matches(['.', ',', ')', ':', ';']);
            let is_time = matches!(unit, "ms" | "s" | "seconds");
            if let Some(number) = words
                .last_mut()
                .filter(|number| is_time && number.parse::<f64>().is_ok())
            {
                *number = "<t>".to_string();
            }
            words.push(word.to_string());
        }
        let line = words.join(" ");
        let line = line
            .replace(", plan reused.", ".")
            .replace("Ran on the CPU, no GPU here.", "Ran on the CPU (no GPU here).");
        let line = match (line.find("Ran on the CPU ("), line.rfind(").")) {
            (Some(start), Some(end)) if end > start => {
                format!("{}Ran on the CPU (<why>{}", &line[..start], &line[end..])
            }
            _ => line,
        };
        lines.push(line.trim_end().to_string());
    }
    lines.join("\n")
}

#[test]
fn times_and_reasons_are_masked() {
    assert_eq!(
        stable("Elapsed 0.012 seconds.\n3 row(s), first 1.5 ms, then 2 ms."),
        "Elapsed <t> seconds.\n3 row(s), first <t> ms, then <t> ms."
    );
    assert_eq!(
        stable("0.1 seconds. Ran on the CPU (no (CUDA) driver)."),
        "<t> seconds. Ran on the CPU (<why>)."
    );
    assert_eq!(stable("| 12 s | 1 |"), "| <t> s | 1 |");
}

/// A directory with `a.csv`, `b.csv`, an array and lines of JSON, and two Parquet files.
pub(crate) fn samples() -> tempfile::TempDir {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let put = |name: &str, text: &str| std::fs::write(directory.path().join(name), text).expect(name);
    put("a.csv", "id,name,price\n1,one,1.50\n2,two,2.25\n3,,3.00\n");
    put(
        "array.json",
        "[{\"id\": 1, \"tags\": [\"x\"]}, {\"id\": 2, \"tags\": []}]",
    );
    put("lines.ndjson", "{\"id\": 1}\n{\"id\": 2}\n{\"id\": 3}\n");
    put("broken.parquet", "this is a text that someone called Parquet");
    let copy = "COPY (SELECT * FROM 'a.csv') TO 'parts/1.parquet'; COPY (SELECT id + 10 AS id, name, price FROM 'a.csv') TO 'parts/2.parquet'";
    let ran = galatea(directory.path(), &["-q", "-c", copy]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    directory
}
