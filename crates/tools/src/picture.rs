//! Reads the format and size of images from their bytes.

use posse_domain::message::MediaType;

/// Maximum size of an image. Base64 adds a third, and providers accept 5 MiB of that.
pub(crate) const PICTURE_MAX_BYTES: usize = 5 * 1024 * 1024 / 4 * 3;
/// Maximum width and height of an image. Providers refuse larger ones.
pub(crate) const PICTURE_MAX_SIDE: u32 = 8_000;

/// An image that models can be shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Picture {
    pub(crate) media_type: MediaType,
    pub(crate) width: u32,
    pub(crate) height: u32,
}

impl Picture {
    /// Parses the header of an image. None if the bytes are not an image, or if the header is incomplete.
    pub(crate) fn of(bytes: &[u8]) -> Option<Self> {
        let (media_type, sides) = if bytes.starts_with(b"\x89PNG\r\n\x1a\n") {
            (MediaType::Png, png(bytes))
        } else if bytes.starts_with(b"\xff\xd8\xff") {
            (MediaType::Jpeg, jpeg(bytes))
        } else if bytes.starts_with(b"GIF87a") || bytes.starts_with(b"GIF89a") {
            (MediaType::Gif, gif(bytes))
        } else if bytes.starts_with(b"RIFF") && bytes.get(8..12) == Some(b"WEBP") {
            (MediaType::Webp, webp(bytes))
        } else {
            return None;
        };
        let (width, height) = sides.filter(|(width, height)| *width > 0 && *height > 0)?;
        Some(Self { media_type, width, height })
    }

    /// The format's name for users.
    pub(crate) fn media_type(self) -> &'static str {
        match self.media_type {
            MediaType::Png => "PNG",
            MediaType::Jpeg => "JPEG",
            MediaType::Gif => "GIF",
            MediaType::Webp => "WebP",
        }
    }
}

fn array<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..)?.first_chunk().copied()
}

fn png(bytes: &[u8]) -> Option<(u32, u32)> {
    (array(bytes, 12)? == *b"IHDR").then_some(())?;
    Some((u32::from_be_bytes(array(bytes, 16)?), u32::from_be_bytes(array(bytes, 20)?)))
}

fn gif(bytes: &[u8]) -> Option<(u32, u32)> {
    Some((u16::from_le_bytes(array(bytes, 6)?).into(), u16::from_le_bytes(array(bytes, 8)?).into()))
}

/// Walks over the segments to the start of a frame, which has the size.
fn jpeg(bytes: &[u8]) -> Option<(u32, u32)> {
    let mut at = 2;
    loop {
        let [0xff, marker] = array(bytes, at)? else { return None };
        match marker {
            // Padding.
            0xff => at += 1,
            // Markers without content.
            0x01 | 0xd0..=0xd8 => at += 2,
            // A frame. The four markers in between are tables.
            0xc0..=0xcf if !matches!(marker, 0xc4 | 0xc8 | 0xcc) => {
                let height = u16::from_be_bytes(array(bytes, at + 5)?);
                let width = u16::from_be_bytes(array(bytes, at + 7)?);
                return Some((width.into(), height.into()));
            }
            // The image data, or its end.
            0xd9 | 0xda => return None,
            _ => at += 2 + usize::from(u16::from_be_bytes(array(bytes, at + 2)?)),
        }
    }
}

fn webp(bytes: &[u8]) -> Option<(u32, u32)> {
    match &array::<4>(bytes, 12)? {
        b"VP8 " => {
            (array(bytes, 23)? == [0x9d, 0x01, 0x2a]).then_some(())?;
            let side = |at| Some(u32::from(u16::from_le_bytes(array(bytes, at)?) & 0x3fff));
            Some((side(26)?, side(28)?))
        }
        b"VP8L" => {
            (array(bytes, 20)? == [0x2f]).then_some(())?;
            let bits = u32::from_le_bytes(array(bytes, 21)?);
            Some(((bits & 0x3fff) + 1, (bits >> 14 & 0x3fff) + 1))
        }
        b"VP8X" => {
            let side = |at| array(bytes, at).map(|[a, b, c]| u32::from_le_bytes([a, b, c, 0]) + 1);
            Some((side(24)?, side(27)?))
        }
        _ => None,
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// The beginning of a PNG of this size, padded with zeros.
    pub(crate) fn png_of(width: u32, height: u32, bytes: usize) -> Vec<u8> {
        let mut png = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR".to_vec();
        png.extend(width.to_be_bytes());
        png.extend(height.to_be_bytes());
        png.resize(bytes.max(33), 0);
        png
    }

    #[test]
    fn kind_and_size_are_told_from_the_bytes() {
        let jpeg = b"\xff\xd8\xff\xe0\0\x10JFIF\0\x01\x01\0\0\x01\0\x01\0\0\xff\xff\xc4\0\x03x\xff\xc2\0\x11\x08\x01\x2c\x02\x58\x03";
        let lossy = b"RIFF\x24\0\0\0WEBPVP8 \x18\0\0\0\x30\x01\0\x9d\x01\x2a\x40\x01\xf0\x00";
        let lossless = b"RIFF\x24\0\0\0WEBPVP8L\x18\0\0\0\x2f\x3f\xc1\x3b\0";
        let extended = b"RIFF\x24\0\0\0WEBPVP8X\x0a\0\0\0\x10\0\0\0\x7f\x02\0\xdf\x01\0";
        for (bytes, media_type, width, height) in [
            (&png_of(640, 480, 0)[..], MediaType::Png, 640, 480),
            (jpeg, MediaType::Jpeg, 600, 300),
            (b"GIF89a\x0a\0\x14\0", MediaType::Gif, 10, 20),
            (lossy, MediaType::Webp, 320, 240),
            (lossless, MediaType::Webp, 320, 240),
            (extended, MediaType::Webp, 640, 480),
        ] {
            assert_eq!(Picture::of(bytes), Some(Picture { media_type, width, height }));
        }
    }

    #[test]
    fn what_is_cut_or_empty_is_no_picture() {
        let jpeg =
            b"\xff\xd8\xff\xe0\0\x10JFIF\0\x01\x01\0\0\x01\0\x01\0\0\xff\xc0\0\x11\x08\x01\x2c\x02\x58";
        for whole in
            [&png_of(1, 1, 0)[..24], jpeg, b"GIF89a\x0a\0\x14\0", b"RIFFxxxxWEBPVP8L\0\0\0\0\x2f\0\0\0\0"]
        {
            assert!(Picture::of(whole).is_some());
            for cut in 0..whole.len() {
                assert_eq!(Picture::of(&whole[..cut]), None, "{cut} of {whole:?}");
            }
        }
        for bytes in
            [&b"GIF89a\0\0\0\0"[..], b"%PDF-1.7", b"BM", b"\xff\xd8\xff\xd9", b"RIFFxxxxWAVE", &[0xff; 64]]
        {
            assert_eq!(Picture::of(bytes), None, "{bytes:?}");
        }
    }
}
