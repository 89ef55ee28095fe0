//! How the fields of a message stand in bytes.
//!
//! [`Reader`] checks every bound: a count of elements is held against the bytes that are left before anything is reserved
//! for them. An empty string takes one byte on the wire and 24 in memory, and lists double as they grow, so a message may
//! take some fifty times the bytes that the peer has really sent, and never more.

use std::fmt;
use std::ops::RangeInclusive;

use crate::varint;

/// How many elements are reserved ahead at most, however many the peer announces.
const MOST_RESERVED_ELEMENTS: usize = 1024;

/// The longest string that Kafka's two-byte length can tell, in bytes.
const LONGEST_STRING_BYTES: usize = i16::MAX as usize;

/// The version of a message, and which of the two layouts it has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layout {
    /// The API's version (for embedded protocols: the version that stands in their first two bytes).
    pub version: i16,
    /// Whether strings and arrays are compact and structs end in tagged fields (KIP-482).
    pub flexible: bool,
}

impl Layout {
    /// The layout of `version` of a message whose versions are flexible from `flexible_from` on.
    pub const fn new(version: i16, flexible_from: Option<i16>) -> Self {
        let flexible = match flexible_from {
            Some(from) => version >= from,
            None => false,
        };
        Self { version, flexible }
    }

    /// The fewest bytes that a string's length takes.
    pub(crate) const fn string_length_bytes(self) -> usize {
        if self.flexible { 1 } else { 2 }
    }

    /// The fewest bytes that an array's count, or the length of bytes, takes.
    pub(crate) const fn count_bytes(self) -> usize {
        if self.flexible { 1 } else { 4 }
    }
}

/// What is wrong with bytes that were to be a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DecodeProblem {
    /// The bytes end before the value does.
    #[error("{needed} bytes are needed and {left} are left")]
    EndsEarly {
        /// Bytes that the value takes.
        needed: usize,
        /// Bytes that are left.
        left: usize,
    },
    /// An array announces more elements than the rest of the bytes can hold.
    #[error("{claimed} elements are announced, but only {left} bytes are left")]
    TooManyElements {
        /// Elements announced.
        claimed: usize,
        /// Bytes that are left.
        left: usize,
    },
    /// A length below −1.
    #[error("the length {0} is negative")]
    NegativeLength(i64),
    /// A null where the protocol allows none.
    #[error("null where a value is required")]
    UnexpectedNull,
    /// A string that is not UTF-8.
    #[error("the string is not UTF-8")]
    NotUtf8,
    /// A variable-length integer that does not end, or does not fit into 32 bits.
    #[error("the variable-length integer does not end or does not fit into 32 bits")]
    BadVarint,
    /// Bytes that remain after the value they belong to.
    #[error("{0} bytes are left over")]
    LeftOver(usize),
    /// A version that this message does not have.
    #[error("version {version} is not one of {oldest} to {newest}")]
    UnsupportedVersion {
        /// The version asked for.
        version: i16,
        /// The oldest version there is.
        oldest: i16,
        /// The newest version there is.
        newest: i16,
    },
}

/// Bytes that are not the message they were taken for: what is wrong, in which field, and where.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{field}, byte {offset_bytes}: {problem}")]
pub struct DecodeError {
    /// What is wrong.
    pub problem: DecodeProblem,
    /// Struct and field that was being read.
    pub field: &'static str,
    /// Distance from the start of the bytes that the [`Reader`] was made of, in bytes.
    pub offset_bytes: usize,
}

const NO_FIELD: &str = "message";

impl DecodeError {
    /// An error that stands at `offset_bytes`, in no field in particular.
    pub const fn new(problem: DecodeProblem, offset_bytes: usize) -> Self {
        Self {
            problem,
            field: NO_FIELD,
            offset_bytes,
        }
    }

    /// Names the field, unless one further inside has been named.
    pub fn in_field(mut self, field: &'static str) -> Self {
        if self.field == NO_FIELD {
            self.field = field;
        }
        self
    }
}

