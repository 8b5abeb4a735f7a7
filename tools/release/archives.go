package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"
)

// file is one of an archive or a package.
type file struct {
	name    string
	content []byte
	mode    int64
}

// completions are where shells look for them, below share.
var completions = map[string]string{
	"bash": "share/bash-completion/completions/neso",
	"zsh":  "share/zsh/site-functions/_neso",
	"fish": "share/fish/vendor_completions.d/neso.fish",
}

// shared are the files that go with the program: manual and completions.
func (r *release) shared() ([]file, error) {
	manual, err := r.manual()
	if err != nil {
		return nil, err
	}
	var zipped bytes.Buffer
	if err := compress(&zipped, manual); err != nil {
		return nil, err
	}
	list := []file{{"share/man/man1/neso.1.gz", zipped.Bytes(), 0o644}}
	for _, shell := range []string{"bash", "fish", "zsh"} {
		text, err := os.ReadFile(filepath.Join(r.texts, "completion."+shell))
		if err != nil {
			return nil, err
		}
		list = append(list, file{completions[shell], text, 0o644})
	}
	return list, nil
}

// compress writes as gzip, without a name and a time.
func compress(w io.Writer, text []byte) error {
	z, err := gzip.NewWriterLevel(w, gzip.BestCompression)
	if err == nil {
		_, err = z.Write(text)
	}
	if err == nil {
		err = z.Close()
	}
	return err
}

// archive is the name of a platform's archive.
func (r *release) archive(p platform) string {
	name := fmt.Sprintf("neso-%s-%s", r.version, p)
	if p.os == "windows" {
		return name + ".zip"
	}
	return name + ".tar.gz"
}

// archives writes one for each platform.
func (r *release) archives() error {
	shared, err := r.shared()
	if err != nil {
		return err
	}
	for _, p := range platforms {
		program, err := os.ReadFile(r.source(p))
		if err != nil {
			return err
		}
		list := []file{{p.program(), program, 0o755}}
		for _, name := range []string{"LICENSE", "README.md", "CHANGELOG.md"} {
			text, err := os.ReadFile(filepath.Join(r.root, name))
			if err != nil {
				return err
			}
			list = append(list, file{name, text, 0o644})
		}
		write := writeZip
		if p.os != "windows" {
			list, write = append(list, shared...), writeTar
		}
		var b bytes.Buffer
		if err := write(&b, fmt.Sprintf("neso-%s-%s/", r.version, p), list, r.at); err != nil {
			return fmt.Errorf("%s: %w", r.archive(p), err)
		}
		if err := r.put(r.archive(p), b.Bytes()); err != nil {
			return err
		}
	}
	return nil
}

func writeTar(w io.Writer, prefix string, list []file, at time.Time) error {
	var b bytes.Buffer
	out := tar.NewWriter(&b)
	for _, f := range list {
		h := &tar.Header{
			Name: prefix + f.name, Mode: f.mode, Size: int64(len(f.content)), ModTime: at, Typeflag: tar.TypeReg, Format: tar.FormatUSTAR,
		}
		if err := out.WriteHeader(h); err != nil {
			return err
		}
		if _, err := out.Write(f.content); err != nil {
			return err
		}
	}
	if err := out.Close(); err != nil {
		return err
	}
	return compress(w, b.Bytes())
}

func writeZip(w io.Writer, prefix string, list []file, at time.Time) error {
	out := zip.NewWriter(w)
	for _, f := range list {
		// Its times begin in 1980.
		h := &zip.FileHeader{Name: prefix + f.name, Method: zip.Deflate, Modified: later(at, time.Date(1980, 1, 1, 0, 0, 0, 0, time.UTC))}
		h.SetMode(os.FileMode(f.mode))
		entry, err := out.CreateHeader(h)
		if err != nil {
			return err
		}
		if _, err := entry.Write(f.content); err != nil {
			return err
		}
	}
	return out.Close()
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
