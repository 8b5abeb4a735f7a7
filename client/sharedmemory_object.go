package client

import (
	"fmt"
	"sync"

	"github.com/nesoserve/neso/client/internal/mapping"
)

// SharedMemory is an object of system shared memory of this process, for
// RegisterSystemSharedMemory. Linux only.
type SharedMemory struct {
	// Key is its name.
	Key string

	mu   sync.Mutex
	data []byte
}

// NewSharedMemory makes an object of so many bytes by a name that no other has.
func NewSharedMemory(key string, size int) (*SharedMemory, error) {
	data, err := mapping.Create(key, size)
	if err != nil {
		return nil, fmt.Errorf("shared memory: %w", err)
	}
	return &SharedMemory{Key: key, data: data}, nil
}

// Bytes is the memory; it must not be used any more once Close is called.
func (m *SharedMemory) Bytes() []byte {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.data
}

// Close takes the memory away, and its name. Unregister it first.
func (m *SharedMemory) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.data == nil {
		return nil
	}
	data := m.data
	m.data = nil
	return mapping.Remove(m.Key, data)
}
