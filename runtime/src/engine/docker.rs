//! [`Engine`] over the Docker Engine API, 1.41 (Engine 20.10) and newer.
//!
//! Unary calls go through `bollard`; what needs an answer's head or its exact end goes through
//! [`super::http`] and [`super::streams`]. Each request has a connection of its own. The first
//! call asks `/_ping` for the API version and keeps it for this value's lifetime: a daemon that
//! is replaced by an older one in between answers with an error, not with nonsense.

use std::collections::{BTreeMap, HashMap};
use std::error::Error as _;
use std::future::Future;
use std::time::Duration;

use bollard::errors::Error as Bollard;
use bollard::query_parameters as query;
use bollard::{ClientVersion, Docker};
use tokio::sync::OnceCell;

use super::http::{Endpoint, encode};
use super::{
    Container, Daemon, Detail, Engine, EngineError, EventStream, ExecOutcome, ExecRequest, Image, LogRequest,
    LogStream, Network, PortHolder, Volume, convert, streams,
};

/// For calls that only look something up or change a record.
const QUICK: Duration = Duration::from_secs(10);
/// For calls that set up or tear down: mounts, networks, archives, layers.
const SLOW: Duration = Duration::from_secs(60);
/// For walking the volumes' file systems.
const WALK: Duration = Duration::from_secs(120);

/// How often a container that ends while it is updated is updated again, and after how long.
const ENDINGS: u32 = 10;
const ENDING: Duration = Duration::from_millis(50);

/// The oldest API that is spoken.
const OLDEST: (u32, u32) = (1, 41);
/// The newest API that the client library knows.
const NEWEST: (u32, u32) = (1, 53);

/// A Docker daemon, reached at first use.
#[derive(Debug)]
pub struct DockerEngine {
    endpoint: Endpoint,
    quick: Duration,
    ready: OnceCell<Ready>,
}

#[derive(Debug)]
struct Ready {
    docker: Docker,
    api: (u32, u32),
}

impl DockerEngine {
    /// An engine at `unix:///path` or `tcp://host:port`. Nothing is sent yet.
    pub fn connect(host: &str) -> Result<Self, EngineError> {
        Ok(Self { endpoint: Endpoint::parse(host)?, quick: QUICK, ready: OnceCell::new() })
    }

    /// The same engine with another limit for quick calls (10 s by default).
    #[must_use]
    pub fn with_limit(mut self, limit: Duration) -> Self {
        self.quick = limit;
        self
    }

    /// The endpoint as `DOCKER_HOST` would say it.
    pub fn host(&self) -> String {
        self.endpoint.name()
    }

    async fn ready(&self) -> Result<&Ready, EngineError> {
        self.ready.get_or_try_init(|| self.negotiate()).await
    }

    async fn negotiate(&self) -> Result<Ready, EngineError> {
        let mut response = self.endpoint.get("/_ping", "its version", self.quick).await?;
        let api = response.header("api-version").and_then(parse_api).ok_or_else(|| EngineError::Api {
            status: 0,
            message: "what listens there is no Docker daemon: `/_ping` names no API version".to_owned(),
        })?;
        // Read to the end, so that a daemon does not log a broken pipe.
        let _ = tokio::time::timeout(self.quick, response.body.collect()).await;
        if api < OLDEST {
            return Err(EngineError::TooOld {
                found: format!("docker API {}.{}", api.0, api.1),
                needed: format!("API {}.{} (Engine 20.10)", OLDEST.0, OLDEST.1),
            });
        }
        let api = api.min(NEWEST);
        let version = ClientVersion { major_version: api.0 as usize, minor_version: api.1 as usize };
        // Every call has its own limit here; the library's only has to be longer than all of them.
        let library_limit = 7 * 24 * 3600;
        let name = self.endpoint.name();
        let docker = match &self.endpoint {
            #[cfg(unix)]
            Endpoint::Unix(_) => Docker::connect_with_unix(&name, library_limit, &version),
            #[cfg(not(unix))]
            Endpoint::Unix(_) => Err(Bollard::UnsupportedURISchemeError { uri: name.clone() }),
            Endpoint::Tcp(_) => Docker::connect_with_http(&name, library_limit, &version),
        };
        let docker =
            docker.map_err(|e| self.explain(e, "the connection"))?.with_request_modifier(move |mut request| {
                if let Some(uri) = versioned(&request.uri().to_string(), api)
                    && let Ok(uri) = uri.parse()
                {
                    *request.uri_mut() = uri;
                }
                request
            });
        Ok(Ready { docker, api })
    }

