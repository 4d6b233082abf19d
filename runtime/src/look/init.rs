//! `init`: a manifest to start from.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;

use serde_json::Value;
use sidestack_catalog as catalog;
use sidestack_topology::manifest::{self, Document};
use sidestack_topology::{names, yaml};

use super::InitReport;
use crate::error::{Error, Kind, Result};
use crate::session::Session;

/// What Compose looks for, first wins.
const COMPOSE_FILES: [&str; 4] = ["compose.yaml", "compose.yml", "docker-compose.yml", "docker-compose.yaml"];

/// Images that are a module's, by the last part of their name.
const ENGINES: [(&str, &str); 6] = [
    ("postgres", "postgres"),
    ("postgresql", "postgres"),
    ("postgis", "postgres"),
    ("pgvector", "postgres"),
    ("redis", "redis"),
    ("valkey", "redis"),
];

/// A service of a compose file.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Found {
    name: String,
    image: Option<String>,
}

impl Session {
    /// Writes `sidestack.yaml` into the session's folder, from its compose file if it has one.
    ///
    /// # Errors
    /// When there is one already, unless `force`; when it cannot be written.
    pub fn init(&self, force: bool) -> Result<InitReport> {
        let path = self.folder.join(manifest::FILE);
        let compose = COMPOSE_FILES.iter().map(|name| self.folder.join(name)).find(|path| path.is_file());
        let found = compose.as_deref().map(read_services);
        let folder = std::fs::canonicalize(&self.folder).unwrap_or_else(|_| self.folder.clone());
        let folder = folder.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let (workspace, _) = names::derive(&folder, "stack");
        let file = compose.as_deref().and_then(Path::file_name).map(|name| name.to_string_lossy().into_owned());
        let text = text(&workspace, file.as_deref(), found.as_deref());
        // What we write ourselves must be what we read.
        Document::parse(manifest::FILE, text.as_bytes()).map_err(|fault| Error::invalid(vec![fault]))?;
        write(&path, &text, force)?;
        Ok(InitReport { path, text, from_compose: compose })
    }
}

fn write(path: &Path, text: &str, force: bool) -> Result<()> {
    let mut options = std::fs::OpenOptions::new();
    options.write(true);
    // Without `force` it must be new: nobody's file is written over, also not one made just now.
    if force {
        options.create(true).truncate(true)
    } else {
        options.create_new(true)
    };
    options.open(path).and_then(|mut file| file.write_all(text.as_bytes())).map_err(|cause| {
        if cause.kind() == std::io::ErrorKind::AlreadyExists {
            Error::new(Kind::Conflict, "exists", format!("`{}` is there already", path.display()))
                .hint("`sidestack init --force` writes over it")
        } else {
            Error::new(Kind::Failed, "file", format!("cannot write `{}`: {cause}", path.display()))
        }
    })
}

/// The services of a compose file as it stands; none when it cannot be read, which `up` will tell
/// better.
fn read_services(path: &Path) -> Vec<Found> {
    let file = path.display().to_string();
    let root = std::fs::read(path).ok().and_then(|bytes| yaml::read::<Value>(&file, &bytes).ok());
    services_of(root.as_ref())
}

fn services_of(root: Option<&Value>) -> Vec<Found> {
    let services = root.and_then(|root| root.get("services")).and_then(Value::as_object);
    services
        .into_iter()
        .flatten()
        .map(|(name, service)| Found {
            name: name.clone(),
            image: service.get("image").and_then(Value::as_str).map(str::to_owned),
        })
        .collect()
}

/// The module that an image belongs to, with the version when the catalogue has it.
fn engine_of(image: &str) -> Option<String> {
    let image = image.split('@').next().unwrap_or(image);
    let (name, tag) = match image.rsplit_once(':') {
        // A colon before a slash is a registry's port.
        Some((name, tag)) if !tag.contains('/') => (name, tag),
        _ => (image, ""),
    };
    let last = name.rsplit('/').next().unwrap_or(name);
    let (_, module) = ENGINES.iter().find(|(image, _)| *image == last)?;
    let entry = catalog::builtin().get(module)?;
    let wanted: String = tag.trim_start_matches("pg").chars().take_while(char::is_ascii_digit).collect();
    match entry.module.versions.iter().find(|version| version.version == wanted) {
        Some(version) => Some(format!("{module}@{}", version.version)),
        None => Some((*module).to_owned()),
    }
}

/// A resource's name for a service: resources are called more strictly than services.
fn resource_name(service: &str) -> String {
    names::derive(service, "db").0
}

/// A comment of one line, whatever a service is called.
fn one_line(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).collect()
}

fn text(workspace: &str, compose: Option<&str>, found: Option<&[Found]>) -> String {
    let mut text = String::from(
        "# What this stack is. Where it runs (ports, host names, addresses) is Sidestack's business:\n\
         # none of that stands here.\n\
         sidestack: 1\n\n\
         # What the workspace is called; the folder's name when this is left out.\n",
    );
    // Writing to a string cannot fail.
    let _ = writeln!(text, "# workspace: {workspace}\n");
    let found = found.unwrap_or_default();
    if let Some(compose) = compose {
        text.push_str("# The application's own services, as they are.\n");
        for service in found {
            let image = service.image.as_deref().map(|image| format!(" ({image})")).unwrap_or_default();
            let _ = writeln!(text, "#   {}", one_line(&format!("{}{image}", service.name)));
        }
        let _ = writeln!(text, "compose: {compose}\n");
    } else {
        text.push_str("# The application's own services: a compose file, as it is.\n# compose: compose.yaml\n\n");
    }
    resources(&mut text, found);
    text.push_str(
        "# Variables of the stack. A service gets those that it names. Secrets stand here by reference.\n\
         # env:\n\
         #   LOG_LEVEL: debug\n\
         #   STRIPE_KEY: {secret: \"keychain:shop/stripe\"}\n\n\
         # Variations, each merged over the above: `sidestack up -E demo`.\n\
         # environments:\n\
         #   dev: {}\n\
         #   demo:\n\
         #     env: {LOG_LEVEL: info}\n",
    );
    text
}

