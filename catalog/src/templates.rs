//! The templates of a module: what each may read, and whether it renders.
//!
//! A template may read only what is known where it stands (the table in
//! [`sidestack_topology::module`]). A secret may be read only where neither the
//! process list nor `docker inspect` shows it. Each is then rendered twice, with
//! the defaults and with everything set, so that a wrong type or an optional
//! setting that is taken for granted is found here and not in somebody's stack.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};
use sidestack_topology::module::{Module, SettingKind};
use sidestack_topology::pattern::Pattern;
use sidestack_topology::secret::{Encoding, token};
use sidestack_topology::template::{Context, Templates};

use crate::faults::Faults;
use crate::grammar;

/// What a template may read, beyond what all may.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Scope {
    /// Nothing beyond.
    Service,
    /// No provisions: their names are made here.
    Default,
    /// `name`.
    Provision,
    /// Addresses.
    Variables,
    /// Addresses and `name`.
    Each,
}

/// One template.
struct Site<'a> {
    path: Vec<&'a str>,
    text: &'a str,
    scope: Scope,
    /// Who would see a secret; `None` where it is safe.
    seen_in: Option<&'static str>,
}

/// Adds what is wrong with the templates of a module.
pub(crate) fn check(module: &Module, faults: &mut Faults) {
    let check = Check {
        module,
        templates: Templates::default(),
        trials: [Trial::new(module, false), Trial::new(module, true)],
    };
    // Indices as texts must outlive the sites that name them.
    let indices: Vec<String> = (0..longest(module)).map(|index| index.to_string()).collect();
    for site in sites(module, &indices) {
        check.site(&site, faults);
    }
    check.names(faults);
}

fn longest(module: &Module) -> usize {
    let fragments = module.services.values().flat_map(|fragment| {
        let test = fragment.healthcheck.as_ref().map_or(0, |health| health.test.len());
        [fragment.command.len(), fragment.entrypoint.len(), fragment.tmpfs.len(), test]
    });
    let provisions =
        module.provisions.values().flat_map(|provision| [provision.command.len(), provision.default.len()]);
    fragments.chain(provisions).max().unwrap_or(0)
}

const ARGUMENTS: Option<&str> = Some("the process list");
const INSPECT: Option<&str> = Some("`docker inspect`");

fn sites<'a>(module: &'a Module, indices: &'a [String]) -> Vec<Site<'a>> {
    let mut sites = Vec::new();
    let mut add = |path: &[&'a str], text: &'a str, scope, seen_in| {
        sites.push(Site { path: path.to_vec(), text, scope, seen_in });
    };
    for (key, fragment) in &module.services {
        let at = ["services", key.as_str()];
        add(&[at[0], at[1], "image"], &fragment.image, Scope::Service, INSPECT);
        if let Some(user) = &fragment.user {
            add(&[at[0], at[1], "user"], user, Scope::Service, INSPECT);
        }
        for (part, texts) in [("command", &fragment.command), ("entrypoint", &fragment.entrypoint)] {
            for (index, text) in indices.iter().zip(texts) {
                add(&[at[0], at[1], part, index], text, Scope::Service, ARGUMENTS);
            }
        }
        for (name, text) in &fragment.environment {
            add(&[at[0], at[1], "environment", name], text, Scope::Service, INSPECT);
        }
        for (name, text) in &fragment.secrets {
            add(&[at[0], at[1], "secrets", name], text, Scope::Service, None);
        }
        let test = fragment.healthcheck.iter().flat_map(|health| &health.test);
        for (index, text) in indices.iter().zip(test) {
            let path = [at[0], at[1], "healthcheck", "test", index];
            add(&path, text, Scope::Service, INSPECT);
        }
    }
    for (key, provision) in &module.provisions {
        let at = ["provisions", key.as_str()];
        for (index, text) in indices.iter().zip(&provision.default) {
            let seen = Some("the name of what it makes");
            add(&[at[0], at[1], "default", index], text, Scope::Default, seen);
        }
        for (index, text) in indices.iter().zip(&provision.command) {
            add(&[at[0], at[1], "command", index], text, Scope::Provision, ARGUMENTS);
        }
        if let Some(user) = &provision.user {
            add(&[at[0], at[1], "user"], user, Scope::Service, ARGUMENTS);
        }
        if let Some(text) = &provision.stdin {
            add(&[at[0], at[1], "stdin"], text, Scope::Provision, None);
        }
    }
    let variables = &module.variables;
    for (part, names) in [("prefixed", &variables.prefixed), ("conventional", &variables.conventional)] {
        for (name, text) in names {
            add(&["variables", part, name], text, Scope::Variables, None);
        }
    }
    for (kind, names) in &variables.each {
        for (name, text) in names {
            add(&["variables", "each", kind, name], text, Scope::Each, None);
        }
    }
    for (key, file) in &module.files {
        let seen = (!file.secret).then_some("a file that is not marked `secret: true`");
        add(&["files", key, "content"], &file.content, Scope::Service, seen);
    }
    sites
}

struct Check<'a> {
    module: &'a Module,
    templates: Templates,
    trials: [Trial; 2],
}

