//! Self-addresses: texts that name a host port of the stack itself.
//!
//! In a second copy they would point at the first. The host must be one that
//! means this machine, and the port one that the stack publishes; what means the
//! container itself is left alone. `localhost` inside a container is the
//! container, so that what it runs (commands, health checks) means the machine
//! only where it says so, and what it tells others (URLs in variables, labels,
//! advertised addresses) nearly always does.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::claim::{Claims, pointer};
use super::keep::Keep;
use crate::compose::Service;
use crate::module::Protocol;
use crate::plan::{Original, Plan, PlannedPort, Publish};

const RULE: &str = "self-address";
const REASON: &str = "it names a host port of the stack itself, which differs in every copy";
const INSIDE: &str = "the port is bound to the loopback address, which containers cannot reach by way of the host";

/// Names by which a text means this machine.
const HERE: [&str; 5] = ["localhost", "127.0.0.1", "0.0.0.0", "[::1]", "[::]"];
/// Names by which a container means the machine that it runs on; the last is the usual address of Docker's own bridge.
const GATEWAY: [&str; 3] = ["host.docker.internal", "gateway.docker.internal", "172.17.0.1"];

/// Where a host port of the file leads.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Route {
    /// The host port of this copy.
    host_port: u16,
    /// Where containers find it, in these networks.
    service: String,
    container_port: u16,
    networks: BTreeSet<String>,
}

/// The file's host ports and where each leads in this copy.
#[derive(Debug, Default)]
pub(crate) struct PortMap(BTreeMap<u16, Route>);

