use super::memory::{self, Memory};
use super::ports::{FRONTS, Taken};
use super::{parse_label, parse_word};
use quorate_runtime::Config;

#[test]
fn memory_is_what_limits_add_up_to() {
    let config = |front: &str| -> Config {
        let text = format!(
            "cluster = \"0123456789abcdef0123456789abcdef\"\nreplica = 1\ndata = \"data\"\nplain = true\n{front}\n[[members]]\nreplica = 1\n\
             address = \"a:1\"\nincarnation = \"1111111111111111\"\n"
        );
        toml::from_str(&text).expect("a configuration")
    };
    let of = |front: &str| Memory::of(&config(front)).to_string();
    // 256 for itself, 64 of queues, 16 of cache, 256 of connections; three times 2048.
    assert_eq!(of(""), "6784Mi");
    assert_eq!(of("[front.etcd]\nlisten = \"a:2\"\nquota_bytes = 1073741824"), "3712Mi");
    assert_eq!(of("[front.etcd]\nlisten = \"a:2\"\nquota_bytes = 0"), "6784Mi", "no limit");
    assert_eq!(of("[limits]\nqueue_bytes = 1073741824"), "7744Mi");
    let largest = memory::parse("16384Gi").expect("a size");
    assert!(
        Memory::of(&config("[front.etcd]\nlisten = \"a:2\"\nquota_bytes = 9223372036854775807")) > largest
    );
}

#[test]
fn sizes_are_read_and_written_as_each_system_has_them() {
    let four = memory::parse("4Gi").expect("a size");
    assert_eq!(four, memory::parse("4096Mi").expect("a size"));
    assert_eq!(
        (four.systemd(), four.compose(), four.binary()),
        ("4096M".into(), "4096m".into(), "4096Mi".into())
    );
    assert_eq!(
        (four.request(), memory::parse("300Mi").expect("a size").request()),
        ("512Mi".into(), "300Mi".into())
    );
    for wrong in [
        "4",
        "4G",
        "Gi",
        "-4Gi",
        "+4Gi",
        "4.5Gi",
        "4 Gi",
        "1Mi",
        "0Gi",
        "99999999Gi",
        "99999999999999999999Gi",
    ] {
        assert!(memory::parse(wrong).is_err(), "{wrong}");
    }
    for right in ["50Gi", "1.5Ti", "1000000", "20G", "500M"] {
        assert_eq!(memory::parse_quantity(right).as_deref(), Ok(right));
    }
    for wrong in ["", "Gi", "0Gi", "0.0", "50GB", "1e3x", "true", "5 Gi", "-5Gi", ".5Gi", "5.Gi"] {
        assert!(memory::parse_quantity(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn no_port_is_taken_twice_on_one_host() {
    let mut taken = Taken::default();
    let mut take = |host: &str, port, what: &str| taken.take(host, port, what.to_owned());
    take("a", 1, "replica 1").expect("free");
    take("b", 1, "replica 2").expect("another host");
    let why = take("a", 1, "probes of replica 1").expect_err("taken").to_string();
    assert!(why.contains("the port 1 of a is wanted by replica 1 and by probes of replica 1"), "{why}");
}

#[test]
fn names_are_such_as_yaml_and_kubernetes_take() {
    // RFC 6335, by which Kubernetes names ports.
    assert!(FRONTS.iter().all(|front| front.name.len() <= 15), "{FRONTS:?}");
    let long = "a".repeat(64);
    for wrong in ["", "-a", "a-", "A", "a.b", "a_b", "a b", long.as_str()] {
        assert!(parse_label(wrong).is_err(), "{wrong}");
    }
    assert_eq!(parse_label("123").as_deref(), Ok("123"));
    for wrong in ["", "a\"b", "a b", ":a", "a:", "a\nb"] {
        assert!(parse_word(wrong).is_err(), "{wrong}");
    }
}
