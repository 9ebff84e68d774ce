//! What the sanitizer knows of LDS, and static rules of instructions.

pub mod banks;
pub mod lds;
