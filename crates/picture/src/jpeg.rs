//! JPEG (ITU-T T.81): baseline, three components, of which the two of colour have half of the resolution in both directions.
//!
//! All components have the Huffman tables of luminance of annex K.3, which have a code for every symbol. The transform is the separable
//! cosine transform of annex A.3.3 in whole numbers: coefficients of [`BASIS`], first along lines, keeping three binary digits, then along
//! columns; halves are rounded up, and those of quantisation away from zero.

use crate::Picture;

/// The basis of the transform, times 8,192: row `u` has the cosines of frequency `u`.
const BASIS: [i32; 64] = [
    2_896, 2_896, 2_896, 2_896, 2_896, 2_896, 2_896, 2_896, 4_017, 3_406, 2_276, 799, -799, -2_276, -3_406, -4_017, 3_784, 1_567,
    -1_567, -3_784, -3_784, -1_567, 1_567, 3_784, 3_406, -799, -4_017, -2_276, 2_276, 4_017, 799, -3_406, 2_896, -2_896, -2_896,
    2_896, 2_896, -2_896, -2_896, 2_896, 2_276, -4_017, 799, 3_406, -3_406, -799, 4_017, -2_276, 1_567, -3_784, 3_784, -1_567,
    -1_567, 3_784, -3_784, 1_567, 799, -2_276, 3_406, -4_017, 4_017, -3_406, 2_276, -799,
];

/// The quantisation of luminance, annex K.1, in lines.
const LUMINANCE: [i32; 64] = [
    16, 11, 10, 16, 24, 40, 51, 61, 12, 12, 14, 19, 26, 58, 60, 55, 14, 13, 16, 24, 40, 57, 69, 56, 14, 17, 22, 29, 51, 87, 80,
    62, 18, 22, 37, 56, 68, 109, 103, 77, 24, 35, 55, 64, 81, 104, 113, 92, 49, 64, 78, 87, 103, 121, 120, 101, 72, 92, 95, 98,
    112, 100, 103, 99,
];

/// The quantisation of the colours, annex K.1, in lines.
const CHROMINANCE: [i32; 64] = [
    17, 18, 24, 47, 99, 99, 99, 99, 18, 21, 26, 66, 99, 99, 99, 99, 24, 26, 56, 99, 99, 99, 99, 99, 47, 66, 99, 99, 99, 99, 99,
    99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99,
    99, 99,
];

/// The places of the coefficients in their order, figure A.6.
const ZIGZAG: [usize; 64] = [
    0, 1, 8, 16, 9, 2, 3, 10, 17, 24, 32, 25, 18, 11, 4, 5, 12, 19, 26, 33, 40, 48, 41, 34, 27, 20, 13, 6, 7, 14, 21, 28, 35, 42,
    49, 56, 57, 50, 43, 36, 29, 22, 15, 23, 30, 37, 44, 51, 58, 59, 52, 45, 38, 31, 39, 46, 53, 60, 61, 54, 47, 55, 62, 63,
];

/// The number of codes of each length, table K.3, and their symbols: 0 to 11.
const DC_LENGTHS: [u8; 16] = [0, 1, 5, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0];

/// The number of codes of each length, table K.5.
const AC_LENGTHS: [u8; 16] = [0, 2, 1, 3, 3, 2, 4, 3, 5, 5, 4, 4, 0, 0, 1, 125];

/// The symbols of table K.5, by code.
const AC_SYMBOLS: [u8; 162] = [
    0x01, 0x02, 0x03, 0x00, 0x04, 0x11, 0x05, 0x12, 0x21, 0x31, 0x41, 0x06, 0x13, 0x51, 0x61, 0x07, 0x22, 0x71, 0x14, 0x32, 0x81,
    0x91, 0xa1, 0x08, 0x23, 0x42, 0xb1, 0xc1, 0x15, 0x52, 0xd1, 0xf0, 0x24, 0x33, 0x62, 0x72, 0x82, 0x09, 0x0a, 0x16, 0x17, 0x18,
    0x19, 0x1a, 0x25, 0x26, 0x27, 0x28, 0x29, 0x2a, 0x34, 0x35, 0x36, 0x37, 0x38, 0x39, 0x3a, 0x43, 0x44, 0x45, 0x46, 0x47, 0x48,
    0x49, 0x4a, 0x53, 0x54, 0x55, 0x56, 0x57, 0x58, 0x59, 0x5a, 0x63, 0x64, 0x65, 0x66, 0x67, 0x68, 0x69, 0x6a, 0x73, 0x74, 0x75,
    0x76, 0x77, 0x78, 0x79, 0x7a, 0x83, 0x84, 0x85, 0x86, 0x87, 0x88, 0x89, 0x8a, 0x92, 0x93, 0x94, 0x95, 0x96, 0x97, 0x98, 0x99,
    0x9a, 0xa2, 0xa3, 0xa4, 0xa5, 0xa6, 0xa7, 0xa8, 0xa9, 0xaa, 0xb2, 0xb3, 0xb4, 0xb5, 0xb6, 0xb7, 0xb8, 0xb9, 0xba, 0xc2, 0xc3,
    0xc4, 0xc5, 0xc6, 0xc7, 0xc8, 0xc9, 0xca, 0xd2, 0xd3, 0xd4, 0xd5, 0xd6, 0xd7, 0xd8, 0xd9, 0xda, 0xe1, 0xe2, 0xe3, 0xe4, 0xe5,
    0xe6, 0xe7, 0xe8, 0xe9, 0xea, 0xf1, 0xf2, 0xf3, 0xf4, 0xf5, 0xf6, 0xf7, 0xf8, 0xf9, 0xfa,
];

