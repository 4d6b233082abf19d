//! `catalog`, `init`, `completions`, `version`.

use clap::CommandFactory;
use sidestack_runtime::{Error, Kind};
use sidestack_topology::diagnostic::nearest;

use super::Context;
use crate::args::{self, CatalogCommand, Cli};
use crate::errors::Stop;
use crate::json;
use crate::output::{Style, Table};

pub(super) fn init(context: &Context<'_>, args: &args::Init) -> Result<u8, Stop> {
    let report = context.session()?.init(args.force)?;
    let out = context.out;
    if out.json {
        out.document(&json::Initialised::from(&report))?;
        return Ok(0);
    }
    let from = report.from_compose.as_ref().map(|path| format!(" from {}", path.display())).unwrap_or_default();
    out.note(format!("wrote {}{from}; `sidestack plan` shows what it means", report.path.display()));
    Ok(0)
}

pub(super) fn catalog(context: &Context<'_>, args: &args::Catalog) -> Result<u8, Stop> {
    let (catalog, out) = (sidestack_catalog::builtin(), context.out);
    if let Some(CatalogCommand::Show { module }) = &args.command {
        let Some(entry) = catalog.get(module) else {
            let names: Vec<&str> = catalog.iter().map(|entry| entry.module.name.as_str()).collect();
            let error = Error::new(Kind::NotFound, "no-module", format!("there is no module `{module}`"));
            let hint = match nearest(module, names.iter().copied()) {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("there are {}", names.join(", ")),
            };
            return Err(error.hint(hint).into());
        };
        if out.json {
            out.document(&json::Module::from(entry))?;
        } else {
            out.data(&sidestack_catalog::reference(&entry.module))?;
        }
        return Ok(0);
    }
    if out.json {
        out.document(&catalog.iter().collect::<json::Catalog>())?;
        return Ok(0);
    }
    let mut table = Table::new(&["MODULE", "PROVIDES", "VERSIONS", "SUMMARY"]);
    for entry in catalog.iter() {
        let module = &entry.module;
        let versions: Vec<&str> = module.versions.iter().map(|one| one.version.as_str()).collect();
        table.styled([
            (module.name.as_str(), Style::Bold),
            (&module.provides.join(", "), Style::Plain),
            (&versions.join(", "), Style::Plain),
            (&module.summary, Style::Dim),
        ]);
    }
    out.table(&table)?;
    Ok(0)
}

pub(super) fn completions(context: &Context<'_>, args: &args::Completions) -> Result<u8, Stop> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "sidestack", &mut script);
    context.out.data(&String::from_utf8_lossy(&script))?;
    Ok(0)
}

pub(super) fn version(context: &Context<'_>) -> Result<u8, Stop> {
    let version = env!("CARGO_PKG_VERSION");
    if context.out.json {
        context.out.document(&json::Version { version })?;
    } else {
        context.out.line(format!("sidestack {version}"))?;
    }
    Ok(0)
}