fn resources(text: &mut String, found: &[Found]) {
    let engines: Vec<(&Found, String)> =
        found.iter().filter_map(|service| Some((service, engine_of(service.image.as_deref()?)?))).collect();
    let mut others: Vec<&Found> =
        found.iter().filter(|service| !engines.iter().any(|(engine, _)| engine.name == service.name)).collect();
    // What is built here is the application itself, most likely.
    others.sort_by_key(|service| service.image.is_some());
    let user = others.first();
    let user = user.map_or("web", |service| service.name.as_str());
    let (rows, names) = if engines.is_empty() {
        text.push_str("# What the application needs beside them: databases, caches, queues.\n");
        (vec![("db".to_owned(), "postgres".to_owned())], "db".to_owned())
    } else {
        text.push_str("# What the application needs beside them. These of its services could be resources instead:\n");
        text.push_str("# Sidestack then runs them, and hands their addresses and credentials to who needs them.\n");
        for (service, _) in &engines {
            let _ = writeln!(
                text,
                "# Take `{}` out of the compose file when you use its line here.",
                one_line(&service.name)
            );
        }
        let rows: Vec<_> =
            engines.iter().map(|(service, engine)| (resource_name(&service.name), engine.clone())).collect();
        let names = rows.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>().join(", ");
        (rows, names)
    };
    text.push_str("# resources:\n");
    for (name, engine) in rows {
        let _ = writeln!(text, "#   {name}: {engine}");
    }
    // A JSON string is a YAML one, whatever is in it.
    let _ = writeln!(text, "\n# Which services get which resources' variables (DATABASE_URL, REDIS_URL and the like).");
    let _ = writeln!(text, "# inject:\n#   {}: [{names}]\n", Value::from(user));
}

#[cfg(test)]
mod tests {
    use super::*;
    use sidestack_topology::manifest::Manifest;

    fn resolved(text: &str) -> Manifest {
        let document = Document::parse("sidestack.yaml", text.as_bytes()).unwrap();
        let environment = document.default_environment().unwrap();
        document.resolve(&environment).unwrap()
    }

    /// The same with everything that it only suggests.
    fn taken(text: &str) -> String {
        let suggested = |line: &str| {
            let rest = line.strip_prefix("# ")?;
            let key = rest.trim_start().split(':').next()?;
            (rest.contains(':') && !key.contains(' ')).then(|| rest.to_owned())
        };
        text.lines().map(|line| suggested(line).unwrap_or_else(|| line.to_owned()) + "\n").collect()
    }

    #[test]
    fn what_is_written_can_be_read() {
        let found = services_of(Some(&serde_json::json!({"services": {
            "admin": {"image": "adminer"},
            "web": {"build": "."},
            "my_db": {"image": "docker.io/library/postgres:16-alpine"},
            "cache": {"image": "redis:7"},
        }})));
        let text = text("shop", Some("compose.yml"), Some(&found));
        assert_eq!(resolved(&text).compose, ["compose.yml"]);
        assert!(text.contains("Take `my_db` out") && text.contains("#   my-db: postgres@16"), "{text}");
        let all = resolved(&taken(&text));
        assert_eq!(all.resources.len(), 2, "{text}");
        assert_eq!(all.inject.keys().collect::<Vec<_>>(), ["web"]);
        assert_eq!(all.env.len(), 2);
        assert_eq!(all.workspace.map(|name| name.to_string()).as_deref(), Some("shop"));
    }

    #[test]
    fn without_a_compose_file_too() {
        let text = text("stack", None, None);
        assert!(resolved(&text).compose.is_empty());
        let all = resolved(&taken(&text));
        assert_eq!((all.resources.len(), all.compose.len()), (1, 1), "{text}");
    }

    #[test]
    fn images_are_known_by_their_names() {
        let table = [
            ("postgres:17", Some("postgres@17")),
            ("postgres", Some("postgres")),
            ("postgres:9.6", Some("postgres")),
            ("registry.local:5000/db/postgres:15.3@sha256:00", Some("postgres@15")),
            ("registry.local:5000/redis", Some("redis")),
            ("pgvector/pgvector:pg16", Some("postgres@16")),
            ("my-postgres-exporter:1", None),
            ("nginx", None),
        ];
        for (image, wanted) in table {
            assert_eq!(engine_of(image).as_deref(), wanted, "{image}");
        }
    }

    #[test]
    fn a_file_that_is_there_stays() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("sidestack.yaml");
        write(&path, "one", false).unwrap();
        assert_eq!(write(&path, "two", false).unwrap_err().kind, Kind::Conflict);
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "one");
        write(&path, "x", true).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "x");
    }
}
