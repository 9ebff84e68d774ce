//! The text form of tile IR.

use hrx_compiler::passes;
use hrx_ir::tile::{parse_kernel, verify};

use crate::Reached;

/// Parses a kernel. One that parses prints as a text that parses to the same text again, whether or not it is valid;
/// one that is valid stays so through the compiler's passes.
pub fn tile_text(data: &[u8]) -> Reached {
    let text = String::from_utf8_lossy(data);
    let kernel = match parse_kernel(&text) {
        Ok(kernel) => kernel,
        Err(error) => {
            assert!(!error.to_string().is_empty());
            return if error.line <= 1 { Reached::FirstCheck } else { Reached::Inside };
        }
    };
    let printed = kernel.to_string();
    match parse_kernel(&printed) {
        Ok(again) => assert_eq!(again.to_string(), printed, "printing is not canonical"),
        Err(error) => panic!("what was printed does not parse: {error}\n{printed}"),
    }
    if let Err(errors) = verify(&kernel) {
        assert!(!errors.to_string().is_empty());
        return Reached::Inside;
    }
    for lower in [passes::lower_host, passes::lower_lanes] {
        if let Err(errors) = verify(&lower(kernel.clone())) {
            panic!("a pass broke the kernel:\n{errors}\n{printed}");
        }
    }
    Reached::End
}
