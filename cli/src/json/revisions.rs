//! `history`, `show`, `diff`.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;
use sidestack_runtime::api::RevisionView;
use sidestack_runtime::look::DiffReport;
use sidestack_topology::revision::Content;

use crate::commands::shown;

/// `history`
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct History {
    revisions: Vec<Revision>,
}

/// A revision
#[derive(Debug, Serialize, JsonSchema)]
struct Revision {
    /// Such as `r3`
    revision: String,
    /// SHA-256 in hex
    digest: String,
    /// RFC 3339
    created: String,
    /// Where its content was seen
    sightings: Vec<Sighting>,
    message: Option<String>,
    /// Instances that are at it
    instances: Vec<String>,
}

/// Where a revision's content was seen
#[derive(Debug, Serialize, JsonSchema)]
struct Sighting {
    branch: Option<String>,
    commit: Option<String>,
    /// Whether there were changes that are in no commit
    dirty: Option<bool>,
    folder: String,
    /// RFC 3339
    seen: String,
}

impl From<&RevisionView> for Revision {
    fn from(view: &RevisionView) -> Self {
        let sightings = view.sightings.iter().map(|one| Sighting {
            branch: one.branch.clone(),
            commit: one.commit.clone(),
            dirty: one.dirty,
            folder: one.folder.display().to_string(),
            seen: one.seen.to_string(),
        });
        Self {
            revision: view.number.to_string(),
            digest: view.digest.clone(),
            created: view.created.to_string(),
            sightings: sightings.collect(),
            message: view.message.clone(),
            instances: view.instances.iter().map(ToString::to_string).collect(),
        }
    }
}

impl From<&[RevisionView]> for History {
    fn from(views: &[RevisionView]) -> Self {
        Self { revisions: views.iter().map(Revision::from).collect() }
    }
}

/// `show`
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Shown {
    #[serde(flatten)]
    revision: Revision,
    /// Its services and their images; null where one is built
    pub(crate) services: BTreeMap<String, Option<String>>,
    /// Its resources and what they ask for
    pub(crate) resources: BTreeMap<String, String>,
    /// Variables of its manifest; secrets by reference
    pub(crate) env: BTreeMap<String, String>,
    /// Who gets the variables of which resources
    pub(crate) inject: BTreeMap<String, Vec<String>>,
    /// Digests of its config files
    pub(crate) files: BTreeMap<String, String>,
    /// Digests of its build contexts
    pub(crate) builds: BTreeMap<String, String>,
    /// The modules whose texts it holds
    pub(crate) modules: Vec<String>,
}

impl From<&(RevisionView, Content)> for Shown {
    fn from((view, content): &(RevisionView, Content)) -> Self {
        let model = content.model.as_ref().and_then(|model| model.get("services")).and_then(Value::as_object);
        let image = |service: &Value| service.get("image").and_then(Value::as_str).map(shown);
        let manifest = &content.manifest;
        let asked = |request: &sidestack_topology::manifest::Request| {
            request.engine.clone().or_else(|| request.capability.clone()).unwrap_or_default()
        };
        Self {
            revision: Revision::from(view),
            services: model.into_iter().flatten().map(|(name, service)| (name.clone(), image(service))).collect(),
            resources: manifest.resources.iter().map(|(name, request)| (name.to_string(), asked(request))).collect(),
            env: manifest.env.iter().map(|(name, value)| (name.clone(), shown(value))).collect(),
            inject: manifest.inject.clone(),
            files: content.files.clone(),
            builds: content.builds.clone(),
            modules: content.modules.keys().cloned().collect(),
        }
    }
}

/// `diff`
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Diff {
    from: String,
    to: String,
    changes: Vec<Change>,
}

/// A difference
#[derive(Debug, Serialize, JsonSchema)]
struct Change {
    /// `resource`, `service`, `image`, `variable`, `port`, `mount`, `build`, `file`, `module`, `network` or `volume`
    kind: String,
    /// Such as `services.web.image`
    path: String,
    /// null when the first has it not
    from: Option<String>,
    /// null when the second has it not
    to: Option<String>,
    /// For variables, the layer
    layer: Option<String>,
}

impl From<&DiffReport> for Diff {
    fn from(report: &DiffReport) -> Self {
        let changes = report.changes.iter().map(|change| Change {
            kind: change.kind.to_string(),
            path: change.path.clone(),
            from: change.from.clone(),
            to: change.to.clone(),
            layer: change.layer.map(|layer| layer.to_string()),
        });
        Self { from: report.from.clone(), to: report.to.clone(), changes: changes.collect() }
    }
}