    /// The names of the containers that use a network or a volume; with `all`, also of those that do not run.
    async fn users(&self, (kind, id): (&str, &str), all: bool) -> Result<Vec<String>, EngineError> {
        let docker = &self.ready().await?.docker;
        let filters = Some(HashMap::from([(kind.to_owned(), vec![id.to_owned()])]));
        let options = query::ListContainersOptions { all, filters, ..Default::default() };
        let what = format!("the containers that use {kind} `{id}`");
        let list = self.call(&what, self.quick, docker.list_containers(Some(options))).await?;
        let names = list.into_iter().filter_map(|one| one.names?.into_iter().next());
        Ok(names.map(|name| name.trim_start_matches('/').to_owned()).collect())
    }

    /// Something cannot go because somebody uses it: who that is, where Docker can tell.
    async fn held(&self, what: String, message: String, used: (&str, &str)) -> EngineError {
        let users = self.users(used, true).await.unwrap_or_default();
        let names: Vec<String> = users.iter().map(|name| format!("`{name}`")).collect();
        let message = match names.as_slice() {
            [] => message,
            [one] => format!("the container {one} uses it"),
            several => format!("the containers {} use it", several.join(", ")),
        };
        EngineError::Conflict { what, message }
    }

    /// Awaits a call of the library within a limit.
    async fn call<T>(
        &self,
        what: &str,
        limit: Duration,
        call: impl Future<Output = Result<T, Bollard>>,
    ) -> Result<T, EngineError> {
        match tokio::time::timeout(limit, call).await {
            Ok(Ok(value)) => Ok(value),
            Ok(Err(error)) => Err(self.explain(error, what)),
            Err(_) => Err(EngineError::Hung { what: what.to_owned(), after: limit }),
        }
    }

    fn explain(&self, error: Bollard, what: &str) -> EngineError {
        match error {
            Bollard::DockerResponseServerError { status_code, message } => {
                EngineError::from_answer(status_code, &message, what)
            }
            Bollard::RequestTimeoutError => EngineError::Hung { what: what.to_owned(), after: self.quick },
            Bollard::SocketNotFoundError(path) => self.endpoint.unreachable(format!("no socket at `{path}`")),
            Bollard::HyperLegacyError { .. } | Bollard::HyperResponseError { .. } | Bollard::IOError { .. } => {
                self.endpoint.unreachable(innermost(&error))
            }
            other => {
                EngineError::Api { status: 0, message: format!("the answer about {what} makes no sense: {other}") }
            }
        }
    }

    async fn list(&self, filter: Option<&str>) -> Result<Vec<bollard::models::ContainerSummary>, EngineError> {
        let docker = &self.ready().await?.docker;
        let options = query::ListContainersOptions { all: true, filters: filter.map(label), ..Default::default() };
        self.call("the list of containers", self.quick, docker.list_containers(Some(options))).await
    }
}

/// Puts the API version into a request's address. `bollard` 0.21 means to and then drops it again
/// (it joins an absolute path), and a daemon answers a request without one in its newest shape.
fn versioned(uri: &str, api: (u32, u32)) -> Option<String> {
    let (scheme, rest) = uri.split_once("://")?;
    let (authority, path) = rest.split_once('/')?;
    let prefix = format!("v{}.{}/", api.0, api.1);
    (!path.starts_with(&prefix)).then(|| format!("{scheme}://{authority}/{prefix}{path}"))
}

fn parse_api(text: &str) -> Option<(u32, u32)> {
    let (major, minor) = text.split_once('.')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

fn label(filter: &str) -> HashMap<String, Vec<String>> {
    HashMap::from([("label".to_owned(), vec![filter.to_owned()])])
}

/// The last cause in a chain: the client library's own texts say only "client error (Connect)".
fn innermost(error: &Bollard) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(inner) = source {
        text = inner.to_string();
        source = inner.source();
    }
    text
}

fn gone_is_done(result: Result<(), EngineError>) -> Result<(), EngineError> {
    match result {
        Err(EngineError::NotFound { .. } | EngineError::ImageMissing { .. }) => Ok(()),
        other => other,
    }
}

