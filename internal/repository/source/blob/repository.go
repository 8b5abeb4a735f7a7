package blob

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/repository/layout"
	"github.com/nesoserve/neso/internal/repository/source"
)

// Options say where downloads go.
type Options struct {
	// CacheDir keeps downloads from one start to the next. Empty means a temporary
	// directory, below the one that TRITON_AWS_MOUNT_DIRECTORY,
	// TRITON_GCS_MOUNT_DIRECTORY or TRITON_AZURE_MOUNT_DIRECTORY names, that goes
	// with the repository.
	CacheDir string
	// Patient opens a store that cannot be reached: each use tries it anew.
	Patient bool

	getenv func(string) string
	http   *http.Client
	pause  time.Duration
}

// Repository is one --model-repository in an object store.
type Repository struct {
	uri    string
	at     location
	store  store
	cache  *cache
	loader *downloader
	http   *http.Client

	mu     sync.Mutex
	models map[string]*sync.Mutex // held while a model is fetched
	survey *survey                // nil: each question is asked by itself
	away   *away                  // nil: the store has answered
}

// maxObjects bounds a listing.
const maxObjects = 1 << 20

// pageSize is how many objects a page of a listing has; no store gives more.
const pageSize = 1000

// openTimeout bounds the first look at a store.
const openTimeout = 2 * time.Minute

// Open connects to the store that uri names and checks that it answers. When it
// cannot be reached, models that the cache directory has whole stand in for it.
func Open(ctx context.Context, uri string, o Options) (*Repository, error) {
	ctx, cancel := context.WithTimeout(ctx, openTimeout)
	defer cancel()
	p, err := parseURI(uri)
	if err != nil {
		return nil, err
	}
	if o.http == nil {
		o.http = newHTTPClient()
	}
	if o.getenv == nil {
		o.getenv = os.Getenv
	}
	if o.pause == 0 {
		o.pause = defaultPause
	}
	r := &Repository{uri: uri, at: p, http: o.http, models: map[string]*sync.Mutex{}}
	if r.store, err = connect(ctx, uri, p, o); err != nil {
		return nil, r.unusable(err)
	}
	mount := map[string]string{"s3": "AWS", "gs": "GCS", "as": "AZURE"}[p.scheme]
	if r.cache, err = openCache(o.CacheDir, o.getenv("TRITON_"+mount+"_MOUNT_DIRECTORY"), uri); err != nil {
		r.http.CloseIdleConnections()
		return nil, backend.Errorf(backend.Internal, "failed to make the local copy of %s: %v", uri, err)
	}
	r.loader = newDownloader(r.store, o.pause)
	if err := r.greet(ctx, o.Patient); err != nil {
		_ = r.Close() // the first error says more
		return nil, r.unusable(err)
	}
	return r, nil
}

// greet checks that the store answers, or that there is a reason to go on without.
func (r *Repository) greet(ctx context.Context, patient bool) error {
	kept := r.cache.kept(r.at.prefix)
	if kept != nil {
		var cancel func()
		ctx, cancel = context.WithTimeout(ctx, awayTimeout)
		defer cancel()
	}
	_, err := r.store.list(ctx, r.at.prefix, "", true, 1)
	if err == nil || !unreachable(err) || kept == nil && !patient {
		return err
	}
	r.away = &away{err: r.unusable(err), known: kept, tried: time.Now()}
	return nil
}

func connect(ctx context.Context, uri string, p location, o Options) (store, error) {
	given, err := readCredentials(o.getenv)
	if err != nil {
		return nil, err
	}
	switch p.scheme {
	case "s3":
		var c *s3Credential
		if given != nil {
			found, err := match(given.S3, uri)
			if err != nil {
				return nil, err
			}
			c = &found
		}
		return openS3(ctx, p, c, o)
	case "as":
		var c *azureCredential
		if given != nil {
			found, err := match(given.AS, uri)
			if err != nil {
				return nil, err
			}
			c = &found
		}
		return openAzure(ctx, p, c, o)
	default:
		file := ""
		if given != nil {
			if file, err = match(given.GS, uri); err != nil {
				return nil, err
			}
		}
		return openGCS(ctx, p, file, given != nil, o)
	}
}

