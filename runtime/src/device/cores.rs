//! How many threads a processor's kernels are to have.
//!
//! Kernels fill a core's vector units, which the hardware threads of a core share, so two threads on one core take turns
//! and meet later at each stage's end: one thread a core is best.

use std::collections::BTreeSet;
use std::path::Path;

/// The number of cores that the process may use: of those that its affinity allows, no more than its share of processor
/// time (a container's) is worth. Where the kernel doesn't tell of cores, processors count as such.
pub fn cores() -> usize {
    let processors = std::thread::available_parallelism().map_or(1, |n| n.get());
    let allowed = std::fs::read_to_string("/proc/self/status").ok().and_then(|status| allowed(&status));
    let cores = allowed.and_then(|allowed| count(Path::new("/sys/devices/system/cpu"), &allowed));
    cores.unwrap_or(processors).clamp(1, processors)
}

/// The processors that a process may run on, of its `/proc/PID/status`.
fn allowed(status: &str) -> Option<Vec<usize>> {
    let line = status.lines().find_map(|l| l.strip_prefix("Cpus_allowed_list:"))?;
    list(line.trim())
}

/// A list as the kernel writes it: `0-3,8`.
fn list(text: &str) -> Option<Vec<usize>> {
    let mut all = Vec::new();
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (usize, usize) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
        // More than any machine has is no list of processors.
        all.extend((last < 1 << 16).then_some(first..=last)?);
    }
    Some(all)
}

/// The cores of some processors, by the topology under `root`: a core is the processors that share it.
fn count(root: &Path, processors: &[usize]) -> Option<usize> {
    let core = |n: &usize| {
        let text = std::fs::read_to_string(root.join(format!("cpu{n}/topology/thread_siblings_list"))).ok()?;
        list(text.trim())?.into_iter().min()
    };
    processors.iter().map(core).collect::<Option<BTreeSet<usize>>>().map(|cores| cores.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A machine whose processors have these siblings.
    fn machine(siblings: &[&str]) -> tempfile::TempDir {
        let dir = tempfile::tempdir().expect("a directory");
        for (n, siblings) in siblings.iter().enumerate() {
            let topology = dir.path().join(format!("cpu{n}/topology"));
            std::fs::create_dir_all(&topology).expect("a directory");
            std::fs::write(topology.join("thread_siblings_list"), format!("{siblings}\n")).expect("a file");
        }
        dir
    }

    #[test]
    fn threads_of_one_core_count_once() {
        // Siblings side by side, as in virtual machines, and half the machine away, as on most others.
        let near = machine(&["0-1", "0-1", "2-3", "2-3"]);
        let far = machine(&["0,2", "1,3", "0,2", "1,3"]);
        let single = machine(&["0", "1", "2", "3"]);
        for (machine, of, cores) in
            [(&near, "0-3", 2), (&far, "0-3", 2), (&single, "0-3", 4), (&near, "1-2", 2), (&far, "0,2", 1)]
        {
            assert_eq!(count(machine.path(), &list(of).expect("a list")), Some(cores), "{of}");
        }
        assert_eq!(count(single.path(), &[0, 4]), None, "a processor without a topology");
    }

    #[test]
    fn affinities_are_read() {
        let status = "Name:\thrx-run\nCpus_allowed:\tf\nCpus_allowed_list:\t0-1,6\nMems_allowed_list:\t0\n";
        assert_eq!(allowed(status), Some(vec![0, 1, 6]));
        for wrong in ["", "Cpus_allowed_list:\t", "Cpus_allowed_list:\t1-x", "Cpus_allowed_list:\t0-99999999999"] {
            assert_eq!(allowed(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn this_machine_has_cores() {
        let processors = std::thread::available_parallelism().expect("processors").get();
        assert!((1..=processors).contains(&cores()));
    }
}
