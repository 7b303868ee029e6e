//! Leaving by the network, or by sockets that are files.

use super::case::{Case, py, sh};

pub(crate) fn cases() -> Vec<Case> {
    let mut cases = by_programs();
    cases.extend(by_sockets());
    cases
}

fn by_programs() -> Vec<Case> {
    vec![
        sh("shell-tcp", "echo x > /dev/tcp/127.0.0.1/@tcp@ && breach; echo x > /dev/tcp/localhost/@any@ && breach; echo over"),
        sh("shell-udp", "echo x > /dev/udp/127.0.0.1/@udp@; echo x > /dev/udp/@address@/@udp@; exec 5<>/dev/tcp/::1/@tcp6@ && breach"),
        sh("curl", "for a in 127.0.0.1:@tcp@ localhost:@any@ @address@:@any@ 0.0.0.0:@any@ '[::1]:@tcp6@' '[::ffff:127.0.0.1]:@any@' 2130706433:@any@; do curl -sm2 http://$a/ && breach $a; done; curl -sm2 telnet://127.0.0.1:@tcp@ </dev/null && breach; echo over").needs(&["curl"]),
        sh("curl-by-socket-file", "curl -sm2 --unix-socket in.sock http://x/ && breach; curl -sm2 --unix-socket @top@/out.sock http://x/ && breach; curl -sm2 --abstract-unix-socket @abstract@ http://x/ && breach; echo over").needs(&["curl"]),
        sh("wget", "wget -qT2 -t1 -O- http://127.0.0.1:@tcp@/ && breach; echo over").needs(&["wget"]),
        sh("netcat", "nc -w1 127.0.0.1 @tcp@ </dev/null && breach; nc -uw1 127.0.0.1 @udp@ <<< x; nc -U in.sock </dev/null && breach; echo over").needs(&["nc"]),
        sh("perl", "perl -MIO::Socket::INET -e 'IO::Socket::INET->new(PeerAddr=>\"127.0.0.1:@tcp@\") and print \"BREACH\"'; echo over").needs(&["perl"]),
        sh("git-over-the-network", "git ls-remote git://127.0.0.1:@tcp@/x; git clone http://127.0.0.1:@any@/x; git ls-remote ext::'sh -c true'").needs(&["git"]),
        sh("secure-shell", "ssh -o BatchMode=yes -o ConnectTimeout=2 -o StrictHostKeyChecking=no -p @tcp@ 127.0.0.1 true; ssh -o ProxyCommand='cat > /dev/tcp/127.0.0.1/@tcp@' x true").needs(&["ssh"]),
        sh("names", "getent hosts example.com && breach; getent ahosts one.one.one.one && breach; curl -sm2 http://example.com/ && breach; echo over"),
        sh("metadata-and-neighbours", "for a in 169.254.169.254 10.0.0.1 172.17.0.1 192.168.0.1; do timeout 1 bash -c \"echo x > /dev/tcp/$a/80\" && breach $a; done; echo over"),
        sh("interfaces", "ip link; ip link add d0 type dummy && breach; ip addr add 10.9.9.9/24 dev lo && breach; ip route add default dev lo && breach; iptables -L && breach; cat /proc/net/tcp /proc/net/unix | grep -F @abstract@ && breach; echo over"),
        sh("ping", "ping -c1 -W1 127.0.0.1; ping -c1 -W1 @address@ && breach; echo over").needs(&["ping"]),
        sh("own-loopback-works", "python3 -c 'import socket; s=socket.create_server((\"127.0.0.1\",0)); c=socket.create_connection(s.getsockname()); s.accept()[0].send(b\"fine\"); print(c.recv(9))'").needs(&["python3"]).shows("fine"),
    ]
}

