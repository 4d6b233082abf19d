//! Copying a volume into a new one, without running anything.
//!
//! Docker has no call for it. Two containers that are never started mount one volume each, of an
//! image with nothing in it, so that nothing fills the new volume first; the daemon packs the one
//! and unpacks into the other. Owners, modes and links are exact.

use std::collections::{BTreeMap, HashMap};

use bollard::Docker;
use bollard::errors::Error as Bollard;
use bollard::models::{ContainerCreateBody, HostConfig, Mount, MountType, VolumeCreateRequest};
use bollard::query_parameters as query;
use futures_util::TryStreamExt as _;

use super::http::encode;

/// The image of the two containers: no file, no layer of anybody's.
const EMPTY: (&str, &str) = ("sidestack-empty", "1");
/// Where both mount their volume.
const AT: &str = "/volume";

/// Makes volume `to` with labels, and copies `from` into it. Without a limit: the caller sets one.
pub(super) async fn run(
    docker: &Docker,
    from: &str,
    to: &str,
    labels: &BTreeMap<String, String>,
) -> Result<(), Bollard> {
    let image = empty_image(docker).await?;
    let all: HashMap<String, String> = labels.iter().map(|(key, value)| (key.clone(), value.clone())).collect();
    let request = VolumeCreateRequest { name: Some(to.to_owned()), labels: Some(all), ..Default::default() };
    docker.create_volume(request).await?;
    // Only the labels that say whose it is: Compose must not take it for one of the project's containers.
    let owned = labels.iter().filter(|(key, _)| key.starts_with("dev.sidestack."));
    let owned: HashMap<String, String> = owned.map(|(key, value)| (key.clone(), value.clone())).collect();
    let source = container(docker, &image, from, true, owned.clone()).await?;
    let target = match container(docker, &image, to, false, owned).await {
        Ok(target) => target,
        Err(error) => {
            let _ = remove(docker, &source).await;
            return Err(error);
        }
    };
    let copied = pipe(docker, &source, &target).await;
    let (one, two) = (remove(docker, &source).await, remove(docker, &target).await);
    copied.and(one).and(two)
}

/// The whole of one container's mount into the other's, as a stream.
async fn pipe(docker: &Docker, source: &str, target: &str) -> Result<(), Bollard> {
    let options = query::DownloadFromContainerOptions { path: format!("{AT}/.") };
    let packed = docker.download_from_container(&encode(source), Some(options));
    let options =
        query::UploadToContainerOptions { path: AT.to_owned(), copy_uidgid: None, no_overwrite_dir_non_dir: None };
    let body = bollard::body_try_stream(packed.map_err(std::io::Error::other));
    docker.upload_to_container(&encode(target), Some(options), body).await
}

async fn empty_image(docker: &Docker) -> Result<String, Bollard> {
    let name = format!("{}:{}", EMPTY.0, EMPTY.1);
    if docker.inspect_image(&name).await.is_ok() {
        return Ok(name);
    }
    let options = query::CreateImageOptions {
        from_src: Some("-".to_owned()),
        repo: Some(EMPTY.0.to_owned()),
        tag: Some(EMPTY.1.to_owned()),
        ..Default::default()
    };
    // An archive of no entries is its two closing blocks.
    let body = bollard::body_full(vec![0_u8; 1024].into());
    docker.create_image(Some(options), Some(body), None).try_collect::<Vec<_>>().await?;
    Ok(name)
}

async fn container(
    docker: &Docker,
    image: &str,
    volume: &str,
    read_only: bool,
    labels: HashMap<String, String>,
) -> Result<String, Bollard> {
    let mount = Mount {
        target: Some(AT.to_owned()),
        source: Some(volume.to_owned()),
        typ: Some(MountType::VOLUME),
        read_only: Some(read_only),
        ..Default::default()
    };
    let body = ContainerCreateBody {
        image: Some(image.to_owned()),
        // It is never run, but Docker wants one.
        cmd: Some(vec!["/none".to_owned()]),
        labels: Some(labels),
        network_disabled: Some(true),
        host_config: Some(HostConfig { mounts: Some(vec![mount]), ..Default::default() }),
        ..Default::default()
    };
    let made = docker.create_container(None::<query::CreateContainerOptions>, body).await?;
    Ok(made.id)
}

async fn remove(docker: &Docker, id: &str) -> Result<(), Bollard> {
    let options = query::RemoveContainerOptions { force: true, ..Default::default() };
    docker.remove_container(&encode(id), Some(options)).await
}
