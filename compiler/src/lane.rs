//! The lane form: a lowered kernel with the registers that each value takes on the host.
//!
//! On the host a lane is a vector element, and layout is fixed: one register value for each combination of a tile's
//! leading indices. So the form is the lowered kernel's text, each definition followed by its registers.

use hrx_ir::tile::{Elem, Kernel, Type};

/// The text of a kernel that went through [`crate::passes::lower`], each value's registers behind its definition.
pub fn print(kernel: &Kernel) -> String {
    let text = kernel.to_string();
    let mut out = String::with_capacity(text.len() * 2);
    for line in text.lines() {
        out.push_str(line);
        if let Some(ty) = defined_type(line) {
            let n = ty.shape.last();
            let lanes = if n == 1 { ty.elem.name().to_string() } else { format!("<{n} x {}>", register_elem(ty.elem)) };
            out.push_str(&format!("  // {} x {lanes}", ty.shape.rows()));
        }
        out.push('\n');
    }
    out
}

fn register_elem(e: Elem) -> &'static str {
    e.name()
}

/// The type in `vN: TYPE = …`, if the line defines a single value.
fn defined_type(line: &str) -> Option<Type> {
    let (head, rest) = line.trim_start().split_once(": ")?;
    if !head.starts_with('v') || !head[1..].bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let (ty, _) = rest.split_once(" = ")?;
    let (elem, dims) = ty.split_once('[').unwrap_or((ty, "]"));
    let dims = dims.strip_suffix(']')?;
    let dims: Vec<u32> =
        if dims.is_empty() { Vec::new() } else { dims.split(", ").map(|d| d.parse().ok()).collect::<Option<_>>()? };
    Some(Type { elem: Elem::from_name(elem)?, shape: hrx_ir::tile::Shape::try_new(&dims)? })
}
