use super::{SILENT, tune};
use rustix::net::sockopt;
use tokio::net::{TcpListener, TcpStream};

#[test]
fn silent_clients_are_asked_whether_they_are_there() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let stream = TcpStream::connect(listener.local_addr().expect("an address")).await.expect("connected");
        assert_eq!(sockopt::socket_keepalive(&stream), Ok(false));
        tune(&stream);
        assert_eq!(sockopt::socket_keepalive(&stream), Ok(true));
        assert_eq!(sockopt::tcp_keepidle(&stream), Ok(SILENT));
        assert_eq!(stream.nodelay().ok(), Some(true));
    });
}
