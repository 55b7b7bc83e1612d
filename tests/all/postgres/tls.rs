use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::PathBuf;

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use tempfile::TempDir;

use super::connection::checked;
use crate::support::world::World;
use ingest_testing::postgres::{PostgresServer, other_user};

/// A server whose certificate for `localhost` an authority signed, and the authority's certificate.
fn server() -> (PostgresServer, PathBuf, TempDir) {
    let files = tempfile::tempdir().unwrap();
    fs::set_permissions(files.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let mut authority = CertificateParams::new(Vec::new()).unwrap();
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority_key = KeyPair::generate().unwrap();
    let root = authority.self_signed(&authority_key).unwrap();
    let key = KeyPair::generate().unwrap();
    let signed = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
    let signed = signed
        .signed_by(&key, &Issuer::new(authority, authority_key))
        .unwrap();
    let write = |name: &str, text: &str| {
        let path = files.path().join(name);
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        path
    };
    let (root, cert, key) = (
        write("root.crt", &root.pem()),
        write("server.crt", &signed.pem()),
        write("server.key", &key.serialize_pem()),
    );
    for path in [&root, &cert, &key] {
        if let Some((user, group)) = other_user() {
            chown(path, Some(user), Some(group)).unwrap();
        }
    }
    let settings = [
        "ssl=on".to_owned(),
        format!("ssl_ca_file={}", root.display()),
        format!("ssl_cert_file={}", cert.display()),
        format!("ssl_key_file={}", key.display()),
    ];
    let settings: Vec<&str> = settings.iter().map(String::as_str).collect();
    (PostgresServer::with(&settings), root, files)
}

#[test]
fn a_server_is_verified_by_its_authority_and_by_its_name() {
    let ((server, root, _files), world) = (server(), World::new());
    let (port, root) = (server.port(), root.display());
    let at = |host: &str, settings: &str| {
        format!("postgres://postgres@{host}:{port}/postgres?connect_timeout=5{settings}")
    };
    let full = format!("&sslmode=verify-full&sslrootcert={root}");
    let (good, said) = checked(&world, &at("localhost", &full), &[]);
    assert!(good && said.contains("TLSv1.3"), "{said}");
    let (good, said) = checked(&world, &at("127.0.0.1", &full), &[]);
    assert!(
        !good && said.contains("certificate"),
        "another name: {said}"
    );
    assert!(!said.contains("sslrootcert"), "another name: {said}");
    for mode in ["require", "verify-ca", "verify-full"] {
        let (good, said) = checked(&world, &at("localhost", &format!("&sslmode={mode}")), &[]);
        assert!(
            !good && said.contains("write sslrootcert=FILE"),
            "{mode}: {said}"
        );
    }
    let missing = at("localhost", "&sslrootcert=/nonexistent.pem");
    let (good, said) = checked(&world, &missing, &[]);
    assert!(
        !good && said.contains("sslrootcert: cannot read /nonexistent.pem"),
        "{said}"
    );
    let (good, said) = checked(&world, &at("localhost", ""), &[]);
    assert!(good && said.contains("no TLS"), "{said}");

    let rules = "hostnossl all all all trust\nhostssl all all all trust clientcert=verify-ca\n";
    fs::write(server.data().join("pg_hba.conf"), rules).unwrap();
    server.rows("select pg_reload_conf()");
    let (good, said) = checked(&world, &at("localhost", &full), &[]);
    assert!(
        !good && said.contains("write sslcert=FILE and sslkey=FILE"),
        "{said}"
    );
}

#[test]
fn a_server_without_tls_gets_no_password_where_tls_is_wanted() {
    let (server, world) = (PostgresServer::shared(), World::new());
    let url = format!(
        "postgres://postgres:hush@localhost:{}/postgres?sslmode=verify-full",
        server.port()
    );
    let (good, said) = checked(&world, &url, &[]);
    assert!(
        !good && said.contains("server does not support TLS"),
        "{said}"
    );
}
