//! Counts the requests that a running service receives on a TCP port, without its help: data segments of its connections,
//! as the kernel counts them. Must not depend on the service.
//!
//! A request that fits into one segment, and is answered before the next one, is one data segment. Pipelined requests
//! share segments, and long ones need several. Connections are identified by their cookies, so that a closed connection
//! keeps what it has contributed: only what arrives between the last reading and the close is lost.

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io;
use std::os::fd::AsFd;

use model::analysis::live::TcpTraffic;
use netlink_packet_core::{NLM_F_DUMP, NLM_F_REQUEST, NetlinkHeader, NetlinkMessage, NetlinkPayload};
use netlink_packet_sock_diag::SockDiagMessage;
use netlink_packet_sock_diag::constants::{AF_INET, AF_INET6, IPPROTO_TCP};
use netlink_packet_sock_diag::inet::nlas::Nla;
use netlink_packet_sock_diag::inet::{ExtensionFlags, InetRequest, InetResponse, SocketId, StateFlags};
use netlink_sys::protocols::NETLINK_SOCK_DIAG;
use netlink_sys::{Socket, SocketAddr};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

/// A counter that cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum TcpRequestsError {
    #[error("no service listens on port {0}")]
    NotListening(u16),
    #[error("cannot read the counters of TCP connections (NETLINK_SOCK_DIAG): {0}")]
    Kernel(#[from] io::Error),
    #[error("cannot enter the network namespace of process {pid}: {cause}")]
    Namespace { pid: u32, cause: io::Error },
    #[error("the kernel sent an unknown message about TCP connections: {0}")]
    Message(String),
}

/// Identity of a connection since the boot.
type Cookie = [u8; 8];

/// Readings after which a connection that the kernel did not list is closed. One reading may miss connections, because
/// others begin and end while it is made.
const MISSED_MAX: u32 = 3;

#[derive(Default)]
struct Connection {
    /// Data segments at the last reading. The counter has 32 bits and wraps around.
    segments: u32,
    bytes: u64,
    /// Readings since.
    missed: u32,
}

/// Requests received on the connections to a local port.
pub struct TcpRequests {
    port: u16,
    socket: Socket,
    seen: HashMap<Cookie, Connection>,
    traffic: TcpTraffic,
}

impl TcpRequests {
    /// Begins with 0.
    ///
    /// # Errors
    /// If no service listens on the port, or if the kernel does not report connections.
    pub fn open(port: u16) -> Result<Self, TcpRequestsError> {
        // The kernel lists all ports for port 0.
        if port == 0 {
            return Err(TcpRequestsError::NotListening(port));
        }
        Self::begin(port, socket()?)
    }

    /// Does the same for a service with these processes, which may be in another network namespace, such as that of a
    /// container.
    ///
    /// # Errors
    /// As [`Self::open`], and if the namespace may not be entered.
    pub fn open_for(port: u16, pids: &[u32]) -> Result<Self, TcpRequestsError> {
        let namespace = |process: &str| std::fs::read_link(format!("/proc/{process}/ns/net")).ok();
        let own = namespace("self");
        let others: BTreeMap<_, u32> =
            pids.iter().filter_map(|pid| Some((namespace(&pid.to_string())?, *pid))).collect();
        let mut refused = None;
        for (_, pid) in others.into_iter().filter(|(other, _)| Some(other) != own.as_ref()) {
            match socket_in(pid).and_then(|socket| Self::begin(port, socket)) {
                Err(TcpRequestsError::NotListening(_)) => {}
                Err(error) => refused = Some(error),
                opened => return opened,
            }
        }
        let here = Self::open(port);
        match refused {
            Some(error) if here.is_err() => Err(error),
            _ => here,
        }
    }

