//! A site on loopback for browser tests: each path has an answer, and every request is counted.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

/// An answer to requests for one path.
pub(super) enum Answer {
    /// A page.
    Page(String),
    /// A redirect.
    Redirect(String),
    /// A file to be kept.
    Download,
    /// None: the connection stays open.
    Never,
}

/// A running site. Its threads end with the tests.
pub(super) struct Site {
    pub(super) address: SocketAddr,
    requests: Arc<Mutex<Vec<String>>>,
}

impl Site {
    /// Starts a site with these answers.
    pub(super) fn start<const N: usize>(answers: [(&str, Answer); N]) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let (address, requests) = (listener.local_addr().unwrap(), Arc::<Mutex<Vec<String>>>::default());
        let answers: BTreeMap<String, Answer> = answers.map(|(path, answer)| (path.to_owned(), answer)).into();
        let (answers, asked) = (Arc::new(answers), Arc::clone(&requests));
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (answers, asked, Ok(stream)) = (Arc::clone(&answers), Arc::clone(&asked), stream) else { return };
                std::thread::spawn(move || answer(stream, &answers, &asked));
            }
        });
        Self { address, requests }
    }

    /// Returns the address of one of its pages.
    pub(super) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// Returns the paths that were requested, in order.
    pub(super) fn requests(&self) -> Vec<String> {
        self.requests.lock().unwrap().clone()
    }
}

/// Returns a page with this body.
pub(super) fn page(title: &str, body: &str) -> Answer {
    Answer::Page(format!("<!doctype html><meta charset=utf-8><title>{title}</title><link rel=icon href=data:,><body>{body}"))
}

/// Answers one request, and ends the connection.
fn answer(stream: TcpStream, answers: &BTreeMap<String, Answer>, asked: &Mutex<Vec<String>>) -> Option<()> {
    let mut reader = BufReader::new(stream.try_clone().ok()?);
    let mut first = String::new();
    reader.read_line(&mut first).ok()?;
    let path = first.split(' ').nth(1)?.to_owned();
    asked.lock().unwrap().push(path.clone());
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).ok()? == 0 || line == "\r\n" {
            break;
        }
    }
    let (status, headers, body) = match answers.get(path.split('?').next()?) {
        Some(Answer::Page(text)) => ("200 OK", "Content-Type: text/html\r\n".to_owned(), text.as_str()),
        Some(Answer::Redirect(to)) => ("302 Found", format!("Location: {to}\r\n"), ""),
        Some(Answer::Download) => {
            ("200 OK", "Content-Type: application/zip\r\nContent-Disposition: attachment\r\n".to_owned(), "PK")
        }
        Some(Answer::Never) => {
            // Ends when the browser gives up.
            reader.read_to_end(&mut Vec::new()).ok()?;
            return None;
        }
        None => ("404 Not Found", String::new(), ""),
    };
    let length = body.len();
    let head = format!("HTTP/1.1 {status}\r\n{headers}Content-Length: {length}\r\nConnection: close\r\n\r\n");
    let mut stream = stream;
    stream.write_all(head.as_bytes()).ok()?;
    stream.write_all(body.as_bytes()).ok()
}
