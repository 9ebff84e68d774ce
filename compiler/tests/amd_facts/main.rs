//! The table of AMD chips, held to itself and to LLVM.

mod boards;
mod layouts;
mod lds;
mod llvm;
mod products;
mod registers;
mod table;
