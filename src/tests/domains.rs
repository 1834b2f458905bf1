//! XRC domains: the results of opening and closing, each as a kind of its own.

use super::open;
use crate::{ErrorKind, XrcDomain, XrcSupport, verbs::fake::World};
use std::{fs, path::PathBuf};

struct Place {
    _dir: tempfile::TempDir,
    path: PathBuf,
}

fn place() -> Place {
    let dir = tempfile::tempdir().unwrap();
    Place { path: dir.path().join("domain"), _dir: dir }
}

#[test]
fn case_03_a_device_without_xrc_is_named_and_said_to_have_none() {
    let context = open("plain0");
    let place = place();
    for error in [
        context.create_xrc_domain().unwrap_err(),
        context.open_xrc_domain(&place.path).create(true).open().unwrap_err(),
    ] {
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        let text = error.to_string();
        assert!(text.contains("plain0") && text.contains("no XRC"), "{text}");
    }
    assert!(
        matches!(context.xrc_support(), XrcSupport::No { reason } if reason.kind() == ErrorKind::Unsupported)
    );
    assert!(!context.attributes().unwrap().xrc_flag);
}

#[test]
fn case_09_the_probe_opens_a_domain_and_only_two_numbers_mean_no() {
    let context = open("fake0");
    let world = World::of(context.verbs());
    assert!(matches!(context.xrc_support(), XrcSupport::Yes));
    assert_eq!((world.alive(), world.destroyed()), (0, vec!["ibv_close_xrcd"]), "and closes it again");
    for (errno, kind) in [
        (libc::EOPNOTSUPP, ErrorKind::Unsupported),
        (libc::ENOSYS, ErrorKind::Unsupported),
        (libc::ENOMEM, ErrorKind::OutOfMemory),
        (libc::EMFILE, ErrorKind::TooManyOpenFiles),
        (libc::EINVAL, ErrorKind::InvalidInput),
        (libc::EACCES, ErrorKind::PermissionDenied),
    ] {
        world.script("ibv_open_xrcd", [errno]);
        match context.xrc_support() {
            XrcSupport::No { reason } => assert_eq!((reason.kind(), kind), (kind, ErrorKind::Unsupported)),
            XrcSupport::Unknown { reason } => assert_eq!(reason.kind(), kind),
            XrcSupport::Yes => panic!("errno {errno} taken for a yes"),
        }
    }
    // NULL, with errno left alone by the provider: the number of an older call is no reason.
    assert_eq!(context.port(1).map(|port| port.lmc).unwrap(), 0);
    world.script("ibv_open_xrcd", [libc::EBUSY, -1]);
    assert_eq!(context.create_xrc_domain().unwrap_err().kind(), ErrorKind::Busy);
    let error = context.create_xrc_domain().unwrap_err();
    assert_eq!((error.kind(), error.errno()), (ErrorKind::Other, None));
}

#[test]
fn case_18_the_domain_of_a_file() {
    let context = open("fake0");
    let Place { path, _dir } = place();
    let kind = |result: crate::Result<XrcDomain>| {
        let error = result.unwrap_err();
        assert!(error.to_string().contains(path.to_str().unwrap()), "{error} does not name the path");
        error.kind()
    };
    let at = || context.open_xrc_domain(&path);

    assert_eq!(kind(at().open()), ErrorKind::NotFound, "no file");
    fs::write(&path, "").unwrap();
    assert_eq!(kind(at().open()), ErrorKind::NotFound, "a file, and nobody has its domain open");
    assert_eq!(kind(at().exclusive(true).open()), ErrorKind::NotFound);

    let first = at().create(true).exclusive(true).open().unwrap();
    let second = at().open().unwrap();
    assert_eq!(kind(at().exclusive(true).open()), ErrorKind::AlreadyExists);
    assert_eq!(kind(at().create(true).exclusive(true).open()), ErrorKind::AlreadyExists);
    at().create(true).open().unwrap().close().unwrap();

    let target = second.create_target().unwrap();
    let (second, error) = second.close().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Busy);
    assert!(error.to_string().contains(path.to_str().unwrap()), "{error}");
    drop(target);
    second.close().unwrap();
    first.close().unwrap();
    assert_eq!(kind(at().open()), ErrorKind::NotFound, "the last holder has gone");

    let world = World::of(context.verbs());
    world.script("ibv_open_xrcd", [libc::EBADF, libc::EINVAL]);
    assert_eq!(kind(at().create(true).open()), ErrorKind::BadDescriptor);
    assert_eq!(kind(at().create(true).open()), ErrorKind::InvalidInput, "EINVAL without exclusive");
}

#[test]
fn a_missing_file_is_created_with_the_mode_asked_for() {
    use std::os::unix::fs::PermissionsExt;
    let context = open("fake0");
    for (mode, expected) in [(None, 0o600), (Some(0o640), 0o640)] {
        let Place { path, _dir } = place();
        let options = context.open_xrc_domain(&path).create(true);
        let options = mode.into_iter().fold(options, |options, mode| options.mode(mode));
        options.open().unwrap();
        // The umask takes from what was asked for, and nobody's takes from 0600.
        let found = fs::metadata(&path).unwrap().permissions().mode() & 0o777;
        assert_eq!(found & 0o600, 0o600, "{found:o}");
        assert_eq!(found & !expected, 0, "{found:o} allows more than {expected:o}");
    }
}

#[test]
fn what_is_no_regular_file_has_no_domain() {
    let Place { path, _dir } = place();
    let (fifo, link) = (path.with_extension("fifo"), path.with_extension("link"));
    assert!(std::process::Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    fs::write(&path, "").unwrap();
    std::os::unix::fs::symlink(&path, &link).unwrap();
    // On a thread of its own: opening a FIFO would wait for somebody who writes.
    let (done, finished) = std::sync::mpsc::channel();
    let worker = std::thread::spawn(move || {
        let context = open("fake0");
        let dir = fifo.parent().unwrap();
        for (path, create, reason) in [
            (fifo.as_path(), true, "no regular file"),
            (fifo.as_path(), false, "no regular file"),
            (dir, false, "no regular file"),
            (std::path::Path::new("/dev/null"), false, "no regular file"),
            (link.as_path(), true, "symbolic link"),
        ] {
            let error = context.open_xrc_domain(path).create(create).open().unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
            let text = error.to_string();
            assert!(text.contains(reason) && text.contains(path.to_str().unwrap()), "{text}");
        }
        let _held = context.open_xrc_domain(&path).create(true).open().unwrap();
        context.open_xrc_domain(&link).open().expect("a link is followed where nothing is created");
        done.send(()).unwrap();
    });
    let waited = finished.recv_timeout(std::time::Duration::from_secs(20));
    assert_ne!(waited, Err(std::sync::mpsc::RecvTimeoutError::Timeout), "opening a FIFO waits");
    worker.join().unwrap();
}
