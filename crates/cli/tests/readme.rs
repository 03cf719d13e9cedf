//! README.md's table of settings is the settings.

use std::fmt::Write;
use std::fs;
use std::path::Path;

use galatea::{EngineSettings, GalateaConfig};

const BEGIN: &str = "<!-- settings: begin (written from crates/engine/src/config.rs; a test compares) -->\n";
const END: &str = "<!-- settings: end -->";

fn table() -> String {
    let mut text = String::from("| setting | default | accepts | meaning |\n| --- | --- | --- | --- |\n");
    for setting in GalateaConfig::reference()
        .into_iter()
        .chain(EngineSettings::reference())
    {
        let cell = |text: &str| text.replace('|', "\\|");
        writeln!(
            text,
            "| `{}` | `{}` | {} | {} |",
            setting.name,
            setting.default,
            cell(&setting.accepts),
            cell(setting.help)
        )
        .expect("writing to a string");
    }
    text
}

#[test]
#[expect(clippy::disallowed_methods, reason = "a switch of this test alone")]
fn the_table_of_settings_is_complete() {
    let path = Path::new("../../README.md");
    let readme = fs::read_to_string(path).expect("README.md");
    let start = readme.find(BEGIN).expect("the table's begin") + BEGIN.len();
    let end = readme.find(END).expect("the table's end");
    let expected = table();
    if std::env::var("UPDATE_README").is_ok_and(|value| value == "1") {
        fs::write(path, format!("{}{expected}{}", &readme[..start], &readme[end..])).expect("written");
        return;
    }
    assert_eq!(
        &readme[start..end],
        expected,
        "run: UPDATE_README=1 cargo test -p galatea-cli --test readme"
    );
}
