package host

import (
	"encoding/json"

	"github.com/nesoserve/neso/backend/internal/worker/guest"
	"github.com/nesoserve/neso/backend/internal/worker/wire"
)

// Plugin is the way to the server of a library that is no backend: a repository agent or
// a response cache. It is the part of a guest.Handler that both have.
type Plugin struct{ guest *guest.Guest }

// Join takes over the inherited channels.
func (p *Plugin) Join(h guest.Handler) (err error) {
	if p.guest, err = guest.Connect(h); err == nil {
		p.guest.Watch(func([]byte) {}, func([]byte) {})
	}
	return err
}

// Guest is the connection.
func (p *Plugin) Guest() *guest.Guest { return p.guest }

// Log sends a record to the server's log. Any goroutine may call it.
func (p *Plugin) Log(level uint8, file string, line int, message string) error {
	return p.guest.Log(level, file, line, message)
}

// Measure does an operation on a metric of the library's; answer may be nil.
func (p *Plugin) Measure(m Metric, answer any) error {
	text, err := p.guest.Ask(wire.KindMetric, m)
	if err != nil || answer == nil {
		return err
	}
	return json.Unmarshal(text, answer)
}

// Instance implements guest.Handler: what there is is served, or there is none.
func (p *Plugin) Instance(uint32) (guest.Instance, bool) { return guest.Instance{}, false }
