use super::*;
use crate::checkpoint::FORMAT;
use crate::chunk::Value;
use crate::dead_letter::{Letters, Refused};
use crate::decode::tests::{change, decoder_for, deletion, progress, view};
use crate::types::{ColumnType, Op};

const TYPES: [ColumnType; 2] = [ColumnType::Int64, ColumnType::Text];

/// Dead letters of these rows, each at its time.
fn letters(envelope: Envelope, rows: &[crate::decode::tests::Row]) -> Vec<Entry> {
    let view = view(TYPES);
    let decoder = decoder_for(TYPES, envelope);
    let mut chunk = Chunk::new(0, view.columns.iter().map(|c| &c.ty));
    for row in rows {
        decoder.decode(row, &mut chunk).unwrap();
    }
    let lines: Vec<u8> = (0..chunk.rows())
        .flat_map(|row| {
            let refused = Refused {
                view: &view,
                chunk: &chunk,
                row,
                is_snapshot: false,
                category: "c",
                message: "m",
            };
            refused.line("s")
        })
        .collect();
    let text = String::from_utf8(lines).unwrap();
    Letters::parse(&text).unwrap().entries
}

fn replay(envelope: Envelope, frontier: Frontier, entries: Vec<Entry>) -> ViewReplay {
    ViewReplay::new("s", 0, &view(TYPES), envelope, frontier, entries).unwrap()
}

/// Time, what it does, key and value.
fn written(replayed: &Replayed) -> Vec<(Timestamp, Op, i64, Option<String>)> {
    let rows = replayed
        .rows
        .iter()
        .flat_map(|c| (0..c.rows()).map(move |r| (c, r)));
    rows.map(|(chunk, row)| {
        let Value::Int(key) = chunk.columns[0].get(row) else {
            panic!("the key is an integer")
        };
        let value = match chunk.columns[1].get(row) {
            Value::Text(text) => Some(String::from_utf8(text.to_vec()).unwrap()),
            _ => None,
        };
        (chunk.timestamps[row], chunk.op(row), key, value)
    })
    .collect()
}

#[test]
fn what_the_object_holds_now_is_written_and_not_what_was_kept() {
    let kept = [
        change(10, 1, "old"),
        change(10, 2, "gone"),
        change(11, 1, "older"),
    ];
    let mut replay = replay(Envelope::Upsert, 100, letters(Envelope::Upsert, &kept));
    assert_eq!(replay.reads_at(), Some(99));
    let decoder = decoder_for(TYPES, Envelope::Upsert);
    for row in [
        progress(99),
        change(99, 1, "new"),
        change(99, 7, "of no interest"),
        progress(100),
    ] {
        replay.accept(&decoder, &row).unwrap();
    }
    let replayed = replay.finish().unwrap();
    let new = (99, Op::Put, 1, Some("new".into()));
    assert_eq!(written(&replayed), [new, (99, Op::Delete, 2, None)]);
    assert_eq!(replayed.rows[0].ordinals, [0, 1]);
    assert!(replayed.entries.iter().all(|e| replayed.stays(e).is_none()));
}

#[test]
fn a_key_that_several_rows_have_stays() {
    let entries = letters(Envelope::Upsert, &[change(10, 1, "a"), change(10, 2, "b")]);
    let mut replay = replay(Envelope::Upsert, 100, entries);
    let decoder = decoder_for(TYPES, Envelope::Upsert);
    let violation = crate::decode::tests::violation(99, 1);
    for row in [progress(99), violation, change(99, 2, "b")] {
        replay.accept(&decoder, &row).unwrap();
    }
    let replayed = replay.finish().unwrap();
    assert_eq!(written(&replayed), [(99, Op::Put, 2, Some("b".into()))]);
    assert_eq!(
        replayed.stays(&replayed.entries[0]),
        Some(Stays::KeyViolation)
    );
    assert_eq!(replayed.stays(&replayed.entries[1]), None);
}

