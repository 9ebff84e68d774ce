//! The programs that are handed out: LLVM is inside, and nothing but the C library has to be there. They are built,
//! packed, measured and held to their limits.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::setup;
use crate::shell::{cargo, command, output, run as run_command, target_dir};

/// What the profile is called, and the folder that cargo puts its programs into.
const PROFILE: &str = "dist";

/// The programs, and with what they are started to see how long that takes.
const PROGRAMS: [(&str, &[&str]); 3] =
    [("hrx-run", &["--version"]), ("hrx-jit", &["--version", "targets"]), ("hrx-bench", &["--version"])];

/// How often each is started; the median counts.
const STARTS: usize = 41;

/// Shared libraries that a program may want: the C library's, of which GNU's has several.
const ALLOWED: [&str; 6] =
    ["libc.so.6", "libm.so.6", "libdl.so.2", "librt.so.1", "libpthread.so.0", "ld-linux-x86-64.so.2"];

/// Bytes of a program without symbols.
const MAX_STRIPPED: u64 = 90_000_000;

/// Bytes of it packed with zstd.
const MAX_PACKED: u64 = 22_000_000;

const MAX_START: Duration = Duration::from_millis(20);

/// CPU time, of all processes together, of a build from nothing.
const MAX_BUILD: Duration = Duration::from_secs(10 * 60);

/// What is measured of a program.
struct Measured {
    name: &'static str,
    stripped: u64,
    packed: u64,
    /// How long each kind of start took.
    starts: Vec<(&'static str, Duration)>,
    /// Shared libraries that it wants.
    libraries: Vec<String>,
}

/// Builds, packs and measures.
///
/// # Errors
/// The build fails, or a limit is exceeded.
pub fn run() -> Result<(), String> {
    setup::for_dist()?;
    let dir = target_dir().join(PROFILE);
    let is_clean = !dir.join(".fingerprint").exists();
    let before = children_time()?;
    let mut build = cargo();
    build.args(["build", "--profile", PROFILE, "--features", "static-llvm"]);
    run_command(build.args(PROGRAMS.iter().flat_map(|(name, _)| ["--package", name])))?;
    let build = is_clean.then_some(children_time()?.saturating_sub(before));

    let measured = PROGRAMS.iter().map(|(name, starts)| measure(name, starts, &dir)).collect::<Result<Vec<_>, _>>()?;
    print!("{}", report(&measured, build, &dir));
    match exceeded(&measured, build) {
        none if none.is_empty() => Ok(()),
        limits => Err(limits.join("; ")),
    }
}

fn measure(name: &'static str, starts: &[&'static str], dir: &Path) -> Result<Measured, String> {
    let program = dir.join(name);
    let packed = dir.join(format!("{name}.zst"));
    run_command(command("zstd").args(["--quiet", "--force", "-19", "-T0"]).arg(&program).arg("-o").arg(&packed))?;
    let size = |path: &Path| match fs::metadata(path) {
        Ok(metadata) => Ok(metadata.len()),
        Err(error) => Err(format!("{}: {error}", path.display())),
    };
    let headers = output(command("objdump").arg("--private-headers").arg(&program))
        .ok_or_else(|| format!("objdump cannot read {}", program.display()))?;
    let timed = |start: &&'static str| Ok((*start, start_time(command(&program).arg(start))?));
    Ok(Measured {
        name,
        stripped: size(&program)?,
        packed: size(&packed)?,
        starts: starts.iter().map(timed).collect::<Result<_, String>>()?,
        libraries: needed(&headers),
    })
}

/// The shared libraries that a program wants, as objdump tells it.
fn needed(headers: &str) -> Vec<String> {
    let name = |line: &str| line.trim().strip_prefix("NEEDED").map(|name| name.trim().to_owned());
    headers.lines().filter_map(name).collect()
}

/// The median time from starting a program to its end, after one start that reads it into memory.
fn start_time(start: &mut Command) -> Result<Duration, String> {
    start.stdin(Stdio::null()).stdout(Stdio::null());
    let mut once = || {
        let begin = Instant::now();
        match start.status() {
            Ok(status) if status.success() => Ok(begin.elapsed()),
            Ok(status) => Err(format!("{}: {status}", start.get_program().display())),
            Err(error) => Err(format!("{} cannot be run: {error}", start.get_program().display())),
        }
    };
    once()?;
    let mut times = (0..STARTS).map(|_| once()).collect::<Result<Vec<_>, _>>()?;
    times.sort();
    Ok(times[STARTS / 2])
}

/// CPU time of all processes that we started and that have ended, theirs included.
fn children_time() -> Result<Duration, String> {
    let stat = fs::read_to_string("/proc/self/stat").map_err(|error| format!("/proc/self/stat: {error}"))?;
    children_ticks(&stat)
        // Linux counts in hundredths of a second there, whatever the kernel's own clock does.
        .map(|ticks| Duration::from_millis(10 * ticks))
        .ok_or_else(|| "/proc/self/stat: not as proc_pid_stat(5) says".to_owned())
}

/// Fields 16 and 17 of proc_pid_stat(5), cutime and cstime. Field 2 is a name in parentheses that may hold anything.
fn children_ticks(stat: &str) -> Option<u64> {
    let (_, after_name) = stat.rsplit_once(')')?;
    let mut fields = after_name.split_whitespace().skip(16 - 3);
    let mut field = || fields.next()?.parse::<u64>().ok();
    Some(field()? + field()?)
}

