// Package image owns `neso image`, which puts models, Python packages and the server
// into a container image. Open build.go first; internal/image has the images.
package image

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/spf13/cobra"

	"github.com/nesoserve/neso/internal/image"
)

// build are the options of `neso image build`.
type build struct {
	base, models, requirements, python, pythonVersion string
	binary, output, tag, push                         string
	platforms                                         []string
	labels, env                                       map[string]string
	unchecked                                         bool

	stdout, stderr io.Writer
	check          Check
	at             time.Time
}

// Check prints to out what is wrong with a model repository, and says whether nothing
// is.
type Check func(out io.Writer, repository string) (bool, error)

// Command is `neso image`.
func Command(stdout, stderr io.Writer, check Check) *cobra.Command {
	b := &build{stdout: stdout, stderr: stderr, check: check}
	c := &cobra.Command{
		Use:   "build",
		Short: "Put models, Python packages and the server into a container image",
		Long: `Makes an image on a base, without a daemon, and writes it to a file for docker
load, to a directory as an OCI image layout, or into a registry.

The base is a file of docker save, a directory of the OCI image layout, or the name
of an image in a registry. If it has no neso, this program becomes a layer of it, so
any image with glibc and Python will do. The same base, files and options give the
same digest; SOURCE_DATE_EPOCH is the time of everything in it, default 1970.

Of the packages of --requirements only wheels are taken. The image runs as user
65532, needs no writable file but /tmp, and serves /models.`,
		Example: "  neso image build --base python:3.12-slim --model-repository models -f requirements.txt -o image.tar\n" +
			"  neso image build --base build/images/neso-python-amd64.tar --model-repository models --push registry.example.com/models:1",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := b.complete(); err != nil {
				return err
			}
			return b.run(cmd.Context())
		},
	}
	f := c.Flags()
	f.StringVar(&b.base, "base", "", "the image to build on; required")
	f.StringVar(&b.models, "model-repository", "", "directory of models that becomes /models")
	f.StringVarP(&b.requirements, "requirements", "f", "", "file of Python packages, as for pip install -r")
	f.StringVar(&b.python, "python", "python3", "Python of this machine, whose pip installs")
	f.StringVar(&b.pythonVersion, "python-version", "", "version of the image's Python, such as 3.11; default what the base says of itself")
	f.StringVar(&b.binary, "binary", "", "the neso for the image, for one platform; default this program")
	f.StringSliceVar(&b.platforms, "platform", []string{"linux/" + runtime.GOARCH}, "linux/amd64, linux/arm64, or both")
	f.StringVarP(&b.output, "output", "o", "", "file ending in .tar, or a new directory for an OCI image layout")
	f.StringVarP(&b.tag, "tag", "t", "neso-models:latest", "name of the image in the file or directory")
	f.StringVar(&b.push, "push", "", "name in a registry to push to, such as registry.example.com/models:1")
	f.StringToStringVar(&b.labels, "label", nil, "labels, such as team=search")
	f.StringToStringVar(&b.env, "env", nil, "variables of the environment, such as OMP_NUM_THREADS=2")
	f.BoolVar(&b.unchecked, "unchecked", false, "take models whose configuration has faults")
	group := &cobra.Command{Use: "image", Short: "Make container images of models"}
	group.AddCommand(c)
	return group
}

// complete checks the options, all of them at once.
func (b *build) complete() error {
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	if b.base == "" {
		fault("--base is missing: expected a file of docker save, a directory of the OCI image layout, " +
			"or an image of a registry, such as python:3.12-slim")
	}
	if b.output == "" && b.push == "" {
		fault("--output or --push is missing: expected where the image goes")
	}
	for _, p := range b.platforms {
		if _, err := image.Platform(p); err != nil {
			fault("--platform: %w", err)
		}
	}
	if len(b.platforms) == 0 {
		fault("--platform: expected linux/amd64, linux/arm64, or both")
	}
	if len(b.platforms) > 1 && strings.HasSuffix(b.output, ".tar") {
		fault("--output=%s: a file holds one platform, got %s; a directory holds several", b.output, strings.Join(b.platforms, ", "))
	}
	if b.models != "" {
		if info, err := os.Stat(b.models); err != nil {
			fault("--model-repository: %w", err)
		} else if !info.IsDir() {
			fault("--model-repository=%s: expected a directory", b.models)
		}
	}
	at, err := sourceDate(os.Getenv("SOURCE_DATE_EPOCH"))
	if err != nil {
		faults = append(faults, err)
	}
	b.at = at
	return errors.Join(faults...)
}

// run makes the images and puts them where they belong.
func (b *build) run(ctx context.Context) (err error) {
	if b.models != "" && !b.unchecked {
		var said bytes.Buffer
		ok, err := b.check(&said, b.models)
		if err != nil || !ok {
			return errors.Join(fmt.Errorf("%sthe models of %s have faults: mend them, or take them with --unchecked", &said, b.models), err)
		}
	}
	work, err := os.MkdirTemp("", "neso-image-*")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(work)) }()
	var images []image.Built
	for _, text := range b.platforms {
		p, err := image.Platform(text)
		if err != nil {
			return err
		}
		dir, err := os.MkdirTemp(work, "platform-*")
		if err != nil {
			return err
		}
		built, err := b.image(ctx, dir, p)
		if err != nil {
			return err
		}
		images = append(images, image.Built{Image: built, Platform: p})
	}
	return b.put(ctx, images)
}

// put writes or pushes the images.
func (b *build) put(ctx context.Context, images []image.Built) error {
	if strings.HasSuffix(b.output, ".tar") {
		if err := image.Save(b.output, b.tag, images[0].Image); err != nil {
			return fmt.Errorf("--output: %w", err)
		}
	} else if b.output != "" {
		if err := image.Layout(b.output, b.tag, images); err != nil {
			return fmt.Errorf("--output: %w", err)
		}
	}
	for _, i := range images {
		digest, err := i.Image.Digest()
		if err != nil {
			return err
		}
		fmt.Fprintf(b.stdout, "%s %s %s\n", b.tag, i.Platform, digest)
	}
	if b.push == "" {
		return nil
	}
	pushed, err := image.Push(ctx, b.push, images)
	if err != nil {
		return fmt.Errorf("--push: %w", err)
	}
	fmt.Fprintf(b.stdout, "pushed %s\n", pushed)
	return nil
}

// image makes the image of a platform, whose layers lie in dir.
func (b *build) image(ctx context.Context, dir string, p v1.Platform) (v1.Image, error) {
	base, err := image.Open(ctx, b.base, p)
	if err != nil {
		return nil, fmt.Errorf("--base: %w", err)
	}
	c := image.Change{Env: map[string]string{}, Labels: map[string]string{}, Created: b.at}
	l := layers{build: b, dir: dir, change: &c, platform: p, base: base}
	if err := l.add(ctx); err != nil {
		return nil, err
	}
	maps.Copy(c.Env, b.env)
	maps.Copy(c.Labels, b.labels)
	return image.Build(base, p, c)
}

// leaveOut says what of a model repository is not for an image.
func leaveOut(name string, d fs.DirEntry) bool {
	base := filepath.Base(name)
	return d.IsDir() && (base == "__pycache__" || base == ".git") || base == ".DS_Store"
}
