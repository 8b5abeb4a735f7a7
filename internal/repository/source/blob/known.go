package blob

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/nesoserve/neso/backend"
)

// known is a listing that stands in for the store's: one that was just taken and
// serves many questions, or the last one before the store went away.
type known struct{ objects []object } // sorted by key

func newKnown(objects []object) *known {
	slices.SortFunc(objects, func(a, b object) int { return cmp.Compare(a.key, b.key) })
	return &known{objects}
}

// list answers as a store does, in one page.
func (k *known) list(prefix string, shallow bool) listing {
	from, _ := slices.BinarySearchFunc(k.objects, prefix, func(o object, prefix string) int { return cmp.Compare(o.key, prefix) })
	var l listing
	for _, o := range k.objects[from:] {
		rest, ok := strings.CutPrefix(o.key, prefix)
		if !ok {
			break
		}
		first, _, deep := strings.Cut(rest, "/")
		if !shallow || !deep {
			l.objects = append(l.objects, o)
			continue
		}
		if p := prefix + first + "/"; len(l.prefixes) == 0 || l.prefixes[len(l.prefixes)-1] != p {
			l.prefixes = append(l.prefixes, p)
		}
	}
	return l
}

// maxSurvey bounds a listing that is kept: of more objects each model is asked for
// by itself.
const maxSurvey = 100_000

// survey is one listing of all models for as long as they are loaded together.
type survey struct {
	turn  chan struct{} // one at a time
	taken bool
	known *known // nil: there is too much
}

// Hold makes one listing answer all questions until the call of what it returns: a
// start with a thousand models would ask some thousand times, on each of its
// replicas.
func (r *Repository) Hold() (release func()) {
	s := &survey{turn: make(chan struct{}, 1)}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.survey = s
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.survey == s {
			r.survey = nil
		}
	}
}

// listing returns what the survey has seen, which takes place with the first
// question, or nil when each is to be asked by itself.
func (s *survey) listing(ctx context.Context, r *Repository) (*known, error) {
	select {
	case s.turn <- struct{}{}:
	case <-ctx.Done():
		return nil, failure("failed to list "+r.uri, ctx.Err())
	}
	defer func() { <-s.turn }()
	if s.taken {
		return s.known, nil
	}
	var objects []object
	err := r.ask(ctx, r.at.prefix, false, func(page listing) error {
		if objects = append(objects, page.objects...); len(objects) > maxSurvey {
			return errTooMany
		}
		return nil
	})
	switch {
	case errors.Is(err, errTooMany):
	case err != nil:
		return nil, err
	default:
		s.known = newKnown(objects)
	}
	s.taken = true
	return s.known, nil
}

var errTooMany = errors.New("too many objects for one listing")

// away is the state of a store that could not be reached when it was opened, until
// it is reached for the first time.
type away struct {
	err   error
	known *known // the models in the cache, nil for none
	tried time.Time
}

const (
	// awayTimeout bounds a look at a store while the cache can stand in for it.
	awayTimeout = 10 * time.Second
	// awayPause is how long after such a look the next one may be.
	awayPause = 15 * time.Second
)

// Away returns why the store could not be reached since it was opened, nil when it
// was. stands says that the models of the cache stand in for it.
func (r *Repository) Away() (stands bool, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.away == nil {
		return false, nil
	}
	return r.away.known != nil, r.away.err
}

// unreachable reports whether an error says that nobody answered, rather than what
// the answer was.
func unreachable(err error) bool {
	if s, ok := errors.AsType[*statusError](err); ok {
		return s.status >= 500
	}
	_, ours := errors.AsType[*backend.Error](err)
	return !ours && !errors.Is(err, context.Canceled)
}

