//! What the user sees: ib_send_lat's information block, its table and, as one
//! well-formed document, its JSON report.

use std::io::{self, Write};

use serde::Serialize;

use crate::stats::{Samples, Summary};

const LINE: &str = "---------------------------------------------------------------------------------------";
const COLUMNS: &str = " #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec]    \
                       t_stdev[usec]   99% percentile[usec]   99.9% percentile[usec] ";

/// How the test runs, for the information block and the JSON report.
#[derive(Debug, Clone, Serialize)]
pub struct TestInfo {
    test: &'static str,
    #[serde(rename = "Device")]
    device: String,
    #[serde(rename = "Number_of_qps")]
    number_of_qps: u32,
    #[serde(rename = "Transport_type")]
    transport_type: &'static str,
    #[serde(rename = "Connection_type")]
    connection_type: &'static str,
    #[serde(rename = "Using_SRQ")]
    using_srq: &'static str,
    #[serde(rename = "TX_depth", skip_serializing_if = "Option::is_none")]
    tx_depth: Option<u32>,
    #[serde(rename = "RX_depth", skip_serializing_if = "Option::is_none")]
    rx_depth: Option<u32>,
    #[serde(rename = "Mtu")]
    mtu: u32,
    #[serde(rename = "Link_type")]
    link_type: String,
    #[serde(rename = "GID_index", skip_serializing_if = "Option::is_none")]
    gid_index: Option<u8>,
    #[serde(rename = "Max_inline_data")]
    max_inline_data: u32,
    #[serde(rename = "rdma_cm_QPs")]
    rdma_cm_qps: &'static str,
    #[serde(rename = "Data_ex_method")]
    data_ex_method: &'static str,
}

/// The queue whose depth a side reports, as ib_send_lat does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Depth {
    /// A client's send queue.
    Tx(u32),
    /// A server's SRQ.
    Rx(u32),
}

impl TestInfo {
    pub fn new(device: &str, link_type: &str, depth: Depth, mtu: u32, max_inline: u32) -> TestInfo {
        let (tx_depth, rx_depth) = match depth {
            Depth::Tx(depth) => (Some(depth), None),
            Depth::Rx(depth) => (None, Some(depth)),
        };
        TestInfo {
            test: "Send_Latency_Test",
            device: device.to_owned(),
            // The initiator and the target.
            number_of_qps: 2,
            transport_type: "IB",
            connection_type: "XRC",
            using_srq: "ON",
            tx_depth,
            rx_depth,
            mtu,
            link_type: link_type.to_owned(),
            gid_index: None,
            max_inline_data: max_inline,
            rdma_cm_qps: "OFF",
            data_ex_method: "Ethernet",
        }
    }

    /// The GID that the packets carry.
    pub fn with_gid_index(self, gid_index: Option<u8>) -> TestInfo {
        TestInfo { gid_index, ..self }
    }
}

/// A queue pair as the block of addresses shows it.
#[derive(Debug, Clone)]
pub struct Address {
    pub lid: u16,
    pub qpn: u32,
    pub psn: u32,
    pub srqn: u32,
    pub gid: Option<String>,
}

/// The report on its way to the terminal (or wherever `W` leads).
#[derive(Debug)]
pub struct Report<W> {
    out: W,
    unsorted: bool,
    histogram: bool,
}

impl<W: Write> Report<W> {
    pub fn new(out: W, unsorted: bool, histogram: bool) -> Report<W> {
        Report { out, unsorted, histogram }
    }

    pub fn waiting(&mut self) -> io::Result<()> {
        let stars = "*".repeat(36);
        writeln!(self.out, "\n{stars}\n* Waiting for client to connect... *\n{stars}")?;
        self.out.flush()
    }

