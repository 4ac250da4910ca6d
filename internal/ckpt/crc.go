package ckpt

import "hash/crc32"

// joinCRC is the CRC-32 of two stretches, one behind the other, by those of each and the length of the second: a
// polynomial times x^(8·length), plus the other, modulo CRC-32's own (as zlib's crc32_combine does).
func joinCRC(first, second uint32, length uint64) uint32 {
	power := uint32(1) << 31                                  // x⁰: bits are reversed
	for square := uint32(1) << 23; length > 0; length >>= 1 { // x⁸
		if length&1 != 0 {
			power = timesCRC(power, square)
		}
		square = timesCRC(square, square)
	}
	return timesCRC(power, first) ^ second
}

// timesCRC multiplies two polynomials modulo CRC-32's.
func timesCRC(a, b uint32) (product uint32) {
	for bit := uint32(1) << 31; bit > 0; bit >>= 1 {
		if a&bit != 0 {
			product ^= b
		}
		if b&1 != 0 {
			b = b>>1 ^ crc32.IEEE
		} else {
			b >>= 1
		}
	}
	return product
}
