//! Reads the statements that the core sends, by their structure.

/// A SUBSCRIBE in a DECLARE.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Subscribe {
    /// Of `u<id>`.
    pub(crate) id: u64,
    /// `ENVELOPE UPSERT (KEY (...))`.
    pub(crate) key: Option<Vec<String>>,
    pub(crate) as_of: Option<u64>,
    pub(crate) snapshot: bool,
}

impl Subscribe {
    pub(crate) fn parse(sql: &str) -> Option<Self> {
        let (_, after) = sql.split_once("SUBSCRIBE ")?;
        let key = after.split_once("ENVELOPE UPSERT (KEY (").map(|(_, keys)| {
            let keys = keys.split_once("))").map_or(keys, |(keys, _)| keys);
            keys.split(", ")
                .map(|name| name.trim_matches('"').to_string())
                .collect()
        });
        let as_of = match after.split_once("AS OF ") {
            Some((_, time)) => Some(leading_number(time)?),
            None => None,
        };
        Some(Self {
            id: object_ids(after).first().copied()?,
            key,
            as_of,
            snapshot: !after.contains("SNAPSHOT = false"),
        })
    }
}

fn leading_number(text: &str) -> Option<u64> {
    let text = text.trim_start_matches('\'');
    let end = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    text[..end].parse().ok()
}

/// The object that a SELECT reads, by the last part of its quoted name.
pub(crate) fn read_object(sql: &str) -> Option<&str> {
    let (_, from) = sql.split_once(" FROM ")?;
    let name = from.split_once(' ').map_or(from, |(name, _)| name);
    name.rsplit('.').next().map(|part| part.trim_matches('"'))
}

/// The numbers of all `[u<id> AS` in `sql`.
fn object_ids(sql: &str) -> Vec<u64> {
    sql.match_indices("[u")
        .filter_map(|(at, _)| leading_number(&sql[at + 2..]))
        .collect()
}

/// The numbers of all catalog ids that are literals, `'u<id>'`.
pub(crate) fn literal_ids(sql: &str) -> Vec<u64> {
    sql.match_indices("'u")
        .filter_map(|(at, _)| leading_number(&sql[at + 2..]))
        .collect()
}

/// The first literal after `lead`.
pub(crate) fn literal_after<'a>(sql: &'a str, lead: &str) -> Option<&'a str> {
    let (_, rest) = sql.split_once(lead)?;
    let (_, rest) = rest.split_once('\'')?;
    Some(rest.split_once('\'')?.0)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use mz_sink_core::release::Start;
    use mz_sink_core::statements;
    use mz_sink_core::types::Envelope;

    use super::*;

    fn parsed(envelope: Envelope, start: Start) -> Option<Subscribe> {
        let name = ["db", "s", "v1"].map(String::from);
        let key = ["tag", "id"].map(String::from);
        let [_, declare] = statements::subscribe("u12", &name, envelope, &key, start, None);
        Subscribe::parse(&declare)
    }

    #[test]
    fn what_holds_objects_readable_is_understood() {
        let name = ["db", "s", "v1"].map(String::from);
        let statements = statements::hold_readable([&name]);
        assert_eq!(read_object(&statements[1]), Some("v1"));
        assert_eq!(read_object(&statements::held_timestamp()), None);
    }

    #[test]
    fn the_statements_of_the_core_are_understood() {
        let snapshot = Subscribe {
            id: 12,
            key: Some(vec!["tag".into(), "id".into()]),
            as_of: None,
            snapshot: true,
        };
        assert_eq!(
            parsed(Envelope::Upsert, Start::Snapshot),
            Some(snapshot.clone())
        );
        let resumed = Subscribe {
            key: None,
            as_of: Some(99),
            snapshot: false,
            ..snapshot
        };
        assert_eq!(parsed(Envelope::Diff, Start::Resume(100)), Some(resumed));
        assert_eq!(
            Subscribe::parse(&statements::fetch(Duration::from_secs(5))),
            None
        );
    }
}
