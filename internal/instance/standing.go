package instance

import (
	"time"

	"github.com/nesoserve/neso/backend"
)

// Standing is how one instance is, for people.
type Standing struct {
	Name, Kind string
	Device     int
	// Passive says that it is given no requests.
	Passive bool
	// Batches it holds at present.
	Batches int
	// Down says that it can begin nothing, Fails that it refuses what it is given.
	Down, Fails bool
	// Took is what half of its executions stay below of late; 0 before the first.
	Took time.Duration
	// Process is that of the instance, and Memory what it has in bytes; 0 where that
	// is not known.
	Process int
	Memory  uint64
}

// Standings returns how the instances are that there are.
func (p *Pool) Standings() []Standing {
	var all []Standing
	for _, s := range p.slots() {
		l := s.alive()
		if l == nil {
			continue
		}
		st := Standing{
			Name: s.cfg.Name, Kind: s.cfg.Kind, Device: s.cfg.Device, Passive: s.cfg.Passive, Batches: int(s.load.Load()),
			Down: s.downs.Load() != 0, Fails: s.fails.Load(), Took: time.Duration(s.took.Load()),
		}
		if !l.abandoned() {
			_ = Guard(p.o.Logger, "process of instance "+s.cfg.Name, func() error {
				if u, ok := l.instance.(backend.ProcessUser); ok {
					st.Process = u.Process()
				}
				if u, ok := l.instance.(backend.MemoryUser); ok {
					st.Memory = u.HostMemory()
				}
				return nil
			})
		}
		all = append(all, st)
	}
	return all
}
