//! Repositories of GGUF files, and which of their files a name means.

use super::{Defaults, Found, Keeper};
use std::path::{Path, PathBuf};

/// Folders inside repositories that are looked into.
const DEPTH: usize = 3;

/// A name as a repository's: `[ORG/]REPO[:QUANT]`, `ORG/REPO/FILE.gguf` or a file's name alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted<'a> {
    /// Whose it is; none for anybody's.
    pub org: Option<&'a str>,
    /// The repository, or, without an organisation, a file.
    pub repo: &'a str,
    /// A quantisation.
    pub quant: Option<&'a str>,
    /// A file in it.
    pub file: Option<&'a str>,
}

impl<'a> Wanted<'a> {
    /// Reads a name.
    pub fn parse(text: &'a str) -> Option<Wanted<'a>> {
        let text = ["hf.co/", "huggingface.co/"].iter().find_map(|host| text.strip_prefix(host)).unwrap_or(text);
        let (name, quant) = match text.rsplit_once(':') {
            Some((name, quant)) => (name, Some(quant)),
            None => (text, None),
        };
        let mut parts = name.splitn(3, '/');
        let (first, second, file) = (parts.next()?, parts.next(), parts.next());
        let (org, repo) = match second {
            Some(repo) => (Some(first), repo),
            None => (None, first),
        };
        let whole = ![name, quant.unwrap_or("x"), file.unwrap_or("x")].contains(&"") && !repo.is_empty();
        (whole && !(quant.is_some() && file.is_some())).then_some(Wanted { org, repo, quant, file })
    }

    /// Whether this repository is meant. Hosts of repositories make no difference between upper and lower case.
    pub fn is_repository(&self, org: &str, repo: &str) -> bool {
        self.org.is_none_or(|wanted| wanted.eq_ignore_ascii_case(org)) && self.repo.eq_ignore_ascii_case(repo)
    }

    /// Whether a file of a repository that is meant is, by its path there.
    fn is_file(&self, path: &str) -> bool {
        match (self.file, self.quant) {
            (Some(file), _) => file == path || format!("{file}.gguf") == path,
            (None, Some(quant)) => has_quant(path, quant),
            (None, None) => true,
        }
    }

    /// As [`is_file`](Wanted::is_file), for a path whose slashes are underscores.
    pub fn is_flat_file(&self, name: &str) -> bool {
        match self.file {
            Some(file) => {
                let flat = file.replace('/', "_");
                flat == name || format!("{flat}.gguf") == name
            }
            None => self.is_file(name),
        }
    }

    /// Whether a file is meant by its own name, without a repository's.
    pub fn is_bare_file(&self, file: &str) -> bool {
        let name = file.rsplit('/').next().unwrap_or(file);
        let alone = self.org.is_none() && self.quant.is_none();
        alone && (self.repo == name || name.strip_suffix(".gguf") == Some(self.repo))
    }
}

/// Whether a file's name says this quantisation, as a part of its own: `Q4_K` is not in `Q4_K_M`, nor in `IQ4_K`.
fn has_quant(path: &str, quant: &str) -> bool {
    let (path, quant) = (path.to_ascii_uppercase(), quant.to_ascii_uppercase());
    let ends = |before: Option<char>, after: Option<char>| {
        before.is_none_or(|c| !c.is_ascii_alphanumeric())
            && after.is_none_or(|c| !c.is_ascii_alphanumeric() && c != '_')
    };
    path.match_indices(&quant)
        .any(|(at, _)| ends(path[..at].chars().next_back(), path[at + quant.len()..].chars().next()))
}

/// The files of a repository in `dir` that are meant; all of them where it is the repository that is not meant but a file
/// may be.
pub fn files(dir: &Path, org: &str, repo: &str, wanted: &Wanted, keeper: Keeper) -> Vec<Found> {
    let is_repository = wanted.is_repository(org, repo);
    let mut paths = Vec::new();
    if is_repository || (wanted.org.is_none() && wanted.quant.is_none()) {
        walk(dir, "", DEPTH, &mut paths);
    }
    paths.retain(|(path, _)| (is_repository && wanted.is_file(path)) || wanted.is_bare_file(path));
    let found = |(path, file)| Found {
        name: format!("{org}/{repo}/{path}"),
        path: file,
        keeper,
        defaults: Defaults::default(),
    };
    paths.into_iter().map(found).collect()
}

/// GGUF files that are models, or first parts of them, by their paths inside the folder, in order.
fn walk(dir: &Path, inside: &str, depth: usize, paths: &mut Vec<(String, PathBuf)>) {
    for (name, path) in entries(dir) {
        let inner = if inside.is_empty() { name.clone() } else { format!("{inside}/{name}") };
        if path.is_dir() {
            if depth > 0 {
                walk(&path, &inner, depth - 1, paths);
            }
        } else if is_model(&name) {
            paths.push((inner, path));
        }
    }
}

/// Whether a file's name is that of a model: not of a projector of images, nor of a later part of a split model.
pub fn is_model(name: &str) -> bool {
    let Some(stem) = name.strip_suffix(".gguf") else { return false };
    let later = stem.rsplit_once("-of-").and_then(|(rest, count)| {
        let number = rest.rsplit_once('-')?.1;
        let five = |t: &str| t.len() == 5 && t.bytes().all(|b| b.is_ascii_digit());
        (five(number) && five(count)).then_some(number != "00001")
    });
    !later.unwrap_or(false) && !stem.to_ascii_lowercase().contains("mmproj")
}

/// What is in a folder, by name and in order; nothing if it can't be read.
pub fn entries(dir: &Path) -> Vec<(String, PathBuf)> {
    let read = std::fs::read_dir(dir).into_iter().flatten().flatten();
    let mut all: Vec<_> = read.filter_map(|e| Some((e.file_name().into_string().ok()?, e.path()))).collect();
    all.sort();
    all
}
