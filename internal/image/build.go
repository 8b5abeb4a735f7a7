package image

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// Labels that images of ours have, beside those of the OCI.
const (
	LabelVersion = "io.neso.version" // of the server in it
	LabelPython  = "io.neso.python"  // such as 3.11, where it has one
)

// Part is one layer, with what the history of the image says of it.
type Part struct {
	Layer   v1.Layer
	Comment string
}

// Change is what an image has that its base has not. Values that are zero leave those
// of the base.
type Change struct {
	Parts      []Part
	Entrypoint []string
	Command    []string
	Env        map[string]string
	User       string // such as 65532:65532
	Directory  string
	Labels     map[string]string
	Ports      []int
	Created    time.Time
}

// Scratch is the base of images that have none.
func Scratch() v1.Image { return empty.Image }

// Build returns the base with a change. The same base and the same change give the
// same digest.
func Build(base v1.Image, p v1.Platform, c Change) (v1.Image, error) {
	parts := make([]mutate.Addendum, 0, len(c.Parts))
	for _, part := range c.Parts {
		parts = append(parts, mutate.Addendum{
			Layer:   part.Layer,
			History: v1.History{Created: v1.Time{Time: c.Created.UTC()}, CreatedBy: "neso image", Comment: part.Comment},
		})
	}
	image, err := mutate.Append(base, parts...)
	if err != nil {
		return nil, err
	}
	file, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	file = file.DeepCopy()
	file.OS, file.Architecture, file.Variant = p.OS, p.Architecture, p.Variant
	file.Created = v1.Time{Time: c.Created.UTC()}
	c.apply(&file.Config)
	if image, err = mutate.ConfigFile(image, file); err != nil {
		return nil, err
	}
	return mutate.ConfigMediaType(mutate.MediaType(image, types.OCIManifestSchema1), types.OCIConfigJSON), nil
}

// apply changes the configuration of an image.
func (c *Change) apply(config *v1.Config) {
	if c.Entrypoint != nil {
		config.Entrypoint, config.Cmd = c.Entrypoint, nil // the command was for the old one
	}
	if c.Command != nil {
		config.Cmd = c.Command
	}
	if c.User != "" {
		config.User = c.User
	}
	if c.Directory != "" {
		config.WorkingDir = c.Directory
	}
	for _, name := range slices.Sorted(maps.Keys(c.Env)) {
		config.Env = slices.DeleteFunc(config.Env, func(v string) bool { return strings.HasPrefix(v, name+"=") })
		config.Env = append(config.Env, name+"="+c.Env[name])
	}
	if len(c.Labels) > 0 && config.Labels == nil {
		config.Labels = map[string]string{}
	}
	maps.Copy(config.Labels, c.Labels)
	if len(c.Ports) > 0 && config.ExposedPorts == nil {
		config.ExposedPorts = map[string]struct{}{}
	}
	for _, port := range c.Ports {
		config.ExposedPorts[fmt.Sprintf("%d/tcp", port)] = struct{}{}
	}
}

// Label returns a label of an image, "" without.
func Label(image v1.Image, name string) string {
	c, err := image.ConfigFile()
	if err != nil {
		return ""
	}
	return c.Config.Labels[name]
}

// Variable returns a variable of an image's environment, "" without.
func Variable(image v1.Image, name string) string {
	c, err := image.ConfigFile()
	if err != nil {
		return ""
	}
	for _, v := range c.Config.Env {
		if value, ok := strings.CutPrefix(v, name+"="); ok {
			return value
		}
	}
	return ""
}

// Platform reads what --platform says: linux/amd64, linux/arm64.
func Platform(text string) (v1.Platform, error) {
	os, architecture, ok := strings.Cut(text, "/")
	if !ok || os != "linux" || architecture != "amd64" && architecture != "arm64" {
		return v1.Platform{}, errors.New("expected linux/amd64 or linux/arm64, got " + fmt.Sprintf("%q", text))
	}
	return v1.Platform{OS: os, Architecture: architecture}, nil
}