const DC_SYMBOLS: [u8; 12] = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11];

/// Sixteen zeros in a row, and the end of a block.
const RUN_OF_ZEROS: u8 = 0xf0;
const END_OF_BLOCK: u8 = 0x00;

/// The code of each symbol with its length in bits; the length of a symbol without a code is 0.
type Codes = [(u32, u32); 256];

static DC_CODES: Codes = codes(&DC_LENGTHS, &DC_SYMBOLS);
static AC_CODES: Codes = codes(&AC_LENGTHS, &AC_SYMBOLS);

/// Assigns codes as annex C does: in the order of symbols, each length continuing where the one before ended.
const fn codes(lengths: &[u8; 16], symbols: &[u8]) -> Codes {
    let mut found = [(0, 0); 256];
    let (mut code, mut symbol, mut length) = (0, 0, 0);
    while length < 16 {
        let mut left = lengths[length];
        length += 1;
        while left > 0 {
            found[symbols[symbol] as usize] = (code, length as u32);
            code += 1;
            symbol += 1;
            left -= 1;
        }
        code <<= 1;
    }
    found
}

/// The side of a block, and of the area whose colours one block has.
const SIDE: u32 = 8;
const AREA: u32 = 2 * SIDE;

type Block = [i32; 64];

pub(crate) fn encode(picture: &Picture) -> Vec<u8> {
    let quality = [LUMINANCE, CHROMINANCE].map(|table| table.map(|step| ((50 * step + 50) / 100).clamp(1, 255)));
    let mut file = vec![0xff, 0xd8];
    push_segment(&mut file, 0xe0, b"JFIF\0\x01\x01\0\0\x01\0\x01\0\0");
    push_segment(&mut file, 0xdb, &quantisation(&quality));
    push_segment(&mut file, 0xc0, &frame(picture));
    push_segment(&mut file, 0xc4, &huffman());
    push_segment(&mut file, 0xda, b"\x03\x01\0\x02\0\x03\0\0\x3f\0");
    let mut scan = Scan { bits: Bits { bytes: file, held: 0, count: 0 }, before: [0; 3] };
    for top in (0..picture.height).step_by(AREA as usize) {
        for left in (0..picture.width).step_by(AREA as usize) {
            let area = Area::new(picture, left, top);
            for corner in [(0, 0), (SIDE, 0), (0, SIDE), (SIDE, SIDE)] {
                scan.push_block(0, &area.luminance(corner), &quality[0]);
            }
            scan.push_block(1, &area.colour(1), &quality[1]);
            scan.push_block(2, &area.colour(2), &quality[1]);
        }
    }
    let mut file = scan.bits.finish();
    file.extend([0xff, 0xd9]);
    file
}

fn push_segment(file: &mut Vec<u8>, marker: u8, content: &[u8]) {
    file.extend([0xff, marker]);
    file.extend((content.len() as u16 + 2).to_be_bytes());
    file.extend_from_slice(content);
}

fn quantisation(quality: &[Block; 2]) -> Vec<u8> {
    let table = |(number, table): (usize, &Block)| {
        std::iter::once(number as u8).chain(ZIGZAG.map(|place| table[place] as u8)).collect::<Vec<_>>()
    };
    quality.iter().enumerate().flat_map(table).collect()
}

/// Returns the size and the components: number, sampling, and quantisation.
fn frame(picture: &Picture) -> Vec<u8> {
    let mut frame = vec![8];
    frame.extend((picture.height as u16).to_be_bytes());
    frame.extend((picture.width as u16).to_be_bytes());
    frame.extend(b"\x03\x01\x22\0\x02\x11\x01\x03\x11\x01");
    frame
}

fn huffman() -> Vec<u8> {
    let mut tables = vec![0x00];
    tables.extend(DC_LENGTHS);
    tables.extend(DC_SYMBOLS);
    tables.push(0x10);
    tables.extend(AC_LENGTHS);
    tables.extend(AC_SYMBOLS);
    tables
}

/// An area of 16 x 16 pixels: luminance and the two colours, JFIF's conversion in whole numbers.
struct Area {
    pixels: Vec<[i32; 3]>,
}

impl Area {
    fn new(picture: &Picture, left: u32, top: u32) -> Self {
        let places = (0..AREA).flat_map(|y| (0..AREA).map(move |x| (left + x, top + y)));
        Self { pixels: places.map(|(x, y)| convert(picture.pixel(x, y))).collect() }
    }

    fn at(&self, x: u32, y: u32, part: usize) -> i32 {
        self.pixels.get((y * AREA + x) as usize).map_or(0, |pixel| pixel[part])
    }