    pub fn info(&mut self, info: &TestInfo) -> io::Result<()> {
        let out = &mut self.out;
        writeln!(out, "{LINE}\n{:20}Send Latency Test", "")?;
        let mut pair = |left: &str, value: &dyn std::fmt::Display, right: &str, other: &str| {
            writeln!(out, " {left:<16}: {value}\t\t{right:<15}: {other}")
        };
        pair("Dual-port", &"OFF", "Device", &info.device)?;
        pair("Number of qps", &info.number_of_qps, "Transport type", info.transport_type)?;
        pair("Connection type", &info.connection_type, "Using SRQ", info.using_srq)?;
        let mut line = |name: &str, value: &dyn std::fmt::Display| writeln!(out, " {name:<16}: {value}");
        if let Some(depth) = info.tx_depth {
            line("TX depth", &depth)?;
        }
        if let Some(depth) = info.rx_depth {
            line("RX depth", &depth)?;
        }
        line("Mtu", &format_args!("{}[B]", info.mtu))?;
        line("Link type", &info.link_type)?;
        if let Some(index) = info.gid_index {
            line("GID index", &index)?;
        }
        line("Max inline data", &format_args!("{}[B]", info.max_inline_data))?;
        line("rdma_cm QPs", &info.rdma_cm_qps)?;
        line("Data ex. method", &info.data_ex_method)?;
        writeln!(out, "{LINE}")
    }

    /// `whose`: "local" or "remote".
    pub fn address(&mut self, whose: &str, address: &Address) -> io::Result<()> {
        let Address { lid, qpn, psn, srqn, gid } = address;
        writeln!(
            self.out,
            " {whose} address: LID {lid:#04x} QPN {qpn:#06x} PSN {psn:#08x} SRQn {srqn:#08x}"
        )?;
        match gid {
            Some(gid) => writeln!(self.out, " GID: {gid}"),
            None => Ok(()),
        }
    }

    /// The head of the table.
    pub fn columns(&mut self) -> io::Result<()> {
        writeln!(self.out, "{LINE}\n{COLUMNS}")?;
        self.out.flush()
    }

    /// One size: the samples if they are wanted, then its row.
    pub fn row(&mut self, samples: &Samples) -> io::Result<Summary> {
        if self.unsorted {
            self.samples(samples.unsorted())?;
        }
        let sorted = samples.sort();
        if self.histogram {
            self.samples(sorted.sorted())?;
        }
        if self.unsorted || self.histogram {
            self.columns()?;
        }
        let summary = sorted.summary();
        writeln!(
            self.out,
            " {:<7} {:<14}{:<15.2}{:<13.2}{:<19.2}{:<15.2}{:<16.2}{:<23.2}{:<.2}",
            summary.size,
            summary.iterations,
            summary.t_min,
            summary.t_max,
            summary.t_typical,
            summary.t_avg,
            summary.t_stdev,
            summary.percentile_99,
            summary.percentile_99_9,
        )?;
        self.out.flush()?;
        Ok(summary)
    }

    /// The end of the table.
    pub fn end(&mut self) -> io::Result<()> {
        writeln!(self.out, "{LINE}")?;
        self.out.flush()
    }

    fn samples(&mut self, values: impl Iterator<Item = f64>) -> io::Result<()> {
        writeln!(self.out, "#, usec")?;
        for (number, value) in (1..).zip(values) {
            writeln!(self.out, "{number}, {value}")?;
        }
        Ok(())
    }
}

/// One row as ib_send_lat names it in JSON.
#[derive(Debug, Serialize)]
struct JsonRow {
    #[serde(rename = "MsgSize")]
    size: usize,
    #[serde(rename = "n_iterations")]
    iterations: usize,
    t_min: f64,
    t_max: f64,
    t_typical: f64,
    t_avg: f64,
    t_stdev: f64,
    percentile_99: f64,
    #[serde(rename = "percentile_99.9")]
    percentile_99_9: f64,
}

impl From<&Summary> for JsonRow {
    fn from(summary: &Summary) -> JsonRow {
        // Half a nanosecond is the last digit that was measured.
        let rounded = |usec: f64| (usec * 1e4).round() / 1e4;
        JsonRow {
            size: summary.size,
            iterations: summary.iterations,
            t_min: rounded(summary.t_min),
            t_max: rounded(summary.t_max),
            t_typical: rounded(summary.t_typical),
            t_avg: rounded(summary.t_avg),
            t_stdev: rounded(summary.t_stdev),
            percentile_99: rounded(summary.percentile_99),
            percentile_99_9: rounded(summary.percentile_99_9),
        }
    }
}

/// One size gives an object, as in ib_send_lat; `-a` a list of them.
#[derive(Debug, Serialize)]
#[serde(untagged)]
enum JsonResults {
    One(JsonRow),
    All(Vec<JsonRow>),
}

#[derive(Debug, Serialize)]
struct JsonReport<'a> {
    test_info: &'a TestInfo,
    results: JsonResults,
}