/// Reads values from bytes, and never beyond them.
#[derive(Debug, Clone)]
pub struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    /// A reader that stands at the first of `bytes`.
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    /// Where the next value starts, in bytes from the start.
    pub const fn position_bytes(&self) -> usize {
        self.at
    }

    /// How many bytes are left.
    pub const fn remaining_bytes(&self) -> usize {
        self.bytes.len() - self.at
    }

    /// All bytes that are left, without taking them.
    pub fn rest(&self) -> &'a [u8] {
        self.bytes.get(self.at..).unwrap_or_default()
    }

    /// An error at this position.
    pub const fn error(&self, problem: DecodeProblem) -> DecodeError {
        DecodeError::new(problem, self.at)
    }

    /// Takes the next `count` bytes.
    ///
    /// # Errors
    /// If fewer are left.
    #[inline]
    pub fn take(&mut self, count: usize) -> Result<&'a [u8], DecodeError> {
        match self
            .at
            .checked_add(count)
            .and_then(|end| self.bytes.get(self.at..end))
        {
            Some(taken) => {
                self.at += count;
                Ok(taken)
            }
            None => {
                let left = self.remaining_bytes();
                Err(self.error(DecodeProblem::EndsEarly { needed: count, left }))
            }
        }
    }

    #[inline]
    fn take_array<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        match self.rest().first_chunk::<N>() {
            Some(chunk) => {
                self.at += N;
                Ok(*chunk)
            }
            None => {
                let left = self.remaining_bytes();
                Err(self.error(DecodeProblem::EndsEarly { needed: N, left }))
            }
        }
    }

    /// Reads one byte as a signed number.
    ///
    /// # Errors
    /// If the bytes are at their end.
    pub fn read_i8(&mut self) -> Result<i8, DecodeError> {
        Ok(i8::from_be_bytes(self.take_array()?))
    }

    /// Reads a big-endian number of two bytes.
    ///
    /// # Errors
    /// If fewer bytes are left.
    pub fn read_i16(&mut self) -> Result<i16, DecodeError> {
        Ok(i16::from_be_bytes(self.take_array()?))
    }

    /// Reads a big-endian number of four bytes.
    ///
    /// # Errors
    /// If fewer bytes are left.
    pub fn read_i32(&mut self) -> Result<i32, DecodeError> {
        Ok(i32::from_be_bytes(self.take_array()?))
    }

    /// Reads a big-endian number of eight bytes.
    ///
    /// # Errors
    /// If fewer bytes are left.
    pub fn read_i64(&mut self) -> Result<i64, DecodeError> {
        Ok(i64::from_be_bytes(self.take_array()?))
    }

    /// Reads an unsigned variable-length integer of at most 32 bits.
    ///
    /// # Errors
    /// If it does not end within the bytes or is too large.
    pub fn read_unsigned(&mut self) -> Result<u32, DecodeError> {
        let (value, taken) =
            varint::read_u32(self.rest()).ok_or_else(|| self.error(DecodeProblem::BadVarint))?;
        self.at += taken;
        Ok(value)
    }

    /// Reads a length: `None` is null. Two bytes (`wide` false) or four in plain layouts, one varint in flexible ones.
    #[inline]
    fn read_length(&mut self, layout: Layout, wide: bool) -> Result<Option<usize>, DecodeError> {
        let start = self.at;
        let length = if layout.flexible {
            i64::from(self.read_unsigned()?) - 1
        } else if wide {
            self.read_i32()?.into()
        } else {
            self.read_i16()?.into()
        };
        match usize::try_from(length) {
            Ok(length) => Ok(Some(length)),
            Err(_) if length == -1 => Ok(None),
            Err(_) => Err(DecodeError::new(DecodeProblem::NegativeLength(length), start)),
        }
    }

    /// Reads a string that may be null, without a copy.
    ///
    /// # Errors
    /// If its length exceeds the bytes or it is not UTF-8.
    pub fn read_nullable_str(&mut self, layout: Layout) -> Result<Option<&'a str>, DecodeError> {
        let Some(length) = self.read_length(layout, false)? else {
            return Ok(None);
        };
        let start = self.at;
        let bytes = self.take(length)?;
        match std::str::from_utf8(bytes) {
            Ok(text) => Ok(Some(text)),
            Err(_) => Err(DecodeError::new(DecodeProblem::NotUtf8, start)),
        }
    }

    /// Reads a string that must not be null, without a copy.
    ///
    /// # Errors
    /// If it is null, its length exceeds the bytes, or it is not UTF-8.
    pub fn read_str(&mut self, layout: Layout) -> Result<&'a str, DecodeError> {
        let start = self.at;
        self.read_nullable_str(layout)?
            .ok_or(DecodeError::new(DecodeProblem::UnexpectedNull, start))
    }

    /// Reads bytes that may be null, without a copy.
    ///
    /// # Errors
    /// If their length exceeds what is left.
    pub fn read_nullable_bytes(&mut self, layout: Layout) -> Result<Option<&'a [u8]>, DecodeError> {
        match self.read_length(layout, true)? {
            Some(length) => Ok(Some(self.take(length)?)),
            None => Ok(None),
        }
    }

    /// Reads the count of an array that may be null, and holds it against the bytes that are left.
    ///
    /// # Errors
    /// If that many elements of at least `least_element_bytes` (0 is taken as 1) cannot be there.
    pub fn read_nullable_count(
        &mut self,
        layout: Layout,
        least_element_bytes: usize,
    ) -> Result<Option<usize>, DecodeError> {
        let start = self.at;
        let Some(claimed) = self.read_length(layout, true)? else {
            return Ok(None);
        };
        let left = self.remaining_bytes();
        if claimed > left / least_element_bytes.max(1) {
            return Err(DecodeError::new(
                DecodeProblem::TooManyElements { claimed, left },
                start,
            ));
        }
        Ok(Some(claimed))
    }

    /// As [`Reader::read_nullable_count`], for an array that must not be null.
    ///
    /// # Errors
    /// If it is null, or as there.
    pub fn read_count(&mut self, layout: Layout, least_element_bytes: usize) -> Result<usize, DecodeError> {
        let start = self.at;
        self.read_nullable_count(layout, least_element_bytes)?
            .ok_or(DecodeError::new(DecodeProblem::UnexpectedNull, start))
    }

    /// Reads the tagged fields at a struct's end; in plain layouts there are none and nothing is read.
    ///
    /// `each` gets the tag and a reader that ends with the field, and says whether it knows the tag. Fields with tags
    /// that are not known are passed over.
    ///
    /// # Errors
    /// If a field's size exceeds the bytes, or `each` fails or leaves bytes of a field that it knows.
    pub fn read_tagged(
        &mut self,
        layout: Layout,
        mut each: impl FnMut(u32, &mut Reader<'a>) -> Result<bool, DecodeError>,
    ) -> Result<(), DecodeError> {
        if !layout.flexible {
            return Ok(());
        }
        // No memory is taken per field, and each takes two bytes at least, so the count needs no check of its own.
        for _ in 0..self.read_unsigned()? {
            let tag = self.read_unsigned()?;
            let size = self.read_unsigned()? as usize;
            let start = self.at;
            self.take(size)?;
            let mut field = Reader {
                bytes: self.bytes.get(..self.at).unwrap_or_default(),
                at: start,
            };
            if each(tag, &mut field)? && field.remaining_bytes() > 0 {
                return Err(field.error(DecodeProblem::LeftOver(field.remaining_bytes())));
            }
        }
        Ok(())
    }

    /// Passes over the tagged fields at a struct's end.
    ///
    /// # Errors
    /// If a field's size exceeds the bytes.
    pub fn skip_tagged(&mut self, layout: Layout) -> Result<(), DecodeError> {
        self.read_tagged(layout, |_, _| Ok(false))
    }

    /// Says that the message ends here.
    ///
    /// # Errors
    /// If bytes are left.
    pub fn finish(&self) -> Result<(), DecodeError> {
        match self.remaining_bytes() {
            0 => Ok(()),
            left => Err(self.error(DecodeProblem::LeftOver(left))),
        }
    }
}