impl Engine for DockerEngine {
    async fn daemon(&self) -> Result<Daemon, EngineError> {
        let ready = self.ready().await?;
        let info = self.call("its identity", self.quick, ready.docker.info()).await?;
        let security = info.security_options.unwrap_or_default();
        Ok(Daemon {
            id: info.id.unwrap_or_default(),
            version: info.server_version.unwrap_or_default(),
            api: ready.api,
            root_dir: info.docker_root_dir.unwrap_or_default(),
            os_type: info.os_type.unwrap_or_default(),
            rootless: security.iter().any(|option| option.contains("rootless")),
        })
    }

    async fn containers(&self, label_filter: &str) -> Result<Vec<Container>, EngineError> {
        let list = self.list(Some(label_filter)).await?;
        Ok(list.into_iter().map(convert::container).collect())
    }

    async fn published(&self) -> Result<Vec<PortHolder>, EngineError> {
        let list = self.list(None).await?.into_iter().map(convert::container);
        Ok(list
            .flat_map(|container| {
                let Container { published, name, project, .. } = container;
                published.into_iter().map(move |port| (port, name.clone(), project.clone()))
            })
            .collect())
    }

    async fn networks(&self, label_filter: Option<&str>) -> Result<Vec<Network>, EngineError> {
        let docker = &self.ready().await?.docker;
        let options = query::ListNetworksOptions { filters: label_filter.map(label) };
        let list = self.call("the list of networks", self.quick, docker.list_networks(Some(options))).await?;
        Ok(list.into_iter().map(convert::network).collect())
    }

    async fn volumes(&self, label_filter: Option<&str>) -> Result<Vec<Volume>, EngineError> {
        let docker = &self.ready().await?.docker;
        let options = query::ListVolumesOptions { filters: label_filter.map(label) };
        let list = self.call("the list of volumes", self.quick, docker.list_volumes(Some(options))).await?;
        Ok(list.volumes.unwrap_or_default().into_iter().map(convert::volume).collect())
    }

    async fn volume_sizes(&self) -> Result<BTreeMap<String, i64>, EngineError> {
        // By hand: the library knows only the answer's newest shape.
        let (major, minor) = self.ready().await?.api;
        let only = if (major, minor) >= (1, 42) { "?type=volume" } else { "" };
        let path = format!("/v{major}.{minor}/system/df{only}");
        let what = "the sizes of volumes";
        let mut response = self.endpoint.get(&path, what, WALK).await?;
        let body = response.body.collect().await.map_err(|e| self.endpoint.unreachable(e.to_string()))?;
        let json: serde_json::Value = serde_json::from_slice(&body).map_err(|e| EngineError::Api {
            status: 0,
            message: format!("the answer about {what} makes no sense: {e}"),
        })?;
        let rows = json["Volumes"].as_array().or_else(|| json["VolumeUsage"]["Items"].as_array());
        Ok(rows
            .into_iter()
            .flatten()
            .filter_map(|row| {
                let size = row["UsageData"]["Size"].as_i64().filter(|size| *size >= 0)?;
                Some((row["Name"].as_str()?.to_owned(), size))
            })
            .collect())
    }

    async fn inspect(&self, id: &str) -> Result<Detail, EngineError> {
        let docker = &self.ready().await?.docker;
        let what = format!("container `{id}`");
        let options = None::<query::InspectContainerOptions>;
        let found = self.call(&what, self.quick, docker.inspect_container(&encode(id), options)).await?;
        Ok(convert::detail(found))
    }

    async fn start(&self, id: &str) -> Result<(), EngineError> {
        let docker = &self.ready().await?.docker;
        let what = format!("container `{id}`");
        let options = None::<query::StartContainerOptions>;
        self.call(&what, SLOW, docker.start_container(&encode(id), options)).await
    }

    async fn stop(&self, id: &str, grace: Option<u32>) -> Result<(), EngineError> {
        let docker = &self.ready().await?.docker;
        let what = format!("the stop of container `{id}`");
        let (t, wait) = match grace {
            Some(seconds) => (i32::try_from(seconds).ok(), u64::from(seconds)),
            None => {
                let own = self.inspect(id).await?.stop_timeout.unwrap_or(10);
                // A negative timeout means: wait for ever. We do not.
                (None, u64::try_from(own).unwrap_or(3600))
            }
        };
        let options = query::StopContainerOptions { signal: None, t };
        let limit = self.quick + Duration::from_secs(wait);
        self.call(&what, limit, docker.stop_container(&encode(id), Some(options))).await
    }

