//! The log has an end, whatever a guest does.

mod driver;

use std::{
    io::{self, Write},
    sync::{Arc, Mutex},
};

use driver::Rig;
use mlx5_model::log::{self, Limit, MAX_OF_A_KIND};
use tracing::level_filters::LevelFilter;

#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_guest_that_provokes_messages_gets_few() {
    let (limit, lines) = (Limit::default(), Lines::default());
    let writer = lines.clone();
    let subscriber = log::subscriber(LevelFilter::INFO, limit.clone(), move || writer.clone());
    tracing::subscriber::with_default(subscriber, || {
        let mut rig = Rig::bare("flood", 1);
        // The command queue lies where there is no memory, and every slot is rung.
        rig.device.bar_write(0, 0x10, &0xffff_0000_0000_0000u64.to_be_bytes());
        for _ in 0..500 {
            rig.device.bar_write(0, 0x18, &u32::MAX.to_be_bytes());
        }
    });
    let text = String::from_utf8(lines.0.lock().unwrap().clone()).unwrap();
    let kinds = ["no guest memory", "command in slot"];
    for kind in kinds {
        let shown = text.lines().filter(|line| line.contains(kind)).count() as u64;
        assert!((MAX_OF_A_KIND..MAX_OF_A_KIND + 16).contains(&shown), "{shown} of {kind:?}");
    }
    assert!(text.lines().count() < kinds.len() * (MAX_OF_A_KIND as usize + 16));
    assert!(limit.left_out() > 16_000, "{}", limit.left_out());
}
