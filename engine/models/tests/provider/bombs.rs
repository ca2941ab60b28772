//! Answers without end: each is given up with an error, and no more of it is read than an answer may have. The server counts.

use std::io::Write as _;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use baton_models::ModelError;
use baton_models::wire::MAX_ANSWER_BYTES;
use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::mpsc;

use crate::server::receive;
use crate::{ask, at};

/// The most bytes of an error that are read.
const MAX_FAULT_BYTES: usize = 64 << 10;
/// The most bytes that the head of an answer may have: hyper's read buffer (`DEFAULT_MAX_BUFFER_SIZE`).
const MAX_HEAD_BYTES: usize = 8_192 + 4_096 * 100;
/// Unpacked size of a packed bomb, in bytes.
const UNPACKED_BYTES: usize = 1 << 30;
/// Bytes that a server may have sent without being read: its own buffer, and pieces on their way.
const SEND_BUFFER: usize = 256 << 10;

/// An answer that is too much.
#[derive(Clone)]
struct Bomb {
    name: &'static str,
    head: String,
    /// Bytes after the head.
    body: Vec<u8>,
    /// Whether that comes again and again.
    is_endless: bool,
    /// The most bytes that the client reads of it.
    most: usize,
    is_expected: fn(&ModelError) -> bool,
}

fn bombs() -> Vec<Bomb> {
    let head = |status: u16, more: &str| format!("HTTP/1.1 {status} Told\r\nconnection: close\r\n{more}\r\n");
    let endless =
        |name, head: String, body: Vec<u8>, most, is_expected| Bomb { name, head, body, is_endless: true, most, is_expected };
    let (stream, plain) = ("content-type: text/event-stream\r\n", "content-type: application/json\r\n");
    let is_too_long: fn(&ModelError) -> bool = |error| matches!(error, ModelError::TooLong { most: MAX_ANSWER_BYTES, .. });
    let is_rejected: fn(&ModelError) -> bool = |error| matches!(error, ModelError::Rejected { status: Some(400), message, .. } if message.starts_with("in more than 65536 bytes"));
    let is_unavailable: fn(&ModelError) -> bool = |error| matches!(error, ModelError::Interrupted { .. });
    let filler = vec![b'x'; 64 << 10];
    let delta = format!("data: {}\n\n", json!({"choices": [{"delta": {"content": "x".repeat(1 << 10)}}]}));
    let call = json!({"index": 0, "id": "c", "function": {"name": "t", "arguments": "x".repeat(1 << 10)}});
    let call = format!("data: {}\n\n", json!({"choices": [{"delta": {"tool_calls": [call]}}]}));
    let empty = format!("data: {}\n\n", json!({"id": "x".repeat(1 << 10), "choices": [{"delta": {}}]}));
    let line = format!("data: {}\n", "x".repeat(1 << 10));
    let announced = format!("{plain}content-length: {}\r\n", 1u64 << 40);
    let packed = packed();
    let packed_head = format!("{plain}content-encoding: gzip\r\ncontent-length: {}\r\n", packed.len());
    vec![
        endless("one line of a stream", head(200, stream), filler.clone(), MAX_ANSWER_BYTES, is_too_long),
        endless("deltas of a text", head(200, stream), delta.into_bytes(), MAX_ANSWER_BYTES, is_too_long),
        endless("deltas of a call", head(200, stream), call.into_bytes(), MAX_ANSWER_BYTES, is_too_long),
        endless("deltas of nothing", head(200, stream), empty.into_bytes(), MAX_ANSWER_BYTES, is_too_long),
        endless("lines of a stream", head(200, stream), line.into_bytes(), MAX_ANSWER_BYTES, is_too_long),
        endless("a whole answer", head(200, plain), filler.clone(), MAX_ANSWER_BYTES, is_too_long),
        endless("a whole answer of 1 TiB", head(200, &announced), filler.clone(), MAX_ANSWER_BYTES, is_too_long),
        endless("an error", head(400, plain), filler.clone(), MAX_FAULT_BYTES, is_rejected),
        endless("an error as a stream", head(400, stream), b"data: x\n\n".repeat(1_000), MAX_FAULT_BYTES, is_rejected),
        endless("headers", "HTTP/1.1 200 Told\r\n".to_owned(), b"x-more: yes\r\n".repeat(1_000), MAX_HEAD_BYTES, is_unavailable),
        endless("one header", "HTTP/1.1 200 Told\r\nx-more: ".to_owned(), filler, MAX_HEAD_BYTES, is_unavailable),
        Bomb {
            name: "1 GiB in gzip",
            head: head(200, &packed_head),
            most: packed.len(),
            body: packed,
            is_endless: false,
            is_expected: |error| matches!(error, ModelError::Broken { .. }),
        },
    ]
}

/// [`UNPACKED_BYTES`] of text, packed: gzip takes members one after the other (RFC 1952, section 2.2).
fn packed() -> Vec<u8> {
    let piece = vec![b'x'; 1 << 20];
    let mut member = GzEncoder::new(Vec::new(), Compression::best());
    member.write_all(&piece).unwrap();
    member.finish().unwrap().repeat(UNPACKED_BYTES / piece.len())
}