// standIn returns the listing that stands in for the store's, or nil when the store
// is to be asked. look says that the time may be taken to look whether it is back.
func (r *Repository) standIn(ctx context.Context, look bool) (k *known, gone bool, err error) {
	r.mu.Lock()
	a, s := r.away, r.survey
	if a == nil || a.known == nil {
		r.mu.Unlock()
		if s == nil {
			return nil, false, nil
		}
		k, err = s.listing(ctx, r)
		return k, false, err
	}
	look = look && time.Since(a.tried) >= awayPause
	if look {
		a.tried = time.Now()
	}
	r.mu.Unlock()
	if look {
		ctx, cancel := context.WithTimeout(ctx, awayTimeout)
		defer cancel()
		if _, err := r.store.list(ctx, r.at.prefix, "", true, 1); err == nil {
			r.reached()
			return nil, false, nil
		}
	}
	return a.known, true, nil
}

// reached notes that the store has answered.
func (r *Repository) reached() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.away = nil
}

// listings is the directory of the cache that has of each model what the store
// listed when all of it was in the cache.
const listings = "listings"

// maxListing bounds the file of a listing.
const maxListing = 64 << 20

// listed is an object in such a file.
type listed struct {
	Key      string    `json:"key"`
	Size     int64     `json:"size"`
	ETag     string    `json:"etag"`
	Modified time.Time `json:"modified"`
	Version  string    `json:"version,omitempty"`
}

// keep writes down what a model consists of, for a start without the store. What
// cannot be written costs such a start, no more.
func (c *cache) keep(model string, objects []object) {
	if c.own {
		return
	}
	all := make([]listed, len(objects))
	for i, o := range objects {
		all[i] = listed{o.key, o.size, o.etag, o.modified, o.version}
	}
	text, err := json.Marshal(all)
	if err != nil || len(text) > maxListing {
		return
	}
	dir := filepath.Join(c.dir, listings)
	path := filepath.Join(dir, model+".json")
	if old, err := readBounded(path); err == nil && string(old) == string(text) {
		return // flash wears out
	}
	if os.MkdirAll(dir, 0o700) != nil {
		return
	}
	f, err := os.CreateTemp(dir, ".*")
	if err != nil {
		return
	}
	_, err = f.Write(text)
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		_ = os.Remove(f.Name()) // it was made for nothing
	}
}

// forget removes the listings of models that the store does not have any more.
func (c *cache) forget(there func(model string) bool) {
	if c.own {
		return
	}
	entries, err := os.ReadDir(filepath.Join(c.dir, listings))
	if err != nil {
		return
	}
	for _, e := range entries {
		if model, ok := strings.CutSuffix(e.Name(), ".json"); ok && !there(model) {
			_ = os.Remove(filepath.Join(c.dir, listings, e.Name())) // tried again at the next look
		}
	}
}

// kept returns what the listings of the cache name below prefix, nil for nothing.
// Listings that cannot be read, or that name files that are not there, do not count.
func (c *cache) kept(prefix string) *known {
	if c.own {
		return nil
	}
	entries, err := os.ReadDir(filepath.Join(c.dir, listings))
	if err != nil {
		return nil
	}
	var objects []object
	for _, e := range entries {
		if model, ok := strings.CutSuffix(e.Name(), ".json"); ok {
			objects = append(objects, c.keptOf(model, prefix+model+"/")...)
		}
	}
	if len(objects) == 0 {
		return nil
	}
	return newKnown(objects)
}

func (c *cache) keptOf(model, prefix string) []object {
	text, err := readBounded(filepath.Join(c.dir, listings, model+".json"))
	var all []listed
	if err != nil || json.Unmarshal(text, &all) != nil {
		return nil
	}
	objects := make([]object, len(all))
	for i, l := range all {
		objects[i] = object{key: l.Key, size: l.Size, etag: l.ETag, modified: l.Modified, version: l.Version}
		if !strings.HasPrefix(l.Key, prefix) || !strings.HasSuffix(l.Key, "/") && !c.has(model, objects[i]) {
			return nil
		}
	}
	return objects
}

func (c *cache) has(model string, o object) bool {
	info, err := os.Stat(filepath.Join(c.dir, "objects", model, key(o)))
	return err == nil && info.Mode().IsRegular() && info.Size() == o.size
}

func readBounded(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, maxListing))
}
