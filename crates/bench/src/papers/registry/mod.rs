//! The figures of each paper, in their order.

/// Defines the constructors of a paper's figures: `figure`, which a command of `galatea bench` reproduces,
/// and `drawing`.
macro_rules! figures_of {
    ($paper:ident) => {
        const fn figure(
            figure: &'static str,
            subject: &'static str,
            outcome: &'static str,
            name: &'static str,
            arguments: &'static str,
        ) -> Entry {
            Entry::new(
                Paper::$paper,
                figure,
                subject,
                outcome,
                bench(name, arguments),
            )
        }

        const fn drawing(figure: &'static str, subject: &'static str) -> Entry {
            Entry::drawing(Paper::$paper, figure, subject)
        }
    };
}

mod allocator;
mod conflicts;
mod kmeans;
mod link;
mod multiqx;
mod partitions;
mod xeflow;

use super::entry::{Bench, Entry, Paper, Run};
use galatea_experiments::papers::{Experiment, Module};

/// All figures, by paper and in the order of each paper.
pub const ENTRIES: [&[Entry]; 7] = [
    allocator::FIGURES,
    conflicts::FIGURES,
    xeflow::FIGURES,
    link::FIGURES,
    partitions::FIGURES,
    kmeans::FIGURES,
    multiqx::FIGURES,
];

/// The reason for figures that only explain a method.
const DRAWING: &str = "a drawing of a method, without a measurement";

/// The figures of a paper.
pub fn entries(paper: Paper) -> impl Iterator<Item = &'static Entry> {
    let all = ENTRIES.into_iter().flatten();
    all.filter(move |entry| entry.paper == paper)
}

/// The figures of some papers with one of the numbers, or all of them without any number.
///
/// # Errors
/// The first number that no figure of these papers has.
pub fn chosen<'a>(papers: &[Paper], numbers: &'a [String]) -> Result<Vec<&'static Entry>, &'a str> {
    let of_papers: Vec<&Entry> = papers.iter().copied().flat_map(entries).collect();
    let has = |number: &str| of_papers.iter().any(|entry| entry.figure == number);
    if let Some(unknown) = numbers.iter().find(|number| !has(number)) {
        return Err(unknown);
    }
    let wanted = |entry: &&Entry| numbers.is_empty() || numbers.iter().any(|number| number == entry.figure);
    Ok(of_papers.into_iter().filter(wanted).collect())
}

impl Entry {
    /// A figure with its experiment.
    const fn new(
        paper: Paper,
        figure: &'static str,
        subject: &'static str,
        outcome: &'static str,
        run: Run,
    ) -> Self {
        Self {
            paper,
            figure,
            subject,
            outcome,
            run,
            pending: None,
        }
    }

    /// The same, with the reason why no result is committed.
    const fn pending(mut self, reason: &'static str) -> Self {
        self.pending = Some(reason);
        self
    }

    /// A figure that only explains a method.
    const fn drawing(paper: Paper, figure: &'static str, subject: &'static str) -> Self {
        Self::new(paper, figure, subject, "", Run::Nothing(DRAWING))
    }
}

/// A figure of the thesis that an experiment of `galatea_experiments` reproduces.
const fn of_thesis(
    figure: &'static str,
    subject: &'static str,
    outcome: &'static str,
    of: Module,
    name: &'static str,
) -> Entry {
    Entry::new(Paper::Thesis, figure, subject, outcome, module(of, name))
}

/// A figure of the thesis that explains a method.
const fn drawing_of_thesis(figure: &'static str, subject: &'static str) -> Entry {
    Entry::drawing(Paper::Thesis, figure, subject)
}

/// An experiment of `galatea_experiments`.
const fn module(module: Module, name: &'static str) -> Run {
    Run::Experiment(Experiment { module, name })
}

/// A command of `galatea bench` with a small version of its own.
const fn bench(name: &'static str, arguments: &'static str) -> Run {
    shared(name, name, arguments)
}

/// The same for a command that has the rows of another experiment, too.
const fn shared(name: &'static str, file: &'static str, arguments: &'static str) -> Run {
    Run::Bench(Bench {
        name,
        file,
        arguments,
        sizes: "",
        small: "--emulated",
    })
}
