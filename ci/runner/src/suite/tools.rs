//! rdma-core's and perftest's own programs over XRC and the other services, as Debian ships them.

use anyhow::{Result, ensure};

use super::{Scene, Tally, Test};
use crate::console;
use crate::device::Device;
use crate::lab::{Ending, Lab};
use crate::pair::{self, Ready, Side};

/// A server on node 1 and its clients, which are on node 2 if there is one; `@` stands for the address at which the clients find the server.
pub struct Tool {
    pub name: &'static str,
    server: String,
    client: String,
    clients: usize,
    ready: Ready,
    address: &'static str,
    /// What each side's output shows if it really did its work.
    proof: Proof,
}

#[derive(Clone, Copy, Debug)]
enum Proof {
    /// A line that begins so.
    Line(&'static str),
    /// A row of perftest's table for at least so many iterations; the client has it.
    Row(u64),
}

const ITERATIONS: u64 = 500;
/// The port that these programs use.
const PORT: u16 = 18515;

fn pingpong(device: &str, name: &'static str, flags: &str, clients: usize) -> Tool {
    let server = if clients > 1 { format!(" -c {clients}") } else { String::new() };
    Tool {
        name,
        server: format!("ibv_xsrq_pingpong -d {device}{flags}{server}"),
        client: format!("ibv_xsrq_pingpong -d {device}{flags} @"),
        clients,
        ready: Ready::Tcp(PORT),
        address: "PEER_ADDR",
        proof: Proof::Line("success"),
    }
}

fn perftest(device: &str, name: &'static str, program: &str, flags: &str) -> Tool {
    over(device, "XRC", name, program, flags)
}

fn over(device: &str, service: &str, name: &'static str, program: &str, flags: &str) -> Tool {
    let command = format!("{program} -c {service} -d {device} -n {ITERATIONS} -F{flags}");
    Tool {
        name,
        client: format!("{command} @"),
        server: command,
        clients: 1,
        ready: Ready::Tcp(PORT),
        address: "PEER_ADDR",
        proof: Proof::Row(ITERATIONS),
    }
}

pub fn all(device: Device) -> Vec<Tool> {
    let device = device.verbs_name();
    let mut tools = vec![
        pingpong(device, "ibv_xsrq_pingpong", "", 1),
        pingpong(device, "ibv_xsrq_pingpong, four clients", "", 4),
        pingpong(device, "ibv_xsrq_pingpong -e", " -e", 1),
    ];
    for name in [
        "ib_send_lat",
        "ib_write_lat",
        "ib_read_lat",
        "ib_atomic_lat",
        "ib_send_bw",
        "ib_write_bw",
        "ib_read_bw",
        "ib_atomic_bw",
    ] {
        tools.push(perftest(device, name, name, ""));
    }
    tools.push(perftest(device, "ib_send_bw -b", "ib_send_bw", " -b"));
    tools.push(perftest(device, "ib_send_bw -q 4", "ib_send_bw", " -q 4"));
    tools.push(Tool {
        name: "rdma_xserver and rdma_xclient",
        server: "rdma_xserver -c x".to_owned(),
        client: "rdma_xclient -c x -s @".to_owned(),
        clients: 1,
        ready: Ready::ConnectionManager,
        address: "PEER_RDMA_ADDR",
        proof: Proof::Line("rdma_x"),
    });
    tools
}

/// perftest over the other services, and with events instead of polling: in one guest, for its name says all.
const SERVICES: &[(&str, &str, &str, &str)] = &[
    ("ib_send_lat -e", "XRC", "ib_send_lat", " -e"),
    ("ib_send_bw -e", "XRC", "ib_send_bw", " -e"),
    ("ib_send_lat -c RC", "RC", "ib_send_lat", ""),
    ("ib_send_lat -c RC -e", "RC", "ib_send_lat", " -e"),
    ("ib_send_bw -c RC", "RC", "ib_send_bw", ""),
    ("ib_send_bw -c RC -e", "RC", "ib_send_bw", " -e"),
    ("ib_send_bw -c RC --use-srq -q 4", "RC", "ib_send_bw", " --use-srq -q 4"),
    ("ib_write_lat -c RC", "RC", "ib_write_lat", ""),
    ("ib_write_bw -c RC", "RC", "ib_write_bw", ""),
    ("ib_read_lat -c RC", "RC", "ib_read_lat", ""),
    ("ib_read_bw -c RC", "RC", "ib_read_bw", ""),
    ("ib_atomic_lat -c RC", "RC", "ib_atomic_lat", ""),
    ("ib_atomic_bw -c RC", "RC", "ib_atomic_bw", ""),
    ("ib_send_lat -c UC", "UC", "ib_send_lat", ""),
    ("ib_send_bw -c UC", "UC", "ib_send_bw", ""),
    ("ib_write_lat -c UC", "UC", "ib_write_lat", ""),
    ("ib_write_bw -c UC", "UC", "ib_write_bw", ""),
    ("ib_send_lat -c UD", "UD", "ib_send_lat", ""),
    ("ib_send_lat -c UD -e", "UD", "ib_send_lat", " -e"),
    ("ib_send_bw -c UD", "UD", "ib_send_bw", ""),
];

pub fn tests(device: Device) -> Vec<Test> {
    let mut tests = vec![Test::guest("tools/ibv_devinfo", 60, move |lab, scene| devinfo(lab, scene, device))];
    let verbs = device.verbs_name();
    let services =
        SERVICES.iter().map(|(name, service, program, flags)| over(verbs, service, name, program, flags));
    for tool in all(device).into_iter().chain(services) {
        let name = format!("tools/{}", tool.name);
        tests.push(Test::guest(&name, 90, move |lab, scene| run(lab, scene, &tool)));
    }
    tests
}

pub fn words(line: &str) -> Vec<std::ffi::OsString> {
    line.split(' ').map(Into::into).collect()
}

fn devinfo(lab: &mut Lab, scene: &Scene, device: Device) -> Result<Tally> {
    let argv = words(&format!("ibv_devinfo -v -d {}", device.verbs_name()));
    let job = lab.start(argv, Box::new(scene.log("out")?), Box::new(scene.log("err")?))?;
    job.end_input()?;
    let ending = lab.wait(&job, Some(scene.limit))?;
    let out = scene.text("out");
    ensure!(ending == Ending::Exited(0), "{ending:?}\n{}", scene.text("err"));
    for sign in [device.verbs_name(), "XRC", "PORT_ACTIVE", "InfiniBand"] {
        ensure!(out.contains(sign), "its output does not show {sign}");
    }
    Ok(Tally::ONE)
}

pub fn run(lab: &mut Lab, scene: &Scene, tool: &Tool) -> Result<Tally> {
    let side = |node: u8, command: &str, name: &str| -> Result<Side> {
        let log = scene.log(name)?;
        Ok(Side { node, argv: words(command), out: Box::new(log.try_clone()?), err: Box::new(log) })
    };
    let client = lab.count().min(2);
    let address = lab.variable_on(client, tool.address)?;
    let server = side(1, &tool.server, "server")?;
    let command = tool.client.replace('@', &address);
    let names: Vec<String> = (1..=tool.clients).map(|n| format!("client-{n}")).collect();
    let clients = names.iter().map(|name| side(client, &command, name)).collect::<Result<_>>()?;

    let endings = pair::run(lab, server, clients, tool.ready, scene.limit)?;
    for (name, ending) in std::iter::once("server").chain(names.iter().map(String::as_str)).zip(endings) {
        let tail = || console::tail(&scene.dir.join(name), 15).unwrap_or_default();
        ensure!(ending == Ending::Exited(0), "the {name} ended so: {ending:?}\n{}", tail());
        let shown = match tool.proof {
            Proof::Line(start) => scene.text(name).lines().any(|line| line.starts_with(start)),
            Proof::Row(_) if name == "server" => true,
            Proof::Row(iterations) => has_row(&scene.text(name), iterations),
        };
        ensure!(shown, "the {name} ended well but its output does not show {:?}:\n{}", tool.proof, tail());
    }
    Ok(Tally::ONE)
}

/// Whether there is a row of numbers whose second, the count of iterations, is large enough.
pub fn has_row(output: &str, iterations: u64) -> bool {
    output.lines().any(|line| {
        let mut fields = line.split_whitespace().map(str::parse::<f64>);
        let (Some(Ok(_)), Some(Ok(count))) = (fields.next(), fields.next()) else { return false };
        count >= iterations as f64 && fields.clone().count() >= 1 && fields.all(|field| field.is_ok())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_told_from_the_rest() {
        assert!(has_row(
            " #bytes #iterations\n 65536      2000             0.00      0.00   \t\t   0.000000\n",
            500
        ));
        assert!(!has_row(" 65536      100             0.00               0.00\n", 500));
        assert!(!has_row(" local address: LID 0x01 QPN 0x0086\n 1024 1024 x\n", 500));
    }

    #[test]
    fn commands_are_as_asked() {
        let tools = all(Device::Mlx5);
        let find = |name: &str| tools.iter().find(|tool| tool.name == name).unwrap();
        assert_eq!(find("ib_send_bw -q 4").client, "ib_send_bw -c XRC -d mlx5_0 -n 500 -F -q 4 @");
        assert_eq!(find("ibv_xsrq_pingpong, four clients").server, "ibv_xsrq_pingpong -d mlx5_0 -c 4");
        assert_eq!(find("ibv_xsrq_pingpong -e").client, "ibv_xsrq_pingpong -d mlx5_0 -e @");
    }
}
