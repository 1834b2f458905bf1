//! The wire forms of an endpoint, with input that nobody should send.

use crate::{Endpoint, EndpointError, Lid, Mtu, Psn, QpNumber, SrqNumber};

fn sample() -> Endpoint {
    Endpoint {
        lid: Lid::new(0x1234),
        gid: Some("fe80::2:c903:a1:b2c3".parse().unwrap()),
        mtu: Mtu::Mtu2048,
        initiator: QpNumber::try_from(0x41).unwrap(),
        initiator_psn: Psn::try_from(0xabcdef).unwrap(),
        target: QpNumber::try_from(0xff_ffff).unwrap(),
        target_psn: Psn::try_from(0).unwrap(),
        srq: SrqNumber::try_from(7).unwrap(),
    }
}

/// Bytes from a fixed generator, so that a failure can be repeated.
fn noise(seed: u64) -> impl Iterator<Item = u8> {
    let mut state = seed | 1;
    std::iter::from_fn(move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        Some(state as u8)
    })
}

/// Written out, so that a change of the form cannot go unseen.
#[test]
fn the_forms_of_version_1() {
    let bytes = sample().to_bytes();
    let expected = [
        &b"XRCE\x01\x04\x12\x34"[..],
        b"\xfe\x80\0\0\0\0\0\0\0\x02\xc9\x03\0\xa1\xb2\xc3",
        b"\0\0\0\x41\0\xab\xcd\xef\0\xff\xff\xff\0\0\0\0\0\0\0\x07",
    ]
    .concat();
    assert_eq!(bytes[..], expected[..]);
    let text =
        "xrc1:4:1234:fe80000000000000_0002c90300a1b2c3:000041:abcdef:ffffff:000000:000007".replace('_', "");
    assert_eq!(sample().to_string(), text);
    assert_eq!(text.len(), Endpoint::TEXT_LEN);
    let plain = Endpoint { gid: None, lid: Lid::NONE, ..sample() };
    for endpoint in [sample(), plain] {
        assert_eq!(Endpoint::from_bytes(&endpoint.to_bytes()), Ok(endpoint));
        assert_eq!(endpoint.to_string().parse(), Ok(endpoint));
    }
}

#[test]
fn case_24_bytes_of_the_wrong_length() {
    let bytes = sample().to_bytes();
    for len in (0..bytes.len()).chain([bytes.len() + 1, 1 << 20]) {
        let input: Vec<u8> = bytes.iter().copied().cycle().take(len).collect();
        assert_eq!(Endpoint::from_bytes(&input), Err(EndpointError::Length { expected: 44, found: len }));
    }
}

/// A later version may be longer or shorter; what is wrong with it is its version.
#[test]
fn another_version_is_named_whatever_its_length() {
    for len in [5, 43, 44, 45, 400] {
        let mut bytes = [&b"XRCE\x07"[..], &[0; 395]].concat();
        bytes.truncate(len);
        assert_eq!(Endpoint::from_bytes(&bytes), Err(EndpointError::Version(7)));
        bytes[0] = b'Y';
        assert_eq!(Endpoint::from_bytes(&bytes), Err(EndpointError::Magic));
    }
    for text in
        ["xrc7:", "xrc7:1:2", &format!("xrc7:{}", "0".repeat(74)), &format!("xrc7:{}", "0".repeat(500))]
    {
        assert_eq!(text.parse::<Endpoint>(), Err(EndpointError::Version(7)));
    }
    for text in ["xrc256:1", "xrc:", ":", "no endpoint at all", "\u{e9}\u{e9}\u{e9}\u{e9}", &"x".repeat(79)] {
        assert_eq!(text.parse::<Endpoint>(), Err(EndpointError::Magic), "{text}");
    }
}

