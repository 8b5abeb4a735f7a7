package wire

import "encoding/binary"

// AppendPinned appends a PINNED: the version of the model that serves a call.
func AppendPinned(dst []byte, id uint64, version int64) []byte {
	dst, base := beginFrame(dst, KindPinned, 0, id)
	dst = binary.LittleEndian.AppendUint64(dst, uint64(version))
	dst, _ = endFrame(dst, base)
	return dst
}

// DecodePinned reads the body of PINNED.
func DecodePinned(body []byte) (version int64, err error) {
	c := Cursor{kind: KindPinned, body: body}
	version = int64(c.u64("version"))
	if version <= 0 {
		c.Fail("version", 0, "%d, expected above 0", version)
	}
	return version, c.end()
}
