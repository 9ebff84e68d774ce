//! Counts of instructions by class, as lines of a report.

use std::fmt;

/// Classes of a line.
const A_LINE: usize = 8;

/// Writes how many instructions something has and how many of each class, indented for a depth of loops; gives the
/// indentation.
pub(crate) fn write<'a>(
    f: &mut fmt::Formatter<'_>,
    what: &str,
    depth: usize,
    instructions: u32,
    classes: impl Iterator<Item = (&'a str, u32)>,
) -> Result<String, fmt::Error> {
    let indent = " ".repeat(4 + 2 * depth);
    writeln!(f, "{indent}{what}: {instructions} instructions")?;
    let classes: Vec<String> = classes.map(|(class, n)| format!("{n} {class}")).collect();
    classes.chunks(A_LINE).try_for_each(|line| writeln!(f, "{indent}  {}", line.join(", ")))?;
    Ok(indent)
}
