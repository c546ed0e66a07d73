//! Generates messages, servers and clients from `proto/`, without protoc; and tables of the messages' fields for the JSON interface.

use std::collections::BTreeMap;
use std::fmt::Write as _;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let files = ["proto/rpc.proto", "proto/election.proto", "proto/lock.proto", "proto/health.proto"];
    println!("cargo::rerun-if-changed=proto");
    let set = protox::compile(files, ["proto"])?;
    let mut schema = Schema::default();
    for file in &set.file {
        let package = format!(".{}", file.package());
        for message in &file.message_type {
            schema.message(&package, message);
        }
        for one in &file.enum_type {
            schema.choice(&package, one);
        }
        for service in &file.service {
            for method in &service.method {
                let path = format!("/{}.{}/{}", file.package(), service.name(), method.name());
                schema.methods.push((path, method.input_type().to_owned(), method.output_type().to_owned()));
            }
        }
    }
    let out = std::path::PathBuf::from(std::env::var("OUT_DIR")?);
    std::fs::write(out.join("schema.rs"), schema.text())?;
    tonic_prost_build::configure().bytes(".").compile_fds(set)?;
    Ok(())
}

/// What the tables are made of, by full names.
#[derive(Default)]
struct Schema {
    messages: BTreeMap<String, Vec<Field>>,
    choices: BTreeMap<String, Vec<(i32, String)>>,
    methods: Vec<(String, String, String)>,
}

struct Field {
    number: i32,
    name: String,
    json: String,
    kind: i32,
    of: String,
    repeated: bool,
    chosen: bool,
}

impl Schema {
    fn message(&mut self, package: &str, message: &protox::prost_reflect::prost_types::DescriptorProto) {
        let name = format!("{package}.{}", message.name());
        let fields = message.field.iter().map(|field| Field {
            number: field.number(),
            name: field.name().to_owned(),
            json: field.json_name().to_owned(),
            kind: field.r#type() as i32,
            of: field.type_name().to_owned(),
            repeated: field.label() as i32 == 3,
            chosen: field.oneof_index.is_some(),
        });
        self.messages.insert(name.clone(), fields.collect());
        message.enum_type.iter().for_each(|one| self.choice(&name, one));
        message.nested_type.iter().for_each(|one| self.message(&name, one));
    }

    fn choice(&mut self, package: &str, one: &protox::prost_reflect::prost_types::EnumDescriptorProto) {
        let values = one.value.iter().map(|value| (value.number(), value.name().to_owned()));
        self.choices.insert(format!("{package}.{}", one.name()), values.collect());
    }

    fn kind(&self, field: &Field) -> String {
        let at = |names: Vec<&String>| names.iter().position(|name| **name == field.of).unwrap_or_default();
        match field.kind {
            3 => "Kind::Int64".into(),
            4 => "Kind::Uint64".into(),
            8 => "Kind::Bool".into(),
            9 => "Kind::Text".into(),
            11 => format!("Kind::Message({})", at(self.messages.keys().collect())),
            12 => "Kind::Bytes".into(),
            13 => "Kind::Uint32".into(),
            14 => format!("Kind::Choice({})", at(self.choices.keys().collect())),
            other => panic!("no field of the interface has the type {other}"),
        }
    }

    fn text(&self) -> String {
        let mut text = String::from("static MESSAGES: &[&[Field]] = &[\n");
        for (name, fields) in &self.messages {
            let _ = writeln!(text, "    // {name}\n    &[");
            for field in fields {
                let _ = writeln!(
                    text,
                    "        Field {{ number: {}, name: {:?}, json: {:?}, kind: {}, repeated: {}, chosen: {} }},",
                    field.number,
                    field.name,
                    field.json,
                    self.kind(field),
                    field.repeated,
                    field.chosen
                );
            }
            text.push_str("    ],\n");
        }
        text.push_str("];\n\nstatic CHOICES: &[&[(i32, &str)]] = &[\n");
        for (name, values) in &self.choices {
            let _ = writeln!(text, "    // {name}\n    &{values:?},");
        }
        text.push_str("];\n\nstatic METHODS: &[(&str, usize, usize)] = &[\n");
        let at = |wanted: &String| self.messages.keys().position(|name| name == wanted).unwrap_or_default();
        for (path, input, output) in &self.methods {
            let _ = writeln!(text, "    ({path:?}, {}, {}),", at(input), at(output));
        }
        text.push_str("];\n");
        text
    }
}
