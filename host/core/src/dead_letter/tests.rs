use super::*;
use crate::chunk::Chunk;
use crate::decode::tests::{change, decoder_for, deletion, view};
use crate::types::{ColumnType, Envelope};
use proptest::prelude::*;

const TYPES: [ColumnType; 2] = [ColumnType::Int64, ColumnType::Text];

/// What version 0.1 wrote before there was a format 2.
const FORMAT_1: &str = include_str!("golden/format1.jsonl");

/// What is written now.
const FORMAT_2: &str = include_str!("golden/format2.jsonl");

fn written() -> String {
    let view = view(TYPES);
    let decoder = decoder_for(TYPES, Envelope::Upsert);
    let mut chunk = Chunk::new(0, view.columns.iter().map(|c| &c.ty));
    let rows = [
        change(1796084174074, 1, "a \"row\"\n"),
        change(1796084174074, 9_007_199_254_740_993, "ü"),
        deletion(1796084175000, 3),
    ];
    for (row, ordinal) in rows.iter().zip([0, 1, 0]) {
        decoder.decode(row, &mut chunk).unwrap();
        *chunk.ordinals.last_mut().unwrap() = ordinal;
    }
    let line = |row| {
        let refused = Refused {
            view: &view,
            chunk: &chunk,
            row,
            is_snapshot: row == 0,
            category: "too-long",
            message: "the text is too long",
        };
        String::from_utf8(refused.line("orders-search")).unwrap()
    };
    (0..chunk.rows()).map(line).collect()
}

#[test]
fn what_is_written_is_format_2() {
    assert_eq!(written(), FORMAT_2);
}

#[test]
fn both_formats_can_be_read() {
    for (file, has_text) in [(FORMAT_1, false), (FORMAT_2, true)] {
        let letters = Letters::parse(file).unwrap();
        assert!(!letters.is_cut);
        let [first, second, third] = &letters.entries[..] else {
            panic!("{} entries", letters.entries.len());
        };
        assert_eq!(first.change.time, 1796084174074);
        assert_eq!((second.change.ordinal, second.change.count), (1, 1));
        assert_eq!(third.change.op, "delete");
        assert_eq!(first.text.is_some(), has_text);
        assert_eq!(letters.text(|_| true), file);
    }
}

#[test]
fn a_line_that_was_cut_is_told_and_left_out() {
    let cut = &FORMAT_2[..FORMAT_2.len() - 5];
    let letters = Letters::parse(cut).unwrap();
    assert!(letters.is_cut);
    assert_eq!(letters.entries.len(), 2);
    assert!(Letters::parse("{").unwrap().is_cut);
    assert!(!Letters::parse("").unwrap().is_cut);
}

#[test]
fn a_damaged_line_and_a_newer_format_are_told_by_their_number() {
    let second = |line: &str| {
        let mut lines: Vec<&str> = FORMAT_2.lines().collect();
        lines[1] = line;
        Letters::parse(&(lines.join("\n") + "\n")).unwrap_err()
    };
    let damaged = ReadError::Damaged { line: 2 };
    for line in [
        "",
        "{}",
        "secret",
        "[]",
        r#"{"format": 0}"#,
        r#"{"format": 2}"#,
    ] {
        assert_eq!(second(line), damaged, "{line}");
    }
    let newer = ReadError::NewerFormat { line: 2, found: 3 };
    assert_eq!(second(r#"{"format": 3, "unheard": "of"}"#), newer);
    assert!(!second("secret").to_string().contains("secret"));
}

#[test]
fn a_row_that_was_refused_again_is_there_once() {
    let letters = Letters::parse(&FORMAT_2.repeat(2)).unwrap();
    assert_eq!(letters.entries.len(), 3);
}

#[test]
fn those_are_meant_that_fit_all_that_is_given() {
    let entries = Letters::parse(FORMAT_2).unwrap().entries;
    let meant = |selection: Selection| selection.of(&entries).map(|found| found.len());
    assert_eq!(meant(Selection::default()), Ok(3));
    let first = entries[0].id[..8].to_owned();
    let ids = |id: &str| Selection {
        ids: vec![id.into()],
        ..Selection::default()
    };
    assert_eq!(meant(ids(&first)), Ok(1));
    let unknown = SelectionError::Unknown("zz".into());
    assert_eq!(meant(ids("zz")), Err(unknown));
    assert_eq!(
        meant(ids("")),
        Err(SelectionError::Ambiguous(String::new()))
    );
    let view = |view: &str| Selection {
        view: Some(view.into()),
        category: Some("too-long".into()),
        ..ids(&first)
    };
    assert_eq!((meant(view("t")), meant(view("u"))), (Ok(1), Ok(0)));
}

proptest! {
    #[test]
    fn no_file_makes_the_reader_panic(text in ".{0,200}") {
        let _ = Letters::parse(&text);
        let _ = Letters::parse(&format!("{text}\n{FORMAT_2}"));
    }

    #[test]
    fn a_file_cut_anywhere_loses_the_last_line_alone(at in 0..FORMAT_2.len()) {
        prop_assume!(FORMAT_2.is_char_boundary(at));
        let cut = &FORMAT_2[..at];
        let letters = Letters::parse(cut).unwrap();
        prop_assert_eq!(letters.entries.len(), cut.matches('\n').count());
        prop_assert_eq!(letters.is_cut, !cut.is_empty() && !cut.ends_with('\n'));
    }
}
