//! Bodies and connections that mean harm: a clear refusal, and the server goes on.

use std::io::Write as _;
use std::time::Duration;

use dikast_server::Config;

use crate::support::{Reply, clef, config, get, noul, open, post, receive, request, send, shared, start};

/// err-05, and what goes further.
#[test]
fn bad_bodies_are_refused_and_harm_nothing() {
    let before = post(shared(), "/v1/systemone", &noul("calm"));
    let nested = |levels: usize| {
        let (open, shut) = ("[".repeat(levels), "]".repeat(levels));
        format!(r#"{{"model":"clef","state":{open}{shut},"questions":{{"a":{{"type":"noul"}}}}}}"#)
            .into_bytes()
    };
    let wide = format!(
        r#"{{"model":"clef","state":[{}1],"questions":{{"a":{{"type":"noul"}}}}}}"#,
        "1,".repeat(1 << 20)
    );
    let bodies: Vec<Vec<u8>> = vec![
        br#"{"model":"clef","state":"#.to_vec(),
        nested(200),
        nested(5000),
        "[".repeat(1 << 20).into_bytes(),
        br#"{"model":"clef","state":{"t":NaN},"questions":{}}"#.to_vec(),
        b"\xff\xfe\0".to_vec(),
        b"{\"model\":\"clef\",\"state\":\"\xc3\x28\",\"questions\":{\"a\":{\"type\":\"noul\"}}}".to_vec(),
        b"{}".to_vec(),
        b"null".to_vec(),
        br#"{"model":"clef","state":"\ud800","questions":{"a":{"type":"noul"}}}"#.to_vec(),
        wide.into_bytes(),
    ];
    for (i, body) in bodies.iter().enumerate() {
        for path in ["/v1/systemone", "/v1/decisions", "/gliclass", "/predict", "/v1/tokenize"] {
            let reply = send(shared(), "POST", path, &[], body);
            assert!((400..500).contains(&reply.status), "{path} {i}: {reply:?}");
            assert!(reply.json().get("error").is_some(), "{path} {i}: {reply:?}");
        }
    }
    assert_eq!(get(shared(), "/readyz").status, 200);
    assert_eq!(post(shared(), "/v1/systemone", &noul("calm")).body, before.body);
}

#[test]
fn of_equal_keys_the_last_one_counts() {
    let body = r#"{"model":"clef","state":"first","state":"calm","questions":{"a":{"type":"noul","instructions":"Is it?"}}}"#;
    assert_eq!(
        post(shared(), "/v1/systemone", body).body,
        post(shared(), "/v1/systemone", &noul("calm")).body
    );
}

#[test]
fn declared_and_real_sizes_are_limited() {
    let head = |length: &str| {
        format!(
            "POST /v1/systemone HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n{length}\r\n\r\n"
        )
        .into_bytes()
    };
    let refused = |reply: Reply| {
        assert_eq!(
            (reply.status, reply.at("error.code").as_str()),
            (413, Some("request_too_large")),
            "{reply:?}"
        );
    };
    // A gigabyte is declared; nothing of it is read.
    refused(receive(open(shared(), &head("content-length: 1073741824"))));
    // No length is declared, and it never ends.
    let mut endless = head("transfer-encoding: chunked");
    for _ in 0..14 {
        endless.extend_from_slice(b"100000\r\n");
        endless.extend(std::iter::repeat_n(b' ', 1 << 20));
        endless.extend_from_slice(b"\r\n");
    }
    refused(receive(open(shared(), &endless)));
    // A bomb: 64 MiB of blanks in 64 KiB.
    let mut bomb = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    let blanks = vec![b' '; 1 << 20];
    (0..64).for_each(|_| bomb.write_all(&blanks).expect("in memory"));
    let bomb = bomb.finish().expect("in memory");
    assert!(bomb.len() < 128 << 10);
    refused(send(shared(), "POST", "/v1/systemone", &[("content-encoding", "gzip")], &bomb));
    let rubbish = send(shared(), "POST", "/v1/systemone", &[("content-encoding", "zstd")], b"{}");
    assert_eq!(rubbish.status, 422);
}

/// enc-02
#[test]
fn unknown_encodings_and_types_are_named() {
    let body = noul("x");
    let unknown = send(shared(), "POST", "/v1/systemone", &[("content-encoding", "br")], body.as_bytes());
    assert_eq!(unknown.status, 415);
    assert!(unknown.body.contains("gzip") && unknown.body.contains("zstd"), "{}", unknown.body);
    for (name, status) in [
        ("application/x-www-form-urlencoded", 415),
        ("text/plain", 415),
        ("application/JSON; charset=utf-8", 200),
    ] {
        let reply = send(shared(), "POST", "/v1/systemone", &[("content-type", name)], body.as_bytes());
        assert_eq!(reply.status, status, "{name}");
    }
}

#[test]
fn floods_of_headers_are_refused() {
    let names: Vec<String> = (0..2000).map(|i| format!("x-h{i}")).collect();
    let many: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), "v")).collect();
    assert_eq!(send(shared(), "GET", "/livez", &many, b"").status, 431);
    let long = "v".repeat(1 << 20);
    assert_eq!(send(shared(), "GET", "/livez", &[("x-long", &long)], b"").status, 431);
    assert_eq!(get(shared(), "/livez").status, 200);
}

