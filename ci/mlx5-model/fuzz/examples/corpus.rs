//! `corpus unpack DIR`: the inputs that are kept as files, a folder for each target, as the fuzzer wants them.
//! `corpus pack DIR`: takes such folders as the seeds to keep. `corpus targets`: the targets' names.

use std::{
    fs, io,
    path::{Path, PathBuf},
    process::ExitCode,
};

use mlx5_model_fuzz::{
    corpus::{self, FOUND, SEEDS},
    targets::TARGETS,
};

fn unpack(to: &Path) -> io::Result<()> {
    for target in TARGETS {
        let folder = to.join(target.name);
        fs::create_dir_all(&folder)?;
        for kept in [SEEDS, FOUND] {
            for (n, input) in corpus::kept(kept, target.name)?.iter().enumerate() {
                fs::write(folder.join(format!("{kept}-{n}")), input)?;
            }
        }
    }
    Ok(())
}

fn pack(from: &Path) -> io::Result<()> {
    for target in TARGETS {
        let entries = fs::read_dir(from.join(target.name))?;
        let inputs = entries.map(|entry| fs::read(entry?.path())).collect::<io::Result<_>>()?;
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(SEEDS);
        fs::create_dir_all(&folder)?;
        fs::write(folder.join(format!("{}.txt", target.name)), corpus::format(inputs))?;
    }
    Ok(())
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let done = match words[..] {
        ["targets"] => {
            TARGETS.iter().for_each(|target| println!("{}", target.name));
            Ok(())
        }
        ["unpack", folder] => unpack(&PathBuf::from(folder)),
        ["pack", folder] => pack(&PathBuf::from(folder)),
        _ => {
            eprintln!("usage: corpus targets | unpack DIR | pack DIR");
            return ExitCode::from(2);
        }
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("corpus: {error}");
            ExitCode::FAILURE
        }
    }
}
