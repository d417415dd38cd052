//! A device that goes away.

use dikast_server::ServeError;

use crate::device::Controls;
use crate::support::{config, get, metric, noul, open, post, receive, request, start, until};

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
