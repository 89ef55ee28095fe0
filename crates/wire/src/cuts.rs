//! Frames whose records stay where they are.
//!
//! The bytes around the records of a frame are written into one buffer, and the places where records belong are given as
//! cuts: positions in that buffer. What is sent is the buffer up to the first cut, the first records, the buffer up to
//! the second cut, and so on; the bytes after the last cut come last.

/// The pieces of a frame in the order in which they are sent: `frame` cut at `cuts`, with one of `records` at each cut.
///
/// Pieces may be empty. Cuts must ascend, as the encoders make them.
pub fn pieces<'a>(
    frame: &'a [u8],
    cuts: &'a [usize],
    records: impl IntoIterator<Item = &'a [u8]>,
) -> impl Iterator<Item = &'a [u8]> {
    let starts = std::iter::once(0).chain(cuts.iter().copied());
    let heads = starts
        .zip(cuts)
        .map(|(start, &end)| frame.get(start..end).unwrap_or_default());
    let tail = frame.get(cuts.last().copied().unwrap_or(0)..).unwrap_or_default();
    heads
        .zip(records)
        .flat_map(|(head, records)| [head, records])
        .chain([tail])
}
