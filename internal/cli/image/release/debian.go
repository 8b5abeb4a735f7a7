package main

import (
	"archive/tar"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/nesoserve/neso/internal/image"
)

// debian takes files out of Debian's packages for an architecture, which need not be
// this machine's. It changes nothing of this machine.
type debian struct {
	dir, architecture string
	lock              *lock
	update            bool
	ready             bool // the lists of packages are read
	certs             strings.Builder
}

// wanted is a package, and which of its files are taken.
type wanted struct {
	name string
	keep []string // patterns of path.Match, or the beginning of a path if it ends in /
	drop []string
}

// systemPackages are what the server needs to start, and to trust servers. Of the C
// library only what programs load.
var systemPackages = []wanted{
	{name: "libc6", keep: []string{
		"lib/*/ld-linux-*", "lib64/*", "lib/ld-linux-*", "lib/*/lib[cm].so.6", "lib/*/libdl.so.2", "lib/*/libpthread.so.0",
		"lib/*/librt.so.1", "lib/*/libresolv.so.2", "lib/*/libnss_dns.so.2", "lib/*/libnss_files.so.2", "lib/*/libmvec.so.1",
		"lib/*/libutil.so.1",
	}},
	{name: "ca-certificates", keep: []string{"usr/share/ca-certificates/"}},
	{name: "base-files", keep: []string{"usr/lib/os-release", "etc/os-release", "etc/debian_version"}},
}

// pythonPackages are the interpreter and the libraries of its modules.
func pythonPackages() []wanted {
	list := []wanted{
		{name: "python3.11-minimal", keep: []string{"usr/bin/python3.11"}},
		{name: "libpython3.11-minimal", keep: []string{"usr/lib/python3.11/", "etc/python3.11/"}},
		{name: "libpython3.11-stdlib", keep: []string{"usr/lib/python3.11/"}, drop: []string{
			"usr/lib/python3.11/pydoc_data/", "usr/lib/python3.11/test/", "usr/lib/python3.11/idlelib/", "usr/lib/python3.11/lib2to3/",
		}},
	}
	libraries := []string{
		"libexpat1", "zlib1g", "libssl3", "libffi8", "libbz2-1.0", "liblzma5", "libuuid1", "libsqlite3-0", "libcrypt1",
		"libgcc-s1", "libstdc++6",
	}
	for _, name := range libraries {
		list = append(list, wanted{name: name, keep: []string{"lib/", "usr/lib/"}})
	}
	return list
}

// triplet is how Debian names the architecture in paths.
func (d *debian) triplet() string {
	return map[string]string{"amd64": "x86_64", "arm64": "aarch64"}[d.architecture] + "-linux-gnu"
}

// add downloads packages and adds what is wanted of them to a tree.
func (d *debian) add(ctx context.Context, t *image.Tree, list []wanted) ([]image.Package, error) {
	var packages []image.Package
	for _, w := range list {
		file, err := d.download(ctx, w.name)
		if err != nil {
			return nil, fmt.Errorf("Debian's package %s for %s: %w", w.name, d.architecture, err) //nolint:staticcheck // a name
		}
		if err := d.unpack(ctx, t, file, w); err != nil {
			return nil, fmt.Errorf("%s: %w", filepath.Base(file), err)
		}
		control, err := exec.CommandContext(ctx, "dpkg-deb", "-f", file).Output()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", filepath.Base(file), err)
		}
		// Where tools that look for known vulnerabilities read what a system has.
		if err := t.File("var/lib/dpkg/status.d/"+w.name, 0o644, control); err != nil {
			return nil, err
		}
		packages = append(packages, image.Package{
			Kind: "deb", Name: w.name, Version: d.lock.at(d.architecture, w.name).version, Architecture: d.architecture,
		})
	}
	return packages, nil
}