    fn luminance(&self, (left, top): (u32, u32)) -> Block {
        block(|x, y| self.at(left + x, top + y, 0))
    }

    /// Returns the means of four pixels each, halves rounded up.
    fn colour(&self, part: usize) -> Block {
        block(|x, y| {
            let four = [(0, 0), (1, 0), (0, 1), (1, 1)].map(|(right, below)| self.at(2 * x + right, 2 * y + below, part));
            (four.iter().sum::<i32>() + 2) >> 2
        })
    }
}

fn block(sample: impl Fn(u32, u32) -> i32) -> Block {
    std::array::from_fn(|at| sample(at as u32 % SIDE, at as u32 / SIDE) - 128)
}

fn convert([r, g, b]: [i32; 3]) -> [i32; 3] {
    const MIDDLE: i32 = (128 << 16) + 32_767;
    [
        (19_595 * r + 38_470 * g + 7_471 * b + 32_768) >> 16,
        (-11_059 * r - 21_709 * g + 32_768 * b + MIDDLE) >> 16,
        (32_768 * r - 27_439 * g - 5_329 * b + MIDDLE) >> 16,
    ]
}

/// Returns the cosine transform of a block.
fn transform(samples: &Block) -> Block {
    let sum = |basis: usize, values: [i32; 8]| (0..8).map(|at| BASIS[8 * basis + at] * values[at]).sum::<i32>();
    let lines: Block = std::array::from_fn(|at| {
        let (u, y) = (at % 8, at / 8);
        (sum(u, std::array::from_fn(|x| samples[8 * y + x])) + 512) >> 10
    });
    std::array::from_fn(|at| {
        let (u, v) = (at % 8, at / 8);
        (sum(v, std::array::from_fn(|y| lines[8 * y + u])) + 32_768) >> 16
    })
}

/// The entropy-coded data.
struct Scan {
    bits: Bits,
    /// The last mean of each component.
    before: [i32; 3],
}

impl Scan {
    fn push_block(&mut self, component: usize, samples: &Block, quality: &Block) {
        let coefficients = transform(samples);
        let quantised: Block = std::array::from_fn(|at| {
            let step = quality[at];
            (coefficients[at].abs() + step / 2) / step * coefficients[at].signum()
        });
        self.push_symbol(&DC_CODES, 0, quantised[0] - self.before[component]);
        self.before[component] = quantised[0];
        let mut zeros: u8 = 0;
        for place in &ZIGZAG[1..] {
            match quantised[*place] {
                0 => zeros += 1,
                value => {
                    while zeros > 15 {
                        self.bits.push(AC_CODES[usize::from(RUN_OF_ZEROS)]);
                        zeros -= 16;
                    }
                    self.push_symbol(&AC_CODES, zeros, value);
                    zeros = 0;
                }
            }
        }
        if zeros > 0 {
            self.bits.push(AC_CODES[usize::from(END_OF_BLOCK)]);
        }
    }

    /// Writes a number after so many zeros: the code of zeros and of the number's bits, and these bits.
    fn push_symbol(&mut self, codes: &Codes, zeros: u8, value: i32) {
        let size = u32::BITS - value.unsigned_abs().leading_zeros();
        let bits = if value < 0 { value + (1 << size) - 1 } else { value };
        self.bits.push(codes[usize::from(zeros << 4) | size as usize]);
        self.bits.push((bits as u32, size));
    }
}

/// Bits, the highest first; a byte 0xff is followed by a byte 0.
struct Bits {
    bytes: Vec<u8>,
    held: u64,
    count: u32,
}

impl Bits {
    fn push(&mut self, (code, length): (u32, u32)) {
        self.held = self.held << length | u64::from(code);
        self.count += length;
        while self.count >= 8 {
            self.count -= 8;
            let byte = (self.held >> self.count) as u8;
            self.bytes.push(byte);
            if byte == 0xff {
                self.bytes.push(0);
            }
        }
    }

    /// Fills the last byte with ones.
    fn finish(mut self) -> Vec<u8> {
        self.push((0x7f, 7));
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_symbol_has_a_code_of_its_own() {
        let known = |codes: &Codes| codes.iter().filter(|(_, length)| *length > 0).count();
        assert_eq!((known(&DC_CODES), known(&AC_CODES)), (12, 162));
        // Table K.3: symbol 0 is 00, symbol 11 is 111111110; table K.5: the end of a block is 1010, sixteen zeros are 11111111001.
        assert_eq!((DC_CODES[0], DC_CODES[11]), ((0b00, 2), (0b1_1111_1110, 9)));
        assert_eq!((AC_CODES[0x00], AC_CODES[0xf0]), ((0b1010, 4), (0b111_1111_1001, 11)));
    }

    #[test]
    fn a_flat_block_has_a_mean_only() {
        // The mean's coefficient is eight times the sample.
        let transformed = transform(&[100; 64]);
        assert_eq!(transformed[0], 800);
        assert!(transformed[1..].iter().all(|coefficient| *coefficient == 0));
    }
}
