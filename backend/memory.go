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
	var all []MemoryUsage
	for _, part := range parts {
		for i, u := range part {
			same := func(o MemoryUsage) bool { return o.Type == u.Type && o.ID == u.ID }
			if slices.ContainsFunc(part[i+1:], same) {
				continue
			}
			if k := slices.IndexFunc(all, same); k >= 0 {
				all[k].Bytes += u.Bytes
			} else {
				all = append(all, u)
			}
		}
	}
	slices.SortFunc(all, func(a, b MemoryUsage) int { return cmp.Or(cmp.Compare(a.Type, b.Type), cmp.Compare(a.ID, b.ID)) })
	return all
}