    async fn kill(&self, id: &str) -> Result<(), EngineError> {
        let docker = &self.ready().await?.docker;
        let what = format!("container `{id}`");
        let options = query::KillContainerOptions { signal: "KILL".to_owned() };
        match self.call(&what, self.quick, docker.kill_container(&encode(id), Some(options))).await {
            Err(EngineError::Conflict { message, .. }) if message.contains("is not running") => Ok(()),
            other => other,
        }
    }

    async fn pause(&self, id: &str) -> Result<(), EngineError> {
        let docker = &self.ready().await?.docker;
        let what = format!("container `{id}`");
        self.call(&what, self.quick, docker.pause_container(&encode(id))).await
    }

    async fn unpause(&self, id: &str) -> Result<(), EngineError> {
        let docker = &self.ready().await?.docker;
        let what = format!("container `{id}`");
        self.call(&what, self.quick, docker.unpause_container(&encode(id))).await
    }

    async fn rename(&self, id: &str, name: &str) -> Result<(), EngineError> {
        let docker = &self.ready().await?.docker;
        let what = format!("container name `{name}`");
        let options = query::RenameContainerOptions { name: name.to_owned() };
        self.call(&what, self.quick, docker.rename_container(&encode(id), options)).await
    }

    async fn remove(&self, id: &str, force: bool, anonymous_volumes: bool) -> Result<(), EngineError> {
        let docker = &self.ready().await?.docker;
        let what = format!("container `{id}`");
        let options = query::RemoveContainerOptions { v: anonymous_volumes, force, link: false };
        let removal = self.call(&what, SLOW, docker.remove_container(&encode(id), Some(options))).await;
        match gone_is_done(removal) {
            // Somebody else removes it: done once it is gone, so that its network can go next.
            Err(EngineError::Conflict { message, .. }) if message.contains("already in progress") => {
                let begun = tokio::time::Instant::now();
                while begun.elapsed() < SLOW {
                    match self.inspect(id).await {
                        Err(EngineError::NotFound { .. }) => return Ok(()),
                        Err(other) => return Err(other),
                        Ok(_) => tokio::time::sleep(Duration::from_millis(50)).await,
                    }
                }
                Err(EngineError::Hung { what: format!("the removal of {what}"), after: SLOW })
            }
            other => other,
        }
    }

    async fn set_restart_policy(&self, id: &str, policy: &str) -> Result<(), EngineError> {
        let docker = &self.ready().await?.docker;
        let Some(restart_policy) = convert::parse_restart_policy(policy) else {
            return Err(EngineError::Invalid { what: format!("`{policy}` is no restart policy") });
        };
        let what = format!("container `{id}`");
        let body = bollard::models::ContainerUpdateBody { restart_policy: Some(restart_policy), ..Default::default() };
        // Docker asks runc to update what it takes to run, and refuses when that has ended meanwhile: of one whose end
        // it knows, it changes the record alone.
        let mut left = ENDINGS;
        loop {
            match self.call(&what, self.quick, docker.update_container(&encode(id), body.clone())).await {
                Err(EngineError::Api { status: 500, .. }) if left > 0 => {
                    left -= 1;
                    tokio::time::sleep(ENDING).await;
                }
                result => return result,
            }
        }
    }

    async fn put_archive(&self, id: &str, path: &str, tar: Vec<u8>) -> Result<(), EngineError> {
        let docker = &self.ready().await?.docker;
        let what = format!("path `{path}` in container `{id}`");
        let options = query::UploadToContainerOptions {
            path: path.to_owned(),
            // Owners are the numbers in the archive, never names looked up in the container.
            copy_uidgid: None,
            no_overwrite_dir_non_dir: None,
        };
        let body = bollard::body_full(tar.into());
        self.call(&what, SLOW, docker.upload_to_container(&encode(id), Some(options), body)).await
    }

    async fn exec(&self, id: &str, request: &ExecRequest) -> Result<ExecOutcome, EngineError> {
        let docker = &self.ready().await?.docker;
        let program = request.cmd.first().map_or("", String::as_str);
        let what = format!("`{program}` in container `{id}`");
        match tokio::time::timeout(request.limit, super::exec::run(docker, id, request)).await {
            Ok(Ok(outcome)) => Ok(outcome),
            Ok(Err(error)) => Err(self.explain(error, &what)),
            Err(_) => Err(EngineError::Hung { what, after: request.limit }),
        }
    }

    async fn subscribe(&self, label_filter: &str) -> Result<EventStream, EngineError> {
        let api = self.ready().await?.api;
        streams::events(&self.endpoint, api, label_filter, self.quick).await
    }

