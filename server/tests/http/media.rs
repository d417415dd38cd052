//! Pictures in every spelling, and pictures that mean harm.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::support::{post, send, shared};

/// A red picture of 2 × 2 pixels.
const RED: &[u8] = &[
    0x89, b'P', b'N', b'G', b'\r', b'\n', 0x1a, b'\n', 0, 0, 0, 13, b'I', b'H', b'D', b'R', 0, 0, 0, 2, 0, 0,
    0, 2, 8, 2, 0, 0, 0, 0xfd, 0xd4, 0x9a, 0x73,
];

/// A PNG of that size; `data` is its compressed rows.
fn png(width: u32, height: u32, data: &[u8]) -> Vec<u8> {
    let mut bytes = RED[..8].to_vec();
    let mut chunk = |name: &[u8; 4], data: &[u8]| {
        bytes.extend_from_slice(&(data.len() as u32).to_be_bytes());
        let start = bytes.len();
        bytes.extend_from_slice(name);
        bytes.extend_from_slice(data);
        let mut crc = flate2::Crc::new();
        crc.update(&bytes[start..]);
        bytes.extend_from_slice(&crc.sum().to_be_bytes());
    };
    let mut head = [width.to_be_bytes(), height.to_be_bytes()].concat();
    head.extend_from_slice(&[8, 2, 0, 0, 0]);
    chunk(b"IHDR", &head);
    chunk(b"IDAT", data);
    chunk(b"IEND", &[]);
    bytes
}

fn red() -> String {
    let rows = [0, 200, 30, 30, 200, 30, 30].repeat(2);
    let mut data = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::fast());
    std::io::Write::write_all(&mut data, &rows).expect("in memory");
    STANDARD.encode(png(2, 2, &data.finish().expect("in memory")))
}

const QUESTION: &str = r#""questions":{"a":{"type":"noul","instructions":"Is it red?"}}"#;

/// img-02: six spellings.
#[test]
fn spellings_of_one_picture() {
    let red = red();
    let url = format!("data:image/png;base64,{red}");
    let ask = |body: String| {
        let reply = post(shared(), "/v1/systemone", &body);
        assert_eq!(reply.status, 200, "{reply:?}");
        reply
    };
    let listed = |image: &str| {
        ask(format!(r#"{{"model":"clef","state":"photo",{QUESTION},"images":[{image}]}}"#)).body
    };
    let first = listed(&format!("\"{url}\""));
    assert_eq!(listed(&format!("\"{red}\"")), first);
    assert_eq!(listed(&format!(r#"{{"content_type":"image/png","base64":"{red}"}}"#)), first);
    let without = ask(format!(r#"{{"model":"clef","state":"photo",{QUESTION}}}"#));
    assert_ne!(without.body, first);
    // These leave a marker in the text; they are equal among themselves.
    let part = ask(format!(
        r#"{{"model":"clef","state":["photo",{{"type":"image_url","image_url":{{"url":"{url}"}}}}],{QUESTION}}}"#
    ));
    let asset = ask(format!(
        r#"{{"model":"clef","state":["photo","<pic>"],{QUESTION},"assets":{{"<pic>":{{"type":"image","format":"png","data_base64":"{red}"}}}}}}"#
    ));
    assert_eq!(part.body, asset.body);
    let openai = post(
        shared(),
        "/v1/decisions",
        &format!(
            r#"{{"model":"clef","input":[{{"role":"user","content":[{{"type":"input_image","image_url":"{url}"}},{{"type":"input_text","text":"photo"}}]}}],"questions":[{{"type":"predicate","instructions":"Is it red?"}}]}}"#
        ),
    );
    assert_eq!(openai.status, 200, "{openai:?}");
    // The form of the TypeSafe SDK: the JSON, then the picture as it is.
    let json = r#"{"model":"clef","state":["photo","<pic>"],QUESTION,"assets":{"<pic>":{"type":"image","part":"asset-0"}}}"#
        .replace("QUESTION", QUESTION);
    let file = STANDARD.decode(&red).expect("base64");
    let parts = |boundary: &str, part: &str| {
        let mut body = format!(
            "--{boundary}\r\nContent-Disposition: form-data; name=\"request\"\r\nContent-Type: application/json\r\n\r\n{json}\r\n\
             --{boundary}\r\nContent-Disposition: form-data; name=\"{part}\"; filename=\"{part}\"\r\nContent-Type: image/png\r\n\r\n"
        )
        .into_bytes();
        body.extend_from_slice(&file);
        body.extend_from_slice(format!("\r\n--{boundary}--\r\n").as_bytes());
        body
    };
    let form = |path: &str, body: &[u8]| {
        send(shared(), "POST", path, &[("content-type", "multipart/form-data; boundary=b0")], body)
    };
    for path in ["/v1/systemone", "/v1/decisions"] {
        let reply = form(path, &parts("b0", "asset-0"));
        assert_eq!((reply.status, &reply.body), (200, &part.body), "{path}");
    }
    let broken = parts("b0", "asset-0");
    for (body, status) in [
        (&parts("b0", "asset-1")[..], 422),
        (&parts("b1", "asset-0"), 422),
        (&broken[..broken.len() - 9], 422),
        (b"--b0\r\nContent-Disposition: form-data; name=\"x\"\r\n\r\n{}\r\n--b0--\r\n", 422),
        (b"--b0--\r\n", 422),
        (b"", 422),
    ] {
        let reply = form("/v1/systemone", body);
        assert_eq!(reply.status, status, "{reply:?}");
    }
    assert_eq!(form("/gliclass", &broken).status, 415);
    let nameless =
        send(shared(), "POST", "/v1/systemone", &[("content-type", "multipart/form-data")], &broken);
    assert_eq!(nameless.status, 415);
}

/// img-03, and other pictures that are none.
#[test]
fn pictures_that_mean_harm() {
    let bomb = STANDARD.encode(png(100_000, 100_000, &[0; 200]));
    let large = STANDARD.encode(png(5000, 5000, &[0; 20]));
    let broken = STANDARD.encode(&RED[..30]);
    for image in
        [bomb.as_str(), &large, &broken, "####", "", "data:text/html;base64,QQ==", "file:///etc/passwd"]
    {
        let body = format!(r#"{{"model":"clef","state":"photo",{QUESTION},"images":["{image}"]}}"#);
        let reply = post(shared(), "/v1/systemone", &body);
        assert_eq!(reply.status, 422, "{image:.40}: {reply:?}");
        assert!(reply.at("error.message").to_string().contains("images[0]"), "{}", reply.body);
    }
    let many = vec![format!("\"{}\"", red()); 5].join(",");
    let reply = post(
        shared(),
        "/v1/systemone",
        &format!(r#"{{"model":"clef","state":"x",{QUESTION},"images":[{many}]}}"#),
    );
    assert_eq!(reply.status, 422);
    let heavy = STANDARD.encode(vec![0; (4 << 20) + 1]);
    let reply = post(
        shared(),
        "/v1/systemone",
        &format!(r#"{{"model":"clef","state":"x",{QUESTION},"images":["{heavy}"]}}"#),
    );
    assert_eq!(reply.status, 413, "{reply:?}");
}
