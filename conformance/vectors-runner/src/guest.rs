//! The runner as a WebAssembly module without imports: bytes go in and out eight at a time, so
//! that a host needs nothing but three functions that take and give numbers.
//!
//! `give` the file's name, a zero byte and its text; `run`; then `take` the report, JSON, until
//! it gives -1.

// Exporting a function under its own name is unsafe in Rust, as two libraries could use the same
// name. The module is linked with nothing.
#![allow(unsafe_code)]

use std::cell::RefCell;

thread_local! {
    static INPUT: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
    static OUTPUT: RefCell<std::vec::IntoIter<u8>> = RefCell::new(Vec::new().into_iter());
}

/// Adds the lowest `count` bytes of `word`, lowest first; 8 at most.
#[unsafe(no_mangle)]
pub extern "C" fn give(word: u64, count: u32) {
    let bytes = word.to_le_bytes();
    let count = bytes.len().min(count as usize);
    INPUT.with_borrow_mut(|input| input.extend_from_slice(&bytes[..count]));
}

/// Runs the file that was given, and forgets it.
#[unsafe(no_mangle)]
pub extern "C" fn run() {
    let input = INPUT.take();
    let mut parts = input.splitn(2, |byte| *byte == 0);
    let mut text = || String::from_utf8_lossy(parts.next().unwrap_or_default()).into_owned();
    let (file, text) = (text(), text());
    let report = crate::run(&file, &text);
    let report = serde_json::to_vec(&report).unwrap_or_default();
    OUTPUT.set(report.into_iter());
}

/// The next byte of the report; -1 at its end.
#[unsafe(no_mangle)]
pub extern "C" fn take() -> i32 {
    OUTPUT.with_borrow_mut(Iterator::next).map_or(-1, i32::from)
}
