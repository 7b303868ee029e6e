//! Compressed bodies and decompression bombs.

use std::io::Write;

use flate2::Compression;
use flate2::write::{DeflateEncoder, GzEncoder, ZlibEncoder};

use super::*;

/// 64 MiB of one letter, compressed with brotli.
const BROTLI_BOMB: &str = "cbffff3ff825c2e2b14020f7fe8fffff7ff04b00c4611180eefd1fffffffe0970088c30200ddfb3ffeffffc12f0110870500\
    baf77ffcffff835f02200e0b0074effff8ffff07bf04401c1600e8defff1ffff0f7e0980382c00d0bdffcbffff3ffc1200715800a07bff07";
/// `packed by brotli`.
const BROTLI: &str = "8b07807061636b65642062792062726f746c6903";

fn bytes(hex: &str) -> Vec<u8> {
    let digits: Vec<u8> = hex.bytes().filter(u8::is_ascii_hexdigit).collect();
    digits.chunks(2).map(|pair| u8::from_str_radix(str::from_utf8(pair).unwrap(), 16).unwrap()).collect()
}

fn gzip(content: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(content).unwrap();
    encoder.finish().unwrap()
}

async fn fetch(encoding: &'static str, body: Vec<u8>) -> Result<Vec<u8>, EgressError> {
    let server =
        Server::new(move |_| ServerReply::ok(&format!("Content-Encoding: {encoding}\r\n"), &body)).await;
    let request = get(&server.url("open.test", "/"));
    here().send(request, &opened("open.test")).await.map(|reply| answer(Ok(reply)).body)
}

#[tokio::test]
async fn every_encoding_that_is_offered_is_unpacked() {
    let mut zlib = ZlibEncoder::new(Vec::new(), Compression::default());
    zlib.write_all(b"packed").unwrap();
    let mut raw = DeflateEncoder::new(Vec::new(), Compression::default());
    raw.write_all(b"packed").unwrap();
    for (encoding, body) in [
        ("gzip", gzip(b"packed")),
        ("GZIP", gzip(b"packed")),
        ("x-gzip", [gzip(b"pac"), gzip(b"ked")].concat()),
        ("deflate", zlib.finish().unwrap()),
        ("deflate", raw.finish().unwrap()),
        ("identity", b"packed".to_vec()),
    ] {
        assert_eq!(fetch(encoding, body).await.as_deref(), Ok(&b"packed"[..]), "{encoding}");
    }
    assert_eq!(fetch("br", bytes(BROTLI)).await.as_deref(), Ok(&b"packed by brotli"[..]));
    assert_eq!(fetch("gzip", Vec::new()).await.as_deref(), Ok(&b""[..]));
    assert_eq!(fetch("br", Vec::new()).await.as_deref(), Ok(&b""[..]));
}

#[tokio::test]
async fn a_bomb_is_noticed_when_it_unfolds() {
    let too_large = Err(EgressError::TooLarge { max_bytes: Limits::default().body_max_bytes });
    let content = vec![0; 64 << 20];
    let mut zlib = ZlibEncoder::new(Vec::new(), Compression::best());
    zlib.write_all(&content).unwrap();
    let mut raw = DeflateEncoder::new(Vec::new(), Compression::best());
    raw.write_all(&content).unwrap();
    for (encoding, bomb) in [
        ("gzip", gzip(&content)),
        ("br", bytes(BROTLI_BOMB)),
        ("deflate", zlib.finish().unwrap()),
        ("deflate", raw.finish().unwrap()),
    ] {
        assert!(bomb.len() < 100_000);
        assert_eq!(fetch(encoding, bomb).await, too_large, "{encoding}");
    }
}

#[tokio::test]
async fn what_cannot_be_unpacked_is_said() {
    let packed = gzip(b"packed");
    for (encoding, body) in [
        ("gzip", b"not packed".to_vec()),
        ("gzip", packed[..packed.len() - 4].to_vec()),
        ("br", vec![0xff; 100]),
        ("br", bytes(BROTLI)[..10].to_vec()),
        // A window of a gigabyte.
        ("br", vec![0x11, 0x1e, 0, 0]),
        ("deflate", vec![0x78; 100]),
        ("zstd", b"x".to_vec()),
        ("gzip, gzip", gzip(&packed)),
        ("gzip\r\nContent-Encoding: br", packed.clone()),
    ] {
        let done = fetch(encoding, body).await;
        assert!(matches!(done, Err(EgressError::Encoding { .. })), "{encoding}: {done:?}");
    }
}
