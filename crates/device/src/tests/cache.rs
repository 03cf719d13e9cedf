//! The cache key (every field counts) and the bounded cache on disk.

use std::collections::HashSet;
use std::time::{Duration, SystemTime};

use super::folder;
use crate::CacheFolder;
use crate::cache::{DiskCache, Key, KeyRecord};

fn key(source: &str) -> Key {
    let record = KeyRecord {
        source,
        entries: &[],
        options: &[],
        headers: [0; 32],
        nvrtc_version: (13, 0),
        driver_version: (13, 0),
        architecture: "sm_90",
        target: "gpu",
    };
    record.key()
}

#[test]
fn least_recently_used_cubin_is_removed_first() {
    let folder = folder();
    let cache = CacheFolder::open(Some(folder.path())).unwrap();
    let open = || DiskCache::new(Ok(&cache)).with_limit(3500);
    let (image, disk) = (vec![7; 1000], open());
    let age = |source: &str, seconds| {
        let file = std::fs::File::open(disk.path(key(source)).unwrap()).unwrap();
        file.set_modified(SystemTime::now() - Duration::from_secs(seconds))
            .unwrap();
    };
    for (source, seconds) in [("a", 400), ("b", 300), ("c", 200)] {
        disk.store(key(source), &image);
        age(source, seconds);
    }
    // The oldest file is used, so it is kept. Then another process continues.
    assert_eq!(disk.load(key("a")), Some(image.clone()));
    let disk = open();
    disk.store(key("d"), &image);
    let kept = |disk: &DiskCache| ["a", "b", "c", "d"].map(|source| disk.load(key(source)).is_some());
    assert_eq!(kept(&disk), [true, false, true, true]);
    // An image larger than the limit is not kept.
    disk.store(key("e"), &[1; 4000]);
    assert_eq!(disk.load(key("e")), None);
}

#[test]
fn disk_cache_without_folder_stores_nothing() {
    let refused = CacheFolder::open(Some("relative".as_ref())).unwrap_err();
    let disk = DiskCache::new(Err(&refused));
    disk.store(key("a"), b"image");
    assert_eq!((disk.load(key("a")), disk.path(key("a"))), (None, None));
}

#[test]
fn any_field_changes_the_key() {
    let strings = |list: &[&str]| list.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
    let (entries, options) = (strings(&["a", "b"]), strings(&["-x", "-y"]));
    let record = KeyRecord {
        source: "source",
        entries: &entries,
        options: &options,
        headers: [1; 32],
        nvrtc_version: (13, 0),
        driver_version: (13, 0),
        architecture: "sm_90",
        target: "gpu",
    };
    let (more, reordered, joined, moved) = (
        strings(&["a", "b", "c"]),
        strings(&["b", "a"]),
        strings(&["ab"]),
        strings(&["-y", "-x"]),
    );
    let (entries_and_option, options_left) = (strings(&["a", "b", "-x"]), strings(&["-y"]));
    let others = [
        KeyRecord {
            source: "source ",
            ..record
        },
        KeyRecord {
            entries: &more,
            ..record
        },
        KeyRecord {
            entries: &reordered,
            ..record
        },
        KeyRecord {
            entries: &joined,
            ..record
        },
        KeyRecord {
            entries: &[],
            ..record
        },
        KeyRecord {
            options: &moved,
            ..record
        },
        KeyRecord {
            options: &[],
            ..record
        },
        // The same strings, divided differently between the lists.
        KeyRecord {
            entries: &entries_and_option,
            options: &options_left,
            ..record
        },
        KeyRecord {
            headers: [2; 32],
            ..record
        },
        KeyRecord {
            nvrtc_version: (13, 1),
            ..record
        },
        KeyRecord {
            nvrtc_version: (12, 0),
            ..record
        },
        KeyRecord {
            driver_version: (13, 1),
            ..record
        },
        KeyRecord {
            nvrtc_version: (0, 13),
            ..record
        },
        KeyRecord {
            architecture: "sm_80",
            ..record
        },
        KeyRecord {
            target: "emulated",
            ..record
        },
    ];
    let mut keys: HashSet<String> = others.iter().map(|record| record.key().to_string()).collect();
    assert_eq!(keys.len(), others.len());
    assert!(keys.insert(record.key().to_string()));
    assert_eq!(record.key(), record.key());
}

/// Files of earlier versions stay valid: a change of the record must change `KEY_VERSION` and this value.
#[test]
fn cache_key_of_version_1_is_stable() {
    assert_eq!(crate::KEY_VERSION, 1);
    let record = KeyRecord {
        source: "s",
        entries: &["e".to_owned()],
        options: &["-o".to_owned()],
        headers: [0; 32],
        nvrtc_version: (13, 0),
        driver_version: (13, 1),
        architecture: "sm_90",
        target: "gpu",
    };
    assert_eq!(
        record.key().to_string(),
        "c3134919cbb35a0064b48831c18e7ff12868138960007c59ac7302ae44a500ac"
    );
}
