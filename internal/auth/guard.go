package auth

import (
	"crypto/sha256"
	"crypto/subtle"
	"path"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nesoserve/neso/backend"
)

// Key is one entry of an auth file.
type Key struct {
	Name   string
	Digest [sha256.Size]byte // of the key
	Scopes Scope
	// Models are patterns of path.Match; nil means all models.
	Models []string
	Quota  Quota

	usage *Usage
}

// Sees reports whether the key may know of a model.
func (k *Key) Sees(model string) bool {
	if k.Models == nil {
		return true
	}
	return slices.ContainsFunc(k.Models, func(pattern string) bool {
		ok, _ := path.Match(pattern, model) // patterns are checked when the file is read
		return ok
	})
}

// Keys is the content of an auth file.
type Keys struct {
	// GuardedHealth asks for a key also where somebody asks whether the server
	// lives or is ready.
	GuardedHealth bool
	List          []*Key

	// byPrefix finds a key by the first bytes of its digest. What the look-up
	// tells by its time is of no use: nobody can choose the digest of a guess.
	byPrefix map[[8]byte]*Key
}

func (s *Keys) find(digest *[sha256.Size]byte) *Key {
	k := s.byPrefix[[8]byte(digest[:8])]
	if k == nil || subtle.ConstantTimeCompare(k.Digest[:], digest[:]) != 1 {
		return nil
	}
	return k
}

// refreshEvery is how often the file behind the keys is looked at, at most, and
// only when a request comes.
const refreshEvery = time.Second

// Guard knows the keys. It is safe for concurrent use; a nil Guard asks for
// nothing.
type Guard struct {
	keys       atomic.Pointer[Keys]
	refresh    func()
	refreshing sync.Mutex
	checked    atomic.Int64 // ns of backend.Now

	unknown, missing atomic.Uint64

	mu    sync.Mutex
	usage map[string]*Usage // by name, of the present keys
}

// NewGuard returns a guard with the keys of a file. refresh, if not nil, is
// called now and then on the goroutine of a request, by one at a time, and may
// call Replace.
func NewGuard(keys *Keys, refresh func()) *Guard {
	g := &Guard{refresh: refresh}
	g.checked.Store(backend.Now())
	g.Replace(keys)
	return g
}

// Replace puts new keys in the place of the old ones. A key that keeps its name
// keeps its use of quotas. Callers with a key that is gone are refused from now
// on.
func (g *Guard) Replace(keys *Keys) {
	g.mu.Lock()
	defer g.mu.Unlock()
	usage := make(map[string]*Usage, len(keys.List))
	keys.byPrefix = make(map[[8]byte]*Key, len(keys.List))
	for _, k := range keys.List {
		k.usage = g.usage[k.Name]
		if k.usage == nil {
			k.usage = &Usage{name: k.Name}
		}
		k.usage.quota.Store(&k.Quota)
		k.usage.share.Bound(k.Quota.QueuedBytes)
		usage[k.Name] = k.usage
		keys.byPrefix[[8]byte(k.Digest[:8])] = k
	}
	g.usage = usage
	g.keys.Store(keys)
}

// present returns the keys, after a look at the file when it is time.
func (g *Guard) present() *Keys {
	now, last := backend.Now(), g.checked.Load()
	if now-last >= int64(refreshEvery) && g.checked.CompareAndSwap(last, now) && g.refresh != nil && g.refreshing.TryLock() {
		g.refresh()
		g.refreshing.Unlock()
	}
	return g.keys.Load()
}

// Caller is who has sent a request or opened a stream. A nil Caller may do
// everything: no keys are asked for. It is safe for concurrent use, as a stream
// has more than one goroutine.
type Caller struct {
	g      *Guard
	at     atomic.Pointer[standing]
	usage  *Usage // of the key that it came with
	digest [sha256.Size]byte
}

// standing is a caller's key in one version of the file.
type standing struct {
	keys *Keys
	key  *Key // nil for one that needs none, or is gone
}

const (
	textMissing = "this server asks for a key: send it as 'Authorization: Bearer KEY' or 'X-API-Key: KEY'"
	textUnknown = "the key is not known to this server"
)

