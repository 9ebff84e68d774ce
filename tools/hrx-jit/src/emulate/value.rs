//! Arguments of a kernel, as command lines have them.

use crate::input::bytes_of;
use gfx_emu::Random;
use half::f16;
use hrx::compiler::hsaco::Argument;
use std::path::PathBuf;

/// What an argument is given.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// These bytes.
    Plain(Vec<u8>),
    /// The address of a buffer.
    Buffer(Content),
}

/// What a buffer holds.
#[derive(Clone, Debug, PartialEq)]
pub enum Content {
    /// Nothing yet.
    Room(usize),
    Zeros(usize),
    Random(usize),
    F32s(usize),
    F16s(usize),
    File(PathBuf),
}

/// A buffer: its bytes, if it is written before the launch.
pub struct Buffer {
    pub len: usize,
    pub bytes: Option<Vec<u8>>,
}

/// The most bytes of a buffer.
const MOST: usize = 1 << 34;

impl Value {
    /// From `kind:what`.
    pub fn parse(text: &str) -> Result<Value, String> {
        let (kind, what) =
            text.split_once(':').ok_or("an argument is a kind and a value, as in i32:5 or zeros:4096")?;
        fn number<T: std::str::FromStr>(kind: &str, what: &str) -> Result<T, String> {
            what.parse().map_err(|_| format!("{what:?} is no {kind}"))
        }
        // Both signs, as sources have them.
        let int = |bits: u32| {
            let n: i128 = number(kind, what)?;
            let fits = n >= -(1 << (bits - 1)) && n < 1 << bits;
            let bytes = n.to_le_bytes()[..bits as usize / 8].to_vec();
            if fits { Ok(Value::Plain(bytes)) } else { Err(format!("{what} has more than {bits} bits")) }
        };
        let size = || {
            number::<usize>("number of bytes or elements", what)
                .and_then(|n| if n <= MOST { Ok(n) } else { Err(format!("{n} is more than {MOST}")) })
        };
        Ok(match kind {
            "i8" => int(8)?,
            "i16" => int(16)?,
            "i32" => int(32)?,
            "i64" => int(64)?,
            "f16" => Value::Plain(f16::from_f32(number(kind, what)?).to_le_bytes().to_vec()),
            "f32" => Value::Plain(number::<f32>(kind, what)?.to_le_bytes().to_vec()),
            "f64" => Value::Plain(number::<f64>(kind, what)?.to_le_bytes().to_vec()),
            "bytes" => Value::Plain(hex(what)?),
            "room" => Value::Buffer(Content::Room(size()?)),
            "zeros" => Value::Buffer(Content::Zeros(size()?)),
            "random" => Value::Buffer(Content::Random(size()?)),
            "f32s" => Value::Buffer(Content::F32s(size()?)),
            "f16s" => Value::Buffer(Content::F16s(size()?)),
            "file" => Value::Buffer(Content::File(what.into())),
            _ => return Err(format!("{kind:?} is no kind of argument")),
        })
    }

    /// The bytes of what is passed by value; none of a buffer.
    pub fn by_value(&self) -> Vec<u8> {
        match self {
            Value::Plain(bytes) => bytes.clone(),
            Value::Buffer(_) => Vec::new(),
        }
    }

    /// The buffer; none if it is passed by value.
    ///
    /// # Errors
    /// A file that can't be read.
    pub fn buffer(&self, seed: u64) -> Result<Option<Buffer>, String> {
        let Value::Buffer(content) = self else { return Ok(None) };
        let mut random = Random::new(seed);
        let bytes = match content {
            Content::Room(len) => return Ok(Some(Buffer { len: *len, bytes: None })),
            Content::Zeros(n) => vec![0; *n],
            Content::Random(n) => (0..*n).map(|_| random.bits() as u8).collect(),
            Content::F32s(n) => (0..*n).flat_map(|_| random.signed().to_le_bytes()).collect(),
            Content::F16s(n) => (0..*n).flat_map(|_| f16::from_f32(random.signed()).to_le_bytes()).collect(),
            Content::File(path) => bytes_of(path)?,
        };
        Ok(Some(Buffer { len: bytes.len(), bytes: Some(bytes) }))
    }
}

/// What a kernel says of an argument.
pub fn described(argument: &Argument) -> String {
    let kind = argument.value_kind.as_deref().unwrap_or("an argument");
    let size = argument.size.map_or(String::new(), |n| format!(" of {n} bytes"));
    let name = argument.name.as_ref().map_or(String::new(), |n| format!(" ({n})"));
    format!("{kind}{size}{name}")
}

fn hex(text: &str) -> Result<Vec<u8>, String> {
    let digit = |c: u8| (c as char).to_digit(16).ok_or_else(|| format!("{text:?} is not hexadecimal"));
    if !text.len().is_multiple_of(2) {
        return Err(format!("{text:?} has half a byte"));
    }
    text.as_bytes().chunks_exact(2).map(|pair| Ok((digit(pair[0])? << 4 | digit(pair[1])?) as u8)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_what_they_say() {
        let plain = |text| Value::parse(text).expect(text).by_value();
        assert_eq!(plain("i32:-2"), [0xfe, 0xff, 0xff, 0xff]);
        assert_eq!(plain("i8:255"), [255]);
        assert_eq!(plain("f32:1.5"), 1.5_f32.to_le_bytes());
        assert_eq!(plain("f16:-1"), [0, 0xbc]);
        assert_eq!(plain("bytes:0a0B"), [10, 11]);
        let wrong = [
            "5",
            "i32:x",
            "i8:256",
            "i32:-2147483649",
            "bytes:abc",
            "bytes:0g",
            "zeros:-1",
            "room:99999999999",
            "q4:3",
        ];
        for text in wrong {
            assert!(Value::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn buffers_have_the_bytes_they_say() {
        let buffer = |text| Value::parse(text).expect(text).buffer(7).expect(text).expect("a buffer");
        assert!(buffer("room:64").bytes.is_none() && buffer("room:64").len == 64);
        assert_eq!(buffer("zeros:3").bytes, Some(vec![0; 3]));
        let numbers = buffer("f32s:100").bytes.expect("numbers");
        let numbers: Vec<f32> = numbers.chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect();
        assert!(numbers.len() == 100 && numbers.iter().all(|x| (-1.0..1.0).contains(x)));
        assert!(numbers.iter().any(|x| *x < -0.5) && numbers.iter().any(|x| *x > 0.5));
        assert!(Value::parse("file:/nonexistent").expect("a path").buffer(0).is_err());
    }
}