    fn begin(port: u16, socket: Socket) -> Result<Self, TcpRequestsError> {
        let mut requests = Self { port, socket, seen: HashMap::new(), traffic: TcpTraffic::default() };
        if requests.sockets(&StateFlags::LISTEN)?.is_empty() {
            return Err(TcpRequestsError::NotListening(port));
        }
        requests.read()?;
        requests.traffic = TcpTraffic::default();
        Ok(requests)
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    /// Returns the traffic since [`Self::open`]; a request is a data segment.
    ///
    /// # Errors
    /// If the kernel does not report connections.
    pub fn read(&mut self) -> Result<TcpTraffic, TcpRequestsError> {
        let sockets = self.sockets(&connected())?;
        self.seen.values_mut().for_each(|connection| connection.missed += 1);
        for (cookie, segments, bytes) in sockets.iter().filter_map(counters) {
            let before = self.seen.insert(cookie, Connection { segments, bytes, missed: 0 });
            let is_new = before.is_none();
            let before = before.unwrap_or_default();
            let received = u64::from(segments.wrapping_sub(before.segments));
            self.traffic.segments += received;
            self.traffic.bytes += bytes.saturating_sub(before.bytes);
            self.traffic.of_new += if is_new { received } else { 0 };
        }
        self.seen.retain(|_, connection| connection.missed <= MISSED_MAX);
        Ok(self.traffic)
    }

    /// Returns the sockets on the local port that are in one of these states.
    fn sockets(&self, states: &StateFlags) -> Result<Vec<InetResponse>, TcpRequestsError> {
        let mut sockets = Vec::new();
        for (family, mut socket_id) in [(AF_INET, SocketId::new_v4()), (AF_INET6, SocketId::new_v6())] {
            socket_id.source_port = self.port;
            let extensions = ExtensionFlags::INFO;
            self.ask(InetRequest { family, protocol: IPPROTO_TCP, extensions, states: states.clone(), socket_id })?;
            self.receive(&mut sockets)?;
        }
        Ok(sockets)
    }

    fn ask(&self, request: InetRequest) -> io::Result<()> {
        let mut header = NetlinkHeader::default();
        header.flags = NLM_F_REQUEST | NLM_F_DUMP;
        let mut message = NetlinkMessage::new(header, SockDiagMessage::InetRequest(request).into());
        message.finalize();
        let mut bytes = vec![0; message.buffer_len()];
        message.serialize(&mut bytes);
        self.socket.send(&bytes, 0).map(drop)
    }

    /// Receives messages until they are complete.
    fn receive(&self, sockets: &mut Vec<InetResponse>) -> Result<(), TcpRequestsError> {
        loop {
            let (bytes, _) = self.socket.recv_from_full()?;
            if parse(&bytes, sockets)? {
                return Ok(());
            }
        }
    }
}

/// Opens a connection to the kernel. It reports the network namespace in which it was opened.
fn socket() -> io::Result<Socket> {
    let mut socket = Socket::new(NETLINK_SOCK_DIAG)?;
    socket.bind_auto()?;
    socket.connect(&SocketAddr::new(0, 0))?;
    Ok(socket)
}

/// Does the same in the network namespace of a process. Only a separate thread enters it.
fn socket_in(pid: u32) -> Result<Socket, TcpRequestsError> {
    let refused = |cause: io::Error| TcpRequestsError::Namespace { pid, cause };
    let namespace = File::open(format!("/proc/{pid}/ns/net")).map_err(refused)?;
    let enter = move || {
        move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network))?;
        socket()
    };
    std::thread::spawn(enter).join().expect("it does not panic").map_err(refused)
}

/// States in which a connection has counters. `TIME_WAIT` has none.
fn connected() -> StateFlags {
    StateFlags::ESTABLISHED
        | StateFlags::FIN_WAIT1
        | StateFlags::FIN_WAIT2
        | StateFlags::CLOSE_WAIT
        | StateFlags::LAST_ACK
}

/// Returns the numbers of data segments and bytes that a connection has received.
fn counters(socket: &InetResponse) -> Option<(Cookie, u32, u64)> {
    socket.nlas.iter().find_map(|attribute| match attribute {
        Nla::TcpInfo(info) => Some((socket.header.socket_id.cookie, info.data_segs_in, info.bytes_received)),
        _ => None,
    })
}