impl Check<'_> {
    fn site(&self, site: &Site<'_>, faults: &mut Faults) {
        let mut names: Vec<String> = match self.templates.names(site.text) {
            Ok(names) => names.into_iter().collect(),
            Err(error) => {
                let message = format!("the template cannot be read: {}", error.message);
                faults.add(&site.path, within(site, message, error.line));
                return;
            }
        };
        names.sort();
        let before = faults.count();
        for name in &names {
            self.name(site, name, faults);
        }
        if faults.count() > before {
            return;
        }
        for trial in &self.trials {
            match self.templates.render(site.text, trial.context(site.scope)) {
                Ok(text) => self.rendered(site, &text, faults),
                Err(error) => {
                    let what = if trial.everything { "when everything is set" } else { "with the defaults alone" };
                    let message = format!("the template fails {what}: {}", error.message);
                    faults.add(&site.path, within(site, message, error.line));
                }
            }
            if faults.count() > before {
                return;
            }
        }
    }

    /// Whether a name is known where it is read, and may be read there.
    fn name(&self, site: &Site<'_>, name: &str, faults: &mut Faults) {
        let module = self.module;
        let (root, rest) = name.split_once('.').unwrap_or((name, ""));
        let addresses = matches!(site.scope, Scope::Variables | Scope::Each);
        let named = matches!(site.scope, Scope::Provision | Scope::Each);
        let (group, known): (&str, Vec<&str>) = match root {
            "resource" | "image" | "version" if rest.is_empty() => return,
            "host" | "port" if rest.is_empty() => {
                if !addresses {
                    let message = format!("`{root}` is known in `variables` only");
                    faults.add(&site.path, message);
                } else if !module.ports.values().any(|port| port.primary) {
                    faults.hinted(
                        &site.path,
                        format!("`{root}` means the primary port, and there is none"),
                        "mark one of `ports` with `primary: true`",
                    );
                }
                return;
            }
            "name" if rest.is_empty() => {
                if !named {
                    let message = "`name` is known in `provisions` and `variables.each` only";
                    faults.add(&site.path, message);
                }
                return;
            }
            "provisions" if site.scope == Scope::Default => {
                faults.add(&site.path, "the default of a provision cannot read provisions");
                return;
            }
            "addresses" if !addresses => {
                faults.add(&site.path, "`addresses` is known in `variables` only");
                return;
            }
            "settings" => ("setting", keys(&module.settings)),
            "credentials" => ("credential", keys(&module.credentials)),
            "provisions" => ("provision", keys(&module.provisions)),
            "ports" => ("port", keys(&module.ports)),
            "services" => ("service", keys(&module.services)),
            "addresses" => ("port", keys(&module.ports)),
            _ => {
                let roots = [
                    "resource",
                    "image",
                    "version",
                    "settings",
                    "credentials",
                    "provisions",
                    "ports",
                    "services",
                    "addresses",
                    "host",
                    "port",
                    "name",
                ];
                faults.unknown(&site.path, format!("`{name}` is not known here"), root, roots);
                return;
            }
        };
        if rest.is_empty() {
            faults.hinted(
                &site.path,
                format!("`{root}` is read as a whole"),
                format!("read one {group} of it, with a dot and its name"),
            );
            return;
        }
        let (key, deeper) = rest.split_once('.').unwrap_or((rest, ""));
        if !known.contains(&key) {
            let message = format!("there is no {group} `{key}` in this module");
            faults.unknown(&site.path, message, key, known);
            return;
        }
        let fitting = match root {
            "addresses" => matches!(deeper, "host" | "port"),
            _ => deeper.is_empty(),
        };
        if !fitting {
            let hint = match root {
                "addresses" => "an address has `host` and `port`",
                _ => "it is a plain value",
            };
            faults.hinted(&site.path, format!("`{name}` is not known"), hint);
            return;
        }
        let secret = match root {
            "credentials" => module.credentials.get(key).is_some_and(|one| one.secret),
            "settings" => module.settings.get(key).is_some_and(|one| one.secret),
            _ => false,
        };
        if let Some(seen_in) = site.seen_in.filter(|_| secret) {
            faults.hinted(
                &site.path,
                format!("`{name}` is a secret and would show in {seen_in}"),
                "give it in a file under the service's `secrets` or by a provision's `stdin`",
            );
        }
    }

    /// What can only be seen once a template is rendered.
    fn rendered(&self, site: &Site<'_>, text: &str, faults: &mut Faults) {
        match site.path.as_slice() {
            ["services", _, "image"] => grammar::image(faults, &site.path, text),
            ["provisions", kind, "default", _] => {
                let pattern = self.module.provisions.get(*kind);
                let pattern = pattern.and_then(|provision| provision.pattern.as_ref());
                if let Some(pattern) = pattern
                    && let Ok(parsed) = pattern.parse::<Pattern>()
                    && !parsed.matches(text)
                {
                    let message = format!("the default `{text}` does not match `{pattern}`");
                    faults.add(&site.path, message);
                }
            }
            _ => {}
        }
    }

    /// Fields beside templates that must not look like one: nobody would render them.
    fn names(&self, faults: &mut Faults) {
        for (key, credential) in &self.module.credentials {
            if credential.default.contains("{{") {
                let path = ["credentials", key, "default"];
                faults.add(&path, "the default of a credential cannot be a template");
            }
        }
    }
}

