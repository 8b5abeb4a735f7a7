package image

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// Open returns the image of a platform: from a file as `docker save` writes it, from a
// directory of the OCI image layout, or, where there is neither, from the registry that
// the name says, with the keys of Docker's configuration. An image for another platform
// is an error.
func Open(ctx context.Context, from string, p v1.Platform) (v1.Image, error) {
	image, err := open(ctx, from, p)
	if err != nil {
		return nil, fmt.Errorf("the image %s: %w", from, err)
	}
	c, err := image.ConfigFile()
	if err != nil {
		return nil, fmt.Errorf("the image %s: its configuration: %w", from, err)
	}
	if c.OS != p.OS || c.Architecture != p.Architecture {
		return nil, fmt.Errorf("the image %s is for %s/%s, not for %s/%s", from, c.OS, c.Architecture, p.OS, p.Architecture)
	}
	return image, nil
}

func open(ctx context.Context, from string, p v1.Platform) (v1.Image, error) {
	info, err := os.Stat(from)
	switch {
	case err == nil && info.IsDir():
		return openLayout(from, p)
	case err == nil:
		return tarball.ImageFromPath(from, nil)
	case !errors.Is(err, fs.ErrNotExist) || strings.HasSuffix(from, ".tar") || strings.HasPrefix(from, "/") || strings.HasPrefix(from, "."):
		return nil, err // a file was meant
	}
	ref, err := name.ParseReference(from)
	if err != nil {
		return nil, fmt.Errorf("neither a file, nor a directory, nor an image of a registry: %w", err)
	}
	return remote.Image(ref, remote.WithContext(ctx), remote.WithAuthFromKeychain(authn.DefaultKeychain), remote.WithPlatform(p))
}

// openLayout returns the only image of a layout, or the one for the platform.
func openLayout(dir string, p v1.Platform) (v1.Image, error) {
	index, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		return nil, fmt.Errorf("no OCI image layout: %w", err)
	}
	return ofPlatform(index, p, 0)
}

// deepest is how many indexes may lie in each other.
const deepest = 4

func ofPlatform(index v1.ImageIndex, p v1.Platform, depth int) (v1.Image, error) {
	m, err := index.IndexManifest()
	if err != nil {
		return nil, err
	}
	var seen []string
	for i := range m.Manifests {
		d := &m.Manifests[i]
		switch {
		case d.MediaType.IsIndex() && depth < deepest:
			inner, err := index.ImageIndex(d.Digest)
			if err != nil {
				return nil, err
			}
			if image, err := ofPlatform(inner, p, depth+1); err == nil {
				return image, nil
			}
		case d.MediaType.IsImage():
			only := d.Platform == nil && len(m.Manifests) == 1
			if only || d.Platform != nil && d.Platform.OS == p.OS && d.Platform.Architecture == p.Architecture {
				return index.Image(d.Digest)
			}
			if d.Platform != nil {
				seen = append(seen, d.Platform.String())
			}
		}
	}
	return nil, fmt.Errorf("has no image for %s, only for: %s", p, strings.Join(seen, ", "))
}
