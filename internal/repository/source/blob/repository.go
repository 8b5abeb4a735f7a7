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
}

// maxObjects bounds a listing.
const maxObjects = 1 << 20

// pageSize is how many objects a page of a listing has; no store gives more.
const pageSize = 1000

// openTimeout bounds the first look at a store.
const openTimeout = 2 * time.Minute

// Open connects to the store that uri names and checks that it answers.
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
	if _, err := r.store.list(ctx, p.prefix, "", true, 1); err != nil {
		r.http.CloseIdleConnections()
		return nil, r.unusable(err)
	}
	mount := map[string]string{"s3": "AWS", "gs": "GCS", "as": "AZURE"}[p.scheme]
	if r.cache, err = openCache(o.CacheDir, o.getenv("TRITON_"+mount+"_MOUNT_DIRECTORY"), uri); err != nil {
		r.http.CloseIdleConnections()
		return nil, backend.Errorf(backend.Internal, "failed to make the local copy of %s: %v", uri, err)
	}
	r.loader = newDownloader(r.store, o.pause)
	return r, nil
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

// each calls f with every page of a listing.
func (r *Repository) each(ctx context.Context, prefix string, shallow bool, f func(listing)) error {
	token, count := "", 0
	for {
		page, err := r.store.list(ctx, prefix, token, shallow, pageSize)
		if err != nil {
			return failure("failed to list "+r.uri, err)
		}
		if count += len(page.objects) + len(page.prefixes); count > maxObjects {
			return backend.Errorf(backend.Internal, "%s holds more than %d objects", r.uri, maxObjects)
		}
		f(page)
		if page.next == "" {
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
	err := r.each(ctx, r.at.prefix, true, func(page listing) {
		for _, p := range page.prefixes {
			if name := r.model(p); name != "" {
				found[name] = true
			}
		}
	})
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
	page, err := r.store.list(ctx, r.at.prefix+model+"/", "", false, 1)
	if err != nil {
		return false, failure("failed to list "+r.uri, err)
	}
	return len(page.objects) > 0, nil
}

// Marks returns the names of List with digests of what the listing shows.
func (r *Repository) Marks(ctx context.Context) (map[string]string, error) {
	lines := map[string][]string{}
	err := r.each(ctx, r.at.prefix, false, func(page listing) {
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
	var files []file
	for attempt := range fetches {
		if files, err = r.files(ctx, model); err != nil {
			return source.Directory{}, err
		}
		if err = r.loader.all(ctx, objects, files); !errors.Is(err, errChanged) || attempt == fetches-1 {
			break
		}
	}
	if err != nil {
		return source.Directory{}, failure(what, err)
	}
	dir, release, err := r.cache.tree(model, objects, files)
	if err != nil {
		return source.Directory{}, failure(what, &diskError{err})
	}
	prune(objects, files)
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

// files lists a model's files. Names that would lead out of its directory fail
// the model.
func (r *Repository) files(ctx context.Context, model string) ([]file, error) {
	prefix := r.at.prefix + model + "/"
	var files []file
	var bad error
	err := r.each(ctx, prefix, false, func(page listing) {
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
			files = append(files, file{path: path, object: o})
		}
	})
	switch {
	case err != nil:
		return nil, err
	case bad != nil:
		return nil, bad
	case len(files) == 0:
		return nil, backend.Errorf(backend.NotFound, "no directory '%s' in %s", model, r.uri)
	}
	return files, nil
}
