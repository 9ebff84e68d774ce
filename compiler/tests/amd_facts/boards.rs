//! Boards, held to arithmetic: CUs times clock times what the chip does in a clock.

use hrx_compiler::target::amd::{BOARDS, Board, CHIPS, Chip, Fact, MatrixType, find};

fn chip(board: &Board) -> &'static Chip {
    find(board.chip).unwrap_or_else(|| panic!("{}: no chip {}", board.name, board.chip))
}

/// A published peak is that of so many operations of a CU and clock, within what is lost in rounding.
fn peak(board: &Board, what: &str, published: Fact<f32>, rate: Option<u32>) {
    let Some(published) = published else { return };
    let rate = rate.unwrap_or_else(|| panic!("{} has a {what} peak, its chip no rate", board.name));
    let computed = board.cus as f32 * board.boost_mhz as f32 * rate as f32 / 1e6;
    let off = (computed / published.value - 1.0).abs();
    assert!(off < 0.005, "{}: {what} peak {} is published, {computed} computed", board.name, published.value);
}

/// The fastest instruction of such factors.
fn matrix_rate(chip: &Chip, types: &[(MatrixType, MatrixType)]) -> Option<u32> {
    let ops = types.iter().flat_map(|&(factor, acc)| chip.matrix_products(factor, factor, acc).unwrap_or_default());
    ops.filter_map(|op| chip.matrix_rate(op).ok()).max()
}

#[test]
fn peaks_follow_from_rates() {
    for board in BOARDS {
        let chip = chip(board);
        peak(board, "f32", board.f32_peak, chip.f32_rate.map(|k| k.value));
        let rate = |types: &[_]| matrix_rate(chip, types);
        peak(board, "f16 matrix", board.f16_matrix, rate(&[(MatrixType::F16, MatrixType::F32)]));
        let bytes = [(MatrixType::I8, MatrixType::I32), (MatrixType::Iu8, MatrixType::I32)];
        peak(board, "i8 matrix", board.i8_matrix, rate(&bytes));
        peak(board, "fp8 matrix", board.fp8_matrix, rate(&[(MatrixType::Fp8, MatrixType::F32)]));
    }
}

#[test]
fn boards_are_consistent() {
    for (i, board) in BOARDS.iter().enumerate() {
        assert!(BOARDS[..i].iter().all(|b| b.name != board.name), "{} twice", board.name);
        assert!(chip(board).members.is_empty(), "{} has a chip, not a generic target", board.name);
        assert_eq!(board.cus % chip(board).block.cus(), 0, "{}: half a WGP", board.name);
        assert!(board.game_mhz.is_none_or(|mhz| mhz < board.boost_mhz), "{}", board.name);
        let value = |f: Fact<f32>| f.map(|k| k.value);
        if let (Some(measured), Some(nominal)) = (value(board.measured), value(board.bandwidth)) {
            assert!(measured < nominal, "{}", board.name);
        }
        if let Some(less) = board.last_level {
            let full = chip(board).last_level_mib().expect("known").expect("there is one");
            assert!(less.value < full, "{}", board.name);
        }
    }
}

#[test]
fn chips_without_a_known_board_say_so() {
    for chip in CHIPS {
        match chip.board() {
            Ok(board) => assert_eq!(board.chip, chip.name),
            Err(e) => assert_eq!(e.to_string(), format!("{}: a typical board is not known", chip.name)),
        }
    }
    let without: Vec<_> = CHIPS.iter().filter(|c| c.board().is_err() && c.members.is_empty()).collect();
    assert_eq!(without.iter().map(|c| c.name).collect::<Vec<_>>(), ["gfx1153"]);
}
