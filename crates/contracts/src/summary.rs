//! The summary of the contract: its documents, the interfaces that serve it, and the generator of BenchmarkRuns.

use assay_spec::parse_documents;
use serde_json::{Map, Value, json};

use crate::render::{FIELDS, by_name, render_run, template_path};
use crate::surface::{SURFACES, Surface, SurfaceKind};
use crate::{SCHEMA_VERSION, Values};

/// An interface that serves the summary and the generator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interface {
    /// The command line.
    Cli,
    /// HTTP.
    DashboardApi,
    /// The Model Context Protocol.
    Mcp,
}

/// The places at which an interface serves something.
struct Entry {
    interface: Interface,
    id: &'static str,
    /// The member that names the entry point.
    member: &'static str,
    label: &'static str,
    transport: &'static str,
    /// The entry point, the HTTP method and the description, of the summary and of the generator.
    summary: (&'static str, Option<&'static str>, &'static str),
    generator: (&'static str, Option<&'static str>, &'static str),
}

const ENTRIES: [Entry; 3] = [
    Entry {
        interface: Interface::Cli,
        id: "cli",
        member: "cli",
        label: "CLI",
        transport: "cli",
        summary: ("assay contracts", None, "Print the contract summary as JSON."),
        generator: ("assay contracts render", None, "Print a BenchmarkRun with the given overrides."),
    },
    Entry {
        interface: Interface::DashboardApi,
        id: "dashboard_api",
        member: "dashboard_api",
        label: "Dashboard API",
        transport: "http",
        summary: ("/api/benchmark/contracts", Some("GET"), "Return the contract summary as JSON."),
        generator: ("/api/benchmark/contracts/render-run", Some("POST"), "Return a BenchmarkRun with the given overrides."),
    },
    Entry {
        interface: Interface::Mcp,
        id: "mcp",
        member: "mcp_tool",
        label: "MCP",
        transport: "mcp",
        summary: ("benchmark_contracts", None, "Return the contract summary as JSON."),
        generator: ("render_benchmark_run", None, "Return a BenchmarkRun with the given overrides."),
    },
];

/// Returns the summary of the contract. `generated_at` is a time in UTC by RFC 3339, with `Z`. `interfaces` are those that the caller's
/// program serves: the summary names no other.
pub fn summarize_contracts(generated_at: &str, interfaces: &[Interface]) -> Value {
    let order: Vec<&str> = SURFACES.iter().map(|surface| surface.name).collect();
    let contracts: Map<String, Value> = SURFACES.iter().map(|surface| (surface.name.to_owned(), describe(surface))).collect();
    json!({
        "schema_version": SCHEMA_VERSION,
        "generated_at_utc": generated_at,
        "available": true,
        "surface_order": order,
        "surface_count": order.len(),
        "missing_surface_count": 0,
        "missing_surfaces": [],
        "contracts": contracts,
        "interfaces": entry_points(interfaces, |entry| entry.summary.0),
        "interface_entries": entries(interfaces, |entry| entry.summary),
        "generator": describe_generator(interfaces),
    })
}

fn describe(surface: &Surface) -> Value {
    let kind = match surface.kind {
        SurfaceKind::Doc => "doc",
        SurfaceKind::Yaml => "yaml",
    };
    let mut entry = json!({
        "name": surface.name, "path": surface.path, "exists": true, "kind": kind, "description": surface.description,
    });
    if let (Some(text), Some(members)) = (surface.text, entry.as_object_mut()) {
        members.insert("summary".to_owned(), summarize_yaml(surface.path, text));
    }
    entry
}

/// Returns the names of the members of a YAML file, and the parts of a BenchmarkRun that it has.
fn summarize_yaml(path: &str, text: &str) -> Value {
    let document = parse_documents(path, text.as_bytes()).unwrap_or_default().into_iter().next().unwrap_or_default();
    let mut summary = Map::from_iter([("top_level_keys".to_owned(), names(&document))]);
    let Some(spec) = document.get("spec").filter(|spec| spec.is_object()) else { return Value::Object(summary) };
    summary.insert("spec_keys".to_owned(), names(spec));
    if let Some(layers) = spec.get("layers").and_then(Value::as_array) {
        let is_enabled = |layer: &&Value| layer.get("enabled") == Some(&Value::Bool(true));
        let enabled: Vec<&Value> = layers.iter().filter(is_enabled).filter_map(|layer| layer.get("name")).collect();
        summary.insert("enabled_layers".to_owned(), json!(enabled));
    }
    for (part, member) in [("observability", "has_observability"), ("sinks", "has_sinks")] {
        if spec.get(part).is_some() {
            summary.insert(member.to_owned(), Value::Bool(true));
        }
    }
    Value::Object(summary)
}

fn names(value: &Value) -> Value {
    let mut names: Vec<&String> = value.as_object().into_iter().flat_map(Map::keys).collect();
    names.sort();
    json!(names)
}

fn is_served(interfaces: &[Interface]) -> impl Fn(&&Entry) -> bool {
    move |entry| interfaces.contains(&entry.interface)
}

fn entry_points(interfaces: &[Interface], of: fn(&Entry) -> &'static str) -> Value {
    let served = ENTRIES.iter().filter(is_served(interfaces));
    served.map(|entry| (entry.member.to_owned(), Value::from(of(entry)))).collect()
}

type Place = (&'static str, Option<&'static str>, &'static str);

fn entries(interfaces: &[Interface], of: fn(&Entry) -> Place) -> Vec<Value> {
    let describe = |entry: &Entry| {
        let (entrypoint, method, description) = of(entry);
        let mut described = json!({
            "id": entry.id, "label": entry.label, "transport": entry.transport, "entrypoint": entrypoint, "description": description,
        });
        if let (Some(method), Some(members)) = (method, described.as_object_mut()) {
            members.insert("method".to_owned(), Value::from(method));
        }
        described
    };
    ENTRIES.iter().filter(is_served(interfaces)).map(describe).collect()
}

fn describe_generator(interfaces: &[Interface]) -> Value {
    let defaults: Values = FIELDS.map(|field| field.default.to_owned());
    let choices: Map<String, Value> = FIELDS
        .iter()
        .filter(|field| !field.choices.is_empty())
        .map(|field| (field.name.to_owned(), json!(field.choices)))
        .collect();
    json!({
        "template_path": template_path(),
        "defaults": by_name(&defaults),
        "choices": choices,
        "preview_yaml": render_run([]).map(|rendered| rendered.yaml).unwrap_or_default(),
        "render_interfaces": entry_points(interfaces, |entry| entry.generator.0),
        "render_interface_entries": entries(interfaces, |entry| entry.generator),
    })
}
