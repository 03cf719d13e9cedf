//! Arguments of `galatea bench joins`.

use std::path::PathBuf;

use clap::Args;
use galatea_bench::joins::Experiment;

#[derive(Debug, Args)]
pub(crate) struct JoinsArguments {
    /// Only these experiments, separated by commas: a, b, c (the workloads of the thesis, the default),
    /// build-sizes, rows, groups.
    #[arg(value_delimiter = ',')]
    pub(crate) experiments: Vec<Experiment>,
    /// Factor of the number of rows; 1 by default, 0.000002 on the emulated device.
    #[arg(long, value_parser = parse_scale)]
    pub(crate) scale: Option<f64>,
    /// Number of measured runs of each query.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) runs: u32,
    /// Run the workloads also on DataFusion's CPU operators, and on DuckDB if python3 has its module, with
    /// this factor of the number of rows.
    #[arg(long, value_name = "SCALE", value_parser = parse_scale)]
    pub(crate) rivals: Option<f64>,
    /// Run a small version on the emulated device. It shows that everything works; its times mean nothing.
    #[arg(long)]
    pub(crate) emulated: bool,
    /// Write rows and figures below this directory, as `<date>-<machine>/<name>.csv`, .jsonl and .svg with a
    /// README.
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// Name of the written files.
    #[arg(long, default_value = "joins")]
    pub(crate) name: String,
    /// Commit to record, for use outside of a git checkout.
    #[arg(long)]
    pub(crate) commit: Option<String>,
}

fn parse_scale(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(scale) if (0.0..=4.0).contains(&scale) && scale > 0.0 => Ok(scale),
        _ => Err("expected a share of all rows, above 0 and up to 4".to_string()),
    }
}
