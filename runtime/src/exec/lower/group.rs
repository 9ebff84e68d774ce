//! StepKind that share a launch, on chips that have waves.

use super::super::schedule::stages;
use super::{Operand, Step};
use hrx_templates::{Group, GroupClass, Request, Waves};

/// The most kernels of one launch: code that nobody waits for long, and arguments that registers hold.
const MOST: usize = 4;

/// Puts steps of one stage that suit one another into one launch each. StepKind are in order of their stages then.
pub(super) fn group(steps: Vec<Step>, waves: &Waves) -> Vec<Step> {
    // Where a product of tiles is many instructions, code of several such kernels spills registers.
    let has_matrix_unit = waves.product_instructions <= 2;
    let class =
        |step: &Step| Group::class(&step.request).filter(|c| has_matrix_unit || !matches!(c, GroupClass::Matrix(_)));
    let mut order: Vec<(usize, Step)> = stages(&steps).into_iter().zip(steps).collect();
    order.sort_by_key(|(stage, _)| *stage);
    let mut out: Vec<Step> = Vec::new();
    // The groups of this stage that may grow: of which class, and which steps.
    let mut open: Vec<(GroupClass, Vec<Step>)> = Vec::new();
    let mut at = 0;
    for (stage, step) in order {
        if stage != at {
            out.extend(open.drain(..).map(|(_, steps)| whole(steps)));
            at = stage;
        }
        let Some(class) = class(&step) else {
            out.push(step);
            continue;
        };
        match open.iter_mut().find(|(c, steps)| *c == class && steps.len() < MOST) {
            Some((_, steps)) => steps.push(step),
            None => open.push((class, vec![step])),
        }
    }
    out.extend(open.into_iter().map(|(_, steps)| whole(steps)));
    out
}

/// One step that does the work of several.
fn whole(mut steps: Vec<Step>) -> Step {
    if steps.len() == 1 {
        return steps.remove(0);
    }
    let parts: Vec<(&Request, &[Operand])> = steps.iter().map(|s| (&s.request, s.operands.as_slice())).collect();
    let (group, operands) = Group::new(&parts);
    let all = |of: fn(&Step) -> &[Operand]| {
        let mut list: Vec<Operand> = Vec::new();
        for &o in steps.iter().flat_map(of) {
            if !list.contains(&o) {
                list.push(o);
            }
        }
        list
    };
    let (reads, writes) = (all(|s| &s.reads), all(|s| &s.writes));
    Step { request: group.into(), operands, reads, writes, node: steps[0].node }
}
