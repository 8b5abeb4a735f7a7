package wire

import "fmt"

// A worker says how long a frame is before it sends it. A length that a frame of its kind
// cannot have ends the connection at once: whoever waits for the end of that frame would
// wait for ever.

const (
	// maxText bounds frames of texts, far above what workers make of them.
	maxText = 64 << 20
	// maxReleases bounds RELEASE: more than a million blocks.
	maxReleases = 16 << 20
	// maxWord bounds what is short and has no tensors: HELLO, UNBIND.
	maxWord = 1 << 20
)

// bodyBounds has the largest body that a kind may have on its way to the server.
var bodyBounds = map[Kind]uint32{
	KindHello: maxWord, KindReady: maxText, KindFailed: maxText, KindDone: maxText, KindLog: maxText, KindMetric: maxText,
	KindResponses: MaxBody, KindResultBatch: MaxBody, KindInfer: MaxBody, // with tensors in them
	KindControl: MaxBody, // with the files of a model
	KindBind:    maxText, KindUnbind: maxWord,
	KindRelease: maxReleases, KindGrow: 24, KindCredit: 4, KindCancel: 0, KindDropped: 4, KindDevices: 4 + 16*maxDevices,
	KindNotBegun: 0, KindFree: 0, KindTimes: reportSize * maxReports, KindActivity: 12 + 2*maxActivity,
}

// zygoteBounds is bodyBounds of a zygote, which sends nothing else.
var zygoteBounds = map[Kind]uint32{KindHello: maxWord, KindForked: 4, KindFailed: maxText, KindExited: 8}

// Bounds is one of these by kind; -1: not for the server.
type Bounds [KindPinned + 1]int64

func tableOf(bounds map[Kind]uint32) *Bounds {
	t := new(Bounds)
	for k := range t {
		t[k] = -1
		if n, ok := bounds[Kind(k)]; ok {
			t[k] = int64(n)
		}
	}
	return t
}

// FromWorkers and FromZygotes are what may come from these.
var (
	FromWorkers = tableOf(bodyBounds)
	FromZygotes = tableOf(zygoteBounds)
)

// check refuses a frame by its header. A nil table takes all.
func (t *Bounds) check(h Header) error {
	switch {
	case t == nil || int64(h.Length) <= t[h.Kind]:
		return nil
	case t[h.Kind] < 0:
		return headerError("kind", 3, "%s is not for the server", h.Kind)
	}
	return &ProtocolError{Kind: h.Kind, Field: "length", Offset: 4, Detail: fmt.Sprintf("%d bytes, at most %d", h.Length, t[h.Kind])}
}
