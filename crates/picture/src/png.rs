//! PNG (W3C, third edition): one data chunk, a zlib stream (RFC 1950) of stored blocks (RFC 1951, 3.2.4).

use crate::Picture;

/// The largest stored block.
const BLOCK: usize = 0xffff;

pub(crate) fn encode(picture: &Picture) -> Vec<u8> {
    let mut header = Vec::with_capacity(13);
    header.extend(picture.width.to_be_bytes());
    header.extend(picture.height.to_be_bytes());
    // 8 bits, RGB, and the only methods of compression, filtering and no interlacing.
    header.extend([8, 2, 0, 0, 0]);
    let mut file = b"\x89PNG\r\n\x1a\n".to_vec();
    push_chunk(&mut file, *b"IHDR", &header);
    push_chunk(&mut file, *b"IDAT", &stream(picture));
    push_chunk(&mut file, *b"IEND", &[]);
    file
}

/// Returns the lines, each after a byte 0 for no filter, as a zlib stream.
fn stream(picture: &Picture) -> Vec<u8> {
    let line = 3 * picture.width as usize;
    let mut lines = Vec::with_capacity(picture.rgb.len() + picture.height as usize);
    for pixels in picture.rgb.chunks(line) {
        lines.push(0);
        lines.extend_from_slice(pixels);
    }
    let mut stream = Vec::with_capacity(lines.len() + lines.len() / BLOCK * 5 + 16);
    stream.extend([0x78, 0x01]);
    let mut left = lines.len();
    for block in lines.chunks(BLOCK) {
        left -= block.len();
        let length = block.len() as u16;
        stream.push(u8::from(left == 0));
        stream.extend(length.to_le_bytes());
        stream.extend((!length).to_le_bytes());
        stream.extend_from_slice(block);
    }
    stream.extend(adler32(&lines).to_be_bytes());
    stream
}

fn push_chunk(file: &mut Vec<u8>, name: [u8; 4], data: &[u8]) {
    file.extend((data.len() as u32).to_be_bytes());
    let start = file.len();
    file.extend(name);
    file.extend_from_slice(data);
    let sum = crc32(&file[start..]);
    file.extend(sum.to_be_bytes());
}

/// Returns the checksum of RFC 1950, 8.2.
fn adler32(bytes: &[u8]) -> u32 {
    const MODULUS: u32 = 65_521;
    // As many bytes as fit before the sums may overflow.
    const RUN: usize = 5_552;
    let (mut low, mut high) = (1, 0);
    for run in bytes.chunks(RUN) {
        for byte in run {
            low += u32::from(*byte);
            high += low;
        }
        low %= MODULUS;
        high %= MODULUS;
    }
    high << 16 | low
}

/// Returns the checksum of the PNG specification, annex D.
fn crc32(bytes: &[u8]) -> u32 {
    const TABLE: [u32; 256] = crc_table();
    !bytes.iter().fold(!0, |sum, byte| TABLE[((sum ^ u32::from(*byte)) & 0xff) as usize] ^ sum >> 8)
}

const fn crc_table() -> [u32; 256] {
    let mut table = [0; 256];
    let mut at = 0;
    while at < 256 {
        let mut value = at as u32;
        let mut bit = 0;
        while bit < 8 {
            value = if value & 1 == 1 { 0xedb8_8320 ^ value >> 1 } else { value >> 1 };
            bit += 1;
        }
        table[at] = value;
        at += 1;
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksums_are_those_of_their_standards() {
        // The check value of CRC-32 for "123456789", and the example of Adler-32 for "Wikipedia".
        assert_eq!((crc32(b"123456789"), crc32(b"")), (0xcbf4_3926, 0));
        assert_eq!((adler32(b"Wikipedia"), adler32(b"")), (0x11e6_0398, 1));
    }
}
