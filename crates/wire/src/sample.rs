//! Values for tests: any field of any message, out of a stream of bytes that proptest can shrink.

use crate::codec::{Layout, Uuid};
use crate::{ApiKey, ErrorCode};

/// A stream of choices. At its end every choice is 0, so that values become small when the stream is short.
pub(crate) struct Source<'a> {
    bytes: std::slice::Iter<'a, u8>,
    /// Whether every option is present and every list has two elements, whatever the stream says.
    full: bool,
}

impl<'a> Source<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self {
            bytes: bytes.iter(),
            full: false,
        }
    }

    #[cfg(test)]
    pub(crate) fn full() -> Self {
        Self {
            bytes: [].iter(),
            full: true,
        }
    }

    fn byte(&mut self) -> u8 {
        self.bytes
            .next()
            .copied()
            .unwrap_or(if self.full { 1 } else { 0 })
    }

    fn array<const N: usize>(&mut self) -> [u8; N] {
        std::array::from_fn(|_| self.byte())
    }

    fn present(&mut self) -> bool {
        self.full || self.byte() >= 64
    }

    fn count(&mut self) -> usize {
        if self.full {
            2
        } else {
            usize::from(self.byte() % 4)
        }
    }
}

pub(crate) trait Sample: Sized {
    fn sample(layout: Layout, source: &mut Source<'_>) -> Self;

    fn sample_required(layout: Layout, source: &mut Source<'_>) -> Self {
        Self::sample(layout, source)
    }
}

macro_rules! sample_number {
    ($($number:ty),*) => {$(
        impl Sample for $number {
            fn sample(_: Layout, source: &mut Source<'_>) -> Self {
                // Mostly small numbers, so that defaults and their neighbours are met.
                match source.byte() {
                    small @ 0..200 => Self::from_be_bytes(std::array::from_fn(|place| {
                        if place + 1 == size_of::<Self>() { small } else { 0 }
                    })),
                    _ => Self::from_be_bytes(source.array()),
                }
            }
        }
    )*};
}

sample_number!(i8, i16, i32, i64, u16, u32);

impl Sample for f64 {
    fn sample(layout: Layout, source: &mut Source<'_>) -> Self {
        f64::from(i32::sample(layout, source)) / 8.0
    }
}

impl Sample for bool {
    fn sample(_: Layout, source: &mut Source<'_>) -> Self {
        source.byte() % 2 == 1
    }
}

/// Texts that stand in many messages, so that one speaks of what another has made.
const NAMES: [&str; 8] = ["t", "u", "g", "m", "tx", "range", "uniform", "consumer"];

impl Sample for String {
    fn sample(_: Layout, source: &mut Source<'_>) -> Self {
        let length = if source.full { 3 } else { source.byte() };
        match NAMES.get(usize::from(length.wrapping_sub(128)) % (2 * NAMES.len())) {
            Some(name) if length >= 128 => (*name).to_owned(),
            _ => (0..length % 40).map(|_| char::from(source.byte())).collect(),
        }
    }
}

impl Sample for Vec<u8> {
    fn sample(layout: Layout, source: &mut Source<'_>) -> Self {
        String::sample(layout, source).into_bytes()
    }
}

impl Sample for Uuid {
    fn sample(_: Layout, source: &mut Source<'_>) -> Self {
        Self(source.array())
    }
}

impl Sample for ErrorCode {
    fn sample(layout: Layout, source: &mut Source<'_>) -> Self {
        Self(i16::sample(layout, source))
    }
}

impl Sample for ApiKey {
    fn sample(layout: Layout, source: &mut Source<'_>) -> Self {
        Self(i16::sample(layout, source))
    }
}

impl<T: Sample> Sample for Vec<T> {
    fn sample(layout: Layout, source: &mut Source<'_>) -> Self {
        (0..source.count()).map(|_| T::sample(layout, source)).collect()
    }
}

impl<T: Sample> Sample for Option<T> {
    fn sample(layout: Layout, source: &mut Source<'_>) -> Self {
        source.present().then(|| T::sample(layout, source))
    }

    fn sample_required(layout: Layout, source: &mut Source<'_>) -> Self {
        Some(T::sample(layout, source))
    }
}
