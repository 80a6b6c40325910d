//! The official Python client, unchanged, against the emulator.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

use turbopuffer_sim::{Options, Server};

const CLIENT: &str = "turbopuffer==3.1.0";

fn run(program: impl AsRef<OsStr>, arguments: &[&str]) -> bool {
    Command::new(program)
        .args(arguments)
        .output()
        .is_ok_and(|output| output.status.success())
}

/// The client needs Python 3.11.
fn python() -> &'static str {
    let recent = "import sys; sys.exit(sys.version_info < (3, 11))";
    ["python3.13", "python3.12", "python3.11", "python3"]
        .into_iter()
        .find(|python| run(python, &["-c", recent]))
        .expect(
            "no Python >= 3.11 on PATH: install python3.11 or newer with its venv module \
             (Debian and Ubuntu: apt install python3 python3-venv)",
        )
}

/// A virtual environment with the client, made once for this target directory.
fn client_python() -> PathBuf {
    let home = Path::new(env!("CARGO_TARGET_TMPDIR")).join("turbopuffer-client-3.1.0");
    let python_in_home = home.join("bin/python");
    let imports = "import turbopuffer; assert turbopuffer.__version__ == '3.1.0'";
    if run(&python_in_home, &["-c", imports]) {
        return python_in_home;
    }
    let home = home.to_str().expect("the target directory is UTF-8");
    assert!(
        run(python(), &["-m", "venv", "--clear", home]),
        "cannot make a virtual environment: install Python's venv module (apt install python3-venv)"
    );
    assert!(
        run(
            &python_in_home,
            &["-m", "pip", "install", "--quiet", CLIENT]
        ),
        "cannot install {CLIENT} from PyPI: pip needs access to a package index"
    );
    python_in_home
}

#[tokio::test(flavor = "multi_thread")]
async fn the_official_python_client_works_unchanged() {
    let server = Server::start(Options {
        api_key: Some("tpuf_test".to_owned()),
        ..Options::default()
    })
    .await
    .expect("starts");
    let script = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/tests/python/official_client.py"
    );
    let url = server.url();
    let output = tokio::task::spawn_blocking(move || {
        Command::new(client_python())
            .arg(script)
            .env_remove("TURBOPUFFER_REGION")
            .env("TURBOPUFFER_BASE_URL", url)
            .env("TURBOPUFFER_API_KEY", "tpuf_test")
            .env("SIM", "1")
            .output()
    })
    .await
    .expect("not cancelled")
    .expect("Python runs");
    assert!(
        output.status.success(),
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    server.shutdown().await;
}
