//! A component in the sandbox as the driver's sink.

use mz_sink_core::batch::{BatchRows, SinkError};
use mz_sink_core::types::{Frontier, View};
use mz_sink_plugin::PluginSink;

/// A component in the sandbox.
pub struct Sandboxed(pub PluginSink);

impl mz_sink_driver::Sink for Sandboxed {
    async fn open(&mut self, views: &[View]) -> Result<Option<String>, SinkError> {
        self.0.open(views).await
    }

    async fn checkpoint(&mut self) -> Result<Option<String>, SinkError> {
        self.0.checkpoint().await
    }

    async fn write(
        &mut self,
        rows: Box<dyn BatchRows>,
        expected: Option<String>,
        next: String,
    ) -> Result<(), SinkError> {
        self.0.write(rows, expected, next).await
    }

    async fn maintain(&mut self, committed: Frontier) -> Result<(), SinkError> {
        self.0.maintain(committed).await
    }

    async fn close(&mut self) {
        self.0.close().await;
    }
}