impl PortMap {
    pub(crate) fn of(plan: &Plan) -> Self {
        let mut map = BTreeMap::new();
        // An address says nothing of its protocol, and is seldom one over UDP.
        let tcp = |port: &&PlannedPort| port.publish.protocol == Protocol::Tcp;
        let ports = plan.ports.iter().filter(tcp).chain(plan.ports.iter().filter(|port| !tcp(port)));
        for port in ports.filter(|port| port.host_port != 0) {
            let Publish { service, container_port, own: Some(own), .. } = &port.publish else { continue };
            // A granted own port is right as the file has it.
            let host_port = if port.own.is_some() { *own } else { port.host_port };
            map.entry(*own).or_insert_with(|| {
                let (service, container_port) = (service.clone(), *container_port);
                let networks = networks(plan, &service);
                Route { host_port, service, container_port, networks }
            });
        }
        Self(map)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Whose network a service stands in.
pub(crate) fn owner<'a>(plan: &'a Plan, name: &'a str) -> &'a str {
    plan.services.get(name).and_then(|service| service.compose.network_of()).unwrap_or(name)
}

/// The networks that a service stands in.
pub(crate) fn networks(plan: &Plan, name: &str) -> BTreeSet<String> {
    let service = plan.services.get(owner(plan, name));
    service.into_iter().flat_map(|service| service.compose.networks.keys().cloned()).collect()
}

/// What a text is, as far as that tells whose port it means.
#[derive(Debug, Clone, Copy)]
struct Context<'a> {
    view: View<'a>,
    place: Place<'a>,
}

/// Where a text stands.
#[derive(Debug, Clone, Copy)]
enum Place<'a> {
    /// A variable of this name.
    Variable(&'a str),
    Label,
    /// A word of a command, with the option that it is the value of.
    Command(&'a str),
    HealthCheck,
}

/// Schemes by which a program reaches another one: with a port on which it listens itself it is its own client.
const CLIENTS: [&str; 14] = [
    "amqp",
    "amqps",
    "mariadb",
    "memcached",
    "mongodb",
    "mysql",
    "nats",
    "postgres",
    "postgresql",
    "redis",
    "rediss",
    "smtp",
    "sqlserver",
    "tcp",
];

/// A name says that others are given the address.
fn is_told_to_others(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    ["advertis", "public", "external"].iter().any(|word| name.contains(word))
}

/// A name says that the address is listened on.
fn is_listened_on(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    ["listen", "bind"].iter().any(|word| name.contains(word)) && !is_told_to_others(&name)
}

/// The text with every self-address rewritten; nothing when there is none.
fn rewrite(text: &str, context: Context<'_>) -> Option<String> {
    let mut out = String::new();
    let mut done = 0;
    for found in addresses(text, context.view.gateways) {
        if let Some(to) = found.rewritten(text, context) {
            out.push_str(&text[done..found.start]);
            out.push_str(&to);
            done = found.end;
        }
    }
    (done > 0).then(|| out + &text[done..])
}

/// A `HOST:PORT` in a text, by byte offsets.
struct Address<'a> {
    start: usize,
    end: usize,
    host: &'a str,
    /// It means the machine that the container runs on.
    gateway: bool,
    /// `:`, or as a URL in a URL has it.
    separator: &'a str,
    port: u16,
}

/// The addresses of this machine in a text, in order.
fn addresses<'a>(text: &'a str, gateways: &'a [String]) -> impl Iterator<Item = Address<'a>> {
    // Nearly no text has a number behind a separator, and only those are looked at.
    let separators = text.match_indices([':', '%']).filter_map(|(at, _)| {
        let separator = [":", "%3A", "%3a"].into_iter().find(|separator| text[at..].starts_with(separator))?;
        Some((at, &text[at..at + separator.len()]))
    });
    separators.filter_map(move |(at, separator)| address(text, at, separator, gateways))
}

/// The address whose host ends at `at`.
fn address<'a>(text: &'a str, at: usize, separator: &'a str, gateways: &[String]) -> Option<Address<'a>> {
    let digits = &text[at + separator.len()..];
    let length = digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len());
    let port = digits[..length].parse().ok()?;
    // `localhost:80a` is no port.
    let next = digits[length..].chars().next();
    if next.is_some_and(|c| c.is_ascii_alphabetic() || c == '_') {
        return None;
    }
    let start = |host: &str| {
        let start = at.checked_sub(host.len())?;
        let found = text.get(start..at)?;
        // `mylocalhost` and `10.127.0.0.1` are other hosts; `%2Flocalhost` is a slash before it.
        let before = &text[..start];
        let escaped = before.len() >= 3 && before.as_bytes()[before.len() - 3] == b'%';
        let goes_on = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
        let whole = escaped || !before.chars().next_back().is_some_and(goes_on);
        (found.eq_ignore_ascii_case(host) && whole).then_some(start)
    };
    let here = HERE.iter().find_map(|host| start(host));
    let outer = || GATEWAY.iter().copied().chain(gateways.iter().map(String::as_str)).find_map(start);
    let start = here.or_else(outer)?;
    let end = at + separator.len() + length;
    Some(Address { start, end, host: &text[start..at], gateway: here.is_none(), separator, port })
}

