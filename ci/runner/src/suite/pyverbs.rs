//! rdma-core's own XRC tests in Python, as Debian's python3-pyverbs ships them.

use std::fs::{self, File};
use std::io::Read;
use std::path::Path;

use anyhow::{Context, Result, ensure};

use super::{Scene, Tally, Test, unittest};
use crate::console;
use crate::lab::{Ending, Lab};

/// Where the package has them; some are compressed, as Debian does with long files of documentation.
const SOURCE: &str = "/usr/share/doc/rdma-core/tests";
/// The system's own, whose modules the package brings; another may come first in PATH.
const PYTHON: &str = "/usr/bin/python3";
/// A feature that the device says it does not have; its test is the only one that may skip.
const ABSENT: &str = "ODP";

pub fn tests() -> Vec<Test> {
    vec![Test::guest("pyverbs/xrc", 180, run)]
}

fn run(lab: &mut Lab, scene: &Scene) -> Result<Tally> {
    let folder = scene.dir.join("tests");
    unpack(&lab.ground.rdma_core.file(SOURCE), &folder)?;
    let device = lab.device.verbs_name();
    let argv = [PYTHON, "run_tests.py", "--dev", device, "-v", "-k", "xrc"].map(Into::into).into();
    let job = lab.start_in(argv, &folder, Box::new(scene.log("out")?), Box::new(scene.log("err")?))?;
    job.end_input()?;
    let ending = lab.wait(&job, Some(scene.limit))?;
    fs::remove_dir_all(&folder)?;
    let tail = console::tail(&scene.dir.join("err"), 25)?;
    let tally = unittest::read(&scene.text("err"), "pyverbs", |reason| reason.contains(ABSENT))
        .with_context(|| format!("{ending:?}\n{tail}"))?;
    ensure!(ending == Ending::Exited(0) || tally.failed > 0, "{ending:?}\n{tail}");
    Ok(tally)
}

fn unpack(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to)?;
    let entries = fs::read_dir(from)
        .with_context(|| format!("{}: the package python3-pyverbs holds the tests there", from.display()))?;
    for entry in entries {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let mut text = Vec::new();
        let plain = match name.strip_suffix(".gz") {
            Some(plain) => {
                flate2::read::GzDecoder::new(File::open(&path)?).read_to_end(&mut text)?;
                plain
            }
            None => {
                File::open(&path)?.read_to_end(&mut text)?;
                &name
            }
        };
        // Python in an emulated guest takes its time to read modules; those without an XRC test are not needed.
        if !plain.starts_with("test_") || text.to_ascii_lowercase().windows(3).any(|word| word == b"xrc") {
            fs::write(to.join(plain), text)?;
        }
    }
    Ok(())
}
