package wire

import (
	"encoding/binary"
	"math"
)

// What a worker reports of its work. Times are those of the system's steady clock, in
// nanoseconds.

// Report is what the model says of the execution of a batch, of one of its requests, or of
// one response.
type Report struct {
	Handle uint64 // of the request
	Flags  uint32
	Size   uint64 // of the batch; the index of the response
	// Times are when the execution and the computation in it began, and when the
	// computation and the execution were done. Of a response: when it began, when the
	// writing of its outputs began, or, without outputs, when it was done; and twice when
	// it was done.
	Times [4]uint64
}

// Flags of Report.
const (
	ReportBatch     = 1 << iota // of the whole batch
	ReportFailed                // the request has failed, the times mean nothing; the response is an error
	ReportResponse              // of a response, of which neither the batch nor the request is named
	ReportEmpty                 // the response has no outputs
	ReportCancelled             // it says that the request was cancelled
)

// reportSize is how long a Report is, maxReports how many a TIMES has: some for each
// request of the largest batches.
const (
	reportSize = 52
	maxReports = 64 << 10
)

// AppendTimes appends a TIMES. Reports that are too many are left out.
func AppendTimes(dst []byte, instance uint32, id uint64, reports []Report) []byte {
	dst, base := beginFrame(dst, KindTimes, instance, id)
	le := binary.LittleEndian
	for i := range reports[:min(len(reports), maxReports)] {
		r := &reports[i]
		dst = le.AppendUint64(le.AppendUint32(le.AppendUint64(dst, r.Handle), r.Flags), r.Size)
		for _, t := range r.Times {
			dst = le.AppendUint64(dst, t)
		}
	}
	dst, _ = endFrame(dst, base)
	return dst
}

// DecodeTimes reads the body of TIMES and gives each report to take.
func DecodeTimes(body []byte, take func(r Report)) error {
	c := Cursor{kind: KindTimes, body: body}
	for c.Err() == nil && c.off < len(body) {
		at := c.Offset()
		r := Report{Handle: c.u64("request"), Flags: c.u32("flags"), Size: c.u64("size")}
		for i := range r.Times {
			r.Times[i] = c.u64("time")
			if i > 0 && r.Times[i] < r.Times[i-1] {
				c.Fail("time", at, "%d is before the one before it, %d", r.Times[i], r.Times[i-1])
			}
		}
		if c.Err() == nil {
			take(r)
		}
	}
	return c.end()
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
