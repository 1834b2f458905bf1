//! `ci/lab run -- CMD`: one command, as if it ran here.

use std::ffi::OsString;
use std::io::{stderr, stdin, stdout};

use anyhow::Result;

use super::{COMMAND_LIMIT, status};
use crate::cli::Common;
use crate::lab::with_guest;
use crate::link::own;
use crate::paths::Paths;

pub fn run(paths: &Paths, common: &Common, argv: Vec<OsString>) -> Result<i32> {
    with_guest(paths, common, &argv.clone(), |lab| {
        let job = lab.start(argv, own(stdout())?, own(stderr())?)?;
        job.feed(stdin());
        let limit = common.limit(Some(COMMAND_LIMIT));
        status(lab.wait(&job, limit)?, limit)
    })
}
