//! The outcome of the files, as printed.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use galatea_device::environment::{self, TestFiles};

use super::compare::{difference, is_corrected};
use super::folder::{TestFolder, Workplace};
use super::pass::{Answer, Engine, questions, run};

/// The results of one file.
#[derive(Debug, Default)]
pub(super) struct FileOutcome {
    file: PathBuf,
    /// Number of compared records, and of those that both sessions refused.
    compared: usize,
    failing: usize,
    /// Number of records that ran on the device, at least in part.
    on_device: usize,
    /// Number of records with an operator that placement considers: those on the device, and those with a
    /// reason.
    with_work: usize,
    /// The reasons that records with work did not use the device, with the number of records.
    reasons: BTreeMap<String, usize>,
    /// Number of EXPLAINs, which are excluded.
    explains: usize,
    /// Number of records that plain DataFusion answers differently in its two runs.
    volatile: usize,
    /// Number of records that remained after the time limit of the file.
    late: usize,
    /// Number of records that should succeed but fail on plain DataFusion because data is missing, and the
    /// first one's error.
    missing: usize,
    first_missing: String,
    /// The reason that the file did not run at all.
    skipped: Option<String>,
    /// Number of records that were compared over files, too.
    over_files: usize,
    differences: Vec<String>,
    elapsed: Duration,
    /// The slowest record on the device.
    slowest: (Duration, String),
}

impl FileOutcome {
    pub(super) async fn of(folder: &TestFolder, place: &Workplace, file: &Path, limit: Duration) -> Self {
        let started = Instant::now();
        let mut outcome = Self {
            file: file.to_path_buf(),
            ..Self::default()
        };
        if let Err(why) = outcome.fill(folder, place, limit).await {
            outcome.skipped = Some(why);
        }
        outcome.elapsed = started.elapsed();
        outcome
    }

    async fn fill(&mut self, folder: &TestFolder, place: &Workplace, limit: Duration) -> Result<(), String> {
        let (questions, explains) = questions(folder.records(&self.file)?, place);
        self.explains = explains;
        let mut passes = Vec::new();
        for engine in [Engine::DataFusion, Engine::DataFusion, Engine::Galatea] {
            place
                .clear_scratch(&self.file)
                .map_err(|error| error.to_string())?;
            passes.push(run(engine, &self.file, &questions, limit).await?);
        }
        let [expected, again, actual] = &passes[..] else {
            return Err("three passes".into());
        };
        let over_files = match in_files(&self.file) {
            true => {
                place
                    .clear_scratch(&self.file)
                    .map_err(|error| error.to_string())?;
                run(Engine::OverFiles, &self.file, &questions, limit).await?
            }
            false => Vec::new(),
        };
        let answered = expected.len().min(again.len()).min(actual.len());
        self.late = questions.len() - answered;
        for (index, question) in questions.iter().enumerate().take(answered) {
            let (expected, again, actual) = (&expected[index], &again[index], &actual[index]);
            if let Answer::Error(error) = &expected.answer {
                self.failing += 1;
                if !question.fails {
                    self.missing += 1;
                    if self.first_missing.is_empty() {
                        self.first_missing = format!("{}: {error}", question.place);
                    }
                }
            }
            if difference(&expected.answer, &again.answer).is_some() {
                self.volatile += 1;
                continue;
            }
            self.compared += 1;
            if let Some(answered) = over_files.get(index) {
                self.over_files += 1;
                let second = answered.second.iter().map(|answer| ("kept plan", answer));
                let found = [("first run", &answered.answer)].into_iter().chain(second);
                let found = found.filter_map(|(run, answer)| {
                    let found = difference(&expected.answer, answer)?;
                    (!is_corrected(&question.sql))
                        .then(|| format!("{}, over files, {run}\n{}\n{found}", question.place, question.sql))
                });
                self.differences.extend(found);
            }
            self.on_device += usize::from(actual.on_device);
            self.with_work += usize::from(actual.on_device || !actual.reasons.is_empty());
            if !actual.on_device {
                for reason in &actual.reasons {
                    *self.reasons.entry(kind_of(reason)).or_default() += 1;
                }
            }
            if actual.elapsed > self.slowest.0 {
                self.slowest = (actual.elapsed, question.place.clone());
            }
            let broken = actual
                .reasons
                .iter()
                .find(|reason| reason.contains("does not compile"));
            let differs = difference(&expected.answer, &actual.answer);
            let differs = differs.filter(|_| !is_corrected(&question.sql));
            let found = differs.or_else(|| broken.cloned());
            if let Some(found) = found {
                self.differences
                    .push(format!("{}\n{}\n{found}", question.place, question.sql));
            }
        }
        Ok(())
    }
}

