//! Jinja's filters of texts. They take any value for its text as Python's `str` has it, where minijinja's own want texts or
//! write values as JSON.

use minijinja::value::{Kwargs, Value};
use minijinja::{Environment, Error};

use super::python::to_str;

/// What stands before a word in `title`, besides white space.
const BEFORE_WORDS: [char; 5] = ['-', '(', '{', '[', '<'];

/// Adds the filters.
pub fn add(environment: &mut Environment<'static>) {
    environment.add_filter("string", |value: Value| to_str(&value));
    environment.add_filter("upper", |value: Value| Ok::<_, Error>(to_str(&value)?.to_uppercase()));
    environment.add_filter("lower", |value: Value| Ok::<_, Error>(to_str(&value)?.to_lowercase()));
    environment.add_filter("capitalize", |value: Value| Ok::<_, Error>(capital(&to_str(&value)?)));
    environment.add_filter("title", |value: Value| Ok::<_, Error>(title(&to_str(&value)?)));
    environment.add_filter("trim", trim);
    environment.add_filter("replace", replace);
    environment.add_filter("join", join);
}

fn capital(word: &str) -> String {
    let mut rest = word.chars();
    rest.next().map(|first| first.to_uppercase().chain(rest.flat_map(char::to_lowercase)).collect()).unwrap_or_default()
}

fn title(text: &str) -> String {
    let before = |c: char| c.is_whitespace() || BEFORE_WORDS.contains(&c);
    text.split_inclusive(before)
        .map(|word| match word.char_indices().next_back() {
            Some((at, c)) if before(c) => capital(&word[..at]) + &word[at..],
            _ => capital(word),
        })
        .collect()
}

fn trim(value: Value, chars: Option<String>) -> Result<String, Error> {
    let text = to_str(&value)?;
    Ok(match chars {
        Some(chars) => text.trim_matches(|c| chars.contains(c)).to_owned(),
        None => text.trim().to_owned(),
    })
}

fn replace(value: Value, old: Value, new: Value, count: Option<usize>) -> Result<String, Error> {
    let (text, old, new) = (to_str(&value)?, to_str(&old)?, to_str(&new)?);
    Ok(match count {
        Some(count) => text.replacen(&old, &new, count),
        None => text.replace(&old, &new),
    })
}

fn join(value: Value, between: Option<Value>, arguments: Kwargs) -> Result<String, Error> {
    let attribute: Option<Value> = arguments.get("attribute")?;
    let between = match between {
        Some(text) => to_str(&text)?,
        None => arguments.get::<Option<String>>("d")?.unwrap_or_default(),
    };
    arguments.assert_all_used()?;
    let text = |item: Value| match &attribute {
        Some(name) => to_str(&item.get_item(name)?),
        None => to_str(&item),
    };
    Ok(value.try_iter()?.map(text).collect::<Result<Vec<_>, _>>()?.join(&between))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Recorded with Jinja 3.1.6.
    #[test]
    fn values_are_taken_for_their_texts() {
        let mut environment = Environment::new();
        add(&mut environment);
        for (source, wanted) in [
            ("{{ 'it-is (a)b [c <d a_b\\tE' | title }}", "It-Is (A)b [C <D A_b\tE"),
            ("{{ [1, 'a', none] | join(',') }}", "1,a,None"),
            ("{{ [true, 1.0] | join }}", "True1.0"),
            ("{{ [{'a': 1}, {'a': none}] | join(',', attribute='a') }}", "1,None"),
            ("{{ none | upper }}{{ 5 | trim }}{{ none | lower }}{{ none | capitalize }}", "NONE5noneNone"),
            ("{{ none | replace('N', 'x') }}{{ x | trim }}{{ 'aaa' | replace('a', 'b', 2) }}", "xonebba"),
            ("{{ 'xaxx' | trim('x') }}{{ ['a'] | trim }}", "a['a']"),
            ("{{ 'ÉTÉ' | capitalize }}{{ '' | title }}", "Été"),
        ] {
            assert_eq!(environment.render_str(source, ()).unwrap(), wanted, "{source}");
        }
    }
}
