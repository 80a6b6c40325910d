//! HTTP answers: what is read out of them, and what is never shown.

use mz_sink_guest::{Request, Response};

fn answer(headers: &[(&str, &str)]) -> Response {
    let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
    Response {
        status: 429,
        headers: headers.iter().map(owned).collect(),
        body: b"secret row".to_vec(),
    }
}

#[test]
fn retry_after_is_understood_in_seconds_and_in_milliseconds() {
    for (headers, expected) in [
        (&[("Retry-After", "2")][..], Some(2000)),
        (
            &[("retry-after-ms", "250"), ("retry-after", "2")],
            Some(250),
        ),
        (&[("retry-after", " 3 ")], Some(3000)),
        (&[("retry-after", "Wed, 21 Oct 2026 07:28:00 GMT")], None),
        (&[("retry-after", "4294967295")], None),
        (&[("retry-after", "-1")], None),
        (&[], None),
    ] {
        assert_eq!(answer(headers).retry_after_ms(), expected, "{headers:?}");
    }
}

#[test]
fn debug_output_holds_no_body_and_no_header() {
    let shown = format!("{:?}", answer(&[("set-cookie", "secret")]));
    assert_eq!(shown, "status 429 (10 bytes)");
    let request = Request {
        method: "POST".into(),
        url: "https://example.com/".into(),
        headers: vec![("authorization".into(), "secret".into())],
        body: b"secret".to_vec(),
        timeout_ms: None,
    };
    assert_eq!(
        format!("{request:?}"),
        "POST https://example.com/ (6 bytes)"
    );
}
