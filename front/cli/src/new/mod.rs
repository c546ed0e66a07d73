//! `quorate new`: writes the project of a service of one's own. What it writes is in `template`, a package of this workspace
//! (`check/template`), so that it is built and tested as it is.

mod services;

use quorate_command::cluster::DEV_DIRECTORY;
use quorate_command::failure::{Doing as _, Failure, Outcome};
use quorate_command::layout::parse_own_service;
use quorate_command::print;
use services::Example;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Write the project of a service of your own, in Rust.
///
/// The last part of DIR is the name of the service and of the package. The project is a small service, the program of its replicas, a client,
/// a test that ends a replica, and one in the simulator; its README says how to run it.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  quorate new my-service
  quorate new my-jobs --example queue
  quorate new my-service --quorate ../quorate      with a checkout of Quorate instead of the published crate
  cd my-service && cargo test && cargo build --release && quorate dev -- target/release/my-service")]
pub(crate) struct Args {
    /// The directory to make; must not exist, or be empty
    #[arg(value_name = "DIR")]
    dir: PathBuf,
    /// The service to begin with
    #[arg(long, value_name = "NAME", value_enum, default_value_t)]
    example: Example,
    /// A checkout of Quorate to build with, instead of the published crate
    #[arg(long, value_name = "DIR")]
    quorate: Option<PathBuf>,
}

/// The name of the template, as a package and as a crate.
const TEMPLATE: (&str, &str) = ("my-service", "my_service");
/// Where the crate is in a checkout.
const CRATE: &str = "host/quorate";
/// Where a file of each project stands, and what the template has for it.
const FILES: [(&str, &str); 4] = [
    ("Cargo.toml", include_str!("template/manifest.toml")),
    ("README.md", include_str!("template/readme.md")),
    (".gitignore", include_str!("template/gitignore")),
    ("src/main.rs", include_str!("template/src/main.rs")),
];
/// Names of packages that cargo refuses, or that hide what the project uses.
const TAKEN: [&str; 12] = [
    "quorate",
    "serde",
    "test",
    "core",
    "std",
    "alloc",
    "proc-macro",
    "build",
    "deps",
    "examples",
    "incremental",
    "self",
];

pub(crate) fn run(args: &Args) -> Outcome {
    let name = name_of(&args.dir)?;
    let service = args.example.service();
    let dependency = dependency(args.quorate.as_deref())?;
    refuse_full(&args.dir)?;
    for (place, text) in FILES.iter().chain(service.files) {
        let file = args.dir.join(place);
        let parent = file.parent().unwrap_or(&args.dir);
        fs::create_dir_all(parent).doing(format_args!("make {}", parent.display()))?;
        let text = text
            .replace(TEMPLATE.0, &name)
            .replace(TEMPLATE.1, &name.replace('-', "_"))
            .replace("Counters", if *place == "src/main.rs" { service.name } else { "Counters" })
            .replace("{{tests}}", service.tests)
            .replace("{{client}}", &format!("{:51} # a client", service.client()))
            .replace("{{quorate}}", &format!("{{ {dependency} }}"))
            .replace("{{simulator}}", &format!("{{ {dependency}, features = [\"sim\"] }}"));
        fs::write(&file, text).doing(format_args!("write {}", file.display()))?;
    }
    print::line(next(args, &name))?;
    Ok(ExitCode::SUCCESS)
}

/// The name of the service: the last part of the directory.
fn name_of(dir: &Path) -> Outcome<String> {
    let name = dir.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let wrong = |why: &str| {
        Failure::usage(format!("\"{name}\" can not be the name of a service and a package: {why}"))
    };
    if name.is_empty() {
        return Err(wrong("give a directory with a name, as in `quorate new my-service`"));
    }
    let service = parse_own_service(&name).map_err(|why| wrong(&why))?;
    if !service.starts_with(|first: char| first.is_ascii_lowercase())
        || service.contains(|c: char| c.is_ascii_uppercase())
    {
        return Err(wrong("it begins with a small letter and has no capitals"));
    }
    if TAKEN.contains(&service.as_str()) || is_keyword(&service) {
        return Err(wrong("the name has a meaning for Rust, or is that of a crate that the project uses"));
    }
    Ok(service)
}

/// Whether the compiler would read the name of the crate as something else.
fn is_keyword(name: &str) -> bool {
    const KEYWORDS: &str = "as async await break const continue crate dyn else enum extern false fn for gen if impl in let loop match mod move \
                            mut pub ref return static struct super trait true type unsafe use where while abstract become box do final macro \
                            override priv try typeof unsized virtual yield";
    KEYWORDS.split_whitespace().any(|keyword| keyword == name)
}

/// Where the manifest says that this crate is.
fn dependency(checkout: Option<&Path>) -> Outcome<String> {
    let Some(checkout) = checkout else {
        return Ok(format!("version = \"{}\"", env!("CARGO_PKG_VERSION")));
    };
    let place = checkout.join(CRATE);
    if !place.join("Cargo.toml").is_file() {
        return Err(Failure::usage(format!(
            "{} is no checkout of Quorate: there is no {CRATE}/Cargo.toml in it",
            checkout.display()
        )));
    }
    let place = place.canonicalize().doing(format_args!("find {}", place.display()))?;
    let text = place.to_str().ok_or_else(|| {
        Failure::usage("--quorate: a manifest can not name this directory, since it is no UTF-8")
    })?;
    Ok(format!("path = {}", toml::Value::from(text)))
}

fn refuse_full(dir: &Path) -> Outcome<()> {
    let full = match fs::read_dir(dir) {
        Err(why) if why.kind() == std::io::ErrorKind::NotFound => false,
        entries => entries.doing(format_args!("read {}", dir.display()))?.next().is_some(),
    };
    if full {
        return Err(Failure::usage(format!(
            "{} is not empty: choose another name, or move away what is there",
            dir.display()
        )));
    }
    Ok(())
}

fn next(args: &Args, name: &str) -> String {
    let service = args.example.service();
    let mut text = format!(
        "{name} is made. In {}:\n  cargo test{:30}{}\n  cargo build --release\n  \
         quorate dev -- target/release/{name}\nIn another terminal:\n  {}\n\
         The service is in src/lib.rs; README.md says what else there is. `quorate dev` keeps its data in {DEV_DIRECTORY}.",
        args.dir.display(),
        "",
        service.tests,
        service.client()
    );
    if args.quorate.is_none() {
        text.push_str(
            "\nIt builds with the published crate; --quorate DIR builds with a checkout of Quorate instead.",
        );
    }
    text
}
