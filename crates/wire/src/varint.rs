//! Zig-zag and unsigned variable-length integers, as records and flexible messages use them.
//!
//! Every reader takes a slice and gives back the value with the number of bytes it took, or `None` when the bytes end
//! early or the number has more groups than its type can hold.

/// Appends `value` as an unsigned varint (7 bits a byte, least significant group first).
pub fn write_unsigned(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Appends `value` as a zig-zag varint.
pub fn write_signed(out: &mut Vec<u8>, value: i64) {
    write_unsigned(out, zigzag(value));
}

/// Maps small negative and small positive numbers to small unsigned ones.
pub fn zigzag(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)) as u64
}

fn unzigzag(value: u64) -> i64 {
    (value >> 1) as i64 ^ -((value & 1) as i64)
}

/// How many bytes `value` takes as an unsigned varint: 1 to 10.
pub fn unsigned_len(value: u64) -> usize {
    (64 - (value | 1).leading_zeros() as usize).div_ceil(7)
}

/// How many bytes `value` takes as a zig-zag varint.
pub fn signed_len(value: i64) -> usize {
    unsigned_len(zigzag(value))
}

/// Reads an unsigned varint of at most 32 bits (five groups).
pub fn read_u32(bytes: &[u8]) -> Option<(u32, usize)> {
    let (value, taken) = read_groups(bytes, 5)?;
    Some((u32::try_from(value).ok()?, taken))
}

/// Reads a zig-zag varint of at most 32 bits (five groups).
#[inline]
pub fn read_i32(bytes: &[u8]) -> Option<(i32, usize)> {
    // Lengths and deltas of small records take one or two bytes; those are worth a path of their own.
    if let [first, ..] = *bytes
        && first < 0x80
    {
        return Some((unzigzag(first.into()) as i32, 1));
    }
    let (value, taken) = read_groups(bytes, 5)?;
    Some((i32::try_from(unzigzag(value)).ok()?, taken))
}

/// Reads a zig-zag varint of at most 64 bits (ten groups).
#[inline]
pub fn read_i64(bytes: &[u8]) -> Option<(i64, usize)> {
    if let [first, ..] = *bytes
        && first < 0x80
    {
        return Some((unzigzag(first.into()), 1));
    }
    let (value, taken) = read_groups(bytes, 10)?;
    Some((unzigzag(value), taken))
}

fn read_groups(bytes: &[u8], most: usize) -> Option<(u64, usize)> {
    let mut value = 0u64;
    for (index, &byte) in bytes.iter().take(most).enumerate() {
        let group = u64::from(byte & 0x7f);
        // The tenth group has room for one bit only.
        if index == 9 && group > 1 {
            return None;
        }
        value |= group << (7 * index);
        if byte < 0x80 {
            return Some((value, index + 1));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn every_signed_number_reads_back(value: i64) {
            let mut out = Vec::new();
            write_signed(&mut out, value);
            prop_assert_eq!(out.len(), signed_len(value));
            prop_assert_eq!(read_i64(&out), Some((value, out.len())));
        }

        #[test]
        fn every_unsigned_32_bit_number_reads_back(value: u32) {
            let mut out = Vec::new();
            write_unsigned(&mut out, value.into());
            prop_assert_eq!(out.len(), unsigned_len(value.into()));
            prop_assert_eq!(read_u32(&out), Some((value, out.len())));
        }

        #[test]
        fn no_bytes_make_a_reader_panic(bytes: Vec<u8>) {
            let _ = (read_u32(&bytes), read_i32(&bytes), read_i64(&bytes));
        }
    }

    #[test]
    fn a_number_that_does_not_end_is_refused() {
        assert_eq!(read_i32(&[0x80; 6]), None);
        assert_eq!(read_i64(&[0xff; 11]), None);
        assert_eq!(read_u32(&[0xff, 0xff, 0xff, 0xff, 0x7f]), None);
    }
}
