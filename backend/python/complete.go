package python

import (
	"bytes"
	"context"
	"encoding/json"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/backend/internal/worker/supervise"
	"github.com/nesoserve/neso/internal/processors"
)

// Complete implements backend.Backend. The worker that ran
// auto_complete_config goes on to serve the first instance.
func (d *driver) Complete(ctx context.Context, cfg backend.Config) ([]byte, error) {
	if _, err := d.check(&cfg); err != nil {
		return nil, err
	}
	command, err := d.command(&cfg)
	if err != nil {
		return nil, err
	}
	name := cfg.Name + "_0_0"
	if len(cfg.Instances) > 0 {
		name = cfg.Instances[0].Name
	}
	processors.GiveWay()
	s, err := supervise.Launch(ctx, d.spec(&cfg, command, name))
	if err != nil {
		return nil, d.explain(command.Path, err)
	}
	answer, err := d.loadModel(ctx, s.Conn, &cfg, true)
	if err != nil {
		s.Kill()
		return nil, err
	}
	var body struct {
		Config json.RawMessage `json:"config"`
	}
	if err := json.Unmarshal(answer, &body); err != nil {
		s.Kill()
		return nil, backend.Errorf(backend.Internal, "auto_complete_config of model '%s': %v", cfg.Name, err)
	}
	d.warm.Keep(&cfg, s)
	if len(body.Config) == 0 || bytes.Equal(body.Config, []byte("null")) {
		return nil, nil
	}
	return body.Config, nil
}