// unusable is the error of a store that cannot be opened, in the peer's words.
func (r *Repository) unusable(err error) error {
	if _, ok := errors.AsType[*backend.Error](err); ok {
		return err
	}
	name := map[string]string{"s3": "S3 filesystem", "gs": "GCS", "as": "Azure filesystem"}[r.at.scheme]
	exception, message := "", err.Error()
	if s, ok := errors.AsType[*statusError](err); ok {
		exception, message = cmp.Or(s.code, fmt.Sprintf("HTTP status %d", s.status)), s.message
	}
	return backend.Errorf(backend.Internal, "Unable to create %s client. Check account credentials. Exception: '%s' Message: '%s' (%s)", name,
		exception, message, r.uri)
}

// Path returns the URI as it was given.
func (r *Repository) Path() string { return r.uri }

// Close gives back the local copies. Nothing may use them any more.
func (r *Repository) Close() error {
	r.http.CloseIdleConnections()
	return r.cache.close()
}

// each calls f with every page of a listing, or of what stands in for it.
func (r *Repository) each(ctx context.Context, prefix string, shallow, look bool, f func(listing)) (gone bool, err error) {
	k, gone, err := r.standIn(ctx, look)
	if err != nil {
		return false, err
	}
	if k != nil {
		f(k.list(prefix, shallow))
		return gone, nil
	}
	return false, r.ask(ctx, prefix, shallow, func(page listing) error { f(page); return nil })
}

// ask calls f with every page of the store's listing.
func (r *Repository) ask(ctx context.Context, prefix string, shallow bool, f func(listing) error) error {
	token, count := "", 0
	for {
		page, err := r.store.list(ctx, prefix, token, shallow, pageSize)
		if err != nil {
			return failure("failed to list "+r.uri, err)
		}
		if count += len(page.objects) + len(page.prefixes); count > maxObjects {
			return backend.Errorf(backend.Internal, "%s holds more than %d objects", r.uri, maxObjects)
		}
		if err := f(page); err != nil {
			return err
		}
		if page.next == "" {
			r.reached()
			return nil
		}
		if page.next == token {
			return backend.Errorf(backend.Internal, "the listing of %s does not end", r.uri)
		}
		token = page.next
	}
}

// List returns the first parts of the names below the repository's path.
func (r *Repository) List(ctx context.Context) ([]string, error) {
	found := map[string]bool{}
	gone, err := r.each(ctx, r.at.prefix, true, false, func(page listing) {
		for _, p := range page.prefixes {
			if name := r.model(p); name != "" {
				found[name] = true
			}
		}
	})
	if err == nil && !gone {
		r.cache.forget(func(model string) bool { return found[model] || layout.NoModel(model) })
	}
	return slices.Sorted(maps.Keys(found)), err
}

// model returns the model of a list that an object or a prefix belongs to, or "".
func (r *Repository) model(key string) string {
	if name := r.named(key); !layout.NoModel(name) {
		return name
	}
	return ""
}

// named returns the model, in the list or not, that an object belongs to, or "".
func (r *Repository) named(key string) string {
	rest, ok := strings.CutPrefix(key, r.at.prefix)
	name, _, inside := strings.Cut(rest, "/")
	if !ok || !inside || !layout.MayLoad(name) || !filepath.IsLocal(name) || strings.ContainsAny(name, "\\\x00") {
		return ""
	}
	return name
}

// Has reports whether there is anything below the model's name.
func (r *Repository) Has(ctx context.Context, model string) (bool, error) {
	if model == "" || r.named(r.at.prefix+model+"/") != model {
		return false, nil
	}
	prefix := r.at.prefix + model + "/"
	k, _, err := r.standIn(ctx, false)
	if err == nil && k != nil {
		if len(k.list(prefix, false).objects) > 0 {
			return true, nil
		}
		k, _, err = r.standIn(ctx, true) // before it is said that there is none
	}
	if err != nil {
		return false, err
	}
	if k != nil {
		if _, err := r.Away(); err != nil {
			return false, backend.Errorf(backend.Unavailable, "the cache does not have '%s', and the store cannot be reached: %v", model, err)
		}
		return false, nil
	}
	page, err := r.store.list(ctx, prefix, "", false, 1)
	if err != nil {
		return false, failure("failed to list "+r.uri, err)
	}
	r.reached()
	return len(page.objects) > 0, nil
}

