//! Work that is too much for one run: parts of it take turns, day by day.

/// Whether everything is to be done, whoever's turn it is: the variable `HRX_ALL` is 1.
pub fn all() -> bool {
    std::env::var_os("HRX_ALL").is_some_and(|v| v == "1")
}

/// Whether it is the turn of what has the number `at`, of `parts`: the day says, or the variable `HRX_TURN` (a number). A
/// failure is repeated with the number that [`now`] gives.
pub fn is_turn(at: usize, parts: u64) -> bool {
    all() || at as u64 % parts == now() % parts
}

/// The number of this run.
///
/// # Panics
/// If `HRX_TURN` is no number.
pub fn now() -> u64 {
    let days = || std::time::UNIX_EPOCH.elapsed().map_or(0, |d| d.as_secs() / 86400);
    let told = std::env::var("HRX_TURN").ok();
    told.map_or_else(days, |t| t.parse().expect("HRX_TURN is a number"))
}
