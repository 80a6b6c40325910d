//! An embeddings service with OpenAI's API: texts in, vectors out.

use std::collections::VecDeque;

use mz_sink_guest::{Error, Exchange, Failure, Http, HttpError, Request, Response};
use serde::Deserialize;
use serde_json::json;

use crate::transform::Transform;
use crate::vector;

/// What became of a text.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Embedded {
    /// As it goes into a request.
    Vector(String),
    /// The service refuses this text, and would do so again.
    Refused {
        /// The HTTP status.
        status: u16,
    },
}

/// The service behind one transform.
pub(crate) struct Embeddings<'a, H> {
    pub(crate) host: &'a H,
    pub(crate) transform: &'a Transform,
    pub(crate) timeout_ms: u32,
    /// Most requests at once.
    pub(crate) in_flight: usize,
}

#[derive(Deserialize)]
struct Answer {
    data: Vec<Item>,
}

#[derive(Deserialize)]
struct Item {
    index: usize,
    embedding: Vec<f32>,
}

impl<H: Http> Embeddings<'_, H> {
    /// A vector for each text, in their order.
    pub(crate) fn embed(&self, texts: &[String]) -> Result<Vec<Embedded>, Error> {
        let mut embedded = Vec::with_capacity(texts.len());
        let mut waiting: VecDeque<(&[String], H::Exchange)> = VecDeque::new();
        let mut parts = texts.chunks(self.transform.batch_texts.max(1));
        loop {
            while waiting.len() < self.in_flight.max(1)
                && let Some(part) = parts.next()
            {
                let exchange = self.host.start(self.request(part));
                waiting.push_back((part, exchange.map_err(|error| self.unanswered(&error))?));
            }
            let Some((part, exchange)) = waiting.pop_front() else {
                return Ok(embedded);
            };
            self.settle(part, exchange.wait(), &mut embedded)?;
        }
    }

    /// One text that the service refuses must not cost the others their vectors.
    fn settle(
        &self,
        texts: &[String],
        response: Result<Response, HttpError>,
        embedded: &mut Vec<Embedded>,
    ) -> Result<(), Error> {
        let response = response.map_err(|error| self.unanswered(&error))?;
        match response.status {
            200 => embedded.extend(self.vectors(texts.len(), &response.body)?),
            status @ (400 | 413 | 422) if texts.len() == 1 => {
                embedded.push(Embedded::Refused { status });
            }
            400 | 413 | 422 => {
                let (first, second) = texts.split_at(texts.len() / 2);
                for half in [first, second] {
                    let response = self.host.send(self.request(half));
                    self.settle(half, response, embedded)?;
                }
            }
            status => return Err(self.failed(status, &response)),
        }
        Ok(())
    }

    fn vectors(&self, texts: usize, body: &[u8]) -> Result<Vec<Embedded>, Error> {
        let malformed = |what: &str| {
            Error::retryable(
                "unexpected-embeddings",
                format!("{} answered {what}", self.transform.endpoint),
            )
        };
        let answer: Answer = serde_json::from_slice(body)
            .map_err(|_| malformed("something else than embeddings: check `endpoint`"))?;
        let mut vectors = vec![None; texts];
        for item in answer.data {
            let dimensions = self.transform.vector.dimensions;
            if item.embedding.len() != dimensions as usize {
                return Err(Error::permanent(
                    "embedding-dimensions",
                    format!(
                        "model `{}` gives vectors of {} numbers: set `dimensions` of `{}` to that",
                        self.transform.model,
                        item.embedding.len(),
                        self.transform.attribute
                    ),
                ));
            }
            match vectors.get_mut(item.index) {
                Some(place) if item.embedding.iter().all(|n| n.is_finite()) => {
                    *place = Some(Embedded::Vector(vector::encoded(&item.embedding)));
                }
                _ => return Err(malformed("with an embedding that was not asked for")),
            }
        }
        let all: Option<Vec<_>> = vectors.into_iter().collect();
        all.ok_or_else(|| malformed("with fewer embeddings than texts"))
    }

    fn request(&self, texts: &[String]) -> Request {
        let mut headers = vec![("content-type".to_owned(), "application/json".to_owned())];
        if let Some(authorization) = &self.transform.authorization {
            headers.push(("authorization".into(), authorization.clone()));
        }
        let body = json!({
            "model": self.transform.model, "input": texts, "encoding_format": "float",
        });
        Request {
            method: "POST".into(),
            url: self.transform.endpoint.clone(),
            headers,
            body: body.to_string().into_bytes(),
            timeout_ms: Some(self.timeout_ms),
        }
    }

    /// Asking for embeddings changes nothing, so it may be asked again whenever that can help.
    fn unanswered(&self, error: &HttpError) -> Error {
        let endpoint = &self.transform.endpoint;
        match error {
            // The host's text names the line to add to the configuration.
            HttpError::Denied(text) => Error::permanent("http-denied", text),
            HttpError::Invalid(text) => Error::permanent(
                "invalid-request",
                format!("request to {endpoint} is not valid HTTP: {text}"),
            ),
            HttpError::NotSent(text) | HttpError::MaybeSent(text) | HttpError::Limit(text) => {
                Error::retryable(
                    "no-embeddings",
                    format!("{endpoint} gave no embeddings: {text}"),
                )
            }
        }
    }

    /// The service's own words are left out: they may quote a row.
    fn failed(&self, status: u16, response: &Response) -> Error {
        let endpoint = &self.transform.endpoint;
        let message = |hint: &str| format!("{endpoint} answered {status}{hint}");
        match status {
            401 | 403 => Error::permanent(
                "embeddings-unauthorized",
                message(": check the secret that `api_key_secret` names"),
            ),
            408 | 409 | 425 | 429 | 500.. => Error::Retryable(
                Failure::new("embeddings-unavailable", message(""))
                    .retry_after_ms(response.retry_after_ms()),
            ),
            _ => Error::permanent(
                "embeddings-refused",
                message(": check `endpoint` and `model`"),
            ),
        }
    }
}
