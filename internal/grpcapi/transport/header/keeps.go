package header

// KeepsTable reports whether a block, which has been decoded, leaves the table
// of the connection as it is (RFC 7541, section 6).
func KeepsTable(block []byte) bool {
	for len(block) > 0 {
		b := block[0]
		switch {
		case b&0x80 != 0: // a field of the table
			if _, block = number(block, 7); block == nil {
				return false
			}
			continue
		case b&0x40 != 0, b&0x20 != 0: // a new field of the table; its size
			return false
		}
		var name uint64
		if name, block = number(block, 4); name == 0 {
			if block = skip(block); block == nil {
				return false
			}
		}
		if block = skip(block); block == nil {
			return false
		}
	}
	return true
}

// skip passes over a string. It returns nil for none, which is not what it
// returns at the end of a block.
func skip(b []byte) []byte {
	n, b := number(b, 7)
	if b == nil || n > uint64(len(b)) {
		return nil
	}
	return b[n:]
}

// number reads a number with a prefix of so many bits, and returns what
// follows it, nil where there is no number.
func number(b []byte, bits uint) (uint64, []byte) {
	if len(b) == 0 {
		return 0, nil
	}
	most := uint64(1)<<bits - 1
	n := uint64(b[0]) & most
	b = b[1:]
	if n < most {
		return n, b
	}
	for shift := uint(0); len(b) > 0 && shift < 32; shift += 7 {
		x := b[0]
		b = b[1:]
		n += uint64(x&0x7f) << shift
		if x < 0x80 {
			return n, b
		}
	}
	return 0, nil
}
