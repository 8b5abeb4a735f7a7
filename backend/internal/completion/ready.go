package completion

import (
	"fmt"
	"sync"
	"time"

	"github.com/nesoserve/neso/backend"
)

// readyFor is how long a model that has completed a configuration waits for its
// load.
const readyFor = time.Minute

// Ready keeps what was loaded to complete a configuration until the load of the
// version that should follow takes it, so that a file is read once. What is not
// taken within a minute is dropped. The zero value is ready to use.
type Ready[T Dropper] struct {
	mu     sync.Mutex
	kept   map[string]*kept[T]
	closed bool
}

// Dropper counts its users. Drop ends one use.
type Dropper interface{ Drop() }

type kept[T Dropper] struct {
	value  T
	expire *time.Timer
}

// Keep takes v over for the load of the version; one that was there is dropped.
func (r *Ready[T]) Keep(cfg *backend.Config, v T) {
	key, k := readyKey(cfg), &kept[T]{value: v}
	r.mu.Lock()
	old, closed := r.kept[key], r.closed
	if !closed {
		k.expire = time.AfterFunc(readyFor, func() { r.expire(key, k) })
		if r.kept == nil {
			r.kept = map[string]*kept[T]{}
		}
		r.kept[key] = k
	}
	r.mu.Unlock()
	if old != nil {
		old.expire.Stop()
		old.value.Drop()
	}
	if closed {
		v.Drop()
	}
}

// Take hands out what is kept for the version, if there is something: it is the
// caller's then.
func (r *Ready[T]) Take(cfg *backend.Config) (T, bool) {
	return r.TakeIf(cfg, func(T) bool { return true })
}

// TakeIf is Take for what the caller wants; anything else stays.
func (r *Ready[T]) TakeIf(cfg *backend.Config, wanted func(T) bool) (v T, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	key := readyKey(cfg)
	k := r.kept[key]
	if k == nil || !wanted(k.value) {
		return v, false
	}
	delete(r.kept, key)
	k.expire.Stop()
	return k.value, true
}

// Close drops all that is kept, and all that is to be kept from now on.
func (r *Ready[T]) Close() {
	r.mu.Lock()
	all := r.kept
	r.kept, r.closed = nil, true
	r.mu.Unlock()
	for _, k := range all {
		k.expire.Stop()
		k.value.Drop()
	}
}

// expire drops k unless it was taken or replaced in the meantime.
func (r *Ready[T]) expire(key string, k *kept[T]) {
	r.mu.Lock()
	found := r.kept[key] == k
	if found {
		delete(r.kept, key)
	}
	r.mu.Unlock()
	if found {
		k.value.Drop()
	}
}

func readyKey(cfg *backend.Config) string {
	return fmt.Sprint(cfg.Name, "\x00", cfg.Version, "\x00", cfg.VersionDirectory, "\x00", cfg.Filename)
}
