package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/nesoserve/neso/internal/image"
)

// pythonVersion is that of the interpreter in neso-python.
const pythonVersion = "3.11"

// numpy is what neso-python has beside the interpreter.
const numpy = "numpy==2.3.4\n"

// maker makes the images of one platform.
type maker struct {
	*release
	dir      string
	platform v1.Platform
	debian   debian
	layers   map[string]v1.Layer // by the tree they hold
}

// image makes one of the images: what changes most often is the last layer.
func (m *maker) image(ctx context.Context, kind string) (v1.Image, error) {
	c := image.Change{Created: m.at, Env: map[string]string{
		"PATH": "/usr/local/bin:/usr/bin:/bin", "SSL_CERT_FILE": "/etc/ssl/certs/ca-certificates.crt",
	}, Labels: map[string]string{}}
	steps := []step{{"system", m.system}}
	switch kind {
	default:
		return nil, errors.New("expected neso or neso-python")
	case "neso":
	case "neso-python":
		steps = append(steps, step{"interpreter", m.interpreter}, step{"packages", m.packages})
		c.Env["PYTHONPATH"], c.Env["NESO_BINARY"] = "/"+image.SitePackages, "/usr/bin/neso"
		c.Labels[image.LabelPython] = pythonVersion
	}
	for _, s := range append(steps, step{"server", m.server}) {
		l, err := m.layer(ctx, s)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", s.name, err)
		}
		c.Parts = append(c.Parts, image.Part{Layer: l, Comment: s.name})
	}
	image.Serve(&c, m.version, "serve", "--model-repository=/models")
	c.Labels["org.opencontainers.image.title"] = kind
	return image.Build(image.Scratch(), m.platform, c)
}

// step makes the tree of a layer.
type step struct {
	name string
	fill func(context.Context, *image.Tree) error
}

// layer makes a layer, once for all images that have it.
func (m *maker) layer(ctx context.Context, s step) (v1.Layer, error) {
	if l, ok := m.layers[s.name]; ok {
		return l, nil
	}
	t := image.NewTree()
	if err := s.fill(ctx, t); err != nil {
		return nil, err
	}
	l, err := t.Layer(m.dir, m.at)
	if err != nil {
		return nil, err
	}
	if m.layers == nil {
		m.layers = map[string]v1.Layer{}
	}
	m.layers[s.name] = l
	return l, nil
}

// system adds the C library, the certificates, and who users are. There is no shell
// and no package manager.
func (m *maker) system(ctx context.Context, t *image.Tree) error {
	packages, err := m.debian.add(ctx, t, systemPackages)
	if err != nil {
		return err
	}
	certificates, err := m.debian.certificates()
	if err != nil {
		return err
	}
	for name, content := range map[string]string{
		"etc/passwd":                        "root:x:0:0:root:/root:/usr/sbin/nologin\nneso:x:65532:65532:neso:/tmp:/usr/sbin/nologin\n",
		"etc/group":                         "root:x:0:\nneso:x:65532:\n",
		"etc/nsswitch.conf":                 "hosts: files dns\n",
		"etc/ssl/certs/ca-certificates.crt": certificates,
		"etc/ld.so.conf":                    "/usr/local/lib\n/lib/" + m.debian.triplet() + "\n/usr/lib/" + m.debian.triplet() + "\n",
	} {
		if err := t.File(name, 0o644, []byte(content)); err != nil {
			return err
		}
	}
	if err := t.Dir("tmp", os.ModeSticky|0o777); err != nil {
		return err
	}
	return m.list(t, "system", packages)
}

// interpreter adds Python without what nobody serves models with.
func (m *maker) interpreter(ctx context.Context, t *image.Tree) error {
	packages, err := m.debian.add(ctx, t, pythonPackages())
	if err != nil {
		return err
	}
	if err := t.Link("usr/bin/python3", "python"+pythonVersion); err != nil {
		return err
	}
	if err := t.Link("usr/bin/python", "python3"); err != nil {
		return err
	}
	return m.list(t, "python", packages)
}

// packages adds numpy and the package neso.
func (m *maker) packages(ctx context.Context, t *image.Tree) error {
	file := filepath.Join(m.dir, "requirements.txt")
	if err := os.WriteFile(file, []byte(numpy), 0o600); err != nil {
		return err
	}
	into := filepath.Join(m.dir, "site")
	r := &image.Requirements{File: file, Interpreter: m.python, Version: pythonVersion, Platform: m.platform, Output: os.Stderr}
	if err := r.Install(ctx, into); err != nil {
		return err
	}
	for _, name := range []string{"neso", "neso_runtime", "neso_worker"} {
		if err := os.CopyFS(filepath.Join(into, name), os.DirFS(filepath.Join("python", name))); err != nil {
			return err
		}
	}
	if err := uncompile(into); err != nil {
		return err
	}
	if _, err := r.Compile(ctx, into); err != nil {
		return err
	}
	if err := t.CopyDir(image.SitePackages, into, nil); err != nil {
		return err
	}
	list, err := t.PythonPackages()
	if err != nil {
		return err
	}
	return m.list(t, "numpy", list)
}

// uncompile removes what interpreters have compiled in our checkout: it differs from
// machine to machine.
func uncompile(dir string) error {
	return filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() || d.Name() != "__pycache__" {
			return err
		}
		if err := os.RemoveAll(name); err != nil {
			return err
		}
		return fs.SkipDir
	})
}

// server adds the program.
func (m *maker) server(_ context.Context, t *image.Tree) error {
	file := filepath.Join(m.programs, "neso-"+m.platform.Architecture)
	packages, err := image.GoPackages(file)
	if err != nil {
		return err
	}
	return image.AddServer(t, file, packages, m.at)
}

// list writes the list of what a layer has.
func (m *maker) list(t *image.Tree, name string, packages []image.Package) error {
	text, err := image.SBOM(name, m.at, packages)
	if err != nil {
		return err
	}
	return t.File(path.Join(image.SBOMDir, name+".spdx.json"), 0o644, text)
}

// compressed returns the bytes that an image takes in a registry.
func compressed(i v1.Image) (size int64, err error) {
	m, err := i.Manifest()
	if err != nil {
		return 0, err
	}
	size = m.Config.Size
	for _, l := range m.Layers {
		size += l.Size
	}
	return size, nil
}
