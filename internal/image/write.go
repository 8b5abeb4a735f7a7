package image

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// Built is an image with its platform.
type Built struct {
	Image    v1.Image
	Platform v1.Platform
}

// Save writes an image as `docker load`, `podman load` and `ctr images import` read it.
// The file is there whole, or as it was.
func Save(file, tag string, image v1.Image) (err error) {
	ref, err := name.NewTag(tag)
	if err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(file), ".image-*.tar")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, f.Close(), os.Remove(f.Name()))
		}
	}()
	if err := tarball.Write(ref, image, f); err != nil {
		return err
	}
	if err := errors.Join(f.Chmod(0o644), f.Close()); err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return os.Rename(f.Name(), file)
}

// Layout writes images, one a platform, as an OCI image layout into a directory that
// is empty or not there.
func Layout(dir, tag string, images []Built) error {
	if files, err := os.ReadDir(dir); err == nil && len(files) > 0 {
		return fmt.Errorf("%s: expected an empty directory, it has %s", dir, files[0].Name())
	}
	to, err := layout.Write(dir, empty.Index)
	if err != nil {
		return err
	}
	for _, b := range images {
		p := b.Platform
		err := to.AppendImage(b.Image, layout.WithPlatform(p), layout.WithAnnotations(map[string]string{
			"org.opencontainers.image.ref.name": tag,
		}))
		if err != nil {
			return err
		}
	}
	return nil
}

// Push puts images into a registry, as an index if there are several, with the keys of
// Docker's configuration. It returns the digest.
func Push(ctx context.Context, to string, images []Built) (string, error) {
	ref, err := name.ParseReference(to)
	if err != nil {
		return "", fmt.Errorf("expected the name of an image in a registry, such as registry.example.com/models:1: %w", err)
	}
	options := []remote.Option{remote.WithContext(ctx), remote.WithAuthFromKeychain(authn.DefaultKeychain)}
	var digest v1.Hash
	if len(images) == 1 {
		if err := remote.Write(ref, images[0].Image, options...); err != nil {
			return "", err
		}
		digest, err = images[0].Image.Digest()
	} else {
		index := Index(images)
		if err := remote.WriteIndex(ref, index, options...); err != nil {
			return "", err
		}
		digest, err = index.Digest()
	}
	return ref.Context().Digest(digest.String()).String(), err
}

// Index returns the images as one, of which each platform takes its own.
func Index(images []Built) v1.ImageIndex {
	index := v1.ImageIndex(empty.Index)
	for _, b := range images {
		p := b.Platform
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: b.Image, Descriptor: v1.Descriptor{Platform: &p}})
	}
	return index
}