// apt runs one of apt's programs with lists of its own.
func (d *debian) apt(ctx context.Context, args ...string) error {
	for _, dir := range []string{"lists/partial", "cache/archives/partial"} {
		if err := os.MkdirAll(filepath.Join(d.dir, dir), 0o755); err != nil {
			return err
		}
	}
	status := filepath.Join(d.dir, "status")
	if err := os.WriteFile(status, nil, 0o600); err != nil {
		return err
	}
	settings := []string{
		"-qq", "-o", "Dir::State::lists=" + filepath.Join(d.dir, "lists"), "-o", "Dir::State::status=" + status,
		"-o", "Dir::Cache=" + filepath.Join(d.dir, "cache"),
		"-o", "APT::Architecture=" + d.architecture, "-o", "APT::Architectures=" + d.architecture,
		"-o", "Debug::NoLocking=1", "-o", "APT::Sandbox::User=", "-o", "Acquire::Retries=3",
	}
	c := exec.CommandContext(ctx, "apt-get", append(settings, args...)...)
	c.Dir = d.dir
	out, err := c.CombinedOutput()
	if err != nil {
		return fmt.Errorf("apt-get %s: %w\n%s", strings.Join(args, " "), err, out)
	}
	return nil
}

// download returns the file of a package, of the version and with the digest that the
// lock says.
func (d *debian) download(ctx context.Context, name string) (string, error) {
	if !d.ready {
		if err := d.apt(ctx, "update"); err != nil {
			return "", err
		}
		d.ready = true
	}
	locked, what := d.lock.at(d.architecture, name), name
	if !d.update {
		if locked.version == "" {
			return "", errors.New("is not in the lock: `make images UPDATE=1` takes the newest")
		}
		what += "=" + locked.version
	}
	if err := d.apt(ctx, "download", what); err != nil {
		if !d.update {
			err = fmt.Errorf("%w\nDebian may have a newer one only: `make images UPDATE=1` takes it, and changes the lock", err)
		}
		return "", err
	}
	files, err := filepath.Glob(filepath.Join(d.dir, name+"_*.deb"))
	if err != nil || len(files) != 1 {
		return "", errors.Join(err, fmt.Errorf("expected one file of it, apt-get has made %d", len(files)))
	}
	content, err := os.ReadFile(files[0])
	if err != nil {
		return "", err
	}
	digest := sha256.Sum256(content)
	got := hex.EncodeToString(digest[:])
	if d.update {
		version, err := exec.CommandContext(ctx, "dpkg-deb", "-f", files[0], "Version").Output()
		if err != nil {
			return "", err
		}
		d.lock.set(d.architecture, name, locking{version: strings.TrimSpace(string(version)), sha256: got})
	} else if got != locked.sha256 {
		return "", fmt.Errorf("has the digest %s, the lock says %s", got, locked.sha256)
	}
	return files[0], nil
}

// unpack adds the files of a package that are wanted.
func (d *debian) unpack(ctx context.Context, t *image.Tree, file string, w wanted) error {
	c := exec.CommandContext(ctx, "dpkg-deb", "--fsys-tarfile", file)
	out, err := c.StdoutPipe()
	if err != nil {
		return err
	}
	if err := c.Start(); err != nil {
		return err
	}
	err = d.read(t, tar.NewReader(out), w)
	_, drained := io.Copy(io.Discard, out)
	return errors.Join(err, drained, c.Wait())
}

func (d *debian) read(t *image.Tree, archive *tar.Reader, w wanted) error {
	for {
		h, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		name := strings.TrimPrefix(path.Clean(h.Name), "/")
		if !matches(w.keep, name) && name != "usr/share/doc/"+w.name+"/copyright" || matches(w.drop, name) {
			continue
		}
		switch h.Typeflag {
		case tar.TypeSymlink:
			err = t.Link(name, h.Linkname)
		case tar.TypeReg:
			var content []byte
			if content, err = io.ReadAll(archive); err != nil {
				return err
			}
			if strings.HasPrefix(name, "usr/share/ca-certificates/") {
				d.certs.Write(append(content, '\n'))
				continue
			}
			err = t.File(name, h.FileInfo().Mode(), content)
		}
		if err != nil {
			return err
		}
	}
}

// certificates returns those of the package ca-certificates in one file.
func (d *debian) certificates() (string, error) {
	if d.certs.Len() == 0 {
		return "", fs.ErrNotExist
	}
	return strings.ReplaceAll(d.certs.String(), "\n\n", "\n"), nil
}

// matches says whether one of the patterns is that of a path.
func matches(patterns []string, name string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool {
		if strings.HasSuffix(p, "/") {
			return strings.HasPrefix(name, p)
		}
		ok, _ := path.Match(p, name)
		return ok
	})
}
