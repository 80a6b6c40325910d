//! The binary, as scripts start it.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Command, Stdio};

#[test]
fn the_binary_prints_where_it_listens_and_answers_there() {
    let mut sim = Command::new(env!("CARGO_BIN_EXE_turbopuffer-sim"))
        .args(["--listen", "127.0.0.1:0", "--api-key", "k"])
        .stdout(Stdio::piped())
        .spawn()
        .expect("starts");
    let mut line = String::new();
    let stdout = sim.stdout.take().expect("piped");
    BufReader::new(stdout)
        .read_line(&mut line)
        .expect("prints a line");
    let address = line
        .trim_end()
        .strip_prefix("listening on http://")
        .expect("prints a URL");
    let mut stream = TcpStream::connect(address).expect("listens");
    let request = "GET /v1/namespaces HTTP/1.1\r\nhost: x\r\nconnection: close\r\nauthorization: Bearer k\r\n\r\n";
    stream.write_all(request.as_bytes()).expect("is sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("is answered");
    sim.kill().expect("is running");
    sim.wait().expect("ends");
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    assert!(answer.ends_with(r#"{"namespaces":[]}"#), "{answer}");
}
