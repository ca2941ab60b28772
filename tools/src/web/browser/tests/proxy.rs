use std::net::IpAddr;

use baton_tool::BoxFuture;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::super::super::fetch::site::{Piece, Site};
use super::*;

/// Names that lead to this machine, as an attacker can have them.
struct Rebound;

impl Resolver for Rebound {
    fn addresses(&self, host: &str) -> BoxFuture<'_, io::Result<Vec<IpAddr>>> {
        let address =
            if host.ends_with(".example") { Ok(vec![Ipv4Addr::LOCALHOST.into()]) } else { Err(io::Error::other("no such name")) };
        Box::pin(std::future::ready(address))
    }
}

async fn proxy(hosts: &[&str]) -> Proxy {
    let allowed = Allowed::parse(hosts.iter().copied(), vec![]).unwrap();
    Proxy::start(allowed, Arc::new(Rebound)).await.unwrap()
}

/// Sends `request` to a proxy. Returns its whole answer.
async fn answer(proxy: &Proxy, request: &str) -> String {
    let mut stream = TcpStream::connect(proxy.address).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer
}

fn get(url: &str) -> String {
    format!(
        "GET {url} HTTP/1.1\r\nHost: elsewhere.example\r\nProxy-Connection: keep-alive\r\nX-Own: 1\r\nConnection: close, x-own\r\n\r\n"
    )
}

async fn site() -> Site {
    Site::start(|_| vec![Piece::text("200 OK", "text/plain", "hello")]).await
}

#[tokio::test]
async fn a_request_goes_to_the_host_of_its_address_without_headers_for_the_proxy() {
    let site = site().await;
    let host = format!("shop.example:{}", site.port);
    let proxy = proxy(&[&host]).await;
    let answer = answer(&proxy, &get(&format!("http://{host}/a?b=1"))).await;
    assert!(answer.starts_with("HTTP/1.1 200 OK") && answer.ends_with("hello"), "{answer}");
    let head = site.requests().remove(0).to_lowercase();
    assert!(head.starts_with("get /a?b=1 http/1.1\r\n"), "{head}");
    assert!(!head.contains("proxy") && !head.contains("x-own") && !head.contains("connection:"), "{head}");
    assert_eq!(proxy.refused(), 0);
}

#[tokio::test]
async fn a_name_that_leads_to_this_machine_is_refused_for_requests_and_tunnels() {
    let site = site().await;
    let proxy = proxy(&[]).await;
    let port = site.port;
    let refused = [
        get("http://shop.example/"),
        get(&format!("http://127.0.0.1:{port}/")),
        get("http://localhost/"),
        get("ftp://shop.example/"),
        get("http://0.document.localhost/secret.csv"),
        "CONNECT shop.example:443 HTTP/1.1\r\nHost: shop.example:443\r\nConnection: close\r\n\r\n".to_owned(),
        "CONNECT shop.example:80 HTTP/1.1\r\nHost: shop.example:80\r\nConnection: close\r\n\r\n".to_owned(),
        format!("CONNECT 127.0.0.1:{port} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"),
        "CONNECT 0.document.localhost:80 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".to_owned(),
    ];
    for (count, request) in (1..).zip(&refused) {
        let answer = answer(&proxy, request).await;
        assert!(answer.starts_with("HTTP/1.1 403 ") && answer.ends_with("\r\n\r\n"), "{request}: {answer}");
        assert_eq!(proxy.refused(), count);
    }
    assert_eq!(site.connections(), 0);
    let reason = proxy.refusal_after(0).unwrap();
    assert!(reason.contains("document.localhost") && reason.contains("not allowed"), "{reason}");
    assert_eq!(proxy.refusal_after(proxy.refused()), None);
}

#[tokio::test]
async fn a_tunnel_carries_bytes_and_ends_with_the_proxy() {
    let site = Site::start(|_| vec![Piece::Bytes(b"inside".to_vec()), Piece::Silence]).await;
    let host = format!("shop.example:{}", site.port);
    let proxy = proxy(&[&host]).await;
    let mut stream = TcpStream::connect(proxy.address).await.unwrap();
    stream.write_all(format!("CONNECT {host} HTTP/1.1\r\nHost: {host}\r\n\r\n").as_bytes()).await.unwrap();
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.unwrap());
    }
    assert!(head.starts_with(b"HTTP/1.1 200 OK"), "{}", String::from_utf8_lossy(&head));
    stream.write_all(b"anything\r\n\r\n").await.unwrap();
    let mut inside = [0; 6];
    stream.read_exact(&mut inside).await.unwrap();
    assert_eq!(&inside, b"inside");
    drop(proxy);
    assert!(matches!(stream.read(&mut inside).await, Ok(0) | Err(_)), "the tunnel is closed");
}

#[tokio::test]
async fn a_host_that_does_not_answer_is_an_error_of_one_request() {
    let proxy = proxy(&["shop.example:1"]).await;
    assert!(answer(&proxy, &get("http://shop.example:1/")).await.starts_with("HTTP/1.1 403 "));
    assert!(proxy.refusal_after(0).unwrap().starts_with("the connection to shop.example failed"));
}