impl Address<'_> {
    fn rewritten(&self, text: &str, context: Context<'_>) -> Option<String> {
        let view = context.view;
        let route = view.map.0.get(&self.port)?;
        let own = view.listens.contains(&self.port);
        if self.gateway || (view.from_host && route.service != view.name) {
            let found = !route.networks.is_disjoint(view.networks);
            return found.then(|| format!("{}{}{}", route.service, self.separator, route.container_port));
        }
        let scheme = self.scheme(text);
        let web = scheme.is_some_and(|scheme| ["http", "https", "ws", "wss"].contains(&scheme));
        // An address to listen on, unless it is part of a URL.
        let anywhere = self.host == "0.0.0.0" || self.host == "[::]";
        let means_host = match context.place {
            Place::Variable(name) | Place::Command(name) if is_told_to_others(name) => !anywhere,
            Place::Variable(name) if own && is_listened_on(name) => false,
            Place::Variable(_) if own => {
                let client = scheme.is_some_and(|scheme| CLIENTS.contains(&scheme));
                scheme.is_some() && !client && !anywhere && !view.beside
            }
            Place::Variable(_) | Place::Label => web || !anywhere,
            // What asks for itself asks the container.
            Place::Command(_) => scheme.is_some() && !own && !anywhere && !asks(text),
            // It is run inside; only a port of its own that it does not listen on can mean the host's.
            Place::HealthCheck => route.service == view.name && !own,
        };
        (means_host && route.host_port != self.port)
            .then(|| format!("{}{}{}", self.host, self.separator, route.host_port))
    }

    /// The scheme of the URL that it is the authority of, perhaps with a user before it.
    fn scheme<'a>(&self, text: &'a str) -> Option<&'a str> {
        let mut before = &text[..self.start];
        if let Some(user) = before.strip_suffix('@') {
            let ends = |c: char| c.is_whitespace() || matches!(c, ',' | '"' | '\'' | ';');
            let from = user.rfind(ends).map_or(0, |at| at + 1);
            before = &user[..from + user[from..].find("://")? + "://".len()];
        }
        let scheme = before.strip_suffix("://").or_else(|| {
            let at = before.len().checked_sub("%3a%2f%2f".len())?;
            before.get(at..)?.eq_ignore_ascii_case("%3a%2f%2f").then(|| &before[..at])
        });
        // `http:\/\/` is how JSON in JSON has it.
        let scheme = scheme.or_else(|| before.strip_suffix(":\\/\\/"))?;
        let begins = scheme.rfind(|c: char| !c.is_ascii_alphanumeric()).map_or(0, |at| at + 1);
        Some(&scheme[begins..])
    }
}

/// Whether a command is one that asks a server for something.
fn asks(command: &str) -> bool {
    let mut words = command.split(|c: char| c.is_whitespace() || matches!(c, ';' | '|' | '&' | '(' | '`'));
    words.any(|word| ["curl", "wget", "nc", "wait-for-it", "pg_isready"].contains(&word))
}

/// What one service sees.
#[derive(Debug, Clone, Copy)]
pub(crate) struct View<'a> {
    pub(crate) name: &'a str,
    pub(crate) map: &'a PortMap,
    /// Ports on which its container listens.
    pub(crate) listens: &'a BTreeSet<u16>,
    /// It stood in the host's network, where `localhost` was every published port.
    pub(crate) from_host: bool,
    /// It stands in another's network, which it names `localhost`.
    pub(crate) beside: bool,
    /// Names that it gives the machine that it runs on.
    pub(crate) gateways: &'a [String],
    /// The networks in which it finds others.
    pub(crate) networks: &'a BTreeSet<String>,
}

impl View<'_> {
    /// Services that the environment of this one reaches by way of the machine, where their ports are bound to its
    /// loopback, and in no network.
    pub(crate) fn out_of_reach(&self, service: &Service) -> BTreeSet<String> {
        let texts = service.environment.values().flatten();
        let found = texts.flat_map(|text| addresses(text, self.gateways)).filter(|found| found.gateway);
        let routes = found.filter_map(|found| self.map.0.get(&found.port));
        routes.map(|route| route.service.clone()).collect()
    }
}

/// Names for the machine that a container runs on: `extra_hosts: ["host:host-gateway"]`.
pub(crate) fn gateways(service: &Service) -> Vec<String> {
    const GATEWAY: &str = "host-gateway";
    match service.rest.get("extra_hosts") {
        Some(Value::Array(entries)) => {
            let name = |entry: &str| entry.strip_suffix(GATEWAY)?.strip_suffix([':', '=']).map(str::to_owned);
            entries.iter().filter_map(|entry| name(entry.as_str()?)).collect()
        }
        Some(Value::Object(map)) => {
            let means = |value: &Value| value == GATEWAY || value.get(0).is_some_and(|first| first == GATEWAY);
            map.iter().filter(|(_, value)| means(value)).map(|(name, _)| name.clone()).collect()
        }
        _ => Vec::new(),
    }
}

