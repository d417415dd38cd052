//! A device that goes away.

use dikast_server::ServeError;

use dikast_core::Result;
use dikast_wgpu::{DeviceOptions, WgpuBackend};

use crate::device::Controls;
use crate::support::{at, config, get, list, metric, noul, open, post, receive, request, start, until};

#[test]
fn a_device_that_comes_back_costs_nobody_an_answer() {
    let controls = Controls::default();
    let server = start(config(), vec![controls.clef()]);
    let address = server.address();
    let before = post(address, "/v1/systemone", &noul("calm"));
    controls.lose(1);
    let during = post(address, "/v1/systemone", &noul("calm"));
    assert_eq!((during.status, &during.body), (200, &before.body));
    assert_eq!(controls.opens(), 2);
    assert_eq!(metric(address, "decisions_device_lost_total{model=\"clef-tiny\"}"), 1.0);
    assert_eq!(get(address, "/readyz").status, 200);
    // A request that loses the device twice is refused, the next one is served.
    controls.lose(2);
    let twice = post(address, "/v1/systemone", &noul("calm"));
    assert_eq!((twice.status, twice.at("error.code").as_str()), (503, Some("device_lost")));
    assert!(twice.header("retry-after").is_some());
    assert_eq!(post(address, "/v1/systemone", &noul("calm")).body, before.body);
    server.stop();
    assert!(server.join().is_ok());
}

#[test]
fn a_device_that_stays_away_ends_the_server() {
    let controls = Controls::default();
    let server = start(config(), vec![controls.clef()]);
    let address = server.address();
    controls.shut();
    let running = open(address, &request("POST", "/v1/systemone", &[], noul("a").as_bytes()));
    until("it runs", || controls.arrived() == 2);
    let waiting = open(address, &request("POST", "/v1/systemone", &[], noul("b").as_bytes()));
    until("it waits", || metric(address, "decisions_queue_depth{model=\"clef-tiny\"}") == 2.0);
    controls.break_for_good();
    controls.lose(1);
    controls.open();
    for stream in [running, waiting] {
        let reply = receive(stream);
        assert_eq!(reply.status, 503, "{reply:?}");
    }
    let outcome = server.join();
    assert!(matches!(&outcome, Err(ServeError::Model { id, .. }) if id == "clef-tiny"), "{outcome:?}");
}

/// A real device that is destroyed under its requests: they are answered after it was opened again, with the same bits, and
/// the server is not ready meanwhile. On a machine without a device this says so and passes, unless
/// `DIKAST_TEST_GPU=required`.
#[test]
fn requests_on_a_destroyed_gpu_are_answered_by_the_next_one() {
    let open_gpu: fn() -> Result<WgpuBackend> =
        || pollster::block_on(WgpuBackend::open(&DeviceOptions::from_env()));
    if let Err(error) = open_gpu() {
        assert!(std::env::var("DIKAST_TEST_GPU").is_ok_and(|v| v != "required"), "{error}");
        eprintln!("NOT RUN, no device to test on: {error}");
        return;
    }
    let controls = Controls::default();
    let model = controls.source(1, open_gpu, |device| {
        device.destroy();
        Ok(())
    });
    let server = start(config(), vec![model]);
    let address = server.address();
    let body = |i: usize| noul(&format!("state number {i}"));
    let before: Vec<_> = (0..6).map(|i| post(address, "/v1/systemone", &body(i)).body).collect();
    controls.shut();
    controls.keep_away();
    controls.lose(1);
    let inside: Vec<_> =
        (0..6).map(|i| open(address, &request("POST", "/v1/systemone", &[], body(i).as_bytes()))).collect();
    until("all are inside", || metric(address, "decisions_queue_depth{model=\"clef-tiny\"}") == 6.0);
    controls.open();
    until("readiness goes down", || get(address, "/readyz").status == 503);
    assert_eq!(get(address, "/readyz").at("models.clef-tiny").as_str(), Some("recovering"));
    assert_eq!(get(address, "/livez").status, 200);
    controls.bring_back();
    for (stream, before) in inside.into_iter().zip(before) {
        let reply = receive(stream);
        assert_eq!((reply.status, reply.body), (200, before));
    }
    assert_eq!(get(address, "/readyz").status, 200);
    assert_eq!(controls.opens(), 2);
    server.stop();
    assert!(server.join().is_ok());
}

#[test]
fn several_devices_work_at_once_and_one_that_stays_away_is_missed_by_nobody() {
    let controls = Controls::default();
    let server = start(config(), vec![controls.clef_on(2)]);
    let address = server.address();
    assert_eq!((controls.opens(), controls.arrived()), (2, 2));
    let before = post(address, "/v1/systemone", &noul("b"));
    let warm = controls.arrived();
    controls.shut();
    let send = |state: &str| open(address, &request("POST", "/v1/systemone", &[], noul(state).as_bytes()));
    let first = send("a");
    until("one device is at the first", || controls.arrived() == warm + 1);
    let second = send("b");
    until("the other one takes the second", || controls.arrived() == warm + 2);
    // One of both goes away with its request and does not come back.
    controls.break_for_good();
    controls.lose(1);
    controls.open();
    let (first, second) = (receive(first), receive(second));
    let mut statuses = [first.status, second.status];
    statuses.sort_unstable();
    assert_eq!(statuses, [200, 503], "{first:?} {second:?}");
    let refused = if first.status == 503 { first } else { second };
    assert_eq!(refused.at("error.code").as_str(), Some("device_lost"));
    assert!(refused.header("retry-after").is_some());
    // The other one goes on alone.
    assert_eq!(get(address, "/readyz").status, 200);
    assert_eq!(post(address, "/v1/systemone", &noul("b")).body, before.body);
    let info = get(address, "/info").json();
    let devices = at(&info, "models.0.devices");
    let mut states: Vec<_> = list(&devices).iter().map(|d| at(d, "status").to_string()).collect();
    states.sort_unstable();
    assert_eq!(states, ["\"ended\"", "\"ready\""]);
    // Without it the server has nothing to serve with.
    controls.lose(1);
    assert_eq!(post(address, "/v1/systemone", &noul("c")).status, 503);
    assert!(matches!(server.join(), Err(ServeError::Model { .. })));
}

#[test]
fn a_device_that_does_not_open_ends_the_server() {
    let controls = Controls::default();
    controls.break_for_good();
    let server = dikast_server::Server::start(config(), vec![controls.clef_on(3)]).expect("it listens");
    assert!(!server.wait_ready());
    assert!(matches!(server.join(), Err(ServeError::Model { .. })));
}
