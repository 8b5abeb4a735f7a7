package residency

// Standing is how a model is.
type Standing struct {
	Name  string
	State State
	Why   Reason
	// Failure is why its last load failed; Bytes what it has, or is expected to need.
	Failure error
	Bytes   int64
	Traits  Traits
	// Waiting is how many requests wait for it.
	Waiting int
}

// Standing returns how a model is; one that it does not know is out.
func (m *Machine) Standing(name string) Standing {
	s := Standing{Name: name}
	if e := m.models[name]; e != nil {
		s.State, s.Why, s.Failure, s.Bytes, s.Traits = e.state, e.why, e.failure, e.bytes, e.traits
	}
	if w := m.wants[name]; w != nil {
		s.Waiting = len(w.waiters)
	}
	return s
}

// Totals are the sums over all models.
type Totals struct {
	Counts
	// Models counts those in each state, Bytes what all have that are not out.
	Models [states]int
	Bytes  int64
	// Waiting requests, those of models included; Queued models that wait to be loaded.
	Waiting, Queued int
}

// Totals returns them.
func (m *Machine) Totals() Totals {
	t := Totals{Counts: m.counts}
	for _, e := range m.models {
		t.Models[e.state]++
		if e.state != Out {
			t.Bytes += e.bytes
		}
	}
	for name, w := range m.wants {
		t.Waiting += len(w.waiters)
		if m.models[name].state == Out {
			t.Queued++
		}
	}
	return t
}