/// Appends values to a buffer.
#[derive(Debug)]
pub struct Writer<'a> {
    out: &'a mut Vec<u8>,
    throttle_time_at: Option<usize>,
    #[cfg(test)]
    pub(crate) lengths: Vec<LengthAt>,
}

/// Where a length or a count was written; the hostile tests put false ones there.
#[cfg(test)]
#[derive(Debug, Clone, Copy)]
pub(crate) struct LengthAt {
    pub(crate) start: usize,
    pub(crate) end: usize,
}

impl<'a> Writer<'a> {
    /// A writer that appends to `out`.
    pub const fn new(out: &'a mut Vec<u8>) -> Self {
        Self {
            out,
            throttle_time_at: None,
            #[cfg(test)]
            lengths: Vec::new(),
        }
    }

    /// How many bytes the buffer holds, those that it held before among them.
    pub fn position_bytes(&self) -> usize {
        self.out.len()
    }

    /// Says that the next value is a message's `throttle_time_ms`.
    pub(crate) fn note_throttle_time(&mut self) {
        self.throttle_time_at = Some(self.out.len());
    }

    /// Where in the buffer the `throttle_time_ms` of the message stands that was written, if it has one.
    pub(crate) const fn throttle_time_at(&self) -> Option<usize> {
        self.throttle_time_at
    }

