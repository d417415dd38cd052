//! Embeds compiled kernels where a toolkit is present at build time.
//!
//! With `DIKAST_NVCC` naming an nvcc 13, every kernel is compiled for sm_90a and sm_89 and for later chips as PTX, and the
//! program needs no run-time compiler. Without it the table is empty and kernels are compiled on the machine they run on.

use std::error::Error;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-env-changed=DIKAST_NVCC");
    println!("cargo::rerun-if-changed=../kernels");
    let out = PathBuf::from(std::env::var("OUT_DIR")?);
    let mut table = String::from("pub(super) static EMBEDDED: &[Embedded] = &[\n");
    if let Ok(nvcc) = std::env::var("DIKAST_NVCC") {
        for kernel in kernels()? {
            let name = kernel.file_stem().and_then(|s| s.to_str()).ok_or("a kernel's name is not UTF-8")?;
            let targets: &[_] =
                if name.starts_with("sm90_") { &["sm_90a"] } else { &["sm_90a", "sm_89", "compute_89"] };
            for target in targets {
                let image = out.join(format!("{name}.{target}"));
                compile(&nvcc, &kernel, target, &image)?;
                writeln!(
                    table,
                    "    Embedded {{ name: {name:?}, target: {target:?}, image: include_bytes!({image:?}) }},"
                )?;
            }
        }
    }
    table.push_str("];\n");
    std::fs::write(out.join("embedded.rs"), table)?;
    Ok(())
}

fn kernels() -> Result<Vec<PathBuf>, Box<dyn Error>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir("../kernels")? {
        let path = entry?.path();
        if path.extension().is_some_and(|e| e == "cu") {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

fn compile(nvcc: &str, kernel: &Path, target: &str, image: &Path) -> Result<(), Box<dyn Error>> {
    let arch = target.trim_start_matches("sm_").trim_start_matches("compute_");
    let kind = if target.starts_with("sm_") { "-cubin" } else { "-ptx" };
    let status = Command::new(nvcc)
        .args(["-std=c++17", kind, "-gencode"])
        .arg(format!("arch=compute_{arch},code={target}"))
        .arg("-o")
        .arg(image)
        .arg(kernel)
        .status()?;
    if !status.success() {
        return Err(format!("{nvcc} failed on {} for {target}", kernel.display()).into());
    }
    Ok(())
}
