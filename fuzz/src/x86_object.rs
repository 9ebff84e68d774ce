//! Objects for x86-64.

use hrx_compiler::x86::report;

use crate::Reached;
use crate::elf::refused;

/// Inspects an object: an error of one line, or a report in which every instruction is counted once.
pub fn x86_object(data: &[u8]) -> Reached {
    match report(data, None) {
        Err(error) => refused(error, data),
        Ok(found) => {
            assert!(!found.to_string().is_empty());
            for function in &found.functions {
                let mixes = function.loops.iter().map(|l| &l.mix).chain([&function.outside]);
                mixes.for_each(|m| assert_eq!(m.classes.values().sum::<u32>(), m.instructions, "{}", function.name));
            }
            Reached::End
        }
    }
}
