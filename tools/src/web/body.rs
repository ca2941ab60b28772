//! The bytes of an answer, unpacked as they come and bounded at every step: a small answer may be meant to become a huge one.

use std::io::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};

use brotli_decompressor::DecompressorWriter;
use flate2::write::{DeflateDecoder, MultiGzDecoder, ZlibDecoder};

/// So much may be unpacked before the ratio counts: short answers of blanks or tables pack very well.
const RATIO_FREE_BYTES: usize = 256 << 10;

/// Why the bytes of an answer are not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Excess {
    /// It has more bytes than are taken, packed or unpacked.
    #[error("it has more than {most} bytes")]
    Bytes {
        /// The most that are taken.
        most: usize,
    },
    /// It grows more by being unpacked than any page does.
    #[error("it decompresses to more than {most} times its size")]
    Ratio {
        /// The most that is taken.
        most: usize,
    },
    /// It is packed in a way that is not read.
    #[error("its compression is not supported; expected gzip, deflate or br, applied once")]
    Packing,
    /// Compressed data that cannot be unpacked.
    #[error("it cannot be decompressed")]
    Broken,
}

/// The bytes of an answer so far.
pub(super) struct Body {
    unpacked: Arc<Mutex<Unpacked>>,
    unpacker: Unpacker,
}

enum Unpacker {
    /// Not packed.
    Plain(Bounded),
    /// Zlib or bare deflate, which servers confuse: the first byte decides.
    Deflate(Option<Bounded>),
    /// Begun.
    Running(Box<dyn Write + Send>),
}

#[derive(Debug, Default)]
struct Unpacked {
    bytes: Vec<u8>,
    packed: usize,
    excess: Option<Excess>,
}

/// Receives unpacked bytes, up to a limit.
struct Bounded {
    unpacked: Arc<Mutex<Unpacked>>,
    most: usize,
    ratio: usize,
}

impl Body {
    /// Returns an empty body with the compression in the header `Content-Encoding`, of at most `most` bytes.
    pub(super) fn new(encoding: &str, most: usize, ratio: usize) -> Result<Self, Excess> {
        let unpacked = Arc::new(Mutex::default());
        let bounded = Bounded { unpacked: Arc::clone(&unpacked), most, ratio };
        let unpacker = match encoding.trim().to_ascii_lowercase().as_str() {
            "" | "identity" => Unpacker::Plain(bounded),
            "gzip" | "x-gzip" => Unpacker::Running(Box::new(MultiGzDecoder::new(bounded))),
            "deflate" => Unpacker::Deflate(Some(bounded)),
            "br" => Unpacker::Running(Box::new(DecompressorWriter::new(bounded, 4_096))),
            // Two layers are a bomb's way to pass a ratio.
            _ => return Err(Excess::Packing),
        };
        Ok(Self { unpacked, unpacker })
    }

    /// Takes the next bytes as they came.
    pub(super) fn push(&mut self, chunk: &[u8]) -> Result<(), Excess> {
        let Some(first) = chunk.first() else { return Ok(()) };
        self.lock().packed += chunk.len();
        if let Unpacker::Deflate(bounded) = &mut self.unpacker
            && let Some(bounded) = bounded.take()
        {
            // RFC 1950: the method 8 in the low bits, a window of at most 32 KiB in the high ones.
            let is_zlib = first & 0x8f == 0x08;
            self.unpacker = Unpacker::Running(if is_zlib {
                Box::new(ZlibDecoder::new(bounded))
            } else {
                Box::new(DeflateDecoder::new(bounded))
            });
        }
        let written = match &mut self.unpacker {
            Unpacker::Plain(bounded) => bounded.write_all(chunk),
            Unpacker::Running(unpacker) => unpacker.write_all(chunk).and_then(|()| unpacker.flush()),
            Unpacker::Deflate(_) => Ok(()),
        };
        let excess = self.lock().excess;
        excess.map_or_else(|| written.map_err(|_| Excess::Broken), Err)
    }

