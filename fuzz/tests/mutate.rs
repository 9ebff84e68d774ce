//! Every fuzz target for a moment: two seconds each, or `HRX_FUZZ_SECONDS`.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use hrx_fuzz::mutate::drive;
use hrx_fuzz::{TARGETS, Target};

fn directory(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

fn seeds(target: &Target) -> Vec<Vec<u8>> {
    let dir = directory("seeds").join(target.name);
    let files = fs::read_dir(&dir).unwrap_or_else(|error| panic!("{}: {error}", dir.display()));
    let mut paths: Vec<PathBuf> = files.map(|file| file.expect("a file").path()).collect();
    // The order must not depend on the file system.
    paths.sort();
    paths.iter().map(|path| fs::read(path).expect("a seed")).collect()
}

fn check(target: &Target) {
    let seconds = std::env::var("HRX_FUZZ_SECONDS").ok().and_then(|text| text.parse().ok());
    let seeds = seeds(target);
    assert!(!seeds.is_empty(), "{} has no seeds", target.name);
    let report = match drive(target, &seeds, Duration::from_secs(seconds.unwrap_or(2))) {
        Ok(report) => report,
        Err(failure) => {
            let path = directory("failures").join(target.name);
            fs::create_dir_all(directory("failures")).expect("a directory");
            fs::write(&path, &failure.input).expect("the input");
            panic!("{}: {}\ninput kept in {}", target.name, failure.message, path.display());
        }
    };
    let percent = 100 * report.wasted / report.inputs;
    println!("{:12} {report:?}, {percent} % wasted", target.name);
    assert!(report.inputs > 10 * seeds.len() as u64, "{}: too slow: {report:?}", target.name);
    assert!(report.accepted > 0, "{}: not even a seed is accepted", target.name);
    assert!(percent < 75, "{}: most inputs are wasted: {report:?}", target.name);
}

#[test]
fn every_target_survives() {
    TARGETS.iter().for_each(check);
}

#[test]
fn every_target_has_its_libfuzzer_program() {
    for target in TARGETS {
        let program = directory("fuzz_targets").join(format!("{}.rs", target.name));
        let text = fs::read_to_string(&program).unwrap_or_default();
        let call = format!("hrx_fuzz::{}(data)", target.name);
        assert!(text.contains(&call), "{} does not call {call}", program.display());
        let manifest = fs::read_to_string(directory("Cargo.toml")).expect("the manifest");
        assert!(manifest.contains(&format!("fuzz_targets/{}.rs", target.name)), "{}", target.name);
    }
}
