//! The prompt in a pseudo-terminal.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use expectrl::session::OsSession;
use expectrl::{Eof, Expect, Session};

use crate::support::{command, samples};

/// A prompt in a terminal.
struct Prompt(OsSession);

impl Prompt {
    fn start(directory: &Path, (columns, rows): (u16, u16), arguments: &[&str]) -> Self {
        Self::with(
            command(
                directory,
                &[&["--set", "galatea.device=cpu", "--color", "never"], arguments].concat(),
            ),
            (columns, rows),
        )
    }

    fn with(mut command: Command, (columns, rows): (u16, u16)) -> Self {
        command.env("TERM", "xterm");
        let mut session = Session::spawn(command).expect("a pseudo-terminal");
        session
            .get_process_mut()
            .set_window_size(columns, rows)
            .expect("a size");
        session.set_expect_timeout(Some(Duration::from_secs(60)));
        Self(session)
    }

    /// Types a line.
    fn types(&mut self, line: &str) -> &mut Self {
        self.0.send(format!("{line}\r")).expect("typed");
        self
    }

    /// Waits until `text` is printed. Returns the output before it.
    fn shows(&mut self, text: &str) -> String {
        let found = self
            .0
            .expect(text)
            .unwrap_or_else(|error| panic!("no {text:?}: {error}"));
        String::from_utf8_lossy(found.before()).into_owned()
    }

    fn quits(&mut self) {
        self.types("\\q");
        self.0.expect(Eof).expect("the prompt ends");
    }
}

const SIZE: (u16, u16) = (80, 24);

#[test]
fn interactive_session() {
    let directory = samples();
    let mut prompt = Prompt::start(directory.path(), SIZE, &[]);
    prompt.shows("\\? for help, \\q to quit.");
    prompt
        .types("SELECT id, name FROM 'a.csv' ORDER BY id;")
        .shows("| 1  | one  |");
    prompt.shows("3 rows in ");
    // A statement may take several lines, and one line several statements.
    prompt
        .types("SELECT 'first'")
        .types("AS a; SELECT 'second' AS b;")
        .shows("| first |");
    prompt.shows("| second |");
    prompt.types("\\x").shows("expanded is on");
    prompt.types("SELECT 5 AS five;").shows("five | 5");
    prompt.types("\\x off").shows("expanded is off");
    prompt.types("\\timing on").shows("timing is on");
    prompt.types("SELECT count(*) FROM 'a.csv';").shows("Time: ");
    // Errors have the same form as elsewhere.
    prompt
        .types("selec 1;")
        .shows("error: invalid SQL: expected: an SQL statement, found: selec");
    prompt.shows("^^^^^");
    prompt.types("\\?").shows("galatea doctor");
    prompt.types("\\d").shows("df_settings");
    prompt.quits();
}

#[test]
fn help_and_exit_work_without_backslash() {
    let directory = samples();
    let mut prompt = Prompt::start(directory.path(), SIZE, &[]);
    prompt.shows("to quit.");
    prompt.types("help").shows("Statements end with a semicolon.");
    prompt.shows("Ctrl-D quits.");
    prompt
        .types("SELECT 'exit'")
        .shows("a semicolon ends the statement");
    prompt.types("AS way;").shows("| exit |");
    prompt.types("exit");
    prompt.0.expect(Eof).expect("the prompt ends");
    let mut prompt = Prompt::start(directory.path(), SIZE, &[]);
    prompt.shows("to quit.");
    prompt.types("quit");
    prompt.0.expect(Eof).expect("the prompt ends");
}

/// The prompt for further lines of a statement, at the start of a cleared line.
const FURTHER: &str = "\r\x1b[K. ";

/// Further lines of a statement have a separate prompt, one key recalls all of them, and Ctrl-C discards
/// them.
#[test]
fn statements_over_several_lines() {
    let directory = samples();
    let mut prompt = Prompt::start(directory.path(), SIZE, &[]);
    prompt.shows("to quit.");
    prompt.types("SELECT 20 +").shows(FURTHER);
    prompt.types("22").shows(FURTHER);
    prompt.types("AS answer;").shows("| 42     |");
    // The statement above, as one history entry.
    prompt.types("\x1b[A").shows("| 42     |");
    prompt.types("SELECT nonsense").shows(FURTHER);
    prompt.0.send([3_u8]).expect("interrupted");
    prompt.shows("\r\x1b[K> ");
    prompt.types("SELECT 6 * 7 AS product;").shows("| 42      |");
    prompt.quits();
}

