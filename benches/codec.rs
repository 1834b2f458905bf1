//! What can be measured without a device: the wire forms of an endpoint. With RDMA_XRC_DEVICE set, the
//! pool as well.

use criterion::{Criterion, criterion_group, criterion_main};
use rdma_xrc::{Endpoint, Lid, Mtu, Psn, QpNumber, SrqNumber, devices};
use std::hint::black_box;

fn endpoint() -> Endpoint {
    Endpoint {
        lid: Lid::new(1),
        gid: None,
        mtu: Mtu::Mtu4096,
        initiator: QpNumber::try_from(0x41).expect("24 bits"),
        initiator_psn: Psn::MAX,
        target: QpNumber::try_from(0x42).expect("24 bits"),
        target_psn: Psn::MAX,
        srq: SrqNumber::try_from(7).expect("24 bits"),
    }
}

fn codec(c: &mut Criterion) {
    let (endpoint, bytes, text) = (endpoint(), endpoint().to_bytes(), endpoint().to_string());
    c.bench_function("endpoint to bytes", |b| b.iter(|| black_box(&endpoint).to_bytes()));
    c.bench_function("endpoint from bytes", |b| b.iter(|| Endpoint::from_bytes(black_box(&bytes))));
    c.bench_function("endpoint from text", |b| b.iter(|| black_box(&text).parse::<Endpoint>()));
}

fn pool(c: &mut Criterion) {
    let Ok(name) = std::env::var("RDMA_XRC_DEVICE") else {
        println!("RDMA_XRC_DEVICE is not set: the pool is not measured");
        return;
    };
    let context = devices().and_then(|list| list.find(&name)?.open()).expect("the device opens");
    let pool = context.create_pd().and_then(|pd| pd.pool(64, 4096)).expect("a pool");
    c.bench_function("pool take and return", |b| b.iter(|| black_box(pool.take())));
}

criterion_group!(benches, codec, pool);
criterion_main!(benches);