/// Adds the sockets of one datagram, which contains several messages, and returns whether it is the last one.
fn parse(mut bytes: &[u8], sockets: &mut Vec<InetResponse>) -> Result<bool, TcpRequestsError> {
    while !bytes.is_empty() {
        let message = NetlinkMessage::<SockDiagMessage>::deserialize(bytes)
            .map_err(|error| TcpRequestsError::Message(error.to_string()))?;
        match message.payload {
            NetlinkPayload::Done(_) => return Ok(true),
            NetlinkPayload::Error(error) => return Err(error.to_io().into()),
            NetlinkPayload::InnerMessage(SockDiagMessage::InetResponse(socket)) => sockets.push(*socket),
            _ => {}
        }
        // Messages are aligned to four bytes; the last one need not be padded.
        let length = (message.header.length as usize).next_multiple_of(4).max(4);
        bytes = bytes.get(length..).unwrap_or_default();
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};

    use super::*;

    /// Begins to count; `None`, with the reason printed, if the kernel does not report connections: an emulator of another
    /// architecture does not.
    fn open(test: &str, port: u16) -> Option<TcpRequests> {
        match TcpRequests::open(port) {
            Err(TcpRequestsError::Kernel(error)) => {
                println!("skipped: {test}: NETLINK_SOCK_DIAG: {error}");
                None
            }
            opened => Some(opened.expect("it listens")),
        }
    }

    /// A server that answers each byte with one byte, until its connections are closed.
    fn serve(listener: TcpListener, connections: usize) -> std::thread::JoinHandle<()> {
        std::thread::spawn(move || {
            let accepted = (0..connections).map(|_| listener.accept().expect("a connection").0);
            let echo = |mut stream: TcpStream| {
                move || {
                    let mut byte = [0];
                    while stream.read(&mut byte).is_ok_and(|read| read == 1) {
                        stream.write_all(&byte).expect("the client reads");
                    }
                }
            };
            let threads: Vec<_> = accepted.map(|stream| std::thread::spawn(echo(stream))).collect();
            threads.into_iter().for_each(|thread| thread.join().expect("it ends"));
        })
    }

    fn connect(port: u16, address: &str) -> TcpStream {
        let stream = TcpStream::connect((address, port)).expect("the server listens");
        stream.set_nodelay(true).expect("TCP_NODELAY");
        stream
    }

    fn ask(stream: &mut TcpStream, requests: usize) {
        for _ in 0..requests {
            stream.write_all(b"?").and_then(|()| stream.read_exact(&mut [0])).expect("an answer");
        }
    }

    /// Closes a connection and waits until the server has seen it.
    fn close(mut stream: TcpStream) {
        stream.shutdown(std::net::Shutdown::Write).and_then(|()| stream.read_to_end(&mut Vec::new())).expect("the end");
    }

    #[test]
    fn requests_of_old_new_and_closed_connections_are_counted() {
        for address in ["127.0.0.1", "::1"] {
            let Ok(listener) = TcpListener::bind((address, 0)) else {
                println!("skipped: requests_of_old_new_and_closed_connections_are_counted: no address {address}");
                continue;
            };
            let port = listener.local_addr().expect("an address").port();
            let name = "requests_of_old_new_and_closed_connections_are_counted";
            if open(name, port).is_none() {
                return;
            }
            let server = serve(listener, 3);
            let mut old = connect(port, address);
            ask(&mut old, 7);
            let mut requests = TcpRequests::open(port).expect("it listens");
            assert_eq!(requests.read().expect("counters").segments, 0, "requests before are not counted");
            ask(&mut old, 1000);
            let mut new = connect(port, address);
            ask(&mut new, 100);
            assert_eq!(requests.read().expect("counters").segments, 1100);
            close(new);
            let mut third = connect(port, address);
            ask(&mut third, 10);
            assert_eq!(
                requests.read().expect("counters").segments,
                1110,
                "a closed connection keeps what it has contributed"
            );
            close(old);
            close(third);
            for _ in 0..=MISSED_MAX {
                assert!(!requests.seen.is_empty(), "a reading may have missed them");
                assert_eq!(requests.read().expect("counters").segments, 1110);
            }
            assert!(requests.seen.is_empty(), "closed connections are forgotten");
            server.join().expect("it ends");
            let traffic = requests.read().expect("counters");
            assert_eq!((traffic.bytes, traffic.of_new), (1110, 110), "requests of one byte, on two new connections");
        }
    }

    #[test]
    fn connections_with_one_request_are_unsuitable() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let Some(mut requests) = open("connections_with_one_request_are_unsuitable", port) else { return };
        let server = serve(listener, 31);
        let mut lasting = connect(port, "127.0.0.1");
        ask(&mut lasting, 60);
        requests.read().expect("counters");
        let before = requests.read().expect("counters");
        for _ in 0..30 {
            let mut short = connect(port, "127.0.0.1");
            ask(&mut short, 1);
            requests.read().expect("counters");
            close(short);
        }
        let since = requests.read().expect("counters").since(&before);
        let error = since.check_connections(port).expect_err("all connections are new");
        assert!(error.to_string().contains("100 % of the requests"), "{error}");
        ask(&mut lasting, 200);
        let since = requests.read().expect("counters").since(&before);
        assert_eq!(since.check_connections(port), Ok(()), "most requests are on a connection that stays open");
        close(lasting);
        server.join().expect("it ends");
    }

    #[test]
    fn port_without_a_service_is_refused() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("an address").port();
        if open("port_without_a_service_is_refused", port).is_none() {
            return;
        }
        drop(listener);
        for port in [port, 0] {
            let refused = TcpRequests::open(port).err().expect("no service listens");
            assert_eq!(refused.to_string(), format!("no service listens on port {port}"));
        }
    }

    #[test]
    fn counters_wrap_around() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("an address").port();
        if open("counters_wrap_around", port).is_none() {
            return;
        }
        let server = serve(listener, 1);
        let mut stream = connect(port, "127.0.0.1");
        let mut requests = TcpRequests::open(port).expect("it listens");
        requests.seen.values_mut().for_each(|connection| connection.segments = u32::MAX - 1);
        ask(&mut stream, 3);
        assert_eq!(requests.read().expect("counters").segments, 5);
        close(stream);
        server.join().expect("it ends");
    }

    #[test]
    fn malformed_messages_are_errors() {
        let mut sockets = Vec::new();
        assert!(!parse(&[], &mut sockets).expect("no message"));
        for length in [1, 15, 16, 40] {
            let bytes: Vec<u8> = (0..length).map(|at| [length as u8 + 1, 0, 0, 0, 20, 0][at % 6]).collect();
            assert!(parse(&bytes, &mut sockets).is_err(), "{bytes:?}");
        }
        // Message 2 is an error, here -2.
        let refused = [[36, 0, 0, 0, 2, 0, 0, 0], [0; 8], [254, 255, 255, 255, 0, 0, 0, 0]].concat();
        let refused = [refused, vec![0; 12]].concat();
        let error = parse(&refused, &mut sockets).expect_err("it is an error").to_string();
        assert!(error.contains("No such file or directory"), "{error}");
        assert!(sockets.is_empty());
    }
}
