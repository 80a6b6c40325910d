//! A file of dead letters may have been cut, edited or written by another version.
#![no_main]

use libfuzzer_sys::fuzz_target;
use mz_sink_core::dead_letter::{Letters, Selection};

fuzz_target!(|text: &str| {
    match Letters::parse(text) {
        Err(error) => assert!(error.to_string().len() < 300),
        Ok(letters) => {
            // What is kept is what was read, line by line.
            let kept = letters.text(|_| true);
            let again = Letters::parse(&kept).expect("what is kept can be read");
            assert_eq!(again.entries.len(), letters.entries.len());
            assert!(!again.is_cut);
            assert!(Selection::default().of(&again.entries).is_ok());
        }
    }
});