impl fmt::Display for FileOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:>7.1}s {}: ",
            self.elapsed.as_secs_f64(),
            self.file.display()
        )?;
        if let Some(why) = &self.skipped {
            return write!(f, "skipped: {why}");
        }
        write!(f, "{} compared, {} on the device", self.compared, self.on_device)?;
        for (count, what) in [
            (self.over_files, "over files"),
            (self.failing, "refused by both"),
            (self.explains, "EXPLAIN"),
            (self.volatile, "volatile"),
            (self.late, "out of time"),
            (self.differences.len(), "DIFFERENT"),
        ] {
            if count > 0 {
                write!(f, ", {count} {what}")?;
            }
        }
        if self.missing > 0 {
            let first = self.first_missing.lines().next().unwrap_or_default();
            write!(
                f,
                "\n         {} cannot succeed here, the first: {first}",
                self.missing
            )?;
        }
        for difference in &self.differences {
            write!(
                f,
                "\n--- {}/{difference}\n",
                self.file.parent().unwrap_or(Path::new("")).display()
            )?;
        }
        Ok(())
    }
}

/// Whether the file also runs with tables in files: one of three, by its name.
fn in_files(file: &Path) -> bool {
    let name = file.to_string_lossy();
    match environment::test_files() {
        TestFiles::All => true,
        TestFiles::None => false,
        TestFiles::Share => name.bytes().map(u64::from).sum::<u64>().is_multiple_of(3),
    }
}

/// A reason without the expression that it concerns, so that reasons of one kind are counted together.
fn kind_of(reason: &str) -> String {
    let line = reason.lines().next().unwrap_or_default();
    line.split(" (in ").next().unwrap_or_default().to_owned()
}

/// Number of printed reasons.
const SHOWN_REASONS: usize = 60;

/// The results of all files.
#[derive(Debug, Default)]
pub(super) struct Summary {
    pub(super) files: Vec<FileOutcome>,
}

impl Summary {
    pub(super) fn on_device(&self) -> usize {
        self.files.iter().map(|file| file.on_device).sum()
    }

    pub(super) fn differences(&self) -> usize {
        self.files.iter().map(|file| file.differences.len()).sum()
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sum = |count: fn(&FileOutcome) -> usize| self.files.iter().map(count).sum::<usize>();
        writeln!(
            f,
            "{} files, {} skipped\n{} records compared, {} of them over files, too, {} refused by both\n\
             {} of {} with work used the device\n\
             left out: {} EXPLAIN, {} volatile, {} out of time\n{} cannot succeed without data that is not there\n{} differ",
            self.files.len(),
            sum(|file| usize::from(file.skipped.is_some())),
            sum(|file| file.compared),
            sum(|file| file.over_files),
            sum(|file| file.failing),
            self.on_device(),
            sum(|file| file.with_work),
            sum(|file| file.explains),
            sum(|file| file.volatile),
            sum(|file| file.late),
            sum(|file| file.missing),
            self.differences(),
        )?;
        let mut reasons: BTreeMap<&str, usize> = BTreeMap::new();
        for (reason, records) in self.files.iter().flat_map(|file| &file.reasons) {
            *reasons.entry(reason).or_default() += records;
        }
        let mut reasons: Vec<_> = reasons.into_iter().collect();
        reasons.sort_by_key(|(_, records)| std::cmp::Reverse(*records));
        writeln!(f, "why the others did not, with the number of records:")?;
        for (reason, records) in reasons.iter().take(SHOWN_REASONS) {
            writeln!(f, "{records:>7} {reason}")?;
        }
        let mut slowest: Vec<_> = self.files.iter().collect();
        slowest.sort_by_key(|file| std::cmp::Reverse(file.elapsed));
        writeln!(f, "the slowest files, with their slowest record:")?;
        for file in slowest.iter().take(10) {
            let (time, place) = &file.slowest;
            writeln!(
                f,
                "{:>7.1}s {} ({:.1}s {place})",
                file.elapsed.as_secs_f64(),
                file.file.display(),
                time.as_secs_f64()
            )?;
        }
        Ok(())
    }
}
