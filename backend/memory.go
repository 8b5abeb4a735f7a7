package backend

import (
	"cmp"
	"slices"
)

// MemoryUsage is memory of one kind that a model has.
type MemoryUsage struct {
	// Type is "CPU", "CPU_PINNED" or "GPU", ID the number of the device.
	Type  string `json:"type"`
	ID    int64  `json:"id"`
	Bytes uint64 `json:"byte_size"`
}

// MemoryReporter is a Model whose code may say itself what memory the model and its
// instances have: the statistics have that in place of what MemoryUser says.
type MemoryReporter interface {
	// ReportedMemory returns the sums, one for each type and device; ok is false where
	// nothing was said. It may be called as MemoryUser.HostMemory may.
	ReportedMemory() (usage []MemoryUsage, ok bool)
}

// SumMemory adds up what the parts of a model say, ordered by type and device. Of several
// figures of one part for the same type and device the last one counts.
func SumMemory(parts ...[]MemoryUsage) []MemoryUsage {
	type place struct {
		kind string
		id   int64
	}
	sums := map[place]uint64{}
	for _, part := range parts {
		last := map[place]uint64{}
		for _, u := range part {
			last[place{u.Type, u.ID}] = u.Bytes
		}
		for p, bytes := range last {
			sums[p] += bytes
		}
	}
	var all []MemoryUsage
	for p, bytes := range sums {
		all = append(all, MemoryUsage{Type: p.kind, ID: p.id, Bytes: bytes})
	}
	slices.SortFunc(all, func(a, b MemoryUsage) int { return cmp.Or(cmp.Compare(a.Type, b.Type), cmp.Compare(a.ID, b.ID)) })
	return all
}
