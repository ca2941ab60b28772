//! A server that sends exactly the bytes of a test, and counts its connections.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// A piece of the server's answer.
pub(crate) enum Piece {
    /// These bytes.
    Bytes(Vec<u8>),
    /// These bytes so many times.
    Repeat(Vec<u8>, u64),
    /// These bytes one by one, with a pause before each.
    Drip(Vec<u8>, Duration),
    /// Nothing more, while the connection stays open.
    Silence,
}

impl Piece {
    /// Returns a whole answer.
    pub(crate) fn text(status: &str, content_type: &str, body: &str) -> Self {
        let head = format!("HTTP/1.1 {status}\r\ncontent-type: {content_type}\r\ncontent-length: {}\r\n\r\n", body.len());
        Self::Bytes((head + body).into_bytes())
    }

    /// Returns the head of a page whose body ends with its connection; `headers` end with line breaks.
    pub(crate) fn head(headers: &str) -> Self {
        Self::Bytes(format!("HTTP/1.1 200 OK\r\ncontent-type: text/html\r\n{headers}\r\n").into_bytes())
    }

    /// Returns a redirect.
    pub(crate) fn redirect(status: u16, location: &str) -> Self {
        Self::Bytes(format!("HTTP/1.1 {status} See there\r\nlocation: {location}\r\ncontent-length: 0\r\n\r\n").into_bytes())
    }
}

/// A server on loopback.
pub(crate) struct Site {
    pub(crate) port: u16,
    connections: Arc<AtomicUsize>,
    sent: Arc<AtomicU64>,
    requests: Arc<Mutex<Vec<String>>>,
}

impl Site {
    /// Serves the answers of `say`, which gets the head of each request. Listens on every address of this machine.
    pub(crate) async fn start(say: impl Fn(&str) -> Vec<Piece> + Send + Sync + 'static) -> Self {
        // Both kinds of addresses where the machine has both: an unspecified IPv6 socket takes IPv4, too.
        let listener = match TcpListener::bind("[::]:0").await {
            Ok(listener) => listener,
            Err(_) => TcpListener::bind("0.0.0.0:0").await.unwrap(),
        };
        let site = Self {
            port: listener.local_addr().unwrap().port(),
            connections: Arc::default(),
            sent: Arc::default(),
            requests: Arc::default(),
        };
        let (connections, sent, requests) = (Arc::clone(&site.connections), Arc::clone(&site.sent), Arc::clone(&site.requests));
        let say = Arc::new(say);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                connections.fetch_add(1, Ordering::SeqCst);
                let (say, sent, requests) = (Arc::clone(&say), Arc::clone(&sent), Arc::clone(&requests));
                tokio::spawn(async move {
                    // The client may have ended the connection.
                    let _gone = serve(stream, &*say, &sent, &requests).await;
                });
            }
        });
        site
    }

    /// Returns the number of connections.
    pub(crate) fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }

    /// Returns the number of bytes sent.
    pub(crate) fn sent(&self) -> u64 {
        self.sent.load(Ordering::SeqCst)
    }

    /// Returns the heads of all requests.
    pub(crate) fn requests(&self) -> Vec<String> {
        self.requests.lock().unwrap().clone()
    }
}

async fn serve(
    mut stream: TcpStream,
    say: &(impl Fn(&str) -> Vec<Piece> + Sync),
    sent: &AtomicU64,
    requests: &Mutex<Vec<String>>,
) -> std::io::Result<()> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await?);
    }
    let head = String::from_utf8_lossy(&head).into_owned();
    requests.lock().unwrap().push(head.clone());
    for piece in say(&head) {
        match piece {
            Piece::Bytes(bytes) => send(&mut stream, &bytes, sent).await?,
            Piece::Repeat(bytes, times) => {
                for _ in 0..times {
                    send(&mut stream, &bytes, sent).await?;
                }
            }
            Piece::Drip(bytes, pause) => {
                for byte in bytes {
                    tokio::time::sleep(pause).await;
                    send(&mut stream, &[byte], sent).await?;
                }
            }
            Piece::Silence => {
                let mut rest = Vec::new();
                stream.read_to_end(&mut rest).await?;
            }
        }
    }
    stream.shutdown().await
}

async fn send(stream: &mut TcpStream, bytes: &[u8], sent: &AtomicU64) -> std::io::Result<()> {
    stream.write_all(bytes).await?;
    sent.fetch_add(bytes.len() as u64, Ordering::SeqCst);
    Ok(())
}
