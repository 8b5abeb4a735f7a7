package responsecache

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"github.com/nesoserve/neso/backend"
)

// DefaultDirectory is where the peer looks for caches by default.
const DefaultDirectory = "/opt/tritonserver/caches"

const (
	// lookUpLimit bounds what a request waits for a library. One that takes longer is
	// not asked any more until it answers again.
	lookUpLimit = 500 * time.Millisecond
	// writeLimit bounds an insertion, and a probe, for which no request waits.
	writeLimit = 10 * time.Second
)

// library keeps entries in a cache that is a library, which runs in a process of its
// own. It is as a server of Redis is: what it returns is not believed, and while it does
// not answer nobody asks it. Values are those of the codec.
type library struct {
	outside
	cache   backend.Cache
	failing atomic.Bool // an error of a look-up has been logged
}

// openLibrary starts the library of a cache that is not built in.
func openLibrary(ctx context.Context, o Options) (Store, error) {
	file := "libtritoncache_" + o.Name + ".so"
	directory := o.Directory
	if directory == "" {
		directory = DefaultDirectory
	}
	if o.Name == "." || strings.ContainsAny(o.Name, "/\\\x00") || !filepath.IsLocal(o.Name) {
		return nil, backend.Errorf(backend.InvalidArg, "invalid cache name '%s', the name must not contain path traversal characters", o.Name)
	}
	path := filepath.Join(directory, o.Name, file)
	if info, err := os.Stat(path); err != nil || !info.Mode().IsRegular() {
		return nil, backend.Errorf(backend.InvalidArg, "unable to find '%s' for cache. Searched: %s; "+o.Words.Name("cache-config")+
			" knows the caches 'local' and 'redis' without a library", file, filepath.Clean(directory))
	}
	if o.Libraries == nil {
		return nil, backend.Errorf(backend.Unsupported, "this server runs no libraries of response caches: '%s'", o.Name)
	}
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	config := []byte(o.Text)
	if o.Text == "" {
		if o.Settings == nil {
			o.Settings = map[string]string{}
		}
		if config, err = json.Marshal(o.Settings); err != nil {
			return nil, err
		}
	}
	l := &library{}
	of := backend.Library{Name: o.Name, Path: path, Logger: o.Logger, Host: o.Host}
	if l.cache, err = o.Libraries.Cache(ctx, of, config); err != nil {
		return nil, err
	}
	l.outside = outside{o: o, end: l.cache.Close}
	l.circuit.init(o.Logger, file, l.probe)
	l.writer.init(l.write)
	return l, nil
}

// probe asks for something that is not there, as a look-up does.
func (l *library) probe(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, writeLimit)
	defer cancel()
	_, release, err := l.cache.Lookup(ctx, prefix+"probe")
	release()
	if err != nil && backend.AsError(err).Code != backend.Unavailable {
		return nil // it answers
	}
	return err
}

func (l *library) Lookup(ctx context.Context, k Key) *Entry {
	e, ask := l.begin(k)
	if !ask {
		return e
	}
	// A client that leaves says nothing of the library.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lookUpLimit)
	defer cancel()
	value, release, err := l.cache.Lookup(ctx, prefix+k.String())
	defer release()
	switch {
	case err != nil && backend.AsError(err).Code == backend.Unavailable:
		l.circuit.open(err)
		return nil
	case err != nil:
		l.circuit.failures.Add(1)
		if !l.failing.Swap(true) {
			l.o.Logger.Warn("the response cache fails to look up; what it says further is counted, and not logged", "cache", l.o.Name, "error", err)
		}
		return nil
	}
	if value == nil {
		return nil
	}
	return l.found(value, k)
}

// write hands the library one entry after the other.
func (l *library) write(batch []write) {
	for _, x := range batch {
		if !l.circuit.closed() {
			l.writer.dropped.Add(1)
			continue
		}
		l.store(x)
	}
}

func (l *library) store(x write) {
	ctx, cancel := context.WithTimeout(l.writer.life, writeLimit)
	defer cancel()
	err := l.cache.Insert(ctx, prefix+x.key.String(), encode(make([]byte, 0, x.size), x.key, l.writer.entry(x)))
	switch {
	case err == nil:
		l.refusing = false
	case l.writer.life.Err() != nil, backend.AsError(err).Code == backend.AlreadyExists:
	case backend.AsError(err).Code == backend.Unavailable:
		l.writer.dropped.Add(1)
		l.circuit.open(err)
	default:
		l.writer.dropped.Add(1)
		if !l.refusing {
			l.refusing = true
			l.o.Logger.Warn("the response cache refuses to store responses", "cache", l.o.Name, "error", err)
		}
	}
}
