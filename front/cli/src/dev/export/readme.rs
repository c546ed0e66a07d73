//! What the READMEs of all kinds say.

use super::Deployment;
use super::ports::Front;

/// The beginning, where there is data to be moved.
pub(super) const STOP: &str = "Stop the `quorate dev` before anything is copied: a replica must never run twice. DIR is its directory. ";
/// The end of it.
pub(super) const ONCE: &str = "Copy the data once, and remove it from DIR afterwards. ";

/// Where clients reach the fronts.
#[derive(Default)]
pub(super) struct Reached(Vec<(Front, String)>);

impl Reached {
    pub(super) fn add(&mut self, front: Front, address: String) {
        self.0.push((front, address));
    }

    /// Whether there is no front.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The addresses of one front.
    fn of(&self, name: &str) -> Vec<&str> {
        self.0.iter().filter(|(front, _)| front.name == name).map(|(_, address)| address.as_str()).collect()
    }
}

/// How clients connect.
pub(super) fn clients(deployment: &Deployment<'_>, reached: &Reached) -> String {
    let mut text = String::new();
    let (etcd, zookeeper) = (reached.of("etcd"), reached.of("zookeeper"));
    if !etcd.is_empty() {
        let scheme = if deployment.has_tls() { "https" } else { "http" };
        let endpoints: Vec<String> = etcd.iter().map(|address| format!("{scheme}://{address}")).collect();
        text.push_str(&format!(
            "Clients of etcd:\n\n```\nexport ETCDCTL_ENDPOINTS={}\n",
            endpoints.join(",")
        ));
        if deployment.has_tls() {
            text.push_str(
                "export ETCDCTL_CACERT=clients/ca.pem ETCDCTL_CERT=clients/default.pem ETCDCTL_KEY=clients/default.key\n",
            );
        }
        text.push_str("etcdctl endpoint health\n```\n\n");
    }
    if !zookeeper.is_empty() {
        let with = match deployment.has_tls() && !deployment.args.front_plain {
            true => ", and show the certificate `clients/default.pem`; docs/zookeeper.md says how",
            false => "",
        };
        text.push_str(&format!("Clients of ZooKeeper connect to `{}`{with}.\n\n", zookeeper.join(",")));
    }
    text.push_str("`quorate status --config client.toml` looks at the cluster");
    if deployment.has_tls() {
        text.push_str(
            ", with the operator's certificate in `clients`. Give applications client.toml and `clients` without `admin.pem` and `admin.key`",
        );
    }
    text.push('.');
    text
}
