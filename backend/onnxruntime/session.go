package onnxruntime

import (
	"os"
	"path/filepath"
	"sync/atomic"
	"unsafe"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/backend/internal/modelfile"
)

// session is a loaded model. ONNX Runtime lets any number of threads run it.
type session struct {
	env            *environment
	handle         uintptr
	inputs         []tensorInfo // those without a default value, in the model's order
	initializers   []tensorInfo // inputs with a default value
	outputs        []tensorInfo
	arena          uintptr      // what it takes memory from, 0 where that does not tell
	uses           atomic.Int64 // its owner, and outputs in memory of the session
	stamp, options string
}

// defaultFilename is the file of a version, also inside a directory that is
// named as the model's file.
const defaultFilename = "model.onnx"

// modelFile returns the path of the model.
func modelFile(cfg *backend.Config) (string, error) {
	name := cfg.Filename
	if name == "" {
		name = defaultFilename
	}
	path, err := modelfile.Path(cfg, name)
	if err != nil {
		return "", err
	}
	info, err := os.Stat(path)
	if err == nil && info.IsDir() {
		path = filepath.Join(path, defaultFilename)
		if err := modelfile.Plain(cfg, path); err != nil {
			return "", err
		}
		info, err = os.Stat(path)
	}
	if err != nil || info.IsDir() {
		return "", backend.Errorf(backend.Unavailable, "unable to find '%s' for model instance '%s'", hidePaths(cfg, path), cfg.Name)
	}
	return path, nil
}

// newSession loads the model of a version.
func (e *environment) newSession(cfg *backend.Config, o *sessionOptions) (*session, error) {
	path, err := modelFile(cfg)
	if err != nil {
		return nil, err
	}
	if err := checkFile(cfg, path); err != nil {
		return nil, err
	}
	if err := modelfile.External(cfg, path); err != nil {
		return nil, err
	}
	options, err := e.build(o, cfg)
	if err != nil {
		return nil, explain(err, cfg, path, e)
	}
	defer e.release(fnReleaseSessionOptions, options)
	s := &session{env: e, stamp: modelfile.Stamp(path), options: o.key()}
	p := pathArgument(path)
	// The threads of the session stay where the one is that makes it.
	fault := o.affinity.Run(func() error {
		err = e.call(fnCreateSession, e.env, uintptr(unsafe.Pointer(p)), options, uintptr(unsafe.Pointer(&s.handle)))
		return nil
	})
	if fault != nil {
		return nil, backend.Errorf(backend.InvalidArg, "%v", fault)
	}
	if err != nil {
		return nil, explain(err, cfg, path, e)
	}
	e.uses.Add(1)
	s.uses.Store(1)
	s.findArena()
	if err := s.introspect(); err != nil {
		s.Drop()
		return nil, explain(err, cfg, path, e)
	}
	return s, nil
}

// Drop ends one use of the session; the last one frees it.
func (s *session) Drop() {
	if s.uses.Add(-1) > 0 {
		return
	}
	s.env.release(fnReleaseAllocator, s.arena)
	s.env.release(fnReleaseSession, s.handle)
	s.env.drop()
}
