package neso

import (
	"strings"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/shm"
)

// access returns which clients may share memory with the server.
func (s *Server) access() (shm.Access, error) {
	switch strings.ToLower(s.SharedMemory) {
	case "", "local":
		return shm.LocalPeers, nil
	case "always":
		return shm.Everyone, nil
	case "never":
		return shm.Nobody, nil
	}
	return 0, backend.Errorf(backend.InvalidArg, "invalid client shared memory: got %q, expected one of local, always, never", s.SharedMemory)
}