#[test]
fn wide_rows_fit_the_terminal() {
    let directory = samples();
    let mut prompt = Prompt::start(directory.path(), (60, 24), &[]);
    prompt.shows("to quit.");
    let columns: Vec<String> = (1..=20).map(|n| format!("{n} AS column_{n}")).collect();
    prompt.types(&format!("SELECT {};", columns.join(", ")));
    let table = prompt.shows("of 20 columns shown)");
    let lines: Vec<_> = table
        .lines()
        .filter(|line| line.trim_end().ends_with(['|', '+']) && line.starts_with(['|', '+']))
        .collect();
    assert_eq!(lines.len(), 5, "{table}");
    assert!(
        lines.iter().all(|line| line.trim_end().chars().count() <= 60),
        "{table}"
    );
    assert!(
        lines[1].contains("| column_1 |") && lines[1].contains("| … |") && lines[1].contains("| column_20 |"),
        "{table}"
    );
    prompt.types("\\pset width off").shows("width is off");
    prompt
        .types(&format!("SELECT {};", columns.join(", ")))
        .shows("| column_11 |");
    prompt.quits();
}

/// A prompt that shows all rows, through this pager if the number of rows is large.
fn paged(directory: &tempfile::TempDir, pager: &str) -> Prompt {
    let options = [
        "--set",
        "galatea.device=cpu",
        "--color",
        "never",
        "--maxrows",
        "inf",
    ];
    let mut command = command(directory.path(), &options);
    command.env("GALATEA_PAGER", pager);
    let mut prompt = Prompt::with(command, SIZE);
    prompt.shows("to quit.");
    prompt
}

#[test]
fn long_results_go_through_the_pager() {
    let directory = samples();
    let mut prompt = paged(&directory, "sed 's/^/paged /'");
    prompt
        .types("SELECT value FROM generate_series(1, 100);")
        .shows("100 rows");
    prompt.types("SELECT value AS short FROM generate_series(1, 3);");
    let short = prompt.shows("3 rows");
    assert!(short.contains("| short |") && !short.contains("paged"), "{short}");
    prompt.types("\\pset pager off").shows("pager is off");
    prompt.types("SELECT value FROM generate_series(1, 99);");
    let unpaged = prompt.shows("99 rows");
    assert!(
        unpaged.contains("| 98 ") && !unpaged.contains("paged"),
        "{unpaged}"
    );
    // Without the pager, the result is printed.
    prompt.quits();
    let mut prompt = paged(&directory, "no-such-pager");
    prompt
        .types("SELECT value FROM generate_series(1, 100);")
        .shows("| 100 ");
    prompt.quits();
}

#[test]
fn pager_gets_all_rows_and_is_not_timed() {
    let directory = samples();
    let mut command = command(
        directory.path(),
        &["--set", "galatea.device=cpu", "--color", "never"],
    );
    command.env("GALATEA_PAGER", "sleep 3; cat");
    let mut prompt = Prompt::with(command, SIZE);
    prompt.shows("to quit.");
    prompt.types("SELECT value FROM generate_series(1, 125) ORDER BY value;");
    prompt.shows("| 41 ");
    prompt.shows("| 125 ");
    prompt.shows("125 rows in ");
    let seconds = prompt.shows(" s.");
    assert!(
        seconds.parse::<f64>().is_ok_and(|seconds| seconds < 3.0),
        "{seconds}"
    );
    // Without the pager, the screen shows the rows that fit.
    prompt.types("\\pset pager off").shows("pager is off");
    prompt
        .types("SELECT value FROM generate_series(1, 125);")
        .shows("125 rows (40 rows shown)");
    prompt.quits();
}

#[test]
fn completion_does_not_use_the_device() {
    let directory = samples();
    let options = [
        "--color",
        "never",
        "--set",
        "galatea.device=emulated",
        "--set",
        "galatea.memory.gpu_limit=1",
    ];
    let mut prompt = Prompt::with(command(directory.path(), &options), SIZE);
    prompt.shows("on the emulated device. \\? for help");
    let greeting = prompt.shows("run by the CPU.");
    assert!(!greeting.contains("No GPU"), "{greeting}");
    prompt.types("CREATE TABLE zebras AS SELECT 1 AS zebra_stripes;");
    let before = prompt.shows("Done in");
    assert!(!before.contains("warning"), "{before}");
    // Tab completes the name of the new column.
    prompt.types("SELECT zebra_st\t + 41 AS answer FROM zebras;");
    let before = prompt.shows("| 42 ");
    assert!(!before.contains("table_schema"), "{before}");
    prompt.quits();
}

#[test]
fn the_startup_file_runs_first() {
    let directory = samples();
    let folder = directory.path().join("galatea");
    std::fs::create_dir_all(&folder).expect("a folder");
    let script = "-- every session\nCREATE TABLE mine AS SELECT 41 AS n;\n\\x on\nSELECT nonsense;";
    std::fs::write(folder.join("startup.sql"), script).expect("written");
    let mut prompt = Prompt::start(directory.path(), SIZE, &[]);
    let before = prompt.shows("error: no such column: nonsense");
    assert!(
        !before.contains("Done in") && !before.contains("expanded is"),
        "{before}"
    );
    prompt.shows("startup.sql, line 4: SELECT nonsense");
    prompt
        .types("SELECT n + 1 AS answer FROM mine;")
        .shows("answer | 42");
    prompt.quits();
    let mut prompt = Prompt::start(directory.path(), SIZE, &["--no-startup"]);
    prompt
        .types("SELECT * FROM mine;")
        .shows("error: no such table: mine");
    prompt.quits();
}

