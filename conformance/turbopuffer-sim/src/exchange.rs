//! One request from its first byte to its answer: body, faults, authorization, log.

use std::future::pending;
use std::io::Read;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::{Body, Incoming};
use hyper::header::{AUTHORIZATION, CONTENT_ENCODING, CONTENT_TYPE, HeaderValue, RETRY_AFTER};
use hyper::{Request, Response, StatusCode};
use serde_json::json;

use crate::api::{self, Call};
use crate::error::{Refusal, Result};
use crate::fault::Fault;
use crate::requests::RequestSummary;
use crate::server::{Answer, Cut, Shared};

/// What becomes of a request.
pub(crate) enum Ending {
    Answer(Answer),
    Cut(Cut),
}

/// Answers a request, or does what a fault rule says.
pub(crate) async fn answer(shared: &Shared, request: Request<Incoming>) -> Ending {
    let (head, body) = request.into_parts();
    let path = head.uri.path();
    let method = head.method.as_str();
    let control = path.starts_with("/_sim/");
    let fault = if control {
        None
    } else {
        shared.faults().take(method, path)
    };
    let route = api::route(method, path);
    let header = |name: &str| head.headers.get(name).and_then(|value| value.to_str().ok());
    let mut summary = RequestSummary {
        number: 0,
        method: method.to_owned(),
        path: path.to_owned(),
        route: route.pattern,
        status: None,
        body_bytes: 0,
        retry_count: header("x-stainless-retry-count").and_then(|text| text.parse().ok()),
        faulted: fault.is_some(),
    };
    let fault = fault.unwrap_or_default();
    if fault.delay_ms > 0 {
        tokio::time::sleep(Duration::from_millis(fault.delay_ms)).await;
    }
    if fault.hang {
        shared.requests().add(summary);
        return pending().await;
    }
    if fault.reset {
        shared.requests().add(summary);
        return Ending::Cut(Cut::Reset);
    }

    // The body is read even when the answer does not need it: closing a connection with
    // unread bytes resets it, and the client may lose the answer.
    let gzip = header(CONTENT_ENCODING.as_str()) == Some("gzip");
    let body = read_body(
        body,
        gzip,
        shared.limits.request_bytes,
        &mut summary.body_bytes,
    )
    .await;
    let run = || {
        let expected = shared.api_key.as_deref().filter(|_| !control);
        if expected.is_some_and(|key| bearer(header(AUTHORIZATION.as_str())) != Some(key)) {
            return Err(Refusal::new(401, "invalid API key"));
        }
        api::run(
            shared,
            Call {
                route,
                query: head.uri.query().unwrap_or_default(),
                body: &body?,
                by_filter_rows: fault.by_filter_rows,
            },
        )
    };
    let ending = faulty(&fault, run);
    if let Ending::Answer(answer) = &ending {
        summary.status = Some(answer.status().as_u16());
    }
    if !control {
        shared.requests().add(summary);
    }
    ending
}

/// Runs the request unless the fault replaces it.
fn faulty(fault: &Fault, run: impl FnOnce() -> Result<Vec<u8>>) -> Ending {
    let replaced = fault.status.is_some() || fault.garbage;
    if replaced && !fault.after_apply {
        return Ending::Answer(replacement(fault));
    }
    let result = run();
    if replaced {
        return Ending::Answer(replacement(fault));
    }
    if fault.drop_after_apply {
        return Ending::Cut(Cut::Close);
    }
    Ending::Answer(match result {
        Ok(json) => respond(200, json.into()),
        Err(refusal) => refuse(&refusal),
    })
}

fn replacement(fault: &Fault) -> Answer {
    match fault.status {
        Some(status) => {
            let mut answer = refuse(&Refusal::new(status, "fault injected by the emulator"));
            if let Some(seconds) = fault.retry_after_s {
                answer.headers_mut().insert(RETRY_AFTER, seconds.into());
            }
            answer
        }
        None => respond(200, Bytes::from_static(b"<html>not what you asked for")),
    }
}

fn refuse(refusal: &Refusal) -> Answer {
    let body = json!({ "status": "error", "error": refusal.text });
    respond(refusal.status, body.to_string().into())
}

fn respond(status: u16, body: Bytes) -> Answer {
    let mut answer = Response::new(Full::new(body));
    // A fault rule may ask for a status that HTTP does not have.
    *answer.status_mut() =
        StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    answer
        .headers_mut()
        .insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    answer
}

fn bearer(header: Option<&str>) -> Option<&str> {
    header?.strip_prefix("Bearer ")
}

async fn read_body(
    mut body: Incoming,
    gzip: bool,
    limit: usize,
    received: &mut usize,
) -> Result<Vec<u8>> {
    let too_large = || {
        Refusal::new(
            413,
            format_args!("request body is larger than {limit} bytes"),
        )
    };
    let announced = body.size_hint().exact().unwrap_or(0);
    let mut bytes = Vec::with_capacity(usize::try_from(announced).unwrap_or(limit).min(limit));
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|_| Refusal::bad("the request body ended early"))?;
        if let Some(data) = frame.data_ref() {
            *received += data.len();
            // The rest is still read, so that the client gets the answer.
            if *received <= limit {
                bytes.extend_from_slice(data);
            }
        }
    }
    if *received > limit {
        return Err(too_large());
    }
    if !gzip {
        return Ok(bytes);
    }
    let mut plain = Vec::new();
    flate2::read::MultiGzDecoder::new(bytes.as_slice())
        .take(limit as u64 + 1)
        .read_to_end(&mut plain)
        .map_err(|_| Refusal::bad("the request body is not valid gzip"))?;
    if plain.len() > limit {
        return Err(too_large());
    }
    Ok(plain)
}
