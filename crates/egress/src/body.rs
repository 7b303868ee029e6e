//! Decodes a response body within its size limit, before and after decompression.

use std::io::{self, Write};

use brotli_decompressor::DecompressorWriter;
use flate2::write::{DeflateDecoder, MultiGzDecoder, ZlibDecoder};

use super::error::EgressError;

/// Buffer size of the brotli decoder.
const BROTLI_BUFFER_BYTES: usize = 16 * 1024;
/// The first byte of a brotli stream with a window of up to a gigabyte, which the web's format does not have.
const BROTLI_LARGE_WINDOW: u8 = 0x11;

/// Receives a body as it arrives.
pub(super) struct Body {
    decoder: Decoder,
    encoding: String,
    arrived: usize,
    max_bytes: usize,
}

enum Decoder {
    Plain(BoundedBuffer),
    Gzip(Box<MultiGzDecoder<BoundedBuffer>>),
    /// Servers use `deflate` for two different formats. The first byte distinguishes them.
    Deflate(BoundedBuffer),
    Zlib(Box<ZlibDecoder<BoundedBuffer>>),
    RawDeflate(Box<DeflateDecoder<BoundedBuffer>>),
    /// The first byte is checked before a window is allocated.
    Brotli(BoundedBuffer),
    OpenBrotli(Box<DecompressorWriter<BoundedBuffer>>),
}

impl Body {
    /// A body with this `Content-Encoding`.
    pub(super) fn new(encoding: &str, max_bytes: usize) -> Result<Self, EgressError> {
        let encoding = encoding.trim().to_ascii_lowercase();
        let out = BoundedBuffer { bytes: Vec::new(), max_bytes, is_full: false };
        let decoder = match encoding.as_str() {
            "" | "identity" => Decoder::Plain(out),
            "gzip" | "x-gzip" => Decoder::Gzip(Box::new(MultiGzDecoder::new(out))),
            "deflate" => Decoder::Deflate(out),
            "br" => Decoder::Brotli(out),
            _ => return Err(EgressError::Encoding { encoding: encoding.chars().take(40).collect() }),
        };
        Ok(Self { decoder, encoding, arrived: 0, max_bytes })
    }

    pub(super) fn push(&mut self, piece: &[u8]) -> Result<(), EgressError> {
        let Some(first) = piece.first() else { return Ok(()) };
        self.arrived += piece.len();
        if self.arrived > self.max_bytes {
            return Err(EgressError::TooLarge { max_bytes: self.max_bytes });
        }
        self.open(*first)?;
        let written = match &mut self.decoder {
            Decoder::Plain(out) | Decoder::Deflate(out) | Decoder::Brotli(out) => out.write_all(piece),
            Decoder::Gzip(decoder) => decoder.write_all(piece),
            Decoder::Zlib(decoder) => decoder.write_all(piece),
            Decoder::RawDeflate(decoder) => decoder.write_all(piece),
            Decoder::OpenBrotli(decoder) => decoder.write_all(piece),
        };
        written.map_err(|_| self.failure())
    }

    /// Chooses the decoder by the first byte.
    fn open(&mut self, first: u8) -> Result<(), EgressError> {
        let decoder = match &mut self.decoder {
            Decoder::Deflate(out) if first & 0x0f == 8 => {
                Decoder::Zlib(Box::new(ZlibDecoder::new(out.take())))
            }
            Decoder::Deflate(out) => Decoder::RawDeflate(Box::new(DeflateDecoder::new(out.take()))),
            Decoder::Brotli(_) if first & 0x7f == BROTLI_LARGE_WINDOW => return Err(self.failure()),
            Decoder::Brotli(out) => {
                Decoder::OpenBrotli(Box::new(DecompressorWriter::new(out.take(), BROTLI_BUFFER_BYTES)))
            }
            _ => return Ok(()),
        };
        self.decoder = decoder;
        Ok(())
    }

    /// The whole decoded body.
    pub(super) fn finish(mut self) -> Result<Vec<u8>, EgressError> {
        // An empty body is not compressed, whatever its header states.
        if self.arrived > 0 {
            let ended = match &mut self.decoder {
                Decoder::Plain(_) | Decoder::Deflate(_) | Decoder::Brotli(_) => Ok(()),
                Decoder::Gzip(decoder) => decoder.try_finish(),
                Decoder::Zlib(decoder) => decoder.try_finish(),
                Decoder::RawDeflate(decoder) => decoder.try_finish(),
                Decoder::OpenBrotli(decoder) => decoder.close(),
            };
            ended.map_err(|_| self.failure())?;
        }
        Ok(std::mem::take(&mut self.out().bytes))
    }

    fn failure(&mut self) -> EgressError {
        if self.out().is_full {
            return EgressError::TooLarge { max_bytes: self.max_bytes };
        }
        EgressError::Encoding { encoding: self.encoding.clone() }
    }

    fn out(&mut self) -> &mut BoundedBuffer {
        match &mut self.decoder {
            Decoder::Plain(out) | Decoder::Deflate(out) | Decoder::Brotli(out) => out,
            Decoder::Gzip(decoder) => decoder.get_mut(),
            Decoder::Zlib(decoder) => decoder.get_mut(),
            Decoder::RawDeflate(decoder) => decoder.get_mut(),
            Decoder::OpenBrotli(decoder) => decoder.get_mut(),
        }
    }
}

/// A buffer with a limit. Decoders write to it in small pieces, so a decompression bomb is detected early.
struct BoundedBuffer {
    bytes: Vec<u8>,
    max_bytes: usize,
    is_full: bool,
}

impl BoundedBuffer {
    fn take(&mut self) -> Self {
        Self { bytes: std::mem::take(&mut self.bytes), ..*self }
    }
}

impl Write for BoundedBuffer {
    fn write(&mut self, piece: &[u8]) -> io::Result<usize> {
        if self.bytes.len() + piece.len() > self.max_bytes {
            self.is_full = true;
            return Err(io::Error::from(io::ErrorKind::FileTooLarge));
        }
        self.bytes.extend_from_slice(piece);
        Ok(piece.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