fn report(measured: &[Measured], build: Option<Duration>, dir: &Path) -> String {
    let mut text = String::from("\n");
    for Measured { name, stripped, packed, starts, libraries } in measured {
        let [stripped, packed] = [megabytes(*stripped), megabytes(*packed)];
        text += &format!("{name}: {stripped} stripped, {packed} packed; wants {}\n", libraries.join(", "));
        for (start, time) in starts {
            text += &format!("{name} {start}: {}, median of {STARTS} starts\n", milliseconds(*time));
        }
    }
    let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text += &format!("load: {}\n", load.split(' ').next().unwrap_or_default());
    text + &match build {
        Some(time) => format!("clean build: {}\n", minutes(time)),
        None => format!("build: not a clean one, so its CPU time says nothing; remove {} to see it\n", dir.display()),
    }
}

/// What is beyond its limit, each in a few words.
fn exceeded(measured: &[Measured], build: Option<Duration>) -> Vec<String> {
    let mut found = Vec::new();
    for Measured { name, stripped, packed, starts, libraries } in measured {
        if *stripped > MAX_STRIPPED {
            found.push(format!("{name} is {}, {} allowed", megabytes(*stripped), megabytes(MAX_STRIPPED)));
        }
        if *packed > MAX_PACKED {
            found.push(format!("{name} is {} packed, {} allowed", megabytes(*packed), megabytes(MAX_PACKED)));
        }
        for (start, time) in starts.iter().filter(|(_, time)| *time > MAX_START) {
            found.push(format!("{name} {start} takes {}, {} allowed", milliseconds(*time), milliseconds(MAX_START)));
        }
        for library in libraries.iter().filter(|library| !ALLOWED.contains(&library.as_str())) {
            found.push(format!("{name} wants {library}, which users may lack"));
        }
    }
    if let Some(time) = build.filter(|time| *time > MAX_BUILD) {
        found.push(format!("the build took {}, {} allowed", minutes(time), minutes(MAX_BUILD)));
    }
    found
}

fn megabytes(bytes: u64) -> String {
    format!("{:.1} MB", bytes as f64 / 1e6)
}

fn milliseconds(time: Duration) -> String {
    format!("{:.1} ms", time.as_secs_f64() * 1e3)
}

fn minutes(time: Duration) -> String {
    format!("{:.1} CPU minutes", time.as_secs_f64() / 60.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at_the_limits() -> Measured {
        let libraries = vec!["libm.so.6".to_owned(), "libc.so.6".to_owned()];
        Measured { name: "p", stripped: MAX_STRIPPED, packed: MAX_PACKED, starts: vec![("-V", MAX_START)], libraries }
    }

    #[test]
    fn each_limit_is_held() {
        let tick = Duration::from_millis(10);
        assert!(exceeded(&[at_the_limits()], Some(MAX_BUILD)).is_empty());
        assert_eq!(
            exceeded(&[at_the_limits()], Some(MAX_BUILD + Duration::from_secs(60))),
            ["the build took 11.0 CPU minutes, 10.0 CPU minutes allowed"]
        );
        let beyond = Measured {
            stripped: MAX_STRIPPED + 200_000,
            packed: MAX_PACKED + 200_000,
            starts: vec![("-V", MAX_START), ("-h", MAX_START + tick)],
            libraries: vec!["libz3.so.4".to_owned()],
            ..at_the_limits()
        };
        let expected = [
            "p is 90.2 MB, 90.0 MB allowed",
            "p is 22.2 MB packed, 22.0 MB allowed",
            "p -h takes 30.0 ms, 20.0 ms allowed",
            "p wants libz3.so.4, which users may lack",
        ];
        assert_eq!(exceeded(&[at_the_limits(), beyond], None), expected);
    }

    #[test]
    fn needed_libraries_are_read() {
        let headers =
            "\nDynamic Section:\n  NEEDED               libm.so.6\n  NEEDED               libc.so.6\n  INIT  0x10\n";
        assert_eq!(needed(headers), ["libm.so.6", "libc.so.6"]);
    }

    #[test]
    fn the_time_of_children_is_read() {
        let stat = "7 (a) b) S 1 7 7 0 -1 4194304 50 60 0 0 11 12 130 14 20 0 1 0 99 1000 10";
        assert_eq!(children_ticks(stat), Some(130 + 14));
        assert_eq!(children_ticks("7 (a) S 1 7"), None);

        let before = children_time().expect("time");
        let mut busy = command("sh");
        busy.args(["-c", "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done"]);
        run_command(&mut busy).expect("a shell");
        assert!(children_time().expect("time") > before);
    }

    #[test]
    fn starts_are_timed_and_failures_told() {
        let time = start_time(command("sh").args(["-c", "sleep 0.01"])).expect("a time");
        assert!(time >= Duration::from_millis(10), "{time:?}");
        let error = start_time(&mut command("false")).unwrap_err();
        assert!(error.starts_with("false: "), "{error}");
        let error = start_time(&mut command("no-such-program")).unwrap_err();
        assert!(error.contains("cannot be run"), "{error}");
    }
}
