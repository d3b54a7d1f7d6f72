//! Synthetic images of a given size, as PNG and JPEG files whose bytes are a function of a seed.
//!
//! The formats are stable: a plan that was signed long ago must still mean the same bytes. So the encoders are written here, in whole numbers
//! and without options, because a library may compress otherwise with its next version. Golden values in the tests pin them, which
//! `tests/golden.py` derives from these descriptions and decodes with Pillow.
//!
//! Pixels are a smooth field with noise, so that an image compresses about as a photograph does, and no two seeds give the same one: see
//! [`Picture`].

mod jpeg;
mod png;

/// The largest width and the largest height.
pub const MAX_SIDE: u32 = 8_192;

/// The side of a cell of the field, in pixels.
const CELL: u32 = 32;

/// An image in RGB, 8 bits a channel.
///
/// Colours at the corners of cells of 32 x 32 pixels are interpolated, halves rounded up: corner `i` of row `j`, of which each row has
/// `ceil(width / 32) + 1`, has the three low bytes of output `1 + j x corners + i` of SplitMix64 (Steele, Lea and Flood, OOPSLA 2014) under
/// the seed. To all channels of pixel `p`, counted in lines, the value of nibble `p mod 16` less 8 is added and the sum is clipped;
/// the nibbles are those of output `1 + p / 16` after the outputs of the corners, lowest first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Picture {
    width: u32,
    height: u32,
    rgb: Vec<u8>,
}

impl Picture {
    /// Draws the image of a seed. Sides are clipped to 1 to [`MAX_SIDE`].
    pub fn draw(seed: u64, width: u32, height: u32) -> Self {
        let (width, height) = (width.clamp(1, MAX_SIDE), height.clamp(1, MAX_SIDE));
        let field = Field::new(seed, width, height);
        let mut rgb = Vec::with_capacity(3 * width as usize * height as usize);
        let mut noise = Noise { seed, next: 1 + field.corners(), nibbles: 0, left: 0 };
        for y in 0..height {
            let line = field.line(y);
            for x in 0..width {
                let added = noise.next();
                let (cell, right) = ((x / CELL) as usize, x % CELL);
                rgb.extend((0..3).map(|channel| {
                    let sum = line[cell][channel] * (CELL - right) + line[cell + 1][channel] * right;
                    (((sum + 512) >> 10).cast_signed() + added).clamp(0, 255) as u8
                }));
            }
        }
        Self { width, height, rgb }
    }

    /// Returns the image as a PNG file: RGB, 8 bits, no filter, and data that is stored and not compressed, which photographs hardly are either.
    pub fn png(&self) -> Vec<u8> {
        png::encode(self)
    }

    /// Returns the image as a JPEG file: baseline, quality 75 of the tables of ITU-T T.81, colours at half of the resolution.
    pub fn jpeg(&self) -> Vec<u8> {
        jpeg::encode(self)
    }

    /// Returns the colour of a pixel; beyond the right and the lower edge, that of the edge.
    fn pixel(&self, x: u32, y: u32) -> [i32; 3] {
        let (x, y) = (x.min(self.width - 1) as usize, y.min(self.height - 1) as usize);
        let at = 3 * (y * self.width as usize + x);
        self.rgb.get(at..at + 3).map_or([0; 3], |pixel| [0, 1, 2].map(|channel| i32::from(pixel[channel])))
    }
}

/// The colours at the corners of cells.
struct Field {
    seed: u64,
    columns: u64,
    rows: u64,
}

impl Field {
    fn new(seed: u64, width: u32, height: u32) -> Self {
        Self { seed, columns: u64::from(width.div_ceil(CELL)) + 1, rows: u64::from(height.div_ceil(CELL)) + 1 }
    }

    fn corners(&self) -> u64 {
        self.columns * self.rows
    }

