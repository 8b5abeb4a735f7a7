package blob

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"
)

const (
	// parallel is how many ranges of all files of a repository are on their way at
	// once.
	parallel = 8
	// chunk is the length of a range.
	chunk = 8 << 20
)

// downloader brings objects into a cache.
type downloader struct {
	store store
	slots chan struct{} // one for each range on its way
	pause time.Duration // before the second attempt
}

func newDownloader(s store, pause time.Duration) *downloader {
	return &downloader{store: s, slots: make(chan struct{}, parallel), pause: pause}
}

// all downloads the files that are not in dir yet. The first failure stops the
// other downloads. Files that have arrived are kept for the next time.
func (d *downloader) all(ctx context.Context, dir string, files []file) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var wg sync.WaitGroup
	width := make(chan struct{}, 2*parallel) // files that are open at once
	for _, f := range files {
		if strings.HasSuffix(f.path, "/") || ctx.Err() != nil {
			continue
		}
		width <- struct{}{}
		wg.Go(func() {
			defer func() { <-width }()
			if err := d.one(ctx, filepath.Join(dir, key(f.object)), f.object); err != nil {
				cancel(fmt.Errorf("%s: %w", f.key, err))
			}
		})
	}
	wg.Wait()
	return context.Cause(ctx)
}

// one brings an object to path, which appears when all of it is there and has
// been checked.
func (d *downloader) one(ctx context.Context, path string, o object) error {
	if _, err := os.Stat(path); err == nil || !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if o.size < 0 {
		return errors.New("the store gives no size")
	}
	p, err := openPart(path)
	if err != nil {
		return err
	}
	defer p.close()
	if err := p.file.Truncate(o.size); err != nil {
		return err
	}
	if err := d.ranges(ctx, p, o); err != nil {
		return err
	}
	if err := d.verify(ctx, p, o); err != nil {
		p.discard()
		return err
	}
	if err := p.file.Sync(); err != nil {
		return err
	}
	at := stampTime(o)
	if err := os.Chtimes(p.path, at, at); err != nil {
		return err
	}
	if !sweeps {
		p.close() // an open file can be renamed or removed on some systems only
	}
	if err := os.Rename(p.path, path); err != nil {
		return err
	}
	_ = os.Remove(p.path + doneSuffix) // it belongs to a file that is no more
	return nil
}

// stampTime returns the time of the local file: equal for equal objects and
// different for others, also those of one second, so that a reload can tell what
// has changed.
func stampTime(o object) time.Time {
	sum := crc32.ChecksumIEEE([]byte(o.etag))
	return o.modified.Truncate(time.Second).Add(time.Duration(sum % 1e9))
}

func (d *downloader) ranges(ctx context.Context, p *part, o object) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var wg sync.WaitGroup
	for i := int64(0); i*chunk < o.size && ctx.Err() == nil; i++ {
		if p.done[i] {
			continue
		}
		select {
		case d.slots <- struct{}{}:
		case <-ctx.Done():
			continue
		}
		wg.Go(func() {
			defer func() { <-d.slots }()
			if err := d.piece(ctx, p, o, i*chunk, min(chunk, o.size-i*chunk)); err != nil {
				cancel(err)
				return
			}
			if o.size <= chunk {
				return // nothing to go on with
			}
			if err := p.mark(i); err != nil {
				cancel(err)
			}
		})
	}
	wg.Wait()
	return context.Cause(ctx)
}

// piece brings one range; after a failure it goes on where that came.
func (d *downloader) piece(ctx context.Context, p *part, o object, offset, length int64) error {
	var last error
	for attempt := 0; attempt < patience(last); attempt++ {
		if attempt > 0 {
			if err := pause(ctx, d.pause, attempt, last); err != nil {
				return last
			}
		}
		n, err := d.stretch(ctx, p, o, offset, length)
		if err == nil {
			return nil
		}
		if last = err; !temporary(err) || ctx.Err() != nil {
			return err
		}
		if n > 0 {
			attempt = 0 // it moves
		}
		offset, length = offset+n, length-n
	}
	return last
}

