//! A stored checkpoint is anything that somebody left in the target.
//!
//! What is read is written again as a text that means the same, and as the one text of that
//! meaning; an error never quotes what was found.
#![no_main]

use libfuzzer_sys::fuzz_target;
use mz_sink_core::checkpoint::Checkpoint;

fuzz_target!(|text: &str| {
    match Checkpoint::parse(text, "s") {
        // A sink id is shown, of which a part may need escapes.
        Err(error) => assert!(error.to_string().len() < 1000),
        Ok(found) => {
            let Ok(canonical) = found.encode() else {
                return;
            };
            let again = Checkpoint::parse(&canonical, "s").expect("what is written can be read");
            assert_eq!(again, found);
            assert_eq!(again.encode().expect("it was written before"), canonical);
        }
    }
});
