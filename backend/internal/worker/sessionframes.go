package worker

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"time"

	"github.com/nesoserve/neso/backend/internal/worker/linelog"
	"github.com/nesoserve/neso/backend/internal/worker/wire"
	"github.com/nesoserve/neso/internal/logging"
)

// sessionFrames takes the frames that are not about requests: HELLO, READY and FAILED,
// LOG.
type sessionFrames struct {
	shared  guard[sharedMemory]
	calls   guard[calls]
	hello   *wire.Hello
	helloed chan struct{}
	logger  func() *slog.Logger
	rate    *linelog.Rate
	ctx     context.Context // ends with the connection
}

// replied takes the answer to a Call.
func (f *sessionFrames) replied(h wire.Header, body []byte) {
	calls := *f.calls.lock()
	answer := calls[h.ID]
	delete(calls, h.ID)
	f.calls.unlock()
	if answer != nil {
		answer <- reply{h.Kind, append([]byte(nil), body...)}
	}
}

// greeted takes the worker's first word.
func (f *sessionFrames) greeted(h wire.Header, body []byte) error {
	select {
	case <-f.helloed:
		return &wire.ProtocolError{Kind: h.Kind, Field: "kind", Offset: 3, Detail: "came twice"}
	default:
	}
	if err := json.Unmarshal(body, f.hello); err != nil {
		return &wire.ProtocolError{Kind: h.Kind, Field: "body", Detail: err.Error()}
	}
	if f.hello.Protocol != 0 && f.hello.Protocol != wire.Version {
		return &wire.ProtocolError{Kind: h.Kind, Field: "protocol", Detail: fmt.Sprintf("%d, expected %d", f.hello.Protocol, wire.Version)}
	}
	s := f.shared.lock()
	s.borrows, s.out.asked = f.hello.Lent, f.hello.Asks
	f.shared.unlock()
	close(f.helloed)
	return nil
}

// log takes a record of the worker's log.
func (f *sessionFrames) log(body []byte) error {
	r, err := wire.DecodeLog(body)
	if err != nil {
		return err
	}
	level := slog.LevelInfo
	switch r.Level {
	case wire.LogWarn:
		level = slog.LevelWarn
	case wire.LogError:
		level = slog.LevelError
	case wire.LogVerbose:
		level = slog.LevelDebug
	}
	record := slog.NewRecord(time.Now(), level, string(r.Message), 0)
	record.AddAttrs(logging.Source(string(r.File), int(r.Line)))
	h := f.logger().Handler()
	if h.Enabled(f.ctx, level) && f.rate.Allows(len(r.Message)) {
		_ = h.Handle(f.ctx, record) // a log that cannot be written has nowhere to say so
	}
	return nil
}
