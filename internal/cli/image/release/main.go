// Command release makes the project's container images (`make images`): neso, the
// server with what it needs to start, and neso-python, with an interpreter and numpy
// too. Open main.go, then debian.go, which takes Debian's packages apart.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"time"

	"github.com/nesoserve/neso/internal/image"
)

// release are the options.
type release struct {
	out, programs, lock, version, python string
	update                               bool
	architectures, kinds                 []string
	at                                   time.Time
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	r := &release{}
	var architectures, kinds string
	var seconds int64
	flag.StringVar(&r.out, "out", "build/images", "directory for the images, a file and a layout each")
	flag.StringVar(&r.programs, "programs", "", "directory of neso-amd64 and neso-arm64")
	flag.StringVar(&r.lock, "lock", "scripts/images.lock", "versions and digests of Debian's packages")
	flag.BoolVar(&r.update, "update", false, "take the newest packages, and write them into the lock")
	flag.StringVar(&r.version, "version", "dev", "version of the server")
	flag.StringVar(&r.python, "python", "python3", "Python with pip, which installs numpy into neso-python")
	flag.StringVar(&architectures, "architectures", "amd64,arm64", "for which processors")
	flag.StringVar(&kinds, "kinds", "neso,neso-python", "which images")
	flag.Int64Var(&seconds, "time", 0, "the time of everything in the images, in seconds since 1970")
	flag.Parse()
	r.architectures, r.kinds, r.at = strings.Split(architectures, ","), strings.Split(kinds, ","), time.Unix(seconds, 0)
	if err := r.run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "images:", err)
		os.Exit(1)
	}
}

// run makes each image for each architecture.
func (r *release) run(ctx context.Context) (err error) {
	work, err := os.MkdirTemp("", "neso-images-*")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(work)) }()
	if err := os.MkdirAll(r.out, 0o755); err != nil {
		return err
	}
	lock, err := readLock(r.lock)
	if err != nil {
		return err
	}
	all := map[string][]image.Built{}
	for _, architecture := range r.architectures {
		p, err := image.Platform("linux/" + architecture)
		if err != nil {
			return err
		}
		dir := filepath.Join(work, architecture)
		packages := debian{dir: filepath.Join(dir, "debian"), architecture: architecture, lock: lock, update: r.update}
		m := &maker{release: r, dir: dir, platform: p, debian: packages}
		if err := os.MkdirAll(m.debian.dir, 0o755); err != nil {
			return err
		}
		for _, kind := range r.kinds {
			built, err := m.image(ctx, kind)
			if err != nil {
				return fmt.Errorf("%s for %s: %w", kind, p, err)
			}
			all[kind] = append(all[kind], image.Built{Image: built, Platform: p})
		}
	}
	for kind, images := range all {
		if err := r.write(kind, images); err != nil {
			return err
		}
	}
	if r.update {
		return lock.write(r.lock)
	}
	return nil
}

// write puts the images of a kind where they belong, and says what they are.
func (r *release) write(kind string, images []image.Built) error {
	tag := kind + ":" + strings.ReplaceAll(r.version, "+", "-")
	layout := filepath.Join(r.out, kind)
	if err := os.RemoveAll(layout); err != nil {
		return err
	}
	if err := image.Layout(layout, tag, images); err != nil {
		return err
	}
	for _, b := range images {
		if err := image.Save(filepath.Join(r.out, kind+"-"+b.Platform.Architecture+".tar"), tag, b.Image); err != nil {
			return err
		}
		digest, err := b.Image.Digest()
		if err != nil {
			return err
		}
		size, err := compressed(b.Image)
		if err != nil {
			return err
		}
		fmt.Printf("%s %s %s %.1f MB\n", tag, b.Platform, digest, float64(size)/1e6)
	}
	return nil
}
