//! Names of git objects.

use std::fmt;
use std::str::FromStr;

/// The name of a git object: the SHA-1 of its content, as git counts it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Oid([u8; 20]);

impl Oid {
    /// The name that stands for "none" in a compare and swap of a ref.
    pub const ZERO: Oid = Oid([0; 20]);

    /// The name with these bytes.
    pub const fn from_bytes(bytes: [u8; 20]) -> Self {
        Self(bytes)
    }

    /// Its bytes.
    pub const fn as_bytes(&self) -> &[u8; 20] {
        &self.0
    }
}

impl fmt::Display for Oid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Oid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A text that is not the name of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not the name of a git object")]
pub struct NoOid;

impl FromStr for Oid {
    type Err = NoOid;

    fn from_str(text: &str) -> Result<Self, NoOid> {
        let text = text.as_bytes();
        if text.len() != 40 {
            return Err(NoOid);
        }
        let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
        let mut bytes = [0; 20];
        for (byte, pair) in bytes.iter_mut().zip(text.chunks_exact(2)) {
            *byte = digit(pair[0]).ok_or(NoOid)? << 4 | digit(pair[1]).ok_or(NoOid)?;
        }
        Ok(Self(bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_read_as_it_is_written() {
        let text = "0123456789abcdef0123456789abcdef01234567";
        assert_eq!(text.parse::<Oid>().expect("a name").to_string(), text);
        for bad in ["", "0123", &text[1..], "g123456789abcdef0123456789abcdef01234567"] {
            assert!(bad.parse::<Oid>().is_err(), "{bad}");
        }
    }
}
