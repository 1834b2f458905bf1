//! Which of the caller's variables a command in the guest sees.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

/// Variables that speak of the host: its sessions, sockets, terminals, temporary folders, network, open descriptors.
const HOST_ONLY: [&str; 27] = [
    "CARGO_MAKEFLAGS",
    "COLORTERM_BCE",
    "DESKTOP_SESSION",
    "DISPLAY",
    "GPG_AGENT_INFO",
    "HOSTNAME",
    "INVOCATION_ID",
    "JOURNAL_STREAM",
    "KRB5CCNAME",
    "LISTEN_FDNAMES",
    "LISTEN_FDS",
    "LISTEN_PID",
    "LOGNAME",
    "MAIL",
    "MAKEFLAGS",
    "MAKELEVEL",
    "MFLAGS",
    "NOTIFY_SOCKET",
    "STY",
    "TEMP",
    "TMP",
    "TMPDIR",
    "TMUX",
    "TMUX_PANE",
    "USER",
    "WINDOWID",
    "XAUTHORITY",
];
const HOST_ONLY_PREFIXES: [&str; 10] = [
    "DBUS_",
    "GNOME_",
    "SSH_",
    "SUDO_",
    "SYSTEMD_",
    "VTE_",
    "WAYLAND_",
    "XDG_RUNTIME_",
    "XDG_SEAT",
    "XDG_SESSION_",
];
const PROXIES: [&str; 5] = ["http_proxy", "https_proxy", "ftp_proxy", "all_proxy", "no_proxy"];

/// The names above, for the help text.
pub fn removed() -> String {
    let prefixes = HOST_ONLY_PREFIXES.iter().map(|prefix| format!("{prefix}*"));
    let names = HOST_ONLY.iter().chain(&PROXIES).map(|name| (*name).to_owned());
    names.chain(prefixes).collect::<Vec<_>>().join(" ")
}

fn belongs_to_host(name: &OsStr) -> bool {
    let bytes = name.as_bytes();
    HOST_ONLY.iter().any(|only| bytes == only.as_bytes())
        || HOST_ONLY_PREFIXES.iter().any(|prefix| bytes.starts_with(prefix.as_bytes()))
        || PROXIES.iter().any(|proxy| bytes.eq_ignore_ascii_case(proxy.as_bytes()))
}

/// The caller's environment without what belongs to the host, with `added` over it. Commands run as root in the
/// guest, so PATH gets the folders of root's programs.
pub fn for_guest(
    caller: impl IntoIterator<Item = (OsString, OsString)>,
    added: &[(String, OsString)],
) -> Vec<(OsString, OsString)> {
    let replaced = |name: &OsStr| added.iter().any(|(new, _)| name == OsStr::new(new)) || name == "PATH";
    let mut path = OsString::from("/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");
    let mut all = Vec::new();
    for (name, value) in caller {
        if name == "PATH" {
            path = with_root_folders(value);
        } else if !belongs_to_host(&name) && !replaced(&name) {
            all.push((name, value));
        }
    }
    all.push(("PATH".into(), path));
    for (name, value) in [("USER", "root"), ("LOGNAME", "root")] {
        all.push((name.into(), value.into()));
    }
    all.extend(added.iter().map(|(name, value)| (name.into(), value.clone())));
    all
}

/// What has modprobe find the guest's modules, which are not where the machine's own would be, and leave the machine's
/// own configuration alone. It parts this variable's words at blanks, quoted or not; so the folder is named by way of a
/// link without any, which the script that brings the device up makes.
pub const MODPROBE_OPTIONS: &str = "-C /dev/null -d /run/rdma-xrc-kernel";

fn with_root_folders(mut path: OsString) -> OsString {
    for folder in ["/usr/sbin", "/sbin"] {
        if !std::env::split_paths(&path).any(|known| known == std::path::Path::new(folder)) {
            if !path.is_empty() {
                path.push(":");
            }
            path.push(folder);
        }
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    use std::os::unix::ffi::OsStringExt;

    fn guest(caller: &[(&str, &str)]) -> Vec<(OsString, OsString)> {
        let caller = caller.iter().map(|(name, value)| (OsString::from(name), OsString::from(value)));
        for_guest(caller, &[("NODE".to_owned(), "1".into())])
    }

    #[test]
    fn the_hosts_own_stays_behind() {
        let env =
            guest(&[("A", "b"), ("SSH_AUTH_SOCK", "x"), ("TMPDIR", "x"), ("HTTP_PROXY", "x"), ("NODE", "9")]);
        let names: Vec<_> = env.iter().map(|(name, _)| name.to_str().unwrap()).collect();
        assert_eq!(names, ["A", "PATH", "USER", "LOGNAME", "NODE"]);
        assert_eq!(env.last().unwrap().1, "1");
    }

    #[test]
    fn path_is_kept_and_completed() {
        let env = guest(&[("PATH", "/x:/usr/sbin")]);
        assert_eq!(env[0], ("PATH".into(), "/x:/usr/sbin:/sbin".into()));
    }

    #[test]
    fn any_bytes_pass() {
        let odd = OsString::from_vec(vec![0xff]);
        assert_eq!(for_guest([("ODD".into(), odd.clone())], &[])[0], ("ODD".into(), odd));
    }
}
