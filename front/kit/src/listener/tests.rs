use super::{SILENT, Stream, begin};
use rustix::net::sockopt;
use tokio::net::{TcpListener, TcpStream};

#[test]
fn silent_clients_are_asked_whether_they_are_there() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let _client =
            TcpStream::connect(listener.local_addr().expect("an address")).await.expect("connected");
        let (stream, _) = listener.accept().await.expect("accepted");
        assert_eq!(sockopt::socket_keepalive(&stream), Ok(false));
        let Some((Stream::Plain(stream), _)) = begin("a front", stream, None, false).await else {
            panic!("a plain connection");
        };
        assert_eq!(sockopt::socket_keepalive(&stream), Ok(true));
        assert_eq!(sockopt::tcp_keepidle(&stream), Ok(SILENT));
        assert_eq!(stream.nodelay().ok(), Some(true));
    });
}
