"""Derives the golden values of `src/lib.rs` from the formats' descriptions alone. Decodes them with Pillow, if it is installed."""

import hashlib
import io
import math
import struct
import zlib


def split_mix(seed, number):
    state = (seed + number * 0x9E3779B97F4A7C15) % 2**64
    state = (state ^ state >> 30) * 0xBF58476D1CE4E5B9 % 2**64
    state = (state ^ state >> 27) * 0x94D049BB133111EB % 2**64
    return state ^ state >> 31


def pixels(seed, width, height):
    columns, rows = -(-width // 32) + 1, -(-height // 32) + 1
    corner = [[split_mix(seed, 1 + j * columns + i).to_bytes(8, "little")[:3] for i in range(columns)] for j in range(rows)]
    for y in range(height):
        for x in range(width):
            (i, fx), (j, fy) = divmod(x, 32), divmod(y, 32)
            number = y * width + x
            noise = (split_mix(seed, 1 + columns * rows + number // 16) >> 4 * (number % 16) & 15) - 8
            for channel in range(3):
                top = corner[j][i][channel] * (32 - fx) + corner[j][i + 1][channel] * fx
                bottom = corner[j + 1][i][channel] * (32 - fx) + corner[j + 1][i + 1][channel] * fx
                yield max(0, min(255, ((top * (32 - fy) + bottom * fy + 512) >> 10) + noise))


def png(rgb, width, height):
    def chunk(name, data):
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    lines = b"".join(b"\0" + rgb[3 * width * y : 3 * width * (y + 1)] for y in range(height))
    parts = [lines[at : at + 65535] for at in range(0, len(lines), 65535)]
    stored = b"".join(bytes([number == len(parts) - 1]) + struct.pack("<HH", len(part), 65535 - len(part)) + part for number, part in enumerate(parts))
    data = b"\x78\x01" + stored + struct.pack(">I", zlib.adler32(lines))
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", data) + chunk(b"IEND", b"")


# ITU-T T.81, annex K.1 and K.3, and the order of figure A.6.
LUMINANCE = [
    16, 11, 10, 16, 24, 40, 51, 61, 12, 12, 14, 19, 26, 58, 60, 55, 14, 13, 16, 24, 40, 57, 69, 56, 14, 17, 22, 29, 51, 87, 80, 62,
    18, 22, 37, 56, 68, 109, 103, 77, 24, 35, 55, 64, 81, 104, 113, 92, 49, 64, 78, 87, 103, 121, 120, 101, 72, 92, 95, 98, 112, 100, 103, 99,
]  # fmt: skip
CHROMINANCE = [17, 18, 24, 47, 99, 99, 99, 99, 18, 21, 26, 66, 99, 99, 99, 99, 24, 26, 56, 99, 99, 99, 99, 99, 47, 66] + [99] * 38
ZIGZAG = sorted(range(64), key=lambda k: (k // 8 + k % 8, k // 8 if (k // 8 + k % 8) % 2 else k % 8))
DC = ([0, 1, 5, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0], list(range(12)))
AC = (
    [0, 2, 1, 3, 3, 2, 4, 3, 5, 5, 4, 4, 0, 0, 1, 0x7D],
    list(
        bytes.fromhex(
            "01020300041105122131410613516107227114328191a1082342b1c11552d1f02433627282090a161718191a25262728292a3435363738393a"
            "434445464748494a535455565758595a636465666768696a737475767778797a838485868788898a92939495969798999aa2a3a4a5a6a7a8a9"
            "aab2b3b4b5b6b7b8b9bac2c3c4c5c6c7c8c9cad2d3d4d5d6d7d8d9dae1e2e3e4e5e6e7e8e9eaf1f2f3f4f5f6f7f8f9fa"
        )
    ),
)


def codes(table):
    code, values, found = 0, iter(table[1]), {}
    for length, count in enumerate(table[0], 1):
        for _ in range(count):
            found[next(values)] = (code, length)
            code += 1
        code <<= 1
    return found


BASIS = [round(8192 * (math.sqrt(0.125) if u == 0 else 0.5) * math.cos((2 * x + 1) * u * math.pi / 16)) for u in range(8) for x in range(8)]


def jpeg(rgb, width, height):
    quality = [[max(1, min(255, (50 * q + 50) // 100)) for q in table] for table in (LUMINANCE, CHROMINANCE)]
    dc, ac = codes(DC), codes(AC)
    bits = []

    def emit(code, length):
        bits.extend(code >> place & 1 for place in reversed(range(length)))

    def magnitude(value):
        size = abs(value).bit_length()
        return size, value if value > 0 else value + (1 << size) - 1

    def ycc(x, y):
        at = 3 * (min(y, height - 1) * width + min(x, width - 1))
        r, g, b = rgb[at : at + 3]
        middle = (128 << 16) + 32767
        return (
            (19595 * r + 38470 * g + 7471 * b + 32768) >> 16,
            (-11059 * r - 21709 * g + 32768 * b + middle) >> 16,
            (32768 * r - 27439 * g - 5329 * b + middle) >> 16,
        )

    def encode(samples, table, before):
        lines = [[(sum(BASIS[8 * u + x] * (samples[8 * y + x] - 128) for x in range(8)) + 512) >> 10 for u in range(8)] for y in range(8)]
        out = [(sum(BASIS[8 * v + y] * lines[y][u] for y in range(8)) + 32768) >> 16 for v in range(8) for u in range(8)]
        out = [(abs(c) + q // 2) // q * (1 if c >= 0 else -1) for c, q in zip(out, table)]
        size, value = magnitude(out[0] - before)
        emit(*dc[size])
        emit(value, size)
        zeros = 0
        for k in ZIGZAG[1:]:
            if out[k] == 0:
                zeros += 1
                continue
            while zeros > 15:
                emit(*ac[0xF0])
                zeros -= 16
            size, value = magnitude(out[k])
            emit(*ac[zeros << 4 | size])
            emit(value, size)
            zeros = 0
        if zeros:
            emit(*ac[0])
        return out[0]

    before = [0, 0, 0]
    for top in range(0, height, 16):
        for left in range(0, width, 16):
            area = [[ycc(left + x, top + y) for x in range(16)] for y in range(16)]
            for dy, dx in ((0, 0), (0, 8), (8, 0), (8, 8)):
                before[0] = encode([area[dy + y][dx + x][0] for y in range(8) for x in range(8)], quality[0], before[0])
            for part in (1, 2):
                four = lambda x, y: sum(area[2 * y + dy][2 * x + dx][part] for dy in (0, 1) for dx in (0, 1))
                before[part] = encode([(four(x, y) + 2) >> 2 for y in range(8) for x in range(8)], quality[1], before[part])
    bits.extend([1] * (-len(bits) % 8))
    data = bytes(int("".join(map(str, bits[at : at + 8])), 2) for at in range(0, len(bits), 8)).replace(b"\xff", b"\xff\0")

    def segment(marker, content):
        return bytes([0xFF, marker]) + struct.pack(">H", len(content) + 2) + content

    tables = b"".join(bytes([number]) + bytes(table[k] for k in ZIGZAG) for number, table in enumerate(quality))
    huffman = b"".join(bytes([kind]) + bytes(table[0]) + bytes(table[1]) for kind, table in ((0x00, DC), (0x10, AC)))
    return (
        b"\xff\xd8"
        + segment(0xE0, b"JFIF\0\x01\x01\0\0\x01\0\x01\0\0")
        + segment(0xDB, tables)
        + segment(0xC0, struct.pack(">BHHB", 8, height, width, 3) + b"\x01\x22\0\x02\x11\x01\x03\x11\x01")
        + segment(0xC4, huffman)
        + segment(0xDA, b"\x03\x01\0\x02\0\x03\0\0\x3f\0")
        + data
        + b"\xff\xd9"
    )


print("basis", BASIS)
print("zigzag", ZIGZAG)
for width, height, seed in ((1, 1, 1), (37, 21, 2), (200, 120, 3)):
    rgb = bytes(pixels(seed, width, height))
    for name, encoder in (("png", png), ("jpeg", jpeg)):
        made = encoder(rgb, width, height)
        print(name, width, height, seed, len(made), hashlib.sha256(made).hexdigest())
        try:
            from PIL import Image
        except ImportError:
            continue
        decoded = Image.open(io.BytesIO(made))
        assert (decoded.format.lower(), decoded.size, decoded.mode) == (name, (width, height), "RGB")
        off = [abs(a - b) for a, b in zip(decoded.tobytes(), rgb)]
        assert max(off) == 0 if name == "png" else sum(off) / len(off) < 6, (max(off), sum(off) / len(off))
