//! The tuning policies of the engine, which `galatea policies` prints.

use galatea_base::policy::Policy;

/// Every policy of the engine.
pub fn all() -> Vec<Policy> {
    [
        crate::join_order::policies(),
        crate::placement::policies(),
        galatea_expression::policies(),
        galatea_codegen::policies(),
        galatea_store::policies(),
        crate::device::policies(),
        crate::transfer::policies(),
        vec![
            crate::string::interned::InternedPolicy::listed(),
            crate::rows::heap::RowHeapPolicy::listed(),
        ],
        crate::results::policies(),
        crate::joins::policies(),
        crate::execution::policies(),
        crate::stream::policies(),
        crate::spilling_join::policies(),
    ]
    .concat()
}

#[cfg(test)]
mod tests {

    #[test]
    fn every_policy_documents_its_constants() {
        let all = super::all();
        assert!(all.len() >= 9);
        for policy in &all {
            assert!(policy.about.ends_with('.'), "{policy}");
            for constant in &policy.constants {
                assert!(constant.meaning.len() > 10, "{policy}");
            }
        }
        let sample = all
            .iter()
            .find(|policy| policy.name == "SamplePolicy")
            .expect("listed");
        assert!(sample.to_string().contains("hot_share"), "{sample}");
    }
}