fn keys<T>(map: &BTreeMap<String, T>) -> Vec<&str> {
    map.keys().map(String::as_str).collect()
}

fn within(site: &Site<'_>, message: String, line: usize) -> String {
    match site.text.lines().count() {
        0 | 1 => message,
        _ => format!("{message} (line {line} of the template)"),
    }
}

/// Values to render with.
struct Trial {
    everything: bool,
    service: Context,
    default: Context,
    provision: Context,
    variables: Context,
    each: Context,
}

impl Trial {
    fn new(module: &Module, everything: bool) -> Self {
        let mut base = base(module, everything);
        let default = Context::new(&base);
        let templates = Templates::default();
        let mut provisions = Map::new();
        for (kind, provision) in &module.provisions {
            let names: Vec<String> = match &provision.default {
                // A default that fails is told of where it stands.
                names if !names.is_empty() => {
                    names.iter().map(|name| templates.render(name, &default).unwrap_or_default()).collect()
                }
                _ if everything => vec!["sample".to_owned()],
                _ => Vec::new(),
            };
            provisions.insert(kind.clone(), json!(names));
        }
        base.insert("provisions".to_owned(), provisions.into());
        let service = Context::new(&base);
        let mut with_name = base.clone();
        with_name.insert("name".to_owned(), json!("sample"));
        let provision = Context::new(&with_name);
        for context in [&mut base, &mut with_name] {
            addresses(module, context);
        }
        Self { everything, service, default, provision, variables: Context::new(&base), each: Context::new(&with_name) }
    }

    fn context(&self, scope: Scope) -> &Context {
        match scope {
            Scope::Service => &self.service,
            Scope::Default => &self.default,
            Scope::Provision => &self.provision,
            Scope::Variables => &self.variables,
            Scope::Each => &self.each,
        }
    }
}

fn base(module: &Module, everything: bool) -> Map<String, Value> {
    let mut settings = Map::new();
    for (key, setting) in &module.settings {
        let value = match &setting.default {
            Some(default) => Some(default.clone()),
            None if setting.required || everything => Some(sample(&setting.kind)),
            None => None,
        };
        let value = match value {
            Some(_) if setting.secret && everything => Some(secret()),
            value => value,
        };
        settings.extend(value.map(|value| (key.clone(), value)));
    }
    let mut credentials = Map::new();
    for (key, credential) in &module.credentials {
        let value = match credential.secret && everything {
            true => secret(),
            false => json!(credential.default),
        };
        credentials.insert(key.clone(), value);
    }
    let ports: Map<String, Value> = module.ports.iter().map(|(key, port)| (key.clone(), json!(port.port))).collect();
    let services: Map<String, Value> = module
        .services
        .keys()
        .map(|key| {
            let name = match key.as_str() {
                "main" => "sample".to_owned(),
                key => format!("sample-{key}"),
            };
            (key.clone(), json!(name))
        })
        .collect();
    let version = module.versions.first();
    let mut base = Map::new();
    base.insert("resource".to_owned(), json!("sample"));
    base.insert("image".to_owned(), json!(version.map_or("image:1", |v| &v.image)));
    base.insert("version".to_owned(), json!(version.map_or("1", |v| &v.version)));
    base.insert("settings".to_owned(), settings.into());
    base.insert("credentials".to_owned(), credentials.into());
    base.insert("ports".to_owned(), ports.into());
    base.insert("services".to_owned(), services.into());
    base
}

fn addresses(module: &Module, context: &mut Map<String, Value>) {
    let of = |port: u16| json!({"host": "sample", "port": port});
    let all: Map<String, Value> = module.ports.iter().map(|(key, port)| (key.clone(), of(port.port))).collect();
    if let Some(port) = module.ports.values().find(|port| port.primary) {
        context.insert("host".to_owned(), json!("sample"));
        context.insert("port".to_owned(), json!(port.port));
    }
    context.insert("addresses".to_owned(), all.into());
}

fn secret() -> Value {
    json!(token("env:SAMPLE", Encoding::Raw))
}

fn sample(kind: &SettingKind) -> Value {
    match kind {
        SettingKind::String => json!("sample"),
        SettingKind::Bool => json!(true),
        SettingKind::Enum(values) => json!(values.first()),
        SettingKind::Integer { min, max } => json!(1.clamp(*min, *max)),
        SettingKind::Size { min, max } => json!((1_u64 << 20).clamp(*min, *max)),
        SettingKind::Port => json!(1024),
    }
}
