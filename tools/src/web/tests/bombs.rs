//! Answers that are meant to hurt: each ends by a bound, with little of it taken.

use std::io::Write;

use flate2::Compression;
use flate2::write::{GzEncoder, ZlibEncoder};

use super::*;

/// 1 GiB of zeros in 1,617 bytes, by the encoder of the crate `brotli` at quality 5 with a window of 22 bits.
const BROTLI_ZEROS: &[u8] = include_bytes!("zeros-1-gib.br");
/// Many times the bytes that loopback buffers: no server sent more before its client disconnected.
const MOST_SENT: u64 = 64 << 20;

fn excess(excess: Excess) -> FetchError {
    FetchError::Excess { host: "127.0.0.1".to_owned(), excess }
}

/// Returns the error of reading a page of these pieces, once the server has noticed the disconnect.
async fn end_of(pieces: impl Fn() -> Vec<Piece> + Send + Sync + 'static, bounds: Bounds) -> FetchError {
    let site = Site::start(move |_| pieces()).await;
    let error = page_of(&site, bounds).await.unwrap_err();
    println!("{error}; {} bytes sent on {} connection", site.sent(), site.connections());
    assert_eq!(site.connections(), 1);
    assert!(site.sent() < MOST_SENT, "{} bytes were sent", site.sent());
    error
}

#[tokio::test]
async fn what_unpacks_to_gigabytes_ends_at_the_ratio_or_the_bound() {
    let zeros = vec![0; 10 << 20];
    let mut gzip = GzEncoder::new(Vec::new(), Compression::best());
    let mut zlib = ZlibEncoder::new(Vec::new(), Compression::best());
    gzip.write_all(&zeros).unwrap();
    zlib.write_all(&zeros).unwrap();
    let (gzip, zlib) = (gzip.finish().unwrap(), zlib.finish().unwrap());
    let (ratio, most) = (Excess::Ratio { most: 200 }, Excess::Bytes { most: 5 << 20 });
    // 10 MB of these members are 10 GB.
    let member = gzip.clone();
    let bomb = move || vec![Piece::head("content-encoding: gzip\r\n"), Piece::Repeat(member.clone(), 1_000)];
    assert_eq!(end_of(bomb, quick()).await, excess(ratio));
    let patient = Bounds { ratio: 2_000, ..quick() };
    let bomb = move || vec![Piece::head("content-encoding: gzip\r\n"), Piece::Repeat(gzip.clone(), 1_000)];
    assert_eq!(end_of(bomb, patient).await, excess(most));
    let bomb = move || vec![Piece::head("content-encoding: deflate\r\n"), Piece::Bytes(zlib.clone())];
    assert_eq!(end_of(bomb, quick()).await, excess(ratio));
    let bomb = || vec![Piece::head("content-encoding: br\r\n"), Piece::Bytes(BROTLI_ZEROS.to_vec())];
    assert_eq!(end_of(bomb, quick()).await, excess(ratio));
    let layers = || vec![Piece::head("content-encoding: gzip\r\ncontent-encoding: gzip\r\n"), Piece::Silence];
    assert_eq!(end_of(layers, quick()).await, excess(Excess::Packing));
}

#[tokio::test]
async fn an_endless_body_ends_at_the_bound() {
    let most = Excess::Bytes { most: 5 << 20 };
    let plain = || vec![Piece::head(""), Piece::Repeat(vec![b'x'; 1 << 16], u64::MAX)];
    assert_eq!(end_of(plain, quick()).await, excess(most));
    let chunked = || vec![Piece::head("transfer-encoding: chunked\r\n"), Piece::Repeat(b"4\r\nxxxx\r\n".repeat(1_000), u64::MAX)];
    assert_eq!(end_of(chunked, quick()).await, excess(most));
}

#[tokio::test]
async fn a_length_that_is_a_lie_is_neither_waited_for_nor_made_room_for() {
    let huge = || vec![Piece::head("content-length: 10000000000000\r\n"), Piece::Silence];
    assert_eq!(end_of(huge, quick()).await, excess(Excess::Bytes { most: 5 << 20 }));
    let cut = || vec![Piece::head("content-length: 1000\r\n"), Piece::Bytes(b"<p>begun".to_vec())];
    assert!(matches!(end_of(cut, quick()).await, FetchError::Failed { .. }));
    let site = Site::start(|_| vec![Piece::head("content-length: 4\r\n"), Piece::Bytes(b"<p>x and much more".to_vec())]).await;
    assert_eq!(page_of(&site, quick()).await.unwrap().body, b"<p>x");
}

#[tokio::test]
async fn huge_and_endless_headers_end_at_what_http_allows() {
    let huge = || {
        let head = b"HTTP/1.1 200 OK\r\nx-long: ".to_vec();
        vec![Piece::Bytes(head), Piece::Repeat(vec![b'x'; 1 << 16], 50 << 4)]
    };
    assert!(matches!(end_of(huge, quick()).await, FetchError::Failed { .. }));
    let many = || vec![Piece::Bytes(b"HTTP/1.1 200 OK\r\n".to_vec()), Piece::Repeat(b"x: y\r\n".repeat(1_000), u64::MAX)];
    assert!(matches!(end_of(many, quick()).await, FetchError::Failed { .. }));
    let no_http = || vec![Piece::Repeat(b"SSH-2.0-OpenSSH_9.6\r\n".repeat(1_000), u64::MAX)];
    assert!(matches!(end_of(no_http, quick()).await, FetchError::Failed { .. }));
}

#[tokio::test]
async fn silence_and_slow_drips_end_by_time() {
    let moment = Duration::from_millis(50);
    let impatient = Bounds { connect: moment, idle: moment, ..quick() };
    let mute = end_of(|| vec![Piece::Silence], impatient).await;
    assert!(matches!(mute, FetchError::TimedOut { what: "no answer began", .. }), "{mute}");
    let stops = end_of(|| vec![Piece::head(""), Piece::Bytes(b"<p>".to_vec()), Piece::Silence], impatient).await;
    assert!(matches!(stops, FetchError::TimedOut { what: "the answer stopped in the middle", .. }), "{stops}");
    // A byte at a time is never silent for long, and never done.
    let bounded = Bounds { total: Duration::from_millis(300), ..quick() };
    let drip = || vec![Piece::head(""), Piece::Drip(vec![b'x'; 1 << 20], Duration::from_millis(5))];
    let slow = end_of(drip, bounded).await;
    assert!(matches!(slow, FetchError::TimedOut { what: "no whole page", .. }), "{slow}");
    let head = || vec![Piece::Drip(b"HTTP/1.1 200 OK\r\nx: y\r\n".repeat(1 << 16), Duration::from_millis(5))];
    let slow_head = end_of(head, bounded).await;
    assert!(matches!(slow_head, FetchError::TimedOut { what: "no whole page", .. }), "{slow_head}");
}
