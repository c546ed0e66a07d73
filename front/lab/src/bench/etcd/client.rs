//! A connection that many clients share: gRPC on one HTTP/2 connection. It avoids the queues of tonic's own channel, since processor time
//! of the load generator is missing elsewhere.

use http::{Request, Response, Uri};
use hyper::body::Incoming;
use hyper::client::conn::http2::{Builder, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo};
use quorate_command::failure::{Doing as _, Failure, Outcome};
use quorate_etcd_grpc::pb::etcdserverpb::kv_client::KvClient;
use quorate_etcd_grpc::pb::etcdserverpb::watch_client::WatchClient;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::net::TcpStream;
use tonic::body::Body;
use tonic::codegen::Service;

/// Cheap to clone; clones share the connection.
#[derive(Clone, Debug)]
pub(super) struct Connection {
    sender: SendRequest<Body>,
    origin: Uri,
}

impl Connection {
    pub(super) async fn open(address: &str) -> Outcome<Self> {
        let doing = format!("connect to {address}");
        let stream = TcpStream::connect(address).await.doing(&doing)?;
        stream.set_nodelay(true).doing(&doing)?;
        let mut builder = Builder::new(TokioExecutor::new());
        builder.initial_stream_window_size(1 << 20).initial_connection_window_size(8 << 20);
        let (sender, connection) = builder
            .handshake(TokioIo::new(stream))
            .await
            .map_err(|why| Failure::new(format!("can not {doing}: {why}")))?;
        // It ends when nobody holds the sender any more; a call that it cuts off says so itself.
        tokio::spawn(async move { drop(connection.await) });
        let origin = format!("http://{address}").parse::<Uri>();
        let origin = origin.map_err(|why| Failure::new(format!("{address} is no address: {why}")))?;
        Ok(Self { sender, origin })
    }

    pub(super) fn kv(&self) -> KvClient<Self> {
        KvClient::with_origin(self.clone(), self.origin.clone())
    }

    pub(super) fn watch(&self) -> WatchClient<Self> {
        WatchClient::with_origin(self.clone(), self.origin.clone()).max_decoding_message_size(1 << 30)
    }
}

impl Service<Request<Body>> for Connection {
    type Response = Response<Incoming>;
    type Error = hyper::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.sender.poll_ready(cx)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        Box::pin(self.sender.send_request(request))
    }
}
