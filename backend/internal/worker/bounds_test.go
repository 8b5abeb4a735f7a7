package worker

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nesoserve/neso/backend/internal/worker/wire"
)

// announced is the header of a frame with a body of n bytes.
func announced(kind wire.Kind, n uint32) []byte {
	frame, _ := wire.AppendFrame(nil, kind, 0, 1, nil)
	binary.LittleEndian.PutUint32(frame[4:], n)
	return frame
}

// TestAnnouncedFrames: the header alone ends a connection when a frame of its
// kind cannot be so long, or is none that a worker sends.
func TestAnnouncedFrames(t *testing.T) {
	for k := wire.KindHello; k <= wire.KindFree; k++ {
		bound := wire.FromWorkers[k]
		sends := bound >= 0
		bound = max(bound, 0)
		if bound == wire.MaxBody {
			continue
		}
		t.Run(k.String(), func(t *testing.T) {
			f := newFake(t, nil)
			inst := f.instance(nil)
			done := f.execute(t.Context(), inst, request(newAnswers()))
			f.next(wire.KindExecute)
			want := fmt.Sprintf("%s frame: length at offset 4: %d bytes, at most %d", k, bound+1, bound)
			if !sends {
				want = k.String() + " is not for the server"
			}
			f.send(announced(k, uint32(bound)+1), nil)
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
		"header":     {announced(wire.KindResponses, 64)[:5], "5 of 24 bytes have come"},
		"body":       {announced(wire.KindResponses, wire.MaxBody), "24 of 1073741848 bytes have come"},
		"small body": {append(announced(wire.KindLog, 64), 1, 2, 3), "27 of 88 bytes have come"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFakeWith(t, ConnOptions{frameWait: 20 * time.Millisecond, frameGrace: time.Millisecond})
			inst := f.instance(nil)
			done := f.execute(t.Context(), inst, request(newAnswers()))
			f.next(wire.KindExecute)
			f.send(c.sent, nil)
			err := result(t, done)
			var broken *wire.ProtocolError
			if err == nil || !strings.Contains(err.Error(), c.want) || !errors.As(f.conn.Err(), &broken) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

// TestFrameThatTrickles: what comes a byte at a time comes too slowly, however long
// no pause is.
func TestFrameThatTrickles(t *testing.T) {
	f := newFakeWith(t, ConnOptions{frameWait: 50 * time.Millisecond, frameGrace: time.Millisecond})
	inst := f.instance(nil)
	done := f.execute(t.Context(), inst, request(newAnswers()))
	f.next(wire.KindExecute)
	frame := announced(wire.KindResponses, 1<<20)
	for range 5000 {
		_, _ = f.fds.Write(frame) // fails once the connection has ended
		frame = frame[:1]
		select {
		case err := <-done:
			var broken *wire.ProtocolError
			if err == nil || !strings.Contains(err.Error(), " of 1048600 bytes have come") || !errors.As(f.conn.Err(), &broken) {
				t.Errorf("got %v", err)
			}
			return
		case <-time.After(2 * time.Millisecond):
		}
	}
	t.Fatal("it goes on")
}