    fn logs(&self, id: &str, request: &LogRequest) -> LogStream {
        // The stream outlives the borrow, so it negotiates for itself when nobody has before.
        let fresh = Self {
            endpoint: self.endpoint.clone(),
            quick: self.quick,
            ready: match self.ready.get() {
                Some(ready) => OnceCell::new_with(Some(Ready { docker: ready.docker.clone(), api: ready.api })),
                None => OnceCell::new(),
            },
        };
        let (id, request) = (id.to_owned(), *request);
        let open = async move {
            let tty = fresh.inspect(&id).await?.tty;
            let api = fresh.ready().await?.api;
            streams::logs(&fresh.endpoint, api, &id, tty, request, fresh.quick).await
        };
        Box::pin(futures_util::TryFutureExt::try_flatten_stream(open))
    }

    async fn image(&self, name: &str) -> Result<Option<Image>, EngineError> {
        let docker = &self.ready().await?.docker;
        let what = format!("image `{name}`");
        match self.call(&what, self.quick, docker.inspect_image(name)).await {
            Ok(found) => Ok(Some(convert::image(found))),
            Err(EngineError::ImageMissing { .. } | EngineError::NotFound { .. }) => Ok(None),
            Err(other) => Err(other),
        }
    }

    async fn tag(&self, image: &str, repository: &str, tag: &str) -> Result<(), EngineError> {
        let docker = &self.ready().await?.docker;
        let what = format!("image `{image}`");
        let options = query::TagImageOptions { repo: Some(repository.to_owned()), tag: Some(tag.to_owned()) };
        self.call(&what, self.quick, docker.tag_image(image, Some(options))).await
    }

    async fn volume_user(&self, volume: &str) -> Result<Option<String>, EngineError> {
        Ok(self.users(("volume", volume), false).await?.into_iter().next())
    }

    async fn copy_volume(
        &self,
        from: &str,
        to: &str,
        labels: &BTreeMap<String, String>,
        limit: Duration,
    ) -> Result<(), EngineError> {
        // The pipe needs a client that waits as long as the copy takes.
        let docker = self.ready().await?.docker.clone().with_timeout(limit);
        let what = format!("the copy of volume `{from}`");
        self.call(&what, limit, super::copy::run(&docker, from, to, labels)).await
    }

    async fn remove_image(&self, name: &str) -> Result<(), EngineError> {
        let docker = &self.ready().await?.docker;
        let what = format!("image `{name}`");
        let options = None::<query::RemoveImageOptions>;
        let removal = self.call(&what, SLOW, docker.remove_image(name, options, None)).await;
        gone_is_done(removal.map(|_| ()))
    }

    async fn remove_network(&self, id: &str) -> Result<(), EngineError> {
        let docker = &self.ready().await?.docker;
        let what = format!("network `{id}`");
        // 403 stands for "has active endpoints" up to API 1.47 or so, 409 later.
        let removal = match self.call(&what, SLOW, docker.remove_network(&encode(id))).await {
            Err(EngineError::Api { status: 403, message } | EngineError::Conflict { message, .. }) => {
                Err(self.held(what, message, ("network", id)).await)
            }
            Err(EngineError::NotConnected { .. }) => Ok(()),
            other => other,
        };
        gone_is_done(removal)
    }

    async fn remove_volume(&self, name: &str) -> Result<(), EngineError> {
        let docker = &self.ready().await?.docker;
        let what = format!("volume `{name}`");
        let options = None::<query::RemoveVolumeOptions>;
        let removal = match self.call(&what, SLOW, docker.remove_volume(&encode(name), options)).await {
            Err(EngineError::Conflict { message, .. }) => Err(self.held(what, message, ("volume", name)).await),
            other => other,
        };
        gone_is_done(removal)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_request_names_the_version() {
        let versioned = |uri| versioned(uri, (1, 41));
        assert_eq!(
            versioned("unix://2f78/containers/json?all=true").as_deref(),
            Some("unix://2f78/v1.41/containers/json?all=true")
        );
        assert_eq!(versioned("http://box:2375/v1.41/info"), None);
    }

    #[test]
    fn versions_are_compared_as_numbers() {
        assert_eq!(parse_api("1.9"), Some((1, 9)));
        assert!(parse_api("1.9") < parse_api("1.41"));
        assert_eq!(parse_api("new"), None);
    }
}