// stretch reads length bytes at offset into the same place of p. It returns how
// many have come.
func (d *downloader) stretch(ctx context.Context, p *part, o object, offset, length int64) (int64, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	watchdog := time.AfterFunc(stall, func() { cancel(errStalled) })
	defer watchdog.Stop()
	body, err := d.store.read(ctx, o, offset, length)
	if err != nil {
		if errors.Is(context.Cause(ctx), errStalled) {
			err = errStalled
		}
		return 0, err
	}
	defer body.Close()
	if s, ok := body.(*summed); ok {
		p.sum = &s.sum // of a file of one range, which nobody else reads
	}
	buf := make([]byte, 128<<10)
	var n int64
	for n < length {
		k, err := body.Read(buf[:min(int64(len(buf)), length-n)])
		if k > 0 {
			watchdog.Reset(stall)
			if _, err := p.file.WriteAt(buf[:k], offset+n); err != nil {
				return n, &diskError{err}
			}
			n += int64(k)
		}
		switch {
		case n == length:
		case errors.Is(err, io.EOF):
			return n, io.ErrUnexpectedEOF
		case errors.Is(context.Cause(ctx), errStalled):
			return n, errStalled
		case err != nil:
			return n, err
		}
	}
	return n, nil
}

var errStalled = errors.New("the transfer has stalled")

// diskError is a failure that another attempt does not mend.
type diskError struct{ err error }

func (e *diskError) Error() string { return e.err.Error() }
func (e *diskError) Unwrap() error { return e.err }

// verify holds a whole file against the store's checksum, if there is one.
func (d *downloader) verify(ctx context.Context, p *part, o object) (err error) {
	var sum checksum
	if p.sum != nil {
		sum = *p.sum
	} else {
		sum, err = d.store.checksum(ctx, o)
	}
	if err != nil || sum.make == nil {
		return err
	}
	h := sum.make()
	if _, err := io.Copy(h, io.NewSectionReader(p.file, 0, o.size)); err != nil {
		return err
	}
	if got := h.Sum(nil); string(got) != string(sum.want) {
		return fmt.Errorf("the %s checksum of the download is %s, the store says %s", sum.name, hex.EncodeToString(got),
			hex.EncodeToString(sum.want))
	}
	return nil
}

// part is a file that is being downloaded. Which ranges are there is noted in a
// second file, so that another server can go on with it.
type part struct {
	path string
	file *os.File
	done map[int64]bool
	sum  *checksum // what the store said while it was read, nil for nothing

	mu   sync.Mutex
	note *os.File
}

const (
	partSuffix = ".part"
	doneSuffix = ".done"
)

func openPart(path string) (*part, error) {
	p := &part{path: path + partSuffix, done: map[int64]bool{}}
	var err error
	if p.file, err = os.OpenFile(p.path, os.O_CREATE|os.O_RDWR, 0o600); err != nil {
		return nil, err
	}
	if !lock(p.file) { // another server is at it
		p.file.Close()
		if p.file, err = os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*"+partSuffix); err != nil {
			return nil, err
		}
		p.path = p.file.Name()
	}
	noted, err := os.ReadFile(p.path + doneSuffix)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		p.file.Close()
		return nil, err
	}
	for line := range strings.Lines(string(noted)) {
		// A line that was cut off is one that does not end.
		if n, err := strconv.ParseInt(strings.TrimSuffix(line, "\n"), 10, 64); err == nil && strings.HasSuffix(line, "\n") {
			p.done[n] = true
		}
	}
	if p.note, err = os.OpenFile(p.path+doneSuffix, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600); err != nil {
		p.file.Close()
		return nil, err
	}
	return p, nil
}

// mark notes that a range is there, once it is on the disk.
func (p *part) mark(i int64) error {
	if err := p.file.Sync(); err != nil {
		return &diskError{err}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	_, err := p.note.WriteString(strconv.FormatInt(i, 10) + "\n")
	return err
}

func (p *part) close() {
	p.file.Close()
	p.note.Close()
}

// discard removes what turned out to be wrong.
func (p *part) discard() {
	if !sweeps {
		p.close() // as above
	}
	_ = os.Remove(p.path + doneSuffix) // without it everything is read again
	_ = os.Remove(p.path)
}