    /// Returns all bytes.
    pub(super) fn finish(self) -> Vec<u8> {
        // The unpacker may hold back the last bytes until it goes.
        drop(self.unpacker);
        std::mem::take(&mut self.unpacked.lock().unwrap_or_else(PoisonError::into_inner).bytes)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Unpacked> {
        self.unpacked.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut unpacked = self.unpacked.lock().unwrap_or_else(PoisonError::into_inner);
        let size = unpacked.bytes.len() + bytes.len();
        if size > self.most {
            unpacked.excess = Some(Excess::Bytes { most: self.most });
        } else if size > RATIO_FREE_BYTES && size / self.ratio > unpacked.packed {
            unpacked.excess = Some(Excess::Ratio { most: self.ratio });
        }
        if unpacked.excess.is_some() {
            return Err(io::ErrorKind::StorageFull.into());
        }
        unpacked.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use flate2::Compression;
    use flate2::write::{DeflateEncoder, GzEncoder, ZlibEncoder};

    use super::*;

    fn unpack(encoding: &str, packed: &[u8], most: usize, ratio: usize, piece: usize) -> Result<Vec<u8>, Excess> {
        let mut body = Body::new(encoding, most, ratio)?;
        for chunk in packed.chunks(piece) {
            body.push(chunk)?;
        }
        Ok(body.finish())
    }

    #[test]
    fn what_is_packed_comes_out_whole_however_it_is_cut() {
        let text = "A page of words. ".repeat(5_000).into_bytes();
        let mut gzip = GzEncoder::new(Vec::new(), Compression::default());
        let mut zlib = ZlibEncoder::new(Vec::new(), Compression::default());
        let mut bare = DeflateEncoder::new(Vec::new(), Compression::default());
        for encoder in [&mut gzip as &mut dyn Write, &mut zlib, &mut bare] {
            encoder.write_all(&text).unwrap();
        }
        let packed = [
            ("gzip", gzip.finish().unwrap()),
            ("deflate", zlib.finish().unwrap()),
            ("deflate", bare.finish().unwrap()),
            ("", text.clone()),
        ];
        for (encoding, packed) in packed {
            for piece in [1, 7, 100_000] {
                assert_eq!(unpack(encoding, &packed, 1 << 20, 10_000, piece).unwrap(), text, "{encoding} by {piece}");
            }
        }
        // The same sentence 5,000 times, packed by the encoder of the crate `brotli` at quality 9.
        let brotli: [u8; 30] = [
            0x5b, 0x07, 0x4c, 0x01, 0x40, 0xc0, 0x09, 0x47, 0x3a, 0xa0, 0xc0, 0x23, 0x0c, 0xfa, 0xf1, 0xaf, 0x81, 0x2e, 0x2b,
            0xea, 0x82, 0xf9, 0x6c, 0xb9, 0x61, 0x8e, 0x1d, 0x0a, 0x10, 0x08,
        ];
        for piece in [1, 7, 30] {
            assert_eq!(unpack("br", &brotli, 1 << 20, 10_000, piece).unwrap(), text, "br by {piece}");
        }
    }

    #[test]
    fn layers_unknown_packings_and_broken_bytes_are_refused() {
        for encoding in ["gzip, gzip", "zstd", "gzip,br", "compress"] {
            assert_eq!(Body::new(encoding, 10, 10).err(), Some(Excess::Packing), "{encoding}");
        }
        for encoding in ["gzip", "deflate", "br"] {
            assert_eq!(unpack(encoding, &[0xff; 64], 1 << 20, 100, 64), Err(Excess::Broken), "{encoding}");
        }
    }

    #[test]
    fn plain_bytes_are_taken_up_to_the_last() {
        assert_eq!(unpack("", &[7; 10], 10, 2, 3).unwrap(), [7; 10]);
        assert_eq!(unpack("", &[7; 11], 10, 2, 3), Err(Excess::Bytes { most: 10 }));
    }
}