// Admit finds the caller by the headers of a request and checks that it may do
// op, on the model if one is named already. Errors are Unauthenticated or
// PermissionDenied.
func (g *Guard) Admit(authorization, apiKey string, op Operation, model string) (*Caller, *backend.Error) {
	if g == nil {
		return nil, nil
	}
	c, at := &Caller{g: g}, &standing{keys: g.present()}
	c.at.Store(at)
	open := op == Probe && !at.keys.GuardedHealth
	secret := presented(authorization, apiKey)
	if secret == "" {
		if open {
			return c, nil
		}
		g.missing.Add(1)
		return nil, &backend.Error{Code: backend.Unauthenticated, Message: textMissing}
	}
	c.digest = sha256.Sum256([]byte(secret))
	if at.key = at.keys.find(&c.digest); at.key == nil {
		if open {
			return c, nil
		}
		g.unknown.Add(1)
		return nil, &backend.Error{Code: backend.Unauthenticated, Message: textUnknown}
	}
	c.usage = at.key.usage
	if err := c.May(op, model); err != nil {
		return nil, err
	}
	return c, nil
}

// presented takes the key out of the two headers that may hold it.
func presented(authorization, apiKey string) string {
	if scheme, rest, ok := strings.Cut(authorization, " "); ok && strings.EqualFold(scheme, "bearer") {
		if secret := strings.TrimSpace(rest); secret != "" {
			return secret
		}
	}
	return apiKey
}

// May checks an operation, on the model if the name is not empty.
func (c *Caller) May(op Operation, model string) *backend.Error {
	if c == nil {
		return nil
	}
	return c.may(c.refreshed(), op, model)
}

// may is May with the key as it is now.
func (c *Caller) may(at *standing, op Operation, model string) *backend.Error {
	if op == Probe && !at.keys.GuardedHealth {
		return nil
	}
	k := at.key
	if k == nil {
		c.g.unknown.Add(1)
		return &backend.Error{Code: backend.Unauthenticated, Message: textUnknown}
	}
	if k.Scopes&needs[op] == 0 {
		k.usage.refused[byScope].Add(1)
		return backend.Errorf(backend.PermissionDenied, "key '%s' may not do this: it needs the scope %s", k.Name, needs[op])
	}
	if op == Metrics && k.Models != nil {
		k.usage.refused[byModel].Add(1)
		return backend.Errorf(backend.PermissionDenied, "key '%s' is limited to some models, and the metrics speak of all", k.Name)
	}
	if model != "" && !k.Sees(model) {
		k.usage.refused[byModel].Add(1)
		return backend.Errorf(backend.PermissionDenied, "key '%s' is not for model '%s'", k.Name, model)
	}
	return nil
}

// Can reports whether the caller's key has a scope for op, and counts no refusal.
func (c *Caller) Can(op Operation) bool {
	if c == nil {
		return true
	}
	k := c.at.Load().key
	return k != nil && k.Scopes&needs[op] != 0
}

// refreshed looks the caller's key up where the file has changed: a stream may
// live longer than its key. A key that is gone stays so.
func (c *Caller) refreshed() *standing {
	at := c.at.Load()
	if now := c.g.present(); now != at.keys && at.key != nil {
		at = &standing{now, now.find(&c.digest)}
		c.at.Store(at)
	}
	return at
}

// Enter checks one inference request for a model and takes its share of the
// quotas. The usage that it returns must get Leave with the same bytes; it is
// nil for a nil Caller. A request of which more is to come declares how many bytes
// it will be; the others are for Usage.Grow as they come.
func (c *Caller) Enter(model string, bytes, declared int64) (*Usage, *backend.Error) {
	if c == nil {
		return nil, nil
	}
	at := c.refreshed()
	if err := c.may(at, Inference, model); err != nil {
		return nil, err
	}
	u := at.key.usage
	if err := u.enter(&at.key.Quota, max(0, bytes), max(0, bytes, declared), backend.Now()); err != nil {
		return nil, err
	}
	return u, nil
}

// Sees reports whether the caller may know of a model.
func (c *Caller) Sees(model string) bool {
	if c == nil {
		return true
	}
	k := c.at.Load().key
	return k != nil && k.Sees(model)
}

// Snapshot is what the metrics show.
type Snapshot struct {
	Keys             []Numbers // by name
	Unknown, Missing uint64    // requests with a key that nobody has, and without one
}

// Snapshot returns the counts; nil for a nil Guard.
func (g *Guard) Snapshot() *Snapshot {
	if g == nil {
		return nil
	}
	s := &Snapshot{Unknown: g.unknown.Load(), Missing: g.missing.Load()}
	for _, k := range g.keys.Load().List {
		s.Keys = append(s.Keys, k.usage.numbers())
	}
	return s
}
