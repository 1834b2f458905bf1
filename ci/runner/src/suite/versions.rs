//! The same device under other software: a choice of the tests, in guests with another Linux or another rdma-core.

use std::ffi::OsString;

use anyhow::{Result, ensure};

use super::{Other, Scene, Tally, Test, crate_tests, drivers, pyverbs, tools};
use crate::cli::Common;
use crate::device::Device;
use crate::host::{Versions, kernel, rdma_core};
use crate::lab::{Ending, Lab};

/// How these tests' names begin.
const PREFIX: &str = "versions";

/// Other software than what the user asked for: each takes one boot.
fn others(common: &Common) -> Vec<Other> {
    let [oldest, later] = &kernel::KNOWN;
    let [release, _] = &rdma_core::KNOWN;
    [
        (later.bundle.what, Versions { kernel: kernel::Wish::Known(later), rdma_core: rdma_core::Wish::Own }),
        (
            release.bundle.what,
            Versions { kernel: kernel::Wish::Known(oldest), rdma_core: rdma_core::Wish::Known(release) },
        ),
    ]
    .into_iter()
    .filter(|(_, versions)| *versions != common.versions())
    .map(|(what, versions)| Other { group: format!("{PREFIX}/{what}"), versions })
    .collect()
}

/// One of each kind.
const TOOLS: [&str; 4] =
    ["tools/ibv_devinfo", "tools/ibv_xsrq_pingpong", "tools/ib_send_lat", "tools/ib_atomic_bw"];

/// All of rdma-core's own tests: minutes, and what may skip is listed for the oldest rdma-core's. So they run under
/// each kernel and not under each rdma-core.
const WHOLE: &str = "pyverbs/whole";

fn choice(device: Device, versions: &Versions) -> Vec<Test> {
    let mut tests = vec![Test::guest("software", 60, software)];
    tests.extend(tools::tests(device).into_iter().filter(|test| TOOLS.contains(&test.name.as_str())));
    let own = versions.rdma_core == rdma_core::Wish::Own;
    tests.extend(pyverbs::tests().into_iter().filter(|test| own || test.name != WHOLE));
    tests.extend(crate_tests::tests());
    tests.extend(drivers::tests());
    tests
}

/// Waits in the guest until a program of ours has loaded the provider, and shows what it has mapped.
const MAPS: &str = "\
    \"$@\" & pid=$!
    n=0
    until grep -q libmlx5 /proc/$pid/maps; do
        n=$((n + 1))
        [ $n -lt 400 ] || exit 9
        sleep 0.05
    done
    cat /proc/$pid/maps
    kill $pid";

/// The guest runs the kernel that was asked for, and a program that was linked against the machine's libibverbs gets
/// the library and the provider that were asked for.
fn software(lab: &mut Lab, scene: &Scene) -> Result<Tally> {
    let kernel = &lab.ground.kernel.release;
    ensure!(lab.release == *kernel, "Linux {} runs, not {kernel}", lab.release);
    let mut argv: Vec<OsString> = ["/bin/sh", "-c", MAPS, "maps"].map(Into::into).into();
    argv.push(scene.paths.built("examples").join("xrc_send_lat").into());
    argv.extend(["-d", lab.device.verbs_name()].map(Into::into));
    let job = lab.start(argv, Box::new(scene.log("maps")?), Box::new(scene.log("err")?))?;
    job.end_input()?;
    let ending = lab.wait(&job, Some(scene.limit))?;
    ensure!(ending == Ending::Exited(0), "{ending:?}: {}", scene.text("err"));
    let (maps, release) = (scene.text("maps"), lab.ground.rdma_core.release()?);
    for library in ["libibverbs", "libmlx5"] {
        let versions = mapped(&maps, library);
        let named = format!(".{release}.");
        ensure!(
            !versions.is_empty() && versions.iter().all(|file| file.contains(&named)),
            "of rdma-core {release} should be what is mapped: {versions:?}"
        );
    }
    Ok(Tally::ONE)
}

/// Files of one library that a process has mapped: names like `libibverbs.so.1.14.44.0`.
fn mapped<'a>(maps: &'a str, library: &str) -> Vec<&'a str> {
    let files = maps.lines().filter_map(|line| line.rsplit('/').next());
    let of_library = |file: &&str| file.strip_prefix(library).is_some_and(|rest| rest.starts_with(".so."));
    let mut found: Vec<&str> = files.filter(of_library).collect();
    found.dedup();
    found
}

pub fn tests(common: &Common) -> Vec<Test> {
    let of = |other: Other| {
        choice(common.device, &other.versions).into_iter().map(move |test| test.on(other.clone()))
    };
    others(common).into_iter().flat_map(of).collect()
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::cli::Cli;

    fn names(line: &str) -> Vec<String> {
        tests(&Cli::parse_from(line.split(' ')).common).into_iter().map(|test| test.name).collect()
    }

    #[test]
    fn every_tool_is_there() {
        let names = names("lab test");
        for tool in TOOLS {
            let of_tool = names.iter().filter(|name| name.ends_with(tool)).count();
            assert_eq!(of_tool, 2, "{tool}: {names:?}");
        }
        assert!(names.contains(&"versions/Linux 6.12/crate/device tests".to_owned()), "{names:?}");
    }

    #[test]
    fn libraries_are_found_among_what_is_mapped() {
        let maps = "1-2 r--p 0 00:1a 1  /usr/lib/libibverbs.so.1.14.56.1\n2-3 r-xp 0 00:1a 1  \
                    /usr/lib/libibverbs.so.1.14.56.1\n3-4 rw-p 0 00:00 0\n4-5 r--p 0 00:1a 2  /usr/lib/libibverbsx.so.1\n";
        assert_eq!(mapped(maps, "libibverbs"), ["libibverbs.so.1.14.56.1"]);
    }

    #[test]
    fn what_the_user_asks_for_is_not_tested_twice() {
        assert!(names("lab --kernel 6.12 test").iter().all(|name| name.contains("rdma-core 56")));
    }
}
