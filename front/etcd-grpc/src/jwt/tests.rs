use super::*;
use aws_lc_rs::encoding::{AsDer, Pkcs8V1Der};
use aws_lc_rs::rsa::KeySize;

const HOUR: Duration = Duration::from_secs(3600);

fn pem(der: &[u8]) -> Vec<u8> {
    let text = base64::engine::general_purpose::STANDARD.encode(der);
    format!("-----BEGIN PRIVATE KEY-----\n{text}\n-----END PRIVATE KEY-----\n").into_bytes()
}

fn rsa_key() -> Vec<u8> {
    let pair = RsaKeyPair::generate(KeySize::Rsa2048).expect("a key");
    let der = AsDer::<Pkcs8V1Der<'_>>::as_der(&pair).expect("its bytes");
    pem(der.as_ref())
}

fn ec_key(algorithm: &'static aws_lc_rs::signature::EcdsaSigningAlgorithm) -> Vec<u8> {
    let document = EcdsaKeyPair::generate_pkcs8(algorithm, &SystemRandom::new()).expect("a key");
    pem(document.as_ref())
}

fn claims() -> Claims {
    Claims { name: "ann \"quoted\"".into(), revision: 7 }
}

#[test]
fn what_was_signed_is_found_again_and_nothing_else() {
    let (rsa, p256, p384) =
        (rsa_key(), ec_key(&ECDSA_P256_SHA256_FIXED_SIGNING), ec_key(&ECDSA_P384_SHA384_FIXED_SIGNING));
    let secret = vec![3; 32];
    let all = [
        ("RS256", &rsa),
        ("RS384", &rsa),
        ("RS512", &rsa),
        ("ES256", &p256),
        ("ES384", &p384),
        ("HS256", &secret),
        ("HS384", &secret),
        ("HS512", &secret),
    ];
    let signers = all.map(|(method, key)| Jwt::new(method, key, HOUR).expect(method));
    for (at, signer) in signers.iter().enumerate() {
        let token = signer.sign(&claims()).expect("signed");
        for (other, checker) in signers.iter().enumerate() {
            let found = checker.check(token.as_bytes());
            assert_eq!(found.is_some(), at == other, "{} by {}", all[at].0, all[other].0);
            assert!(found.is_none_or(|found| found == claims()));
        }
        for byte in (0..token.len()).step_by(7) {
            let mut damaged = token.clone().into_bytes();
            damaged[byte] ^= 1;
            assert_eq!(signer.check(&damaged).filter(|found| *found != claims()), None, "byte {byte}");
        }
        let old = Jwt { ttl: Duration::ZERO, ..Jwt::new(all[at].0, all[at].1, HOUR).expect("a key") };
        let over = old.sign(&claims()).expect("signed");
        assert_eq!(signer.check(over.as_bytes()), None, "it is over");
    }
}

#[test]
fn what_is_no_token_or_no_key_is_refused() {
    let secret = vec![3; 32];
    let signer = Jwt::new("HS256", &secret, HOUR).expect("a key");
    let head = encode(r#"{"alg":"none"}"#);
    let body = encode(r#"{"username":"root","revision":1,"exp":99999999999}"#);
    for token in ["", ".", "..", "a.b.c", &format!("{head}.{body}."), &format!("{head}.{body}.AAAA")] {
        assert_eq!(signer.check(token.as_bytes()), None, "{token}");
    }
    assert_eq!(signer.check(&[0xff; 100]), None);
    for (method, key) in [("none", &secret), ("RS256", &secret), ("ES256", &secret), ("HS256", &vec![1; 8])] {
        assert!(Jwt::new(method, key, HOUR).is_err(), "{method}");
    }
    assert!(Jwt::new("ES256", &rsa_key(), HOUR).is_err());
    assert!(Jwt::new("ES256", &ec_key(&ECDSA_P384_SHA384_FIXED_SIGNING), HOUR).is_err());
}
