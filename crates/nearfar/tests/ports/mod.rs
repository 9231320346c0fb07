//! TCP ports for servers of tests, which run concurrently with those of other tests.

/// A port on which nothing listens now.
pub fn free() -> u16 {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("there are free ports");
    listener.local_addr().expect("the socket is bound").port()
}
