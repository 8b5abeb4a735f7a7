package wire

import (
	"encoding/binary"
	"math"
)

// What a worker reports of its work. Times are those of the system's steady clock, in
// nanoseconds.

// AppendTimes appends a TIMES: when the model began to compute a batch, and when it was
// done.
func AppendTimes(dst []byte, instance uint32, id, start, end uint64) []byte {
	dst, base := beginFrame(dst, KindTimes, instance, id)
	dst = binary.LittleEndian.AppendUint64(dst, start)
	dst = binary.LittleEndian.AppendUint64(dst, end)
	dst, _ = endFrame(dst, base)
	return dst
}

// DecodeTimes reads the body of TIMES.
func DecodeTimes(body []byte) (start, end uint64, err error) {
	c := Cursor{kind: KindTimes, body: body}
	start, end = c.u64("start"), c.u64("end")
	if start > end {
		c.Fail("end", 8, "%d is before the start, %d", end, start)
	}
	return start, end, c.end()
}

// maxActivity bounds the texts of ACTIVITY.
const maxActivity = math.MaxUint16

// AppendActivity appends an ACTIVITY: something happened to a traced request. trace is
// the request's, as the worker was given it. Texts that are too long lose their end.
func AppendActivity(dst []byte, at uint64, trace, name string) []byte {
	trace, name = trace[:min(len(trace), maxActivity)], name[:min(len(name), maxActivity)]
	dst, base := beginFrame(dst, KindActivity, 0, 0)
	dst = binary.LittleEndian.AppendUint64(dst, at)
	dst = binary.LittleEndian.AppendUint16(dst, uint16(len(trace)))
	dst = binary.LittleEndian.AppendUint16(dst, uint16(len(name)))
	dst = append(append(dst, trace...), name...)
	dst, _ = endFrame(dst, base)
	return dst
}

// DecodeActivity reads the body of ACTIVITY: the texts view the frame.
func DecodeActivity(body []byte) (at uint64, trace, name []byte, err error) {
	c := Cursor{kind: KindActivity, body: body}
	at = c.u64("time")
	if b := c.take(4, "lengths"); b != nil {
		le := binary.LittleEndian
		trace, name = c.take(int(le.Uint16(b)), "trace"), c.take(int(le.Uint16(b[2:])), "name")
	}
	return at, trace, name, c.end()
}