#[test]
fn case_24_bytes_that_hold_what_they_cannot() {
    let with = |at: usize, value: u8| {
        let mut bytes = sample().to_bytes();
        bytes[at] = value;
        Endpoint::from_bytes(&bytes)
    };
    assert_eq!(with(0, b'Y'), Err(EndpointError::Magic));
    assert_eq!(with(4, 0), Err(EndpointError::Version(0)));
    assert_eq!(with(4, 2), Err(EndpointError::Version(2)));
    assert_eq!(with(5, 0), Err(EndpointError::Field("MTU")));
    assert_eq!(with(5, 6), Err(EndpointError::Field("MTU")));
    assert_eq!(with(6, 0xc0), Err(EndpointError::Field("LID")));
    for (at, name) in
        [(24, "initiator"), (28, "initiator PSN"), (32, "target"), (36, "target PSN"), (40, "SRQ")]
    {
        assert_eq!(with(at, 1), Err(EndpointError::Field(name)), "a number of 25 bits");
    }
    assert_eq!(with(27, 1), Err(EndpointError::Field("initiator")), "QP 1 is the port's own");
}

#[test]
fn case_24_text_that_is_no_endpoint() {
    let text = sample().to_string();
    for len in 0..text.len() {
        assert!(matches!(text[..len].parse::<Endpoint>(), Err(EndpointError::Length { .. })));
    }
    assert!(format!("{text} ").parse::<Endpoint>().is_err());
    let with = |from: &str, to: &str| text.replacen(from, to, 1).parse::<Endpoint>();
    assert_eq!(with("xrc1", "xrc2"), Err(EndpointError::Version(2)));
    assert_eq!(with("xrc1", "xrcX"), Err(EndpointError::Magic));
    assert_eq!(with("xrc1", "XRC1"), Err(EndpointError::Magic));
    assert_eq!(with("xrc1", "+xrc"), Err(EndpointError::Magic));
    assert_eq!(with(":4:", ":9:"), Err(EndpointError::Field("MTU")));
    assert_eq!(with("1234", "+234"), Err(EndpointError::Field("LID")));
    assert_eq!(with("abcdef", "ABCDEF"), Err(EndpointError::Field("initiator PSN")));
    assert_eq!(with("abcdef", "\u{e9}cdef"), Err(EndpointError::Field("initiator PSN")), "not even ASCII");
    assert_eq!(with("000041", ":00041"), Err(EndpointError::Field("initiator")));
    assert_eq!(with("000041", "000000"), Err(EndpointError::Field("initiator")));
}

#[test]
fn case_24_noise_is_refused() {
    let megabyte: Vec<u8> = noise(1).take(1 << 20).collect();
    assert!(Endpoint::from_bytes(&megabyte).is_err());
    assert!(String::from_utf8_lossy(&megabyte).parse::<Endpoint>().is_err());
    for seed in 0..20_000 {
        let bytes: Vec<u8> = noise(seed * 0x9e37_79b9 + 7).take(44).collect();
        assert!(Endpoint::from_bytes(&bytes).is_err());
        // Noise behind a true head: what is accepted must at least say what it was read from.
        let mut bytes = bytes;
        bytes[..6].copy_from_slice(b"XRCE\x01\x03");
        if let Ok(endpoint) = Endpoint::from_bytes(&bytes) {
            assert_eq!(endpoint.to_bytes()[..], bytes[..]);
        }
        for number in [24, 28, 32, 36, 40] {
            bytes[number] = 0;
        }
        bytes[6] &= 0x7f;
        if let Ok(endpoint) = Endpoint::from_bytes(&bytes) {
            assert_eq!(endpoint.to_bytes()[..], bytes[..]);
            assert_eq!(endpoint.to_string().parse(), Ok(endpoint));
        }
        let text: String =
            noise(seed).take(79).map(|byte| char::from(b"0123456789abcdef:"[byte as usize % 17])).collect();
        assert!(text.parse::<Endpoint>().is_err());
    }
}

#[cfg(feature = "serde")]
#[test]
fn serde_uses_the_same_forms() {
    let json = serde_json::to_string(&sample()).unwrap();
    assert_eq!(json, format!("\"{}\"", sample()));
    assert_eq!(serde_json::from_str::<Endpoint>(&json).unwrap(), sample());
    assert!(serde_json::from_str::<Endpoint>("\"xrc1\"").is_err());
    assert!(serde_json::from_str::<Endpoint>("[1,2]").is_err());
}
