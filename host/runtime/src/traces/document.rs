//! The document with traces: the JSON form of OTLP (opentelemetry-proto 1.x, `ExportTraceServiceRequest`). Ids are hexadecimal there, and
//! 64-bit numbers are texts.

use quorate_types::{ClusterId, InstanceId, ReplicaId, Seq, View};
use serde::Serialize;

/// A span of a stage: its name, and when it began and ended, in nanoseconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StageSpan {
    pub(crate) name: &'static str,
    pub(crate) began: u64,
    pub(crate) ended: u64,
}

/// What one replica knows of a batch.
#[derive(Clone, Debug)]
pub(crate) struct Trace {
    pub(crate) seq: Seq,
    pub(crate) instance: InstanceId,
    pub(crate) view: View,
    pub(crate) requests: u32,
    pub(crate) commands: u32,
    pub(crate) clients: u32,
    pub(crate) bytes: usize,
    /// When its first request came in and its replies left, at the leader.
    pub(crate) whole: Option<(u64, u64)>,
    pub(crate) stages: Vec<StageSpan>,
}

/// Which replica of which cluster speaks.
#[derive(Clone, Debug)]
pub(crate) struct Origin {
    pub(crate) cluster: ClusterId,
    pub(crate) replica: ReplicaId,
    /// The service that the replicas run.
    pub(crate) service: String,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Document {
    resource_spans: [ResourceSpans; 1],
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ResourceSpans {
    resource: Resource,
    scope_spans: [ScopeSpans; 1],
}

#[derive(Serialize)]
struct Resource {
    attributes: Vec<Attribute>,
}

#[derive(Serialize)]
struct ScopeSpans {
    scope: Scope,
    spans: Vec<Span>,
}

#[derive(Serialize)]
struct Scope {
    name: &'static str,
    version: &'static str,
}

#[derive(Serialize)]
struct Attribute {
    key: &'static str,
    value: Value,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
enum Value {
    StringValue(String),
    IntValue(String),
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Span {
    trace_id: String,
    span_id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    parent_span_id: Option<String>,
    name: &'static str,
    kind: u8,
    start_time_unix_nano: String,
    end_time_unix_nano: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    attributes: Vec<Attribute>,
}

/// `SPAN_KIND_INTERNAL`, and `SPAN_KIND_SERVER` for what a client waits for.
const INTERNAL: u8 = 1;
const SERVER: u8 = 2;

fn text(key: &'static str, value: impl Into<String>) -> Attribute {
    Attribute { key, value: Value::StringValue(value.into()) }
}

fn number(key: &'static str, value: u64) -> Attribute {
    Attribute { key, value: Value::IntValue(value.to_string()) }
}

/// Ids that every replica finds alike. `what` tells ids of one batch apart.
fn id<const BYTES: usize>(cluster: ClusterId, seq: Seq, what: &[u8]) -> String {
    let mut hasher = blake3::Hasher::new_derive_key("quorate 2026 ids of traces");
    hasher.update(&cluster.bits().to_le_bytes()).update(&seq.number().to_le_bytes()).update(what);
    let mut bytes = [0; BYTES];
    hasher.finalize_xof().fill(&mut bytes);
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

impl Trace {
    /// Adds the spans of this replica: one of itself, one of each stage in that, and at the leader the one that holds all.
    fn spans(&self, origin: &Origin, out: &mut Vec<Span>) {
        let id_of = |what: &[u8]| id::<8>(origin.cluster, self.seq, what);
        let trace_id = id::<16>(origin.cluster, self.seq, b"trace");
        let span = |span_id: String, parent: Option<&String>, name, (began, ended): (u64, u64)| Span {
            trace_id: trace_id.clone(),
            span_id,
            parent_span_id: parent.cloned(),
            name,
            kind: INTERNAL,
            start_time_unix_nano: began.to_string(),
            end_time_unix_nano: ended.to_string(),
            attributes: Vec::new(),
        };
        let batch = id_of(b"batch");
        if let Some(whole) = self.whole {
            let attributes = self.attributes(origin);
            out.push(Span { kind: SERVER, attributes, ..span(batch.clone(), None, "batch", whole) });
        }
        let first = self.stages.iter().map(|stage| stage.began).min();
        let last = self.stages.iter().map(|stage| stage.ended).max();
        let Some(all) = first.zip(last) else { return };
        let number_of = origin.replica.number().to_le_bytes();
        let own = |stage: &str| id_of(&[b"replica", &number_of[..], stage.as_bytes()].concat());
        let replica = own("");
        let attributes = self.attributes(origin);
        out.push(Span { attributes, ..span(replica.clone(), Some(&batch), "replica", all) });
        for stage in &self.stages {
            out.push(span(own(stage.name), Some(&replica), stage.name, (stage.began, stage.ended)));
        }
    }

    fn attributes(&self, origin: &Origin) -> Vec<Attribute> {
        vec![
            number("quorate.seq", self.seq.number()),
            number("quorate.instance", u64::from(self.instance.number())),
            number("quorate.view", self.view.number()),
            number("quorate.replica", u64::from(origin.replica.number())),
            text("quorate.role", if self.whole.is_some() { "leader" } else { "follower" }),
            number("quorate.requests", u64::from(self.requests)),
            number("quorate.commands", u64::from(self.commands)),
            number("quorate.clients", u64::from(self.clients)),
            number("quorate.bytes", self.bytes as u64),
        ]
    }
}

/// The body of a request with these traces.
pub(crate) fn document(origin: &Origin, traces: &[Trace]) -> Vec<u8> {
    let mut spans = Vec::new();
    traces.iter().for_each(|trace| trace.spans(origin, &mut spans));
    let attributes = vec![
        text("service.name", "quorate"),
        text("service.version", env!("CARGO_PKG_VERSION")),
        text("service.instance.id", format!("{}-{}", origin.cluster, origin.replica.number())),
        text("quorate.cluster", origin.cluster.to_string()),
        number("quorate.replica", u64::from(origin.replica.number())),
        text("quorate.service", origin.service.clone()),
    ];
    let scope = Scope { name: "quorate", version: env!("CARGO_PKG_VERSION") };
    let scope_spans = [ScopeSpans { scope, spans }];
    let document =
        Document { resource_spans: [ResourceSpans { resource: Resource { attributes }, scope_spans }] };
    serde_json::to_vec(&document).unwrap_or_default()
}