/// Outcome of a bomb.
struct Outcome {
    error: ModelError,
    /// For each request, how many bytes of its answer were written before the connection was closed.
    written: Vec<usize>,
    /// By how many KiB the peak of the process's memory grew, where that can be seen.
    grown: Option<u64>,
}

async fn set_off(bomb: &Bomb) -> Outcome {
    let socket = TcpSocket::new_v4().unwrap();
    // Connections inherit it (and the kernel doubles it), so little is written without being read.
    socket.set_send_buffer_size(u32::try_from(SEND_BUFFER / 2).unwrap()).unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let listener = socket.listen(8).unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let (begun, (ended, mut counts)) = (Arc::new(AtomicUsize::new(0)), mpsc::unbounded_channel());
    let serving = tokio::spawn(serve(listener, bomb.clone(), Arc::clone(&begun), ended));
    let before = memory(true);
    let error = ask(&at(&url, "openrouter")).await.expect_err(bomb.name);
    let grown = memory(false).zip(before).map(|(after, before)| after.saturating_sub(before));
    let mut written = Vec::new();
    while written.len() < begun.load(Ordering::Relaxed) {
        written.push(counts.recv().await.unwrap());
    }
    serving.abort();
    Outcome { error, written, grown }
}

/// Answers one request after the other, and reports the number of bytes taken of each answer.
async fn serve(listener: TcpListener, bomb: Bomb, begun: Arc<AtomicUsize>, ended: mpsc::UnboundedSender<usize>) {
    while let Ok((mut stream, _)) = listener.accept().await {
        begun.fetch_add(1, Ordering::Relaxed);
        let mut written = 0;
        // The client disconnects in the middle.
        let _left = answer(&mut stream, &bomb, &mut written).await;
        if ended.send(written).is_err() {
            return;
        }
    }
}

async fn answer(stream: &mut TcpStream, bomb: &Bomb, written: &mut usize) -> std::io::Result<()> {
    receive(stream).await?;
    let again = if bomb.is_endless { usize::MAX } else { 1 };
    for piece in std::iter::once(bomb.head.as_bytes()).chain(std::iter::repeat_n(bomb.body.as_slice(), again)) {
        let mut rest = piece;
        while !rest.is_empty() {
            let count = stream.write(rest).await?;
            *written += count;
            rest = &rest[count..];
        }
    }
    stream.shutdown().await?;
    while stream.read(&mut [0; 64]).await? > 0 {}
    Ok(())
}

/// Returns the memory of this process in KiB: the present one, from which the peak is counted anew, or that peak.
fn memory(is_beginning: bool) -> Option<u64> {
    if is_beginning {
        std::fs::write("/proc/self/clear_refs", "5").ok()?;
    }
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let figure = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    figure.trim().strip_suffix(" kB")?.trim().parse().ok()
}

/// Returns the largest number of received bytes that a kernel keeps unread.
fn receive_buffer() -> usize {
    let limits = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_rmem").ok();
    limits.and_then(|limits| limits.split_whitespace().last()?.parse().ok()).unwrap_or(8 << 20)
}

#[tokio::test]
async fn no_more_is_read_of_an_answer_than_one_may_have() {
    let on_their_way = SEND_BUFFER + receive_buffer() + MAX_HEAD_BYTES;
    println!("{:<26} {:>9} bytes may be read, and {on_their_way} more be on their way", "", MAX_ANSWER_BYTES);
    for bomb in bombs() {
        let Outcome { error, written, grown } = set_off(&bomb).await;
        let grown = grown.map_or_else(|| "?".to_owned(), |grown| grown.to_string());
        println!("{:<26} {written:>9?} bytes written; peak +{grown} KiB; {error}", bomb.name);
        assert!((bomb.is_expected)(&error), "{}: {error:?}", bomb.name);
        let most = bomb.most + bomb.head.len() + on_their_way;
        assert!(!written.is_empty() && written.iter().all(|written| *written <= most), "{}: {written:?} of {most}", bomb.name);
    }
}

/// In a process where nothing else needs memory.
#[cfg(target_os = "linux")]
#[test]
fn no_bomb_takes_more_memory_than_a_few_answers() {
    let test = "bombs::no_more_is_read_of_an_answer_than_one_may_have";
    let alone = Command::new(std::env::current_exe().unwrap()).args(["--exact", test, "--nocapture"]).output().unwrap();
    let said = String::from_utf8_lossy(&alone.stdout);
    assert!(alone.status.success(), "{said}");
    let peaks = said.lines().filter_map(|line| line.split_once("peak +")?.1.split_once(" KiB")?.0.parse::<usize>().ok());
    let peaks: Vec<usize> = peaks.collect();
    let most = peaks.iter().max().copied().unwrap_or_default();
    println!(
        "at most {most} KiB more for {} bombs, of which {} KiB are what an answer may have",
        peaks.len(),
        MAX_ANSWER_BYTES >> 10
    );
    assert_eq!(peaks.len(), bombs().len(), "{said}");
    assert!(most << 10 <= 3 * MAX_ANSWER_BYTES, "{said}");
}
