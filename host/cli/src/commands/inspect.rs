//! `mz-wasm-sink inspect`.

use std::path::PathBuf;

use clap::Args;
use mz_sink_plugin::Inspection;
use serde_json::json;

use crate::commands::{load, settings};
use crate::config::Config;
use crate::exit::Failure;
use crate::output::{self, one_line};

/// Arguments of `inspect`.
#[derive(Args)]
pub struct Arguments {
    /// The sink component, a .wasm file.
    component: PathBuf,
    /// Also say what this configuration grants.
    #[arg(long, short)]
    config: Option<PathBuf>,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

/// Shows a component.
///
/// # Errors
/// When it cannot be loaded, or the configuration cannot be read.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let config = match &arguments.config {
        Some(path) => Some(load::config(&arguments.component, Some(path))?),
        None => None,
    };
    let component = load::component_only(&arguments.component, config.as_ref())?;
    let runtime = tokio::runtime::Runtime::new().map_err(|e| Failure::failed("runtime", e))?;
    let inspection = runtime
        .block_on(component.inspect())
        .map_err(|e| Failure::usage("component", e))?;
    if arguments.json {
        let json = as_json(&inspection, config.as_ref());
        output::print(&output::json(&format!("{json}\n")))
    } else {
        output::print(&as_text(&inspection, config.as_ref()))
    }
}

/// One import as a permission.
struct Permission<'a> {
    import: &'a str,
    allows: &'static str,
    /// What the configuration grants; `None` when it needs no grant.
    granted: Option<Vec<String>>,
}

fn permissions<'a>(inspection: &'a Inspection, config: Option<&Config>) -> Vec<Permission<'a>> {
    inspection
        .imports
        .iter()
        // Names of types only: nothing that could be granted.
        .filter(|import| !import.starts_with("materialize:sink/types@"))
        .map(|import| {
            let name = import.split(['/', '@']).nth(1).unwrap_or(import);
            let (allows, granted) = match name {
                "http" => (
                    "send HTTP requests to granted places",
                    config.map(|c| c.grants.http.clone()),
                ),
                "changes" => ("pull the rows of a batch", None),
                "log" => ("write log lines, limited", None),
                "clock" => ("read the time", None),
                "random" => ("get random bytes", None),
                _ => ("unknown", None),
            };
            Permission {
                import,
                allows,
                granted,
            }
        })
        .collect()
}

fn as_text(inspection: &Inspection, config: Option<&Config>) -> String {
    let mut text = format!(
        "{} {}\n  digest     {}\n  size       {} bytes\n  contract   materialize:sink@{}\n  \
         guarantee  {}\n  envelope   {}{}\n\npermissions\n",
        one_line(&inspection.name),
        one_line(&inspection.version),
        inspection.digest,
        inspection.size,
        inspection.wit_version,
        word(json!(inspection.guarantee)),
        word(json!(inspection.envelope)),
        if inspection.netted { ", netted" } else { "" },
    );
    for permission in permissions(inspection, config) {
        text += &format!("  {:<34} {}\n", permission.import, permission.allows);
        match permission.granted {
            Some(granted) if granted.is_empty() => {
                text +=
                    "      missing: nothing is granted; add [grants] http = [\"https://...\"]\n";
            }
            Some(granted) => text += &format!("      granted: {}\n", granted.join(", ")),
            None => {}
        }
    }
    if !inspection.exports.is_empty() {
        text += &format!("\nexports\n  {}\n", inspection.exports.join("\n  "));
    }
    let schema: serde_json::Value =
        serde_json::from_str(&inspection.config_schema).unwrap_or_default();
    text += "\nsettings in [sink]\n";
    text + &settings::list(&schema)
}

/// The contract's own word for a case of an enum.
fn word(value: serde_json::Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn as_json(inspection: &Inspection, config: Option<&Config>) -> serde_json::Value {
    let permissions: Vec<_> = permissions(inspection, config)
        .into_iter()
        .map(|p| json!({ "import": p.import, "allows": p.allows, "granted": p.granted }))
        .collect();
    json!({
        "name": inspection.name,
        "version": inspection.version,
        "digest": inspection.digest,
        "size": inspection.size,
        "contract": format!("materialize:sink@{}", inspection.wit_version),
        "guarantee": inspection.guarantee,
        "envelope": inspection.envelope,
        "netted": inspection.netted,
        "permissions": permissions,
        "exports": inspection.exports,
        "config_schema": serde_json::from_str::<serde_json::Value>(&inspection.config_schema).ok(),
    })
}
