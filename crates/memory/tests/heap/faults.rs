//! In checking mode, misuse is detected and has no effect.

use galatea_kernels::heap::PageSearch;

use crate::{PAGE_BYTES, Pool, REUSING, devices};

#[test]
fn freeing_foreign_pointers_is_reported() {
    for (case, device) in devices([1, 2]) {
        for search in PageSearch::ALL {
            let case = format!("{search}, {case}");
            let mut pool = Pool::checked(&device, 100, search);
            let given = pool.allocate(100, PAGE_BYTES);
            let first = pool.heap.first_page();
            let before_first = 0u64.wrapping_sub(PAGE_BYTES);
            for offset in [8, 100 * PAGE_BYTES, before_first, 12_345u64.wrapping_sub(first)] {
                let foreign = device
                    .upload(&pool.stream, &[first.wrapping_add(offset), 0])
                    .unwrap();
                pool.release(&foreign);
                let faults = pool.heap.statistics(&pool.stream).unwrap().faults;
                assert!(faults.foreign && !faults.double_free, "{faults:?}, {case}");
                assert_eq!(faults.first, Some(offset), "{case}");
                pool.heap.forget_statistics(&pool.stream).unwrap();
            }
            // It freed nothing.
            assert_eq!(pool.read(&pool.allocate(1, 1)), [0], "{case}");
            pool.release(&given);
            if search.reuses() {
                pool.assert_free(100, &case);
            }
        }
    }
}

#[test]
fn double_frees_are_reported_and_have_no_effect() {
    for (case, device) in devices([1, 2]) {
        for search in REUSING {
            let case = format!("{search}, {case}");
            let mut pool = Pool::checked(&device, 130, search);
            let given = pool.read(&pool.allocate(130, PAGE_BYTES));
            let release = |pool: &Pool, addresses: &[u64]| {
                pool.release(&device.upload(&pool.stream, addresses).unwrap());
            };
            // One free after the other.
            release(&pool, &given[..1]);
            assert!(
                !pool.heap.statistics(&pool.stream).unwrap().faults.any(),
                "{case}"
            );
            release(&pool, &given[..2]);
            let faults = pool.heap.statistics(&pool.stream).unwrap().faults;
            assert!(faults.double_free && !faults.foreign, "{faults:?}, {case}");
            pool.heap.forget_statistics(&pool.stream).unwrap();
            pool.assert_free(2, &case);
            // Two frees at the same time, in one warp and in two.
            for apart in [1, 40] {
                let page = given[10 + apart];
                let mut addresses = vec![page];
                addresses.resize(apart, 0);
                addresses.push(page);
                release(&pool, &addresses);
                let faults = pool.heap.statistics(&pool.stream).unwrap().faults;
                // While a free of a block of units is in progress, the block is neither allocated nor free.
                let noted =
                    faults.double_free && !faults.foreign || search == PageSearch::Runs && faults.foreign;
                assert!(noted, "{apart} apart: {faults:?}, {case}");
                pool.heap.forget_statistics(&pool.stream).unwrap();
            }
            pool.assert_free(4, &case);
            let again = pool.read(&pool.allocate(10, PAGE_BYTES));
            assert_eq!(again.iter().filter(|address| **address != 0).count(), 4, "{case}");
            pool.assert_free(0, &case);
        }
    }
}
