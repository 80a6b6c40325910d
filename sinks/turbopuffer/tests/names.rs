//! What a column is called in the documents, and names that are taken.

mod support;

use mz_sink_guest::{Column, ColumnType, Error, Values};
use serde_json::{Value, json};
use support::*;

#[test]
fn a_renamed_column_is_written_under_its_new_name() {
    let view = view(
        "v",
        1,
        &[("k", ColumnType::Uint64), ("deleted", ColumnType::Boolean)],
    );
    let columns = vec![
        full(Values::Uints(vec![1])),
        full(Values::Booleans(vec![1])),
    ];
    let (body, _) = written(
        json!({"rename": {"deleted": "was_deleted"}}),
        view,
        columns,
        1,
    );
    assert_eq!(body["upsert_columns"]["deleted"], json!([false]));
    assert_eq!(body["upsert_columns"]["was_deleted"], json!([true]));
}

#[test]
fn a_column_called_id_is_written_as_source_id_unless_the_document_id_says_it_all() {
    let number = ("id", ColumnType::Int64);
    let text = ("v", ColumnType::Text);
    // View, the document's id, and the attribute of the column called `id`.
    let cases = [
        // It is a part of the key, the first or the last.
        (view("v", 2, &[number.clone(), text.clone()]), "1:71:a"),
        (view("v", 2, &[text.clone(), number.clone()]), "1:a1:7"),
        // It is not in the key.
        (view("v", 1, &[text.clone(), number.clone()]), "a"),
        // It is the key, as text.
        (view("v", 1, std::slice::from_ref(&number)), "7"),
    ];
    let data = |column: &Column| match column.name.as_str() {
        "id" => full(Values::Ints(vec![7])),
        _ => full(Values::texts(["a"])),
    };
    for (view, id) in cases {
        let columns: Vec<_> = view.columns.iter().map(data).collect();
        let (body, _) = written(json!({}), view.clone(), columns.clone(), 1);
        assert_eq!(body["upsert_columns"]["id"], json!([id]));
        assert_eq!(body["upsert_columns"]["source_id"], json!([7]));
        assert_eq!(body["schema"]["id"], "string");
        assert_eq!(body["schema"]["source_id"]["type"], "int");

        let (body, _) = written(json!({"rename": {"id": "number"}}), view, columns, 1);
        assert_eq!(body["upsert_columns"]["id"], json!([id]));
        assert_eq!(body["upsert_columns"]["number"], json!([7]));
        assert_eq!(body["upsert_columns"].get("source_id"), None);
    }
    // The column's own name and the document's id have different types.
    let view = view("v", 1, &[("k", ColumnType::Uint64), text, number]);
    let columns = vec![
        full(Values::Uints(vec![1])),
        full(Values::texts(["a"])),
        full(Values::Ints(vec![-7])),
    ];
    let (body, _) = written(json!({}), view, columns, 1);
    assert_eq!(body["upsert_columns"]["id"], json!([1]));
    assert_eq!(body["upsert_columns"]["source_id"], json!([-7]));
}

#[test]
fn settings_for_a_column_called_id_go_by_its_own_name() {
    let view = view("v", 1, &[("k", ColumnType::Text), ("id", ColumnType::Text)]);
    let columns = vec![full(Values::texts(["a"])), full(Values::texts(["b"]))];
    let extra = json!({"filterable": ["id"], "types": {"v.id": "string"}});
    let (body, _) = written(extra, view, columns, 1);
    assert_eq!(
        body["schema"]["source_id"],
        json!({"type": "string", "filterable": true})
    );
}

/// Each name that a document cannot have twice, or not for a column, and the way out: what the
/// message says to add, with a name that is free, is accepted.
#[test]
fn a_name_that_is_taken_is_refused_with_the_rename_that_helps() {
    let long = "x".repeat(129);
    let none = json!({});
    let cases: [(&[&str], Value, &str, &str); 15] = [
        (&["k", "mz_timestamp"], none.clone(), "add", "mz_timestamp"),
        (&["k", "generation"], none.clone(), "add", "generation"),
        (&["k", "deleted"], none.clone(), "add", "deleted"),
        (&["k", "written_at"], none.clone(), "add", "written_at"),
        (&["written_at"], none.clone(), "add", "written_at"),
        (&["k", "vector"], none.clone(), "add", "vector"),
        (&["k", "$dist"], none.clone(), "add", "$dist"),
        (&["k", ""], none.clone(), "add", ""),
        (&["k", &long], none.clone(), "add", &long),
        // In either order it is `id` that does not keep its name.
        (&["k", "id", "source_id"], none.clone(), "add", "id"),
        (&["k", "source_id", "id"], none.clone(), "add", "id"),
        // A rename that makes it worse.
        (&["k", "a"], json!({"a": "id"}), "change", "a"),
        (&["k", "a", "b"], json!({"a": "b"}), "change", "a"),
        (&["k", "b", "a"], json!({"v.a": "b"}), "change", "v.a"),
        (&["k", "id", "a"], json!({"a": "source_id"}), "change", "a"),
    ];
    for (columns, renames, verb, key) in cases {
        let columns: Vec<_> = columns.iter().map(|c| (*c, ColumnType::Text)).collect();
        let view = view("v", 1, &columns);
        let extra = json!({"rename": renames});
        let error = open(&FakeHost::default(), extra, vec![view.clone()]).map(drop);
        let Err(Error::Permanent(failure)) = error else {
            panic!("accepted: {columns:?}");
        };
        assert_eq!(failure.code, "invalid-config");
        let advice = format!("{verb} `rename = {{ {} = \"another_name\" }}`", json!(key));
        assert!(failure.message.ends_with(&advice), "{}", failure.message);

        let mut renames = renames;
        renames[key] = json!("another_name");
        let host = FakeHost::default();
        host.answers(no_namespace());
        open(&host, json!({"rename": renames}), vec![view]).expect("the advice");
    }
}
