//! The guest's first file system: this very program as /init, the libraries it is linked with, and the modules that
//! reach the host's root.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{BufWriter, Cursor, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use cpio::newc::{Builder, ModeFileType, trailer};

use super::kernel::Kernel;
use crate::guest::{BootConfig, CONFIG};
use crate::proc::{capture, system_command};

/// What the kernel must load before the host's root can be mounted and the agent's port opened.
const MODULES: [&str; 4] = ["virtio_pci", "9pnet_virtio", "9p", "virtio_console"];
/// What lays one tree over another.
const LAYERS: &str = "overlay";

/// Writes it to `to`. The modules come from the kernel, everything else in `config` from the caller.
pub fn write(to: &Path, kernel: &Kernel, mut config: BootConfig) -> Result<()> {
    let out = File::create(to).with_context(|| to.display().to_string())?;
    let mut archive = Archive { out: BufWriter::new(out), inode: 1 };
    for folder in ["proc", "sys", "dev", "modules", "lib", "lib64", "root", "bare", "layer"] {
        archive.folder(folder)?;
    }
    // Through /proc, because a rebuild may have put another file under our name.
    archive.file("init", fs::read("/proc/self/exe")?)?;
    for library in libraries()? {
        let name = library.strip_prefix("/").unwrap_or(&library);
        for folder in
            name.ancestors().skip(1).collect::<Vec<_>>().into_iter().rev().filter(|f| *f != Path::new(""))
        {
            archive.folder(&folder.to_string_lossy())?;
        }
        archive.file(&name.to_string_lossy(), fs::read(&library)?)?;
    }
    if !config.probe {
        for file in modules(kernel, config.layer)? {
            let name = file.file_name().map(OsStr::to_string_lossy).unwrap_or_default();
            let inside = format!("modules/{}", name.trim_end_matches(".xz"));
            archive.file(&inside, module(&file)?)?;
            config.modules.push(Path::new("/").join(inside));
        }
    }
    archive.file(CONFIG.trim_start_matches('/'), serde_json::to_vec(&config)?)?;
    trailer(archive.out)?.flush()?;
    Ok(())
}

struct Archive {
    out: BufWriter<File>,
    inode: u32,
}

impl Archive {
    fn folder(&mut self, name: &str) -> Result<()> {
        self.add(name, ModeFileType::Directory, Vec::new())
    }

    fn file(&mut self, name: &str, content: Vec<u8>) -> Result<()> {
        self.add(name, ModeFileType::Regular, content)
    }

    fn add(&mut self, name: &str, kind: ModeFileType, content: Vec<u8>) -> Result<()> {
        self.inode += 1;
        let size = u32::try_from(content.len()).context(name.to_owned())?;
        let entry = Builder::new(name).ino(self.inode).mode(0o755).set_mode_file_type(kind).nlink(1);
        let mut entry = entry.write(&mut self.out, size);
        std::io::copy(&mut Cursor::new(content), &mut entry)?;
        entry.finish()?;
        Ok(())
    }
}

/// The dynamic loader and libraries of this program, by the names under which it asks for them.
fn libraries() -> Result<Vec<PathBuf>> {
    let text = capture(
        system_command("ldd")?.arg("/proc/self/exe").arg(std::env::current_exe()?),
        Duration::from_secs(30),
    );
    Ok(parse_ldd(&text?))
}

fn parse_ldd(text: &str) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = Vec::new();
    for line in text.lines().filter(|line| line.starts_with(char::is_whitespace)) {
        let path = line.split_whitespace().find(|word| word.starts_with('/'));
        if let Some(path) = path.map(PathBuf::from).filter(|path| !found.contains(path)) {
            found.push(path);
        }
    }
    found
}

fn modules(kernel: &Kernel, layer: bool) -> Result<Vec<PathBuf>> {
    let mut all: Vec<PathBuf> = Vec::new();
    for name in MODULES.into_iter().chain(layer.then_some(LAYERS)) {
        for file in kernel.module_files(name)? {
            if !all.contains(&file) {
                all.push(file);
            }
        }
    }
    Ok(all)
}

/// A module as the kernel takes it; later Debian releases ship them compressed.
fn module(file: &Path) -> Result<Vec<u8>> {
    if file.extension() != Some(OsStr::new("xz")) {
        return fs::read(file).with_context(|| file.display().to_string());
    }
    let output = system_command("xz")?.arg("-dc").arg(file).output()?;
    anyhow::ensure!(output.status.success(), "{} does not unpack", file.display());
    Ok(output.stdout)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ldd_output() {
        let text = "\tlinux-vdso.so.1 (0x1)\n\tlibc.so.6 => /lib/x/libc.so.6 (0x2)\n\t/lib64/ld-linux-x86-64.so.2 (0x3)\n";
        assert_eq!(
            parse_ldd(text),
            [Path::new("/lib/x/libc.so.6"), Path::new("/lib64/ld-linux-x86-64.so.2")]
        );
    }
}