    /// Appends raw bytes.
    pub fn put(&mut self, bytes: &[u8]) {
        self.out.extend_from_slice(bytes);
    }

    /// Appends a number of one byte.
    pub fn put_i8(&mut self, value: i8) {
        self.put(&value.to_be_bytes());
    }

    /// Appends a big-endian number of two bytes.
    pub fn put_i16(&mut self, value: i16) {
        self.put(&value.to_be_bytes());
    }

    /// Appends a big-endian number of four bytes.
    pub fn put_i32(&mut self, value: i32) {
        self.put(&value.to_be_bytes());
    }

    /// Appends a big-endian number of eight bytes.
    pub fn put_i64(&mut self, value: i64) {
        self.put(&value.to_be_bytes());
    }

    /// Appends an unsigned variable-length integer.
    pub fn put_unsigned(&mut self, value: u64) {
        varint::write_unsigned(self.out, value);
    }

    /// Appends a length of two bytes (`wide` false) or four, or a varint in flexible layouts; `None` is null.
    fn put_length(&mut self, layout: Layout, length: Option<usize>, wide: bool) {
        #[cfg(test)]
        let start = self.out.len();
        if layout.flexible {
            self.put_unsigned(length.map_or(0, |length| length as u64 + 1));
        } else if wide {
            self.put_i32(length.map_or(-1, |length| i32::try_from(length).unwrap_or(i32::MAX)));
        } else {
            self.put_i16(length.map_or(-1, |length| i16::try_from(length).unwrap_or(i16::MAX)));
        }
        #[cfg(test)]
        self.lengths.push(LengthAt {
            start,
            end: self.out.len(),
        });
    }

    /// Appends a string or null. Kafka knows no strings beyond 32767 bytes: a longer one is cut, at a character's border.
    pub fn put_nullable_str(&mut self, layout: Layout, text: Option<&str>) {
        let text = text.map(cut_to_longest);
        self.put_length(layout, text.map(str::len), false);
        self.put(text.unwrap_or_default().as_bytes());
    }

    /// Appends a string, as [`Writer::put_nullable_str`] does.
    pub fn put_str(&mut self, layout: Layout, text: &str) {
        self.put_nullable_str(layout, Some(text));
    }

    /// Appends the length of bytes that follow, or null.
    pub fn put_bytes_length(&mut self, layout: Layout, length: Option<usize>) {
        self.put_length(layout, length, true);
    }

    /// Appends bytes with their length, or null.
    pub fn put_nullable_bytes(&mut self, layout: Layout, bytes: Option<&[u8]>) {
        self.put_length(layout, bytes.map(<[u8]>::len), true);
        self.put(bytes.unwrap_or_default());
    }

    /// Appends the count of an array's elements, or null.
    pub fn put_count(&mut self, layout: Layout, count: Option<usize>) {
        self.put_length(layout, count, true);
    }

