//! Inspection of code objects.

use hrx_compiler::inspect::{Options, diff, inspect as inspected};

use crate::Reached;
use crate::elf::refused;

/// Inspects a code object: an error of one line, or a report in all its forms, which does not differ from itself.
pub fn inspect(data: &[u8]) -> Reached {
    match inspected(data, &Options::default()) {
        Err(error) => refused(error, data),
        Ok(found) => {
            assert!(!found.to_string().is_empty() && found.html().ends_with("</html>\n"));
            let same = diff(&found, &found).map(|d| d.kernels.iter().all(|k| k.same_code && k.changes.is_empty()));
            assert!(same.is_ok_and(|same| same), "it differs from itself");
            Reached::End
        }
    }
}
