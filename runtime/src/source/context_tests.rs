use super::*;

use std::os::unix::fs::{PermissionsExt, symlink};

fn write(root: &Path, name: &str, text: &str) {
    let path = root.join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

fn digest(root: &Path) -> String {
    Folder::context(root, None).digest(&Memo::default(), &mut Memo::default()).unwrap().1
}

#[test]
fn the_digest_is_over_what_the_builder_gets() {
    let (one, two) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let fill = |root: &Path| {
        write(root, "Dockerfile", "FROM x");
        write(root, "src/a", "a");
        write(root, ".dockerignore", "*.log\nnode_modules\n!node_modules/kept\n");
        write(root, "x.log", "noise");
        write(root, "node_modules/kept", "kept");
        write(root, "node_modules/dropped", "dropped");
        write(root, ".git/HEAD", "ref");
        symlink("src/a", root.join("link")).unwrap();
    };
    fill(one.path());
    fill(two.path());
    let before = digest(one.path());
    assert_eq!(before, digest(two.path()));
    write(two.path(), "x.log", "other noise");
    write(two.path(), "node_modules/dropped", "other");
    write(two.path(), ".git/HEAD", "other");
    assert_eq!(before, digest(two.path()));

    type Change = (&'static str, fn(&Path));
    let changes: [Change; 7] = [
        ("content", |root| write(root, "src/a", "b")),
        ("a kept file", |root| write(root, "node_modules/kept", "b")),
        ("a new file", |root| write(root, "new", "")),
        ("a file's name", |root| {
            fs::rename(root.join("src/a"), root.join("src/b")).unwrap();
        }),
        ("an executable bit", |root| {
            fs::set_permissions(root.join("src/a"), fs::Permissions::from_mode(0o755)).unwrap();
        }),
        ("a link's target", |root| {
            fs::remove_file(root.join("link")).unwrap();
            symlink("src/c", root.join("link")).unwrap();
        }),
        ("an empty folder", |root| {
            fs::create_dir(root.join("empty")).unwrap();
        }),
    ];
    for (what, change) in changes {
        let dir = tempfile::tempdir().unwrap();
        fill(dir.path());
        assert_eq!(before, digest(dir.path()));
        change(dir.path());
        assert_ne!(before, digest(dir.path()), "{what}");
    }
}

#[test]
fn the_dockerfile_s_own_ignore_file_goes_first() {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), ".dockerignore", "a\n");
    write(dir.path(), "dev.Dockerfile.dockerignore", "b\n");
    write(dir.path(), "a", "");
    write(dir.path(), "b", "");
    let names = |dockerfile: &str| {
        let folder = Folder::context(dir.path(), Some(&dir.path().join(dockerfile)));
        let entries = folder.entries().unwrap();
        entries.into_iter().map(|e| e.path.display().to_string()).filter(|n| n.len() == 1).collect::<Vec<_>>()
    };
    assert_eq!(names("Dockerfile"), ["b"]);
    assert_eq!(names("dev.Dockerfile"), ["a"]);
}

#[test]
fn files_are_remembered_once_they_have_settled() {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), "a", "one");
    let folder = Folder::whole(dir.path());
    let mut memo = Memo::default();
    let fresh = folder.digest(&Memo::default(), &mut memo).unwrap();
    assert!(memo.files.is_empty(), "a fresh file could still change unseen");
    std::thread::sleep(UNSETTLED + TICK * 5);
    assert_eq!(folder.digest(&Memo::default(), &mut memo).unwrap(), fresh);
    assert_eq!(memo.files.len(), 1);
    // The memory is used: a wrong one gives a wrong digest.
    let mut wrong = memo.clone();
    wrong.files.values_mut().for_each(|(_, digest)| *digest = "0".repeat(64));
    assert_ne!(folder.digest(&wrong, &mut Memo::default()).unwrap().1, fresh.1);
    // And not used for a file that is another, whatever its size and time.
    let time = fs::metadata(dir.path().join("a")).unwrap().modified().unwrap();
    write(dir.path(), "a", "two");
    File::options().write(true).open(dir.path().join("a")).unwrap().set_modified(time).unwrap();
    let (fingerprint, digest) = folder.digest(&memo, &mut Memo::default()).unwrap();
    assert!(fingerprint != fresh.0 && digest != fresh.1);
    let text = serde_json::to_string(&memo).unwrap();
    assert_eq!(serde_json::from_str::<Memo>(&text).unwrap(), memo);
}

#[test]
fn a_folder_that_is_none_is_named_and_an_absent_one_is_noticed() {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), "file", "");
    let error = Folder::whole(&dir.path().join("file")).fingerprint().unwrap_err().to_string();
    assert!(error.starts_with("cannot read `") && error.contains("file"), "{error}");
    let later = dir.path().join("later");
    let absent = Folder::whole(&later).digest(&Memo::default(), &mut Memo::default()).unwrap();
    assert_eq!(absent, (ABSENT.to_owned(), ABSENT.to_owned()));
    fs::create_dir(&later).unwrap();
    assert_ne!(Folder::whole(&later).fingerprint().unwrap(), ABSENT);
}