/// The JSON report, with ib_send_lat's names.
pub fn write_json(
    out: impl Write,
    test_info: &TestInfo,
    rows: &[Summary],
    all: bool,
) -> serde_json::Result<()> {
    let results = match rows {
        [row] if !all => JsonResults::One(row.into()),
        rows => JsonResults::All(rows.iter().map(JsonRow::from).collect()),
    };
    serde_json::to_writer_pretty(out, &JsonReport { test_info, results })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn samples() -> Samples {
        let posted = [0, 270_870, 4_436_210, 5_547_848, 5_613_431];
        Samples::from_posting_times(8_388_608, &posted).expect("enough messages")
    }

    fn printed(unsorted: bool, histogram: bool) -> String {
        let mut report = Report::new(Vec::new(), unsorted, histogram);
        report.columns().expect("memory takes it");
        report.row(&samples()).expect("memory takes it");
        report.end().expect("memory takes it");
        String::from_utf8(report.out).expect("text")
    }

    #[test]
    fn the_row_stands_under_its_columns() {
        let text = printed(false, false);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 4);
        assert_eq!(
            lines[2].split_whitespace().collect::<Vec<_>>(),
            ["8388608", "5", "32.79", "555.82", "84.11", "84.11", "51.32", "555.82", "555.82"]
        );
        for (name, value) in [
            ("t_min", "32.79 "),
            ("t_max", "555.82 "),
            ("t_typical", "84.11 "),
            ("t_avg", "84.11 "),
            ("t_stdev", "51.32 "),
            ("99% ", "555.82 "),
            ("99.9% ", "555.82"),
        ] {
            let column = lines[1].find(name).expect("a column");
            assert!(lines[2][column..].starts_with(value), "{name}:\n{text}");
        }
    }

    #[test]
    fn samples_come_first_and_the_columns_again() {
        let text = printed(true, true);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[2..7], ["#, usec", "1, 135.435", "2, 2082.67", "3, 555.819", "4, 32.7915"]);
        assert_eq!(lines[7..10], ["#, usec", "1, 32.7915", "2, 135.435"]);
        assert_eq!(lines[10..12], [LINE, COLUMNS]);
    }

    #[test]
    fn the_block_names_what_matters() {
        let mut report = Report::new(Vec::new(), false, false);
        let info = TestInfo::new("mlx5_0", "IB", Depth::Rx(512), 4096, 236);
        report.info(&info.with_gid_index(Some(3))).expect("memory takes it");
        let (lid, qpn, psn, srqn) = (1, 0x68, 0x22286, 0x65);
        let address = Address { lid, qpn, psn, srqn, gid: None };
        report.address("local", &address).expect("memory takes it");
        let text = String::from_utf8(report.out).expect("text");
        for line in [
            " Dual-port       : OFF\t\tDevice         : mlx5_0",
            " Number of qps   : 2\t\tTransport type : IB",
            " Connection type : XRC\t\tUsing SRQ      : ON",
            " RX depth        : 512",
            " Mtu             : 4096[B]",
            " Link type       : IB",
            " GID index       : 3",
            " Max inline data : 236[B]",
            " Data ex. method : Ethernet",
            " local address: LID 0x01 QPN 0x0068 PSN 0x022286 SRQn 0x000065",
        ] {
            assert!(text.lines().any(|got| got == line), "{line} is not in\n{text}");
        }
        assert!(!text.contains("TX depth"));
    }

    #[test]
    fn json_is_well_formed_and_has_the_known_names() {
        let info = TestInfo::new("mlx5_0", "IB", Depth::Tx(1), 4096, 236);
        let row = samples().sort().summary();
        let parse = |rows: &[Summary], all| {
            let mut bytes = Vec::new();
            write_json(&mut bytes, &info, rows, all).expect("memory takes it");
            serde_json::from_slice::<serde_json::Value>(&bytes).expect("well-formed")
        };
        let one = parse(std::slice::from_ref(&row), false);
        assert_eq!(one["test_info"]["Connection_type"], "XRC");
        assert_eq!(one["test_info"]["TX_depth"], 1);
        assert_eq!(one["results"]["MsgSize"], 8_388_608);
        assert_eq!(one["results"]["t_max"], 555.819);
        assert_eq!(one["results"]["percentile_99.9"], 555.819);
        let all = parse(&[row.clone(), row], true);
        assert_eq!(all["results"][1]["n_iterations"], 5);
    }
}
