package shm

import (
	"strings"

	"github.com/nesoserve/neso/backend"
)

// reserved are prefixes of objects that are never a client's own: the memory of
// Triton's Python workers, and named semaphores.
var reserved = [...]string{"triton_python_backend_shm_region_", "sem."}

// maxObject is the longest name of a shared-memory object.
const maxObject = 255

// objectName returns the name of the shared-memory object that a key means: one
// path element, as shm_open takes it, without the slashes before it.
func objectName(region, key string) (string, error) {
	name := strings.TrimLeft(key, "/")
	if name == "" {
		return "", backend.Errorf(backend.InvalidArg, "cannot register shared memory region '%s' - invalid shm key '%s'", region, key)
	}
	for _, prefix := range reserved {
		if strings.HasPrefix(name, prefix) {
			return "", backend.Errorf(backend.InvalidArg,
				"cannot register shared memory region '%s' with key '%s' as the key contains the reserved prefix '%s'", region, key, prefix)
		}
	}
	if name == "." || name == ".." || len(name) > maxObject || strings.ContainsAny(name, "/\x00") {
		return "", unopenable(key)
	}
	return name, nil
}