/// Rewrites variables; what they were stays known, to be shown beneath.
pub(crate) fn environment(
    name: &str,
    service: &mut Service,
    view: View<'_>,
    keep: Keep<'_>,
    originals: &mut BTreeMap<String, Original>,
) {
    for (key, value) in &mut service.environment {
        let Some(text) = value else { continue };
        if let Some(to) = rewrite(text, Context { view, place: Place::Variable(key) })
            && !keep.keeps_variable(name, key)
        {
            let reason = reason(text, view.gateways);
            originals.insert(key.clone(), Original { value: std::mem::replace(text, to), rule: RULE, reason });
        }
    }
}

/// Why it was changed: a container cannot reach the loopback of its host.
fn reason(from: &str, gateways: &[String]) -> &'static str {
    let from = from.to_ascii_lowercase();
    let mut names = GATEWAY.iter().copied().chain(gateways.iter().map(String::as_str));
    if names.any(|host| from.contains(&host.to_ascii_lowercase())) { INSIDE } else { REASON }
}

/// Ports on which containers listen, as far as the files tell, by the service that owns the network: who shares one
/// shares its ports, and containers of one image listen on the same ones.
pub(crate) fn listens(plan: &Plan) -> BTreeMap<String, BTreeSet<u16>> {
    let mut all: BTreeMap<String, BTreeSet<u16>> = BTreeMap::new();
    let mut of_image: BTreeMap<&str, BTreeSet<u16>> = BTreeMap::new();
    for port in &plan.ports {
        let service = &port.publish.service;
        all.entry(owner(plan, service).to_owned()).or_default().insert(port.publish.container_port);
        let image = plan.services.get(service).and_then(|service| service.compose.image.as_deref());
        of_image.entry(image.unwrap_or_default()).or_default().insert(port.publish.container_port);
    }
    for (name, service) in &plan.services {
        let image = service.compose.image.as_deref().filter(|image| !image.is_empty());
        if let Some(ports) = image.and_then(|image| of_image.get(image)) {
            all.entry(owner(plan, name).to_owned()).or_default().extend(ports);
        }
    }
    for (name, service) in &plan.services {
        let exposed = super::ports::exposed(&service.compose);
        if !exposed.is_empty() {
            all.entry(owner(plan, name).to_owned()).or_default().extend(exposed);
        }
    }
    all
}

/// Rewrites what is no variable: command, entry point, labels, health check.
pub(crate) fn service(name: &str, service: &mut Service, view: View<'_>, keep: Keep<'_>, claims: &mut Claims) {
    let path = |parts: &[&str]| -> Vec<String> {
        ["services", name].iter().chain(parts).map(|&part| part.to_owned()).collect()
    };
    for (key, value) in [("command", &mut service.command), ("entrypoint", &mut service.entrypoint)] {
        let Some(Value::Array(words)) = value.as_mut().filter(|_| !keep.keeps(name, &[key])) else { continue };
        let mut before = String::new();
        for (at, word) in words.iter_mut().enumerate() {
            let Value::String(text) = word else { continue };
            let option = option(text, &before).to_owned();
            before.clone_from(text);
            edit(&path(&[key, &at.to_string()]), text, Context { view, place: Place::Command(&option) }, claims);
        }
    }
    if let Some(test) = service.healthcheck.as_mut().and_then(|health| health.get_mut("test"))
        && !keep.keeps(name, &["healthcheck"])
    {
        let place = Place::HealthCheck;
        each(test, &mut path(&["healthcheck", "test"]), &mut |path, text| {
            edit(path, text, Context { view, place }, claims);
        });
    }
    for (label, value) in &mut service.labels {
        if !keep.keeps(name, &["labels"]) && !keep.keeps(name, &["labels", label]) {
            edit(&path(&["labels", label]), value, Context { view, place: Place::Label }, claims);
        }
    }
}

/// The option that a word is the value of: `--url=X`, `--url X` in one word or in two.
fn option<'a>(word: &'a str, before: &'a str) -> &'a str {
    match word.find(['=', ' ']).filter(|_| word.starts_with('-')) {
        Some(end) => &word[..end],
        None if before.starts_with('-') && !word.starts_with('-') => before,
        None => "",
    }
}

