//! What the software mlx5, or the guest around it, does not have, by name; and how rdma-core's own tests say so.

/// The one feature for want of which an XRC test may skip.
pub const ON_DEMAND_PAGING: &str = "on-demand paging";

/// A feature that is not there.
struct Absent {
    name: &'static str,
    /// Words in the reason that a test gives for skipping.
    reasons: &'static [&'static str],
    /// Tests that end in an error without it rather than skip.
    tests: &'static [&'static str],
}

const fn skips(name: &'static str, reasons: &'static [&'static str]) -> Absent {
    Absent { name, reasons, tests: &[] }
}

/// The first whose words are found is meant.
const ALL: &[Absent] = &[
    skips(
        "an Ethernet port: RoCE, raw packets, flow steering, E-switch",
        &["on Ethernet link layer", "skip RoCE test", "No supported port is up"],
    ),
    skips("another vendor's adapter (EFA)", &["over non EFA device"]),
    Absent {
        name: ON_DEMAND_PAGING,
        reasons: &["ODP is not supported", "additional access flags 64 is not supported"],
        // It registers such memory before it asks whether there is any; Linux 6.1 has another errno for it.
        tests: &["tests.test_mlx5_dc.DCTest.test_odp_dc_traffic"],
    },
    skips("device memory", &["Device memory is not supported"]),
    skips("a graphics card in the guest", &["dmabuf is not supported by /dev/dri", "cuda-python"]),
    skips("cryptography", &["Crypto login details must be supplied"]),
    skips("tag matching", &["Tag matching is not supported"]),
    skips(
        "DevX, and with it keys, doorbell pages and doorbells of a program's own making",
        &["DevX", "Create Mkey is not supported", "UAR allocation", "VAR allocation"],
    ),
    skips(
        "dynamically connected transport (DC)",
        &["Create DC QP is not supported", "DCI caps is not supported", "SkipTest occurred on active side"],
    ),
    skips("memory copies and signatures as work requests (mlx5dv)", &["Create Mlx5DV QP is not supported"]),
    skips("a second port in a bond (LAG)", &["Set LAG affinity is not supported"]),
    skips("completions of 128 bytes compressed or padded", &["Device caps doesn't support Support CQE 128B"]),
    skips("schedulers of a QP's bandwidth", &["schedule elements is not supported"]),
    skips("a PCI function for the program itself (VFIO)", &["PCI device must be passed by the user"]),
    skips("atomic writes", &["Extended QP is not supported on this device"]),
    skips("reserved QP numbers", &["Alloc reserved QP number is not supported"]),
    // Which of its tests want that is thrown by dice.
    skips("UD QPs deaf to their own multicast, or with another's number", &["Create UD QP with"]),
];

/// The feature for want of which a test skips.
pub fn of_reason(reason: &str) -> Option<&'static str> {
    ALL.iter()
        .find(|absent| absent.reasons.iter().any(|words| reason.contains(words)))
        .map(|absent| absent.name)
}

/// The feature for want of which a test ends in an error.
pub fn of_test(test: &str) -> Option<&'static str> {
    ALL.iter().find(|absent| absent.tests.contains(&test)).map(|absent| absent.name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_tell_features() {
        assert_eq!(of_reason("ODP is not supported - No ODP caps"), Some(ON_DEMAND_PAGING));
        assert_eq!(of_reason("XRC is not supported"), None);
        assert_eq!(of_test("tests.test_cq.CQTest.test_resize_cq"), None);
    }

    #[test]
    fn names_are_told_once_and_words_are_not_empty() {
        for (n, absent) in ALL.iter().enumerate() {
            assert!(ALL[..n].iter().all(|other| other.name != absent.name), "{}", absent.name);
            assert!(
                absent.reasons.iter().chain(absent.tests).all(|words| words.len() >= "DevX".len()),
                "{}",
                absent.name
            );
        }
    }
}
