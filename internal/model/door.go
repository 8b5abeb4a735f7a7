package model

import (
	"github.com/nesoserve/neso/internal/lane"
	"github.com/nesoserve/neso/internal/processors"
)

// ahead is how many requests with large bodies are in, beyond those that can be worked
// on: their bodies come while others run.
const ahead = 4

// Door is for a request before its large body is read. Where requests stand in line for
// the instances, one after the other, it waits until there is something to do with the
// body, and counts as pending meanwhile. Who forms batches, answers from a cache or knows
// priorities has to see what there is: then the result is nil.
func (m *Model) Door(gone <-chan struct{}) *lane.Pass {
	if m.pool == nil || m.cache != nil || !m.waits() {
		return nil
	}
	return m.door.Enter(2*(m.pool.Count()*m.pool.Depth()+processors.Count())+ahead, gone, m.stats)
}
