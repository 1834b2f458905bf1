//! Plays what is kept, and some noise, with any compiler and without a fuzzer.

use mlx5_model_fuzz::{
    corpus::{self, FOUND, SEEDS},
    targets::{TARGETS, Target},
};

/// Noise for each target.
const INPUTS: u64 = 100;
const LONGEST: u64 = 400;

fn play(target: &Target, input: &[u8]) {
    let played = std::panic::catch_unwind(|| (target.play)(input));
    assert!(played.is_ok(), "{}: {}", target.name, corpus::format(vec![input.to_vec()]));
}

#[test]
fn what_is_kept() {
    for target in TARGETS {
        let seeds = corpus::kept(SEEDS, target.name).unwrap();
        assert!(!seeds.is_empty(), "{} has no seeds", target.name);
        let found = corpus::kept(FOUND, target.name).unwrap();
        seeds.iter().chain(&found).for_each(|input| play(target, input));
    }
}

#[test]
fn noise() {
    let mut seed = 0x9e37_79b9_7f4a_7c15u64;
    let mut next = move || {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        seed.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 24
    };
    for target in TARGETS {
        play(target, &[]);
        for _ in 0..INPUTS {
            let length = next() % LONGEST;
            let bytes: Vec<u8> = (0..length).map(|_| next() as u8).collect();
            play(target, &bytes);
        }
    }
}
