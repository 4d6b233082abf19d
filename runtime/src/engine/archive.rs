//! Tar archives in memory, for files that are put into a container before it starts.
//!
//! The archives hold regular files only, under their full paths: Docker makes missing parents
//! itself, and leaves those that exist as they are. Equal entries give equal bytes.

use super::EngineError;

/// A file to be put into a container.
#[derive(Clone, PartialEq, Eq)]
pub struct FileEntry {
    /// Absolute path in the container.
    pub path: String,
    /// Permission bits, such as `0o444`.
    pub mode: u32,
    /// Numeric owner.
    pub uid: u64,
    /// Numeric group.
    pub gid: u64,
    /// Any bytes; often a secret.
    pub content: Vec<u8>,
}

/// Content is left out: it may be a secret.
impl std::fmt::Debug for FileEntry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FileEntry")
            .field("path", &self.path)
            .field("mode", &format_args!("{:04o}", self.mode))
            .field("uid", &self.uid)
            .field("gid", &self.gid)
            .field("bytes", &self.content.len())
            .finish()
    }
}

/// An archive to be unpacked at `/`: full paths without the leading slash, time stamp 0.
///
/// A path that is not absolute, names no file or climbs (`..`) is [`EngineError::Invalid`].
pub fn tar(entries: &[FileEntry]) -> Result<Vec<u8>, EngineError> {
    let room = entries.iter().map(|entry| entry.content.len() + 2048).sum();
    let mut builder = tar::Builder::new(Vec::with_capacity(room));
    for entry in entries {
        let bad = |why: &str| EngineError::Invalid { what: format!("path `{}` in a container {why}", entry.path) };
        let path = entry.path.strip_prefix('/').ok_or_else(|| bad("is not absolute"))?;
        if path.is_empty() || path.ends_with('/') {
            return Err(bad("names no file"));
        }
        if path.split('/').any(|part| part == ".." || part == ".") || path.contains('\0') {
            return Err(bad("is not a plain path"));
        }
        let mut header = tar::Header::new_gnu();
        header.set_entry_type(tar::EntryType::Regular);
        header.set_mode(entry.mode & 0o7777);
        header.set_uid(entry.uid);
        header.set_gid(entry.gid);
        header.set_mtime(0);
        header.set_size(entry.content.len() as u64);
        builder
            .append_data(&mut header, path, entry.content.as_slice())
            .map_err(|e| bad(&format!("cannot be archived: {e}")))?;
    }
    builder.into_inner().map_err(|e| EngineError::Invalid { what: format!("the archive cannot be written: {e}") })
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use super::*;

    fn entry(path: &str, content: &[u8]) -> FileEntry {
        FileEntry { path: path.to_owned(), mode: 0o440, uid: 70, gid: 7_000_000, content: content.to_vec() }
    }

    #[test]
    fn what_goes_in_comes_out() {
        let long = format!("/run/secrets/{}", "x".repeat(180));
        let entries = [entry("/run/secrets/a", b"\0\xff\n"), entry(&long, b"long"), entry("/cfg", b"")];
        let bytes = tar(&entries).expect("an archive");
        assert_eq!(bytes, tar(&entries).expect("the same archive"));
        let mut archive = tar::Archive::new(bytes.as_slice());
        let mut seen = Vec::new();
        for file in archive.entries().expect("entries") {
            let mut file = file.expect("a readable entry");
            let header = file.header();
            assert_eq!(header.mode().expect("mode"), 0o440);
            assert_eq!((header.uid().expect("uid"), header.gid().expect("gid")), (70, 7_000_000));
            assert_eq!(header.mtime().expect("mtime"), 0);
            let path = file.path().expect("path").to_string_lossy().into_owned();
            let mut content = Vec::new();
            file.read_to_end(&mut content).expect("content");
            seen.push((format!("/{path}"), content));
        }
        let wanted: Vec<_> = entries.iter().map(|e| (e.path.clone(), e.content.clone())).collect();
        assert_eq!(seen, wanted);
    }

    #[test]
    fn paths_that_could_land_elsewhere_are_refused() {
        for bad in ["relative", "/", "/a/", "/a/../etc/passwd", "/..", "/./a", ""] {
            assert!(tar(&[entry(bad, b"x")]).is_err(), "{bad}");
        }
    }

    #[test]
    fn debug_output_hides_the_content() {
        assert!(!format!("{:?}", entry("/a", b"hunter2")).contains("hunter2"));
    }
}
