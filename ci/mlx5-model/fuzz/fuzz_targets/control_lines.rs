#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| mlx5_model_fuzz::targets::control_lines(bytes));