fn by_sockets() -> Vec<Case> {
    let unix = "for path in ['in.sock', '@ws@/in.sock', '@top@/out.sock', 'in.dgram', '\\0@abstract@', '/run/docker.sock', '/run/dbus/system_bus_socket', '/run/systemd/journal/socket', '/dev/log']:\n    for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_SEQPACKET):\n        fails(lambda: socket.socket(socket.AF_UNIX, kind).connect(path))";
    vec![
        py(
            "tcp",
            "for host, port in [('127.0.0.1', @tcp@), ('127.0.0.1', @any@), ('@address@', @any@), ('0.0.0.0', @any@), ('::1', @tcp6@), ('::ffff:127.0.0.1', @any@)]:\n    fails(socket.create_connection, (host, port), 1)",
        ),
        py(
            "udp",
            "for host in ['127.0.0.1', '@address@', '255.255.255.255', '224.0.0.1']:\n    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)\n    try: s.sendto(b'x', (host, @udp@))\n    except OSError as error: print(error)",
        ),
        py(
            "names-by-datagram",
            "servers = [l.split()[1] for l in open('/etc/resolv.conf') if l.startswith('nameserver')] + ['8.8.8.8', '127.0.0.53']\nq = b'\\x12\\x34\\x01\\0\\0\\x01\\0\\0\\0\\0\\0\\0\\x07example\\x03com\\0\\0\\x01\\0\\x01'\nfor server in servers:\n    s = socket.socket(socket.AF_INET6 if ':' in server else socket.AF_INET, socket.SOCK_DGRAM); s.settimeout(0.3)\n    def ask(): s.sendto(q, (server, 53)); return s.recv(512)\n    fails(ask)",
        ),
        py("socket-files", unix),
        py(
            "datagram-pairs",
            "for kind in (socket.SOCK_DGRAM, socket.SOCK_RAW, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC):\n    def send(path):\n        a, b = socket.socketpair(socket.AF_UNIX, kind); a.sendto(b'x', path)\n    for path in ['in.dgram', '@ws@/in.dgram', '@top@/out.dgram', '\\0@abstract@']: fails(send, path)",
        ),
        py(
            "stream-pairs-lead-nowhere",
            "for kind in (socket.SOCK_STREAM, socket.SOCK_SEQPACKET):\n    a, b = socket.socketpair(socket.AF_UNIX, kind)\n    b.close()\n    for path in ['in.sock', '\\0@abstract@']:\n        fails(a.connect, path)",
        ),
        py(
            "raw-and-packets",
            "for family, kind, proto in [(socket.AF_INET, socket.SOCK_RAW, 1), (socket.AF_INET6, socket.SOCK_RAW, 58), (17, socket.SOCK_RAW, 3), (17, socket.SOCK_DGRAM, 3)]:\n    fails(socket.socket, family, kind, proto)",
        ),
        py(
            "odd-families",
            "for family in list(range(3, 10)) + list(range(11, 16)) + list(range(17, 46)):\n    for kind in (1, 2, 3, 5): fails(socket.socket, family, kind, 0)",
        ),
        py(
            "virtual-machines",
            "fails(lambda: socket.socket(40, socket.SOCK_STREAM).connect((2, 1024)))\nfails(lambda: socket.socket(38, socket.SOCK_SEQPACKET))",
        ),
        py(
            "interfaces-by-netlink",
            "s = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0)\ns.bind((0, 0)); s.settimeout(2)\n# A new dummy interface, which takes a privilege in the network namespace.\nbody = struct.pack('BxHiII', 0, 0, 0, 0, 0) + struct.pack('HH', 8, 3) + b'd1\\0\\0' + struct.pack('HHHH', 12, 18, 10, 1) + b'dummy\\0\\0\\0'[:4]\ns.send(struct.pack('IHHII', 16 + len(body), 16, 0x605, 1, 0) + body)\nanswer = s.recv(4096)\ncode = struct.unpack('i', answer[16:20])[0]\nprint(code)\nif code >= 0: breach('an interface')",
        ),
        py(
            "audit-and-events",
            "for proto in (9, 10, 12, 15, 16, 20, 21):\n    def hear():\n        s = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, proto); s.bind((0, 0xffff)); s.settimeout(0.2); return s.recv(10)\n    try: print(proto, hear()); breach(proto)\n    except OSError as error: print(error)",
        ),
        py(
            "listening-is-not-heard-outside",
            "s = socket.create_server(('0.0.0.0', 0)); s.settimeout(0.2)\nprint(s.getsockname())\nfails(s.accept)",
        ),
        py(
            "passed-descriptors",
            "import array\na, b = socket.socketpair()\nfd = os.open('README.md', os.O_RDONLY)\na.sendmsg([b'x'], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array('i', [fd]))])\nprint(b.recvmsg(1, 64)[1] != [])",
        ),
    ]
}