/// On the CPU, too, progress is shown as a share of the rows, if statistics contain their number.
#[test]
fn cpu_scans_show_progress_in_percent() {
    let directory = samples();
    let mut prompt = Prompt::start(directory.path(), SIZE, &[]);
    prompt.shows("to quit.");
    prompt
        .types("CREATE TABLE rows AS SELECT value AS v FROM generate_series(1, 4000000);")
        .shows("Done in");
    prompt.types("SELECT max(md5(md5(md5(v::VARCHAR)))), count(DISTINCT sha512(v::VARCHAR)) FROM rows;");
    prompt.shows("reading ");
    prompt.shows(" % ");
    prompt.shows("Ctrl-C cancels");
    prompt.0.send([3_u8]).expect("interrupted");
    prompt.shows("error: cancelled");
    prompt.quits();
}

#[test]
fn interrupt_cancels_the_query_but_not_the_prompt() {
    let directory = samples();
    let mut prompt = Prompt::start(directory.path(), SIZE, &[]);
    prompt.shows("to quit.");
    prompt.types(
        "SELECT sum(a.value * b.value) FROM generate_series(1, 10000000) a, generate_series(1, 10000000) b;",
    );
    // A statement shows its progress after a second.
    let mut line = prompt.shows("Ctrl-C cancels");
    prompt.0.send([3_u8]).expect("interrupted");
    line += "Ctrl-C cancels";
    line += &prompt.shows("error: cancelled");
    // A terminal echoes ^C behind the bar. It must not wrap to another line, which would be cleared instead.
    let (bar, _) = line.rsplit_once("\r\x1b[2K").expect("the bar is cleared");
    let bar = bar.rsplit(['\r', '\n']).next().unwrap_or_default();
    let bar = bar.rsplit("\x1b[2K").next().unwrap_or_default();
    assert!(bar.chars().count() + 2 < usize::from(SIZE.0), "{bar:?}");
    prompt.types("SELECT 6 * 7 AS answer;").shows("| 42     |");
    prompt.quits();
}

/// The first Ctrl-C ends a k-means statement that keeps its centroids. The statement then ends normally.
#[test]
fn interrupt_ends_kmeans_and_keeps_centroids() {
    let directory = samples();
    let mut prompt = Prompt::start(directory.path(), SIZE, &[]);
    prompt.shows("to quit.");
    prompt.types(
        "CREATE TABLE kept AS SELECT * FROM kmeans((SELECT value AS x, sin(value) AS y FROM generate_series(1, 20000)), \
         k => 8, n_init => 1000000, max_iter => 1000000, tol => 0, on_interrupt => 'keep');",
    );
    prompt.shows("Ctrl-C ends it here");
    prompt.0.send([3_u8]).expect("interrupted");
    prompt.shows("Done in");
    prompt
        .types("SELECT sum(size) + 1 AS rows FROM kept;")
        .shows("| 20001 |");
    prompt.quits();
}

/// Ctrl-C at an empty prompt never quits, however often it is pressed.
#[test]
fn interrupts_at_an_empty_prompt_do_not_quit() {
    let directory = samples();
    let mut prompt = Prompt::start(directory.path(), SIZE, &[]);
    prompt.shows("to quit.");
    prompt.shows("> ");
    for _ in 0..5 {
        prompt.0.send([3_u8]).expect("interrupted");
        std::thread::sleep(Duration::from_millis(100));
    }
    prompt.shows("Ctrl-D or \\q quits");
    // Presses between two lines, which are signals.
    prompt.0.send([3_u8; 20]).expect("interrupted");
    std::thread::sleep(Duration::from_millis(100));
    prompt.types("SELECT 6 * 7 AS answer;").shows("| 42     |");
    prompt.quits();
}

#[test]
fn columns_of_a_file_are_completed() {
    let directory = samples();
    std::fs::write(directory.path().join("wide.csv"), "unusual_name,b\n41,2\n").expect("written");
    let mut prompt = Prompt::start(directory.path(), SIZE, &[]);
    prompt.shows("to quit.");
    prompt
        .types("SELECT b AS two FROM 'wide.csv' WHERE unusual_n\t = 41;")
        .shows("| 2   |");
    prompt.types("SELECT * FROM 'wide.csv'").shows(FURTHER);
    prompt.types("WHERE unusual_n\t > 40;").shows("| 41 ");
    prompt.quits();
}
