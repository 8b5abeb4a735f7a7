package model

import (
	"path/filepath"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/instance"
)

// InstanceStandings returns how the instances are; an ensemble has none.
func (m *Model) InstanceStandings() []instance.Standing {
	if m.pool == nil {
		return nil
	}
	all := m.pool.Standings()
	if u, ok := m.loaded.(backend.ProcessUser); ok {
		_ = instance.Guard(m.logger, "process of model "+m.config.Name, func() error {
			process, memory := u.Process(), uint64(0)
			if has, ok := m.loaded.(backend.MemoryUser); ok {
				memory = has.HostMemory()
			}
			for i := range all {
				if all[i].Process == 0 {
					all[i].Process, all[i].Memory = process, max(all[i].Memory, memory)
				}
			}
			return nil
		})
	}
	return all
}

// mostConfig bounds what Given reads, in bytes.
const mostConfig = 1 << 20

// Given returns the configuration file in the model's directory, by the name of the
// configuration that was chosen for the server or "", as it is now; nil where there is
// none.
func (m *Model) Given(name string) (file string, text []byte) {
	if m.directory == "" {
		return "", nil
	}
	files := []string{"config.pbtxt"}
	if name != "" {
		files = []string{filepath.Join("configs", name+".pbtxt"), "config.pbtxt"}
	}
	for _, file := range files {
		if text, err := readInside(m.directory, file, mostConfig); err == nil {
			return filepath.ToSlash(file), text
		}
	}
	return "", nil
}
