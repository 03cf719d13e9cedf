//! Arguments of `galatea bench joins`.

use std::path::PathBuf;

use clap::Args;
use galatea_bench::joins::Experiment;

#[derive(Debug, Args)]
pub(crate) struct JoinsArguments {
    /// Only these, separated by commas: a, b, c, the workloads of the thesis, which are the default;
    /// build-sizes, rows, groups.
    #[arg(value_delimiter = ',')]
    pub(crate) experiments: Vec<Experiment>,
    /// How much of all rows there are; 1 by default, 0.000002 on the emulated device.
    #[arg(long, value_parser = parse_scale)]
    pub(crate) scale: Option<f64>,
    /// Measured runs of each.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) runs: u32,
    /// The workloads by DataFusion's CPU operators, too, and by DuckDB where python3 has its module, with so
    /// much of all rows.
    #[arg(long, value_name = "SCALE", value_parser = parse_scale)]
    pub(crate) rivals: Option<f64>,
    /// Small, on the emulated device: shows that everything works, its times mean nothing.
    #[arg(long)]
    pub(crate) emulated: bool,
    /// Write rows and figures below this directory, as `<date>-<machine>/<name>.csv`, .jsonl and .svg with a
    /// README.
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// Name of the written files.
    #[arg(long, default_value = "joins")]
    pub(crate) name: String,
    /// The commit to record, outside of a git checkout.
    #[arg(long)]
    pub(crate) commit: Option<String>,
}

fn parse_scale(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(scale) if (0.0..=4.0).contains(&scale) && scale > 0.0 => Ok(scale),
        _ => Err("expected a share of all rows, above 0 and up to 4".to_string()),
    }
}