#[test]
fn what_an_older_version_kept_can_be_replaced_but_not_deleted() {
    let mut entries = letters(Envelope::Upsert, &[change(10, 1, "a"), change(10, 2, "b")]);
    entries.iter_mut().for_each(|entry| entry.text = None);
    let mut replay = replay(Envelope::Upsert, 100, entries);
    let decoder = decoder_for(TYPES, Envelope::Upsert);
    for row in [progress(99), change(99, 1, "a")] {
        replay.accept(&decoder, &row).unwrap();
    }
    let replayed = replay.finish().unwrap();
    assert_eq!(written(&replayed), [(99, Op::Put, 1, Some("a".into()))]);
    assert_eq!(replayed.stays(&replayed.entries[1]), Some(Stays::NoValues));
}

#[test]
fn changes_of_the_diff_envelope_are_repeated_as_they_were() {
    use crate::decode::tests::difference;
    let kept = [difference(12, -1, 1, "a"), difference(10, 3, 2, "b")];
    let entries = letters(Envelope::Diff, &kept);
    let ids: Vec<_> = entries.iter().map(|entry| entry.id.clone()).collect();
    let replay = replay(Envelope::Diff, 13, entries);
    assert_eq!(replay.reads_at(), None);
    let replayed = replay.finish().unwrap();
    let first = (10, Op::Put, 2, Some("b".into()));
    assert_eq!(
        written(&replayed),
        [first, (12, Op::Delete, 1, Some("a".into()))]
    );
    let chunk = &replayed.rows[0];
    assert_eq!(chunk.count(0), 3);
    let again = |row| keys::idempotency_key("s", &view(TYPES), chunk, row, false);
    assert_eq!([again(1), again(0)], ids[..]);
}

#[test]
fn a_refusal_that_is_not_older_than_the_rows_is_not_overwritten() {
    let early = |envelope, frontier, row| {
        let entries = letters(envelope, &[row]);
        ViewReplay::new("s", 0, &view(TYPES), envelope, frontier, entries).err()
    };
    let told = |frontier| Some(ReplayError::TooEarly { frontier, time: 10 });
    for frontier in [9, 10, 11] {
        assert_eq!(
            early(Envelope::Upsert, frontier, change(10, 1, "a")),
            told(frontier)
        );
    }
    assert_eq!(early(Envelope::Upsert, 12, change(10, 1, "a")), None);
    assert_eq!(early(Envelope::Upsert, CLOSED, deletion(10, 1)), None);
    let difference = || crate::decode::tests::difference(10, 1, 1, "a");
    assert_eq!(early(Envelope::Diff, 10, difference()), told(10));
    assert_eq!(early(Envelope::Diff, 11, difference()), None);
}

#[test]
fn a_snapshot_of_another_time_or_without_a_beginning_is_refused() {
    let decoder = decoder_for(TYPES, Envelope::Upsert);
    let entries = || letters(Envelope::Upsert, &[change(10, 1, "a")]);
    for row in [progress(98), change(99, 1, "a")] {
        let mut replay = replay(Envelope::Upsert, 100, entries());
        assert!(replay.accept(&decoder, &row).is_err());
    }
    assert!(replay(Envelope::Upsert, 100, entries()).finish().is_err());
}

#[test]
fn a_replay_takes_an_epoch_and_leaves_the_frontier() {
    let found = Checkpoint {
        format: FORMAT,
        sink_id: "s".into(),
        epoch: 4,
        nonce: "n".into(),
        generation: 2,
        frontier: Some(100),
        component: "old".into(),
        views: Vec::new(),
    };
    let stored = found.encode().unwrap();
    let writes = Writes::new(&stored, &found, "new", 1).unwrap();
    let read = |text: &str| serde_json::from_str::<Checkpoint>(text).unwrap();
    let (claim, next) = (read(&writes.claim), read(&writes.next));
    assert_eq!(
        (claim.epoch, claim.frontier, claim.generation),
        (5, Some(100), 2)
    );
    assert_ne!(claim.nonce, next.nonce);
    assert_eq!(
        Checkpoint {
            nonce: claim.nonce.clone(),
            ..next
        },
        claim
    );
    let other = Writes::new(&stored, &found, "new", 2).unwrap();
    assert_ne!(other.claim, writes.claim);
    let before = Checkpoint {
        frontier: None,
        ..found
    };
    let error = Writes::new(&stored, &before, "new", 1).unwrap_err();
    assert_eq!(error, ReplayError::NothingCommitted);
}
