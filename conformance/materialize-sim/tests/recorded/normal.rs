//! What differs between any two runs of one server, and is therefore not compared.
//!
//! Every rule is here, applied to what a real server sent and to what the simulator sent alike:
//!
//! | what | becomes | because |
//! | --- | --- | --- |
//! | a time that no statement names, in a stream | `<time 1>`, `<time 2>`, .. by first appearance in the answer | times are the clock's; which rows share one is kept |
//! | such a time elsewhere | `<time>` | the same |
//! | a time that `mz_now()` gave and a later statement names | that of the recording | one clock is not the other; where it comes up again is kept |
//! | dates of such times | `<date>` | the same |
//! | progress rows, but for the first row of a stream and the last of an answer that is complete | nothing | how often the clock ticked |
//! | the count in the tag of a stream | `<rows>`, once it is seen to be their number | the same |
//! | rows of a SELECT without ORDER BY | sorted | SQL promises no order |
//! | UUIDs of sessions and shards | `uuid 1`, `uuid 2`, .. by first appearance in the scenario | random; which are the same is kept |
//! | ids of running subscriptions, `t94` | `t<n>` | counted over the life of a server |
//! | environment and region in the greeting | `..` | where a server runs |
//! | notices that a cluster replica is online | nothing | they come when it happens, not as an answer |
//!
//! Times that statements name (AS OF, UP TO), names, columns, types, values, catalog ids, codes,
//! texts, notices and the order of all of them are compared as they are.

use serde_json::{Value, json};

/// How one side of a scenario is put into normal form; one for each side.
#[derive(Default)]
pub struct Normal {
    /// Times that stand in statements.
    pub named: Vec<String>,
    /// Such times that this side answered in place of those of the recording.
    pub instead: Vec<(String, String)>,
    uuids: Vec<String>,
}

/// About the statement that was answered.
#[derive(Clone, Copy)]
pub struct Asked<'a> {
    pub sql: &'a str,
    /// Whether a stream begins with this answer.
    pub opens_stream: bool,
    /// Whether rows of one time may come in any order.
    pub any_order: bool,
}

/// Every time of the recordings and of their replay begins like this and has 13 digits.
const ERA: &str = "1796";

impl Normal {
    pub fn answer(&mut self, asked: Asked<'_>, messages: &[Value]) -> Vec<Value> {
        let progressed = messages.iter().find_map(progress_column);
        let mut answer: Vec<Value> = messages.iter().filter_map(plain).collect();
        for message in &mut answer {
            self.each_text(message, &mut |normal, text| {
                let instead = |word: &str| normal.instead.iter().find(|(own, _)| own == word);
                map_words(text, &mut |word| {
                    instead(word).map(|(_, real)| real.clone())
                })
            });
        }
        match progressed {
            Some(column) => self.stream(asked, column, &mut answer),
            None => self.others(asked, &mut answer),
        }
        for message in &mut answer {
            self.each_text(message, &mut |normal, text| normal.uuids_in(text));
        }
        answer
    }

    fn stream(&mut self, asked: Asked<'_>, progressed: usize, answer: &mut Vec<Value>) {
        count_rows(answer);
        let is_row = |m: &Value| m.get("DataRow").is_some();
        let is_progress = |m: &Value| {
            let values = m["DataRow"].as_array().into_iter().flatten();
            m["DataRow"][progressed] == "t" && values.skip(progressed + 1).all(Value::is_null)
        };
        let first = answer.iter().position(is_row);
        let completed = answer.iter().any(|m| m.get("CommandComplete").is_some());
        let last = answer.iter().rposition(is_row).filter(|_| completed);
        let mut at = 0;
        answer.retain(|message| {
            let here = Some(at);
            at += 1;
            !is_progress(message) || here == last || (here == first && asked.opens_stream)
        });
        if asked.any_order {
            // Rows go between the description and the end, and their times come first in them.
            answer.sort_by_cached_key(|m| {
                (
                    is_row(m).then(|| m.to_string()),
                    !m["RowDescription"].is_array(),
                )
            });
            let others = answer.iter().take_while(|m| !is_row(m)).count();
            let ends = answer.drain(1..others).collect::<Vec<_>>();
            answer.extend(ends);
        }
        let mut times: Vec<String> = Vec::new();
        for message in answer {
            self.each_text(message, &mut |normal, text| {
                normal.times_in(text, &mut |time| {
                    let known = times.iter().position(|t| t == time);
                    let number = known.unwrap_or_else(|| {
                        times.push(time.to_owned());
                        times.len() - 1
                    });
                    format!("<time {}>", number + 1)
                })
            });
        }
    }

    fn others(&mut self, asked: Asked<'_>, answer: &mut [Value]) {
        for message in answer.iter_mut() {
            self.each_text(message, &mut |normal, text| {
                let text = normal.times_in(text, &mut |_| "<time>".to_owned());
                subscription_id(greeting(text))
            });
        }
        if !asked.sql.contains("ORDER BY") {
            let rows = answer.iter().position(|m| m.get("DataRow").is_some());
            let count = answer.iter().filter(|m| m.get("DataRow").is_some()).count();
            if let Some(first) = rows {
                let masked = |m: &Value| map_words(&m.to_string(), &mut mask_uuid);
                answer[first..first + count].sort_by_cached_key(masked);
            }
        }
    }

