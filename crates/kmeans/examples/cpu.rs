//! Measures iterations on the CPU with each method of summing: `cargo run --release -p galatea-kmeans
//! --example cpu -- FEATURES CLUSTERS MiB`. The first two are comma-separated lists.

use std::error::Error;
use std::time::Instant;

use galatea_kmeans::{CpuSums, Execution, Init, KMeans, Points};

const ITERATIONS: u32 = 7;

fn numbers(argument: Option<String>, default: &str) -> Result<Vec<usize>, std::num::ParseIntError> {
    let text = argument.unwrap_or_else(|| default.to_owned());
    text.split(',').map(str::parse).collect()
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let features = numbers(arguments.next(), "4,16,64")?;
    let clusters = numbers(arguments.next(), "4,16,64")?;
    let bytes = numbers(arguments.next(), "64")?[0] << 20;
    println!("d,k,execution,sums,ms_median,gbytes_s");
    for &d in &features {
        let n = bytes / (4 * d);
        let value = |at: usize| ((at.wrapping_mul(0x9e37_79b9) >> 7) % 1009) as f32 / 10.0;
        let columns: Vec<Vec<f32>> = (0..d)
            .map(|f| (0..n).map(|point| value(point * d + f)).collect())
            .collect();
        let points = Points::from_columns(&columns)?;
        for &k in &clusters {
            for execution in [Execution::Single, Execution::Multi] {
                for cpu_sums in CpuSums::ALL {
                    let settings = KMeans {
                        max_iter: ITERATIONS,
                        tol: 0.0,
                        init: Init::First,
                        execution,
                        cpu_sums,
                        ..KMeans::new(k)
                    };
                    let mut begun = Instant::now();
                    let mut times = Vec::new();
                    settings.fit_with(&points, None, false, &mut |_| {
                        times.push(begun.elapsed().as_secs_f64());
                        begun = Instant::now();
                        true
                    })?;
                    times.sort_by(f64::total_cmp);
                    let median = times[times.len() / 2];
                    let rate = points.bytes() as f64 / median / 1e9;
                    let (execution, sums) = (execution.name(), cpu_sums.name());
                    println!("{d},{k},{execution},{sums},{:.3},{rate:.2}", 1e3 * median);
                }
            }
        }
    }
    Ok(())
}