#[test]
fn slow_clients_do_not_stay() {
    let server = start(Config { read_timeout: Duration::from_millis(300), ..config() }, vec![clef()]);
    let address = server.address();
    // A head that never ends.
    let mut slow = open(address, b"GET /livez HTTP/1.1\r\nhost: x\r\n");
    let _ = slow.write_all(b"x-a: ");
    let mut rest = Vec::new();
    assert!(std::io::Read::read_to_end(&mut slow, &mut rest).is_ok(), "the server closes");
    // A connection that has nothing more to say.
    let mut idle = open(address, b"GET /livez HTTP/1.1\r\nhost: x\r\n\r\n");
    assert!(std::io::Read::read_to_end(&mut idle, &mut rest).is_ok(), "the server closes");
    assert!(rest.starts_with(b"HTTP/1.1 200"), "{rest:?}");
    // A body that never ends.
    let whole = request("POST", "/v1/systemone", &[], noul("x").as_bytes());
    let reply = receive(open(address, &whole[..whole.len() - 5]));
    assert_eq!(reply.status, 408, "{reply:?}");
    server.stop();
    assert!(server.join().is_ok());
}

#[test]
fn bodies_over_the_common_room_are_refused_for_now() {
    let server = start(Config { all_body_bytes: 1 << 20, ..config() }, vec![clef()]);
    let address = server.address();
    let large = request("POST", "/v1/systemone", &[], noul(&"x".repeat(900 << 10)).as_bytes());
    let hold = || open(address, &large[..large.len() / 2]);
    let refused = || post(address, "/v1/systemone", &noul(&"x".repeat(300 << 10)));
    let mut half = hold();
    crate::support::until("the first has the room", || {
        let full = refused().at("error.code").as_str() == Some("bodies_full");
        if !full {
            // Another request was there before it, and it was refused itself.
            half = hold();
        }
        full
    });
    assert!(refused().header("retry-after").is_some());
    assert_eq!(post(address, "/v1/systemone", &noul("small")).status, 200);
    drop(half);
    crate::support::until("the room is free", || refused().status != 503);
    server.stop();
    assert!(server.join().is_ok());
}

/// Whoever sends everything before it reads sees the refusal, not a reset.
#[test]
fn a_client_that_only_sends_learns_why_it_was_refused() {
    let large = vec![b' '; 20 << 20];
    let sent = |headers: &[(&str, &str)]| {
        let whole = request("POST", "/v1/systemone", headers, &large);
        let mut stream = std::net::TcpStream::connect(shared()).expect("it listens");
        stream.set_read_timeout(Some(Duration::from_secs(300))).expect("set");
        stream.write_all(&whole).expect("all of it is taken");
        receive(stream)
    };
    assert_eq!(sent(&[]).status, 413);
    assert_eq!(sent(&[("content-type", "text/plain")]).status, 415);
    // Whoever asks first is told at once, and sends nothing.
    let head = b"POST /v1/systemone HTTP/1.1\r\nhost: x\r\nexpect: 100-continue\r\ncontent-length: 1073741824\r\n\r\n";
    let reply = receive(open(shared(), head));
    assert_eq!(reply.status, 413, "{reply:?}");
}

/// Of what is refused nothing is kept: the server's memory stays where it was.
#[cfg(target_os = "linux")]
#[test]
fn memory_stays_bounded_under_refused_bodies() {
    let resident = || {
        let status = std::fs::read_to_string("/proc/self/status").expect("Linux has it");
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("in kB");
        line.trim().trim_end_matches(" kB").parse::<u64>().expect("a number") >> 10
    };
    let before = resident();
    let threads: Vec<_> = (0..4)
        .map(|_| {
            std::thread::spawn(|| {
                // More than the 13 MiB that are read, sent in pieces of one.
                let head = b"POST /v1/systemone HTTP/1.1\r\nhost: x\r\ncontent-length: 134217728\r\n\r\n";
                for _ in 0..4 {
                    let mut stream = open(shared(), head);
                    let piece = vec![b'['; 1 << 20];
                    for _ in 0..32 {
                        if stream.write_all(&piece).is_err() {
                            break;
                        }
                    }
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().expect("no panic"));
    // Half a GiB was sent. Other tests of this program run beside this one, so the bound is wide.
    let after = resident();
    assert!(after < before + 400, "{before} MiB, then {after} MiB");
    assert_eq!(get(shared(), "/readyz").status, 200);
}
