//! Hands the program the commit that it is built from, where there is one: benchmark files record it.

use std::process::Command;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    // Both change with every commit and every checkout.
    for name in ["logs/HEAD", "index"] {
        if let Some(path) = git(&["rev-parse", "--path-format=absolute", "--git-path", name]) {
            println!("cargo:rerun-if-changed={path}");
        }
    }
    if let Some(commit) = git(&["describe", "--always", "--tags", "--dirty"]) {
        println!("cargo:rustc-env=DIKAST_COMMIT={commit}");
    }
}

/// The one line that git prints; `None` without git or outside a repository.
fn git(args: &[&str]) -> Option<String> {
    let output = Command::new("git").args(args).output().ok()?;
    let line = String::from_utf8(output.stdout).ok()?.trim().to_owned();
    (output.status.success() && !line.is_empty() && !line.contains('\n')).then_some(line)
}
