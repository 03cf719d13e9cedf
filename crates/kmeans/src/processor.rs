//! Processors that execute passes, and the types that they share with the estimator.

use galatea_kernels::kmeans::Centroids;

use crate::labels::Labels;
use crate::{KMeansError, Result};

/// Progress after an iteration.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Progress {
    /// The number of the restart, from 0.
    pub start: u32,
    /// Iterations done.
    pub iteration: u32,
    /// Sum of the squared shifts of centroids.
    pub shift: f64,
}

/// The result of a fit that its caller stops.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnStop {
    /// [`KMeansError::Cancelled`].
    #[default]
    Discard,
    /// The centroids after the last complete iteration, of the best restart so far, with their sizes, inertia
    /// and labels, which take one more pass.
    Keep,
}

/// The condition that ends iterations.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rule {
    pub(crate) max_iter: u32,
    pub(crate) tolerance: f64,
}

/// The outcome of iterations.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Iterations {
    pub(crate) iterations: u32,
    pub(crate) shift: f64,
    pub(crate) converged: bool,
}

/// The outcome of the last pass, which does not move centroids.
#[derive(Debug)]
pub(crate) struct Finish {
    pub(crate) masses: Vec<u64>,
    pub(crate) inertia: f64,
    pub(crate) labels: Option<Labels>,
    pub(crate) cpu_chunks: u64,
}

impl Iterations {
    /// Records another iteration. `shift` is the sum of the squared shifts of centroids.
    pub(crate) fn after(&mut self, shift: f64, rule: Rule) {
        self.shift = shift;
        self.iterations += 1;
        self.converged = shift <= rule.tolerance;
    }
}

/// The caller's callback. It is called for iterations and may stop them.
pub(crate) struct Monitor<'a> {
    /// The number of the first of the starts that run together.
    first: u32,
    on_stop: OnStop,
    stopped: bool,
    tell: &'a mut dyn FnMut(Progress) -> bool,
}

impl<'a> Monitor<'a> {
    /// A monitor of starts that run together. `first` is the number of the first one.
    pub(crate) fn new(first: u32, on_stop: OnStop, tell: &'a mut dyn FnMut(Progress) -> bool) -> Self {
        Self {
            first,
            on_stop,
            stopped: false,
            tell,
        }
    }

    /// Returns whether to continue after an iteration of one of the starts that run together. If the caller
    /// stops and nothing is kept, it is an error.
    pub(crate) fn tell(&mut self, start: usize, iteration: u32, shift: f64) -> Result<bool> {
        let goes_on = (self.tell)(Progress {
            start: self.first + start as u32,
            iteration,
            shift,
        });
        self.stopped |= !goes_on;
        match self.on_stop {
            OnStop::Discard if !goes_on => Err(KMeansError::Cancelled {
                iterations: iteration,
            }),
            _ => Ok(goes_on),
        }
    }

    /// Whether the caller has stopped the fit.
    pub(crate) fn is_stopped(&self) -> bool {
        self.stopped
    }
}

/// A processor that executes passes: the CPU or a device.
pub(crate) trait Processor {
    /// Moves the centroids of each start until the rule ends it, or the monitor ends all of them. All starts
    /// share the passes.
    fn iterate(
        &mut self,
        starts: &mut [Centroids],
        rule: Rule,
        monitor: &mut Monitor<'_>,
    ) -> Result<Vec<Iterations>>;
    /// Masses and inertia of each start's centroids, in one pass; also labels, for a single start.
    fn finish(&mut self, starts: &[Centroids], labels: bool) -> Result<Vec<Finish>>;
}

/// Runs iterations one by one. `iterate` returns the shift of the centroids, and `tell` whether to continue.
pub(crate) fn iterations(
    rule: Rule,
    mut tell: impl FnMut(u32, f64) -> Result<bool>,
    mut iterate: impl FnMut() -> Result<f64>,
) -> Result<Iterations> {
    let mut done = Iterations::default();
    while done.iterations < rule.max_iter && !done.converged {
        done.after(iterate()?, rule);
        if !tell(done.iterations, done.shift)? {
            break;
        }
    }
    Ok(done)
}
