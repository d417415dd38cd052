//! What the system says of itself and of this process; `None` where it does not say.

use std::fs;

use super::report::{Build, Machine};

/// This program.
pub(super) fn build() -> Build {
    Build {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        commit: option_env!("DIKAST_COMMIT").map(str::to_owned),
        optimized: !cfg!(debug_assertions),
    }
}

/// This machine.
pub(super) fn machine() -> Machine {
    Machine {
        cpu: field("/proc/cpuinfo", "model name").map(|name| model(&name)),
        threads: std::thread::available_parallelism().map_or(1, usize::from),
        system: format!("{} {}", std::env::consts::OS, std::env::consts::ARCH),
        memory_bytes: field("/proc/meminfo", "MemTotal").and_then(|v| kibibytes(&v)),
    }
}

/// The largest resident memory that this process ever had.
pub(super) fn peak_rss() -> Option<u64> {
    field("/proc/self/status", "VmHWM").and_then(|v| kibibytes(&v))
}

/// The first value of a name in a file of `name: value` lines.
fn field(path: &str, name: &str) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    text.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        (key.trim() == name).then(|| value.trim().to_owned())
    })
}

/// A processor's name without runs of blanks.
fn model(name: &str) -> String {
    name.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn kibibytes(value: &str) -> Option<u64> {
    value.strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_with_their_unit() {
        assert_eq!(kibibytes("  24 kB"), Some(24 * 1024));
        assert_eq!(kibibytes("24 MB"), None);
        assert_eq!(model("A   B\tC"), "A B C");
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn the_process_has_memory() {
        assert!(peak_rss() > Some(1 << 20));
        assert!(machine().memory_bytes > peak_rss());
    }
}