fn edit(path: &[String], text: &mut String, context: Context<'_>, claims: &mut Claims) {
    if let Some(to) = rewrite(text, context) {
        claims.claim(pointer(path), RULE, reason(text, context.view.gateways));
        *text = to;
    }
}

/// Every text of a value, with its path.
pub(super) fn each(value: &mut Value, path: &mut Vec<String>, edit: &mut impl FnMut(&[String], &mut String)) {
    match value {
        Value::String(text) => edit(path, text),
        Value::Array(items) => {
            for (at, item) in items.iter_mut().enumerate() {
                path.push(at.to_string());
                each(item, path, edit);
                path.pop();
            }
        }
        Value::Object(map) => {
            for (key, item) in map.iter_mut() {
                path.push(key.clone());
                each(item, path, edit);
                path.pop();
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Build arguments that name one: they would make an image of each copy's own, so they stay and are told.
pub(crate) fn in_build<'a>(service: &'a Service, own: &BTreeSet<u16>) -> Vec<&'a str> {
    let arguments = service.build.as_ref().and_then(|build| build.get("args")).and_then(Value::as_object);
    arguments
        .into_iter()
        .flatten()
        .filter(|(_, value)| value.as_str().is_some_and(|text| names(text, own)))
        .map(|(key, _)| key.as_str())
        .collect()
}

/// Whether a text names one of these ports of this machine.
pub(crate) fn names(text: &str, own: &BTreeSet<u16>) -> bool {
    addresses(text, &[]).any(|found| own.contains(&found.port))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map() -> PortMap {
        let route = |host_port, service: &str, container_port| {
            let networks = BTreeSet::from(["default".to_owned()]);
            Route { host_port, service: service.to_owned(), container_port, networks }
        };
        PortMap(BTreeMap::from([
            (3000, route(20_101, "web", 3000)),
            (8080, route(20_102, "api", 80)),
            (5432, route(20_103, "db", 5432)),
            (9999, route(9999, "own", 9999)),
        ]))
    }

    #[track_caller]
    fn becomes(text: &str, expected: &str, place: Place<'_>, listens: &[u16]) {
        let listens: BTreeSet<u16> = listens.iter().copied().collect();
        let gateways = ["box".to_owned()];
        let networks = BTreeSet::from(["default".to_owned(), "other".to_owned()]);
        let (map, gateways, networks) = (&map(), &gateways[..], &networks);
        let view = View { name: "web", map, listens: &listens, from_host: false, beside: false, gateways, networks };
        let got = rewrite(text, Context { view, place });
        assert_eq!(got.as_deref().unwrap_or(text), expected, "{place:?}");
        assert_eq!(got.is_some(), text != expected, "{text}");
    }

    const URL: Place<'_> = Place::Variable("URL");

    #[test]
    fn every_form_of_a_self_address_is_rewritten() {
        for (from, to) in [
            ("http://localhost:3000", "http://localhost:20101"),
            ("http://LOCALHOST:3000/x?y=1", "http://LOCALHOST:20101/x?y=1"),
            ("http://127.0.0.1:8080,http://localhost:3000", "http://127.0.0.1:20102,http://localhost:20101"),
            ("{\"url\":\"http://localhost:8080\"}", "{\"url\":\"http://localhost:20102\"}"),
            ("postgres://u:p@localhost:5432/db", "postgres://u:p@localhost:20103/db"),
            ("localhost:5432", "localhost:20103"),
            ("http://[::1]:3000/", "http://[::1]:20101/"),
            ("redirect=http%3A%2F%2Flocalhost%3A3000%2Fcb", "redirect=http%3A%2F%2Flocalhost%3A20101%2Fcb"),
            ("http:\\/\\/localhost:3000", "http:\\/\\/localhost:20101"),
            ("http://host.docker.internal:8080/x", "http://api:80/x"),
            ("172.17.0.1:5432", "db:5432"),
            ("http://Box:8080/x", "http://api:80/x"),
            ("PLAINTEXT://kafka:9092,EXT://localhost:8080", "PLAINTEXT://kafka:9092,EXT://localhost:20102"),
        ] {
            becomes(from, to, URL, &[]);
        }
    }

    #[test]
    fn what_means_something_else_is_left_alone() {
        for text in [
            "http://mylocalhost:3000",
            "http://my.localhost:3000",
            "10.127.0.0.1:3000",
            "http://mailbox:3000",
            "http://localhost:30001",
            "http://localhost:300",
            "http://localhost:99999",
            "http://localhost:9999",
            "http://localhost/3000",
            "http://example.com:3000",
            "localhost:3000x",
            "localhost:",
            "",
            "3000",
            "größe localhost",
        ] {
            becomes(text, text, URL, &[]);
        }
    }

    #[test]
    fn what_means_the_container_itself_is_left_alone() {
        let (command, health) = (Place::Command(""), Place::HealthCheck);
        for (from, to, place, listens) in [
            // Variables.
            ("0.0.0.0:3000", "0.0.0.0:3000", URL, &[3000][..]),
            ("EXT://0.0.0.0:3000", "EXT://0.0.0.0:3000", URL, &[3000]),
            ("EXT://0.0.0.0:8080", "EXT://0.0.0.0:8080", URL, &[]),
            ("http://0.0.0.0:8080", "http://0.0.0.0:20102", URL, &[]),
            ("localhost:3000", "localhost:3000", URL, &[3000]),
            ("localhost:3000", "localhost:20101", URL, &[]),
            ("http://localhost:3000", "http://localhost:20101", URL, &[3000]),
            ("http://u:p@localhost:3000", "http://u:p@localhost:20101", URL, &[3000]),
            ("redis://u:p@localhost:3000", "redis://u:p@localhost:3000", URL, &[3000]),
            ("redis://u:p@localhost:3000", "redis://u:p@localhost:20101", URL, &[]),
            ("EXT://localhost:3000", "EXT://localhost:20101", Place::Variable("KAFKA_ADVERTISED_LISTENERS"), &[3000]),
            ("localhost:3000", "localhost:20101", Place::Variable("ADVERTISED"), &[3000]),
            ("EXT://localhost:3000", "EXT://localhost:3000", Place::Variable("KAFKA_LISTENERS"), &[3000]),
            // Commands.
            ("http://localhost:8080", "http://localhost:20102", command, &[80]),
            ("http://localhost:3000", "http://localhost:3000", command, &[3000]),
            ("localhost:8080", "localhost:8080", command, &[]),
            ("internal://0.0.0.0:8080", "internal://0.0.0.0:8080", command, &[]),
            (
                "until curl -f http://localhost:8080; do sleep 1; done",
                "until curl -f http://localhost:8080; do sleep 1; done",
                command,
                &[],
            ),
            (
                "in://web:1,out://localhost:3000",
                "in://web:1,out://localhost:20101",
                Place::Command("--advertise-kafka-addr"),
                &[3000],
            ),
            // Health checks.
            ("curl -f http://localhost:8080/", "curl -f http://localhost:8080/", health, &[]),
            ("curl -f http://localhost:3000/", "curl -f http://localhost:3000/", health, &[3000]),
            ("curl -f http://localhost:3000/", "curl -f http://localhost:20101/", health, &[80]),
            ("curl -f http://host.docker.internal:8080/", "curl -f http://api:80/", health, &[80]),
        ] {
            becomes(from, to, place, listens);
        }
    }

    #[test]
    fn a_word_knows_its_option() {
        assert_eq!(option("--url=x", "-v"), "--url");
        assert_eq!(option("--url x", ""), "--url");
        assert_eq!(option("x", "--url"), "--url");
        assert_eq!(option("--x", "--url"), "");
        assert_eq!(option("a=b", "run"), "");
    }
}
