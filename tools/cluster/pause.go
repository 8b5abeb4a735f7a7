package main

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
)

// pause is the image of a pod's first process, which holds the pod's namespaces: this
// program, with the argument pause.
const pause = "docker.io/neso/pause:local"

// hold is that process: it takes in what has lost its parent, until it is told to end.
func hold() {
	c := make(chan os.Signal, 8)
	signal.Notify(c, syscall.SIGCHLD, syscall.SIGINT, syscall.SIGTERM)
	for s := range c {
		if s != syscall.SIGCHLD {
			return
		}
		for {
			if pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil); pid <= 0 || err != nil {
				break
			}
		}
	}
}

// loadPause writes the image, an archive as docker save makes them, and imports it.
func (l layout) loadPause() error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	program, err := os.ReadFile(self)
	if err != nil {
		return err
	}
	layer, err := archive(map[string][]byte{"cluster": program})
	if err != nil {
		return err
	}
	config, err := json.Marshal(map[string]any{
		"architecture": "amd64", "os": "linux", "config": map[string]any{"Entrypoint": []string{"/cluster", "pause"}},
		"rootfs": map[string]any{"type": "layers", "diff_ids": []string{fmt.Sprintf("sha256:%x", sha256.Sum256(layer))}},
	})
	if err != nil {
		return err
	}
	manifest, err := json.Marshal([]any{map[string]any{"Config": "config.json", "RepoTags": []string{pause}, "Layers": []string{"layer.tar"}}})
	if err != nil {
		return err
	}
	image, err := archive(map[string][]byte{"config.json": config, "layer.tar": layer, "manifest.json": manifest})
	if err != nil {
		return err
	}
	file := filepath.Join(l.run, "pause.tar")
	if err := os.WriteFile(file, image, 0o644); err != nil {
		return err
	}
	return l.load([]string{file})
}

// archive returns a tar of files that may be executed.
func archive(files map[string][]byte) ([]byte, error) {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for name, text := range files {
		if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o755, Size: int64(len(text))}); err != nil {
			return nil, err
		}
		if _, err := w.Write(text); err != nil {
			return nil, err
		}
	}
	return b.Bytes(), w.Close()
}
