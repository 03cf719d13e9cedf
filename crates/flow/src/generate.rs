//! The source of a topology's kernel: the bodies of its operators around the loop that runs them.

use std::fmt::Write as _;

use crate::topology::{Link, Operator, Topology};

/// A topology's kernel.
#[derive(Debug)]
pub(crate) struct Generated {
    pub(crate) source: String,
    /// Body of each operator on the device; operators of one source share it.
    pub(crate) bodies: Vec<u32>,
}

impl Topology {
    /// The CUDA C++ of the kernel that runs the device operators, with `block_threads` threads per block;
    /// `None` without device operators.
    #[must_use]
    pub fn kernel_source(&self, block_threads: u32) -> Option<String> {
        self.device_links().next()?;
        Some(generate(self.device_links(), block_threads).source)
    }
}

/// Writes the kernel of these operators. All are on the device.
pub(crate) fn generate<'a>(links: impl Iterator<Item = &'a Link>, block_threads: u32) -> Generated {
    let mut distinct: Vec<String> = Vec::new();
    let mut headers: Vec<&'static str> = Vec::new();
    let mut bodies = Vec::new();
    for link in links {
        let Operator::Gpu(operator) = &link.operator else {
            continue;
        };
        let source = operator.source();
        for header in operator.headers() {
            if !headers.contains(header) {
                headers.push(header);
            }
        }
        let body = distinct
            .iter()
            .position(|known| *known == *source)
            .unwrap_or_else(|| {
                distinct.push(source.into_owned());
                distinct.len() - 1
            });
        bodies.push(body as u32);
    }
    let mut source =
        String::from("#include \"galatea/flow/run.cuh\"\n#include \"galatea/flow/paging.cuh\"\n");
    for header in headers {
        let _ = writeln!(source, "#include \"{header}\"");
    }
    source.push_str("\nusing namespace galatea;\n");
    let (mut begin, mut compute) = (String::new(), String::new());
    for (body, text) in distinct.iter().enumerate() {
        let _ = write!(
            source,
            "\nnamespace body_{body} {{\n{text}}}  // namespace body_{body}\n"
        );
        let _ = writeln!(begin, "        body_{body}::Operator::begin();");
        let _ = writeln!(
            compute,
            "        case {body}: body_{body}::Operator::compute(work); break;"
        );
    }
    let _ = write!(
        source,
        "\nstruct Bodies {{\n    \
             GALATEA_INLINE static void begin() {{\n{begin}    }}\n    \
             GALATEA_INLINE static void compute(u32 body, Work& work) {{\n        \
                 switch (body) {{\n{compute}        }}\n    \
             }}\n\
         }};\n\n\
         extern \"C\" __global__ void __launch_bounds__({block_threads}, 1) flow(const FlowArguments args) \
         {{ run<Bodies>(args); }}\n"
    );
    Generated { source, bodies }
}
