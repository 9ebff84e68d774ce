//! Matrix products by mma.sync.

use super::Nvptx;
use crate::lanes::ir::Val;
use crate::simt::{Codegen, Result, said};
use crate::target::amd::{MatrixCall, MatrixOp, Scalar};
use inkwell::values::{BasicValueEnum, StructValue};

/// The instruction's order of A's registers: rows change first there, k changes first here.
const ROWS_FIRST: [usize; 4] = [0, 2, 1, 3];

impl<'c> Codegen<'c, '_, Nvptx> {
    /// Two instructions: one for the lower eight columns, one for the upper.
    pub(super) fn matrix_product(
        &self,
        inst: &MatrixOp,
        a: &[Val],
        b: &[Val],
        c: &[Val],
    ) -> Result<Vec<BasicValueEnum<'c>>> {
        if inst.call != MatrixCall::MmaSync || [a.len(), b.len(), c.len()] != [4, 4, 8] {
            return Err(format!("{inst} with fragments of {}, {} and {} registers", a.len(), b.len(), c.len()));
        }
        let factor = |&v: &Val| match inst.factor.scalar {
            Scalar::Half => {
                let pair = self.cx.f16_type().vec_type(2);
                self.b.build_bit_cast(self.get(v)?, pair, "").map_err(said)
            }
            _ => self.get(v),
        };
        let [a, b] = [a, b].map(|list| list.iter().map(factor).collect::<Result<Vec<_>>>());
        let (a, b) = (a?, b?);
        let mut out = vec![None; c.len()];
        for half in 0..2 {
            let sums = [2 * half, 2 * half + 1, 2 * half + 4, 2 * half + 5];
            let mut args: Vec<BasicValueEnum<'c>> = ROWS_FIRST.iter().map(|&r| a[r]).collect();
            args.extend(&b[2 * half..2 * half + 2]);
            for i in sums {
                args.push(self.get(c[i])?);
            }
            let made = StructValue::try_from(self.call(inst.intrinsic, &[], &args)?)
                .map_err(|()| format!("{} gives no struct", inst.intrinsic))?;
            for (n, i) in sums.into_iter().enumerate() {
                out[i] = Some(self.b.build_extract_value(made, n as u32, "").map_err(said)?);
            }
        }
        out.into_iter().map(|v| v.ok_or_else(|| "a sum is missing".into())).collect()
    }
}