    /// Returns the colours on a line of pixels at the corners' columns, times 32.
    fn line(&self, y: u32) -> Vec<[u32; 3]> {
        let (row, below) = (u64::from(y / CELL), y % CELL);
        let corner = |row, column| split_mix(self.seed, 1 + row * self.columns + column).to_le_bytes();
        let colour = |column| {
            let (upper, lower) = (corner(row, column), corner(row + 1, column));
            [0, 1, 2].map(|channel| u32::from(upper[channel]) * (CELL - below) + u32::from(lower[channel]) * below)
        };
        (0..self.columns).map(colour).collect()
    }
}

/// The noise of pixels, one after the other.
struct Noise {
    seed: u64,
    next: u64,
    nibbles: u64,
    left: u32,
}

impl Noise {
    fn next(&mut self) -> i32 {
        if self.left == 0 {
            self.nibbles = split_mix(self.seed, self.next);
            self.next += 1;
            self.left = 16;
        }
        let nibble = (self.nibbles & 15) as i32;
        self.nibbles >>= 4;
        self.left -= 1;
        nibble - 8
    }
}

/// Returns output `number` (from 1) of SplitMix64.
fn split_mix(seed: u64, number: u64) -> u64 {
    const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;
    let state = seed.wrapping_add(GOLDEN.wrapping_mul(number));
    let mixed = (state ^ state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ mixed >> 31
}

#[cfg(test)]
mod tests {
    use assay_manifest::Digest;
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_formats_are_stable() {
        // Derived from the formats' descriptions by `tests/golden.py`, which decodes them with Pillow, and not by this code.
        let files = |width, height, seed| {
            let picture = Picture::draw(seed, width, height);
            [picture.png(), picture.jpeg()].map(|file| (file.len(), Digest::compute(&file).hex()))
        };
        let golden = |png: (usize, &str), jpeg: (usize, &str)| [(png.0, png.1.to_owned()), (jpeg.0, jpeg.1.to_owned())];
        assert_eq!(
            files(1, 1, 1),
            golden(
                (72, "9d3f38d0ceb12370d9d7fb124d7891be688f64498a2707adcc56534577145064"),
                (409, "45426c42046f7bc65e15922439ec57fce3f8153fd453d538413911b38ca85a45")
            )
        );
        assert_eq!(
            files(37, 21, 2),
            golden(
                (2_420, "b440d39b3ff399c0ce60bded9e0709aaf7765afbde84d47d089eb2e865bc852f"),
                (597, "9ee8bdd00632cc189de23ae4ae988d03a3102b33d1d22f16180f5df81526e0cd")
            )
        );
        assert_eq!(
            files(200, 120, 3),
            golden(
                (72_193, "74faaba54866c94eb785b97af29e0aa8ac4457f4147f6478e658cbe0e8a8b0ae"),
                (4_006, "168322ad0f99a57169cbaed8f33c7051281f4a8a30b34bababca6cf401c2f1e8")
            )
        );
    }

    #[test]
    fn sides_are_clipped() {
        assert_eq!(MAX_SIDE, assay_manifest::MAX_IMAGE_SIDE);
        assert_eq!(Picture::draw(1, 0, 0), Picture::draw(1, 1, 1));
        let wide = Picture::draw(1, u32::MAX, 1);
        assert_eq!((wide.width, wide.height, wide.rgb.len()), (MAX_SIDE, 1, 3 * MAX_SIDE as usize));
    }

    proptest! {
        #[test]
        fn every_seed_has_an_image_of_its_own(seed in any::<u64>(), width in 2..80_u32, height in 2..80_u32) {
            let (one, other) = (Picture::draw(seed, width, height), Picture::draw(seed ^ 1, width, height));
            prop_assert_eq!(&one, &Picture::draw(seed, width, height));
            prop_assert_ne!(one.png(), other.png());
            let jpeg = one.jpeg();
            prop_assert!(jpeg.starts_with(&[0xff, 0xd8]) && jpeg.ends_with(&[0xff, 0xd9]));
        }
    }
}
