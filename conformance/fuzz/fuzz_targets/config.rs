//! A configuration is anything that somebody wrote: it is read, or told in one line what is wrong.
#![no_main]

use std::path::Path;

use libfuzzer_sys::fuzz_target;
use mz_sink_config::Config;

fuzz_target!(|text: &str| {
    if let Err(error) = Config::parse(text, Path::new("fuzz.toml"), |_| None) {
        let shown = error.to_string();
        assert!(
            shown.contains("fuzz.toml") && !shown.contains('\n'),
            "{shown}"
        );
    }
});
