//! Models split over several files: `name-00001-of-00003.gguf` and so on, each a GGUF file with some of the tensors.
//!
//! Each shard has the keys `split.no` (from 0), `split.count` and `split.tensors.count` (of all shards together); the
//! other metadata is in the first shard. Source: llama.cpp's gguf-split tool.

use std::path::{Path, PathBuf};

use super::{GgufError, Shard};

/// What a shard says about the split that it is part of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Split {
    number: u32,
    count: u32,
    /// Tensors of all shards; older files don't say.
    tensors: Option<u64>,
}

impl Split {
    /// The split that `shard` is part of; `None` for a model in one file.
    pub(super) fn of(shard: &Shard) -> Result<Option<Split>, GgufError> {
        let metadata = &shard.metadata;
        let count = metadata.u32("split.count")?.unwrap_or(0);
        if count < 2 {
            return Ok(None);
        }
        // The file's name has five digits for it.
        if count > 99_999 {
            return Err(problem(shard.mapping.path(), format!("`split.count` is {count}, want at most 99999")));
        }
        let number = metadata.require_u32("split.no")?;
        Ok(Some(Split { number, count, tensors: metadata.u64("split.tensors.count")? }))
    }

    /// The paths of the shards after the first, which is at `path`.
    pub(super) fn other_paths(self, path: &Path) -> Result<Vec<PathBuf>, GgufError> {
        let count = self.count;
        let stem = path
            .file_name()
            .and_then(|name| name.to_str())
            .and_then(|name| name.strip_suffix(&shard_suffix(self.number, count)));
        let Some(stem) = stem else {
            let want = shard_suffix(self.number, count);
            return Err(problem(
                path,
                format!("this is shard {} of {count}, so its name has to end in `{want}`", u64::from(self.number) + 1),
            ));
        };
        if self.number != 0 {
            let first = format!("{stem}{}", shard_suffix(0, count));
            return Err(problem(
                path,
                format!("this is shard {} of {count}: open the first one, `{first}`", u64::from(self.number) + 1),
            ));
        }
        let paths: Vec<PathBuf> =
            (1..count).map(|number| path.with_file_name(format!("{stem}{}", shard_suffix(number, count)))).collect();
        match paths.iter().find(|path| !path.exists()) {
            Some(missing) => Err(problem(missing, format!("this shard (of {count}) is missing"))),
            None => Ok(paths),
        }
    }
}

/// Checks that `shards` are all of the split that the first one announces.
pub(super) fn check(split: Option<Split>, shards: &[Shard]) -> Result<(), GgufError> {
    let count = split.map_or(1, |split| split.count as usize);
    if shards.len() != count {
        let text = format!("the model has {count} shard(s), but {} were given", shards.len());
        return Err(problem(shards[0].mapping.path(), text));
    }
    let Some(first) = split else { return Ok(()) };
    for (number, shard) in shards.iter().enumerate() {
        let want = Split { number: number as u32, ..first };
        let found = Split::of(shard)?;
        if found.is_none_or(|found| (found.number, found.count) != (want.number, want.count)) {
            let found = match found {
                Some(found) => format!("number {} of {}", u64::from(found.number) + 1, found.count),
                None => "not part of a split model".into(),
            };
            let text = format!("this file is {found}, want shard number {} of {count}", number + 1);
            return Err(problem(shard.mapping.path(), text));
        }
    }
    let tensors: u64 = shards.iter().map(|shard| shard.tensors.len() as u64).sum();
    match first.tensors {
        Some(want) if want != tensors => {
            let text = format!("the {count} shards have {tensors} tensors, but `split.tensors.count` is {want}");
            Err(problem(shards[0].mapping.path(), text))
        }
        _ => Ok(()),
    }
}

/// The end of the name of shard `number` (from 0).
fn shard_suffix(number: u32, count: u32) -> String {
    format!("-{:05}-of-{count:05}.gguf", u64::from(number) + 1)
}

fn problem(file: &Path, problem: String) -> GgufError {
    GgufError::Split { file: file.into(), problem }
}
