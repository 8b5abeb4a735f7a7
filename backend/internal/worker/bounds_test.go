//go:build unix

package worker

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
)

// announced is the header of a frame with a body of n bytes.
func announced(kind Kind, n uint32) []byte {
	frame, _ := AppendFrame(nil, kind, 0, 1, nil)
	binary.LittleEndian.PutUint32(frame[4:], n)
	return frame
}

// TestAnnouncedFrames: the header alone ends a connection when a frame of its
// kind cannot be so long, or is none that a worker sends.
func TestAnnouncedFrames(t *testing.T) {
	for k := KindHello; k <= KindFree; k++ {
		bound, sends := bodyBounds[k]
		if bound == MaxBody {
			continue
		}
		t.Run(k.String(), func(t *testing.T) {
			f := newFake(t, nil)
			inst := f.instance(nil)
			done := f.execute(t.Context(), inst, request(newAnswers()))
			f.next(KindExecute)
			want := fmt.Sprintf("%s frame: length at offset 4: %d bytes, at most %d", k, bound+1, bound)
			if !sends {
				want = k.String() + " is not for the server"
			}
			f.send(announced(k, bound+1), nil)
			if err := result(t, done); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("got %v, want %q", err, want)
			}
		})
	}
}

// TestFrameThatStops: a frame that has begun and does not come on ends the
// connection, whatever of it is there.
func TestFrameThatStops(t *testing.T) {
	for name, c := range map[string]struct {
		sent []byte
		want string
	}{
		"header":     {announced(KindResponses, 64)[:5], "5 of 24 bytes have come"},
		"body":       {announced(KindResponses, MaxBody), "24 of 1073741848 bytes have come"},
		"small body": {append(announced(KindLog, 64), 1, 2, 3), "27 of 88 bytes have come"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFakeWith(t, ConnOptions{frameWait: 20 * time.Millisecond, frameGrace: time.Millisecond})
			inst := f.instance(nil)
			done := f.execute(t.Context(), inst, request(newAnswers()))
			f.next(KindExecute)
			f.send(c.sent, nil)
			err := result(t, done)
			var broken *ProtocolError
			if err == nil || !strings.Contains(err.Error(), c.want) || !errors.As(f.conn.Err(), &broken) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

// TestPatience: only a wait without a byte counts, also where the reader is called
// away from it, and none after the frame.
func TestPatience(t *testing.T) {
	var late []error
	p := &patience{limit: time.Hour, grace: time.Hour, late: func(err error) { late = append(late, err) }}
	passes := func(d time.Duration) { // without a byte
		p.since = p.since.Add(-d)
		p.passed()
	}
	p.begin(10, 100)
	passes(59 * time.Minute)
	p.end(true)
	p.begin(20, 100)
	passes(59 * time.Minute)
	p.end(false) // for an errand
	p.begin(20, 100)
	if p.grudging {
		t.Fatal("the grace began before the time was over")
	}
	passes(2 * time.Minute)
	if !p.grudging || late != nil {
		t.Fatalf("grace %v, %v before it is over", p.grudging, late)
	}
	p.passed()
	if len(late) != 1 || !strings.Contains(late[0].Error(), "20 of 100 bytes") {
		t.Fatalf("got %v", late)
	}
	p.end(true)
	p.passed()
	if len(late) != 1 {
		t.Fatalf("late although nobody waits: %v", late[1:])
	}
}
