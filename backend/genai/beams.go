package genai

import (
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/nesoserve/neso/backend"
)

// beamsCopy is a second copy of the network of a model whose texts are computed
// together: the library searches beams in it. It has weights of its own, so it is
// loaded for the first search, and freed some time after the last one.
type beamsCopy struct {
	load func() (*network, error)
	free func(*network)

	mu      sync.Mutex
	network *network
	users   int
	timer   *time.Timer // ends it; nil while it is used
	closed  bool
}

// stayForBeams is how long the weights stay: to load them again takes seconds.
const stayForBeams = time.Minute

// take returns the network to one user, who gives it back.
func (c *beamsCopy) take() (*network, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, errEnded
	}
	if c.network == nil {
		n, err := c.load()
		if err != nil {
			return nil, err
		}
		c.network = n
	}
	if c.timer != nil {
		c.timer.Stop()
		c.timer = nil
	}
	c.users++
	return c.network, nil
}

func (c *beamsCopy) giveBack() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.users--; c.users > 0 || c.closed {
		return
	}
	var t *time.Timer
	t = time.AfterFunc(stayForBeams, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.timer == t { // else somebody came
			c.freeLocked()
		}
	})
	c.timer = t
}

func (c *beamsCopy) freeLocked() {
	c.timer = nil
	if c.network != nil {
		c.free(c.network)
		c.network = nil
	}
}

// close frees it. Nobody uses it any more: the instances have ended.
func (c *beamsCopy) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	if c.timer != nil {
		c.timer.Stop()
	}
	c.freeLocked()
}

// loadForBeams loads the weights a second time.
func (m *model) loadForBeams() (*network, error) {
	n := &network{api: m.network.api, settings: m.network.settings}
	if err := n.load(&m.cfg); err != nil {
		n.close()
		return nil, backend.Errorf(backend.Unavailable, "model '%s' cannot be loaded for a search of beams: %v", m.cfg.Name, err)
	}
	bytes := weights(&m.cfg)
	m.gauge.setCopy(bytes)
	m.driver.host.Logger().Info("weights are loaded a second time, for a search of beams", "model", m.cfg.Name, "version", m.cfg.Version,
		"bytes", bytes)
	return n, nil
}

func (m *model) freeForBeams(n *network) {
	n.close()
	m.gauge.setCopy(0)
}

// weights is how many bytes the files of a network have: all of the version but what is text.
func weights(cfg *backend.Config) (sum int64) {
	_ = filepath.WalkDir(cfg.VersionDirectory, func(path string, d fs.DirEntry, err error) error { // what cannot be read counts nothing
		if err != nil || d.IsDir() || filepath.Ext(path) == ".json" {
			return nil
		}
		if info, err := os.Stat(path); err == nil {
			sum += info.Size()
		}
		return nil
	})
	return sum
}
