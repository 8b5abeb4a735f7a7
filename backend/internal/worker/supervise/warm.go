package supervise

import (
	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/backend/internal/completion"
)

// Warm keeps workers that have completed a configuration, and so have loaded
// the model, for the instance in whose name they were started. The zero value is
// ready to use.
type Warm struct{ sessions completion.Ready[*Session] }

// Keep takes over the worker that has completed the version's configuration,
// until the instance comes or a minute has passed.
func (w *Warm) Keep(cfg *backend.Config, s *Session) { w.sessions.Keep(cfg, s) }

// Take hands out the worker that was started for the instance of the version,
// nil if there is none that lives.
func (w *Warm) Take(cfg *backend.Config, instance string) *Session {
	s, ok := w.sessions.TakeIf(cfg, func(s *Session) bool { return s.Name() == instance })
	if !ok {
		return nil
	}
	if s.Conn.Err() != nil { // it died meanwhile
		s.Kill()
		return nil
	}
	return s
}

// Close stops the workers that wait, and those that would wait from now on.
func (w *Warm) Close() { w.sessions.Close() }

// Drop stops the worker: it implements completion.Dropper.
func (s *Session) Drop() { s.Stop() }
