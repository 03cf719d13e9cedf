//! The cases of `cases.txt`.

use crate::{rows, session};

/// An expected answer.
#[derive(Debug, PartialEq)]
enum Expected {
    Rows(Vec<String>),
    Error,
}

#[derive(Debug)]
struct Case {
    symptom: String,
    statements: Vec<String>,
    expected: Expected,
}

impl Case {
    fn is_big(&self) -> bool {
        self.symptom.ends_with("(big)")
    }
}

fn cases() -> Vec<Case> {
    let text = include_str!("cases.txt");
    let blocks = text.split("\n\n").filter_map(|block| block.strip_prefix("# "));
    blocks.map(case).collect()
}

fn case(block: &str) -> Case {
    let (symptom, lines) = block.split_once('\n').expect("statements");
    let (mut statements, mut answer, mut rows) = (Vec::new(), None, Vec::new());
    for line in lines.lines() {
        if let Some(row) = line.strip_prefix("> ") {
            rows.push(row.to_owned());
        } else if let Some(kind) = line.strip_prefix("= ") {
            answer = Some(kind);
        } else {
            statements.push(line.trim_end_matches(';').to_owned());
        }
    }
    rows.sort();
    Case {
        symptom: symptom.to_owned(),
        statements,
        expected: match answer {
            None => Expected::Rows(rows),
            Some("error") => Expected::Error,
            Some(other) => panic!("{symptom}: what is {other}?"),
        },
    }
}

/// Runs a case in a session and a folder of its own. Returns its difference, if any.
async fn difference(case: &Case, device: &str, partitions: usize) -> Option<String> {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::create_dir(folder.path().join("d")).expect("a folder inside");
    let ctx = session(device, partitions);
    let mut answer = Ok(Vec::new());
    let last = case.statements.len() - 1;
    for (at, statement) in case.statements.iter().enumerate() {
        let statement = statement.replace("{dir}", &folder.path().to_string_lossy());
        answer = rows(&ctx, &statement).await;
        if answer.is_err() && at < last {
            return Some(format!("{statement}: {answer:?}"));
        }
    }
    let is_right = match (&case.expected, &answer) {
        (Expected::Rows(expected), Ok(actual)) => expected == actual,
        (Expected::Error, answer) => answer.is_err(),
        (Expected::Rows(_), Err(_)) => false,
    };
    // A failed query leaves the session unchanged.
    let next = rows(&ctx, "SELECT 1").await;
    match is_right && next == Ok(vec!["1".to_owned()]) {
        true => None,
        false => Some(format!(
            "expected {:?}\n  got {answer:?}, then {next:?}",
            case.expected
        )),
    }
}

async fn check(device: &str, partitions: usize, is_chosen: impl Fn(&Case) -> bool) {
    let mut failed = Vec::new();
    for case in cases().iter().filter(|case| is_chosen(case)) {
        if let Some(difference) = difference(case, device, partitions).await {
            let symptom = &case.symptom;
            failed.push(format!(
                "{symptom}\n  on {device}, {partitions} partitions\n  {difference}"
            ));
        }
    }
    assert!(
        failed.is_empty(),
        "{} cases are wrong\n{}",
        failed.len(),
        failed.join("\n")
    );
}

#[test]
fn all_cases_are_parsed() {
    let cases = cases();
    assert_eq!(cases.len(), include_str!("cases.txt").matches("\n# ").count());
    assert!(cases.iter().all(|case| !case.statements.is_empty()));
}

#[tokio::test(flavor = "multi_thread")]
async fn one_partition_on_the_cpu() {
    check("cpu", 1, |case| !case.is_big()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn four_partitions_on_the_cpu() {
    check("cpu", 4, |case| !case.is_big()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sixteen_partitions_on_the_cpu() {
    check("cpu", 16, |case| !case.is_big()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn four_partitions_on_the_device() {
    check("emulated", 4, |case| !case.is_big()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sixteen_partitions_on_the_device() {
    check("emulated", 16, |case| !case.is_big()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn big_cases() {
    check("cpu", 4, Case::is_big).await;
}