    /// Appends one tagged field: tag, size, and what `write` appends.
    pub fn put_tagged(&mut self, tag: u32, write: impl FnOnce(&mut Writer<'_>)) {
        let mut field = Vec::new();
        let mut inner = Writer::new(&mut field);
        write(&mut inner);
        #[cfg(test)]
        let lengths = inner.lengths;
        self.put_unsigned(tag.into());
        self.put_unsigned(field.len() as u64);
        #[cfg(test)]
        let start = self.out.len();
        self.put(&field);
        #[cfg(test)]
        self.lengths.extend(lengths.iter().map(|at| LengthAt {
            start: at.start + start,
            end: at.end + start,
        }));
    }

    /// Appends an empty list of tagged fields; nothing in plain layouts.
    pub fn put_no_tagged(&mut self, layout: Layout) {
        if layout.flexible {
            self.put_unsigned(0);
        }
    }
}

/// The start of `text` that the protocol has room for, cut between characters.
fn cut_to_longest(text: &str) -> &str {
    let mut end = text.len().min(LONGEST_STRING_BYTES);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

/// A type that fields of messages have.
pub trait Field: Sized {
    /// Appends the value.
    fn write(&self, layout: Layout, out: &mut Writer<'_>);

    /// Reads a value.
    ///
    /// # Errors
    /// If the bytes are not one.
    fn read(layout: Layout, input: &mut Reader<'_>) -> Result<Self, DecodeError>;

    /// The fewest bytes that a value takes, against which announced counts are held.
    fn least_bytes(layout: Layout) -> usize;

    /// Appends the value in a version that knows no null: for a null the type's empty value is written.
    fn write_required(&self, layout: Layout, out: &mut Writer<'_>) {
        self.write(layout, out);
    }

    /// Reads a value in a version that knows no null.
    ///
    /// # Errors
    /// If the bytes are not one, or are null.
    fn read_required(layout: Layout, input: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Self::read(layout, input)
    }
}

/// A [`Field`] that has a null.
pub trait Nullable: Field + Default {
    /// Appends a null.
    fn write_null(layout: Layout, out: &mut Writer<'_>);

    /// Reads a value or a null.
    ///
    /// # Errors
    /// If the bytes are neither.
    fn read_nullable(layout: Layout, input: &mut Reader<'_>) -> Result<Option<Self>, DecodeError>;

    /// Appends a value, in the form that it has where it might have been null.
    fn write_present(&self, layout: Layout, out: &mut Writer<'_>) {
        self.write(layout, out);
    }
}

impl<T: Nullable> Field for Option<T> {
    fn write(&self, layout: Layout, out: &mut Writer<'_>) {
        match self {
            Some(value) => value.write_present(layout, out),
            None => T::write_null(layout, out),
        }
    }

    fn read(layout: Layout, input: &mut Reader<'_>) -> Result<Self, DecodeError> {
        T::read_nullable(layout, input)
    }

    fn least_bytes(_: Layout) -> usize {
        1
    }

    fn write_required(&self, layout: Layout, out: &mut Writer<'_>) {
        match self {
            Some(value) => value.write(layout, out),
            None => T::default().write(layout, out),
        }
    }

    fn read_required(layout: Layout, input: &mut Reader<'_>) -> Result<Self, DecodeError> {
        T::read(layout, input).map(Some)
    }
}

/// Implements [`Field`] for numbers of fixed width.
macro_rules! number_field {
    ($($number:ty),*) => {$(
        impl Field for $number {
            fn write(&self, _: Layout, out: &mut Writer<'_>) {
                out.put(&self.to_be_bytes());
            }

            fn read(_: Layout, input: &mut Reader<'_>) -> Result<Self, DecodeError> {
                Ok(Self::from_be_bytes(input.take_array()?))
            }

            fn least_bytes(_: Layout) -> usize {
                size_of::<Self>()
            }
        }
    )*};
}

number_field!(i8, i16, i32, i64, u16, u32, f64);

impl Field for bool {
    fn write(&self, _: Layout, out: &mut Writer<'_>) {
        out.put_i8((*self).into());
    }

    fn read(_: Layout, input: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(input.read_i8()? != 0)
    }

    fn least_bytes(_: Layout) -> usize {
        1
    }
}

impl Field for String {
    fn write(&self, layout: Layout, out: &mut Writer<'_>) {
        out.put_str(layout, self);
    }

    fn read(layout: Layout, input: &mut Reader<'_>) -> Result<Self, DecodeError> {
        input.read_str(layout).map(str::to_owned)
    }

    fn least_bytes(layout: Layout) -> usize {
        layout.string_length_bytes()
    }
}

impl Nullable for String {
    fn write_null(layout: Layout, out: &mut Writer<'_>) {
        out.put_nullable_str(layout, None);
    }

    fn read_nullable(layout: Layout, input: &mut Reader<'_>) -> Result<Option<Self>, DecodeError> {
        Ok(input.read_nullable_str(layout)?.map(str::to_owned))
    }
}

impl Field for Vec<u8> {
    fn write(&self, layout: Layout, out: &mut Writer<'_>) {
        out.put_nullable_bytes(layout, Some(self));
    }

    fn read(layout: Layout, input: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let start = input.position_bytes();
        let bytes = input.read_nullable_bytes(layout)?;
        bytes
            .map(<[u8]>::to_vec)
            .ok_or(DecodeError::new(DecodeProblem::UnexpectedNull, start))
    }

    fn least_bytes(layout: Layout) -> usize {
        layout.count_bytes()
    }
}

impl Nullable for Vec<u8> {
    fn write_null(layout: Layout, out: &mut Writer<'_>) {
        out.put_nullable_bytes(layout, None);
    }

    fn read_nullable(layout: Layout, input: &mut Reader<'_>) -> Result<Option<Self>, DecodeError> {
        Ok(input.read_nullable_bytes(layout)?.map(<[u8]>::to_vec))
    }
}

fn read_elements<T: Field>(
    layout: Layout,
    count: usize,
    input: &mut Reader<'_>,
) -> Result<Vec<T>, DecodeError> {
    let mut elements = Vec::with_capacity(count.min(MOST_RESERVED_ELEMENTS));
    for _ in 0..count {
        elements.push(T::read(layout, input)?);
    }
    Ok(elements)
}

impl<T: Field> Field for Vec<T> {
    fn write(&self, layout: Layout, out: &mut Writer<'_>) {
        out.put_count(layout, Some(self.len()));
        for element in self {
            element.write(layout, out);
        }
    }

    fn read(layout: Layout, input: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let count = input.read_count(layout, T::least_bytes(layout))?;
        read_elements(layout, count, input)
    }

    fn least_bytes(layout: Layout) -> usize {
        layout.count_bytes()
    }
}

impl<T: Field> Nullable for Vec<T> {
    fn write_null(layout: Layout, out: &mut Writer<'_>) {
        out.put_count(layout, None);
    }

    fn read_nullable(layout: Layout, input: &mut Reader<'_>) -> Result<Option<Self>, DecodeError> {
        match input.read_nullable_count(layout, T::least_bytes(layout))? {
            Some(count) => read_elements(layout, count, input).map(Some),
            None => Ok(None),
        }
    }
}

/// A universally unique identifier, as topics and log directories have.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Uuid(pub [u8; 16]);

impl Uuid {
    /// The identifier that means "none".
    pub const ZERO: Self = Self([0; 16]);

    /// Whether this is the identifier that means "none".
    pub fn is_zero(&self) -> bool {
        *self == Self::ZERO
    }
}

impl fmt::Display for Uuid {
    /// URL-safe base64 without padding, which is how Kafka's own tools print identifiers.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
        let bits = u128::from_be_bytes(self.0);
        // 22 characters of 6 bits are 132 bits; the last four of them are zeros behind the number.
        for place in 0..22 {
            let shift = 122 - 6 * place;
            let six = if shift >= 0 { bits >> shift } else { bits << -shift } & 0x3f;
            write!(f, "{}", char::from(ALPHABET[six as usize]))?;
        }
        Ok(())
    }
}

impl fmt::Debug for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Field for Uuid {
    fn write(&self, _: Layout, out: &mut Writer<'_>) {
        out.put(&self.0);
    }

    fn read(_: Layout, input: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self(input.take_array()?))
    }

    fn least_bytes(_: Layout) -> usize {
        16
    }
}

/// A message of the protocol: a request or response without its header, or an embedded protocol.
pub trait Message: Field + Default + fmt::Debug + Clone + PartialEq {
    /// The versions that can be encoded and decoded.
    const VERSIONS: RangeInclusive<i16>;
    /// From which version on the layout is flexible; `None` if it never is.
    const FLEXIBLE_FROM: Option<i16>;

    /// Appends the message. Fields that `version` does not have are left out.
    fn encode(&self, version: i16, out: &mut Vec<u8>) {
        self.write(Layout::new(version, Self::FLEXIBLE_FROM), &mut Writer::new(out));
    }

    /// Reads the message; fields that `version` does not have get their default.
    ///
    /// Bytes after the message are left in `input`: see [`Reader::finish`].
    ///
    /// # Errors
    /// If the bytes are not such a message, or `version` is not among [`Message::VERSIONS`].
    fn decode(version: i16, input: &mut Reader<'_>) -> Result<Self, DecodeError> {
        if !Self::VERSIONS.contains(&version) {
            let (oldest, newest) = (*Self::VERSIONS.start(), *Self::VERSIONS.end());
            return Err(input.error(DecodeProblem::UnsupportedVersion {
                version,
                oldest,
                newest,
            }));
        }
        Self::read(Layout::new(version, Self::FLEXIBLE_FROM), input)
    }
}

/// A request, which says what answers it.
pub trait Request: Message {
    /// What answers it.
    type Response: Message;
    /// Its API.
    const KEY: crate::ApiKey;
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: Layout = Layout {
        version: 0,
        flexible: false,
    };
    const FLEXIBLE: Layout = Layout {
        version: 0,
        flexible: true,
    };

    fn check<T: Field + PartialEq + fmt::Debug>(layout: Layout, value: T, bytes: &[u8]) {
        let mut out = Vec::new();
        value.write(layout, &mut Writer::new(&mut out));
        assert_eq!(out, bytes);
        let mut reader = Reader::new(bytes);
        assert_eq!(T::read(layout, &mut reader), Ok(value));
        assert_eq!(reader.finish(), Ok(()));
    }

    #[test]
    fn values_stand_in_bytes_as_the_protocol_says() {
        check(PLAIN, "ab".to_owned(), &[0, 2, b'a', b'b']);
        check(FLEXIBLE, "ab".to_owned(), &[3, b'a', b'b']);
        check(PLAIN, None::<String>, &[0xff, 0xff]);
        check(FLEXIBLE, None::<String>, &[0]);
        check(
            PLAIN,
            vec![1i32, -1],
            &[0, 0, 0, 2, 0, 0, 0, 1, 0xff, 0xff, 0xff, 0xff],
        );
        check(FLEXIBLE, vec![7i8], &[2, 7]);
        check(PLAIN, None::<Vec<i8>>, &[0xff; 4]);
        check(FLEXIBLE, Some(Vec::<i8>::new()), &[1]);
        check(PLAIN, vec![9u8, 8], &[0, 0, 0, 2, 9, 8]);
        check(FLEXIBLE, Some(vec![9u8]), &[2, 9]);
        check(PLAIN, true, &[1]);
        check(PLAIN, 1.5f64, &[0x3f, 0xf8, 0, 0, 0, 0, 0, 0]);
    }

    #[test]
    fn identifiers_print_as_the_tools_print_them() {
        assert_eq!(Uuid::ZERO.to_string(), "AAAAAAAAAAAAAAAAAAAAAA");
        assert_eq!(Uuid([0xff; 16]).to_string(), "_____________________w");
        let counted = Uuid(std::array::from_fn(|index| index as u8));
        assert_eq!(counted.to_string(), "AAECAwQFBgcICQoLDA0ODw");
    }

    #[test]
    fn a_string_that_is_too_long_is_cut_between_characters() {
        let mut out = Vec::new();
        Writer::new(&mut out).put_str(PLAIN, &"é".repeat(20_000));
        assert_eq!(out.len(), 2 + 32_766);
        assert_eq!(Reader::new(&out).read_str(PLAIN).map(str::len), Ok(32_766));
    }

    #[test]
    fn errors_say_what_and_where() {
        let error = Reader::new(&[0, 5, b'a']).read_str(PLAIN).unwrap_err();
        assert_eq!(
            error.to_string(),
            "message, byte 2: 5 bytes are needed and 1 are left"
        );
        let error = Vec::<i64>::read(PLAIN, &mut Reader::new(&[0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0]));
        let problem = DecodeProblem::TooManyElements { claimed: 2, left: 8 };
        assert_eq!(error, Err(DecodeError::new(problem, 0)));
        assert_eq!(
            Reader::new(&[0xff, 0xfe]).read_nullable_str(PLAIN),
            Err(DecodeError::new(DecodeProblem::NegativeLength(-2), 0))
        );
        assert_eq!(
            Reader::new(&[0]).read_str(FLEXIBLE),
            Err(DecodeError::new(DecodeProblem::UnexpectedNull, 0))
        );
    }

    #[test]
    fn tagged_fields_that_are_not_known_are_passed_over() {
        let bytes = [2, 0, 1, 9, 5, 2, 1, 2, 0xaa];
        let mut reader = Reader::new(&bytes);
        let mut seen = Vec::new();
        reader
            .read_tagged(FLEXIBLE, |tag, field| {
                seen.push((tag, field.rest().len()));
                Ok(false)
            })
            .unwrap();
        assert_eq!(seen, [(0, 1), (5, 2)]);
        assert_eq!(reader.rest(), [0xaa]);
    }
}