    fn each_text(&mut self, value: &mut Value, change: &mut dyn FnMut(&mut Self, &str) -> String) {
        match value {
            Value::String(text) => *text = change(self, text),
            Value::Array(values) => values.iter_mut().for_each(|v| self.each_text(v, change)),
            Value::Object(fields) => fields.values_mut().for_each(|v| self.each_text(v, change)),
            _ => {}
        }
    }

    fn times_in(&self, text: &str, change: &mut dyn FnMut(&str) -> String) -> String {
        let mut dated = false;
        let text = map_words(text, &mut |word| {
            let is_time = word.len() == 13
                && word.starts_with(ERA)
                && word.bytes().all(|b| b.is_ascii_digit())
                && !self.named.iter().any(|named| named == word);
            dated |= is_time;
            is_time.then(|| change(word))
        });
        if dated {
            dates_in(&text)
        } else {
            only_a_date(text)
        }
    }

    fn uuids_in(&mut self, text: &str) -> String {
        map_words(text, &mut |word| {
            let (prefix, uuid) = uuid(word)?;
            let known = self.uuids.iter().position(|u| u == uuid);
            let number = known.unwrap_or_else(|| {
                self.uuids.push(uuid.to_owned());
                self.uuids.len() - 1
            });
            Some(format!("{prefix}uuid {}", number + 1))
        })
    }
}

/// Without what the recorder added, and without what is no answer.
fn plain(message: &Value) -> Option<Value> {
    let mut message = message.clone();
    let fields = message.as_object_mut()?;
    for added in ["t", "conn", "dir"] {
        fields.remove(added);
    }
    let notice = message["NoticeResponse"]["M"].as_str().unwrap_or_default();
    (!notice.starts_with("cluster replica ")).then_some(message)
}

/// Where `mz_progressed` is in the rows of a stream.
fn progress_column(message: &Value) -> Option<usize> {
    let columns = message["RowDescription"].as_array()?;
    columns.iter().position(|c| c["name"] == "mz_progressed")
}

/// Checks the count that a tag gives.
fn count_rows(answer: &mut [Value]) {
    let rows = answer.iter().filter(|m| m.get("DataRow").is_some()).count();
    for message in answer {
        let tag = message["CommandComplete"].as_str().unwrap_or_default();
        if let Some((verb, count)) = tag.rsplit_once(' ')
            && count == rows.to_string()
        {
            message["CommandComplete"] = json!(format!("{verb} <rows>"));
        }
    }
}

/// Letters, digits and hyphens are words; what the function gives for one takes its place.
fn map_words(text: &str, change: &mut dyn FnMut(&str) -> Option<String>) -> String {
    let mut mapped = String::new();
    let in_word = |c: char| c.is_ascii_alphanumeric() || c == '-';
    let mut rest = text;
    while !rest.is_empty() {
        let end = rest.find(|c| !in_word(c)).unwrap_or(rest.len());
        let (word, after) = rest.split_at(end);
        mapped.push_str(&change(word).unwrap_or_else(|| word.to_owned()));
        let next = after.find(in_word).unwrap_or(after.len());
        mapped.push_str(&after[..next]);
        rest = &after[next..];
    }
    mapped
}

/// A UUID and the `s` of a shard before it.
fn uuid(word: &str) -> Option<(&str, &str)> {
    let (prefix, uuid) = word.split_at_checked(word.len().checked_sub(36)?)?;
    let groups: Vec<&str> = uuid.split('-').collect();
    let lengths: Vec<usize> = groups.iter().map(|group| group.len()).collect();
    let hex = groups.concat().bytes().all(|b| b.is_ascii_hexdigit());
    (hex && lengths == [8, 4, 4, 4, 12] && matches!(prefix, "" | "s")).then_some((prefix, uuid))
}

fn mask_uuid(word: &str) -> Option<String> {
    uuid(word).map(|(prefix, _)| format!("{prefix}uuid"))
}

/// A whole value that is the date of a moment of the run.
fn only_a_date(text: String) -> String {
    let date = text.starts_with("2026-12-01 ") && text.ends_with("+00");
    if date { "<date>".to_owned() } else { text }
}

/// `<time> (2026-12-01 00:16:12.000)`: the date of a time that was replaced.
fn dates_in(text: &str) -> String {
    let mut pieces = text.split("> (");
    let mut dated = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        let after = piece.split_once(')').map_or("", |(_, after)| after);
        dated.push_str("> (<date>)");
        dated.push_str(after);
    }
    dated
}

fn greeting(text: String) -> String {
    let lines = text.split('\n').map(|line| match line.split_once(": ") {
        Some((name @ ("  Environment ID" | "  Region"), _)) => format!("{name}: .."),
        _ => line.to_owned(),
    });
    lines.collect::<Vec<_>>().join("\n")
}

fn subscription_id(text: String) -> String {
    let number = text.strip_prefix('t').unwrap_or_default();
    let is_id = !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit());
    if is_id { "t<n>".to_owned() } else { text }
}
