//! Addresses that pages may not reach, by every way out that a page has.

use std::io::ErrorKind;
use std::net::UdpSocket;

use serde_json::json;

use super::browse;
use super::site::{Answer, Site, page};

#[tokio::test]
async fn an_agent_cannot_name_a_private_address() {
    let (site, secret) = (Site::start([("/", page("Page", "x"))]), Site::start([("/", page("Secret", "secret"))]));
    let addresses = [
        secret.url("/"),
        "http://10.0.0.1/".to_owned(),
        "http://localhost/".to_owned(),
        "http://document.localhost/x".to_owned(),
        "http://169.254.169.254/latest/meta-data/".to_owned(),
        "file:///etc/passwd".to_owned(),
        "data:text/html,x".to_owned(),
        "javascript:1".to_owned(),
        "chrome://version".to_owned(),
        "view-source:http://example.com/".to_owned(),
        "https://user:word@example.com/".to_owned(),
    ];
    let outcomes = browse(&site, addresses.iter().map(|url| json!({"action": "navigate", "url": url})).collect()).await;
    for (outcome, address) in outcomes.iter().zip(&addresses) {
        assert!(outcome.as_ref().unwrap_err().contains("not allowed"), "{address}: {outcome:?}");
    }
    assert_eq!(secret.requests(), Vec::<String>::new());
}

#[tokio::test]
async fn a_redirect_to_a_private_address_is_refused() {
    let secret = Site::start([("/", page("Secret", "secret"))]);
    let site =
        Site::start([("/", Answer::Redirect(secret.url("/"))), ("/file", Answer::Redirect("file:///etc/passwd".to_owned()))]);
    let outcomes = browse(
        &site,
        vec![
            json!({"action": "navigate", "url": site.url("/")}),
            json!({"action": "navigate", "url": site.url("/file")}),
            json!({"action": "extract"}),
        ],
    )
    .await;
    let refused = outcomes[0].as_ref().unwrap_err();
    assert!(refused.contains("could not be loaded: port") && refused.contains("is not allowed"), "{refused}");
    assert!(outcomes[1].as_ref().unwrap_err().contains("could not be loaded"), "{:?}", outcomes[1]);
    let text = outcomes[2].as_ref().unwrap()["text"].as_str().unwrap();
    assert!(!text.contains("root:"), "{text}");
    assert_eq!(secret.requests(), Vec::<String>::new());
}

/// Each way out is tried by the page itself, which waits until all have failed.
#[tokio::test]
async fn a_page_cannot_reach_private_addresses_by_any_request() {
    let secret = Site::start([("/", page("Secret", "secret"))]);
    let port = secret.address.port();
    let hosts =
        [format!("127.0.0.1:{port}"), format!("localhost:{port}"), format!("127.1:{port}"), format!("x.localhost:{port}")];
    let script = r"
        const ended = (node, ...events) => new Promise(done => events.forEach(event => node.addEventListener(event, () => done(event))));
        const added = (tag, key, url) => { const node = document.createElement(tag); node[key] = url;
            const end = ended(node, 'load', 'error'); document.body.append(node); return end; };
        const ways = {
            fetch: url => fetch(url, {mode: 'no-cors'}).then(() => 'load', () => 'error'),
            post: url => fetch(url, {method: 'POST', body: 'x', mode: 'no-cors'}).then(() => 'load', () => 'error'),
            image: url => added('img', 'src', url),
            script: url => added('script', 'src', url),
            frame: url => added('iframe', 'src', url),
            socket: url => ended(new WebSocket(url.replace('http', 'ws')), 'open', 'error'),
            events: url => ended(new EventSource(url), 'open', 'error'),
            worker: url => ended(new Worker(URL.createObjectURL(new Blob([
                `fetch('${url}', {mode: 'no-cors'}).then(() => postMessage(1), () => postMessage(0))`]))), 'message'),
            beacon: url => Promise.resolve(navigator.sendBeacon(url, 'x') ? 'sent' : 'error'),
        };
        const tried = [];
        for (const host of HOSTS) for (const [way, request] of Object.entries(ways))
            tried.push(request(`http://${host}/${way}`).then(end => `${way} ${end}`));
        (await Promise.all(tried)).filter(end => end.endsWith('load') && !end.startsWith('frame') || end.endsWith('open'))
    ";
    let script = script.replace("HOSTS", &json!(hosts).to_string());
    let site = Site::start([("/", page("Page", "x"))]);
    let outcomes =
        browse(&site, vec![json!({"action": "navigate", "url": site.url("/")}), json!({"action": "evaluate", "script": script})])
            .await;
    // A refusal is an empty answer with the status 403. Requests whose answers cannot be read do not fail by it.
    let succeeded = outcomes[1].as_ref().unwrap()["result"].as_array().unwrap().clone();
    assert!(succeeded.iter().all(|way| ["fetch load", "post load"].contains(&way.as_str().unwrap())), "{succeeded:?}");
    assert_eq!(secret.requests(), Vec::<String>::new());
}

#[tokio::test]
async fn a_page_cannot_send_packets_or_open_files() {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_nonblocking(true).unwrap();
    let script = format!(
        "const peer = new RTCPeerConnection({{iceServers: [{{urls: 'stun:127.0.0.1:{port}'}}]}}); peer.createDataChannel('x');
         const complete = new Promise(done => peer.onicegatheringstatechange = () => peer.iceGatheringState === 'complete' && done());
         await peer.setLocalDescription(await peer.createOffer()); await complete; 'gathered'",
        port = socket.local_addr().unwrap().port()
    );
    let site = Site::start([("/", page("Page", "x"))]);
    let outcomes = browse(
        &site,
        vec![
            json!({"action": "navigate", "url": site.url("/")}),
            json!({"action": "evaluate", "script": script}),
            json!({"action": "evaluate", "script": "location.href = 'file:///etc/passwd'"}),
            json!({"action": "extract"}),
            json!({"action": "navigate", "url": "about:blank"}),
            json!({"action": "evaluate", "script": "location.href = 'file:///etc/passwd'"}),
            json!({"action": "extract"}),
        ],
    )
    .await;
    assert_eq!(outcomes[1].as_ref().unwrap()["result"], "gathered");
    assert_eq!(socket.recv_from(&mut [0; 100]).unwrap_err().kind(), ErrorKind::WouldBlock, "a packet was sent");
    for opened in [&outcomes[3], &outcomes[6]] {
        let page = opened.as_ref().unwrap();
        assert!(
            !page["url"].as_str().unwrap().starts_with("file:") && !page["text"].as_str().unwrap().contains("root:"),
            "{page}"
        );
    }
}
