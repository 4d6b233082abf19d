//! `plan`.

use schemars::JsonSchema;
use serde::Serialize;
use sidestack_runtime::api::{PlanReport, StepLine};

use super::Fault;

/// `plan`
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Plan {
    /// The instance it would be
    target: String,
    /// The revision, when the content is one already
    revision: Option<String>,
    /// The Compose project
    project: String,
    services: Vec<Service>,
    /// Published ports; a host port of 0 is not known yet
    ports: Vec<Port>,
    /// What isolation changes in the compose files
    isolation: Vec<Isolation>,
    /// Variables with secrets that Docker will hold in its container config
    exposed_variables: Vec<Exposed>,
    /// What would be done
    steps: Vec<Step>,
    warnings: Vec<Fault>,
}

/// A service
#[derive(Debug, Serialize, JsonSchema)]
struct Service {
    name: String,
    image: Option<String>,
    /// The resource it belongs to
    resource: Option<String>,
    /// How many containers
    replicas: u32,
    /// The services that it waits for
    after: Vec<String>,
}

/// A published port
#[derive(Debug, Serialize, JsonSchema)]
struct Port {
    service: String,
    /// The container port
    port: u16,
    protocol: String,
    /// For containers
    inside: String,
    /// For this machine
    host: String,
    url: Option<String>,
}

/// Something that isolation changes
#[derive(Debug, Serialize, JsonSchema)]
struct Isolation {
    /// The rule
    rule: String,
    /// The service, when it is part of one
    service: Option<String>,
    /// Where in the compose model: a JSON pointer (RFC 6901)
    path: String,
    /// As the files have it; null when they have nothing there
    from: serde_json::Value,
    /// As it will run; null when there is nothing
    to: serde_json::Value,
    /// Why
    reason: String,
}

/// A secret that Docker will hold
#[derive(Debug, Serialize, JsonSchema)]
struct Exposed {
    service: String,
    name: String,
}

/// A step
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Step {
    /// Such as `start web`
    step: String,
    cause: String,
}

/// Secrets by reference, everywhere in a value.
fn masked(value: &serde_json::Value) -> serde_json::Value {
    use serde_json::Value;
    match value {
        Value::String(text) => Value::from(crate::commands::shown(text)),
        Value::Array(items) => items.iter().map(masked).collect(),
        Value::Object(map) => map.iter().map(|(key, value)| (crate::commands::shown(key), masked(value))).collect(),
        other => other.clone(),
    }
}

impl From<&StepLine> for Step {
    fn from(line: &StepLine) -> Self {
        Self { step: line.step.clone(), cause: line.cause.clone() }
    }
}

impl From<&PlanReport> for Plan {
    fn from(report: &PlanReport) -> Self {
        let plan = &report.plan;
        let services = plan.services.iter().map(|(name, service)| Service {
            name: name.clone(),
            image: service.compose.image.clone(),
            resource: service.resource.as_ref().map(ToString::to_string),
            replicas: service.replicas,
            after: service.after.keys().cloned().collect(),
        });
        let ports = plan.ports.iter().map(|port| Port {
            service: port.publish.service.clone(),
            port: port.publish.container_port,
            protocol: port.publish.protocol.to_string(),
            inside: port.inside(),
            host: port.host(),
            url: port.url(),
        });
        let isolation = report.isolation.iter().map(|change| Isolation {
            rule: change.rule.to_owned(),
            service: change.service.clone(),
            path: change.path.clone(),
            from: masked(&change.from),
            to: masked(&change.to),
            reason: change.reason.clone(),
        });
        let exposed = plan.exposed.iter().map(|one| Exposed { service: one.service.clone(), name: one.name.clone() });
        Self {
            target: report.target.to_string(),
            revision: report.revision.map(|revision| revision.to_string()),
            project: plan.project.clone(),
            services: services.collect(),
            ports: ports.collect(),
            isolation: isolation.collect(),
            exposed_variables: exposed.collect(),
            steps: report.steps.iter().map(Step::from).collect(),
            warnings: report.told.iter().chain(&report.diagnostics).map(Fault::from).collect(),
        }
    }
}
