//! Everything that a program could connect or send to. None ever does.

use std::io::ErrorKind;
use std::net::{TcpListener, UdpSocket};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram, UnixListener};
use std::path::Path;

/// All ways out of a sandbox, watched.
pub(crate) struct Listeners {
    tcp: Vec<(&'static str, TcpListener)>,
    udp: Vec<(&'static str, UdpSocket)>,
    streams: Vec<(&'static str, UnixListener)>,
    datagrams: Vec<(&'static str, UnixDatagram)>,
    abstract_name: String,
    address: String,
}

impl Listeners {
    pub(crate) fn open(top: &Path) -> Self {
        let tcp = |address: &str| TcpListener::bind((address, 0)).expect("a listener");
        let mut all = Self {
            tcp: vec![("tcp", tcp("127.0.0.1")), ("any", tcp("0.0.0.0"))],
            udp: vec![("udp", UdpSocket::bind("127.0.0.1:0").expect("a socket"))],
            streams: Vec::new(),
            datagrams: Vec::new(),
            abstract_name: format!("esc-{}", top.file_name().expect("a name").to_string_lossy()),
            address: own_address(),
        };
        // Not every machine has IPv6.
        all.tcp.extend(TcpListener::bind("[::1]:0").ok().map(|listener| ("tcp6", listener)));
        for (name, path) in [("stream outside", "out.sock"), ("stream inside", "ws/in.sock")] {
            all.streams.push((name, UnixListener::bind(top.join(path)).expect("a socket")));
        }
        for (name, path) in [("datagram outside", "out.dgram"), ("datagram inside", "ws/in.dgram")] {
            all.datagrams.push((name, UnixDatagram::bind(top.join(path)).expect("a socket")));
        }
        let named = SocketAddr::from_abstract_name(&all.abstract_name).expect("a name");
        all.streams.push(("abstract", UnixListener::bind_addr(&named).expect("a socket")));
        all.tcp.iter().for_each(|(_, socket)| socket.set_nonblocking(true).expect("set"));
        all.udp.iter().for_each(|(_, socket)| socket.set_nonblocking(true).expect("set"));
        all.streams.iter().for_each(|(_, socket)| socket.set_nonblocking(true).expect("set"));
        all.datagrams.iter().for_each(|(_, socket)| socket.set_nonblocking(true).expect("set"));
        all
    }

    /// Ports and names, for commands.
    pub(crate) fn names(&self) -> Vec<(&'static str, String)> {
        let port = |listener: &TcpListener| listener.local_addr().expect("an address").port().to_string();
        let mut names: Vec<_> = self.tcp.iter().map(|(name, listener)| (*name, port(listener))).collect();
        if !names.iter().any(|(name, _)| *name == "tcp6") {
            names.push(("tcp6", "9".to_owned()));
        }
        let udp = self.udp.iter();
        names.extend(udp.map(|(name, s)| (*name, s.local_addr().expect("an address").port().to_string())));
        names.push(("abstract", self.abstract_name.clone()));
        names.push(("address", self.address.clone()));
        names
    }

    /// The listeners that were reached.
    pub(crate) fn problems(&self) -> Vec<String> {
        let mut reached = Vec::new();
        let mut note = |name: &str, met: std::io::Result<()>| {
            if !met.is_err_and(|error| error.kind() == ErrorKind::WouldBlock) {
                reached.push(format!("a program reached the listener `{name}`"));
            }
        };
        let mut buffer = [0; 64];
        self.tcp.iter().for_each(|(name, socket)| note(name, socket.accept().map(drop)));
        self.streams.iter().for_each(|(name, socket)| note(name, socket.accept().map(drop)));
        self.udp.iter().for_each(|(name, socket)| note(name, socket.recv(&mut buffer).map(drop)));
        self.datagrams.iter().for_each(|(name, socket)| note(name, socket.recv(&mut buffer).map(drop)));
        reached
    }
}

/// The machine's own address in its network; nothing is sent to find out.
fn own_address() -> String {
    let asked = UdpSocket::bind("0.0.0.0:0").and_then(|socket| {
        socket.connect("192.0.2.1:9")?;
        socket.local_addr()
    });
    asked.map_or_else(|_| "127.0.0.2".to_owned(), |address| address.ip().to_string())
}
