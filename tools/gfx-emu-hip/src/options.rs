//! The variables that say what is emulated and how.

use hrx_compiler::target::amd::{self, Chip};

/// The variable that names the chip.
pub const CHIP: &str = "HRX_EMU_CHIP";
/// The variable with the seed of the order of waves.
pub const SEED: &str = "HRX_EMU_SEED";
/// The variable with the number of threads.
pub const THREADS: &str = "HRX_EMU_THREADS";
/// The variable that, as 0, switches the sanitizer off, but for accesses outside of memory.
pub const CHECK: &str = "HRX_EMU_CHECK";
/// The variable with the MiB of memory that the device has.
pub const MEMORY: &str = "HRX_EMU_MEMORY";
/// The variable with calls that are to fail.
pub const FAIL: &str = "HRX_EMU_FAIL";

/// A call that is to fail.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Fault {
    /// The function.
    pub call: String,
    /// Which of its calls, from 1.
    pub number: u64,
    /// The status that it returns.
    pub status: i32,
}

/// What the variables say.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Options {
    /// The chip; none if no variable names one.
    pub chip: Option<&'static Chip>,
    /// Where the order of waves starts; none for the order of their numbers.
    pub seed: Option<u64>,
    /// Threads that workgroups are spread over; none for as many as there are processors.
    pub threads: Option<usize>,
    /// Whether only accesses outside of memory are looked for.
    pub unchecked: bool,
    /// Bytes of the device's memory; none for as much as the computer has.
    pub memory: Option<u64>,
    /// Calls that are to fail.
    pub faults: Vec<Fault>,
}

/// A variable whose value is no good.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OptionsError(pub String);

impl Options {
    /// Reads the variables; `variable` looks one up.
    ///
    /// # Errors
    /// The first whose value is not understood.
    pub fn read(variable: impl Fn(&str) -> Option<String>) -> Result<Options, OptionsError> {
        let number = |name: &str| {
            let parse = |text: String| text.parse().map_err(|_| OptionsError(format!("{name}={text}: not a number")));
            variable(name).map(parse).transpose()
        };
        let faults = variable(FAIL).unwrap_or_default();
        let faults = faults.split(',').filter(|f| !f.is_empty());
        let fault = |text: &str| {
            let wrong = || OptionsError(format!("{FAIL}: {text} is not CALL:NUMBER:STATUS, as hipMalloc:2:2"));
            let parts: Vec<&str> = text.split(':').collect();
            let [call, number, status] = parts[..] else { return Err(wrong()) };
            let number = number.parse().ok().filter(|&n: &u64| n > 0).ok_or_else(wrong)?;
            Ok(Fault { call: call.into(), number, status: status.parse().map_err(|_| wrong())? })
        };
        Ok(Options {
            chip: variable(CHIP).filter(|c| !c.is_empty()).map(|name| chip(&name)).transpose()?,
            seed: number(SEED)?,
            threads: number(THREADS)?.map(|n| n as usize),
            unchecked: number(CHECK)? == Some(0),
            memory: number(MEMORY)?.map(|mib: u64| mib.saturating_mul(1 << 20)),
            faults: faults.map(fault).collect::<Result<_, _>>()?,
        })
    }
}

/// The chip of that name.
///
/// # Errors
/// If there is none, or it is a generic target, which is no chip.
pub fn chip(name: &str) -> Result<&'static Chip, OptionsError> {
    let names = || {
        let real = amd::CHIPS.iter().filter(|c| c.members.is_empty());
        real.map(|c| c.name).collect::<Vec<_>>().join(", ")
    };
    let found = amd::find(name).filter(|c| c.members.is_empty());
    found.ok_or_else(|| OptionsError(format!("no chip {} to emulate; there are: {}", name.escape_debug(), names())))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(set: &[(&str, &str)]) -> Result<Options, OptionsError> {
        Options::read(|name| set.iter().find(|(n, _)| *n == name).map(|(_, v)| (*v).into()))
    }

    #[test]
    fn variables_are_read() {
        assert_eq!(read(&[]), Ok(Options::default()));
        let set = [
            (CHIP, "gfx1100"),
            (SEED, "7"),
            (THREADS, "1"),
            (MEMORY, "3"),
            (CHECK, "0"),
            (FAIL, "hipMalloc:2:2,hipFree:1:17"),
        ];
        let options = read(&set).expect("understood");
        assert_eq!(options.chip.map(|c| c.name), Some("gfx1100"));
        assert_eq!((options.seed, options.threads), (Some(7), Some(1)));
        assert_eq!((options.memory, options.unchecked), (Some(3 << 20), true));
        let fault = |call: &str, number, status| Fault { call: call.into(), number, status };
        assert_eq!(options.faults, [fault("hipMalloc", 2, 2), fault("hipFree", 1, 17)]);
    }

    #[test]
    fn what_is_not_understood_is_said() {
        for (name, value, words) in [
            (CHIP, "gfx11", "no chip gfx11 to emulate; there are: gfx906, "),
            (CHIP, "gfx11-generic", "no chip gfx11-generic"),
            (SEED, "x", "HRX_EMU_SEED=x: not a number"),
            (FAIL, "hipMalloc", "hipMalloc is not CALL:NUMBER:STATUS"),
            (FAIL, "hipMalloc:0:1", "hipMalloc:0:1 is not"),
        ] {
            let OptionsError(said) = read(&[(name, value)]).expect_err("refused");
            assert!(said.contains(words), "{said}");
        }
    }
}
