//! The text form of graph IR.

use hrx_ir::graph::parse;

use crate::Reached;

/// Parses a graph, which includes verifying it. One that parses prints as a text that parses to the same text again.
pub fn graph_text(data: &[u8]) -> Reached {
    let text = String::from_utf8_lossy(data);
    let graph = match parse(&text) {
        Ok(graph) => graph,
        Err(error) => {
            assert!(!error.to_string().is_empty());
            return if text.lines().count() <= 1 { Reached::FirstCheck } else { Reached::Inside };
        }
    };
    let printed = graph.to_string();
    match parse(&printed) {
        Ok(again) => assert_eq!(again.to_string(), printed, "printing is not canonical"),
        Err(error) => panic!("what was printed does not parse: {error}\n{printed}"),
    }
    Reached::End
}