// Marks returns the names of List with digests of what the listing shows.
func (r *Repository) Marks(ctx context.Context) (map[string]string, error) {
	lines := map[string][]string{}
	_, err := r.each(ctx, r.at.prefix, false, true, func(page listing) {
		for _, o := range page.objects {
			if name := r.model(o.key); name != "" {
				lines[name] = append(lines[name], fmt.Sprintf("%q %q %d\n", o.key, o.etag, o.size))
			}
		}
	})
	if err != nil {
		return nil, err
	}
	marks := make(map[string]string, len(lines))
	for name, all := range lines {
		slices.Sort(all)
		sum := sha256.Sum256([]byte(strings.Join(all, "")))
		marks[name] = hex.EncodeToString(sum[:16])
	}
	return marks, nil
}

// fetches is how often a model is listed anew when it changes while it is read.
const fetches = 3

// Fetch downloads what is not in the cache and links the model's files into a
// directory of their own.
func (r *Repository) Fetch(ctx context.Context, model string) (source.Directory, error) {
	defer r.claim(model)()
	what := "failed to read model '" + model + "' from " + r.uri
	objects, err := r.cache.objects(model)
	if err != nil {
		return source.Directory{}, failure(what, &diskError{err})
	}
	var c contents
	for attempt := range fetches {
		if c, err = r.contents(ctx, model, attempt > 0); err != nil {
			return source.Directory{}, err
		}
		if err = r.loader.all(ctx, objects, c.files); !errors.Is(err, errChanged) || attempt == fetches-1 {
			break
		}
	}
	if err != nil {
		return source.Directory{}, failure(what, err)
	}
	dir, release, err := r.cache.tree(model, objects, c.files)
	if err != nil {
		return source.Directory{}, failure(what, &diskError{err})
	}
	prune(objects, c.files)
	if !c.gone {
		r.cache.keep(model, c.all)
	}
	return source.Directory{Path: dir, Release: release, Origin: r.uri + "/" + model}, nil
}

func (r *Repository) claim(model string) (release func()) {
	r.mu.Lock()
	m := r.models[model]
	if m == nil {
		m = &sync.Mutex{}
		r.models[model] = m
	}
	r.mu.Unlock()
	m.Lock()
	return m.Unlock
}

// contents are what a listing says of a model.
type contents struct {
	files []file
	all   []object // also what is no file
	gone  bool     // they are those of the cache
}

// contents lists a model's files; fresh asks the store itself. Names that would
// lead out of its directory fail the model.
func (r *Repository) contents(ctx context.Context, model string, fresh bool) (c contents, err error) {
	prefix := r.at.prefix + model + "/"
	var bad error
	take := func(page listing) {
		c.all = append(c.all, page.objects...)
		for _, o := range page.objects {
			path, ok := strings.CutPrefix(o.key, prefix)
			if ok && path == "" {
				continue // the mark of the model's own directory
			}
			if local := filepath.FromSlash(strings.TrimSuffix(path, "/")); !ok || !filepath.IsLocal(local) || strings.ContainsAny(path, "\\\x00") ||
				strings.Contains(path, "//") {
				bad = backend.Errorf(backend.InvalidArg, "model '%s' in %s holds an object whose name is no path of a file: %q", model, r.uri, o.key)
				continue
			}
			c.files = append(c.files, file{path: path, object: o})
		}
	}
	if fresh {
		err = r.ask(ctx, prefix, false, func(page listing) error { take(page); return nil })
	} else {
		c.gone, err = r.each(ctx, prefix, false, true, take)
	}
	switch {
	case err != nil:
		return c, err
	case bad != nil:
		return c, bad
	case len(c.files) == 0:
		return c, backend.Errorf(backend.NotFound, "no directory '%s' in %s", model, r.uri)
	}
	for _, f := range c.files {
		if c.gone && !strings.HasSuffix(f.path, "/") && !r.cache.has(model, f.object) {
			return c, backend.Errorf(backend.Unavailable, "the cache does not have %s, and %s cannot be reached", f.key, r.uri)
		}
	}
	return c, nil
}
